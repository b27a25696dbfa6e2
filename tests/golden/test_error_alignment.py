"""The released numbers of Xu et al. 2024 (AAAI-25), from their released answers.

The answers are in the public repository xubinxia/error_align (data/predictions). COSIGHT_ERROR_ALIGN names a checkout.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import cosight
from cosight.trials import LabelSpace, make_trials

MODEL_VS_HUMAN = (
    "colour", "contrast", "eidolonI", "eidolonII", "eidolonIII", "false-colour", "high-pass", "low-pass",
    "phase-scrambling", "power-equalisation", "rotation", "sketch", "stylized", "uniform-noise",
)  # fmt: skip
CLASSES = {"image_net_a": 200, "mpii_cooking": 87, "epic_kitchen": 97}  # 16 elsewhere
# Rounding in the released matrices breaks ties of MA that are exact: the released r are .0001 higher here
TIED = ("colour", "false-colour")
EC, MA, CLES = "error_consistency", "misclassification_agreement", "class_level_error_similarity_pooled"


@pytest.fixture(scope="module")
def released():
    folder = os.environ.get("COSIGHT_ERROR_ALIGN")
    if folder is None:
        pytest.skip("the released answers are not in the mirror; name a checkout of them in COSIGHT_ERROR_ALIGN")
    return Path(folder) / "data"


def domain_folder(domain):
    return domain if domain in CLASSES else f"model_vs_human/{domain}"


def read_domain(released, domain):
    """Return the released answers of a domain as trials; s1, s2 ... are people, whose missing answers were drawn."""
    files = sorted((released / "predictions" / domain_folder(domain)).glob("*.npy"))
    answers = {file.stem: np.load(file).reshape(-1) for file in files}
    truth = answers.pop("true_cls")
    space = LabelSpace(domain, tuple(f"class-{code:03d}" for code in range(CLASSES.get(domain, 16))))
    frames = []
    for name, codes in answers.items():
        kind = "human" if name[0] == "s" and name[1:].isdigit() else "model"
        columns = {
            "image": [f"{i}.png" for i in range(len(truth))],
            "truth": [space.classes[code] for code in truth],
            "response": [space.classes[code] for code in codes],
        }
        facts = {"observer": f"{kind}:{name}", "kind": kind, "experiment": domain}
        frames.append(pl.DataFrame(columns).with_columns(**{key: pl.lit(value) for key, value in facts.items()}))
    return make_trials(pl.concat(frames), space=space)


def correlations(scores):
    found = {(row.observer, row.against): row.value for row in scores.rows if row.measure == "rank_correlation"}
    return [found[EC, MA], found[EC, CLES], found[MA, CLES]]


@pytest.mark.parametrize("domain", [*MODEL_VS_HUMAN, *CLASSES])
def test_released_correlations_between_measures(released, domain):
    with (released / "correlations" / domain_folder(domain) / "spearman_r.csv").open() as file:
        table = list(csv.reader(file))
    expected = [float(table[row][column]) for row, column in ((1, 2), (1, 3), (2, 3))]
    found = correlations(
        cosight.compare(read_domain(released, domain), preset="error-alignment-paper", correlate=True, resamples=1)
    )
    assert found == pytest.approx(expected, abs=1.5e-4 if domain in TIED else 5.1e-5)
