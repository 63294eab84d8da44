"""The catalogue of algorithms: it resolves, its names are those of the classes, and it is light."""

import subprocess
import sys
from pathlib import Path

import pytest

from streamjoin.choice.structure_costs import DEFAULT_COSTS
from streamjoin.indexes.catalogue import (
    BY_EQUALITY,
    CATALOGUE,
    EAGER,
    LAZY,
    ONE_KEY,
    TWO_KEYS,
    Family,
    make_index,
)
from streamjoin.indexes.trees.window_index import WindowIndex
from streamjoin.joins.equality.algorithms import make_eager, make_lazy
from tests.indexes.test_contract import MAKERS
from tests.joins.equality.test_eager import every_eager
from tests.joins.equality.test_lazy import every_lazy
from tests.joins.test_contract import every_join

DOCS = Path(__file__).parents[2] / "docs"
every_entry = pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)


@every_entry
def test_it_resolves_to_what_it_is_called(entry):
    assert entry.kind.__name__.lower().replace("_", "") == entry.name.replace("_", "")
    assert entry.what
    assert entry.good_for
    is_whole = isinstance(entry.kind, type) and issubclass(entry.kind, WindowIndex)
    assert is_whole == (entry.family is Family.WHOLE_WINDOWS)


@every_entry
def test_it_is_made_by_its_name(entry):
    if entry.name in LAZY:
        assert make_lazy(entry.name, 2).seconds is not None
    elif entry.name in EAGER:
        assert make_eager(entry.name, 2).seconds is not None
    else:
        assert type(make_index(entry.name, 10, 2)) is entry.kind


@every_entry
def test_its_cost_is_positive_if_it_has_one(entry):
    if entry.cost is not None:
        assert entry.predict_steps(DEFAULT_COSTS, 1 << 16, 2.0, 64.0).total > 0


def test_names_are_unique():
    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE)
    assert {*ONE_KEY, *TWO_KEYS, *BY_EQUALITY} == {entry.name for entry in CATALOGUE}


def test_all_of_it_is_held_to_a_contract():
    assert MAKERS.keys() >= {*ONE_KEY}
    assert every_lazy.mark.args[1] == LAZY
    assert every_eager.mark.args[1] == EAGER
    assert {name for name, _ in every_join.mark.args[1]} == {*ONE_KEY, *TWO_KEYS}


@every_entry
def test_the_documents_have_it(entry):
    assert f"`{entry.name}`" in (DOCS / "guide" / "algorithms.md").read_text()


def test_listing_it_loads_no_kernels():
    code = (
        "import sys, streamjoin.indexes.catalogue, streamjoin.options.options\n"
        "assert not {'numba', 'numpy', 'pyarrow', 'sqlglot'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
