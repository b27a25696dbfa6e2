"""Text that fits a terminal."""

from __future__ import annotations

import textwrap

from cosight.statistics.row_text import unbroken

__all__ = ["wrap_text"]


def wrap_text(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Wrap a text at words; an interval in brackets and a p value stay on one line.

    Args:
        text: One paragraph.
        width: Largest number of characters per line. A longer word, such as a path, keeps its line.
        indent: Number of spaces before all lines but the first.

    >>> wrap_text("EC 0.331 [0.248, 0.413] (p = .01)", 18)
    ['EC 0.331', '[0.248, 0.413]', '(p = .01)']
    """
    lines = textwrap.wrap(
        unbroken(text), width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\u00a0", " ") for line in lines] or [""]
