"""Ready-made embeddings: rows of texts from any object that has ``encode``, imported by its name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from grinch._types import Vectors32
from grinch.errors import SavedModelError
from grinch.saving import container
from grinch.saving.state import item
from grinch.text.analysis import each_text
from grinch.text.vectors import FILE, read_file

KIND = "embeddings"


class Encoder(Protocol):
    """An object with ``encode``, as sentence-transformers and many others have it."""

    def encode(self, texts: list[str]) -> Any:
        """Return a vector for each text."""


class EncodedTexts:
    """Rows of texts by an object that has ``encode``, with the methods of :class:`TextVectors`.

    Parameters
    ----------
    encoder : object with ``encode(list of str) -> array of shape (n_texts, n_columns)``
        Such as a ``SentenceTransformer``.
    name : str, optional
        The name that is saved: see :func:`find_encoder`.

    Examples
    --------
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return [[len(text), text.count(" ")] for text in texts]
    >>> EncodedTexts(Lengths()).transform(["one word", "two"]).tolist()
    [[8.0, 1.0], [3.0, 0.0]]
    """

    def __init__(self, encoder: Encoder, name: str | None = None):
        if not callable(getattr(encoder, "encode", None)):
            raise ValueError(f"encoder must have a method encode(texts); got {encoder!r:.80}")
        self.encoder, self.name = encoder, name

    def fit_transform(self, texts: Iterable[str | None], y: Any = None) -> Vectors32:
        """Return the rows of texts, as :meth:`transform` does: there is nothing to learn."""
        return self.transform(texts)

    def transform(self, texts: Iterable[str | None]) -> Vectors32:
        """Return the rows of texts, as float32."""
        given = [*each_text(texts)]
        rows = np.asarray(self.encoder.encode(given))
        if rows.ndim != 2 or rows.shape[0] != len(given) or rows.dtype.kind not in "fiub":
            raise ValueError(
                f"encode must return a row of numbers for each of the {len(given):,} texts; it returned an array of"
                f" {rows.dtype} of shape {rows.shape}"
            )
        return rows.astype(np.float32, copy=False)

    def save(self, path: str | Path) -> None:
        """Write the name of the encoder to a file; the encoder itself is not in it."""
        container.write(path, FILE, {"kind": KIND, "settings": {"name": self.name}}, {})


def saved_encoder(path: str | Path) -> str | None:
    """Return the name of the encoder of a file; None if it is a file of TextVectors."""
    header, _ = read_file(path)
    if header["kind"] != KIND:
        return None
    name = item(header, "settings").get("name")
    if not isinstance(name, str):
        raise SavedModelError(f"{path} was written by an encoder without a name")
    return name


def find_encoder(name: str) -> Encoder:
    """Return the encoder of this name: ``module:object``, or the name of a model for sentence-transformers.

    The object has ``encode``, or is a class or function that is called without arguments and returns one that has.

    >>> find_encoder("numpy")
    Traceback (most recent call last):
    ValueError: an encoder must be named as module:object, or as a model of sentence-transformers such as ...
    """
    module, colon, path = name.partition(":")
    if colon and module and path:
        return _imported(name, module, path)
    if "/" in name and not colon:
        return _sentence_transformer(name)
    raise ValueError(
        "an encoder must be named as module:object, or as a model of sentence-transformers such as"
        f" sentence-transformers/all-MiniLM-L6-v2; got {name!r}"
    )


def _imported(name: str, module: str, path: str) -> Encoder:
    try:
        found: Any = reduce(getattr, path.split("."), importlib.import_module(module))
    # Any error in the user's module is passed on to the user.
    except Exception as error:
        raise ValueError(f"the encoder {name!r} cannot be imported: {type(error).__name__}: {error}") from error
    if callable(found) and (isinstance(found, type) or not hasattr(found, "encode")):
        try:
            found = found()
        except Exception as error:
            raise ValueError(
                f"the encoder {name!r} must be an object that has encode, or be called without arguments to make one:"
                f" {type(error).__name__}: {error}"
            ) from error
    if not callable(getattr(found, "encode", None)):
        raise ValueError(f"the encoder {name!r} must have a method encode; it is {found!r:.80}")
    encoder: Encoder = found
    return encoder


def _sentence_transformer(name: str) -> Encoder:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ImportError(
            f"the encoder {name!r} needs sentence-transformers, which is not installed; install it with:"
            " pip install sentence-transformers"
        ) from None
    encoder: Encoder = SentenceTransformer(name)
    return encoder
