"""Measured coverage of 95 % intervals of correlations, for docs/explanation/error-alignment-results.md.

`python perf/correlation_coverage.py [--studies N]` simulates studies of new observers and new images. It prints how
often intervals over observers (as `compare` computes them) and over images contain the mean r of all studies, for r of
EC and MA, EC and CLES, MA and CLES.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cosight.arrays import FloatArray
from cosight.measures import pair_forms, rank_correlation, rank_correlation_resampled
from cosight.measures.answers import Answers
from cosight.measures.correlation import rank_correlation_weighted
from cosight.measures.draws import draw_people, draw_stimuli
from cosight.measures.uncertainty import percentile_interval

__all__ = ["SIZES", "coverage", "study"]

SIZES = ((10, 200, 200), (25, 200, 120), (25, 1000, 80))  # observers, images, studies
_MEASURES = ("error_consistency", "misclassification_agreement", "class_level_error_similarity")
_TRAITS, _CLASSES, _RESAMPLES = 4, 8, 300
_CONFUSIONS = np.random.default_rng(99).normal(size=(_TRAITS, _CLASSES))  # that observers have in common


def study(observers: int, images: int, rng: np.random.Generator) -> Answers:
    """Observers who differ in skill, in which traits of an image they need, and in what they confuse it with."""
    needs = rng.normal(size=(observers, _TRAITS)) * 0.6 + np.array([1.0, 0.5, 0.0, 0.0])
    confusions = rng.normal(size=(observers, _TRAITS, _CLASSES)) * 0.5 + _CONFUSIONS
    skill = rng.normal(0.3, 0.5, observers)
    traits, truth = rng.normal(size=(images, _TRAITS)), rng.integers(0, _CLASSES, images)
    margin = needs @ traits.T + skill[:, None] + 0.5 * rng.normal(size=(observers, images))
    scores = np.einsum("mkc,nk->mnc", confusions, traits) + 0.5 * rng.gumbel(size=(observers, images, _CLASSES))
    scores[:, np.arange(images), truth] = -99
    response = np.where(margin > 0, truth, scores.argmax(axis=2))
    return Answers(response.astype(np.int16), truth.astype(np.int16), _CLASSES)


def coverage(observers: int, images: int, studies: int) -> FloatArray:
    """Return the coverage (observers or images drawn, correlations) of the mean r of all studies."""
    pairs = np.stack(np.triu_indices(observers, 1), axis=1)
    values, lows, highs = [], [], []
    for number in range(studies):
        rng = np.random.default_rng([1, number])
        answers = study(observers, images, rng)
        once = np.ones((1, images), np.float32)
        drawn_images = draw_stimuli(np.ones(images, np.int64), _RESAMPLES, rng)
        drawn = draw_people(observers, _RESAMPLES, rng)
        weights = drawn[:, pairs[:, 0]] * drawn[:, pairs[:, 1]]
        each = {name: pair_forms[name].resampled(answers, once, pairs)[:, 0] for name in _MEASURES}
        again = {name: pair_forms[name].resampled(answers, drawn_images, pairs).T for name in _MEASURES}
        r, resampled = [], []
        for x, y in combinations(_MEASURES, 2):
            r.append(rank_correlation(each[x], each[y]).value)
            resampled.append(
                [rank_correlation_weighted(each[x], each[y], weights), rank_correlation_resampled(again[x], again[y])]
            )
        samples = np.swapaxes(np.array(resampled), 0, 1)  # (observers or images, correlations, resamples)
        intervals = [percentile_interval(of, np.array(r), n=np.full(len(r), float(observers))) for of in samples]
        values.append(r)
        lows.append([interval.low for interval in intervals])
        highs.append([interval.high for interval in intervals])
    mean = np.mean(values, axis=0)
    return np.asarray(((np.array(lows) <= mean) & (mean <= np.array(highs))).mean(axis=0))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, help="studies per size (default: as in the docs)")
    options = parser.parse_args()
    for observers, images, studies in SIZES:
        count = options.studies or studies
        found = coverage(observers, images, count)
        texts = [" ".join(f"{value:.2f}" for value in row) for row in found]
        print(
            f"{observers} observers, {images:,} images, {count} studies: over observers {texts[0]}, images {texts[1]}"
        )


if __name__ == "__main__":
    main()
