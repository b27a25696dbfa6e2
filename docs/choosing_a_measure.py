"""Print the table of docs/explanation/choosing-a-measure.md: `python docs/choosing_a_measure.py`. A test checks it."""

from __future__ import annotations

import numpy as np

from cosight.measures import Answers, pair_estimate, simulated_pairs

MEASURES = ("error_consistency", "misclassification_agreement", "class_level_error_similarity")


def cell(measure: str, answers: Answers) -> str:
    """Return a value with its interval over stimuli."""
    estimate = pair_estimate(measure, answers, resamples=500, rng=np.random.default_rng(0))
    ends = "no interval" if np.isnan(estimate.low) else f"{estimate.low:.2f}, {estimate.high:.2f}"
    return f"{estimate.value:.2f} [{ends}]"


def table() -> list[str]:
    """Return the lines of the table."""
    lines = ["| pair | accuracy | joint errors | EC | MA | CLES |", "|---|---|---|---|---|---|"]
    for name, pair in simulated_pairs().items():
        accuracy = " ".join(f"{share:.2f}" for share in pair.answers.correct.mean(axis=1))
        joint = int(pair.answers.wrong.all(axis=0).sum())
        cells = [name, accuracy, str(joint), *(cell(measure, pair.answers) for measure in MEASURES)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
