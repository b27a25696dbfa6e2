"""Progress of long calls: a callback, or a progress bar on the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Progress", "progress_bar", "report_progress"]

Progress = Callable[[int, int, str], None]  # parts done, parts in all, the part that is next
_WIDEST = 40  # characters of a description
_BAR, _LINE = 20, 79  # characters of the bar and of the line in a notebook


@contextmanager
def report_progress(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """Yield the function that a long call tells its progress to, or None.

    Args:
        progress: The argument of the long call: a function; True for a bar; False for nothing; None for a bar in
            notebooks and interactive sessions, and nothing in scripts.
    """
    if callable(progress):
        yield progress
    elif progress or (progress is None and _is_interactive()):
        with progress_bar() as bar:
            yield bar
    else:
        yield None


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """Show a progress bar on standard error; yield None where nobody would see it."""
    if _is_notebook():
        with _notebook_line() as line:
            yield line
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting", total=None)
            yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what[:_WIDEST])
    else:
        yield None


@contextmanager
def _notebook_line() -> Iterator[Progress]:
    """Yield a function that rewrites one line below a notebook's cell. rich would need ipywidgets there."""

    def write(done: int, total: int, what: str) -> None:
        filled = _BAR * done // max(total, 1)
        text = f"[{'=' * filled}{' ' * (_BAR - filled)}] {done}/{total} {what[:_WIDEST]}"
        sys.stderr.write(f"\r{text:<{_LINE}}")
        sys.stderr.flush()

    try:
        yield write
    finally:
        sys.stderr.write(f"\r{'':<{_LINE}}\r")


def _is_interactive() -> bool:
    """Return whether somebody types Python: in a notebook, or at a prompt."""
    return _is_notebook() or hasattr(sys, "ps1")


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
