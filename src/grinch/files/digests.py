"""Short names of contents."""

from __future__ import annotations

import hashlib


def digest(content: str | bytes) -> str:
    """A short name of a content: the same for the same content, and different for any other.

    >>> digest("a") == digest(b"a"), digest("a") == digest("b"), len(digest("a"))
    (True, False, 32)
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=16).hexdigest()
