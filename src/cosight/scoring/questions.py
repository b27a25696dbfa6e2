"""What a plan is asked, which questions make sense, and how answers are put."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cosight.errors import InvalidInput
from cosight.measures.declarations import Measure
from cosight.measures.power import PowerPlan, TrialPlan

__all__ = [
    "ACCURACY",
    "EC",
    "MA",
    "Plan",
    "PlanRequest",
    "PlanRow",
    "check",
    "power_rows",
    "refuse",
    "size_of",
    "width_rows",
]

ACCURACY, EC, MA = "accuracy", "error_consistency", "misclassification_agreement"
_ASSUMPTIONS = ("accuracy", "value", "classes", "sd", "joint")
_READ = {  # which assumptions a question about a measure reads, besides --sd
    (ACCURACY, "width"): ("accuracy",),
    (ACCURACY, "difference"): ("accuracy", "value"),
    (EC, "width"): ("accuracy", "value"),
    (EC, "difference"): ("accuracy", "value"),
    (MA, "width"): ("accuracy", "value", "classes", "joint"),
    (MA, "difference"): ("accuracy", "value", "classes", "joint"),
}


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One line of an answer."""

    name: str
    value: float | int | None  # None: cannot be said, and the note says why
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A question and its answer; `dataclasses.asdict` gives what JSON takes."""

    question: str
    rows: tuple[PlanRow, ...]  # the answer first, then what it rests on

    @property
    def value(self) -> float:
        """The first row's number: trials, or people an image."""
        first = self.rows[0].value
        return math.nan if first is None else float(first)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """One question: what is asked for, and what is assumed."""

    kind: str  # width, difference, error
    size: float  # how much of it
    accuracy: tuple[float, ...] | None
    value: float | None
    classes: int | None
    power: float
    sd: float | None
    joint: float | None


def size_of(measure: str, **sizes: float | None) -> tuple[str, float]:
    """The one thing asked for: its option and its size."""
    options = ["error"] if measure == "gold" else ["width", "difference"]
    given = [(name, size) for name, size in sizes.items() if size is not None]
    if len(given) != 1 or given[0][0] not in options:
        got = " and ".join(f"--{name}" for name, _ in given) or "none"
        raise InvalidInput(f"a plan for {measure} is asked for by --{' or --'.join(options)}, got {got}; give one")
    return given[0]


def check(asked: PlanRequest, facts: Measure, *, piloted: bool) -> None:
    """Refuse what cannot be planned, and assumptions the question does not read."""
    if facts.name not in (ACCURACY, EC, MA) and facts.needs != ("distributions",):
        ours = "accuracy, ec, ma, gold and means over items such as hellinger"
        raise InvalidInput(f"plans are made for {ours}, got {facts.name}; bootstrap a pilot's instead")
    most = facts.high - facts.low
    if not (0 < asked.size <= most and math.isfinite(asked.size)):
        limit = f" and at most {most:.4g}, the range of {facts.name}" if math.isfinite(most) else ""
        raise InvalidInput(f"--{asked.kind} must be above 0{limit}, got {asked.size:g}")
    if not 0 < asked.power < 1:
        raise InvalidInput(f"--power must lie between 0 and 1, got {asked.power:g}; .8 is usual")
    if piloted:
        refuse(asked, _ASSUMPTIONS, "a pilot takes the place of assumptions")
    elif asked.sd is not None:
        refuse(asked, ("accuracy", "value", "classes", "joint"), "--sd takes the place of other assumptions")
    else:
        read = _READ.get((facts.name, asked.kind), ())
        refuse(asked, tuple(set(_ASSUMPTIONS) - set(read)), f"a {asked.kind} of {facts.name} does not read it")
    for number in asked.accuracy or ():
        if not 0 <= number <= 1:
            raise InvalidInput(f"--accuracy must be 0 to 1, got {number:g}; divide percentages by 100")


def refuse(asked: PlanRequest, options: Sequence[str], rule: str) -> None:
    """Refuse options that were given although `rule`."""
    for option in sorted(options):
        if getattr(asked, option) is not None:
            raise InvalidInput(f"{rule}, got --{option}; leave it out")


def width_rows(found: TrialPlan, *, note: str = "", joint: bool = False) -> tuple[PlanRow, ...]:
    """The answer to how wide."""
    rows = [PlanRow("trials", found.trials, "; ".join(text for text in (found.assumptions, note) if text))]
    if joint:
        rows.append(PlanRow("jointly wrong trials", found.used, "those the value rests on"))
    rows.append(PlanRow("width", found.width, "of the 95 % interval, end to end"))
    return (*rows, PlanRow("standard error", found.standard_error))


def power_rows(found: PowerPlan, sd: float, note: str) -> tuple[PlanRow, ...]:
    """The answer to telling two models apart."""
    return (
        PlanRow("trials", found.trials, "the same trials for both models and the people; two-sided test at .05"),
        PlanRow("power", found.power, "with that many trials"),
        PlanRow("standard deviation", sd, f"of one trial's difference: {note}"),
        PlanRow("standard error", found.standard_error, "of the difference"),
    )
