"""Options as ``help()`` and IDEs show them: in the signature, and in the docstring.

A function that takes ``**options: Unpack[StreamOptions]`` is checked by type checkers, and shows
nothing but ``**options``. `show_options` replaces that in its signature by the options themselves,
with types and defaults, and the line ``{options}`` of its docstring by what they mean.
"""

from collections.abc import Callable
from inspect import Parameter, cleandoc, signature
from textwrap import fill, indent
from typing import TypeVar

from streamjoin.options.options import EntryPoint

WIDTH = 96  # of a paragraph
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
        if shown.__doc__ is not None:  # with -OO there is none
            text = cleandoc(shown.__doc__)
            shown.__doc__ = text.replace("{options}", describe_options(entry))
        return shown

    return show


def describe_options(entry: EntryPoint) -> str:
    """Return what the options mean, a paragraph for each."""
    return "\n".join(
        f"{name}:\n{indent(fill(option.meaning, WIDTH - 4), '    ')}"
        for name, option in entry.table.items()
    )
