"""Bias and coverage of pooled agreement, for docs/explanation/uncertainty.md: `python perf/pooled_pairs.py [N]`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cosight.measures import (
    error_consistency_matrix,
    pooled_error_consistency,
    pooled_misclassification_agreement,
)
from tests.measures.sparse import sparse_people, sparse_truth

DESIGNS = ((100, 2000), (400, 2000), (60, 500), (20, 200))  # people, images; each person sees 35
SPREADS = ((1.0, 0.5), (1.5, 1.0))  # of images and of people
MATRIX_UP_TO = 100  # people, of whom every pair is computed


def main() -> None:
    """Print one line per design, spread and measure."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("| people, images | trials per pair | measure | true | mean over pairs | pooled | sd | mean se | coverage |")
    print("|---|---|---|---|---|---|---|---|---|")
    for ease, skill in SPREADS:
        for people, stimuli in DESIGNS:
            found: dict[str, list[tuple[float, float, bool]]] = {"EC": [], "MA": []}
            pairwise = []
            for number in range(studies):
                rng = np.random.default_rng([number, people, stimuli])
                answers = sparse_people(rng, people=people, stimuli=stimuli, each=35, ease=ease, skill=skill)
                measures = (pooled_error_consistency, pooled_misclassification_agreement)
                for name, pooled, truth in zip(found, measures, sparse_truth(ease, skill), strict=True):
                    estimate = pooled(answers)
                    low, high = estimate.interval()
                    found[name].append((estimate.value, estimate.standard_error, low <= truth <= high))
                if people <= MATRIX_UP_TO:
                    matrix = error_consistency_matrix(answers.correct, answers.shown)
                    pairwise.append(np.nanmean(matrix[np.triu_indices(people, 1)]))
            for (name, rows), truth in zip(found.items(), sparse_truth(ease, skill), strict=True):
                value, error, covered = np.array(rows, dtype=float).T
                mean = f"{np.mean(pairwise):.3f}" if pairwise and name == "EC" else ""
                numbers = (value.mean(), value.std(ddof=1), error.mean(), covered.mean())
                cells = (f"{people}, {stimuli}", f"{35 * 35 / stimuli:.2g}", name, f"{truth:.3f}", mean)
                cells += tuple(f"{number:.3f}" for number in numbers)
                print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
