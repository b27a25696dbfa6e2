"""Trial types: what a trial shows, which answers it accepts, what is recorded and how participants are simulated.

The page sends answers as JSON:

* classify     a class name, or `abstain` where the label space has it
* timed        the same, or null when the time ran out
* 2afc         "left" or "right"
* cluster      the number of the column of each row, from 0
* curate       {"keep": true}, or {"keep": false, "reason": one of the study's}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosight.arrays import distributions
from cosight.errors import InvalidInput
from cosight.humans.study.pool import Item, PictureSlot, arrange_slots
from cosight.registry import Registry
from cosight.trials.choices import KEEP, REJECT
from cosight.trials.spaces import LabelSpace

__all__ = [
    "FLAGS",
    "PANEL",
    "TIMES",
    "ParsedAnswer",
    "Respondent",
    "TrialContext",
    "TrialType",
    "group_addresses",
    "trial_types",
]

_ALWAYS = ("response", "rt", "input")
PANEL = "panel"  # the name of simulated people; other simulated participants have a model's name
TIMES = ("asked", "onset", "offset", "exposure", "frame")  # seconds, measured by the page
FLAGS = ("late", "windowed")  # the image was painted late; the page was not on the full screen


@dataclass(frozen=True, slots=True)
class TrialContext:
    """One question as it was shown: the item, the order of its slots, and the answers that are allowed."""

    item: Item
    order: tuple[int, ...]
    space: LabelSpace | None = None  # classify, timed
    reasons: tuple[str, ...] = ()  # curate

    def slots(self, name: str) -> list[PictureSlot]:
        """Return the slots called NAME or NAME-1, NAME-2 ..., as shown."""
        return [slot for slot in arrange_slots(self.item, self.order) if slot.name.split("-")[0] == name]

    def stimuli(self, name: str) -> list[str]:
        """Return the stimuli of the slots called NAME or NAME-1, NAME-2 ..., as shown."""
        return [slot.stimulus for slot in self.slots(name)]

    @property
    def classes(self) -> LabelSpace:
        """Return the label space. Raises InvalidInput where there is none."""
        if self.space is None:
            raise InvalidInput("answers that are classes need a label space, got none; add labels to the study")
        return self.space


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """One row of the trial table; `extra` is what the trial type adds to the row's `extra` column."""

    stimulus: str
    response: str | None
    truth: str | None
    expected: str | None = None  # what a check demands of this row
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Respondent:
    """A simulated participant: probabilities of each answer to an item, or distances between two pictures."""

    probabilities: Callable[[Item], Sequence[float]] | None = None
    distance: Callable[[PictureSlot, PictureSlot], float] | None = None


Parse = Callable[[TrialContext, Any], tuple[ParsedAnswer, ...]]
Simulate = Callable[[TrialContext, Respondent, np.random.Generator], Any]


@dataclass(frozen=True, slots=True)
class TrialType:
    """One kind of trial.

    `records` names what is stored with an answer; `slots` the slots of a trial ("row" stands for row-1, row-2 ...);
    `options` the settings and tables of a design that only some types have. `parse` turns an answer's JSON into rows
    and raises InvalidInput for anything that is not an answer; `simulate` returns the JSON of a simulated answer.
    """

    name: str
    summary: str
    records: tuple[str, ...]
    slots: tuple[str, ...]
    options: frozenset[str]
    parse: Parse
    simulate: Simulate


trial_types: Registry[TrialType] = Registry("trial type", listed=False)


def group_addresses(slots: Sequence[PictureSlot], addresses: Sequence[str]) -> dict[str, str | list[str]]:
    """Return addresses by the names of their slots, as the page expects them; numbered slots make lists.

    >>> from pathlib import Path
    >>> slots = [PictureSlot("column-1", "a", Path("a")), PictureSlot("column-2", "b", Path("b"))]
    >>> group_addresses(slots, ["/1", "/2"])
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


def _item_answer(context: TrialContext, response: str | None, **extra: Any) -> tuple[ParsedAnswer, ...]:
    item = context.item
    return (ParsedAnswer(item.item, response, item.facts.get("truth"), item.expected, extra),)


def _parse_class(context: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    space = context.classes
    if not isinstance(response, str) or response not in space.answers:
        raise InvalidInput(f"an answer must be one of {space.in_words}, got {_shorten(response)}")
    return _item_answer(context, response)


def _parse_timed(context: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    return _item_answer(context, None) if response is None else _parse_class(context, response)


def _parse_side(context: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    if not isinstance(response, str) or response not in ("left", "right"):
        raise InvalidInput(f"an answer must be left or right, got {_shorten(response)}")
    options = [*context.stimuli("left"), *context.stimuli("right")]
    (query,) = context.stimuli("query")
    (made_with,) = context.item.facts["made_with"]
    return _item_answer(context, options[response == "right"], options=options, query=query, **made_with)


def _parse_columns(context: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    item, columns, rows = context.item, context.stimuli("column"), context.stimuli("row")
    numbers = response if isinstance(response, list) else []
    if len(numbers) != len(rows) or not all(type(n) is int and 0 <= n < len(columns) for n in numbers):
        raise InvalidInput(
            f"an answer must be {len(rows)} numbers from 0 to {len(columns) - 1}, one per row, got {_shorten(response)}"
        )
    # slots are columns, then rows: `order` gives the original index of each row as shown
    original = [index - len(columns) for index in context.order[len(columns) :]]
    return tuple(
        ParsedAnswer(
            stimulus=f"{item.item}/{query}",
            response=columns[number],
            truth=item.facts["targets"][index],
            expected=item.facts["targets"][index] if item.role == "check" else None,
            extra={"options": columns, "panel": item.item, "query": query, **item.facts["made_with"][index]},
        )
        for query, number, index in zip(rows, numbers, original, strict=True)
    )


def _parse_verdict(context: TrialContext, response: Any) -> tuple[ParsedAnswer, ...]:
    verdict = response if isinstance(response, dict) else {}
    if verdict.keys() == {"keep"} and verdict["keep"] is True:
        return _item_answer(context, KEEP)
    if verdict.keys() != {"keep", "reason"} or verdict["keep"] is not False or verdict["reason"] not in context.reasons:
        raise InvalidInput(
            f"an answer must be keep, or not keep with a reason ({', '.join(context.reasons)}), "
            f"got {_shorten(response)}"
        )
    return _item_answer(context, REJECT, reason=verdict["reason"])


def _shorten(response: Any) -> str:
    """Return what was sent, cut to 60 characters: it may be anything."""
    text = repr(response)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _draw_answer(
    context: TrialContext, respondent: Respondent, rng: np.random.Generator, answers: Sequence[str]
) -> str:
    """Draw an answer with the respondent's probabilities."""
    if respondent.probabilities is None:
        raise InvalidInput("a simulated participant of this study needs probabilities of each answer, got distances")
    probabilities = distributions(respondent.probabilities(context.item), name="probabilities of the answers")
    if probabilities.shape != (len(answers),):
        raise InvalidInput(f"there must be {len(answers)} probabilities, one per answer, got {probabilities.shape}")
    return answers[int(rng.choice(len(answers), p=probabilities / probabilities.sum()))]


def _simulate_class(context: TrialContext, respondent: Respondent, rng: np.random.Generator) -> str:
    return _draw_answer(context, respondent, rng, context.classes.answers)


def _simulate_verdict(context: TrialContext, respondent: Respondent, rng: np.random.Generator) -> dict[str, Any]:
    answer = _draw_answer(context, respondent, rng, (KEEP, *context.reasons))
    return {"keep": True} if answer == KEEP else {"keep": False, "reason": answer}


def _nearest(
    query: PictureSlot, options: Sequence[PictureSlot], respondent: Respondent, rng: np.random.Generator
) -> int:
    """Return the index of the option closest to the query; ties are broken at random."""
    if respondent.distance is None:
        raise InvalidInput("a simulated participant of this study needs distances between pictures, got none")
    distances = np.array([respondent.distance(query, option) for option in options], np.float64)
    return int(rng.choice(np.flatnonzero(distances == distances.min())))


def _simulate_side(context: TrialContext, respondent: Respondent, rng: np.random.Generator) -> str:
    (query,) = context.slots("query")
    options = [*context.slots("left"), *context.slots("right")]
    return ("left", "right")[_nearest(query, options, respondent, rng)]


def _simulate_columns(context: TrialContext, respondent: Respondent, rng: np.random.Generator) -> list[int]:
    columns = context.slots("column")
    return [_nearest(row, columns, respondent, rng) for row in context.slots("row")]


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
        (*_ALWAYS, *TIMES, *FLAGS),
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
