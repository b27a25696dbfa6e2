"""Plans from a pilot: its trials take the place of assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.power import (
    kappa_influence,
    misclassification_influence,
    trials_for_accuracy,
    trials_for_mean,
    trials_to_tell_apart,
)
from cosight.measures.study_size import people_and_images_for_width, variance_parts
from cosight.scoring.questions import ACCURACY, EC, MA, PlanRequest, PlanRow, power_rows, width_rows
from cosight.trials.join import AlignedTrials

__all__ = ["plan_from_pilot"]

_INCOMPLETE = "everybody must have met every stimulus of the pilot to tell people from images"
_FEW_PEOPLE = 10  # below, t of people - 1 degrees of freedom exceeds the normal's 1.96 by more than 15 %


@dataclass(frozen=True, slots=True, eq=False)
class _Piloted:
    """A measure of one or two observers in the pilot, and what each stimulus contributes to its error."""

    value: float
    items: FloatArray  # (stimuli,), mean 0; 0 where it does not bear on the value
    met: int  # stimuli that do

    @property
    def variance(self) -> float:
        """Of one stimulus that was met; nan with fewer than two."""
        scale = self.met / len(self.items)
        return float(np.sum((self.items * scale) ** 2)) / (self.met - 1) if self.met > 1 else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """The pairs of a pilot for which a measure is defined."""

    pairs: list[tuple[int, int]]
    values: list[float]
    variances: list[float]  # of one stimulus
    wrong: list[float]  # shares of jointly wrong trials
    sums: dict[int, FloatArray]  # by the first observer: values and influences (stimuli,), summed over the second

    @property
    def sd(self) -> float:
        """Of one stimulus, for a typical pair."""
        return math.sqrt(float(np.mean(self.variances)))

    @property
    def mean_sd(self) -> float:
        """Of one stimulus, for the mean over the pairs."""
        return float(np.std(sum(self.sums.values(), np.zeros(1)) / len(self.pairs), ddof=1))

    def side(self, which: int) -> list[int]:
        """The first or the second observers."""
        return sorted({pair[which] for pair in self.pairs})


def plan_from_pilot(asked: PlanRequest, name: str, pilot: AlignedTrials, names: tuple[str, ...]) -> tuple[PlanRow, ...]:
    """The answer from the pilot's observers called `names`, or from all its pairs of a person and a model."""
    if name not in (ACCURACY, EC, MA):
        raise InvalidInput(f"a pilot's answers tell nothing about {name}, got a pilot; give --sd of one item")
    chosen, (people, models) = _chosen(pilot, names), _sides(pilot)
    if asked.kind == "difference":
        return _piloted_difference(asked, name, pilot, people, chosen or models)
    if name == ACCURACY:
        return _piloted_accuracy(asked, pilot, chosen or models or people)
    if chosen and len(chosen) != 2:
        raise InvalidInput(f"a pair has two observers, got {len(chosen)}; name a person and a model")
    pairs = [(chosen[0], chosen[1])] if chosen else [(i, j) for i in people for j in models]
    return _piloted_pairs(asked, name, pilot, pairs, crossed=not chosen)


def _chosen(pilot: AlignedTrials, names: tuple[str, ...]) -> list[int]:
    for name in names:
        if name not in pilot.observers:
            known = ", ".join(pilot.observers[:8]) + (", ..." if len(pilot.observers) > 8 else "")
            raise InvalidInput(f"observers must be in the pilot, got {name!r}; it has {known}")
    if len(set(names)) < len(names):
        raise InvalidInput(f"observers must differ, got {', '.join(names)}")
    return [pilot.observers.index(name) for name in names]


def _sides(pilot: AlignedTrials) -> tuple[list[int], list[int]]:
    """People and models; simulated people only where there are no others."""
    real = pilot.people & ~pilot.simulated
    people = real if real.any() else pilot.people
    return np.flatnonzero(people).tolist(), np.flatnonzero(~pilot.people).tolist()


def _piloted_pairs(
    asked: PlanRequest, name: str, pilot: AlignedTrials, pairs: list[tuple[int, int]], *, crossed: bool
) -> tuple[PlanRow, ...]:
    found = _gathered(name, pilot.answers, pairs)
    if not found.pairs:
        raise InvalidInput(f"a pilot must define {name} for a person and a model, got none; name two observers")
    share = float(np.mean(found.wrong)) if name == MA else 1.0
    one = trials_for_mean(found.sd * math.sqrt(share), width=asked.size)
    lost = f", {len(pairs) - len(found.pairs)} undefined left out" if len(found.pairs) < len(pairs) else ""
    rows = [PlanRow("trials", math.ceil(round(one.used / share, 9)), _who(pilot, found) + lost)]
    if name == MA:
        rows.append(PlanRow("jointly wrong trials", one.used, "those the value rests on"))
    if len(found.pairs) > 1:
        mean = trials_for_mean(found.mean_sd, width=asked.size)
        rows.append(
            PlanRow("trials, mean over pairs", mean.trials, f"{len(found.pairs)} pairs of these very observers")
        )
    if crossed:
        rows += _crossed_rows(asked.size, pilot, found)
    return (*rows, *_facts(name, pilot, found))


def _gathered(name: str, answers: Answers, pairs: list[tuple[int, int]]) -> _Pairs:
    """Sums rather than every pair's influences, which would not fit for many models and stimuli."""
    out = _Pairs([], [], [], [], {})
    for i, j in pairs:
        part = _of_pair(name, answers, i, j)
        if math.isnan(part.variance):
            continue
        out.pairs.append((i, j))
        out.values.append(part.value)
        out.variances.append(part.variance)
        out.wrong.append(np.count_nonzero(answers.wrong[i] & answers.wrong[j]) / part.met)
        out.sums[i] = out.sums.get(i, 0.0) + part.value + part.items
    return out


def _who(pilot: AlignedTrials, found: _Pairs) -> str:
    if len(found.pairs) == 1:
        return "of the pilot's " + " and ".join(_called(pilot, [i], "") for i in found.pairs[0])
    people = _called(pilot, found.side(0), "people")
    return f"for one person and one model, mean of the pilot's {len(found.pairs)} pairs with {people}"


def _called(pilot: AlignedTrials, who: list[int], many: str) -> str:
    """A name for one observer, `many` for several; simulated people are always called so."""
    name = pilot.observers[who[0]] if len(who) == 1 else many
    return f"{name} (simulated)" if pilot.simulated[who].any() else name


def _facts(name: str, pilot: AlignedTrials, found: _Pairs) -> list[PlanRow]:
    sides = [(found.side(0), "people"), (found.side(1), "models")]
    return [
        PlanRow(name, float(np.mean(found.values)), "in the pilot"),
        *(PlanRow(f"accuracy, {_called(pilot, *side)}", _accuracy(pilot, side[0]), "in the pilot") for side in sides),
        PlanRow("jointly wrong", float(np.mean(found.wrong)), "share of the pilot's trials"),
        PlanRow("standard deviation", found.sd, "of one trial's influence on one pair's value"),
    ]


def _crossed_rows(width: float, pilot: AlignedTrials, found: _Pairs) -> list[PlanRow]:
    """The cheapest people x images for the mean over pairs, from each person's values averaged over the models."""
    everybody = pilot.answers.of([*found.side(0), *found.side(1)])
    if not everybody.shown.all():
        return _no_design(_INCOMPLETE)
    times = [sum(pair[0] == person for pair in found.pairs) for person in found.sums]
    return _design(width, np.stack([total / n for total, n in zip(found.sums.values(), times, strict=True)]))


def _design(width: float, table: FloatArray) -> list[PlanRow]:
    """People and images from a table (people, stimuli) of values; their number None where none can be given."""
    try:
        parts = variance_parts(table)
        found = people_and_images_for_width(parts, width=width, negative="zero")
    except InvalidInput as reason:
        return _no_design(str(reason))
    zero = f"; estimated below zero and taken as none: {', '.join(parts.negative)}" if parts.negative else ""
    people, images = int(found.people[found.cheapest]), int(found.images[found.cheapest])
    few = "; with so few people a real interval is wider" if people < _FEW_PEOPLE else ""
    note = f"fewest answers in all, other people and other images; 2 to 200 people tried{few}{zero}"
    return [PlanRow("people", people, note), PlanRow("images", images, f"for {people} people, each answering all")]


def _no_design(reason: str) -> list[PlanRow]:
    return [PlanRow("people", None, reason), PlanRow("images", None, reason)]


def _piloted_accuracy(asked: PlanRequest, pilot: AlignedTrials, who: list[int]) -> tuple[PlanRow, ...]:
    share = _accuracy(pilot, who)
    note = f"of {_called(pilot, who, f'{len(who)} observers')} in the pilot"
    rows = width_rows(trials_for_accuracy(share, width=asked.size), note=note)
    if len(who) < 2 or not pilot.people[who].all():
        return rows
    answers = pilot.answers.of(who)
    crossed = (
        _design(asked.size, answers.correct.astype(np.float64)) if answers.shown.all() else _no_design(_INCOMPLETE)
    )
    return (*rows, *crossed)


def _piloted_difference(
    asked: PlanRequest, name: str, pilot: AlignedTrials, people: list[int], models: list[int]
) -> tuple[PlanRow, ...]:
    if len(models) < 2:
        raise InvalidInput(f"a difference is between two models, got {len(models)}; name two observers of the pilot")
    pulls, against = _pulls(name, pilot, [person for person in people if person not in models], models)
    spread = np.cov(pulls)  # over stimuli
    gaps = np.diag(spread)[:, None] + np.diag(spread) - 2 * spread
    sd = math.sqrt(max(float(gaps[np.triu_indices(len(models), 1)].mean()), 0.0))  # of equal models, rounding
    note = f"the pilot's, between {' and '.join(pilot.observers[i] for i in models)}"
    if len(models) > 2:
        note = f"the pilot's, mean over the pairs of {len(models)} models"
    return power_rows(trials_to_tell_apart(asked.size, sd=sd, power=asked.power), sd, note + against)


def _pulls(name: str, pilot: AlignedTrials, people: list[int], models: list[int]) -> tuple[FloatArray, str]:
    """Each stimulus' influence on each model's value (models, stimuli), mean over people; and against whom."""
    if name == ACCURACY:
        return np.stack([_of_one(pilot.answers, i).items for i in models]), ""
    total, used = np.zeros((len(models), pilot.answers.stimuli)), []
    for person in people:
        mine = np.stack([_of_pair(name, pilot.answers, person, model).items for model in models])
        if not np.isnan(mine).any():
            total += mine
            used.append(person)
    if not used:
        raise InvalidInput(f"a pilot must define {name} of each model with some person, got none; give --sd instead")
    lost = f", {len(people) - len(used)} undefined left out" if len(used) < len(people) else ""
    return total / len(used), f", against {_called(pilot, used, f'the mean of {len(used)} people')}{lost}"


def _of_pair(name: str, answers: Answers, i: int, j: int) -> _Piloted:
    two = answers.of([i, j])
    met = np.asarray(two.shown.all(axis=0))
    found = misclassification_influence(two) if name == MA else kappa_influence(*two.correct[:, met])
    return _spread(found.value, found.items, met)


def _of_one(answers: Answers, i: int) -> _Piloted:
    met, right = answers.shown[i], answers.correct[i].astype(np.float64)
    share = float(right[met].mean()) if met.any() else math.nan
    return _spread(share, right[met] - share, met)


def _spread(value: float, items: FloatArray, met: BoolArray) -> _Piloted:
    """Influences of the stimuli met, as influences of all: 0 on the others, larger on these in proportion."""
    every = np.full(len(met), math.nan if math.isnan(value) else 0.0)
    every[met] = items * (len(met) / max(int(met.sum()), 1))
    return _Piloted(value, every, int(met.sum()))


def _accuracy(pilot: AlignedTrials, who: list[int]) -> float:
    """Mean over observers of their accuracy."""
    if pilot.simulated[who].any() and (pilot.people & ~pilot.simulated)[who].any():
        raise InvalidInput("simulated and real people must not share a mean, got both; name only one kind")
    shares = [_of_one(pilot.answers, i).value for i in who]
    if not shares or np.isnan(shares).any():
        raise InvalidInput("a pilot must have trials with a known truth for each observer, got none; give --accuracy")
    return float(np.mean(shares))
