"""The blocks of a forest: leaves and inner nodes of its trees, which look alike, and their supply.

A block is contiguous and takes whole cache lines: keys, then cells, then a header (drawn with 4
places per block)::

    keys [ 31 44 50  - ]   cells [ 8 1 0 . ]   size 3, next: block 7, height 0

In a leaf, at height 0, cells are rows; in an inner node they are children. Unused keys are
``MAX_KEY``, so a whole block can be compared without a test. ``next`` is the following block on the
same level; in a freed block, the next free one.

The same memory is viewed as int64 numbers for keys and as int32 numbers for the rest. Places are
unsigned: Numba would test whether a signed one is negative, and these are the innermost loops.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels import atomics
from streamjoin.kernels.compile import MAX_KEY, Int, Keys, bare, inlined

NONE = -1
WIDTH = 62  # tuples of a leaf, children of a node: with their header, twelve cache lines
BLOCK = -(-(3 * WIDTH + 3) // (2 * atomics.LINE)) * atomics.LINE  # int64 numbers per block
CELLS = 2 * WIDTH  # where the cells of a block begin, counted in int32
SIZE, NEXT, HEIGHT = 3 * WIDTH, 3 * WIDTH + 1, 3 * WIDTH + 2  # the header, behind the cells
USED, FREE = 0, atomics.LINE  # places in ``supply``


class Forest(NamedTuple):
    """The arrays of all trees, as kernels take them; the first two are one memory."""

    keys: NDArray[np.int64]  # BLOCK numbers per block
    cells: NDArray[np.int32]  # twice as many
    supply: NDArray[np.int64]  # how many blocks have been used, and the first free one among them


def make_forest(trees: int, tuples: int) -> Forest:
    """Allocate a forest with room for ``tuples``, whatever their keys, if none is removed."""
    forest = reserve(blocks_for(trees, tuples))
    clear(forest, trees)
    return forest


def blocks_for(trees: int, tuples: int) -> int:
    """Return how many blocks suffice for ``tuples`` in ``trees``, whatever their keys.

    A block is divided when it is full, so all but the first and the last of a level are at least
    half full.
    """
    leaves = 2 * trees + 2 * (tuples // WIDTH + 1)
    return leaves + trees + 4 * (leaves // WIDTH + 8)


def reserve(blocks: int) -> Forest:
    """Allocate a forest of ``blocks`` blocks."""
    words = allocate_aligned(blocks * BLOCK)
    return Forest(words, words.view(np.int32), np.zeros(2 * atomics.LINE, np.int64))


def allocate_aligned(words: int) -> NDArray[np.int64]:
    """Allocate int64 numbers at the beginning of a cache line."""
    spare = np.empty(words + atomics.LINE, np.int64)
    offset = (-spare.ctypes.data // 8) % atomics.LINE
    return spare[offset : offset + words]


def grow_forest(forest: Forest, blocks: int | None = None) -> Forest:
    """Return the same trees with room for ``blocks``, or for twice as many as before."""
    grown = reserve(blocks or 2 * forest.keys.size // BLOCK)
    grown.keys[: forest.keys.size] = forest.keys
    grown.supply[:] = forest.supply
    return grown


@inlined
def cell_of(block: Int, place: Int) -> Int:
    """Return the index in ``cells`` of a block's cell or header field."""
    return np.uint64(2 * block * BLOCK + place)


@inlined
def size_of(forest: Forest, block: Int) -> Int:
    """Return how many tuples or children a block has."""
    return np.int64(forest.cells[cell_of(block, SIZE)])


@inlined
def height_of(forest: Forest, block: Int) -> Int:
    """Return how many levels are below a block."""
    return np.int64(forest.cells[cell_of(block, HEIGHT)])


@inlined
def next_of(forest: Forest, block: Int) -> Int:
    """Return the following block on the same level, or NONE."""
    return np.int64(forest.cells[cell_of(block, NEXT)])


@inlined
def child_of(forest: Forest, block: Int, place: Int) -> Int:
    """Return a child of an inner node."""
    return np.int64(forest.cells[cell_of(block, CELLS + place)])


@inlined
def count_below(forest: Forest, block: Int, key: Int) -> Int:
    """Count the keys of a block below a key; that is also the first child that may hold it."""
    below = np.int64(0)
    for i in range(WIDTH):
        below += np.int64(forest.keys[np.uint64(block * BLOCK + i)] < key)
    return below


@inlined
def count_upto(forest: Forest, block: Int, key: Int) -> Int:
    """Count the keys of a block not above a key; with MAX_KEY, unused ones count too."""
    upto = np.int64(0)
    for i in range(WIDTH):
        upto += np.int64(forest.keys[np.uint64(block * BLOCK + i)] <= key)
    return upto


@inlined
def move(forest: Forest, source: Int, first: Int, last: Int, target: Int, at: Int) -> None:
    """Copy keys and cells from ``first`` to ``last`` to another block."""
    keys, new_keys = source * BLOCK + first, target * BLOCK + at
    cells, new_cells = cell_of(source, CELLS + first), cell_of(target, CELLS + at)
    for i in range(last - first):
        forest.keys[np.uint64(new_keys + i)] = forest.keys[np.uint64(keys + i)]
        forest.cells[new_cells + np.uint64(i)] = forest.cells[cells + np.uint64(i)]


@inlined
def open_gap(forest: Forest, block: Int, first: Int, last: Int) -> None:
    """Move keys and cells from ``first`` to ``last`` one place on."""
    keys, cells = block * BLOCK, 2 * block * BLOCK + CELLS
    for i in range(last, first, -1):
        forest.keys[np.uint64(keys + i)] = forest.keys[np.uint64(keys + i - 1)]
        forest.cells[np.uint64(cells + i)] = forest.cells[np.uint64(cells + i - 1)]


@inlined
def pad(forest: Forest, block: Int, first: Int) -> None:
    """Mark the keys of a block from ``first`` on as unused."""
    forest.keys[block * BLOCK + first : block * BLOCK + WIDTH] = MAX_KEY


@inlined
def set_header(forest: Forest, block: Int, size: Int, after: Int, height: Int) -> None:
    """Write the header of a block."""
    forest.cells[cell_of(block, SIZE)] = size
    forest.cells[cell_of(block, NEXT)] = after
    forest.cells[cell_of(block, HEIGHT)] = height


@bare
def clear(forest: Forest, trees: Int) -> None:
    """Start again with ``trees`` empty trees."""
    for tree in range(trees):
        pad(forest, tree, 0)
        set_header(forest, tree, 0, NONE, 0)
    forest.supply[USED] = trees
    forest.supply[FREE] = NONE


@bare
def has_room(forest: Forest) -> bool:
    """Whether the supply has the blocks that an insert may need: one per level, and a root."""
    return (forest.supply[USED] + 16) * BLOCK <= forest.keys.size


@bare
def take_block(forest: Forest) -> Int:
    """Return an unused block. Only a forest of one thread has freed blocks to reuse."""
    block = forest.supply[FREE]
    if block == NONE:
        return atomics.add(forest.supply, USED, 1)
    forest.supply[FREE] = next_of(forest, block)
    return block


@bare
def give_back(forest: Forest, block: Int) -> None:
    """Return a block to the supply."""
    forest.cells[cell_of(block, NEXT)] = forest.supply[FREE]
    forest.supply[FREE] = block


def used_bytes(forest: Forest) -> int:
    """Bytes of the blocks that are or were in use; the others have never been touched."""
    return int(forest.supply[USED]) * BLOCK * 8


def keys_of(forest: Forest, block: int) -> Keys:
    """Return the keys of a block, unused ones too."""
    return forest.keys[block * BLOCK : block * BLOCK + WIDTH]
