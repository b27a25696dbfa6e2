"""Error alignment: one command for all levels, families, published means, and what trials cannot have."""

from __future__ import annotations

import pytest

import cosight
from cosight.benchmarks import benchmarks
from cosight.benchmarks.error_alignment.families import families_of, read_families
from cosight.errors import InvalidInput, UnknownName
from cosight.trials.table import PEOPLE
from tests.scoring.made import answered, observers, row_of, trials

EC, MA, CLES = "error_consistency", "misclassification_agreement", "class_level_error_similarity"
SAMPLES = ("sample:cue-conflict", "sample:edges", "sample:silhouettes")


@pytest.fixture(scope="module")
def scores():
    return cosight.score(*SAMPLES, on="error-alignment", resamples=20, progress=False)


# mean EC over pairs, recomputed from the trials of Geirhos, Meding, Wichmann 2020
@pytest.mark.parametrize(
    ("experiment", "people", "both", "models"),
    [
        ("cue-conflict", 0.33105, 0.06606, 0.54749),
        ("edge", 0.31844, 0.04943, 0.39277),
        ("silhouette", 0.47571, 0.30477, 0.56235),
    ],
)
def test_mean_error_consistency_of_the_samples(scores, experiment, people, both, models):
    group = f"experiment={experiment}"
    assert row_of(scores, "people", "people", EC, group).value == pytest.approx(people, abs=5e-6)
    assert row_of(scores, "models", "people", EC, group).value == pytest.approx(both, abs=5e-6)
    assert row_of(scores, "models", "models", EC, group).value == pytest.approx(models, abs=5e-6)


def test_every_pair_has_every_measure_that_the_trials_allow(scores):
    single = [r for r in scores.rows if r.statistic == "value" and r.against and ":" in r.observer and ":" in r.against]
    inside = [r for r in single if dict(r.group).get("experiment") == "edge"]
    assert {(r.measure) for r in inside} == {EC, MA, CLES}
    assert len(inside) == 3 * 35 * 34 // 2
    left_out = [notice for notice in scores.notices if notice.endswith("left out")]
    assert left_out == [
        "no observer gave probabilities: softmax_output_consistency, softmax_output_consistency_on_errors left out",
        "no model has stored features (evaluate --features): linear_cka, linear_cka_plain left out",
    ]
    assert scores.settings["on"] == "error-alignment"
    assert scores.settings["command"] == "score"


def test_there_are_correlations_in_each_domain_on_average_and_pooled(scores):
    groups = [r.group for r in scores.rows if (r.measure, r.observer, r.against) == ("rank_correlation", EC, MA)]
    names = ["cue-conflict", "edge", "silhouette"]
    assert groups == [*[(("experiment", name),) for name in names], (), (("experiment", "*"),)]
    row = row_of(scores, EC, CLES, "rank_correlation", "experiment=edge")
    assert row.low < row.value < row.high
    assert (row.n, row.clusters) == (595, 35)  # pairs, and the observers that are drawn


def test_z_scores_name_the_families(scores):
    of_pair = {(r.observer, r.against): r for r in scores.rows if (r.measure, r.statistic) == (EC, "z")}
    mixed = next(r for pair, r in of_pair.items() if pair[0] == "model:vgg19" and pair[1].startswith("human:"))
    assert mixed.group[1:] == (("family", "CNN"), ("other_family", "person"))
    assert mixed.low is None  # z describes these pairs


def test_by_conditions_pooled_and_by_kind_of_pair():
    data = trials(answered(observers(people=4, models=4), skill=0.4))
    by_condition = cosight.score(data, on="error-alignment", by="condition", pairs="model-model", resamples=5)
    found = {r.group for r in by_condition.rows if r.measure == "rank_correlation"}
    assert {(("condition", name),) for name in "xyz"} <= found
    assert not [r for r in by_condition.rows if r.against and "human" in r.against]
    pooled = cosight.score(data, on="error-alignment", by="none", resamples=5)
    assert {r.group for r in pooled.rows if r.measure == EC and r.statistic == "value"} == {()}


def test_measures_that_are_asked_for_are_null_with_a_reason():
    data = trials(answered(observers(people=2, models=2)))
    found = cosight.score(data, on="error-alignment", measure="ec,cka,soc", resamples=5)
    row = row_of(found, "model:0", "model:1", "linear_cka", "experiment=one")
    assert (row.value, "model:0 and model:1: no stored features" in row.note) == (None, True)
    row = row_of(found, "model:0", "model:1", "softmax_output_consistency", "experiment=one")
    assert (row.value, row.note) == (None, "undefined: no stimulus for which both gave probabilities")


def test_the_preset_of_the_paper_brings_its_conventions():
    data = trials(answered(observers(people=3, models=3)))
    found = cosight.score(data, on="error-alignment", preset="error-alignment-paper", resamples=5)
    assert {r.measure for r in found.rows} >= {"class_level_error_similarity_pooled", MA, "rank_correlation"}
    assert found.settings["missing"] == "random"


def test_options_of_pairs_need_a_benchmark_of_pairs():
    for option in ({"preset": "error-alignment-paper"}, {"pairs": "all"}, {"families": ["a=b"]}):
        with pytest.raises(InvalidInput, match=r"is for --on error-alignment.*, and for compare, got --on None"):
            cosight.score("sample:edges", **option)
    with pytest.raises(UnknownName, match="no preset is called 'paper'"):
        cosight.score("sample:edges", on="error-alignment", preset="paper")
    assert benchmarks["error-alignment"].supports == ("score",)


def test_the_command_prints_kinds_of_pairs_and_correlations(cosight, tmp_path):
    out = tmp_path / "scores.json"
    done = cosight("score", "sample:edges", "--on", "error-alignment", "--resamples", "20", "--out", out)
    assert done.code == 0
    for text in ("people with people", "models with people", "models with models", "Spearman's r", "EC and MA"):
        assert text in done.out
    assert out.exists()
    refused = cosight("evaluate", "python:math:floor,size=8", "--on", "error-alignment", "--out", tmp_path / "run")
    assert refused.code == 2
    assert "evaluate on a stimulus set, then run `cosight score TRIALS --on error-alignment`" in refused.err


# ---- families


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("model:resnet50", "CNN"),
        ("onnx:squeezenet_1_1.onnx", "CNN"),
        ("timm:vit_base_patch16_224.augreg_in1k", "transformer"),
        ("model:swin_t", "transformer"),
        ("model:clip_v", "large"),
        ("model:noisy_student", "large"),
        ("timm:mixer_b16_224", "mixer"),
        ("openclip:ViT-B-32/laion2b_s34b_b79k", "zero-shot"),
        ("model:simclr_resnet50x1", "self-supervised"),
        ("cosight:adversarial-resnet20", "robust"),
        ("model:unheard-of", None),
    ],
)
def test_families_that_ship_with_cosight(name, family):
    assert read_families().family(name) == family


def test_families_by_option_go_first_then_those_of_the_trials(tmp_path):
    people_and_models = [("human:s1", "human"), ("model:resnet50", "model"), ("model:x", "model"), ("model:y", "model")]
    declared = {"model:resnet50": "residual", "model:x": "odd"}

    def of(given):
        return families_of(people_and_models, declared, read_families(given), PEOPLE)

    assert of(None) == {"human:s1": "person", "model:resnet50": "residual", "model:x": "odd", "model:y": "other"}
    assert of(["model:RES*=mine", "model:y=yours"])["model:resnet50"] == "mine"
    assert of(["model:RES*=mine", "model:y=yours"])["model:y"] == "yours"
    file = tmp_path / "own.toml"
    file.write_text('[families]\nletters = ["model:?"]\n[domains]\nlab = ["my-*"]\n', encoding="utf-8")
    assert of(str(file))["model:x"] == "letters"
    assert read_families(file).kind_of_domain("my-study") == "lab"
    assert read_families(file).kind_of_domain("epic_kitchen") == "naturalistic"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[familes]\n", "unknown key 'familes'; did you mean families"),
        ('[families]\nCNN = "vgg*"\n', "families.CNN must be a list of texts, got 'vgg"),
        ("families = 3\n", "families must be a table, got 3"),
        ("[families\n", "is not a valid TOML file"),
    ],
)
def test_a_file_of_families_is_checked(text, message, tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((InvalidInput, UnknownName), match=message):
        cosight.compare("sample:edges", standardise=True, families=str(file), resamples=5)


def test_a_pair_without_a_family_is_refused():
    with pytest.raises(InvalidInput, match="--families takes PATTERN=FAMILY pairs or a TOML file, got 'vgg'"):
        cosight.compare("sample:edges", families=["vgg"], resamples=5)
