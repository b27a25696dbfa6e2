"""Print the tables of docs/explanation/laion-c-results.md that are about levels and about the order of models.

    python tools/laion_c_levels.py RUN [ACCURACIES.csv]

RUN is a run on LAION-C with the same stimuli for every model. The optional table has the columns observer and accuracy:
accuracy on ImageNet, for Kendall's tau. Intervals (95 %) are percentiles of 2,000 bootstrap resamples over photos.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import kendalltau

from cosight.benchmarks.laion_c.published import DISTORTIONS
from cosight.trials import read
from cosight.trials.manifest import read_manifest

RESAMPLES, LEVELS = 2000, range(1, 6)


def main(run: str, accuracies: str | None = None) -> None:
    """Read a run and print its tables."""
    models, right = correct_answers(run)
    photos = right.shape[-1]
    draws = np.random.default_rng(0).multinomial(photos, np.full(photos, 1 / photos), RESAMPLES)
    means = 100 * right.mean(axis=-1)  # (models, distortions, levels)
    resampled = 100 * (right @ draws.T) / photos
    print(f"{len(models)} models, {photos} photos; means over models by level, and the fall from 1 to 5")
    for d, name in enumerate(DISTORTIONS):
        over_models = resampled[:, d].mean(axis=0)
        cells = [text(means[:, d, k].mean(), over_models[k]) for k in range(5)]
        print(
            name,
            *cells,
            text(means[:, d, 0].mean() - means[:, d, 4].mean(), over_models[0] - over_models[4]),
            sep=" | ",
        )
    print("steps at which the mean over models rises")
    for d, name in enumerate(DISTORTIONS):
        for k in range(4):
            step = means[:, d, k + 1].mean() - means[:, d, k].mean()
            if step > 0:
                of_resamples = (resampled[:, d, k + 1] - resampled[:, d, k]).mean(axis=0)
                print(f"  {name} {k + 1} to {k + 2}: {text(step, of_resamples)}")
    print("steps at which a single model rises, with an interval above 0")
    for m, model in enumerate(models):
        for d, name in enumerate(DISTORTIONS):
            for k in range(4):
                of_resamples = resampled[m, d, k + 1] - resampled[m, d, k]
                if np.percentile(of_resamples, 2.5) > 0:
                    step = means[m, d, k + 1] - means[m, d, k]
                    print(
                        f"  {model} {name} {k + 1} to {k + 2}: {text(step, of_resamples)}, at {means[m, d, k + 1]:.1f}"
                    )
    print("levels at which a model is within its interval of chance (6.25 %)")
    for m, model in enumerate(models):
        at_chance = [
            f"{name} {','.join(str(k + 1) for k in range(5) if np.percentile(resampled[m, d, k], 2.5) <= 6.25)}"
            for d, name in enumerate(DISTORTIONS)
        ]
        print(f"  {model}: {'; '.join(at_chance)}")
    if accuracies is not None:
        known = dict(pl.read_csv(accuracies).select("observer", "accuracy").iter_rows())
        on_imagenet = np.array([known[model] for model in models])
        print("Kendall's tau with accuracy on ImageNet")
        for name, index in (("LAION-C", slice(None)), *((name, [d]) for d, name in enumerate(DISTORTIONS))):
            values, drawn = means[:, index].mean(axis=(1, 2)), resampled[:, index].mean(axis=(1, 2))
            taus = [kendalltau(on_imagenet, column).statistic for column in drawn.T]
            tau = kendalltau(on_imagenet, values)
            low, high = np.nanpercentile(taus, [2.5, 97.5])
            print(f"  {name}: {tau.statistic:.2f} [{low:.2f}, {high:.2f}], p = {tau.pvalue:.2f}")


def correct_answers(run: str) -> tuple[list[str], np.ndarray]:
    """Return the models, and whether each answer is right: (models, distortions, levels, photos)."""
    manifest, _ = read_manifest(Path(run))
    trials = read(run).frame.join(manifest.select("stimulus", "parent").unique("stimulus"), on="stimulus", how="left")
    models, photos = (sorted(trials[name].unique()) for name in ("observer", "parent"))
    right = np.full((len(models), len(DISTORTIONS), len(LEVELS), len(photos)), np.nan)
    shown = trials.filter(pl.col("condition").is_in(DISTORTIONS))
    index = [
        shown[column].replace_strict({value: i for i, value in enumerate(values)}, return_dtype=pl.Int64).to_numpy()
        for column, values in (("observer", models), ("condition", DISTORTIONS), ("level", LEVELS), ("parent", photos))
    ]
    right[tuple(index)] = (shown["response"] == shown["truth"]).to_numpy()
    if np.isnan(right).any():
        raise SystemExit("every model must have answered every distortion and level of every photo")
    return models, right


def text(value: float, resampled: np.ndarray) -> str:
    """Return a value with its interval."""
    low, high = np.percentile(resampled, [2.5, 97.5])
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    main(*sys.argv[1:])
