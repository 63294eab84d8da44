"""Every scale has its size."""

import pytest

from benchmarks.harness.scale import Scale, Sized


@pytest.mark.parametrize(
    ("sized", "picked"), [(Sized(3, 2, 1), [3, 2, 1]), (Sized(full=3, quick=2), [3, 2, 2])]
)
def test_the_size_is_that_of_the_scale(sized, picked):
    assert [scale.pick(sized) for scale in (Scale.FULL, Scale.QUICK, Scale.TINY)] == picked
