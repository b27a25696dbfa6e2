"""Answers that were paid for: a file with one JSON line per answer, what they cost, and the budget.

A line is written and flushed to the disk as soon as the answer arrives, so that an interrupted run asks only what is
missing. Half a line, left by a killed process, is ignored.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cosight.errors import CosightError, InvalidInput, did_you_mean
from cosight.files import disk_errors
from cosight.models.vlm.endpoint import Reply
from cosight.models.vlm.settings import VlmSettings

__all__ = ["Budget", "BudgetReached", "Journal", "Spending", "check_budget", "parse_budget"]


class BudgetReached(CosightError):
    """The budget of a run is used up."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the requests of a run may take; None: no limit."""

    requests: float | None = None
    tokens: float | None = None
    cost: float | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name}={getattr(self, name):,g}" for name in _LIMITS if getattr(self, name) is not None)


_LIMITS = tuple(one.name for one in fields(Budget))


def parse_budget(text: str) -> Budget:
    """Parse a budget.

    Args:
        text: Comma-separated limits: `requests=1000,tokens=2e6,cost=5`.

    Returns:
        The budget.

    Raises:
        InvalidInput: The text has another form.

    >>> parse_budget("requests=100,cost=2.5")
    Budget(requests=100.0, tokens=None, cost=2.5)
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name not in _LIMITS or name in limits:
            hint = did_you_mean(name, _LIMITS, most=1, otherwise=f"limits are {', '.join(_LIMITS)}, each once")
            raise InvalidInput(f"--budget must be limits like requests=1000,cost=5, got {part.strip()!r}; {hint}")
        try:
            limits[name] = float(number)
        except ValueError:
            limits[name] = -1.0
        if not 0 <= limits[name] < float("inf"):
            raise InvalidInput(f"--budget: {name} must be a number of 0 or more, got {number!r}")
    return Budget(**limits)


def check_budget(budget: Budget, settings: VlmSettings) -> None:
    """Raise InvalidInput where a budget limits the cost of a model whose price is not known."""
    if budget.cost is not None and settings.price is None:
        raise InvalidInput(
            f"a budget of cost needs the price of tokens, {settings.name} has none; add price=INPUT/OUTPUT"
        )


class Journal:
    """The answers of one observer in a file. Threads may add to it.

    Args:
        path: The file; None: answers are kept only in memory.
        afresh: Whether to ignore the answers that the file has.
    """

    def __init__(self, path: Path | None, *, afresh: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._replies: dict[str, Reply] = {}
        if path is not None and path.exists() and not afresh:
            for line in path.read_bytes().splitlines():
                reply = _read_line(line)
                if reply is not None:
                    self._replies[reply[0]] = reply[1]

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, key: str) -> Reply | None:
        """Return the answer to a question, None where there is none."""
        return self._replies.get(key)

    def replies(self) -> list[Reply]:
        """Return all answers."""
        return list(self._replies.values())

    def add(self, key: str, reply: Reply) -> None:
        """Write an answer to the disk."""
        if self.path is None:
            self._replies[key] = reply
            return
        line = json.dumps({"key": key, **asdict(reply)}, ensure_ascii=False) + "\n"
        with self._lock, disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                if file.tell() and not self._ends_with_newline(file):  # of a killed process
                    line = f"\n{line}"
                file.write(line.encode("utf-8", "replace"))
                file.flush()
                os.fsync(file.fileno())
            self._replies[key] = reply

    @staticmethod
    def _ends_with_newline(file: Any) -> bool:
        file.seek(-1, os.SEEK_END)
        return bool(file.read(1) == b"\n")


def _read_line(line: bytes) -> tuple[str, Reply] | None:
    """Return key and answer of a line; None where it is not a whole one."""
    try:
        content = json.loads(line)
        return str(content.pop("key")), Reply(**content)
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


@dataclass(eq=False)
class Spending:
    """What the requests of a run have taken so far, and its budget. Threads share it.

    A question under way is taken to cost as much as the most expensive answer so far, so that questions asked at the
    same time do not exceed the budget together.
    """

    budget: Budget = field(default_factory=Budget)
    requests: int = 0
    tokens: int = 0
    cost: float = 0.0
    _open: int = 0  # questions under way
    _expected: tuple[int, float] = (0, 0.0)  # tokens and cost of an answer, before there is one
    _largest: tuple[int, float] | None = None  # tokens and cost of the most expensive answer so far
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, tokens: int, cost: float) -> None:
        """Set what an answer is expected to take, as long as none has arrived."""
        self._expected = tokens, cost

    def recall(self, reply: Reply, settings: VlmSettings) -> None:
        """Count an answer of an earlier session."""
        self.requests += reply.requests
        self._count(reply, settings)

    @contextmanager
    def question(self, settings: VlmSettings) -> Iterator[Callable[[Reply], None]]:
        """Count a question that is asked in the block; the block calls the function with the answer."""
        with self._lock:
            self._open += 1
        try:
            yield lambda reply: self._count(reply, settings)
        finally:
            with self._lock:
                self._open -= 1

    def begin_request(self) -> None:
        """Count a request of a question; raise BudgetReached where it could exceed the budget."""
        with self._lock:
            tokens, cost = self._largest or self._expected
            after = {
                "requests": self.requests + 1,
                "tokens": self.tokens + self._open * tokens,
                "cost": self.cost + self._open * cost,
            }
            for name, value in after.items():
                limit = getattr(self.budget, name)
                if limit is not None and value > limit * (1 + 1e-9):
                    raise BudgetReached(
                        f"the budget ({self.budget}) is used up, the run has taken {self}; raise --budget and run the "
                        "same command again: answers so far are kept"
                    )
            self.requests += 1

    def _count(self, reply: Reply, settings: VlmSettings) -> None:
        tokens, cost = reply.tokens_in + reply.tokens_out, settings.cost(reply.tokens_in, reply.tokens_out) or 0.0
        with self._lock:
            most_tokens, most_cost = self._largest or (0, 0.0)
            self._largest = max(most_tokens, tokens), max(most_cost, cost)
            self.tokens, self.cost = self.tokens + tokens, self.cost + cost

    def __str__(self) -> str:
        money = f" and {self.cost:.4g} in money" if self.cost else ""
        return f"{self.requests:,} requests, {self.tokens:,} tokens{money}"
