"""Trial types: what one trial shows, what its answer may be, what is recorded, and how a simulated participant answers.

An answer comes from the page as JSON:

* classify     a class name, or `abstain` where the label space has it
* timed        the same, or null when the time was up
* 2afc         "left" or "right"
* cluster      for each row the number of its column, from 0
* curate       {"keep": true}, or {"keep": false, "reason": one of the study's}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosight.arrays import distributions
from cosight.errors import InvalidInput
from cosight.humans.study.pool import Item, PictureSlot, shown_slots
from cosight.registry import Registry
from cosight.trials.choices import KEEP, REJECT
from cosight.trials.spaces import LabelSpace

__all__ = ["PANEL", "TIMES", "ParsedAnswer", "Respondent", "TrialContext", "TrialType", "as_images", "trial_types"]

_ALWAYS = ("response", "rt", "input")
PANEL = "panel"  # what simulated people call themselves; others are models that sit a study
TIMES = ("asked", "onset", "offset", "exposure", "frame")  # seconds, of what was on the screen


@dataclass(frozen=True, slots=True)
class TrialContext:
    """One question as it was put: the item, the order of its slots, and what may be answered."""

    item: Item
    order: tuple[int, ...]
    space: LabelSpace | None = None  # classify, timed
    reasons: tuple[str, ...] = ()  # curate

    def stimuli(self, name: str) -> list[str]:
        """Stimuli of the places called NAME or NAME-1, NAME-2 ..., as shown."""
        return [slot.stimulus for slot in self.slots(name)]

    def slots(self, name: str) -> list[PictureSlot]:
        """The places called NAME or NAME-1, NAME-2 ..., as shown."""
        return [slot for slot in shown_slots(self.item, self.order) if slot.name.split("-")[0] == name]


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """One row of the trial table that an answer makes; `extra` is what the type adds to the row's extra."""

    stimulus: str
    response: str | None
    truth: str | None
    expected: str | None = None  # what a check demands of this row
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Respondent:
    """Who answers in people's place: chances of each answer to an item, or distances between two pictures."""

    probabilities: Callable[[Item], Sequence[float]] | None = None
    distance: Callable[[PictureSlot, PictureSlot], float] | None = None


Parse = Callable[[TrialContext, Any], tuple[ParsedAnswer, ...]]
Simulate = Callable[[TrialContext, Respondent, np.random.Generator], Any]


@dataclass(frozen=True, slots=True)
class TrialType:
    """One kind of trial.

    `records` names what is stored with an answer; `slots` the places a trial has ("row" stands for row-1, row-2 ...);
    `options` the settings and tables of a design that only some types have. `parse` turns an answer's JSON into rows
    and raises InvalidInput for anything that is no answer; `simulate` gives the JSON of a simulated answer.
    """

    name: str
    summary: str
    records: tuple[str, ...]
    slots: tuple[str, ...]
    options: frozenset[str]
    parse: Parse
    simulate: Simulate


trial_types: Registry[TrialType] = Registry("trial type", listed=False)


def as_images(slots: Sequence[PictureSlot], addresses: Sequence[str]) -> dict[str, str | list[str]]:
    """Addresses by the place of their slots, as the page gets them; places with numbers make lists.

    >>> from pathlib import Path
    >>> as_images([PictureSlot("column-1", "a", Path("a")), PictureSlot("column-2", "b", Path("b"))], ["/1", "/2"])
    {'columns': ['/1', '/2']}
    """
    images: dict[str, str | list[str]] = {}
    for slot, address in zip(slots, addresses, strict=True):
        name, _, number = slot.name.partition("-")
        if number:
            images.setdefault(f"{name}s", []).append(address)  # type: ignore[union-attr]
        else:
            images[name] = address
    return images


def _space(asked: TrialContext) -> LabelSpace:
    if asked.space is None:
        raise InvalidInput("classes can be answered only where there is a label space, got none; name its labels")
    return asked.space


def _parse_class(asked: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    space = _space(asked)
    if not isinstance(response, str) or response not in space.answers:
        raise InvalidInput(f"an answer must be one of {space.in_words}, got {_brief(response)}")
    return (_of_item(asked, response),)


def _parse_timed(asked: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    return (_of_item(asked, None),) if response is None else _parse_class(asked, response)


def _of_item(asked: TrialContext, response: str | None, **extra: Any) -> ParsedAnswer:
    return ParsedAnswer(asked.item.item, response, asked.item.facts.get("truth"), asked.item.expected, extra)


def _parse_side(asked: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    if not isinstance(response, str) or response not in ("left", "right"):
        raise InvalidInput(f"an answer must be left or right, got {_brief(response)}")
    options = [*asked.stimuli("left"), *asked.stimuli("right")]
    (query,) = asked.stimuli("query")
    return (_of_item(asked, options[response == "right"], options=options, query=query),)


def _parse_columns(asked: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    columns, rows = asked.stimuli("column"), asked.stimuli("row")
    numbers = response if isinstance(response, list) else []
    if len(numbers) != len(rows) or not all(type(n) is int and 0 <= n < len(columns) for n in numbers):
        raise InvalidInput(
            f"an answer must be {len(rows)} numbers from 0 to {len(columns) - 1}, one a row, got {_brief(response)}"
        )
    targets = _targets_as_shown(asked)
    return tuple(
        _of_row(asked.item, row, columns[number], target, columns)
        for row, number, target in zip(rows, numbers, targets, strict=True)
    )


def _targets_as_shown(asked: TrialContext) -> list[str]:
    """The target of each row, in the order the rows were shown."""
    first = len(asked.stimuli("column"))
    return [asked.item.facts["targets"][place - first] for place in asked.order[first:]]


def _of_row(item: Item, query: str, chosen: str, target: str, columns: list[str]) -> ParsedAnswer:
    expected = target if item.role == "check" else None
    extra = {"options": columns, "panel": item.item, "query": query}
    return ParsedAnswer(f"{item.item}/{query}", chosen, target, expected, extra)


def _parse_verdict(asked: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    verdict = response if isinstance(response, dict) else {}
    if verdict.keys() == {"keep"} and verdict["keep"] is True:
        return (_of_item(asked, KEEP),)
    if verdict.keys() != {"keep", "reason"} or verdict["keep"] is not False or verdict["reason"] not in asked.reasons:
        raise InvalidInput(
            f"an answer must be keep, or not keep with a reason ({', '.join(asked.reasons)}), got {_brief(response)}"
        )
    return (_of_item(asked, REJECT, reason=verdict["reason"]),)


def _brief(response: Any) -> str:
    """What was sent, short enough for a line: it may be anything."""
    text = repr(response)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _drawn(asked: TrialContext, who: Respondent, rng: np.random.Generator, answers: Sequence[str]) -> str:
    """An answer drawn with the respondent's chances."""
    if who.probabilities is None:
        raise InvalidInput("a simulated participant of this study needs chances of each answer, got distances only")
    chances = distributions(who.probabilities(asked.item), name="chances of the answers")
    if chances.shape != (len(answers),):
        raise InvalidInput(f"there must be {len(answers)} chances, one an answer, got shape {chances.shape}")
    return answers[int(rng.choice(len(answers), p=chances / chances.sum()))]


def _simulate_class(asked: TrialContext, who: Respondent, rng: np.random.Generator) -> str:
    return _drawn(asked, who, rng, _space(asked).answers)


def _simulate_verdict(asked: TrialContext, who: Respondent, rng: np.random.Generator) -> dict[str, Any]:
    answer = _drawn(asked, who, rng, (KEEP, *asked.reasons))
    return {"keep": True} if answer == KEEP else {"keep": False, "reason": answer}


def _nearest(query: PictureSlot, options: Sequence[PictureSlot], who: Respondent, rng: np.random.Generator) -> int:
    """The place of the option closest to the query; equals are drawn."""
    if who.distance is None:
        raise InvalidInput("a simulated participant of this study needs distances between pictures, got none")
    distances = np.array([who.distance(query, option) for option in options], np.float64)
    return int(rng.choice(np.flatnonzero(distances == distances.min())))


def _simulate_side(asked: TrialContext, who: Respondent, rng: np.random.Generator) -> str:
    (query,) = asked.slots("query")
    return ("left", "right")[_nearest(query, [*asked.slots("left"), *asked.slots("right")], who, rng)]


def _simulate_columns(asked: TrialContext, who: Respondent, rng: np.random.Generator) -> list[int]:
    columns = asked.slots("column")
    return [_nearest(row, columns, who, rng) for row in asked.slots("row")]


_CLASSES = frozenset({"labels", "distractors", "gold"})
for _type in (
    TrialType(
        "classify",
        "one image and the classes, without a time limit",
        _ALWAYS,
        ("image",),
        _CLASSES,
        _parse_class,
        _simulate_class,
    ),
    TrialType(
        "timed",
        "one image for a moment, then the classes for a moment",
        (*_ALWAYS, *TIMES, "late"),
        ("image",),
        _CLASSES | {"timing", "warmup", "overlap", "conditions", "calibration"},
        _parse_timed,
        _simulate_class,
    ),
    TrialType(
        "2afc",
        "which of two images is closer to a third",
        (*_ALWAYS, "options", "query"),
        ("query", "left", "right"),
        frozenset({"checks"}),
        _parse_side,
        _simulate_side,
    ),
    TrialType(
        "cluster",
        "match images in rows to images in columns",
        (*_ALWAYS, "options", "query", "panel"),
        ("column", "row"),
        frozenset({"checks"}),
        _parse_columns,
        _simulate_columns,
    ),
    TrialType(
        "curate",
        "keep an image, or reject it for a reason",
        (*_ALWAYS, "reason"),
        ("image",),
        frozenset({"curate"}),
        _parse_verdict,
        _simulate_verdict,
    ),
):
    trial_types.add(_type.name, _type)
