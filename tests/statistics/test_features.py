"""Features of runs as input of pair measures: joined by stimulus, on common stimuli, null with a reason otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

import cosight
from cosight.errors import InvalidInput
from cosight.measures import linear_cka, linear_cka_influence
from cosight.statistics.features import Features, feature_form
from cosight.trials import align, read
from cosight.trials.run_arrays import arrays_file
from tests.scoring.made import LETTERS, row_of
from tests.scoring.made_runs import answers, write_run

STIMULI = 24


def manifest(count=STIMULI, first=0):
    return [
        {
            "stimulus": f"{number:064d}", "file": f"images/{number}.png", "image": f"{number}.png",
            "experiment": "made", "truth": LETTERS.classes[number % 3], "original": LETTERS.classes[number % 3],
        }
        for number in range(first, first + count)
    ]  # fmt: skip


def said(rows, name, seed, probabilities=True):
    rng = np.random.default_rng(seed)

    def answer(row):
        weight = 1.0 + 2.0 * np.array([one == row["truth"] for one in LETTERS.classes])
        return rng.dirichlet(weight).astype(np.float32).tolist(), None

    given = answers(rows, name, answer, LETTERS)
    return given if probabilities else [{**trial, "probabilities": None} for trial in given]


def store(run, name, features):
    path = arrays_file(run, name)
    path.parent.mkdir(exist_ok=True)
    save_file({"logits": np.zeros((len(features), 3), np.float32), "features": features.astype(np.float32)}, path)


def vectors(seed, count=STIMULI, width=5):
    shared = np.random.default_rng(0).normal(size=(count, 3))
    rng = np.random.default_rng(seed)
    return shared @ rng.normal(size=(3, width)) + rng.normal(size=(count, width))


@pytest.fixture
def run(tmp_path):
    """Three models: two with features of different widths, one whose file has logits only."""
    rows = manifest()
    given = [trial for seed, name in enumerate("abc") for trial in said(rows, f"model:{name}", seed)]
    folder = write_run(tmp_path / "run", rows, given, LETTERS)
    store(folder, "model:a", vectors(1))
    store(folder, "model:b", vectors(2, width=40))
    path = arrays_file(folder, "model:c")
    save_file({"logits": np.zeros((STIMULI, 3), np.float32)}, path)
    return folder


def test_compare_reads_the_features_of_a_run(run):
    found = cosight.compare(run, measure="cka,cka_plain,soc", resamples=50)
    a, b = vectors(1).astype(np.float32), vectors(2, width=40).astype(np.float32)
    unbiased, plain = (row_of(found, "model:a", "model:b", name) for name in ("linear_cka", "linear_cka_plain"))
    assert unbiased.value == pytest.approx(linear_cka(a, b).value, abs=1e-6)
    assert plain.value == pytest.approx(linear_cka(a, b, unbiased=False).value, abs=1e-6)
    assert unbiased.n == STIMULI
    assert unbiased.low < unbiased.value < unbiased.high
    without = row_of(found, "model:a", "model:c", "linear_cka")
    assert (without.value, without.flags) == (None, ("undefined",))
    assert without.note == "undefined: model:c: the model outputs logits only"
    assert [note for note in found.notices if "features" in note] == [
        "1 of 3 models have no features (model:c): CKA of their pairs is undefined"
    ]
    assert row_of(found, "model:a", "model:c", "softmax_output_consistency").value is not None


def test_people_and_models_without_stored_features_have_a_reason(run):
    people = [
        {**trial, "kind": "human", "probabilities": None}
        for trial in said(manifest(), "human:p", 9, probabilities=False)
    ]
    found = cosight.compare(run, read(cosight.trials.make_trials(_frame(people), space=LETTERS)), measure="cka")
    assert row_of(found, "model:a", "human:p", "linear_cka").note == "undefined: human:p: people have no features"
    arrays_file(run, "model:a").unlink()
    found = cosight.compare(run, measure="cka", resamples=5)
    note = row_of(found, "model:a", "model:b", "linear_cka").note
    assert note.startswith("undefined: model:a: no stored features (evaluate --features stores")
    assert row_of(found, "models", "models", "linear_cka").note == "each of 3 pairs undefined"


def _frame(rows):
    import polars as pl

    return pl.DataFrame(rows).drop("probabilities", "abstention")


def test_rows_of_features_are_found_by_stimulus_not_by_position(run, tmp_path):
    """A second run shows the same stimuli in another order, and some others."""
    rows = [*manifest(6, first=STIMULI), *manifest()[::-1]]
    other = write_run(tmp_path / "other", rows, said(rows, "model:d", 5), LETTERS)
    given = vectors(7, count=len(rows))
    store(other, "model:d", given)
    found = cosight.compare(run, other, measure="cka", resamples=5)
    expected = linear_cka(vectors(1).astype(np.float32), given[6:][::-1].astype(np.float32)).value
    row = row_of(found, "model:a", "model:d", "linear_cka")
    assert (row.value, row.n) == (pytest.approx(expected, abs=1e-6), STIMULI)


def test_two_models_are_compared_on_the_stimuli_of_which_both_have_features(run):
    features = vectors(2, width=40)
    features[:4] = np.nan  # images that could not be shown
    store(run, "model:b", features)
    found = cosight.compare(run, measure="cka", resamples=5)
    row = row_of(found, "model:a", "model:b", "linear_cka")
    expected = linear_cka(vectors(1)[4:].astype(np.float32), features[4:].astype(np.float32)).value
    assert (row.value, row.n) == (pytest.approx(expected, abs=1e-6), STIMULI - 4)


def test_resamples_follow_the_influence_of_each_stimulus(run):
    table = align(read(run))
    form = feature_form("linear_cka", Features.of(table, [run]), np.arange(3), np.arange(STIMULI))
    a, b = vectors(1).astype(np.float32), vectors(2, width=40).astype(np.float32)
    weights = np.random.default_rng(0).multinomial(STIMULI, [1 / STIMULI] * STIMULI, size=20).astype(np.float32)
    found = form.resampled(table.answers, weights, np.array([[0, 1], [1, 0], [0, 2]]))
    expected = linear_cka(a, b).value + weights @ linear_cka_influence([a, b], [[0, 1]])[0] / STIMULI
    assert found[0] == pytest.approx(expected, abs=1e-5)
    assert (found[0] == found[1]).all()
    assert np.isnan(found[2]).all()
    once = form.resampled(table.answers, np.ones((1, STIMULI), np.float32), np.array([[0, 1]]))
    assert once[0, 0] == pytest.approx(linear_cka(a, b).value, abs=1e-6)


def test_features_that_do_not_fit_are_refused(run, tmp_path):
    store(run, "model:a", vectors(1)[:10])
    with pytest.raises(InvalidInput, match=r"has features of 10 stimuli, its run has more"):
        cosight.compare(run, measure="cka", resamples=5)
    store(run, "model:a", vectors(1))
    rows = manifest(6, first=STIMULI)
    other = write_run(tmp_path / "other", rows, said(rows, "model:a", 5), LETTERS)
    store(other, "model:a", vectors(7, count=6, width=9))
    with pytest.raises(InvalidInput, match=r"features of model:a have 5 numbers in one run and 9 in .*one by one"):
        cosight.compare(run, other, measure="cka", resamples=5)
    arrays_file(run, "model:a").write_bytes(b"no tensors")
    with pytest.raises(InvalidInput, match=r"cannot read .*model-a.safetensors: .*; remove it and run the model again"):
        cosight.compare(run, measure="cka", resamples=5)


def test_a_notice_says_what_models_on_different_stimuli_have_in_common(tmp_path):
    one = write_run(tmp_path / "one", manifest(12), said(manifest(12), "model:a", 1), LETTERS)
    two = write_run(tmp_path / "two", manifest(12, first=12), said(manifest(12, first=12), "model:b", 2), LETTERS)
    with pytest.raises(InvalidInput, match="observers must share stimuli to be compared"):
        cosight.score(one, two, on="error-alignment", measure="ec,soc", resamples=5)
    both = manifest(8, first=8)
    half = write_run(tmp_path / "half", both, said(both, "model:c", 3), LETTERS)
    found = cosight.score(one, half, on="error-alignment", resamples=5)
    assert row_of(found, "model:a", "model:c", "error_consistency", "experiment=made").n == 4
    assert "4 of 16 stimuli were answered by all 2 models (the fewest: model:c 8, model:a 12)" in found.notices
