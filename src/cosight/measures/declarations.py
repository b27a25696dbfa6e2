"""What every measure declares about itself, its forms for tables of answers, and the registries of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from cosight.arrays import BoolArray, FloatArray
from cosight.measures.answers import Answers, CodeArray
from cosight.measures.arithmetic import Pairs, Weights
from cosight.measures.pooled_pairs import PooledAgreement
from cosight.registry import Registry

__all__ = [
    "Direction",
    "EqualErrors",
    "Measure",
    "Need",
    "PairForm",
    "SoloForm",
    "declare",
    "measures",
    "pair_forms",
    "solo_forms",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Direction = Literal["higher", "lower", "neither"]
Need = Literal[
    "correctness",  # right or wrong, per trial
    "responses",  # the class answered, per trial
    "truth",  # the true class, per trial
    "original",  # the class a picture was made from, per stimulus: an integer code, -1 for none
    "cues",  # the shape and texture class of a cue-conflict image
    "distributions",  # a label distribution, per stimulus
    "gold",  # people's label distribution, per stimulus
    "abstention",  # how strongly the observer tends to refuse, per stimulus
    "groups",  # Must-Act, Must-Abstain or Uncertain, per stimulus
    "features",  # a feature vector, per stimulus
    "distances",  # from a query to each option
    "to_target",  # the distance from a query to its target
    "to_seed",  # the distance from a query to the seed it was optimised from
    "counts",  # how many people chose each class, (items, classes)
    "ratings",  # several people's answers to the same items, (raters, items), nan where one gave none
    "scores",  # complete forms, (people, items)
    "raters",  # who answered, per answer
    "items",  # what was answered about, per answer
    "reached",  # distance of each inversion to its target, in the features of the model
    "outcomes",  # whether an answer was a refusal, or could not be read, per trial
    "amounts",  # what an answer took, per trial
    "values",  # one number per observer, or per pair of observers
]


@dataclass(frozen=True, slots=True)
class Measure:
    """The declaration of one measure; `function` computes it from arrays and returns a result with `.value`.

    `needs` and `symmetric` determine the positional arguments: one array per need, in the order of `needs`. A measure
    of two observers (`symmetric` is not None) takes the first observer's array and then the second's, except for needs
    of the stimuli (truth, original, gold, groups, cues). `cues` are two arrays: shape, texture.
    """

    name: str
    summary: str
    function: Callable[..., Any]
    low: float  # the range of `.value`; infinite where there is no bound
    high: float
    direction: Direction  # which values mean more alike, or better
    symmetric: bool | None  # None: a measure of one observer
    needs: tuple[Need, ...]
    citation: str
    aliases: tuple[str, ...] = ()
    share: bool = False  # a fraction of trials that are one thing or another, or a mean of such fractions


measures: Registry[Measure] = Registry("measure")


def declare(
    name: str,
    *,
    summary: str,
    low: float,
    high: float,
    direction: Direction,
    symmetric: bool | None,
    needs: tuple[Need, ...],
    citation: str,
    aliases: tuple[str, ...] = (),
    share: bool = False,
) -> Callable[[Function], Function]:
    """Register the decorated function as a measure and return it unchanged.

    Args:
        name: Name of the measure, equal to that of the function.
        summary: One sentence for `cosight list measures`.
        low: Lowest possible value, or -inf.
        high: Highest possible value, or inf.
        direction: Which values mean more alike, or better.
        symmetric: Whether swapping two observers leaves the value as it is; None for a measure of one observer.
        needs: The arrays that the function takes.
        citation: Where the measure is defined.
        aliases: Other names.
        share: Whether the value is a fraction of trials; its interval is then that of a share.

    Returns:
        The decorator.

    Raises:
        InvalidInput: If a name or alias exists already.

    The name in this example is taken:

    >>> @declare("accuracy", summary="Share of right answers.", low=0, high=1, direction="higher", symmetric=None,
    ...          needs=("correctness",), citation="Author Year", share=True)
    ... def accuracy(correct): ...
    Traceback (most recent call last):
    cosight.errors.InvalidInput: measure names are unique, got 'accuracy' twice; choose another
    """

    def register(function: Function) -> Function:
        entry = Measure(name, summary, function, low, high, direction, symmetric, needs, citation, aliases, share)
        measures.add(name, entry, aliases=aliases)
        return function

    return register


class EqualErrors(Protocol):
    """Compute how alike each observer of a pair is to others, after subsampling both to equal numbers of errors."""

    def __call__(self, answers: Answers, pairs: Pairs, others: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the expected values (pairs, 2, observers), and the number of errors that each kept (pairs,).

        Args:
            answers: Everyone's answers.
            pairs: The two observers to compare.
            others: The observers that both are compared with, (pairs, observers); values are nan for everyone else.
        """
        ...


@dataclass(frozen=True, slots=True)
class PairForm:
    """A measure of two observers, computed for all pairs of a table of answers and for resamples of its stimuli."""

    matrix: Callable[[Answers], FloatArray]  # (observers, observers)
    resampled: Callable[[Answers, Weights, Pairs], FloatArray]  # (pairs, resamples)
    count: Callable[[Answers, Pairs], FloatArray]  # (pairs,): number of trials behind the value
    undefined: str  # when the value is undefined, in words
    shared: bool = True  # whether the two must have seen the same stimuli
    min_high: Callable[[Answers, Pairs, float], FloatArray] | None = None  # (pairs,): least high end of the interval
    errors: Callable[[Answers, Pairs], FloatArray] | None = None  # (pairs,): number of common errors behind the value
    remarks: Callable[[Answers, Pairs], list[str]] | None = None  # a note for readers per pair
    # for a measure whose value depends on the number of errors; it is resampled to first order (`draws.Jackknife`)
    at_equal_errors: EqualErrors | None = None
    # (pairs, classes): how the value of such a measure changes with one error less of the first observer
    error_slopes: Callable[[Answers, Pairs], FloatArray] | None = None
    biased: bool = False  # whether few trials pull the value to one side, so that its interval is moved back
    answers_only: bool = True  # whether it reads nothing but answers; then majority answers can be compared too
    why_undefined: Callable[[Answers, Pairs], list[str]] | None = None  # per pair, "" where `undefined` says it
    # (pairs, resamples), from confusion counts (observers, resamples, classes, classes); None where these do not do
    from_confusions: Callable[[FloatArray, Pairs], FloatArray] | None = None
    pooled: Callable[..., PooledAgreement] | None = None  # of a group of observers who share few stimuli


@dataclass(frozen=True, slots=True)
class SoloForm:
    """A measure of one observer as a function of sums over its trials, so that trials can be resampled and pooled."""

    totals: Callable[[Answers, Weights], FloatArray]  # (observers, resamples, sums)
    finish: Callable[[FloatArray], FloatArray]  # (..., sums) -> (...)
    count: Callable[[Answers], FloatArray]  # (observers,): number of trials behind the value
    # for cue-conflict images: the answers as choices of shape or texture, given the code of each stimulus' texture
    choices: Callable[[Answers, CodeArray], Answers] | None = None


pair_forms: Registry[PairForm] = Registry("pair-form", listed=False)
solo_forms: Registry[SoloForm] = Registry("solo-form", listed=False)
