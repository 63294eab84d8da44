"""Atomics: what several threads do to one array at once is done one after the other."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit

from streamjoin.kernels import atomics

THREADS, TIMES = 4, 50_000

# Not cached: what they are compiled with may change.
compiled = njit(nogil=True)


@compiled
def add_often(numbers, place, times):
    for _ in range(times):
        atomics.add(numbers, place, 1)


@compiled
def swap_often(numbers, place, times):
    for _ in range(times):
        old = atomics.load(numbers, place)
        while not atomics.swap(numbers, place, old, old + 1):
            old = atomics.load(numbers, place)


@compiled
def count_behind_a_lock(numbers, locks, place, times):
    """Two plain numbers that are always equal, unless two threads are in here at once."""
    torn = 0
    for _ in range(times):
        atomics.lock(locks, place)
        torn += numbers[0] != numbers[atomics.LINE]
        numbers[0] += 1
        numbers[atomics.LINE] += 1
        atomics.unlock(locks, place)
    return torn


@compiled
def try_often(numbers, locks, times):
    taken = 0
    for _ in range(times):
        if atomics.try_lock(locks, 0):
            numbers[0] += 1
            taken += 1
            atomics.unlock(locks, 0)
    return taken


@compiled
def pass_on(numbers, turns, mine, next_one, times):
    """Add to a plain number whenever it is one's turn, and give the turn to the other."""
    for _ in range(times):
        while atomics.load(turns, 0) != mine:
            atomics.give_way()
        numbers[0] = numbers[0] * 3 + mine
        atomics.store(turns, 0, next_one)


@compiled
def single_steps(numbers):
    before = atomics.add(numbers, 1, -7)
    missed = atomics.swap(numbers, 2, 5, 6)
    hit = atomics.swap(numbers, 3, 13, -(2**62))
    atomics.store(numbers, 4, 2**62)
    return before, missed, hit, atomics.load(numbers, 4)


def together(work, *arguments):
    """Run a kernel in several threads at once."""
    with ThreadPoolExecutor(THREADS) as pool:
        runs = [pool.submit(work, *arguments) for _ in range(THREADS)]
        return [run.result(timeout=60) for run in runs]


def test_one_thread():
    numbers = np.arange(10, 15)
    assert single_steps(numbers) == (11, False, True, 2**62)
    assert numbers.tolist() == [10, 4, 12, -(2**62), 2**62]


@pytest.mark.parametrize("work", [add_often, swap_often])
def test_no_addition_is_lost(work):
    numbers = np.zeros(3, np.int64)
    together(work, numbers, 1, TIMES)
    assert numbers.tolist() == [0, THREADS * TIMES, 0]


@pytest.mark.parametrize("place", [0, 5])
def test_a_lock_excludes(place):
    numbers, locks = np.zeros(2 * atomics.LINE, np.int64), np.zeros(6, np.int64)
    assert together(count_behind_a_lock, numbers, locks, place, TIMES) == [0] * THREADS
    assert numbers[[0, atomics.LINE]].tolist() == [THREADS * TIMES] * 2
    assert not locks.any()


def test_a_lock_that_is_not_waited_for_excludes():
    numbers, locks = np.zeros(1, np.int64), np.zeros(1, np.int64)
    taken = together(try_often, numbers, locks, TIMES)
    assert 0 < sum(taken) == numbers[0]


def test_a_lock_is_taken_once():
    locks = np.zeros(2, np.int64)
    assert atomics.try_lock(locks, 1)
    assert not atomics.try_lock(locks, 1)
    assert atomics.try_lock(locks, 0)
    atomics.unlock(locks, 1)
    assert atomics.try_lock(locks, 1)


def test_who_loads_a_turn_sees_what_was_written_before_it():
    numbers, turns, times = np.zeros(1, np.int64), np.zeros(1, np.int64), 200
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(pass_on, numbers, turns, each, 1 - each, times) for each in (0, 1)]
        for run in runs:
            run.result(timeout=60)
    expected = 0
    for step in range(2 * times):
        expected = expected * 3 + step % 2
    assert int(numbers[0]) % 2**64 == expected % 2**64
