"""How many people, how many images? The answers behind `cosight plan`, from assumptions or from a pilot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cosight.errors import InvalidInput
from cosight.measures.declarations import measures
from cosight.measures.power import (
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
from cosight.measures.study_size import error_bound, minimum_raters
from cosight.scoring.pilot import plan_from_pilot
from cosight.scoring.questions import (
    ACCURACY,
    EC,
    MA,
    Plan,
    PlanRequest,
    PlanRow,
    check,
    power_rows,
    refuse,
    size_of,
    width_rows,
)
from cosight.trials.formats import read
from cosight.trials.join import AlignedTrials, align
from cosight.trials.table import Trials

__all__ = ["Plan", "PlanRow", "plan"]

_INDEPENDENT = "as independent errors have it (consistent ones are jointly wrong more often, and need fewer)"


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
    observers: Sequence[str] = (),
) -> Plan:
    """Compute how many trials, people or images a study needs for an interval or to tell two models apart.

    With `width`, the trials for a 95 % interval of that width. With `difference`, the trials to find that two models
    differ by that much, the first at `value` and the second `difference` below it, two-sided at .05. With
    `measure="gold"`, the people per image for label distributions within `error`.

    Args:
        measure: What is measured: accuracy, ec, ma, hellinger, or gold (people's label distributions).
        width: Width of the 95 % interval, end to end.
        difference: Difference between two models that is to be found.
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

    Returns:
        The question in words and its answers.

    Raises:
        InvalidInput: An assumption is missing, or contradicts another.

    >>> plan(measure="ec", width=0.2, accuracy=(0.8, 0.7), value=0.4).rows[0].value
    396
    >>> plan(measure="gold", error=0.05, classes=11).rows[0].value
    133
    """
    kind, size = size_of(measure, width=width, difference=difference, error=error)
    numbers = None if accuracy is None else tuple(np.atleast_1d(np.asarray(accuracy, dtype=np.float64)).tolist())
    asked = PlanRequest(kind, size, numbers, value, classes, power, sd, joint)
    if (pilot is None or measure == "gold") and observers:
        raise InvalidInput(
            f"observers are chosen from a pilot, got {', '.join(observers)} without one; give its trials"
        )
    if measure == "gold":
        return _gold(asked, piloted=pilot is not None)
    facts = measures[measure]
    if pilot is not None and not isinstance(pilot, AlignedTrials):
        pilot = align(read(pilot))
    check(asked, facts, piloted=pilot is not None)
    if pilot is None:
        rows = _assumed_width(asked, facts.name) if kind == "width" else _assumed_difference(asked, facts.name)
    else:
        rows = plan_from_pilot(asked, facts.name, pilot, tuple(observers))
    return Plan(_question(asked, facts.name), rows)


def _question(asked: PlanRequest, name: str) -> str:
    if asked.kind == "width":
        return f"How many trials for a 95 % interval of {name} that is {asked.size:g} wide?"
    found = f"find a difference of {asked.size:g} in {name}"
    return f"How many trials to {found} between two models, with power {asked.power:g}?"


def _value(asked: PlanRequest, name: str) -> float:
    if asked.value is None:
        raise InvalidInput(f"a plan for {name} needs the value expected, got none; give --value")
    return asked.value


def _classes(asked: PlanRequest) -> int:
    if asked.classes is None:
        raise InvalidInput(f"a plan for {MA} needs the number of classes, got none; give --classes")
    return asked.classes


def _accuracies(asked: PlanRequest, name: str, most: int) -> tuple[float, ...]:
    """The accuracies given, one or `most`."""
    if asked.accuracy is None:
        options = "--accuracy or --joint" if name == MA else "--accuracy"
        raise InvalidInput(f"a plan for {name} needs the accuracies expected, got none; give {options}")
    if len(asked.accuracy) not in (1, most):
        many = "one number" if most == 1 else "one number or two"
        raise InvalidInput(f"--accuracy takes {many} here, got {len(asked.accuracy)}")
    return asked.accuracy


def _assumed_width(asked: PlanRequest, name: str) -> tuple[PlanRow, ...]:
    width = asked.size
    if asked.sd is not None:
        return width_rows(trials_for_mean(asked.sd, width=width))
    if name == ACCURACY:
        return width_rows(trials_for_accuracy(_accuracies(asked, name, 1)[0], width=width))
    if name == EC:
        people, model = _both(_accuracies(asked, name, 2))
        return width_rows(trials_for_consistency(people, model, _value(asked, name), width=width))
    if name == MA:
        agreement, classes, joint = _value(asked, name), _classes(asked), _joint(asked)
        found = trials_for_misclassification(agreement, classes=classes, joint=joint, width=width)
        note = "" if asked.joint is not None else _INDEPENDENT
        return width_rows(found, note=note, joint=True)
    raise InvalidInput(f"a plan for {name} needs the standard deviation of one item, got none; give --sd")


def _assumed_difference(asked: PlanRequest, name: str) -> tuple[PlanRow, ...]:
    sd, note = _difference_sd(asked, name, asked.size)
    return power_rows(trials_to_tell_apart(asked.size, sd=sd, power=asked.power), sd, note)


def _difference_sd(asked: PlanRequest, name: str, difference: float) -> tuple[float, str]:
    """Standard deviation of one trial's difference between two models, and what was assumed for it."""
    apart = "models that err alike need fewer: a pilot or --sd tells"
    if asked.sd is not None:
        return asked.sd, "as given"
    if name == ACCURACY:
        first, second = _two_models(_accuracies(asked, name, 2), difference)
        shares = joint_probabilities(first, second, 0.0 if asked.value is None else asked.value)
        how = f"independent errors; {apart}" if asked.value is None else f"error consistency {asked.value:g} of the two"
        return accuracy_difference_sd(shares), f"accuracies {first:g} and {second:g}, {how}"
    if name == EC:
        (people, model), first = _both(_accuracies(asked, name, 2)), _value(asked, name)
        tables = [joint_probabilities(people, model, kappa) for kappa in (first, first - difference)]
        note = f"accuracies {people:g} and {model:g}, error consistency {first:g} and {first - difference:g}, models "
        return consistency_difference_sd(*tables), note + f"that err independently given the person; {apart}"
    if name == MA:
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


def _joint(asked: PlanRequest) -> float:
    """The share of jointly wrong trials, given or from independent errors."""
    if asked.joint is not None:
        refuse(asked, ("accuracy",), "the share of jointly wrong trials takes the place of accuracies")
        return asked.joint
    people, model = _both(_accuracies(asked, MA, 2))
    if people == 1 or model == 1:
        raise InvalidInput(f"joint errors need --accuracy below 1, got {people:g} and {model:g}")
    return (1 - people) * (1 - model)


def _gold(asked: PlanRequest, *, piloted: bool) -> Plan:
    refuse(asked, ("accuracy", "sd", "joint"), "people an image depend on --classes or --value alone")
    if piloted:
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


def _share(asked: PlanRequest) -> tuple[float, str]:
    """The share expected of a class, and how it is written."""
    if asked.classes is not None and asked.value is None:
        if asked.classes < 2:
            raise InvalidInput(f"--classes must be 2 or more, got {asked.classes}")
        return 1 / asked.classes, f"p = 1/{asked.classes}"
    if asked.value is not None and asked.classes is None:
        return asked.value, f"p = {asked.value:.4g}"
    got = "neither" if asked.value is None else "both"
    raise InvalidInput(f"a plan for gold takes --classes (for a share of 1 / classes) or --value, got {got}")
