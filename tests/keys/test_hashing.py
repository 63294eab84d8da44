"""Hashes without a seed never change, those with one are nobody's to choose; layout is nothing."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.errors import StreamJoinError
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys import hashing
from streamjoin.keys.hashing import (
    FIXED,
    NULL_HASH,
    hash_bytes,
    hash_columns,
    mix,
    mix_into,
    process_seed,
    secrets_of,
)
from tests.keys.chosen_keys import numbers_with_prefix, pairs_of_numbers, texts, unmix

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


# With a seed.


def reference_sip(data, keys):
    """SipHash-1-3 in plain integers."""

    def rotate(word, bits):
        return (word << bits | word >> (64 - bits)) % M

    def mix_round(a, b, c, d):
        a, c = (a + b) % M, (c + d) % M
        b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
        a, c = (rotate(a, 32) + d) % M, (c + b) % M
        d, b = rotate(d, 21) ^ a, rotate(b, 17) ^ c
        return a, b, rotate(c, 32), d

    constants = (b"somepseu", b"dorandom", b"lygenera", b"tedbytes")
    state = [int.from_bytes(each, "big") ^ keys[at % 2] for at, each in enumerate(constants)]
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for begin in range(0, len(padded), 8):
        word = int.from_bytes(padded[begin : begin + 8], "little")
        state[3] ^= word
        state = [*mix_round(*state)]
        state[0] ^= word
    state[2] ^= 0xFF
    for _ in range(3):
        state = [*mix_round(*state)]
    return signed(state[0] ^ state[1] ^ state[2] ^ state[3])


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 2**63))
def test_bytes_with_a_seed_against_plain_integers(values, seed):
    keys = [int(each) for each in secrets_of(seed, "bytes")]
    expected = [reference_sip(value, keys) for value in values]
    assert hash_bytes(pa.array(values, pa.binary()), seed).tolist() == expected


@given(st.lists(st.tuples(*2 * [st.integers(MIN_KEY, MAX_KEY)]), min_size=1), st.integers(1, 2**63))
def test_columns_with_a_seed_against_plain_integers(rows, seed):
    def part(value, number):
        first, second = (int(each) for each in secrets_of(seed, f"column {number}"))
        product = (value % M ^ first) * second
        return reference_mix(product >> 64 ^ product % M)

    expected = [signed((part(a, 0) + part(b, 1)) % M) for a, b in rows]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    assert hash_columns(columns, seed).tolist() == expected


def test_secrets_are_of_their_seed_and_purpose():
    numbers = [*secrets_of(1, "a"), *secrets_of(2, "a"), *secrets_of(1, "b")]
    assert len({int(each) for each in numbers}) == 6
    assert all(int(each) % 2 for each in numbers)


def test_unmix():
    assert [int(mix(np.int64(unmix(value)))) for value in (0, 1, -1, MAX_KEY)] == [
        0,
        1,
        -1,
        MAX_KEY,
    ]


@pytest.mark.parametrize("seed", [1, 2, 2**62])
def test_chosen_keys_have_equal_hashes_without_a_seed_only(seed):
    many = 2000
    array = pa.array(texts(many))
    assert np.unique(hash_bytes(array)).size == 1
    assert np.unique(hash_bytes(array, seed)).size == many
    columns = [np.array(column) for column in zip(*pairs_of_numbers(many), strict=True)]
    assert np.unique(hash_columns(columns, FIXED)).size == 1
    assert np.unique(hash_columns(columns, seed)).size == many
    alike = [np.array(numbers_with_prefix(many))]
    assert np.unique(hash_columns(alike, FIXED) >> 40).size == 1
    assert np.unique(hash_columns(alike, seed) >> 40).size > many - 10


def test_every_process_has_a_seed_of_its_own_unless_it_is_given_one(monkeypatch):
    code = "from streamjoin.keys.hashing import process_seed as s; print(s(), s())"

    def run():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    monkeypatch.delenv(hashing.VARIABLE, raising=False)
    (a, b), (c, d) = run(), run()
    assert a == b != c == d
    assert FIXED not in (int(a), int(c))
    monkeypatch.setenv(hashing.VARIABLE, "7")
    assert run() == ["7", "7"]


@pytest.mark.parametrize("given", ["", "0", "-1", "x", "1.5", str(2**63)])
def test_seeds_that_are_none(given, monkeypatch):
    monkeypatch.setenv(hashing.VARIABLE, given)
    with pytest.raises(StreamJoinError, match="not a seed; give a whole number"):
        process_seed.__wrapped__()
