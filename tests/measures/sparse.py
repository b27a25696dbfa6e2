"""Simulated people who each see a few of many images, with the error consistency and agreement of two of them known.

A person is right with probability logistic(ease of the image + skill of the person). A wrong answer is the image's
lure with probability `LURED`, else any wrong class.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit, roots_hermitenorm

from cosight.measures import NOT_SHOWN, Answers

__all__ = ["sparse_people", "sparse_truth"]

CLASSES, LURED, MEAN = 8, 0.6, 1.0


def sparse_people(
    rng: np.random.Generator, *, people: int, stimuli: int, each: int, ease: float = 1.0, skill: float = 0.5
) -> Answers:
    """Draw images and people, and the answers of each person to `each` of the images.

    `ease` and `skill` are the standard deviations over images and over people.
    """
    easy, able = rng.normal(MEAN, ease, stimuli), rng.normal(0, skill, people)
    truth, lure = rng.integers(0, CLASSES, stimuli), rng.integers(1, CLASSES, stimuli)
    other = rng.integers(1, CLASSES, (people, stimuli))
    right = rng.random((people, stimuli)) < expit(easy + able[:, None])
    step = np.where(rng.random((people, stimuli)) < LURED, lure, other)
    response = np.where(right, truth, (truth + step) % CLASSES)
    seen = rng.random((people, stimuli)).argsort(axis=1) < each
    return Answers(np.where(seen, response, NOT_SHOWN).astype(np.int16), truth.astype(np.int16), CLASSES)


@cache
def sparse_truth(ease: float = 1.0, skill: float = 0.5) -> tuple[float, float]:
    """Return EC and MA of two people drawn from the population, on infinitely many images."""
    nodes, weights = roots_hermitenorm(60)
    weights = weights / weights.sum()
    right = expit(MEAN + ease * nodes[:, None] + skill * nodes) @ weights  # of an image, over people
    mean = float(weights @ right)
    observed, expected = float(weights @ (right**2 + (1 - right) ** 2)), mean**2 + (1 - mean) ** 2
    others = CLASSES - 1
    lure, other = LURED + (1 - LURED) / others, (1 - LURED) / others
    equal, chance = lure**2 + (others - 1) * other**2, 1 / CLASSES
    return (observed - expected) / (1 - expected), (equal - chance) / (1 - chance)
