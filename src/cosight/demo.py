"""The embedded job: simulated people and models, their trials written to files, read back and compared.

Nobody here is real. Every observer sees a stimulus' difficulty with noise of their own; who finds it too hard answers
wrongly, often with the class this stimulus is easily taken for. Models find other stimuli hard than people do.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from cosight.scoring.compare import Progress, compare
from cosight.scoring.rows import Scores
from cosight.trials import Trials, label_spaces, make, write

__all__ = ["demo", "simulate"]

_PEOPLE, _STIMULI = 6, 480
_MODELS = {"shape": 0.7, "texture": 0.15}  # how much of a model's difficulty is people's


def simulate(*, people: int = _PEOPLE, stimuli: int = _STIMULI, seed: int = 0) -> Trials:
    """Trials of simulated people and two simulated models on 16 classes."""
    rng = np.random.default_rng(seed)
    space = label_spaces["model-vs-human-16"]
    truth = rng.integers(0, len(space.classes), stimuli)
    taken_for = (truth + rng.integers(1, len(space.classes), stimuli)) % len(space.classes)
    hard = rng.normal(size=(2, stimuli))  # for people; for models
    frames = []
    for index in range(people):
        feel = 0.75 * hard[0] + 0.66 * rng.normal(size=stimuli)
        answer = _answer(rng, truth, taken_for, feel > rng.normal(0.7, 0.2), len(space.classes))
        frames.append(_frame(f"simulated:person-{index + 1}", "simulated", answer, truth, space.classes))
    for name, share in _MODELS.items():
        feel = np.sqrt(share) * hard[0] + np.sqrt(1 - share) * hard[1]
        mistaken = (taken_for + (name == "texture")) % len(space.classes)
        answer = _answer(rng, truth, mistaken, feel > 0.4, len(space.classes))
        frames.append(_frame(f"model:simulated-{name}", "model", answer, truth, space.classes))
    return make(pl.concat(frames), space=space, notices=("every observer here is simulated",))


def demo(out: str | Path, *, seed: int = 0, resamples: int = 1000, progress: Progress | None = None) -> Scores:
    """Simulate trials, write them to `out/trials.parquet`, and compare what is read back."""
    trials = simulate(seed=seed)
    path = Path(out) / "trials.parquet"
    write(trials, path)
    scores = compare(path, seed=seed, resamples=resamples, progress=progress)
    return replace(scores, notices=(*trials.notices, *scores.notices))


def _answer(
    rng: np.random.Generator, truth: np.ndarray, taken_for: np.ndarray, wrong: np.ndarray, classes: int
) -> np.ndarray:
    """The truth, or where wrong the class the stimulus is taken for, or any other."""
    other = (truth + rng.integers(1, classes, len(truth))) % classes
    return np.where(wrong, np.where(rng.random(len(truth)) < 0.5, taken_for, other), truth)


def _frame(name: str, kind: str, answer: np.ndarray, truth: np.ndarray, classes: tuple[str, ...]) -> pl.DataFrame:
    n = len(truth)
    return pl.DataFrame(
        {
            "observer": [name] * n,
            "kind": [kind] * n,
            "experiment": ["simulated"] * n,
            "image": [f"{classes[t]}-{i:03d}.png" for i, t in enumerate(truth)],
            "condition": ["0"] * n,
            "truth": [classes[t] for t in truth],
            "response": [classes[a] for a in answer],
            "session": ["1"] * n,
            "trial": list(range(1, n + 1)),
        }
    )
