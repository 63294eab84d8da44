"""Digests, to check that bytes are what was written: of segments, manifests and hints.

SHA-256, cut to 128 bits: with the instructions that processors have for it, a megabyte takes 0.7 ms
(BLAKE2b 2.1 ms, CRC-32 0.6 ms).
"""

from hashlib import sha256

_START, _MIDDLE, _END = b'{"sha256": "', b'", "content": ', b"}"


def digest(data: bytes) -> str:
    """Return a digest of the data, as 32 hex digits."""
    return sha256(data).hexdigest()[:32]


def seal(content: bytes) -> bytes:
    """Return JSON that contains the content, itself JSON, and a digest of it.

    >>> seal(b"[1]")
    b'{"sha256": "080a9ed428559ef602668b4c00f114f1", "content": [1]}'
    """
    return b"".join([_START, digest(content).encode(), _MIDDLE, content, _END])


def unseal(data: bytes) -> bytes | None:
    """Return what was sealed; None if it has changed since."""
    content = data[len(_START) + 32 + len(_MIDDLE) : -len(_END)]
    return content if seal(content) == data else None
