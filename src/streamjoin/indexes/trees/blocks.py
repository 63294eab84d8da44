"""The blocks of a forest: leaves and inner nodes of its trees, which look alike, and their supply.

A block lies in whole cache lines, all of it in one place: keys, then cells, then a header (drawn
with 4 places a block)::

    keys [ 31 44 50  - ]   cells [ 8 1 0 . ]   size 3, next: block 7, height 0

In a leaf, at height 0, cells are rows; in an inner node they are children. Unused keys are
``MAX_KEY``, so that all of a block can be compared without a test. ``next`` is the block behind
this one on its level; of one that was given back, the next one to take.

The same memory is seen as int64 numbers for keys and as int32 ones for the others. Places are
unsigned: Numba would test a signed one for being negative, and these are the innermost loops.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels import atomics
from streamjoin.kernels.compile import MAX_KEY, Int, Keys, bare, inlined

NONE = -1
WIDTH = 62  # tuples of a leaf, children of a node: with their header, twelve cache lines
BLOCK = -(-(3 * WIDTH + 3) // (2 * atomics.LINE)) * atomics.LINE  # int64 numbers of a block
CELLS = 2 * WIDTH  # where the cells of a block begin, counted in int32
SIZE, NEXT, HEIGHT = 3 * WIDTH, 3 * WIDTH + 1, 3 * WIDTH + 2  # the header, behind the cells
USED, FREE = 0, atomics.LINE  # places in ``supply``


class Forest(NamedTuple):
    """The arrays of all trees, as kernels take them; the first two are one memory."""

    keys: NDArray[np.int64]  # BLOCK numbers a block
    cells: NDArray[np.int32]  # twice as many
    supply: NDArray[np.int64]  # blocks used so far, and the first that was given back


def make_forest(trees: int, tuples: int) -> Forest:
    """Allocate a forest with room for so many tuples, whatever their keys, if none is removed."""
    forest = reserve(blocks_for(trees, tuples))
    clear(forest, trees)
    return forest


def blocks_for(trees: int, tuples: int) -> int:
    """Return how many blocks hold so many tuples in so many trees, whatever their keys.

    A block is divided when it is full, so all but the first and the last of a level are half full
    or more.
    """
    leaves = 2 * trees + 2 * (tuples // WIDTH + 1)
    return leaves + trees + 4 * (leaves // WIDTH + 8)


def reserve(blocks: int) -> Forest:
    """Allocate so many blocks."""
    words = aligned(blocks * BLOCK)
    return Forest(words, words.view(np.int32), np.zeros(2 * atomics.LINE, np.int64))


def aligned(words: int) -> NDArray[np.int64]:
    """Allocate int64 numbers at the beginning of a cache line."""
    spare = np.empty(words + atomics.LINE, np.int64)
    offset = (-spare.ctypes.data // 8) % atomics.LINE
    return spare[offset : offset + words]


def grow_forest(forest: Forest, blocks: int | None = None) -> Forest:
    """Return the same trees with so many blocks, or twice as many as before."""
    grown = reserve(blocks or 2 * forest.keys.size // BLOCK)
    grown.keys[: forest.keys.size] = forest.keys
    grown.supply[:] = forest.supply
    return grown


@inlined
def cell_of(block: Int, place: Int) -> Int:
    """Return where a block has one of its cells, or of its header's."""
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
    """Return the block behind this one on its level, or NONE."""
    return np.int64(forest.cells[cell_of(block, NEXT)])


@inlined
def child_of(forest: Forest, block: Int, place: Int) -> Int:
    """Return a child of an inner node."""
    return np.int64(forest.cells[cell_of(block, CELLS + place)])


@inlined
def count_below(forest: Forest, block: Int, key: Int) -> Int:
    """Count the keys of a block that are below a key: the first child that may hold it."""
    below = np.int64(0)
    for i in range(WIDTH):
        below += np.int64(forest.keys[np.uint64(block * BLOCK + i)] < key)
    return below


@inlined
def count_upto(forest: Forest, block: Int, key: Int) -> Int:
    """Count the keys of a block that are not above a key, unused ones too if it is the greatest."""
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
    """Begin again with so many empty trees."""
    for tree in range(trees):
        pad(forest, tree, 0)
        set_header(forest, tree, 0, NONE, 0)
    forest.supply[USED] = trees
    forest.supply[FREE] = NONE


@bare
def has_room(forest: Forest) -> bool:
    """Whether the supply has all blocks that one more insert may need: one a level, and a root."""
    return (forest.supply[USED] + 16) * BLOCK <= forest.keys.size


@bare
def take_block(forest: Forest) -> Int:
    """Return a block that nobody uses. What was given back is for forests of one thread."""
    block = forest.supply[FREE]
    if block == NONE:
        return atomics.add(forest.supply, USED, 1)
    forest.supply[FREE] = next_of(forest, block)
    return block


@bare
def give_back(forest: Forest, block: Int) -> None:
    """Put a block back into the supply."""
    forest.cells[cell_of(block, NEXT)] = forest.supply[FREE]
    forest.supply[FREE] = block


def used_bytes(forest: Forest) -> int:
    """Bytes of the blocks that are in use or have been; the others have never been touched."""
    return int(forest.supply[USED]) * BLOCK * 8


def keys_of(forest: Forest, block: int) -> Keys:
    """Return the keys of a block, unused ones too."""
    return forest.keys[block * BLOCK : block * BLOCK + WIDTH]
