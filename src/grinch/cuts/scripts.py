"""Words of scripts that write no spaces: overlapping pairs of characters, as in Lucene's analyzer for CJK."""

from __future__ import annotations

import re

# Han with its marks of repetition, Hiragana, Katakana (also of half width).
UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
# Two letters or digits at least, as scikit-learn's CountVectorizer takes them; of these scripts also one.
WORD = rf"\b\w\w+\b|[{UNSPACED}]"
_RUN = re.compile(f"[{UNSPACED}]+")


def in_pairs(text: str) -> str:
    """A text with spaces between the pairs of characters that stand for the words of scripts without spaces.

    >>> in_pairs("iPhone发布会, 猫")
    'iPhone 发布 布会 ,  猫 '
    """
    # Most texts have none, and are not copied.
    return _RUN.sub(_pairs, text) if _RUN.search(text) else text


def _pairs(run: re.Match[str]) -> str:
    found = run.group()
    pairs = [found[i : i + 2] for i in range(max(len(found) - 1, 1))]
    return f" {' '.join(pairs)} "
