"""Text that fits a terminal."""

from __future__ import annotations

import re
import textwrap

__all__ = ["wrap_text"]

_NO_BREAK = "\u00a0"  # a space that textwrap does not break at
_KEPT = re.compile(r"\[[^][]*\]|\bp <?= \S+")  # intervals and p values


def wrap_text(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Wrap a text at words; an interval in brackets and a p value stay on one line.

    Args:
        text: One paragraph.
        width: Largest number of characters per line. A longer word, such as a path, keeps its line.
        indent: Number of spaces before all lines but the first.

    >>> wrap_text("EC 0.331 [0.248, 0.413] (p = .01)", 18)
    ['EC 0.331', '[0.248, 0.413]', '(p = .01)']
    """
    kept = _KEPT.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
    lines = textwrap.wrap(kept, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines] or [""]
