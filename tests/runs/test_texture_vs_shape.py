"""Eight real classifiers on the images of Geirhos et al. 2019, held against the people who saw the same images."""

import numpy as np
import polars as pl
import pytest

from cosight.models import load_model
from cosight.runs.evaluate import evaluate
from cosight.scoring.compare import compare
from cosight.scoring.score import score
from cosight.stimuli.sets import read_set

# Shape bias on the 1,200 conflicting images, as the files' own README has it; here 300 of them are at hand.
SHAPE_BIAS = {
    "efficientnet_lite0": 0.220,
    "mobilenet_v2_100_224": 0.213,
    "mobilenet_v1_050_160": 0.269,
    "mobilenet_v1_025_128": 0.424,
    "squeezenet_1_1": 0.324,
    "squeezenet_1_0_compressed": 0.248,
    "tiny_darknet": 0.158,
}
COMMON = {"cue-conflict": 320, "edge": 160, "silhouette": 160}
WHOLE = ("efficientnet_lite0", "mobilenet_v1_050_160", "mobilenet_v1_025_128")  # shown all; the slow ones cue-conflict
SHOWN = [(name, experiment) for name in SHAPE_BIAS for experiment in COMMON if name in WHOLE or "cue" in experiment]


def timm_line(mirror):
    weights = mirror / "weights" / "imagenet-timm" / "tf_efficientnet_lite0.safetensors"
    return f"timm:tf_efficientnet_lite0,checkpoint={weights},mean={127 / 255},std={128 / 255}"


@pytest.fixture(scope="module")
def runs(mirror, tmp_path_factory):
    weights, images = mirror / "weights" / "imagenet-onnx", mirror / "texture-vs-shape"
    out = tmp_path_factory.mktemp("runs")
    slow = [name for name in SHAPE_BIAS if name not in WHOLE]
    return [
        evaluate(*(f"onnx:{weights / name}.onnx" for name in names), on=on, out=out / on.name, threads=1)
        for names, on in ((WHOLE, images), (slow, images / "cue-conflict"))
    ]


@pytest.fixture(scope="module")
def trials(runs):
    return pl.concat([run.trials().frame for run in runs])


@pytest.fixture(scope="module")
def torch_run(mirror, tmp_path_factory):
    """The eighth has the first one's weights; as torch takes four times as long as ONNX, on every fourth image."""
    out = tmp_path_factory.mktemp("runs") / "torch"
    return evaluate(timm_line(mirror), on=mirror / "texture-vs-shape", out=out, threads=1, limit=160)


@pytest.fixture(scope="module")
def rows(runs, mirror):
    people = [mirror / "model-vs-human" / name for name in COMMON]
    scores = compare(*(run.folder for run in runs), *people, measure=["ec"], by=["experiment"], resamples=200)
    return [row for row in scores.rows if row.measure == "error_consistency"]


@pytest.mark.parametrize("name", SHAPE_BIAS)
def test_every_model_answers_every_image(trials, name):
    mine = trials.filter(pl.col("observer") == f"onnx:{name}.onnx")
    assert sorted(mine.group_by("experiment").len()["len"]) == ([160, 160, 320] if name in WHOLE else [320])


@pytest.mark.parametrize(("name", "experiment"), SHOWN)
def test_people_and_models_meet_on_the_same_images(rows, name, experiment):
    met = [r for r in rows if r.observer == f"onnx:{name}.onnx" and (r.against or "").startswith("human:")]
    here = [row for row in met if row.group == f"experiment={experiment}"]
    assert len(here) == 10
    assert {row.n for row in here} == {COMMON[experiment]}


def test_human_model_consistency_has_intervals_and_is_below_peoples_own(rows):
    """Human-human .331 on all 1,280 cue-conflict images is the published figure (Geirhos et al. 2020)."""
    [people] = [r for r in rows if (r.observer, r.against, r.group) == ("people", "people", "experiment=cue-conflict")]
    assert people.value == pytest.approx(0.3311, abs=0.0002)
    met = [row for row in rows if row.observer.startswith("onnx:") and row.against == "people"]
    assert len(met) == len(SHOWN) + 7  # and each model's mean over experiments
    assert all(row.low < row.value < row.high for row in met)
    cue = [row for row in met if row.group.endswith("conflict")]
    assert len(cue) == 7
    assert all(row.high < people.value for row in cue)


@pytest.fixture(scope="module")
def biases(runs):
    scores = score(*(run.folder for run in runs), measure=["shape_bias"], resamples=200)
    return {row.observer: row for row in scores.rows}


@pytest.mark.parametrize(("name", "known"), SHAPE_BIAS.items())
def test_shape_bias_is_the_known_one_within_sampling_error(biases, name, known):
    row = biases[f"onnx:{name}.onnx"]
    # of a sample of a quarter of the images: the rest varies by sqrt(1 - 1/4) of what a new sample would
    error = np.sqrt(known * (1 - known) / row.n * (1 - row.n / 1200))
    assert row.low < row.value < row.high
    assert abs(row.value - known) < 2.5 * error


def test_torch_and_onnx_agree_on_the_same_weights(trials, torch_run, mirror):
    """Probabilities over all 1,000 classes on 24 images, and over the 16 of the runs on 160 of them, to 1e-4."""
    onnx = load_model(f"onnx:{mirror / 'weights' / 'imagenet-onnx' / 'efficientnet_lite0.onnx'}")
    torch = load_model(timm_line(mirror))
    stimuli = read_set(mirror / "texture-vs-shape")
    photos = [stimuli.pixels(file) for file in stimuli.frame["file"][::27]]
    both = [model.answer(np.stack([model.prepare(p) for p in photos])).probabilities for model in (onnx, torch)]
    assert np.abs(both[0] - both[1]).max() < 1e-4
    answers = trials.filter(pl.col("observer") == "onnx:efficientnet_lite0.onnx")
    pairs = torch_run.trials().frame.join(answers, on=["stimulus", "experiment"], validate="1:1")
    assert (len(pairs), pairs["experiment"].n_unique()) == (160, 3)
    mine = [np.array(pairs[name].to_list()) for name in ("probabilities", "probabilities_right")]
    assert np.abs(mine[0] - mine[1]).max() < 1e-4
    assert pairs["truth"].equals(pairs["truth_right"])
