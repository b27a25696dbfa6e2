"""How many people, how many images? The answers behind `cosight plan`, from assumptions or from a pilot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.facts import Measure, measures
from cosight.measures.power import (
    PowerPlan,
    TrialPlan,
    accuracy_difference_sd,
    consistency_difference_sd,
    joint_shares,
    kappa_influence,
    misclassification_difference_sd,
    misclassification_influence,
    people_and_images_for_width,
    trials_for_accuracy,
    trials_for_consistency,
    trials_for_mean,
    trials_for_misclassification,
    trials_to_tell_apart,
    variance_parts,
)
from cosight.measures.survey import error_bound, minimum_raters
from cosight.trials.join import Table

__all__ = ["Plan", "PlanRow", "plan"]

_ACCURACY, _EC, _MA = "accuracy", "error_consistency", "misclassification_agreement"
_INDEPENDENT = "as independent errors have it (consistent ones are jointly wrong more often, and need fewer)"
_INCOMPLETE = "everybody must have met every stimulus of the pilot to tell people from images"
_FEW_PEOPLE = 10  # below, t of people - 1 degrees of freedom exceeds the normal's 1.96 by more than 15 %
_ASSUMPTIONS = ("accuracy", "value", "classes", "sd", "joint")
_READ = {  # which assumptions a question about a measure reads, besides --sd
    (_ACCURACY, "width"): ("accuracy",),
    (_ACCURACY, "difference"): ("accuracy", "value"),
    (_EC, "width"): ("accuracy", "value"),
    (_EC, "difference"): ("accuracy", "value"),
    (_MA, "width"): ("accuracy", "value", "classes", "joint"),
    (_MA, "difference"): ("accuracy", "value", "classes", "joint"),
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
class _Asked:
    kind: str  # width, difference, error
    size: float  # how much of it
    accuracy: tuple[float, ...] | None
    value: float | None
    classes: int | None
    power: float
    sd: float | None
    joint: float | None


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


def plan(
    *,
    measure: str,
    width: float | None = None,
    difference: float | None = None,
    accuracy: float | Sequence[float] | None = None,
    value: float | None = None,
    classes: int | None = None,
    error: float | None = None,
    power: float = 0.8,
    sd: float | None = None,
    joint: float | None = None,
    pilot: Table | None = None,
    observers: Sequence[str] = (),
) -> Plan:
    """How many trials, people or images a study needs.

    `width`: for a 95 % interval of the measure no wider than that, end to end. `difference`: to find that two models
    differ by so much, the first at `value` and the second `difference` below it, two-sided at .05 with `power`.
    Assumptions: `accuracy` (of both observers, or of people and then the model), `value`, `classes`, `joint` (the
    share of trials that both get wrong; without it errors are taken as independent), or `sd` of one trial alone. A
    `pilot` takes their place: of the `observers` named, or the mean over pairs of a person and a model.
    `measure="gold"` asks for people an image: `error` is half the interval of a share near 1 / `classes` or `value`.

    >>> plan(measure="ec", width=0.2, accuracy=(0.8, 0.7), value=0.4).rows[0].value
    396
    >>> plan(measure="gold", error=0.05, classes=11).rows[0].value
    133
    """
    kind, size = _size(measure, width=width, difference=difference, error=error)
    numbers = None if accuracy is None else tuple(np.atleast_1d(np.asarray(accuracy, dtype=np.float64)).tolist())
    asked = _Asked(kind, size, numbers, value, classes, power, sd, joint)
    if (pilot is None or measure == "gold") and observers:
        raise InvalidInput(
            f"observers are chosen from a pilot, got {', '.join(observers)} without one; give its trials"
        )
    if measure == "gold":
        return _gold(asked, pilot)
    facts = measures[measure]
    _check(asked, facts, piloted=pilot is not None)
    if pilot is None:
        rows = _assumed_width(asked, facts.name) if kind == "width" else _assumed_difference(asked, facts.name)
    else:
        rows = _piloted(asked, facts.name, pilot, tuple(observers))
    return Plan(_question(asked, facts.name), rows)


def _question(asked: _Asked, name: str) -> str:
    if asked.kind == "width":
        return f"How many trials for a 95 % interval of {name} that is {asked.size:g} wide?"
    found = f"find a difference of {asked.size:g} in {name}"
    return f"How many trials to {found} between two models, with power {asked.power:g}?"


# --- what may be asked ------------------------------------------------------------------------------------------------


def _size(measure: str, **sizes: float | None) -> tuple[str, float]:
    """The one thing asked for: its option and its size."""
    options = ["error"] if measure == "gold" else ["width", "difference"]
    given = [(name, size) for name, size in sizes.items() if size is not None]
    if len(given) != 1 or given[0][0] not in options:
        got = " and ".join(f"--{name}" for name, _ in given) or "none"
        raise InvalidInput(f"a plan for {measure} is asked for by --{' or --'.join(options)}, got {got}; give one")
    return given[0]


def _check(asked: _Asked, facts: Measure, *, piloted: bool) -> None:
    if facts.name not in (_ACCURACY, _EC, _MA) and facts.needs != ("distributions",):
        ours = "accuracy, ec, ma, gold and means over items such as hellinger"
        raise InvalidInput(f"plans are made for {ours}, got {facts.name}; bootstrap a pilot's instead")
    most = facts.high - facts.low
    if not (0 < asked.size <= most and math.isfinite(asked.size)):
        limit = f" and at most {most:.4g}, the range of {facts.name}" if math.isfinite(most) else ""
        raise InvalidInput(f"--{asked.kind} must be above 0{limit}, got {asked.size:g}")
    if not 0 < asked.power < 1:
        raise InvalidInput(f"--power must lie between 0 and 1, got {asked.power:g}; .8 is usual")
    if piloted:
        _refuse(asked, _ASSUMPTIONS, "a pilot takes the place of assumptions")
    elif asked.sd is not None:
        _refuse(asked, ("accuracy", "value", "classes", "joint"), "--sd takes the place of other assumptions")
    else:
        read = _READ.get((facts.name, asked.kind), ())
        _refuse(asked, tuple(set(_ASSUMPTIONS) - set(read)), f"a {asked.kind} of {facts.name} does not read it")
    for number in asked.accuracy or ():
        if not 0 <= number <= 1:
            raise InvalidInput(f"--accuracy must be 0 to 1, got {number:g}; divide percentages by 100")


def _refuse(asked: _Asked, options: Sequence[str], rule: str) -> None:
    for option in sorted(options):
        if getattr(asked, option) is not None:
            raise InvalidInput(f"{rule}, got --{option}; leave it out")


def _value(asked: _Asked, name: str) -> float:
    if asked.value is None:
        raise InvalidInput(f"a plan for {name} needs the value expected, got none; give --value")
    return asked.value


def _classes(asked: _Asked) -> int:
    if asked.classes is None:
        raise InvalidInput(f"a plan for {_MA} needs the number of classes, got none; give --classes")
    return asked.classes


def _accuracies(asked: _Asked, name: str, most: int) -> tuple[float, ...]:
    """The accuracies given, one or `most`."""
    if asked.accuracy is None:
        options = "--accuracy or --joint" if name == _MA else "--accuracy"
        raise InvalidInput(f"a plan for {name} needs the accuracies expected, got none; give {options}")
    if len(asked.accuracy) not in (1, most):
        many = "one number" if most == 1 else "one number or two"
        raise InvalidInput(f"--accuracy takes {many} here, got {len(asked.accuracy)}")
    return asked.accuracy


# --- from assumptions -------------------------------------------------------------------------------------------------


def _assumed_width(asked: _Asked, name: str) -> tuple[PlanRow, ...]:
    width = asked.size
    if asked.sd is not None:
        return _width_rows(trials_for_mean(asked.sd, width=width))
    if name == _ACCURACY:
        return _width_rows(trials_for_accuracy(_accuracies(asked, name, 1)[0], width=width))
    if name == _EC:
        people, model = _both(_accuracies(asked, name, 2))
        return _width_rows(trials_for_consistency(people, model, _value(asked, name), width=width))
    if name == _MA:
        agreement, classes, joint = _value(asked, name), _classes(asked), _joint(asked)
        found = trials_for_misclassification(agreement, classes=classes, joint=joint, width=width)
        note = "" if asked.joint is not None else _INDEPENDENT
        return _width_rows(found, note=note, joint=True)
    raise InvalidInput(f"a plan for {name} needs the standard deviation of one item, got none; give --sd")


def _assumed_difference(asked: _Asked, name: str) -> tuple[PlanRow, ...]:
    sd, note = _difference_sd(asked, name, asked.size)
    return _power_rows(trials_to_tell_apart(asked.size, sd=sd, power=asked.power), sd, note)


def _difference_sd(asked: _Asked, name: str, difference: float) -> tuple[float, str]:
    """Standard deviation of one trial's difference between two models, and what was assumed for it."""
    apart = "models that err alike need fewer: a pilot or --sd tells"
    if asked.sd is not None:
        return asked.sd, "as given"
    if name == _ACCURACY:
        first, second = _two_models(_accuracies(asked, name, 2), difference)
        shares = joint_shares(first, second, 0.0 if asked.value is None else asked.value)
        how = f"independent errors; {apart}" if asked.value is None else f"error consistency {asked.value:g} of the two"
        return accuracy_difference_sd(shares), f"accuracies {first:g} and {second:g}, {how}"
    if name == _EC:
        (people, model), first = _both(_accuracies(asked, name, 2)), _value(asked, name)
        tables = [joint_shares(people, model, kappa) for kappa in (first, first - difference)]
        note = f"accuracies {people:g} and {model:g}, error consistency {first:g} and {first - difference:g}, models "
        return consistency_difference_sd(*tables), note + f"that err independently given the person; {apart}"
    if name == _MA:
        first, classes, joint = _value(asked, name), _classes(asked), _joint(asked)
        sd = misclassification_difference_sd(first, first - difference, classes=classes, joint=joint)
        note = (
            f"agreement {first:g} and {first - difference:g}, {classes} classes used evenly, {joint:.4g} of the trials"
        )
        wrong = "jointly wrong" if asked.joint is not None else f"jointly wrong, {_INDEPENDENT}"
        return sd, f"{note} {wrong}; {apart}"
    raise InvalidInput(f"a plan for {name} needs the standard deviation of one item's difference, got none; give --sd")


def _both(accuracies: tuple[float, ...]) -> tuple[float, float]:
    """Of people and of the model; one number stands for both."""
    return accuracies[0], accuracies[-1]


def _two_models(accuracies: tuple[float, ...], difference: float) -> tuple[float, float]:
    first, second = accuracies[0], accuracies[-1] if len(accuracies) > 1 else accuracies[0] - difference
    if abs(abs(first - second) - difference) > 1e-9:
        raise InvalidInput(f"two accuracies must differ by --difference {difference:g}, got {first:g} and {second:g}")
    if second < 0:
        raise InvalidInput(f"--accuracy less --difference must be 0 or more, got {second:g}; the second model has it")
    return first, second


def _joint(asked: _Asked) -> float:
    """The share of jointly wrong trials, given or from independent errors."""
    if asked.joint is not None:
        _refuse(asked, ("accuracy",), "the share of jointly wrong trials takes the place of accuracies")
        return asked.joint
    people, model = _both(_accuracies(asked, _MA, 2))
    if people == 1 or model == 1:
        raise InvalidInput(f"joint errors need --accuracy below 1, got {people:g} and {model:g}")
    return (1 - people) * (1 - model)


def _width_rows(found: TrialPlan, *, note: str = "", joint: bool = False) -> tuple[PlanRow, ...]:
    rows = [PlanRow("trials", found.trials, "; ".join(text for text in (found.assumptions, note) if text))]
    if joint:
        rows.append(PlanRow("jointly wrong trials", found.used, "those the value rests on"))
    rows.append(PlanRow("width", found.width, "of the 95 % interval, end to end"))
    return (*rows, PlanRow("standard error", found.standard_error))


def _power_rows(found: PowerPlan, sd: float, note: str) -> tuple[PlanRow, ...]:
    return (
        PlanRow("trials", found.trials, "the same trials for both models and the people; two-sided test at .05"),
        PlanRow("power", found.power, "with that many trials"),
        PlanRow("standard deviation", sd, f"of one trial's difference: {note}"),
        PlanRow("standard error", found.standard_error, "of the difference"),
    )


def _gold(asked: _Asked, pilot: Table | None) -> Plan:
    _refuse(asked, ("accuracy", "sd", "joint"), "people an image depend on --classes or --value alone")
    if pilot is not None:
        raise InvalidInput("people an image are planned without a pilot, got one; give --classes or --value")
    p, share = _share(asked)
    found, more, worst = (
        minimum_raters(asked.size, p=share, plus_one=one) for share, one in ((p, False), (p, True), (0.5, False))
    )
    rows = [
        PlanRow("people an image", found.raters, f"z = 2, {share}: {found.value:.2f} before rounding up"),
        PlanRow("people an image, plus one", more.raters, "with the one more of Lee et al. 2023, F.4, who drop it"),
        PlanRow("people an image, worst case", worst.raters, "p = 1/2, where people are divided"),
    ]
    if found.raters > 1:
        left = error_bound(found.raters, p=0.5)
        rows.append(PlanRow("error at p = 1/2", left, f"what {found.raters} people leave where they are divided"))
    return Plan(f"How many people an image for shares within {asked.size:g}?", tuple(rows))


def _share(asked: _Asked) -> tuple[float, str]:
    """The share expected of a class, and how it is written."""
    if asked.classes is not None and asked.value is None:
        if asked.classes < 2:
            raise InvalidInput(f"--classes must be 2 or more, got {asked.classes}")
        return 1 / asked.classes, f"p = 1/{asked.classes}"
    if asked.value is not None and asked.classes is None:
        return asked.value, f"p = {asked.value:.4g}"
    got = "neither" if asked.value is None else "both"
    raise InvalidInput(f"a plan for gold takes --classes (for a share of 1 / classes) or --value, got {got}")


# --- from a pilot -----------------------------------------------------------------------------------------------------


def _piloted(asked: _Asked, name: str, pilot: Table, names: tuple[str, ...]) -> tuple[PlanRow, ...]:
    if name not in (_ACCURACY, _EC, _MA):
        raise InvalidInput(f"a pilot's answers tell nothing about {name}, got a pilot; give --sd of one item")
    chosen, (people, models) = _chosen(pilot, names), _sides(pilot)
    if asked.kind == "difference":
        return _piloted_difference(asked, name, pilot, people, chosen or models)
    if name == _ACCURACY:
        return _piloted_accuracy(asked, pilot, chosen or models or people)
    if chosen and len(chosen) != 2:
        raise InvalidInput(f"a pair has two observers, got {len(chosen)}; name a person and a model")
    pairs = [(chosen[0], chosen[1])] if chosen else [(i, j) for i in people for j in models]
    return _piloted_pairs(asked, name, pilot, pairs, crossed=not chosen)


def _chosen(pilot: Table, names: tuple[str, ...]) -> list[int]:
    for name in names:
        if name not in pilot.observers:
            known = ", ".join(pilot.observers[:8]) + (", ..." if len(pilot.observers) > 8 else "")
            raise InvalidInput(f"observers must be in the pilot, got {name!r}; it has {known}")
    if len(set(names)) < len(names):
        raise InvalidInput(f"observers must differ, got {', '.join(names)}")
    return [pilot.observers.index(name) for name in names]


def _sides(pilot: Table) -> tuple[list[int], list[int]]:
    """People and models; simulated people only where there are no others."""
    real = pilot.people & ~pilot.simulated
    people = real if real.any() else pilot.people
    return np.flatnonzero(people).tolist(), np.flatnonzero(~pilot.people).tolist()


def _piloted_pairs(
    asked: _Asked, name: str, pilot: Table, pairs: list[tuple[int, int]], *, crossed: bool
) -> tuple[PlanRow, ...]:
    found = _gathered(name, pilot.answers, pairs)
    if not found.pairs:
        raise InvalidInput(f"a pilot must define {name} for a person and a model, got none; name two observers")
    share = float(np.mean(found.wrong)) if name == _MA else 1.0
    one = trials_for_mean(found.sd * math.sqrt(share), width=asked.size)
    lost = f", {len(pairs) - len(found.pairs)} undefined left out" if len(found.pairs) < len(pairs) else ""
    rows = [PlanRow("trials", math.ceil(round(one.used / share, 9)), _who(pilot, found) + lost)]
    if name == _MA:
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


def _who(pilot: Table, found: _Pairs) -> str:
    if len(found.pairs) == 1:
        return "of the pilot's " + " and ".join(_called(pilot, [i], "") for i in found.pairs[0])
    people = _called(pilot, found.side(0), "people")
    return f"for one person and one model, mean of the pilot's {len(found.pairs)} pairs with {people}"


def _called(pilot: Table, who: list[int], many: str) -> str:
    """A name for one observer, `many` for several; simulated people are always called so."""
    name = pilot.observers[who[0]] if len(who) == 1 else many
    return f"{name} (simulated)" if pilot.simulated[who].any() else name


def _facts(name: str, pilot: Table, found: _Pairs) -> list[PlanRow]:
    sides = [(found.side(0), "people"), (found.side(1), "models")]
    return [
        PlanRow(name, float(np.mean(found.values)), "in the pilot"),
        *(PlanRow(f"accuracy, {_called(pilot, *side)}", _accuracy(pilot, side[0]), "in the pilot") for side in sides),
        PlanRow("jointly wrong", float(np.mean(found.wrong)), "share of the pilot's trials"),
        PlanRow("standard deviation", found.sd, "of one trial's influence on one pair's value"),
    ]


def _crossed_rows(width: float, pilot: Table, found: _Pairs) -> list[PlanRow]:
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


def _piloted_accuracy(asked: _Asked, pilot: Table, who: list[int]) -> tuple[PlanRow, ...]:
    share = _accuracy(pilot, who)
    note = f"of {_called(pilot, who, f'{len(who)} observers')} in the pilot"
    rows = _width_rows(trials_for_accuracy(share, width=asked.size), note=note)
    if len(who) < 2 or not pilot.people[who].all():
        return rows
    answers = pilot.answers.of(who)
    crossed = (
        _design(asked.size, answers.correct.astype(np.float64)) if answers.shown.all() else _no_design(_INCOMPLETE)
    )
    return (*rows, *crossed)


def _piloted_difference(
    asked: _Asked, name: str, pilot: Table, people: list[int], models: list[int]
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
    return _power_rows(trials_to_tell_apart(asked.size, sd=sd, power=asked.power), sd, note + against)


def _pulls(name: str, pilot: Table, people: list[int], models: list[int]) -> tuple[FloatArray, str]:
    """Each stimulus' influence on each model's value (models, stimuli), mean over people; and against whom."""
    if name == _ACCURACY:
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
    found = misclassification_influence(two) if name == _MA else kappa_influence(*two.correct[:, met])
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


def _accuracy(pilot: Table, who: list[int]) -> float:
    """Mean over observers of their accuracy."""
    if pilot.simulated[who].any() and (pilot.people & ~pilot.simulated)[who].any():
        raise InvalidInput("simulated and real people must not share a mean, got both; name only one kind")
    shares = [_of_one(pilot.answers, i).value for i in who]
    if not shares or np.isnan(shares).any():
        raise InvalidInput("a pilot must have trials with a known truth for each observer, got none; give --accuracy")
    return float(np.mean(shares))
