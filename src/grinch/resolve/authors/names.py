"""Personal names: folded to plain letters, parsed, and compared."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

# Letters that Unicode does not decompose into a base letter and an accent.
LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h", "ŧ": "t"}
)
APOSTROPHES = "'’‘ʼ`´ʹ"
HYPHENS = re.compile("[-‐‑‒–—−]")

# fmt: off
PARTICLES = {
    "af", "al", "ap", "av", "da", "das", "de", "degli", "dei", "del", "della", "den", "der", "di", "do", "dos",
    "du", "el", "ibn", "la", "las", "le", "les", "los", "op", "san", "santa", "st", "ten", "ter", "van",
    "vande", "vanden", "vander", "vd", "vom", "von", "zu", "zum", "zur",
}
# fmt: on
SUFFIXES = {"jr", "sr", "jnr", "snr", "junior", "senior", "ii", "iii", "iv", "phd", "md", "esq"}
TITLES = {"dr", "prof", "professor", "mr", "mrs", "ms", "sir", "dame"}


class Name(NamedTuple):
    """A parsed name: the first names, some of which may be initials, and the last name with its particles."""

    first: tuple[str, ...]
    last: str

    @property
    def core(self) -> tuple[str, ...]:
        """The words of the last name without particles such as "van der", unless it has nothing else.

        >>> parsed("Vincent van Gogh").core
        ('gogh',)
        """
        words = tuple(self.last.split())
        return tuple(word for word in words if word not in PARTICLES) or words


def folded(text: str) -> str:
    """Return lower case without accents; letters of other scripts, which have no ASCII form, stay as they are.

    >>> folded("Şükrü Łukasz Müller-Strauß"), folded("Ｗ．Wang"), folded("王伟")
    ('sukru lukasz muller-strauss', 'w.wang', '王伟')
    """
    if text.isascii():
        return text.lower()
    for _ in range(2):  # decomposing may produce capitals, and their small letters may decompose again
        text = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", bare.translate(LETTERS))


@lru_cache(2**16)
def parsed(name: str) -> Name:
    """Parse a name written as "First Last", "Last, First" or, with initials only, "Last F".

    >>> parsed("Wang, Wei")
    Name(first=('wei',), last='wang')
    >>> parsed("W. Wang")
    Name(first=('w',), last='wang')
    >>> parsed("Juan-Carlos de la Cruz")
    Name(first=('juan', 'carlos'), last='de la cruz')
    >>> parsed("van der Berg, J.P.")
    Name(first=('j', 'p'), last='van der berg')
    >>> parsed("Martin Luther King, Jr.")
    Name(first=('martin', 'luther'), last='king')
    """
    given, family = _sides(_tidy(name))
    if family is None:
        given, family = _split(_without_ends(given))
    elif given and set(_plain(given[-1:])) <= PARTICLES:
        # "Berg, Jan van der": the particles belong to the last name.
        start = _particles_before(given, len(given))
        given, family = given[:start], given[start:] + family
    return Name(tuple(_words(given)), " ".join(_plain(family)))


def compatible(a: str | Name, b: str | Name) -> bool:
    """Return whether two names can be of one person, as far as they are written out.

    First names agree word by word: an initial agrees with any name that starts with it, and a missing name with
    everything. Last names agree without their particles, and a double name also agrees with its last part.

    >>> compatible("W. Wang", "Wang, Wei"), compatible("Wei Wang", "Wen Wang")
    (True, False)
    >>> compatible("Xiao-Ming Li", "Xiaoming Li"), compatible("John A. Smith", "John B. Smith")
    (True, False)
    """
    a, b = (name if isinstance(name, Name) else parsed(name) for name in (a, b))
    return _same_last(a, b) and (
        all(map(_agree, a.first, b.first)) or _spelled("".join(a.first), "".join(b.first), a.first, b.first)
    )


def _tidy(name: str) -> str:
    """Remove apostrophes, numbers and brackets; add a space after each initial's full stop."""
    text = HYPHENS.sub("-", unicodedata.normalize("NFKC", html.unescape(name))).translate(
        dict.fromkeys(map(ord, APOSTROPHES))
    )
    text = re.sub(r"\([^)]*\)|[\d_*\"†‡§]", " ", text)
    return re.sub(r"\.", ". ", text)


def _sides(text: str) -> tuple[list[str], list[str] | None]:
    """Return first names and last name of "Last, First"; without a comma all the words, and None."""
    parts = [words for part in re.split("[,;]", text) if (words := [w for w in part.split() if re.search(r"\w", w)])]
    if len(parts) > 1:
        parts = parts[:1] + [part for part in parts[1:] if not set(_plain(part)) <= SUFFIXES]
    if len(parts) < 2:
        return (parts[0] if parts else []), None
    return [word for part in parts[1:] for word in part], parts[0]


def _without_ends(words: list[str]) -> list[str]:
    """Remove titles before and suffixes after the name, as long as two words remain."""
    while len(words) > 2 and set(_plain(words[:1])) <= TITLES:
        words = words[1:]
    while len(words) > 2 and set(_plain(words[-1:])) <= SUFFIXES:
        words = words[:-1]
    return words


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return first names and last name, of words without a comma between them."""
    if len(words) == 1 and _has_no_spaces(words[0]):
        return [words[0][1:]] if len(words[0]) > 1 else [], [words[0][0]]
    if len(words) > 1 and _is_initials(words[-1]) and not _is_initials(words[0]):
        start = next(i for i, word in enumerate(words) if i and _is_initials(word))
        return words[start:], words[:start]  # "Wang W", "van Gogh V W"
    start = _particles_before(words, len(words) - 1)
    if start == 1 and len(words) > 2 and set(_plain(words[:1])) <= PARTICLES:
        start = 0  # "de la Cruz": nothing but a last name
    return words[: max(start, 0)], words[max(start, 0) :]


def _particles_before(words: list[str], end: int) -> int:
    """Return where the particles begin that stand before ``end``; the first word is a name ("Di Wang", "Le Zhang")."""
    while end > 1 and set(_plain(words[end - 1 : end])) <= PARTICLES:
        end -= 1
    return end


def _is_initials(word: str) -> bool:
    """Return whether a word is initials, one letter or capitals that no name is made of: "J.", "JC", "J.-P."."""
    letters = re.sub(r"[\W_]", "", word)
    if len(letters) == 1:
        return not _has_no_spaces(letters)
    return (
        len(letters) <= 3
        and letters.isupper()
        and letters != "NG"
        and not re.search("[AEIOUY]", folded(letters).upper())
    )


def _has_no_spaces(word: str) -> bool:
    """Return whether a name is Chinese or Korean: one word, the last name first."""
    return all(unicodedata.name(letter, "").startswith(("CJK UNIFIED", "HANGUL SYL")) for letter in word)


def _words(words: list[str]) -> list[str]:
    """Return first names, folded: a word for each part of a double name, a letter for each initial."""
    found: list[str] = []
    for word in words:
        is_initials = _is_initials(word)
        for part in _plain([word]):
            found.extend(part if is_initials else [part])
    return found


def _plain(words: list[str]) -> list[str]:
    return re.sub(r"[\W_]+", " ", folded(" ".join(words))).split()


def _agree(a: str, b: str) -> bool:
    return a == b or (len(a) == 1 and b.startswith(a)) or (len(b) == 1 and a.startswith(b))


def _spelled(a: str, b: str, first_a: tuple[str, ...], first_b: tuple[str, ...]) -> bool:
    """Return whether names are the same in one word and in two: "xiao ming" and "xiaoming"; but "j p" is not "jp"."""
    return a == b and all(len(word) > 1 for word in first_a + first_b)


def _same_last(a: Name, b: Name) -> bool:
    n = min(len(a.core), len(b.core))
    return n == 0 or a.core[-n:] == b.core[-n:] or "".join(a.core) == "".join(b.core)
