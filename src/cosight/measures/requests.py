"""What the answers of vision-language models took, and how many of them are none."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, correctness, finite
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import mean_or_nan
from cosight.measures.declarations import declare

__all__ = ["MeanPerAnswer", "cost_per_answer", "refusal_rate", "tokens_per_answer", "unparsed_rate"]

_CITATION = "cosight, for evaluations such as Li et al. 2025 (LAION-C), A.6"


@dataclass(frozen=True, slots=True, eq=False)
class MeanPerAnswer:
    """A number per answer and their mean."""

    items: FloatArray

    @property
    def value(self) -> float:
        """Mean of the items; nan without items."""
        return mean_or_nan(self.items)


@declare(
    "refusal_rate",
    summary="Share of a vision-language model's answers that are refusals.",
    low=0,
    high=1,
    direction="lower",
    symmetric=None,
    needs=("outcomes",),
    citation=_CITATION,
    share=True,
)
def refusal_rate(refused: ArrayLike) -> MeanPerAnswer:
    """Compute the share of answers that are refusals: by the endpoint's own mark, or by their text.

    Args:
        refused: Whether each answer is a refusal.

    Returns:
        The items and their mean, nan without items.

    >>> refusal_rate([True, False, False, False]).value
    0.25
    """
    return MeanPerAnswer(correctness(refused, name="refused").astype(float))


@declare(
    "unparsed_rate",
    summary="Share of a vision-language model's answers that name no option, or several.",
    low=0,
    high=1,
    direction="lower",
    symmetric=None,
    needs=("outcomes",),
    citation=_CITATION,
    share=True,
)
def unparsed_rate(unparsed: ArrayLike) -> MeanPerAnswer:
    """Compute the share of answers that could not be read as one of the options.

    Args:
        unparsed: Whether each answer could not be read.

    Returns:
        The items and their mean, nan without items.

    >>> unparsed_rate([True, False]).value
    0.5
    """
    return MeanPerAnswer(correctness(unparsed, name="unparsed").astype(float))


@declare(
    "tokens_per_answer",
    summary="Mean number of tokens of a question to a vision-language model and its answer.",
    low=0,
    high=float("inf"),
    direction="lower",
    symmetric=None,
    needs=("amounts",),
    citation=_CITATION,
)
def tokens_per_answer(tokens: ArrayLike) -> MeanPerAnswer:
    """Compute the mean number of tokens, question and answer together, as the endpoint counts them.

    Args:
        tokens: Tokens of each question and its answer.

    Returns:
        The items and their mean, nan without items.

    Raises:
        InvalidInput: A number is negative or not finite.

    >>> tokens_per_answer([300, 310]).value
    305.0
    """
    return MeanPerAnswer(_amounts(tokens, "tokens"))


@declare(
    "cost_per_answer",
    summary="Mean price of a vision-language model's answer, in the currency of its option price.",
    low=0,
    high=float("inf"),
    direction="lower",
    symmetric=None,
    needs=("amounts",),
    citation=_CITATION,
)
def cost_per_answer(cost: ArrayLike) -> MeanPerAnswer:
    """Compute the mean price of an answer.

    Args:
        cost: Price of the tokens of each question and its answer.

    Returns:
        The items and their mean, nan without items.

    Raises:
        InvalidInput: A number is negative or not finite.

    >>> cost_per_answer([0.25, 0.75]).value
    0.5
    """
    return MeanPerAnswer(_amounts(cost, "cost"))


def _amounts(values: ArrayLike, name: str) -> FloatArray:
    amounts = finite(values, name=name, ndim=1)
    if (amounts < 0).any():
        raise InvalidInput(f"{name} must be 0 or more, got {amounts.min():g}")
    return amounts
