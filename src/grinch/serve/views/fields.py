"""The fields of a payload: text, image, label, and coordinates on a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".avif", ".bmp")
IMAGE_NAMES = ("image", "img", "thumbnail", "picture", "photo", "image_url")
LABEL_NAMES = ("label", "class", "category", "target", "y")
TEXT_NAMES = ("text", "title", "name", "content", "body", "sentence", "description", "abstract", "headline")
# Characters of a text in a list; the whole text is in the payload.
MAX_TEXT = 2_000
# The values of a class are no more than this share of the points that are looked at.
MAX_DISTINCT = 0.95
# Values that are nested more deeply in a payload are not shown.
MAX_DEPTH = 50


@dataclass(frozen=True)
class Fields:
    """The fields of a payload by their purpose, None for none; ``is_text`` if the payload is a text itself.

    >>> Fields.detect([{"title": "Rain", "topic": 3, "picture": "a.png"}, {"title": "Snow", "topic": 4}])
    Fields(text='title', image='picture', label=None, x=None, y=None, is_text=False)
    """

    text: str | None = None
    image: str | None = None
    label: str | None = None
    x: str | None = None
    y: str | None = None
    is_text: bool = False

    @property
    def has_text(self) -> bool:
        """Whether points have a text."""
        return self.is_text or self.text is not None

    @classmethod
    def detect(cls, payloads: Sequence[Any], **given: str | None) -> Fields:
        """Return the fields that the user named, and for the rest those that some payloads suggest."""
        rows = [row for row in payloads if isinstance(row, Mapping)]
        named = {what: name for what, name in given.items() if name is not None}
        known = {str(name): None for row in rows for name in row if name not in named.values()}
        texts = {name: [row[name] for row in rows if isinstance(row.get(name), str)] for name in known}
        image = next((name for name in known if _is_image(name, texts[name])), None)
        label = next((name for name in known if name.lower() in LABEL_NAMES and _is_class(rows, name)), None)
        taken = {image, label, *named.values()}
        readable = {name: values for name, values in texts.items() if _is_readable(values) and name not in taken}
        usual = next((name for name in readable if name.lower() in TEXT_NAMES), None)
        longest = max(readable, key=lambda name: np.mean([len(text) for text in readable[name]]), default=None)
        is_text = any(isinstance(payload, str) for payload in payloads)
        return cls(**{"text": usual or longest, "image": image, "label": label, **named}, is_text=is_text)

    def text_of(self, payload: Any) -> str | None:
        """Return the text of a payload."""
        found = payload if isinstance(payload, str) else self._field(self.text, payload)
        return None if found is None else str(found)[:MAX_TEXT]

    def image_of(self, payload: Any) -> str | None:
        """Return the file or the https address of an image; None for other addresses, which are never fetched."""
        found = self._field(self.image, payload)
        if not isinstance(found, str) or ("://" in found and not is_address(found)):
            return None
        return found or None

    def label_of(self, payload: Any) -> Any:
        return self._field(self.label, payload)

    @staticmethod
    def _field(name: str | None, payload: Any) -> Any:
        return payload.get(name) if name is not None and isinstance(payload, Mapping) else None


def is_address(image: str) -> bool:
    """Return whether an image is an address to be fetched, not a file."""
    return image.lower().startswith("https://")


def check_named(payloads: Sequence[Any], **given: str | None) -> None:
    """Refuse fields that none of the payloads has."""
    known = {str(name): None for row in payloads if isinstance(row, Mapping) for name in row}
    for what, name in given.items():
        if name is not None and name not in known:
            there = f"There are: {', '.join(known)}" if known else "There is none with fields"
            raise ValueError(f"{what} must name a field of the payload; got {name!r}. {there}")


def plain(value: Any, depth: int = 0) -> Any:
    """Return a payload as JSON can hold it: other values as text, and nothing below ``MAX_DEPTH``.

    >>> plain({"day": np.float32(2.5), 3: (1, float("nan")), "kind": b"x"})
    {'day': 2.5, '3': [1, None], 'kind': "b'x'"}
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {str(name): plain(entry, depth + 1) for name, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry, depth + 1) for entry in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist(), depth)
    return str(value)


def _is_readable(values: list[str]) -> bool:
    """Return whether most values are texts, not numbers such as those of clusters."""
    return sum(any(letter.isalpha() for letter in value) for value in values) > len(values) / 2


def _is_class(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Return whether values repeat, as classes do, however many there are; coordinates and ids do not."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if any(isinstance(value, float) and value == value and not value.is_integer() for value in values):
        return False
    return len(set(map(str, values))) <= max(MAX_DISTINCT * len(values), 12)


def _is_image(name: str, values: list[str]) -> bool:
    if not values:
        return False
    ends = sum(value.lower().split("?")[0].endswith(IMAGE_ENDINGS) for value in values)
    return ends > len(values) / 2 or (name.lower() in IMAGE_NAMES and all(" " not in value for value in values))
