"""How many trials does a measure need: for an interval of a given width, or to detect a difference?

Computed before data are collected, from expected values or from a pilot. Everything is large-sample: a measure is its
value plus the mean of one influence value per trial (the delta method), so its standard error is their standard
deviation over sqrt(n), and two measures on the same trials differ by the mean of the differences. An interval of n
trials spans 2 t standard errors, t of n - 1 degrees of freedom, as the bootstrap of `uncertainty` does on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtrit

from cosight.arrays import FloatArray, IntArray, correctness, distributions, finite, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import MOST_TRIALS, ROUNDING, check_confidence, check_width, divide, normal_z
from cosight.measures.consistency import reachable_kappa

__all__ = [
    "Influence",
    "JointProbabilities",
    "PowerPlan",
    "TrialPlan",
    "accuracy_difference_sd",
    "consistency_difference_sd",
    "joint_probabilities",
    "kappa_influence",
    "kappa_standard_error",
    "misclassification_difference_sd",
    "misclassification_influence",
    "trials_for_accuracy",
    "trials_for_consistency",
    "trials_for_mean",
    "trials_for_misclassification",
    "trials_to_tell_apart",
]


@dataclass(frozen=True, slots=True)
class JointProbabilities:
    """Probabilities that two observers are right together and alone; `value` is their error consistency."""

    value: float
    both: float
    only_a: float
    only_b: float
    neither: float

    @property
    def table(self) -> FloatArray:
        """The probabilities by a wrong, right (rows) and b wrong, right (columns)."""
        return np.array([[self.neither, self.only_b], [self.only_a, self.both]])


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """A measure and the influence of each trial on it: value - truth is about the mean of `items`."""

    value: float
    items: FloatArray  # (trials,), mean 0; all nan where the value is

    @property
    def standard_error(self) -> float:
        """sqrt(mean(items^2) / n); nan without trials."""
        n = len(self.items)
        return math.sqrt(float(np.mean(self.items**2)) / n) if n else math.nan


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The fewest trials whose interval is no wider than requested."""

    trials: int
    used: int  # trials that the value rests on: the jointly wrong ones for misclassification agreement, else all
    width: float  # of the interval from that many trials, end to end
    standard_error: float
    assumptions: str

    @property
    def value(self) -> float:
        """The same as `trials`."""
        return float(self.trials)


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """The fewest trials that detect a difference with the requested power."""

    trials: int
    power: float  # with that many trials
    standard_error: float  # of the difference
    assumptions: str

    @property
    def value(self) -> float:
        """The same as `trials`."""
        return float(self.trials)


def joint_probabilities(accuracy_a: float, accuracy_b: float, kappa: float) -> JointProbabilities:
    """Compute the 2 x 2 table of right and wrong that two accuracies and an error consistency imply.

    p_obs = p_exp + kappa (1 - p_exp), both = (p_obs + pA + pB - 1) / 2, and the rest from the margins.

    Args:
        accuracy_a: Accuracy of the first observer, 0 to 1.
        accuracy_b: Accuracy of the second.
        kappa: Their error consistency.

    Returns:
        The probabilities of the four outcomes.

    Raises:
        InvalidInput: If `kappa` is outside `reachable_kappa`; two observers who are always right have no table.

    >>> table = joint_probabilities(0.8, 0.6, 0.25)
    >>> round(table.both, 4), round(table.neither, 4)
    (0.535, 0.135)
    """
    limits = reachable_kappa(accuracy_a, accuracy_b)
    if not limits.lowest - ROUNDING <= kappa <= limits.highest + ROUNDING:
        raise InvalidInput(
            f"error consistency of accuracies {accuracy_a:g} and {accuracy_b:g} must be {limits.lowest:.4f} to "
            f"{limits.highest:.4f}, got {kappa:g}; no other value is possible"
        )
    expected = accuracy_a * accuracy_b + (1 - accuracy_a) * (1 - accuracy_b)
    both = (expected + kappa * (1 - expected) + accuracy_a + accuracy_b - 1) / 2
    cells = both, accuracy_a - both, accuracy_b - both, 1 - accuracy_a - accuracy_b + both
    return JointProbabilities(
        kappa, *(max(cell, 0.0) for cell in cells)
    )  # at an end of the range, rounding leaves -1e-17


def kappa_standard_error(shares: ArrayLike, *, n: float) -> float:
    """Compute the large-sample standard error of Cohen's kappa.

    SE^2 = sum_ij p_ij f_ij^2 / n, f_ij = ([i = j] - p_o - (1 - kappa) (p_.i + p_j. - 2 p_e)) / (1 - p_e), which is
    the delta method. Source: Fleiss, Cohen & Everitt 1969, Psychological Bulletin 72.

    Args:
        shares: Probabilities that a trial falls into each cell, (k, k).
        n: The number of trials.

    Returns:
        The standard error; nan when p_e = 1.

    Raises:
        InvalidInput: If the table is not square or does not sum to one, or `n` is not positive.

    >>> round(kappa_standard_error([[0.4, 0.1], [0.2, 0.3]], n=50), 6)
    0.126996
    """
    table = finite(shares, name="shares", ndim=2)
    if table.shape[0] != table.shape[1] or not table.size:
        raise InvalidInput(f"shares must be a square table, got shape {table.shape}")
    distributions(table.ravel(), name="shares")
    if not n > 0:
        raise InvalidInput(f"n must be positive, got {n}; it is a number of trials")
    return math.sqrt(float((table * _cell_influence(table) ** 2).sum()) / n)


def kappa_influence(a_correct: ArrayLike, b_correct: ArrayLike) -> Influence:
    """Compute error consistency with the influence of each trial on it: `kappa_standard_error`'s f of its cell.

    `standard_error` is that of the table of the data. The standard deviation of the difference of two `items`, of one
    person (a) and two models (b) on the same trials, is the `sd` of `trials_to_tell_apart`.

    Args:
        a_correct: Whether the first observer was right, one value per trial.
        b_correct: The same for the second observer, in the same order.

    Returns:
        The value and its influences, nan where error consistency is.

    Raises:
        InvalidInput: If a value is not true/false or 0/1, or the lengths differ.

    >>> kappa_influence([1, 1, 0, 0], [1, 0, 1, 0]).items
    array([ 1., -1., -1.,  1.])
    """
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    same_length(a_correct=a, b_correct=b)
    return _influence(a.astype(np.int64), b.astype(np.int64), 2)


def misclassification_influence(answers: Answers) -> Influence:
    """Compute misclassification agreement of two observers with the influence of each trial that both saw.

    On the m jointly wrong of n trials kappa's influence times n / m, elsewhere 0: how many are jointly wrong does not
    move the value.

    Args:
        answers: The answers of the two observers.

    Returns:
        The value and its influences, nan where misclassification agreement is.

    Raises:
        InvalidInput: If there are not two observers.

    >>> table = Answers(np.array([[1, 2, 0], [1, 1, 0]], np.int16), np.array([0, 0, 0], np.int16), 3)
    >>> misclassification_influence(table).value
    0.0
    """
    if answers.observers != 2:
        raise InvalidInput(f"a pair has two observers, got {answers.observers}; choose them with Answers.of")
    common = answers.at(answers.shown.all(axis=0))
    joint = common.wrong.all(axis=0)
    ya, yb = common.response[:, joint].astype(np.int64)
    on_errors = _influence(ya, yb, common.classes)
    items = np.full(common.stimuli, math.nan if math.isnan(on_errors.value) else 0.0)
    items[joint] = on_errors.items * (common.stimuli / max(len(ya), 1))
    return Influence(on_errors.value, items)


def trials_for_accuracy(accuracy: float, *, width: float, confidence: float = 0.95) -> TrialPlan:
    """Compute the fewest trials for an interval of an accuracy.

    Wilson's interval, 2 z sqrt(n p (1 - p) + z^2 / 4) / (n + z^2) wide, because it holds at 0 and 1 too, where the
    standard error is 0. Source: Wilson 1927, Journal of the American Statistical Association 22.

    Args:
        accuracy: The expected accuracy, 0 to 1.
        width: The width of the interval, end to end.
        confidence: Confidence of the interval.

    Returns:
        The plan.

    Raises:
        InvalidInput: If an argument is out of range, or no number of trials is enough.

    >>> trials_for_accuracy(0.7, width=0.1).trials
    320
    """
    if not 0 <= accuracy <= 1:
        raise InvalidInput(f"accuracy must be 0 to 1, got {accuracy}; divide percentages by 100")
    check_width(width, 1.0)
    z, variance = normal_z(confidence), accuracy * (1 - accuracy)

    def width_of(n: int) -> float:
        return 2 * z * math.sqrt(n * variance + z**2 / 4) / (n + z**2)

    n = _fewest(width_of, width, least=1)
    return TrialPlan(n, n, width_of(n), math.sqrt(variance / n), f"accuracy {accuracy:g}; Wilson's interval")


def trials_for_mean(sd: float, *, width: float, confidence: float = 0.95) -> TrialPlan:
    """Compute the fewest items for an interval of a mean of per-item values (Hellinger distances, influences, ...).

    2 t_{n-1} sd / sqrt(n) <= width. Source: Student 1908, Biometrika 6.

    Args:
        sd: Standard deviation of one item.
        width: The width of the interval, end to end.
        confidence: Confidence of the interval.

    Returns:
        The plan.

    Raises:
        InvalidInput: If an argument is out of range, or no number of trials is enough.

    >>> trials_for_mean(0.2, width=0.1).trials
    64
    """
    return _plan_for_mean(sd, width, confidence, f"standard deviation {sd:.4g} per item")


def trials_for_consistency(
    accuracy_a: float, accuracy_b: float, kappa: float, *, width: float, confidence: float = 0.95
) -> TrialPlan:
    """Compute the fewest trials for an interval of an error consistency.

    `trials_for_mean` with the standard deviation of kappa's influence (Fleiss, Cohen & Everitt 1969).

    Args:
        accuracy_a: Expected accuracy of the first observer.
        accuracy_b: Expected accuracy of the second.
        kappa: Expected error consistency.
        width: The width of the interval, end to end.
        confidence: Confidence of the interval.

    Returns:
        The plan.

    Raises:
        InvalidInput: If an argument is out of range, or no number of trials is enough.

    >>> trials_for_consistency(0.8, 0.7, 0.4, width=0.2).trials
    396
    """
    check_width(width, 2.0)
    sd = kappa_standard_error(joint_probabilities(accuracy_a, accuracy_b, kappa).table, n=1)
    return _plan_for_mean(
        sd, width, confidence, f"accuracies {accuracy_a:g} and {accuracy_b:g}, error consistency {kappa:g}"
    )


def trials_for_misclassification(
    agreement: float, *, classes: int, joint: float, width: float, confidence: float = 0.95
) -> TrialPlan:
    """Compute the fewest trials for an interval of a misclassification agreement.

    Assumes that both use all classes evenly on the trials both get wrong: p_e = 1 / classes and
    SE = sqrt(p_o (1 - p_o) / n) / (1 - p_e), which Fleiss, Cohen & Everitt (1969) gives for even margins.

    Args:
        agreement: Expected misclassification agreement.
        classes: The number of classes.
        joint: Fraction of trials that both get wrong.
        width: The width of the interval, end to end.
        confidence: Confidence of the interval.

    Returns:
        The plan.

    Raises:
        InvalidInput: If an argument is out of range, or no number of trials is enough.

    >>> plan = trials_for_misclassification(0.2, classes=16, joint=0.1, width=0.2)
    >>> plan.used, plan.trials
    (85, 850)
    """
    check_width(width, 2.0)
    _check_joint(joint)
    text = f"agreement {agreement:g}, {classes} classes used evenly, {joint:.4g} of the trials jointly wrong"
    plan = _plan_for_mean(_even_sd(agreement, classes), width, confidence, text)
    return replace(plan, trials=_round_up(plan.used / joint))


def trials_to_tell_apart(difference: float, *, sd: float, power: float = 0.8, alpha: float = 0.05) -> PowerPlan:
    """Compute the fewest trials on which a paired two-sided test detects a difference.

    n = ((z_{1-alpha/2} + z_power) sd / difference)^2; the opposite tail is left out. Source: Lachin 1981, Controlled
    Clinical Trials 2.

    Args:
        difference: The smallest difference that matters; not 0.
        sd: Standard deviation of one trial's difference (of values or influences).
        power: Probability to detect the difference.
        alpha: Significance level of the test.

    Returns:
        The plan.

    Raises:
        InvalidInput: If an argument is out of range.

    >>> trials_to_tell_apart(0.05, sd=0.5).trials
    785
    """
    _check_sd(sd)
    for name, probability in (("power", power), ("alpha", alpha)):
        if not 0 < probability < 1:
            raise InvalidInput(f"{name} must lie between 0 and 1, got {probability}; .8 and .05 are usual")
    if not (math.isfinite(difference) and difference != 0):
        raise InvalidInput(f"a difference to detect must not be 0, got {difference}; give the smallest that matters")
    if power <= alpha / 2:
        raise InvalidInput(f"power must exceed alpha / 2, which chance alone reaches, got {power}; .8 is usual")
    z = float(ndtri(1 - alpha / 2))
    n = _round_up(((z + float(ndtri(power))) * sd / difference) ** 2)
    error = sd / math.sqrt(n)
    text = f"difference {abs(difference):g}, standard deviation {sd:.4g} per trial, two-sided alpha {alpha:g}"
    return PowerPlan(n, float(ndtr(abs(difference) / error - z)), error, text)


def accuracy_difference_sd(models: JointProbabilities) -> float:
    """Compute the standard deviation of one trial's difference in correctness of two models.

    sqrt(b + c - (b - c)^2), b and c the probabilities that one model alone is right. Source: McNemar 1947,
    Psychometrika 12.

    Args:
        models: Joint probabilities of the two models.

    Returns:
        The standard deviation of one trial.

    >>> accuracy_difference_sd(joint_probabilities(0.5, 0.5, -1))
    1.0
    """
    b, c = models.only_a, models.only_b
    return math.sqrt(b + c - (b - c) ** 2)


def consistency_difference_sd(first: JointProbabilities, second: JointProbabilities) -> float:
    """Compute the standard deviation of one trial's difference in influence on the error consistency of two models.

    Assumes that the models err independently of each other where the person is right and where the person is wrong;
    models that err on the same trials have a smaller one.

    Args:
        first: Joint probabilities of a person (a) and the first model (b).
        second: The same of the person and the second model.

    Returns:
        The standard deviation of one trial.

    Raises:
        InvalidInput: If the person has another accuracy in the second table.

    >>> round(consistency_difference_sd(joint_probabilities(0.8, 0.7, 0.4), joint_probabilities(0.8, 0.7, 0.3)), 3)
    1.392
    """
    people = [joint.table.sum(axis=1) for joint in (first, second)]
    if abs(people[0][1] - people[1][1]) > ROUNDING:
        right = f"{people[0][1]:g} and {people[1][1]:g}"
        raise InvalidInput(f"both tables must be about one person's accuracy, got {right}; put the person first")
    influences = [_cell_influence(joint.table) for joint in (first, second)]
    weighted = [joint.table * cells for joint, cells in zip((first, second), influences, strict=True)]
    variances = [float((w * cells).sum()) for w, cells in zip(weighted, influences, strict=True)]
    covariance = divide(weighted[0].sum(axis=1) * weighted[1].sum(axis=1), people[0])  # by the person wrong, right
    return math.sqrt(sum(variances) - 2 * float(np.nansum(covariance)))


def misclassification_difference_sd(first: float, second: float, *, classes: int, joint: float) -> float:
    """Compute the same for the misclassification agreement of two models with one person.

    Assumes what `trials_for_misclassification` does for each, and models that err independently of each other:
    sqrt((s1^2 + s2^2) / joint), s the standard deviation on a jointly wrong trial.

    Args:
        first: Expected agreement of the first model.
        second: Expected agreement of the second.
        classes: The number of classes.
        joint: Fraction of trials that a model and the person both get wrong.

    Returns:
        The standard deviation of one trial.

    Raises:
        InvalidInput: If an argument is out of range.

    >>> round(misclassification_difference_sd(0.3, 0.2, classes=16, joint=0.1), 3)
    2.168
    """
    _check_joint(joint)
    return math.sqrt((_even_sd(first, classes) ** 2 + _even_sd(second, classes) ** 2) / joint)


def _influence(a: IntArray, b: IntArray, classes: int) -> Influence:
    """Compute kappa of two code arrays and each trial's influence on it."""
    n = len(a)
    if n == 0:
        return Influence(math.nan, np.empty(0))
    table = np.bincount(a * classes + b, minlength=classes**2).reshape(classes, classes) / n
    observed, expected = np.trace(table), table.sum(axis=1) @ table.sum(axis=0)
    value = float(divide(np.asarray(observed - expected), np.asarray(1 - expected)))
    return Influence(value, _cell_influence(table)[a, b])


def _cell_influence(table: FloatArray) -> FloatArray:
    """Compute the influence on kappa of a trial in each cell (k, k) of probabilities; nan where p_e = 1."""
    a, b = table.sum(axis=1), table.sum(axis=0)
    observed, expected = float(np.trace(table)), float(a @ b)
    if expected >= 1:
        return np.full(table.shape, np.nan)
    disagreement = (1 - observed) / (1 - expected)  # 1 - kappa
    chance = b[:, None] + a[None, :] - 2 * expected
    return np.asarray((np.eye(len(table)) - observed - disagreement * chance) / (1 - expected))


def _plan_for_mean(sd: float, width: float, confidence: float, assumptions: str) -> TrialPlan:
    _check_sd(sd)
    check_width(width, math.inf)
    check_confidence(confidence)

    def width_of(n: int) -> float:
        return 2 * float(stdtrit(n - 1, (1 + confidence) / 2)) * sd / math.sqrt(n)

    n = _fewest(width_of, width, least=2)
    return TrialPlan(n, n, width_of(n), sd / math.sqrt(n), assumptions)


def _fewest(width_of: Callable[[int], float], width: float, *, least: int) -> int:
    """Find the smallest n from `least` on with width_of(n) <= width, for a width that falls with n."""
    low, high = least - 1, least  # width_of(low) is too wide, or `low` is not a number of trials
    while width_of(high) > width:
        low, high = high, 2 * high
        if high > MOST_TRIALS:
            raise InvalidInput(f"an interval must be wide enough for some number of trials, got {width:g}; widen it")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width_of(middle) <= width else (middle, high)
    return high


def _even_sd(agreement: float, classes: int) -> float:
    """Compute the standard deviation of a jointly wrong trial's influence when both use all classes evenly."""
    if not (2 <= classes < MOST_TRIALS and classes == int(classes)):
        raise InvalidInput(f"classes must be a whole number of 2 or more, got {classes}")
    observed = 1 / classes + agreement * (1 - 1 / classes)
    if not -ROUNDING <= observed <= 1:
        lowest = -1 / (classes - 1)
        raise InvalidInput(f"agreement on {classes} even classes must be {lowest:.4f} to 1, got {agreement:g}")
    return math.sqrt(max(observed * (1 - observed), 0.0)) / (1 - 1 / classes)


def _round_up(value: float) -> int:
    """Round up to a whole number, at least 1; first to 9 decimals, so that 400.00000000000006 gives 400."""
    if not value <= MOST_TRIALS:
        raise InvalidInput(
            f"a plan must stay within {MOST_TRIALS:.3g} trials, got {value:.3g}; plan for less precision"
        )
    return max(math.ceil(round(value, 9)), 1)


def _check_joint(joint: float) -> None:
    if not 0 < joint <= 1:
        raise InvalidInput(f"the fraction of jointly wrong trials must be above 0 and at most 1, got {joint}")


def _check_sd(sd: float) -> None:
    if not (sd > 0 and math.isfinite(sd)):
        raise InvalidInput(
            f"the standard deviation of a trial must be above 0, got {sd}; without spread (a perfect observer, "
            "agreement of exactly 1) no number of trials can be planned"
        )
