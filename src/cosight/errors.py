"""The errors that cosight raises on purpose, and parts of their messages.

* CosightError       printed by the command line as one line, exit code 2, no traceback
  - InvalidInput     an array, file or option breaks a stated rule (a ValueError)
  - UnknownName      a name is not among those that exist (a LookupError)

A message says what is wrong, the value, and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["CosightError", "InvalidInput", "UnknownName", "did_you_mean", "first_line", "similar_names"]


class CosightError(Exception):
    """An error that the user can correct."""


class InvalidInput(CosightError, ValueError):
    """An array, file or option breaks a stated rule."""


class UnknownName(CosightError, LookupError):
    """A name is not among those that exist."""


def similar_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names that are spelled like `name`, the most similar first; upper and lower case are equal.

    >>> similar_names("Aple", ["pear", "apple"])
    ['apple']
    """
    folded = {key.casefold(): key for key in reversed(list(known))}
    return [folded[key] for key in get_close_matches(name.casefold(), list(folded)[::-1], n=most)]


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3, otherwise: str | None = None) -> str:
    """Return the hint that ends the message about an unknown name.

    Args:
        name: The unknown name; upper and lower case are compared as equal.
        known: The names that exist.
        most: The largest number of names to suggest.
        otherwise: The hint when no name is similar (default: a list of all known names).

    Returns:
        "did you mean A or B?", the most similar name first, or the other hint.

    >>> did_you_mean("aple", ["apple", "pear"])
    'did you mean apple?'
    >>> did_you_mean("fig", ["apple", "pear"])
    'there are apple, pear'
    """
    names = list(known)
    similar = similar_names(name, names, most=most)
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    return f"there are {', '.join(names) or 'none'}" if otherwise is None else otherwise


def first_line(error: BaseException, *, most: int = 120) -> str:
    """Return the first line of another library's error message, cut to `most` characters; its class if it is empty.

    >>> first_line(OSError("no route" + chr(10) + "to host")), first_line(KeyboardInterrupt())
    ('no route', 'KeyboardInterrupt')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:most]
