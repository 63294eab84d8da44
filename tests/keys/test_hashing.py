"""Hashes never change, since snapshots hold them, and do not depend on how an array is laid out."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.kernels import MAX_KEY, MIN_KEY
from streamjoin.keys.hashing import NULL_HASH, hash_bytes, mix, mix_into

TEXTS = ["", "a", "ab", "ACME", "12345678", "123456789", "ü", "a\0", "x" * 100]
M = 1 << 64


def signed(value):
    return value - M if value >= M // 2 else value


def reference_mix(value):
    """The finaliser of SplitMix64 in plain integers."""
    bits = value % M
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % M
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % M
    return signed(bits ^ (bits >> 31))


def reference_hash(data):
    state = len(data)
    for begin in range(0, len(data), 8):
        state = reference_mix(state * 31 + int.from_bytes(data[begin : begin + 8], "little"))
    return reference_mix(state)


@pytest.mark.parametrize("value", [0, 1, -1, 42, MIN_KEY, MAX_KEY])
def test_the_mixer(value):
    assert mix(np.int64(value)) == reference_mix(value)


def test_hashes_are_what_they_always_were():
    assert [int(mix(np.int64(value))) for value in (0, 1, -1)] == MIXED
    assert hash_bytes(pa.array(TEXTS)).tolist() == HASHED
    assert NULL_HASH == 0x243F6A8885A308D3


MIXED = [0, 6238072747940578789, -5417735806833148549]
HASHED = [
    0,
    -4277509723474586486,
    4142370009534529780,
    -4629164933156476887,
    5622993568868426423,
    -7144800833278122170,
    -1995384804803239307,
    -3081255615373197202,
    -1339338584710585349,
]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_bytes_against_plain_integers(values):
    assert hash_bytes(pa.array(values, pa.binary())).tolist() == list(map(reference_hash, values))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str
)
def test_layout_does_not_matter(kind):
    hashes = hash_bytes(pa.array(TEXTS))
    array = pa.array(["before", *TEXTS, "after"]).cast(kind)
    assert np.array_equal(hash_bytes(array.slice(1, len(TEXTS))), hashes)
    assert np.array_equal(hash_bytes(array.slice(3, 2)), hashes[2:4])
    with_nulls = pa.array([each for text in TEXTS for each in (None, text)], pa.string()).cast(kind)
    assert np.array_equal(hash_bytes(with_nulls)[1::2], hashes)
    assert np.array_equal(hash_bytes(with_nulls.slice(2))[1::2], hashes[1:])


def test_no_rows_and_only_nulls():
    assert hash_bytes(pa.array([], pa.string())).size == 0
    assert hash_bytes(pa.array([None, None], pa.string())).size == 2
    assert hash_bytes(pa.array(["", ""])).tolist() == [reference_hash(b"")] * 2


def test_columns_are_folded_in_order():
    one, other = np.array([1, 2]), np.array([2, 1])
    first, second = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for column in (one, other):
        mix_into(first, column)
    for column in (other, one):
        mix_into(second, column)
    assert first[0] != second[0]
    assert first[0] == second[1]
    assert first.tolist() == [reference_mix(reference_mix(a) * 31 + b) for a, b in ((1, 2), (2, 1))]
