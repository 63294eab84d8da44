"""Says what is going on, but only if it takes a while."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def patience(console: Console, text: str, after: float = 2.0) -> Iterator[None]:
    """Show ``text``, on a terminal with a spinner, once the block has run for ``after`` seconds."""
    status = console.status(f"{text} ...")
    show = status.start if console.is_terminal else lambda: console.print(f"{text} ...")
    timer = threading.Timer(after, show)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
