"""Score rows as text: short names of measures, numbers with their intervals, p values, names of groups."""

from __future__ import annotations

import re

import numpy as np

from cosight.measures import measures
from cosight.statistics.rows import GroupKey, Row

__all__ = ["decimals", "group_name", "number_text", "p_text", "short_name", "two_digits", "unbroken"]

_TOGETHER = re.compile(r"\[[^][]*\]|\bp <?= \S+")  # an interval, a p value
_VARIANTS = {  # published variants of a measure with an abbreviation
    "class_level_error_similarity_pooled": "CLES, pooled",
    "linear_cka_plain": "plain CKA",
}


def short_name(measure: str) -> str:
    """Return a measure's abbreviation in capitals where it has one, else its name.

    >>> short_name("error_consistency"), short_name("linear_cka_plain"), short_name("accuracy")
    ('EC', 'plain CKA', 'accuracy')
    """
    if measure in _VARIANTS:
        return _VARIANTS[measure]
    aliases = measures[measure].aliases if measure in measures else ()
    short = next((alias.upper() for alias in aliases if len(alias) <= 4 and alias != "acc"), None)
    return short or measure.replace("_", " ")


def number_text(row: Row, *, compact: bool = False) -> str:
    """Return a value and its interval as text; with `compact` the interval is on a second line.

    >>> number_text(Row(observer="a", against="b", measure="error_consistency", value=0.3311, low=0.2763, n=10))
    '0.331'
    """
    if row.value is None:
        return "-"
    if row.low is None or row.high is None:
        return decimals(row.value)
    if compact:
        return f"{decimals(row.value)}\n[{row.low:.2f} {row.high:.2f}]"
    return f"{decimals(row.value)} [{decimals(row.low)}, {decimals(row.high)}]"


def decimals(value: float) -> str:
    """Return a number with three decimals, or without any from 100 on.

    >>> decimals(0.5), decimals(-1234.5)
    ('0.500', '-1234')
    """
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def p_text(row: Row) -> str:
    """Return the p value of a difference; `p <=` where no resample contradicts it. An empty text where there is none.

    >>> row = Row(observer="a", measure="error_consistency", statistic="difference", value=0.1, n=10, p=0.0421)
    >>> p_text(row)
    'p = .042'
    """
    if row.p is None:
        return ""
    return f"p {'<=' if 'p_at_resolution' in row.flags else '='} {two_digits(row.p)}"


def two_digits(p: float) -> str:
    """Return a p value with two significant digits and without a leading zero.

    >>> two_digits(2 / 2001), two_digits(0.0421), two_digits(1.0)
    ('.001', '.042', '1')
    """
    return np.format_float_positional(p, precision=2, fractional=False, trim="-").lstrip("0")


def unbroken(text: str) -> str:
    """Return a text whose intervals and p values have spaces that no line is broken at.

    >>> unbroken("EC 0.331 [0.248, 0.413]").split(" ")
    ['EC', '0.331', '[0.248,\\xa00.413]']
    """
    return _TOGETHER.sub(lambda match: match[0].replace(" ", "\u00a0"), text)


def group_name(group: GroupKey) -> str:
    """Return a group as text: its values, and `mean over` the keys that are averaged.

    >>> group_name((("experiment", "edge"), ("condition", "*")))
    'edge mean over condition'
    """
    values = [value for _, value in group if value != "*"]
    averaged = [key for key, value in group if value == "*"]
    return " ".join([*values, *([f"mean over {' and '.join(averaged)}"] if averaged else [])])
