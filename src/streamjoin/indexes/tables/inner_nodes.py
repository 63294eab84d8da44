"""Inner nodes of a B+-tree: separators that lead a key to its leaf.

Child i of a node holds the keys above
``keys[i - 1]`` and up to ``keys[i]``, the last child those above all of them (where equal keys may
lie in two leaves, the right one may also hold keys equal to its lower separator)::

    root           [ 20            | 50 ]
                  /          |          \\
    level 1   [ 5 | 9 ]   [ 31 ]     [ 77 | 80 ]        a child below the last level is a leaf
               a   b  c    d   e      f    g   h

A node has at most `FANOUT` children, so its separators take eight cache lines, and all inner nodes
of a large subwindow stay in the cache. The separators of a node are compared all at once, without
branches.

A sorted batch goes through the tree along a *path*: the node and the upper bound on each level for
the previous key. The next key climbs only as far as it must, and descends from there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjoin.kernels.compile import MAX_KEY, Int, Keys, Positions, copy_into, kernel

FANOUT = 64
LEVELS = 12  # enough for any tree of int32 row ids
NEAR_CHILDREN = 6  # looked at one by one before all are compared
ROOT, HEIGHT, USED = 0, 1, 2  # places in ``info``


class Nodes(NamedTuple):
    """The arrays of all inner nodes, as kernels take them."""

    keys: NDArray[np.int64]  # one row per node: FANOUT - 1 separators, followed by MAX_KEY
    children: NDArray[np.int32]  # one row per node: nodes or, on the last level, leaves
    sizes: NDArray[np.int32]  # separators of each node
    info: NDArray[np.int64]  # root, height (levels of inner nodes), nodes used


class Path(NamedTuple):
    """The way to a leaf: on each level the node, the child taken, and the upper bound."""

    nodes: NDArray[np.int64]
    places: NDArray[np.int64]
    uppers: NDArray[np.int64]  # the greatest key that belongs under the node


def make_nodes(capacity: int) -> Nodes:
    """Allocate room for ``capacity`` nodes; the first is the root, its only child is leaf 0."""
    return Nodes(
        np.full((capacity, FANOUT), MAX_KEY),
        np.zeros((capacity, FANOUT), np.int32),
        np.zeros(capacity, np.int32),
        np.array([0, 1, 1], np.int64),
    )


def grow_nodes(nodes: Nodes) -> Nodes:
    """Return the same nodes with twice the room."""
    grown = make_nodes(2 * nodes.sizes.size)
    copy_into(nodes, grown)
    return grown


def make_path() -> Path:
    """Allocate a path; call `restart` before using it."""
    return Path(*(np.zeros(LEVELS, np.int64) for _ in Path._fields))


@kernel
def restart(nodes: Nodes, path: Path) -> None:
    """Reset a path to the root."""
    path.nodes[0], path.uppers[0] = nodes.info[ROOT], MAX_KEY


@kernel
def find_child(keys: NDArray[np.int64], key: Int) -> Int:
    """Count the separators below a key: the place of its child."""
    below = np.int64(0)
    for i in range(FANOUT):
        below += np.int64(keys[i] < key)
    return below


@kernel
def descend(nodes: Nodes, path: Path, level: int, key: Int) -> Int:
    """Go from a level of the path down to the leaf of a key."""
    node, upper = path.nodes[level], path.uppers[level]
    height = nodes.info[HEIGHT]
    while True:
        place = find_child(nodes.keys[node], key)
        path.places[level] = place
        if place < nodes.sizes[node]:
            upper = nodes.keys[node, place]
        child = np.int64(nodes.children[node, place])
        level += 1
        path.uppers[level] = upper
        if level == height:
            return child
        path.nodes[level] = child
        node = child


@kernel
def find_leaves(nodes: Nodes, path: Path, keys: Keys, found: Positions) -> None:
    """Find the leaf of each key; fastest if they ascend.

    Most keys of a sorted batch belong under the same lowest node as the key before, close to it.
    The others climb only as far as they must.
    """
    bottom = nodes.info[HEIGHT] - 1
    restart(nodes, path)
    node: Int = np.int64(0)
    place: Int = np.int64(0)
    for i in range(keys.size):
        key = keys[i]
        if i == 0 or key < keys[i - 1]:  # not ascending: start over
            descend(nodes, path, 0, key)
            node, place = path.nodes[bottom], path.places[bottom]
        elif path.uppers[bottom] < key:
            level = bottom
            while level > 0 and path.uppers[level] < key:
                level -= 1
            descend(nodes, path, level, key)
            node, place = path.nodes[bottom], path.places[bottom]
        elif nodes.keys[node, min(place + NEAR_CHILDREN, FANOUT - 1)] < key:
            place = find_child(nodes.keys[node], key)
        else:
            while nodes.keys[node, place] < key:
                place += 1
        found[i] = nodes.children[node, place]


@kernel
def is_short(nodes: Nodes) -> bool:
    """Whether room may be short for one more leaf: it may need a node per level, and a root."""
    return nodes.sizes.size - nodes.info[USED] < nodes.info[HEIGHT] + 1


@kernel
def add_separator(nodes: Nodes, path: Path, separator: Int, right: Int) -> None:
    """Divide the leaf at the end of a path: it keeps the keys up to ``separator``.

    ``right`` is the leaf for the keys above. Needs room (`is_short`). The path is invalid
    afterwards.
    """
    level = nodes.info[HEIGHT] - 1
    while True:
        node, place = path.nodes[level], path.places[level]
        size = np.int64(nodes.sizes[node])
        for i in range(size, place, -1):
            nodes.keys[node, i] = nodes.keys[node, i - 1]
            nodes.children[node, i + 1] = nodes.children[node, i]
        nodes.keys[node, place] = separator
        nodes.children[node, place + 1] = right
        nodes.sizes[node] = size + 1
        if size + 1 < FANOUT - 1:
            return
        separator, right = divide(nodes, node)
        if level == 0:
            root = nodes.info[USED]
            nodes.info[USED] = root + 1
            nodes.keys[root, 0] = separator
            nodes.children[root, 0], nodes.children[root, 1] = node, right
            nodes.sizes[root] = 1
            nodes.info[ROOT] = root
            nodes.info[HEIGHT] += 1
            return
        level -= 1


@kernel
def divide(nodes: Nodes, node: Int) -> tuple[Int, Int]:
    """Move the upper half of a full node into a new one; return separator and new node."""
    new = nodes.info[USED]
    nodes.info[USED] = new + 1
    size = np.int64(nodes.sizes[node])
    middle = size // 2
    separator = nodes.keys[node, middle]
    moved = size - middle - 1
    nodes.keys[new, :moved] = nodes.keys[node, middle + 1 : size]
    nodes.children[new, : moved + 1] = nodes.children[node, middle + 1 : size + 1]
    nodes.keys[node, middle:size] = MAX_KEY
    nodes.sizes[node], nodes.sizes[new] = middle, moved
    return separator, new


def leaves(nodes: Nodes) -> list[int]:
    """Return the leaves from left to right, and assert that the nodes are in order."""
    found = [int(nodes.info[ROOT])]
    for _ in range(nodes.info[HEIGHT]):
        for node in found:
            size = nodes.sizes[node]
            keys = nodes.keys[node]
            assert np.all(keys[: max(size - 1, 0)] <= keys[1:size] if size else True)
            assert np.all(keys[size:] == MAX_KEY)
        found = [
            int(child) for node in found for child in nodes.children[node, : nodes.sizes[node] + 1]
        ]
    return found
