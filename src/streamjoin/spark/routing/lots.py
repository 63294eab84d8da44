"""Lots: a number per row that follows from its contents alone, to deal rows to cores.

Dealing rows in turn would spread them best, but a row's turn depends on the order in which rows
come. If they come out of a shuffle, a task that is retried may see another order, while what its
first attempt sent has been used already: rows would be lost, or stored twice. Lots follow from the
rows alone, so order, batch and task do not matter.

All columns count, as keys alone may be equal. Of text, the length and eight bytes at either end
count; of lists and maps, nothing. Equal rows have equal lots.

Cost: about five nanoseconds per row and column, and twenty for text.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.kernels.compile import Flags, Int, Keys, Positions, kernel
from streamjoin.keys.hashing import NULL_HASH, mix

TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
EDGE = 8  # bytes at either end of a text


def draw_lots(batch: pa.RecordBatch, rows: Positions) -> Keys:
    """Return the lots of some rows."""
    lots = np.zeros(rows.size, np.int64)
    for column in batch.columns:
        mix_column(lots, column, rows)
    return lots


def mix_column(lots: Keys, column: pa.Array, rows: Positions) -> None:
    """Mix the values of a column into the lots of rows."""
    if pa.types.is_struct(column.type):
        for field in column.flatten():
            mix_column(lots, field, rows)
        return
    valid = np.empty(0, np.bool_)
    if column.null_count:  # what stands under NULL may be anything
        valid = column.is_valid().to_numpy(zero_copy_only=False)
    if column.type in TEXTS:
        mix_ends(lots, *bytes_of(column), valid, rows)
    else:
        for words in words_of(column):
            mix_words(lots, words, valid, rows)


def words_of(column: pa.Array) -> list[NDArray[np.unsignedinteger]]:
    """Return the bits of values of fixed width, in words of eight bytes; nothing for others."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if not pa.types.is_primitive(column.type) and not pa.types.is_decimal(column.type):
        return []
    width = column.type.bit_width // 8
    size, count = min(width, 8), column.offset + len(column)
    bits = np.frombuffer(column.buffers()[1] or b"", f"u{size}", count * (width // size))
    return list(bits.reshape(count, width // size)[column.offset :].T)


def bytes_of(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Return where each text begins and ends, and the bytes of all texts."""
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets or b"", np.int32 if column.type in TEXTS[:2] else np.int64)
    return places[column.offset :], np.frombuffer(data or b"", np.uint8)


@kernel
def fold(lot: Int, word: Int) -> Int:
    """Return a lot with a word mixed in; `deal` does the rest of the mixing."""
    folded = (np.uint64(lot) ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(folded ^ (folded >> np.uint64(32)))


@kernel
def mix_words(lots: Keys, words: NDArray[Any], valid: Flags, rows: Positions) -> None:
    """Mix one word per row into the lots of some rows."""
    for i in range(rows.size):
        if valid.size and not valid[rows[i]]:
            lots[i] = fold(lots[i], NULL_HASH)
        else:
            lots[i] = fold(lots[i], words[rows[i]])


@kernel
def mix_ends(
    lots: Keys, offsets: NDArray[Any], data: NDArray[np.uint8], valid: Flags, rows: Positions
) -> None:
    """Mix the length and both ends of one text per row into the lots of some rows."""
    for i in range(rows.size):
        if valid.size and not valid[rows[i]]:
            lots[i] = fold(lots[i], NULL_HASH)
            continue
        first, last = np.int64(offsets[rows[i]]), np.int64(offsets[rows[i] + 1])
        begin = read_word(data, first, min(first + EDGE, last))
        end = read_word(data, max(first, last - EDGE), last)
        lots[i] = fold(fold(fold(lots[i], last - first), begin), end)


@kernel
def read_word(data: NDArray[np.uint8], first: Int, last: Int) -> Int:
    """Return at most eight bytes as a number."""
    word = np.uint64(0)
    for place in range(first, last):
        word = (word << np.uint64(8)) | np.uint64(data[place])
    return word


@kernel
def deal(lots: Keys, cores: Int) -> NDArray[np.int32]:
    """Return a core for each lot: its upper half, scaled to the number of cores."""
    dealt = np.empty(lots.size, np.int32)
    for i in range(lots.size):
        dealt[i] = ((np.uint64(mix(lots[i])) >> np.uint64(32)) * np.uint64(cores)) >> np.uint64(32)
    return dealt
