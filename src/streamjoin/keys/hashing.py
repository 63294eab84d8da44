"""Hashes of equality values, the same on every machine and in every run.

A snapshot holds keys made from these hashes, so they may never change: a mixer for int64 keys
(the finaliser of SplitMix64) and, for strings and binary, the same over eight bytes at a time.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamjoin.kernels import Int, Keys, kernel

NULL_HASH = 0x243F6A8885A308D3  # any constant: where NULL equals NULL it needs a hash too


@kernel
def mix(value: Int) -> Int:
    """Scramble 64 bits so that every input bit reaches every output bit."""
    bits = np.uint64(value)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(bits ^ (bits >> np.uint64(31)))


@kernel
def mix_into(hashes: Keys, keys: Keys) -> None:
    """Fold one more column of keys into the running hashes."""
    for i in range(hashes.size):
        hashes[i] = mix(np.uint64(hashes[i]) * np.uint64(31) + np.uint64(keys[i]))


@kernel
def hash_slices(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> Keys:
    """Hash the bytes between neighbouring offsets."""
    hashes = np.empty(offsets.size - 1, np.int64)
    for i in range(hashes.size):
        first, last = offsets[i], offsets[i + 1]
        state = np.int64(last - first)
        for begin in range(first, last, 8):
            word = np.uint64(0)
            for at in range(begin, min(begin + 8, last)):
                word |= np.uint64(data[at]) << np.uint64(8 * (at - begin))
            state = mix(np.uint64(state) * np.uint64(31) + word)
        hashes[i] = mix(state)
    return hashes


def hash_bytes(array: pa.Array) -> Keys:
    """Return a 64-bit hash of each string or binary value; NULLs get any."""
    return hash_slices(*slices_of(array))


def slices_of(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets and bytes of strings or binary; NULL has no bytes."""
    array = array.cast(pa.large_binary())
    if array.null_count:
        array = pc.fill_null(array, b"")
    _, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or not len(array):
        return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    return offsets, np.frombuffer(data_buffer or b"", np.uint8)
