"""Patterns of names, each with a value: how a TOML file, or pairs, sort observers and domains into groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from cosight.errors import InvalidInput

__all__ = ["Patterns", "first_fit", "parse_pairs", "parse_tables"]

Patterns = tuple[tuple[str, str], ...]
"""Pairs of pattern and value; the first pattern that fits a name decides."""


def first_fit(patterns: Patterns, name: str) -> str | None:
    """Return the value of the first pattern that fits a name; None where none does. Case does not matter.

    >>> first_fit((("*trades*", "TRADES"), ("*", "standard")), "resnet20-trades-6")
    'TRADES'
    """
    return next((value for pattern, value in patterns if fnmatchcase(name.lower(), pattern.lower())), None)


def parse_pairs(parts: Iterable[str]) -> Patterns:
    """Parse `PATTERN=VALUE` texts.

    Raises:
        InvalidInput: A text has no `=`, or nothing on one side of it.

    >>> parse_pairs(["net-*=mine"])
    (('net-*', 'mine'),)
    """
    pairs = []
    for part in parts:
        pattern, _, value = part.rpartition("=")
        if not pattern or not value:
            raise InvalidInput(f"--families takes PATTERN=FAMILY pairs or a TOML file, got {part!r}")
        pairs.append((pattern, value))
    return tuple(pairs)


def parse_tables(content: Mapping[str, Any], context: str) -> dict[str, Patterns]:
    """Parse the tables of a TOML file, in which every value has a list of patterns.

    Args:
        content: The parsed file.
        context: What messages call the file.

    Returns:
        Name of the table -> its patterns.

    Raises:
        InvalidInput: The file does not have this form.

    >>> parse_tables({"loss": {"TRADES": ["*trades*"]}}, "networks.toml")
    {'loss': (('*trades*', 'TRADES'),)}
    """
    tables: dict[str, Patterns] = {}
    for table, entries in content.items():
        if not isinstance(entries, Mapping):
            raise InvalidInput(f"{context}: {table} must be a table, got {entries!r}")
        pairs = []
        for value, patterns in entries.items():
            if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
                raise InvalidInput(f"{context}: {table}.{value} must be a list of texts, got {patterns!r}")
            pairs += [(pattern, value) for pattern in patterns]
        tables[table] = tuple(pairs)
    return tables
