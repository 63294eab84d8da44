"""What `windows/base.py` promises of every window."""

from dataclasses import asdict, fields

import pytest

import streamjoin as sj
from streamjoin.errors import WindowError
from streamjoin.windows import WINDOWS, parse_window, read_window
from streamjoin.windows.base import Shape

every_window = pytest.mark.parametrize(
    "window", [parse_window(text) for kind in WINDOWS for text in kind.texts], ids=str
)
every_kind = pytest.mark.parametrize("kind", WINDOWS)


@every_window
def test_it_survives_flips_text_and_json(window):
    assert window.flip().flip() == window
    assert eval(repr(window), vars(sj.windows)) == window
    assert str(window) == repr(window).replace("'", "")
    assert read_window(window.to_json()) == window
    assert window.to_json() == asdict(window)


@every_kind
def test_its_texts_and_its_example_make_it(kind):
    assert all(type(parse_window(text)) is kind for text in kind.texts)
    assert type(eval(kind.example, vars(sj.windows))) is kind
    assert getattr(sj, kind.__name__) is kind
    assert kind.pairs


@every_window
def test_its_answers_fit_its_shape(window):
    given = [name for name, value in asdict(window.shape).items() if value is not None]
    assert len(given) == 1
    assert window.is_timed == (window.span_us is not None) == (window.shape.counts is None)
    assert not (window.closes and not window.is_timed)
    assert window.follows_rows <= window.closes


def test_fields_tell_which_window_it_is():
    names = [frozenset(field.name for field in fields(kind)) for kind in WINDOWS]
    assert len(set(names)) == len(WINDOWS)
    assert read_window(None) is None
    with pytest.raises(WindowError, match="no window has the fields left"):
        read_window({"left": 1})


def test_there_is_no_shape_without_a_window():
    assert asdict(Shape()) == dict.fromkeys(asdict(Shape()))
