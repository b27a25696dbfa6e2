"""How alike can anyone be to these people? Split-half crowds.

The leave-one-person-out ceiling of a pairwise measure is the mean over people of each one's mean value with the
others, which is the mean over pairs of people. The split-half ceiling compares the majority answers of two random
halves of the people: crowds are less noisy than persons, so it lies higher.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers, CodeArray
from cosight.measures.sums import Pairs

__all__ = ["half_pairs", "split_half_crowds"]


def split_half_crowds(answers: Answers, *, splits: int = 20, rng: np.random.Generator) -> Answers:
    """Majority answers of two random halves of the observers, `splits` times; rows 2i and 2i + 1 are one split.

    Ties are broken at random. A stimulus that no one of a half met is not shown to that half; one that none of them
    answered has no answer. With an odd number of people, one is left out of each split at random.
    """
    if answers.observers < 4:
        raise InvalidInput(f"two crowds take four people or more, got {answers.observers}")
    half = answers.observers // 2
    rows = []
    for _ in range(splits):
        order = rng.permutation(answers.observers)
        rows += [_majority(answers, order[:half], rng), _majority(answers, order[half : 2 * half], rng)]
    return Answers(np.stack(rows), answers.truth, answers.classes)


def half_pairs(splits: int) -> Pairs:
    """The pairs of rows that `split_half_crowds` makes."""
    return np.arange(2 * splits).reshape(splits, 2)


def _majority(answers: Answers, people: NDArray[np.int64], rng: np.random.Generator) -> CodeArray:
    response = answers.response[people]
    counts = np.stack([(response == code).sum(axis=0) for code in range(answers.classes)])  # (classes, stimuli)
    jittered = counts + rng.random(counts.shape) * 0.5  # breaks ties, never changes an order
    winner = np.where(counts.sum(axis=0) > 0, jittered.argmax(axis=0), NO_ANSWER)
    seen = (response != NOT_SHOWN).any(axis=0)
    return np.where(seen, winner, NOT_SHOWN).astype(np.int16)
