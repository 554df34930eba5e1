"""Fonts for all scripts: what the usual one does not have is taken from others that are installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Fonts of Linux, macOS and Windows with the letters of many scripts, or of one.
OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
    "NanumGothic",
    "Noto Sans Devanagari",
    "Noto Sans Tamil",
    "Noto Sans Bengali",
    "Noto Sans Thai",
    "Noto Sans Hebrew",
    "Noto Sans Arabic",
    "Nirmala UI",
    "Leelawadee UI",
    "Thonburi",
    "Lohit Devanagari",
    "Loma",
    "Arial Unicode MS",
    "Unifont",
)


@contextmanager
def many_fonts() -> Iterator[None]:
    """Within, texts that are written get every letter from the first font that has it.

    >>> import matplotlib
    >>> with many_fonts():
    ...     matplotlib.rcParams["font.family"][0]
    'sans-serif'
    """
    import matplotlib
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    families = [*matplotlib.rcParams["font.family"], *(name for name in OTHERS if name in installed)]
    with matplotlib.rc_context({"font.family": families}):
        yield
