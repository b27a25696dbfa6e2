"""How many trials, people and images does a study need?

Asked before the data are there, from what one expects or from a pilot. Everything is large-sample: a measure is its
value plus the mean of one influence value a trial (the delta method), so that its standard error is their standard
deviation over sqrt(n), and two measures on the same trials differ by the mean of the differences. An interval of n
trials spans 2 t standard errors, t of n - 1 degrees of freedom, as the bootstrap of `uncertainty` does on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtrit

from cosight.arrays import FloatArray, IntArray, correctness, distributions, finite, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import MOST_TRIALS, ROUNDING, check_width, divide, normal_z
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
    """How often two observers are right together and alone; `value` is their error consistency."""

    value: float
    both: float
    only_a: float
    only_b: float
    neither: float

    @property
    def table(self) -> FloatArray:
        """The shares by a wrong, right (rows) and b wrong, right (columns)."""
        return np.array([[self.neither, self.only_b], [self.only_a, self.both]])


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """A measure and what each trial contributes to its error: value - truth is about the mean of `items`."""

    value: float
    items: FloatArray  # (trials,), mean 0; all nan where the value is

    @property
    def standard_error(self) -> float:
        """sqrt(mean(items^2) / n); nan without trials."""
        n = len(self.items)
        return math.sqrt(float(np.mean(self.items**2)) / n) if n else math.nan


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The fewest trials whose interval is no wider than asked."""

    trials: int
    used: int  # those the value rests on: the jointly wrong ones for misclassification agreement, else all
    width: float  # of the interval from that many, end to end
    standard_error: float
    assumptions: str

    @property
    def value(self) -> float:
        """The same as `trials`."""
        return float(self.trials)


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """The fewest trials that find a difference with the power asked."""

    trials: int
    power: float  # with that many
    standard_error: float  # of the difference
    assumptions: str

    @property
    def value(self) -> float:
        """The same as `trials`."""
        return float(self.trials)


def joint_probabilities(accuracy_a: float, accuracy_b: float, kappa: float) -> JointProbabilities:
    """The 2 x 2 table of right and wrong that two accuracies and an error consistency imply.

    p_obs = p_exp + kappa (1 - p_exp), both = (p_obs + pA + pB - 1) / 2, and the rest from the margins.
    Raises where `reachable_kappa` leaves no such table; two observers who are always right have none.

    >>> shares = joint_probabilities(0.8, 0.6, 0.25)
    >>> round(shares.both, 4), round(shares.neither, 4)
    (0.535, 0.135)
    """
    reach = reachable_kappa(accuracy_a, accuracy_b)
    if not reach.lowest - ROUNDING <= kappa <= reach.highest + ROUNDING:
        raise InvalidInput(
            f"error consistency of accuracies {accuracy_a:g} and {accuracy_b:g} must be {reach.lowest:.4f} to "
            f"{reach.highest:.4f}, got {kappa:g}; nothing else can be reached"
        )
    expected = accuracy_a * accuracy_b + (1 - accuracy_a) * (1 - accuracy_b)
    both = (expected + kappa * (1 - expected) + accuracy_a + accuracy_b - 1) / 2
    cells = both, accuracy_a - both, accuracy_b - both, 1 - accuracy_a - accuracy_b + both
    return JointProbabilities(
        kappa, *(max(cell, 0.0) for cell in cells)
    )  # at an end of the range, rounding leaves -1e-17


def kappa_standard_error(shares: ArrayLike, *, n: float) -> float:
    """Large-sample standard error of Cohen's kappa from n trials that fall into the cells of `shares` (k, k).

    SE^2 = sum_ij p_ij f_ij^2 / n, f_ij = ([i = j] - p_o - (1 - kappa) (p_.i + p_j. - 2 p_e)) / (1 - p_e), which is
    the delta method. Source: Fleiss, Cohen & Everitt 1969, Psychological Bulletin 72. nan when p_e = 1.

    >>> round(kappa_standard_error([[0.4, 0.1], [0.2, 0.3]], n=50), 6)
    0.126996
    """
    table = _square(shares)
    if not n > 0:
        raise InvalidInput(f"n must be positive, got {n}; it is a number of trials")
    return math.sqrt(float((table * _cells(table) ** 2).sum()) / n)


def kappa_influence(a_correct: ArrayLike, b_correct: ArrayLike) -> Influence:
    """Error consistency with the influence of each trial on it: `kappa_standard_error`'s f at the trial's cell.

    `standard_error` is that of the table of the data; the difference of two `items` on the same trials, b a model
    and a person a, gives the standard deviation for `trials_to_tell_apart`. nan where error consistency is.

    >>> kappa_influence([1, 1, 0, 0], [1, 0, 1, 0]).items
    array([ 1., -1., -1.,  1.])
    """
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    same_length(a_correct=a, b_correct=b)
    return _influence(a.astype(np.int64), b.astype(np.int64), 2)


def misclassification_influence(answers: Answers) -> Influence:
    """Misclassification agreement of two observers with the influence of each trial that both met.

    On the m jointly wrong of n trials kappa's influence times n / m, elsewhere 0: how many are jointly wrong does not
    move the value. nan where misclassification agreement is.

    >>> table = Answers(np.array([[1, 2, 0], [1, 1, 0]], np.int16), np.array([0, 0, 0], np.int16), 3)
    >>> misclassification_influence(table).value
    0.0
    """
    if answers.observers != 2:
        raise InvalidInput(f"a pair has two observers, got {answers.observers}; choose them with Answers.of")
    met = answers.at(answers.shown.all(axis=0))
    joint = met.wrong.all(axis=0)
    ya, yb = met.response[:, joint].astype(np.int64)
    within = _influence(ya, yb, met.classes)
    items = np.full(met.stimuli, math.nan if math.isnan(within.value) else 0.0)
    items[joint] = within.items * (met.stimuli / max(len(ya), 1))
    return Influence(within.value, items)


def trials_for_accuracy(accuracy: float, *, width: float, confidence: float = 0.95) -> TrialPlan:
    """The fewest trials for an interval of an accuracy.

    Wilson's interval, 2 z sqrt(n p (1 - p) + z^2 / 4) / (n + z^2) wide, because it holds at 0 and 1 too, where a
    standard error says nothing. Source: Wilson 1927, Journal of the American Statistical Association 22.

    >>> trials_for_accuracy(0.7, width=0.1).trials
    320
    """
    _check_share(accuracy, "accuracy")
    check_width(width, 1.0)
    z, spread = normal_z(confidence), accuracy * (1 - accuracy)

    def reached(n: int) -> float:
        return 2 * z * math.sqrt(n * spread + z**2 / 4) / (n + z**2)

    n = _fewest(reached, width, least=1)
    return TrialPlan(n, n, reached(n), math.sqrt(spread / n), f"accuracy {accuracy:g}; Wilson's interval")


def trials_for_mean(sd: float, *, width: float, confidence: float = 0.95) -> TrialPlan:
    """The fewest items for an interval of a mean of per-item values (Hellinger distances, influences, ...).

    2 t_{n-1} sd / sqrt(n) <= width, `sd` the standard deviation of one item. Source: Student 1908, Biometrika 6.

    >>> trials_for_mean(0.2, width=0.1).trials
    64
    """
    return _for_mean(sd, width, confidence, f"standard deviation {sd:.4g} an item")


def trials_for_consistency(
    accuracy_a: float, accuracy_b: float, kappa: float, *, width: float, confidence: float = 0.95
) -> TrialPlan:
    """The fewest trials for an interval of an error consistency expected to be `kappa`.

    `trials_for_mean` with the standard deviation of kappa's influence (Fleiss, Cohen & Everitt 1969).

    >>> trials_for_consistency(0.8, 0.7, 0.4, width=0.2).trials
    396
    """
    check_width(width, 2.0)
    sd = kappa_standard_error(joint_probabilities(accuracy_a, accuracy_b, kappa).table, n=1)
    return _for_mean(
        sd, width, confidence, f"accuracies {accuracy_a:g} and {accuracy_b:g}, error consistency {kappa:g}"
    )


def trials_for_misclassification(
    agreement: float, *, classes: int, joint: float, width: float, confidence: float = 0.95
) -> TrialPlan:
    """The fewest trials for an interval of a misclassification agreement expected to be `agreement`.

    Both use `classes` classes evenly on the trials both get wrong, a share `joint` of all: p_e = 1 / classes and
    SE = sqrt(p_o (1 - p_o) / n) / (1 - p_e), what Fleiss, Cohen & Everitt (1969) gives for even margins.

    >>> plan = trials_for_misclassification(0.2, classes=16, joint=0.1, width=0.2)
    >>> plan.used, plan.trials
    (85, 850)
    """
    check_width(width, 2.0)
    _check_joint(joint)
    text = f"agreement {agreement:g}, {classes} classes used evenly, {joint:.4g} of the trials jointly wrong"
    found = _for_mean(_even_sd(agreement, classes), width, confidence, text)
    return TrialPlan(_up(found.used / joint), found.used, found.width, found.standard_error, text)


def trials_to_tell_apart(difference: float, *, sd: float, power: float = 0.8, alpha: float = 0.05) -> PowerPlan:
    """The fewest trials on which a paired two-sided test finds `difference` with probability `power`.

    n = ((z_{1-alpha/2} + z_power) sd / difference)^2, `sd` the standard deviation of one trial's difference (of
    values or influences). The wrong tail is left out. Source: Lachin 1981, Controlled Clinical Trials 2.

    >>> trials_to_tell_apart(0.05, sd=0.5).trials
    785
    """
    _check_sd(sd)
    for name, share in (("power", power), ("alpha", alpha)):
        if not 0 < share < 1:
            raise InvalidInput(f"{name} must lie between 0 and 1, got {share}; .8 and .05 are usual")
    if not (math.isfinite(difference) and difference != 0):
        raise InvalidInput(f"a difference to find must not be 0, got {difference}; give the least that matters")
    if power <= alpha / 2:
        raise InvalidInput(f"power must exceed alpha / 2, which chance alone reaches, got {power}; .8 is usual")
    z = float(ndtri(1 - alpha / 2))
    n = _up(((z + float(ndtri(power))) * sd / difference) ** 2)
    error = sd / math.sqrt(n)
    text = f"difference {abs(difference):g}, standard deviation {sd:.4g} a trial, two-sided alpha {alpha:g}"
    return PowerPlan(n, float(ndtr(abs(difference) / error - z)), error, text)


def accuracy_difference_sd(models: JointProbabilities) -> float:
    """Standard deviation of one trial's difference in being right: sqrt(b + c - (b - c)^2), b and c right alone.

    Source: McNemar 1947, Psychometrika 12.

    >>> accuracy_difference_sd(joint_probabilities(0.5, 0.5, -1))
    1.0
    """
    b, c = models.only_a, models.only_b
    return math.sqrt(b + c - (b - c) ** 2)


def consistency_difference_sd(first: JointProbabilities, second: JointProbabilities) -> float:
    """Standard deviation of one trial's difference of influences on two models' error consistency with one person.

    a is the person in both tables. The models are taken to err independently of each other where the person is right
    and where the person is wrong; models that err alike have less.

    >>> round(consistency_difference_sd(joint_probabilities(0.8, 0.7, 0.4), joint_probabilities(0.8, 0.7, 0.3)), 3)
    1.392
    """
    people = [shares.table.sum(axis=1) for shares in (first, second)]
    if abs(people[0][1] - people[1][1]) > ROUNDING:
        right = f"{people[0][1]:g} and {people[1][1]:g}"
        raise InvalidInput(f"both tables must be about one person's accuracy, got {right}; put the person first")
    pulls = [shares.table * _cells(shares.table) for shares in (first, second)]
    own = [float((pull * _cells(shares.table)).sum()) for pull, shares in zip(pulls, (first, second), strict=True)]
    shared = divide(pulls[0].sum(axis=1) * pulls[1].sum(axis=1), people[0])  # by the person wrong, right
    return math.sqrt(sum(own) - 2 * float(np.nansum(shared)))


def misclassification_difference_sd(first: float, second: float, *, classes: int, joint: float) -> float:
    """The same for two models' misclassification agreement with one person.

    Assumes what `trials_for_misclassification` does for each, and models that err independently of each other:
    sqrt((s1^2 + s2^2) / joint), s the standard deviation on a jointly wrong trial.

    >>> round(misclassification_difference_sd(0.3, 0.2, classes=16, joint=0.1), 3)
    2.168
    """
    _check_joint(joint)
    return math.sqrt((_even_sd(first, classes) ** 2 + _even_sd(second, classes) ** 2) / joint)


def _influence(a: IntArray, b: IntArray, classes: int) -> Influence:
    """Kappa of two code arrays and each trial's influence on it."""
    n = len(a)
    if n == 0:
        return Influence(math.nan, np.empty(0))
    shares = np.bincount(a * classes + b, minlength=classes**2).reshape(classes, classes) / n
    observed, expected = np.trace(shares), shares.sum(axis=1) @ shares.sum(axis=0)
    value = float(divide(np.asarray(observed - expected), np.asarray(1 - expected)))
    return Influence(value, _cells(shares)[a, b])


def _cells(shares: FloatArray) -> FloatArray:
    """The influence on kappa of a trial in each cell (k, k); nan where p_e = 1."""
    a, b = shares.sum(axis=1), shares.sum(axis=0)
    observed, expected = float(np.trace(shares)), float(a @ b)
    if expected >= 1:
        return np.full(shares.shape, np.nan)
    disagreement = (1 - observed) / (1 - expected)  # 1 - kappa
    chance = b[:, None] + a[None, :] - 2 * expected
    return np.asarray((np.eye(len(shares)) - observed - disagreement * chance) / (1 - expected))


def _for_mean(sd: float, width: float, confidence: float, assumptions: str) -> TrialPlan:
    _check_sd(sd)
    check_width(width, math.inf)
    normal_z(confidence)

    def reached(n: int) -> float:
        return 2 * float(stdtrit(n - 1, (1 + confidence) / 2)) * sd / math.sqrt(n)

    n = _fewest(reached, width, least=2)
    return TrialPlan(n, n, reached(n), sd / math.sqrt(n), assumptions)


def _fewest(reached: Callable[[int], float], width: float, *, least: int) -> int:
    """The smallest n from `least` on with reached(n) <= width, for a width that falls with n."""
    low, high = least - 1, least  # reached(low) is too wide, or not a number of trials
    while reached(high) > width:
        low, high = high, 2 * high
        if high > MOST_TRIALS:
            raise InvalidInput(f"an interval must be wide enough for some number of trials, got {width:g}; widen it")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= width else (middle, high)
    return high


def _even_sd(agreement: float, classes: int) -> float:
    """Standard deviation of a jointly wrong trial's influence when both use all classes evenly."""
    if not (2 <= classes < MOST_TRIALS and classes == int(classes)):
        raise InvalidInput(f"classes must be a whole number of 2 or more, got {classes}")
    observed = 1 / classes + agreement * (1 - 1 / classes)
    if not -ROUNDING <= observed <= 1:
        lowest = -1 / (classes - 1)
        raise InvalidInput(f"agreement on {classes} even classes must be {lowest:.4f} to 1, got {agreement:g}")
    return math.sqrt(max(observed * (1 - observed), 0.0)) / (1 - 1 / classes)


def _square(shares: ArrayLike) -> FloatArray:
    table = finite(shares, name="shares", ndim=2)
    if table.shape[0] != table.shape[1] or not table.size:
        raise InvalidInput(f"shares must be a square table, got shape {table.shape}")
    return distributions(table.ravel(), name="shares").reshape(table.shape)


def _up(value: float) -> int:
    """Rounded up to a whole number, at least 1; rounded first, lest 400.00000000000006 ask for 401."""
    if not value <= MOST_TRIALS:
        raise InvalidInput(f"a plan must stay within {MOST_TRIALS:.3g} trials, got {value:.3g}; ask for less")
    return max(math.ceil(round(value, 9)), 1)


def _check_share(share: float, name: str) -> None:
    if not 0 <= share <= 1:
        raise InvalidInput(f"{name} must be 0 to 1, got {share}; divide percentages by 100")


def _check_joint(joint: float) -> None:
    if not 0 < joint <= 1:
        raise InvalidInput(f"the share of jointly wrong trials must be above 0 and at most 1, got {joint}")


def _check_sd(sd: float) -> None:
    if not (sd > 0 and math.isfinite(sd)):
        raise InvalidInput(
            f"the standard deviation of a trial must be above 0, got {sd}; without spread (a perfect observer, "
            "agreement of exactly 1) no number of trials can be planned"
        )
