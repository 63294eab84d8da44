"""Options as ``help()`` and IDEs show them: in the signature, and in the docstring.

Type checkers understand ``**options: Unpack[StreamOptions]``, but ``help()`` shows no more than
``**options``. `show_options` puts the options themselves into the signature, with types and
defaults, and replaces the line ``{options}`` of the docstring by what they mean, and the line
``{window}`` by the windows.
"""

from collections.abc import Callable
from inspect import Parameter, cleandoc, signature
from textwrap import fill, indent
from typing import TypeVar

from streamjoin.options.options import EntryPoint
from streamjoin.options.values import join_words
from streamjoin.windows import WINDOWS

WIDTH = 96  # of a paragraph, in characters
Shown = TypeVar("Shown", bound=Callable[..., object])


def show_options(entry: EntryPoint) -> Callable[[Shown], Shown]:
    """Decorate a function, or a class, that takes the options of an entry point."""

    def show(shown: Shown) -> Shown:
        own = signature(shown)
        named = [each for each in own.parameters.values() if each.kind != Parameter.VAR_KEYWORD]
        options = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=option.default, annotation=kind)
            for (name, option), kind in zip(entry.table.items(), entry.types.values(), strict=True)
        ]
        shown.__signature__ = own.replace(parameters=[*named, *options])  # type: ignore[attr-defined]
        if shown.__doc__ is not None:  # it is with -OO
            text = cleandoc(shown.__doc__)
            text = text.replace("{options}", describe_options(entry))
            shown.__doc__ = text.replace("    {window}", as_paragraph(describe_windows()))
        return shown

    return show


def describe_options(entry: EntryPoint) -> str:
    """Return what the options mean, a paragraph for each."""
    return "\n".join(
        f"{name}:\n{as_paragraph(option.meaning)}" for name, option in entry.table.items()
    )


def describe_windows() -> str:
    """List the windows, and how they are written as text."""
    kinds = join_words(f"`{kind.__name__}` ({kind.pairs})" for kind in WINDOWS)
    texts = ", ".join(f'``"{text}"``' for kind in WINDOWS for text in kind.texts)
    return f"{kinds}; or one of them as text: {texts}."


def as_paragraph(text: str) -> str:
    """Wrap a text, and indent it below its heading."""
    return indent(fill(text, WIDTH - 4), "    ")
