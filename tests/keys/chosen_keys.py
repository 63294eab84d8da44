"""Keys that somebody has chosen: the hashes that have no seed, computed backwards."""

from collections.abc import Iterable

import numpy as np

from streamjoin.keys.hashing import mix

WORD = 2**64


def signed(number: int) -> int:
    return (number + 2**63) % WORD - 2**63


def unmix(value: int) -> int:
    """The number that `mix` maps to a value: the same steps backwards, each of which has one."""

    def shift_back(bits: int, by: int) -> int:
        whole = bits
        for _ in range(64 // by):
            whole = bits ^ (whole >> by)
        return whole

    bits = shift_back(value % WORD, 31) * pow(0x94D049BB133111EB, -1, WORD) % WORD
    bits = shift_back(bits, 27) * pow(0xBF58476D1CE4E5B9, -1, WORD) % WORD
    return signed(shift_back(bits, 30))


def second_numbers(state: int, firsts: Iterable[int]) -> list[int]:
    """What makes hashes equal if it follows on ``firsts``; ``state`` is what goes before."""
    states = [int(mix(np.uint64(state * 31 + first))) for first in firsts]
    return [signed(31 * (states[0] - each)) for each in states]


def pairs_of_numbers(keys: int) -> list[tuple[int, int]]:
    """Pairs of numbers with one hash."""
    return list(zip(range(keys), second_numbers(0, range(keys)), strict=True))


def texts(keys: int) -> list[bytes]:
    """Values of 16 bytes with one hash."""
    words = zip(range(keys), second_numbers(16, range(keys)), strict=True)
    return [np.array(pair, "<i8").tobytes() for pair in words]


def numbers_with_prefix(keys: int) -> list[int]:
    """Numbers whose hash, with no other column, has one prefix: so has that of their columns."""
    return [unmix((0x123456 << 40) + number) for number in range(keys)]


def numbers_with_ending(keys: int, bits: int = 40) -> list[int]:
    """Numbers whose mixed bits have one ending: they belong to one slot of a table."""
    return [unmix(number << bits) for number in range(keys)]


def keys_of_codes(codes: Iterable[int]) -> list[int]:
    """Numbers of 32 bits with given codes, as codes were before they had secrets."""

    def shift_back(bits: int, by: int) -> int:
        whole = bits
        for _ in range(32 // by):
            whole = bits ^ (whole >> by)
        return whole

    found = []
    for code in codes:
        bits = shift_back(code, 16) * pow(0xC2B2AE35, -1, 2**32) % 2**32
        bits = shift_back(bits, 13) * pow(0x85EBCA6B, -1, 2**32) % 2**32
        found.append(shift_back(bits, 16))
    return found


def wide_keys_of_one_code(keys: int) -> list[int]:
    """Numbers of 64 bits with one code, as codes were before they had secrets."""
    return [(high << 32) + high * 0x9E3779B1 % 2**32 for high in range(1, keys + 1)]
