"""Functions compiled by numba, cached on the disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["compiled"]


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function when it is first called.

    The machine code is cached in the package's `__pycache__`, the user's cache folder or `NUMBA_CACHE_DIR`, whichever
    can be written to first; where none can, every process compiles it again, in some seconds.

    Args:
        options: Options of `numba.njit`.

    >>> @compiled()
    ... def twice(number):
    ...     return 2 * number
    >>> twice(3)
    6
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except (RuntimeError, OSError):  # numba found no folder that it can write to
            return njit(**options)(function)

    return decorate
