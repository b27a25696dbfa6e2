"""The interface of a judge: a question is a query and options, the answer is the option that looks most like it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from cosight.stimuli.images import Bytes

__all__ = ["Choice", "Judge", "PixelsOf", "Question"]

PixelsOf = Callable[[str], Bytes]
"""Return the pixels of a stimulus, given its digest."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which option looks most like the query? Both are digests of stimuli."""

    query: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer to one question.

    Attributes:
        option: Number of the chosen option, from 0; None for no answer: a tie, or a refusal.
        facts: What is stored with the answer, as JSON, such as the distances behind it.
    """

    option: int | None
    facts: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Judge(Protocol):
    """An observer that answers questions. `name` is the observer's name, `facts` what its answers depend on."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def facts(self) -> Mapping[str, Any]: ...  # noqa: D102

    def choose(self, questions: Sequence[Question], pixels_of: PixelsOf) -> Iterator[Choice]:
        """Yield the answer to each question, in order; `pixels_of` returns an image by its digest."""
        ...
