"""How many people and images does a study need? Crossed designs from a pilot, and raters per image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, IntArray, finite
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import MOST_TRIALS, ROUNDING, check_width, normal_z

__all__ = [
    "CrossedPlan",
    "RaterPlan",
    "VarianceParts",
    "error_bound",
    "minimum_raters",
    "people_and_images_for_width",
    "variance_parts",
]


@dataclass(frozen=True, slots=True)
class VarianceParts:
    """Variance components of a people x items table; `value` is its mean.

    A component below zero (`negative` names it) means that the pilot cannot distinguish it from zero.
    """

    value: float
    people: float  # variance between people's true means
    stimuli: float  # variance between the images' true means
    rest: float  # the residual: person by image, and noise

    @property
    def negative(self) -> tuple[str, ...]:
        """The names of the components below zero by more than rounding."""
        parts = {"people": self.people, "stimuli": self.stimuli, "rest": self.rest}
        return tuple(name for name, part in parts.items() if part < -ROUNDING * max(parts.values()))


@dataclass(frozen=True, slots=True, eq=False)
class CrossedPlan:
    """The fewest images for each number of people; `value` is the number of answers of the cheapest design."""

    people: IntArray  # (designs,), ascending
    images: IntArray  # (designs,)
    width: FloatArray  # (designs,), of the interval
    cheapest: int  # index of the design with the fewest answers in all

    @property
    def value(self) -> float:
        """people * images of the cheapest design."""
        return float(self.people[self.cheapest] * self.images[self.cheapest])


@dataclass(frozen=True, slots=True)
class RaterPlan:
    """The number of people that an image needs."""

    value: float  # before rounding up
    raters: int


def variance_parts(table: ArrayLike) -> VarianceParts:
    """Estimate the variance between people, between images, and the residual.

    Two-way random effects without replication: rest = MS_rest, people = (MS_people - MS_rest) / items, stimuli =
    (MS_stimuli - MS_rest) / people, left negative where they come out so. Source: Searle, Casella & McCulloch 1992,
    Variance Components, ch. 4.

    Args:
        table: Complete values, (people, items).

    Returns:
        The components.

    Raises:
        InvalidInput: If there are fewer than two people or items.

    >>> variance_parts([[1, 2, 3], [3, 4, 5]])
    VarianceParts(value=3.0, people=2.0, stimuli=1.0, rest=0.0)
    """
    values = finite(table, name="table", ndim=2)
    p, i = values.shape
    if p < 2 or i < 2:
        raise InvalidInput(f"variance components need at least two people and two items, got {p} and {i}")
    mean, rows, columns = values.mean(), values.mean(axis=1), values.mean(axis=0)
    residual = values - rows[:, None] - columns + mean
    rest = float((residual**2).sum() / ((p - 1) * (i - 1)))
    between = float(rows.var(ddof=1)), float(columns.var(ddof=1))
    return VarianceParts(float(mean), between[0] - rest / i, between[1] - rest / p, rest)


def people_and_images_for_width(
    parts: VarianceParts,
    *,
    width: float,
    confidence: float = 0.95,
    people: Sequence[int] = range(2, 201),
    most_images: int | None = None,
    negative: Literal["raise", "zero"] = "raise",
) -> CrossedPlan:
    """Compute, for each number of people, the fewest images that give the mean an interval no wider than `width`.

    Everybody answers every image: Var = v_people / P + v_stimuli / I + v_rest / (P I), width = 2 z sqrt(Var); with
    fewer than about ten people a real interval is wider. Source: Searle, Casella & McCulloch 1992, ch. 4.

    Args:
        parts: Variance components, from a pilot.
        width: The width of the interval, end to end.
        confidence: Confidence of the interval.
        people: Numbers of people to consider.
        most_images: The most images that one person can answer.
        negative: What to do with a negative component: "raise", or "zero" to count it as zero.

    Returns:
        The designs that reach the width.

    Raises:
        InvalidInput: If no design reaches the width, or a component cannot be used.

    >>> plan = people_and_images_for_width(VarianceParts(0.5, 0.01, 0.02, 0.2), width=0.1)
    >>> plan.people[plan.cheapest].item(), plan.images[plan.cheapest].item()
    (33, 75)
    """
    v_people, v_stimuli, v_rest = _check_parts(parts, negative)
    check_width(width, math.inf)
    counts = np.unique(finite(list(people), name="people", ndim=1))
    if not len(counts) or counts[0] < 1 or (counts != np.floor(counts)).any():
        raise InvalidInput(f"people must be whole numbers of 1 or more, got {list(people)[:5]}")
    z = normal_z(confidence)
    spare = (width / (2 * z)) ** 2 - v_people / counts
    images = np.full(len(counts), math.inf)
    np.divide(v_stimuli + v_rest / counts, spare, out=images, where=spare > 0)
    images = np.maximum(np.ceil(np.round(images, 9)), 1.0)
    possible = images <= (MOST_TRIALS if most_images is None else most_images)
    if not possible.any():
        most = int(counts.max())
        least = v_people / most + ((v_stimuli + v_rest / most) / most_images if most_images else 0.0)
        raise InvalidInput(
            f"the width must be {2 * z * math.sqrt(least):.4g} or more for {most} people and "
            f"{most_images or 'any number of'} images, got {width:g}; allow more"
        )
    p, images = counts[possible], images[possible]
    reached = 2 * z * np.sqrt(v_people / p + v_stimuli / images + v_rest / (p * images))
    return CrossedPlan(p.astype(np.int64), images.astype(np.int64), reached, int(np.argmin(p * images)))


def minimum_raters(error_bound: float, *, p: float, z: float = 2.0, plus_one: bool = False) -> RaterPlan:
    """Compute how many people an image needs for a proportion near `p` to be known within `error_bound`.

    n >= z^2 p (1 - p) / error_bound^2, plus 1 with `plus_one`. Lee et al. (2023, F.4) derive the form with the
    additional 1, drop it for simplicity, and round z = 1.96 to 2. The function `error_bound` is the inverse of the
    form with `plus_one`.

    Args:
        error_bound: Half the width of the interval, between 0 and 1.
        p: The expected proportion.
        z: How many standard errors the interval extends to either side.
        plus_one: Whether to add one person.

    Returns:
        The number of people, before and after rounding up.

    Raises:
        InvalidInput: If an argument is out of range.

    >>> plan = minimum_raters(0.05, p=1 / 11)
    >>> round(plan.value, 2), plan.raters
    (132.23, 133)
    """
    _check_proportion(p, z)
    if not 0 < error_bound < 1:
        raise InvalidInput(f"the error bound must lie between 0 and 1, got {error_bound}; 5 % is 0.05")
    value = z**2 * p * (1 - p) / error_bound**2 + (1 if plus_one else 0)
    return RaterPlan(value, math.ceil(round(value, 9)))  # round: 400.00000000000006 needs 400 people


def error_bound(n: float, *, p: float, z: float = 2.0) -> float:
    """Compute half the width of the interval of a proportion near `p` after `n` people's answers.

    z sqrt(p (1 - p) / (n - 1)): with n - 1, from the unbiased variance, as in Lee et al. (2023, F.4, eq. 3).
    Their 134 people per image, planned for 5 % at p = 1/11, give a wider interval at p = 1/2.

    Args:
        n: The number of people.
        p: The expected proportion.
        z: How many standard errors the interval extends to either side.

    Returns:
        Half the width of the interval.

    Raises:
        InvalidInput: If an argument is out of range.

    >>> round(error_bound(134, p=1 / 11), 3), round(error_bound(134, p=0.5), 3)
    (0.05, 0.087)
    """
    _check_proportion(p, z)
    if not n > 1:
        raise InvalidInput(f"an error bound needs two people or more, got {n}")
    return z * math.sqrt(p * (1 - p) / (n - 1))


def _check_parts(parts: VarianceParts, negative: Literal["raise", "zero"]) -> tuple[float, float, float]:
    """Return the three components, none negative."""
    values = parts.people, parts.stimuli, parts.rest
    if negative not in ("raise", "zero"):
        raise InvalidInput(f"negative must be 'raise' or 'zero', got {negative!r}")
    if negative == "raise" and parts.negative:
        name = parts.negative[0]
        raise InvalidInput(
            f"variance components must not be negative, got {getattr(parts, name):.4g} for {name}; use a larger pilot, "
            "or treat it as zero with negative='zero'"
        )
    if not np.isfinite(values).all():
        raise InvalidInput(f"variance components must be finite, got {values}")
    if max(values) <= 0:
        raise InvalidInput("variance components must not all be 0, got no variance; use a larger pilot")
    return max(values[0], 0.0), max(values[1], 0.0), max(values[2], 0.0)


def _check_proportion(p: float, z: float) -> None:
    if not 0 < p < 1:
        raise InvalidInput(f"p must lie between 0 and 1, got {p}; one over the number of classes is a common guess")
    if not z > 0:
        raise InvalidInput(f"z must be positive, got {z}; 1.96 or 2 give 95 %")
