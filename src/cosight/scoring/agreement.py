"""How well do people agree among themselves? Fleiss, Krippendorff and Cronbach on the answers of a cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures.agreement import (
    fleiss_kappa,
    fleiss_kappa_resampled,
    krippendorff_alpha,
    krippendorff_alpha_resampled,
)
from cosight.measures.answers import Answers
from cosight.measures.sums import Weights
from cosight.measures.survey import cronbach_alpha, cronbach_alpha_resampled
from cosight.scoring.blocks import Block, Key
from cosight.scoring.crowd import ENOUGH_PEOPLE, Draw
from cosight.scoring.groups import Group

__all__ = ["AGREEMENT", "agreement_blocks"]

AGREEMENT = ("fleiss_kappa", "krippendorff_alpha", "intra_annotator_kappa", "cronbach_alpha")


def agreement_blocks(drawn: Draw, people: Group, names: Sequence[str], stimuli: NDArray[np.object_]) -> list[Block]:
    """Agreement of a group of people; `stimuli` names the stimulus of each column.

    Intervals are over stimuli, the people staying the same; Cronbach's alpha is about people, so they are drawn.
    """
    answers = drawn.answers.of(people.members)
    makers = {
        "fleiss_kappa": lambda: _fleiss(answers, drawn),
        "krippendorff_alpha": lambda: _krippendorff(answers, drawn),
        "intra_annotator_kappa": lambda: _intra(answers, drawn, stimuli),
        "cronbach_alpha": lambda: _cronbach(answers, drawn.times[:, people.members]),
    }
    blocks = []
    for name in names:
        value, samples, n, note = makers[name]()
        key, note = Key(people.name, None, name), note.replace(" people", f" {people.name}", 1)
        blocks.append(Block(drawn.cell.group, (key,), np.array([value]), samples[None], np.array([float(n)]), (note,)))
    return blocks


_Found = tuple[float, FloatArray, int, str]


def _counts(answers: Answers) -> NDArray[np.int64]:
    """How many people gave each answer to each column, (columns, classes)."""
    return np.stack([(answers.response == code).sum(axis=0) for code in range(answers.classes)], axis=1)


def _fleiss(answers: Answers, drawn: Draw) -> _Found:
    counts = _counts(answers)
    found = fleiss_kappa(counts)
    left = f", {found.left_out} with fewer than two answers left out" if found.left_out else ""
    note = f"{answers.observers} people; interval over stimuli{left}"
    return found.value, drawn.sample([lambda _, w: fleiss_kappa_resampled(counts, w)])[0], found.n, note


def _krippendorff(answers: Answers, drawn: Draw) -> _Found:
    ratings = np.where(answers.response >= 0, answers.response.astype(np.float64), np.nan)
    found = krippendorff_alpha(ratings)
    note = f"nominal, {answers.observers} people; interval over stimuli"
    return found.value, drawn.sample([lambda _, w: krippendorff_alpha_resampled(ratings, w)])[0], found.n, note


def _intra(answers: Answers, drawn: Draw, stimuli: NDArray[np.object_]) -> _Found:
    """Each person's repeated answers to a stimulus are one item; a stimulus is drawn with all of them."""
    names, first, member = np.unique(stimuli, return_index=True, return_inverse=True)
    said = np.stack([answers.response == code for code in range(answers.classes)], axis=2)  # (people, columns, classes)
    counts = np.zeros((len(names), answers.observers, answers.classes), dtype=np.int64)
    np.add.at(counts, member, np.swapaxes(said, 0, 1))
    items = counts.reshape(-1, answers.classes)
    repeated = items.sum(axis=1) >= 2
    if not repeated.any():
        return float("nan"), np.full(len(drawn.times), np.nan), 0, "undefined: nobody answered a stimulus twice"
    found = fleiss_kappa(items[repeated])

    def resampled(_: Answers, weights: Weights) -> FloatArray:
        times = np.repeat(weights[:, first], answers.observers, axis=1)
        return fleiss_kappa_resampled(items[repeated], times[:, repeated])

    note = f"{answers.observers} people; interval over stimuli"
    return found.value, drawn.sample([resampled])[0], found.n, note


def _cronbach(answers: Answers, times: FloatArray) -> _Found:
    nothing = np.full(len(times), np.nan)
    if not answers.shown.all():
        return float("nan"), nothing, 0, "undefined: alpha needs everybody's answer to every stimulus"
    scores = answers.correct.astype(np.float64)
    found = cronbach_alpha(scores)
    enough = answers.observers >= ENOUGH_PEOPLE
    samples = cronbach_alpha_resampled(scores, times) if enough else nothing
    note = f"right and wrong of {answers.observers} people; interval over people"
    return found.value, samples, answers.stimuli, note
