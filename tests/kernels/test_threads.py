"""Shared work: all of it is done once, whatever the threads and the nesting; errors come out."""

import pytest

from streamjoin.kernels.threads import share


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_every_item_is_done_once(threads, count):
    done = []
    assert share(lambda item: (done.append(item), item + 1)[1], range(count), threads) == list(
        range(1, count + 1)
    )
    assert sorted(done) == list(range(count))


def test_work_within_work_does_not_wait_for_itself():
    def inner(item):
        return sum(share(lambda each: each * item, range(20), 8))

    assert share(inner, range(50), 8) == [190 * item for item in range(50)]


@pytest.mark.parametrize("broken", [0, 3, 9])
def test_an_error_comes_out(broken):
    def fail(item):
        if item == broken:
            raise KeyError(item)
        return item

    with pytest.raises(KeyError):
        share(fail, range(10), 3)
    assert share(abs, [-1, -2], 2) == [1, 2]
