"""Hashes of equality values: with a secret seed in memory, the same everywhere where they must be.

An attacker who knows a hash function can choose keys that all have the same hash; then every row is
a candidate of every other. So what only this process sees is hashed with a secret ``seed``, drawn
afresh in each process: strings and binary by SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast
short-input PRF", 2012), and several int64 keys by products with secret numbers, whose halves are
folded as in wyhash. A snapshot holds keys made from these hashes, so it contains the seed, and the
restored join goes on with it.

With the seed `FIXED`, hashes are the same on every machine and in every run: for rows that several
processes must distribute alike (Spark), and for snapshots without a seed. It is a mixer for int64
keys (the finaliser of SplitMix64) and, for strings and binary, the same over eight bytes at a time.
These hashes may never change. The worst that chosen keys can do there is send all rows to one core.
"""

import os
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from secrets import randbits
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import types
from numpy.typing import NDArray

from streamjoin.errors import StreamJoinError
from streamjoin.kernels.atomics import instruction
from streamjoin.kernels.compile import Int, Keys, inlined, kernel

NULL_HASH = 0x243F6A8885A308D3  # any constant: where NULL equals NULL, it needs a hash too
FIXED = 0  # the seed of hashes that are the same everywhere
VARIABLE = "STREAMJOIN_HASH_SEED"  # environment variable, for rows in the same order in every run
WORD = 8  # bytes
Secrets = NDArray[np.uint64]


@lru_cache(maxsize=1)
def process_seed() -> int:
    """Return the seed of this process: a secret, unless the environment has one."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return randbits(63) + 1
    if not given.isdecimal() or not 0 < int(given) < 2**63:
        raise StreamJoinError(
            f"{VARIABLE}={given!r} in the environment is not a seed; give a whole number from 1 to "
            f"{2**63 - 1}, or unset it for a secret one"
        )
    return int(given)


@lru_cache(maxsize=1024)
def secrets_of(seed: int, purpose: str, count: int = 2) -> Secrets:
    """Return secret numbers for one purpose, all odd, because they are also used as factors."""
    digest = blake2b(f"{seed} {purpose}".encode(), digest_size=WORD * count).digest()
    found: Secrets = np.frombuffer(digest, np.uint64) | np.uint64(1)
    return found


@kernel
def mix(value: Int) -> Int:
    """Scramble 64 bits so that every input bit affects every output bit."""
    bits = np.uint64(value)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(bits ^ (bits >> np.uint64(31)))


@instruction
def fold(typing: Any, one: Any, other: Any) -> Any:
    """Multiply two numbers, and return the upper half of the product xor the lower half."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = context.get_value_type(types.int64).__class__(128)
        one, other = (builder.zext(each, wide) for each in arguments)
        product = builder.mul(one, other)
        upper = builder.lshr(product, wide(64))
        narrow = context.get_value_type(types.uint64)
        return builder.xor(builder.trunc(upper, narrow), builder.trunc(product, narrow))

    return types.uint64(types.uint64, types.uint64), generate


@inlined
def mix_secretly(value: Int, secrets: Secrets) -> Int:
    """Scramble 64 bits in a way that cannot be predicted without the secrets."""
    return mix(fold(np.uint64(value) ^ secrets[0], secrets[1]))


@kernel
def mix_into(hashes: Keys, keys: Keys) -> None:
    """Fold one more column of keys into the running hashes."""
    for i in range(hashes.size):
        hashes[i] = mix(np.uint64(hashes[i]) * np.uint64(31) + np.uint64(keys[i]))


@kernel
def add_secretly(hashes: Keys, keys: Keys, secrets: Secrets) -> None:
    """Add one more column of keys to running sums; the secrets are this column's own."""
    for i in range(hashes.size):
        hashes[i] += np.int64(mix_secretly(keys[i], secrets))


def hash_columns(columns: Sequence[Keys], seed: int) -> Keys:
    """Return one hash per row, of all its keys."""
    hashes = np.zeros(columns[0].size, np.int64)
    for number, column in enumerate(columns):
        if seed == FIXED:
            mix_into(hashes, column)
        else:
            add_secretly(hashes, column, secrets_of(seed, f"column {number}"))
    return hashes


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


@inlined
def rotate(word: Int, bits: Int) -> Int:
    """Rotate a word to the left."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def sip_round(a: Int, b: Int, c: Int, d: Int) -> tuple[Int, Int, Int, Int]:
    """Do one round of SipHash."""
    a, c = a + b, c + d
    b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
    a, c = rotate(a, 32) + d, c + b
    d, b = rotate(d, 21) ^ a, rotate(b, 17) ^ c
    return a, b, rotate(c, 32), d


@inlined
def read_word(data: NDArray[np.uint8], first: Int, count: Int) -> Int:
    """Read up to eight bytes, little-endian."""
    word, start = np.uint64(0), np.uint64(first)  # unsigned: it does not count from the end
    if count >= WORD or start + np.uint64(WORD) <= np.uint64(data.size):
        for byte in range(WORD):  # a constant number: this is one instruction
            word |= np.uint64(data[start + np.uint64(byte)]) << np.uint64(8 * byte)
        if count >= WORD:
            return word
        return word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))
    for byte in range(count):
        word |= np.uint64(data[start + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@kernel
def sip_slices(offsets: NDArray[np.int64], data: NDArray[np.uint8], secrets: Secrets) -> Keys:
    """Hash the bytes between neighbouring offsets by SipHash-1-3, with secrets as its key."""
    hashes = np.empty(offsets.size - 1, np.int64)
    for i in range(hashes.size):
        at, last = offsets[i], offsets[i + 1]
        length = np.uint64(last - at)
        a, b = (
            secrets[0] ^ np.uint64(0x736F6D6570736575),
            secrets[1] ^ np.uint64(0x646F72616E646F6D),
        )
        c, d = (
            secrets[0] ^ np.uint64(0x6C7967656E657261),
            secrets[1] ^ np.uint64(0x7465646279746573),
        )
        while True:
            word = read_word(data, at, last - at)
            is_last = last - at < WORD
            if is_last:
                word |= length << np.uint64(56)
            d ^= word
            a, b, c, d = sip_round(a, b, c, d)
            a ^= word
            if is_last:
                break
            at += WORD
        c ^= np.uint64(0xFF)
        for _ in range(3):
            a, b, c, d = sip_round(a, b, c, d)
        hashes[i] = np.int64(a ^ b ^ c ^ d)
    return hashes


def hash_bytes(array: pa.Array, seed: int = FIXED) -> Keys:
    """Return a 64-bit hash of each string or binary value; NULLs get an arbitrary one."""
    offsets, data = slices_of(array)
    if seed == FIXED:
        return hash_slices(offsets, data)
    return sip_slices(offsets, data, secrets_of(seed, "bytes"))


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
