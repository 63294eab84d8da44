"""Cuts rows into stretches, between which threads take turns and look for interrupts."""

STRETCH = 1 << 18  # rows


def cut(size: int) -> list[slice]:
    """Cut so many rows into stretches."""
    return [slice(at, min(at + STRETCH, size)) for at in range(0, size, STRETCH)]
