"""Words of all scripts: vowel signs belong to them, and where no spaces are written, pairs of characters are words."""

from __future__ import annotations

import re
import unicodedata
from itertools import chain, groupby

# Han with its marks of repetition, Hiragana, Katakana (also of half width), as in Lucene's analyzer for CJK; and Thai,
# Lao, Burmese and Khmer.
UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
)
# Where signs are that go with a letter: to look through all of Unicode takes thirty milliseconds.
WITH_SIGNS = (
    (0x300, 0x2000),
    (0x20D0, 0x2E00),
    (0x3000, 0x30A0),
    (0xA600, 0xAC00),
    (0xFE00, 0xFE30),
    (0x10000, 0x12000),
)


def _signs() -> str:
    """Vowel signs, accents and other marks, which the letters of a regular expression do not include, as ranges.

    Also what joins letters, or keeps them apart, within a word.
    """
    numbers = chain.from_iterable(range(*place) for place in WITH_SIGNS)
    ranges = (list(run) for is_sign, run in groupby(numbers, _is_sign) if is_sign)
    return "\u200c\u200d" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in ranges)


def _is_sign(number: int) -> bool:
    return unicodedata.category(chr(number)) in ("Mn", "Mc")


SIGNS = _signs()
# Two letters, digits or signs at least, as in scikit-learn's CountVectorizer; of scripts without spaces also one.
WORD = rf"\w[\w{SIGNS}]+|[{UNSPACED}]"
_LETTER = re.compile(rf".[{SIGNS}]*", re.DOTALL)
_RUN = re.compile(f"[{UNSPACED}]+")


def in_pairs(text: str) -> str:
    """A text with spaces between the pairs of characters that stand for the words of scripts without spaces.

    >>> in_pairs("iPhone发布会, 猫")
    'iPhone 发布 布会 ,  猫 '
    """
    # Most texts have none, and are not copied.
    return _RUN.sub(_pairs, text) if _RUN.search(text) else text


def _pairs(run: re.Match[str]) -> str:
    found = _LETTER.findall(run.group())
    pairs = ["".join(found[i : i + 2]) for i in range(max(len(found) - 1, 1))]
    return f" {' '.join(pairs)} "
