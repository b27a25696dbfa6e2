"""`cosight plan`: how many people, images or trials a study needs, from assumptions or from a pilot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.measures.declarations import Measure, measures
from cosight.measures.power import (
    PowerPlan,
    TrialPlan,
    accuracy_difference_sd,
    consistency_difference_sd,
    joint_probabilities,
    misclassification_difference_sd,
    trials_for_accuracy,
    trials_for_consistency,
    trials_for_mean,
    trials_for_misclassification,
    trials_to_tell_apart,
)
from cosight.measures.study_size import error_bound, minimum_raters, people_and_images_for_width, variance_parts
from cosight.registry import split_names
from cosight.scoring.pilot import (
    ACCURACY,
    EC,
    MA,
    PilotPairs,
    difference_influences,
    difference_parts,
    estimate_pairs,
    mean_accuracy,
    observer_indices,
    people_and_models,
)
from cosight.scoring.planned_studies import PlannedStudy, study_for_difference, study_for_width
from cosight.statistics.resampling import ENOUGH_PEOPLE
from cosight.trials.formats import read
from cosight.trials.join import AlignedTrials, align
from cosight.trials.table import Trials

__all__ = ["Plan", "PlanRow", "plan"]

_ASSUMPTIONS = ("accuracy", "value", "classes", "sd", "joint")
_READ = {  # which assumptions a question about a measure reads, besides --sd
    (ACCURACY, "width"): ("accuracy",),
    (ACCURACY, "difference"): ("accuracy", "value"),
    (EC, "width"): ("accuracy", "value"),
    (EC, "difference"): ("accuracy", "value"),
    (MA, "width"): ("accuracy", "value", "classes", "joint"),
    (MA, "difference"): ("accuracy", "value", "classes", "joint"),
}
_INDEPENDENT = "assuming independent errors (consistent ones are jointly wrong more often, and need fewer trials)"
_INCOMPLETE = "everybody must have met every stimulus of the pilot to tell people from images"
_FEW_PEOPLE = 10  # below, t of people - 1 degrees of freedom exceeds the normal's 1.96 by more than 15 %


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One line of an answer."""

    name: str
    value: float | int | None  # None: cannot be computed, and the note says why
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A question and its answer; `dataclasses.asdict` gives what JSON takes."""

    question: str
    rows: tuple[PlanRow, ...]  # the answer first, then what it rests on

    @property
    def value(self) -> float:
        """The first row's number: trials, or people per image."""
        first = self.rows[0].value
        return math.nan if first is None else float(first)


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
    pilot: str | Path | Trials | AlignedTrials | None = None,
    observers: str | Sequence[str] = (),
    people: int | None = None,
) -> Plan:
    """Compute how many trials, people or images a study needs for an interval or to tell two models apart.

    With `width`, the trials for a 95 % interval of that width. With `difference`, the trials to find that two models
    differ by that much, the first at `value` and the second `difference` below it, two-sided at .05. With
    `measure="gold"`, the people per image for label distributions within `error`.

    Args:
        measure: What is measured: accuracy, ec, ma, hellinger, or gold (people's label distributions).
        width: Width of the 95 % interval, end to end.
        difference: Difference between two models to detect.
        accuracy: Expected accuracies, comma-separated: of both observers, or of people and of the model.
        value: Expected value of the measure.
        classes: Number of classes.
        error: For gold: half the width of the interval of a class probability.
        power: Probability to find the difference.
        sd: Standard deviation of one trial's value.
        joint: Fraction of trials that both get wrong (default: errors are independent).
        pilot: Trials of a pilot study, which replace assumptions.
        observers: Comma-separated observers of the pilot to plan for (default: the mean over pairs of a person and a
            model).
        people: With a pilot: people of the planned study (default: as many as in the pilot).

    Returns:
        The question in words and its answers.

    Raises:
        InvalidInput: An assumption is missing, or contradicts another.

    >>> plan(measure="ec", width=0.2, accuracy=(0.8, 0.7), value=0.4).rows[0].value
    396
    >>> plan(measure="gold", error=0.05, classes=11).rows[0].value
    133
    """
    observers = split_names(observers) or ()
    goal, size = _goal(measure, width=width, difference=difference, error=error)
    accuracies = None if accuracy is None else tuple(np.atleast_1d(np.asarray(accuracy, dtype=np.float64)).tolist())
    request = _Request(goal, size, accuracies, value, classes, power, sd, joint, people)
    if people is not None and (pilot is None or people < 1):
        raise InvalidInput(f"--people is the number of people of a study planned from a pilot, got {people}; give both")
    if (pilot is None or measure == "gold") and observers:
        raise InvalidInput(
            f"observers are chosen from a pilot, got {', '.join(observers)} without one; give its trials"
        )
    if measure == "gold":
        return _plan_gold(request, has_pilot=pilot is not None)
    name = measures[measure].name
    if pilot is not None and not isinstance(pilot, AlignedTrials):
        pilot = align(read(pilot))
    _check(request, measures[measure], has_pilot=pilot is not None)
    if goal == "width":
        question = f"How many trials for a 95 % interval of {name} that is {size:g} wide?"
        rows = _width_from_assumptions(request, name) if pilot is None else _from_pilot(request, name, pilot, observers)
    else:
        question = (
            f"How many trials to find a difference of {size:g} in {name} between two models, with power {power:g}?"
        )
        if pilot is None:
            one_sd, note = _difference_sd(request, name)
            rows = _power_rows(trials_to_tell_apart(size, sd=one_sd, power=power), one_sd, note)
        else:
            rows = _from_pilot(request, name, pilot, observers)
    return Plan(question, rows)


# ---- the request and its checks


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked for, and what is assumed."""

    goal: str  # width, difference, error
    size: float  # of the goal
    accuracy: tuple[float, ...] | None
    value: float | None
    classes: int | None
    power: float
    sd: float | None
    joint: float | None
    people: int | None

    def need_value(self, measure: str) -> float:
        if self.value is None:
            raise InvalidInput(f"a plan for {measure} needs the value expected, got none; give --value")
        return self.value

    def need_classes(self) -> int:
        if self.classes is None:
            raise InvalidInput(f"a plan for {MA} needs the number of classes, got none; give --classes")
        return self.classes

    def need_accuracies(self, measure: str, most: int = 2) -> tuple[float, float]:
        """Return the two accuracies; one number stands for both."""
        if self.accuracy is None:
            options = "--accuracy or --joint" if measure == MA else "--accuracy"
            raise InvalidInput(f"a plan for {measure} needs the accuracies expected, got none; give {options}")
        if len(self.accuracy) not in (1, most):
            many = "one number" if most == 1 else "one number or two"
            raise InvalidInput(f"--accuracy takes {many} here, got {len(self.accuracy)}")
        return self.accuracy[0], self.accuracy[-1]

    def need_joint(self) -> float:
        """Return the fraction of jointly wrong trials, as given or from independent errors."""
        if self.joint is not None:
            self.refuse(("accuracy",), "the fraction of jointly wrong trials takes the place of accuracies")
            return self.joint
        people, model = self.need_accuracies(MA)
        if people == 1 or model == 1:
            raise InvalidInput(f"joint errors need --accuracy below 1, got {people:g} and {model:g}")
        return (1 - people) * (1 - model)

    def refuse(self, options: Sequence[str], rule: str) -> None:
        """Raise where one of `options` was given; `rule` says why it must not be."""
        for option in sorted(options):
            if getattr(self, option) is not None:
                raise InvalidInput(f"{rule}, got --{option}; leave it out")


def _goal(measure: str, **sizes: float | None) -> tuple[str, float]:
    """Return the one goal that was given, width, difference or error, and its size."""
    options = ["error"] if measure == "gold" else ["width", "difference"]
    given = [(name, size) for name, size in sizes.items() if size is not None]
    if len(given) != 1 or given[0][0] not in options:
        got = " and ".join(f"--{name}" for name, _ in given) or "none"
        raise InvalidInput(f"a plan for {measure} is asked for by --{' or --'.join(options)}, got {got}; give one")
    return given[0]


def _check(request: _Request, measure: Measure, *, has_pilot: bool) -> None:
    """Raise for what cannot be planned, and for assumptions that the question does not read."""
    name, goal = measure.name, request.goal
    if name not in (ACCURACY, EC, MA) and measure.needs != ("distributions",):
        ours = "accuracy, ec, ma, gold and means over items such as hellinger"
        raise InvalidInput(f"plans are made for {ours}, got {name}; bootstrap a pilot's instead")
    most = measure.high - measure.low
    if not (0 < request.size <= most and math.isfinite(request.size)):
        limit = f" and at most {most:.4g}, the range of {name}" if math.isfinite(most) else ""
        raise InvalidInput(f"--{goal} must be above 0{limit}, got {request.size:g}")
    if not 0 < request.power < 1:
        raise InvalidInput(f"--power must lie between 0 and 1, got {request.power:g}; .8 is usual")
    if has_pilot:
        request.refuse(_ASSUMPTIONS, "a pilot takes the place of assumptions")
    elif request.sd is not None:
        request.refuse(("accuracy", "value", "classes", "joint"), "--sd takes the place of other assumptions")
    else:
        unread = set(_ASSUMPTIONS) - set(_READ.get((name, goal), ()))
        request.refuse(tuple(unread), f"a {goal} of {name} does not read it")
    for number in request.accuracy or ():
        if not 0 <= number <= 1:
            raise InvalidInput(f"--accuracy must be 0 to 1, got {number:g}; divide percentages by 100")


# ---- from assumptions


def _width_from_assumptions(request: _Request, measure: str) -> tuple[PlanRow, ...]:
    width = request.size
    if request.sd is not None:
        return _width_rows(trials_for_mean(request.sd, width=width))
    if measure == ACCURACY:
        return _width_rows(trials_for_accuracy(request.need_accuracies(measure, 1)[0], width=width))
    if measure == EC:
        people, model = request.need_accuracies(measure)
        return _width_rows(trials_for_consistency(people, model, request.need_value(measure), width=width))
    if measure == MA:
        value, classes, joint = request.need_value(measure), request.need_classes(), request.need_joint()
        found = trials_for_misclassification(value, classes=classes, joint=joint, width=width)
        return _width_rows(found, note="" if request.joint is not None else _INDEPENDENT, jointly_wrong=True)
    raise InvalidInput(f"a plan for {measure} needs the standard deviation of one item, got none; give --sd")


def _difference_sd(request: _Request, measure: str) -> tuple[float, str]:
    """Return the standard deviation of one trial's difference between two models, and what was assumed for it."""
    alike = "models that err alike need fewer: a pilot or --sd tells"
    if request.sd is not None:
        return request.sd, "as given"
    if measure == ACCURACY:
        first, second = _accuracies_of_models(request)
        table = joint_probabilities(first, second, 0.0 if request.value is None else request.value)
        errors = f"independent errors; {alike}"
        if request.value is not None:
            errors = f"error consistency {request.value:g} of the two"
        return accuracy_difference_sd(table), f"accuracies {first:g} and {second:g}, {errors}"
    if measure == EC:
        (people, model), kappa = request.need_accuracies(measure), request.need_value(measure)
        lower = kappa - request.size
        note = f"accuracies {people:g} and {model:g}, error consistency {kappa:g} and {lower:g}, models "
        sd = consistency_difference_sd(*(joint_probabilities(people, model, value) for value in (kappa, lower)))
        return sd, note + f"that err independently given the person; {alike}"
    if measure == MA:
        value, classes, joint = request.need_value(measure), request.need_classes(), request.need_joint()
        lower = value - request.size
        sd = misclassification_difference_sd(value, lower, classes=classes, joint=joint)
        wrong = "jointly wrong" if request.joint is not None else f"jointly wrong, {_INDEPENDENT}"
        note = f"agreement {value:g} and {lower:g}, {classes} classes used evenly, {joint:.4g} of the trials {wrong}"
        return sd, f"{note}; {alike}"
    raise InvalidInput(
        f"a plan for {measure} needs the standard deviation of one item's difference, got none; give --sd"
    )


def _accuracies_of_models(request: _Request) -> tuple[float, float]:
    """Return the accuracies of two models that differ by the difference asked for."""
    first, second = request.need_accuracies(ACCURACY)
    if request.accuracy is not None and len(request.accuracy) == 1:
        second = first - request.size
    if abs(abs(first - second) - request.size) > 1e-9:
        raise InvalidInput(f"two accuracies must differ by --difference {request.size:g}, got {first:g} and {second:g}")
    if second < 0:
        raise InvalidInput(f"--accuracy less --difference must be 0 or more, got {second:g}; the second model has it")
    return first, second


def _plan_gold(request: _Request, *, has_pilot: bool) -> Plan:
    """Plan the number of people per image for label distributions."""
    request.refuse(("accuracy", "sd", "joint"), "people per image depend on --classes or --value alone")
    if has_pilot:
        raise InvalidInput("people per image are planned without a pilot, got one; give --classes or --value")
    if (request.classes is None) == (request.value is None):
        got = "neither" if request.value is None else "both"
        raise InvalidInput(f"a plan for gold takes --classes (for a probability of 1 / classes) or --value, got {got}")
    if request.value is not None:
        p, text = request.value, f"p = {request.value:.4g}"
    else:
        classes = request.need_classes()
        if classes < 2:
            raise InvalidInput(f"--classes must be 2 or more, got {classes}")
        p, text = 1 / classes, f"p = 1/{classes}"
    found = minimum_raters(request.size, p=p, plus_one=False)
    one_more = minimum_raters(request.size, p=p, plus_one=True)
    worst = minimum_raters(request.size, p=0.5, plus_one=False)
    rows = [
        PlanRow("people per image", found.raters, f"z = 2, {text}: {found.value:.2f} before rounding up"),
        PlanRow(
            "people per image, plus one", one_more.raters, "with the one more of Lee et al. 2023, F.4, who drop it"
        ),
        PlanRow("people per image, worst case", worst.raters, "p = 1/2, where people are divided"),
    ]
    if found.raters > 1:
        error = error_bound(found.raters, p=0.5)
        rows.append(PlanRow("error at p = 1/2", error, f"what {found.raters} people leave where they are divided"))
    return Plan(f"How many people per image for label distributions within {request.size:g}?", tuple(rows))


# ---- from a pilot


def _from_pilot(request: _Request, measure: str, pilot: AlignedTrials, names: Sequence[str]) -> tuple[PlanRow, ...]:
    """Plan from the pilot's observers called `names`, or from all its pairs of a person and a model."""
    if measure not in (ACCURACY, EC, MA):
        raise InvalidInput(f"a pilot's answers tell nothing about {measure}, got a pilot; give --sd of one item")
    chosen, (people, models) = observer_indices(pilot, names), people_and_models(pilot)
    if request.goal == "difference":
        return _difference_from_pilot(request, measure, pilot, people, chosen or models)
    if measure == ACCURACY:
        return _accuracy_from_pilot(request, pilot, chosen or models or people)
    if chosen and len(chosen) != 2:
        raise InvalidInput(f"a pair has two observers, got {len(chosen)}; name a person and a model")
    pairs = [(chosen[0], chosen[1])] if chosen else [(i, j) for i in people for j in models]
    return _pairs_from_pilot(request, measure, pilot, pairs, crossed=not chosen)


def _difference_from_pilot(
    request: _Request, measure: str, pilot: AlignedTrials, people: list[int], models: list[int]
) -> tuple[PlanRow, ...]:
    if len(models) < 2:
        raise InvalidInput(f"a difference is between two models, got {len(models)}; name two observers of the pilot")
    others = [person for person in people if person not in models]
    influences, used = difference_influences(measure, pilot.answers, others, models)
    covariance = np.cov(influences)  # over stimuli
    variances = np.diag(covariance)[:, None] + np.diag(covariance) - 2 * covariance  # of each difference
    sd = math.sqrt(max(float(variances[np.triu_indices(len(models), 1)].mean()), 0.0))  # rounding, of equal models
    note = f"the pilot's, between {' and '.join(pilot.observers[i] for i in models)}"
    if len(models) > 2:
        note = f"the pilot's, mean over the pairs of {len(models)} models"
    if used:
        note += f", against {_name_of(pilot, used, f'the mean of {len(used)} people')}"
        note += f", {len(others) - len(used)} undefined left out" if len(used) < len(others) else ""
    fixed = _power_rows(trials_to_tell_apart(request.size, sd=sd, power=request.power), sd, note)
    parts = None if measure == ACCURACY else difference_parts(measure, pilot.answers, used, models)
    count = _planned_people(request, len(used), has_parts=parts is not None)
    if parts is None or count is None:
        return fixed
    study = study_for_difference(parts, people=count, difference=request.size, power=request.power)
    if study is None:
        study, trials = PlannedStudy.longest(parts, count), None
        answer, at_trials = _too_few_people(count, "this power"), f"with {study.trials:,} trials"
    else:
        trials, at_trials = study.trials, "with that many trials"
        answer = "the same for both models and the people; tested as compare does, over people and stimuli, at .05"
    return (
        PlanRow("trials", trials, answer),
        PlanRow("people", count, "each answering every trial"),
        PlanRow("power", study.power(request.size), at_trials),
        PlanRow("standard deviation", sd, f"of one trial's difference: {note}"),
        PlanRow("standard error", study.standard_error, "of the difference, over people and stimuli"),
    )


def _planned_people(request: _Request, in_pilot: int, *, has_parts: bool) -> int | None:
    """Return the number of people to plan for; None where `compare` would take the pilot's people as they are."""
    if request.people is not None and not has_parts:
        raise InvalidInput(f"--people {request.people} needs a pilot with people: {_INCOMPLETE}; leave it out")
    if request.people is None and in_pilot < ENOUGH_PEOPLE:
        return None
    return request.people or in_pilot


def _too_few_people(people: int, goal: str) -> str:
    return f"{people} people differ too much for {goal}, whatever the number of trials; plan for more with --people"


def _accuracy_from_pilot(request: _Request, pilot: AlignedTrials, observers: list[int]) -> tuple[PlanRow, ...]:
    note = f"of {_name_of(pilot, observers, f'{len(observers)} observers')} in the pilot"
    rows = _width_rows(trials_for_accuracy(mean_accuracy(pilot, observers), width=request.size), note=note)
    if len(observers) < 2 or not pilot.people[observers].all():
        return rows
    answers = pilot.answers.of(observers)
    table = answers.correct.astype(np.float64) if answers.shown.all() else None
    return (*rows, *_design_rows(request.size, table))


def _pairs_from_pilot(
    request: _Request, measure: str, pilot: AlignedTrials, pairs: list[tuple[int, int]], *, crossed: bool
) -> tuple[PlanRow, ...]:
    found = estimate_pairs(measure, pilot.answers, pairs)
    if not found.pairs:
        raise InvalidInput(f"a pilot must define {measure} for a person and a model, got none; name two observers")
    # misclassification agreement rests on jointly wrong trials alone
    jointly_wrong = float(np.mean(found.jointly_wrong)) if measure == MA else 1.0
    one_pair = trials_for_mean(found.sd * math.sqrt(jointly_wrong), width=request.size)
    note = _describe_pairs(pilot, found)
    note += f", {len(pairs) - len(found.pairs)} undefined left out" if len(found.pairs) < len(pairs) else ""
    rows = [PlanRow("trials", math.ceil(round(one_pair.used / jointly_wrong, 9)), note)]
    if measure == MA:
        rows.append(PlanRow("jointly wrong trials", one_pair.used, "those the value rests on"))
    first, second = found.side(0), found.side(1)
    complete = bool(crossed and pilot.answers.of([*first, *second]).shown.all())
    if len(found.pairs) > 1:
        rows.append(_mean_over_pairs_row(request, found, len(first) if complete else 1))
    if crossed:
        rows += _design_rows(request.size, found.by_first if complete else None)
    rows.append(PlanRow(measure, float(np.mean(found.values)), "in the pilot"))
    for observers, many in ((first, "people"), (second, "models")):
        name = f"accuracy, {_name_of(pilot, observers, many)}"
        rows.append(PlanRow(name, mean_accuracy(pilot, observers), "in the pilot"))
    return (
        *rows,
        PlanRow("jointly wrong", float(np.mean(found.jointly_wrong)), "fraction of the pilot's trials"),
        PlanRow("standard deviation", found.sd, "of one trial's influence on one pair's value"),
    )


def _mean_over_pairs_row(request: _Request, found: PilotPairs, people: int) -> PlanRow:
    """Return the trials for the mean over the pairs of people and models, whose interval `compare` computes."""
    name = "trials, mean over pairs"
    count = _planned_people(request, people, has_parts=people > 1)
    if count is None:
        mean = trials_for_mean(found.sd_of_mean, width=request.size)
        return PlanRow(name, mean.trials, f"{len(found.pairs)} pairs of these very observers")
    study = study_for_width(variance_parts(found.by_first), people=count, width=request.size)
    if study is None:
        return PlanRow(name, None, _too_few_people(count, "this width"))
    return PlanRow(
        name, study.trials, f"of {count} people with these models; interval of compare, over people and stimuli"
    )


def _describe_pairs(pilot: AlignedTrials, found: PilotPairs) -> str:
    if len(found.pairs) == 1:
        return "of the pilot's " + " and ".join(_name_of(pilot, [i], "") for i in found.pairs[0])
    people = _name_of(pilot, found.side(0), "people")
    return f"for one person and one model, mean of the pilot's {len(found.pairs)} pairs with {people}"


def _name_of(pilot: AlignedTrials, observers: list[int], many: str) -> str:
    """Return the name of one observer, or `many` for several; simulated people are always called so."""
    name = pilot.observers[observers[0]] if len(observers) == 1 else many
    return f"{name} (simulated)" if pilot.simulated[observers].any() else name


def _design_rows(width: float, table: FloatArray | None) -> list[PlanRow]:
    """Return the people x images with the fewest answers, from values of each person and stimulus, (people, stimuli).

    Both numbers are None, with the reason, where none can be given; `table` is None for an incomplete pilot.
    """
    try:
        if table is None:
            raise InvalidInput(_INCOMPLETE)
        parts = variance_parts(table)
        found = people_and_images_for_width(parts, width=width, negative="zero")
    except InvalidInput as reason:
        return [PlanRow("people", None, str(reason)), PlanRow("images", None, str(reason))]
    people, images = int(found.people[found.cheapest]), int(found.images[found.cheapest])
    note = "fewest answers in all, other people and other images; 2 to 200 people tried"
    note += "; with so few people a real interval is wider" if people < _FEW_PEOPLE else ""
    note += f"; estimated below zero and taken as none: {', '.join(parts.negative)}" if parts.negative else ""
    return [PlanRow("people", people, note), PlanRow("images", images, f"for {people} people, each answering all")]


# ---- rows of an answer


def _width_rows(found: TrialPlan, *, note: str = "", jointly_wrong: bool = False) -> tuple[PlanRow, ...]:
    rows = [PlanRow("trials", found.trials, "; ".join(text for text in (found.assumptions, note) if text))]
    if jointly_wrong:
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
