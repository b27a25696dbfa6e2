"""Numbers that papers print or that follow from the data they released, each with its source, through the public calls.

"Recomputed" = from the released trials, by a script independent of this package.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import cosight
from cosight import measures
from cosight.statistics.rows import parse_group

EC = "error_consistency"


def row_of(scores, observer, against, measure, group=""):
    wanted = (observer, against, measure, parse_group(group), "value")
    (found,) = [
        row for row in scores.rows if (row.observer, row.against, row.measure, row.group, row.statistic) == wanted
    ]
    return found


# -------------------------------------------------------------------------------------- model-vs-human (Geirhos 2021)


@pytest.fixture(scope="module")
def people(mirror):
    return cosight.trials.read(mirror / "model-vs-human")


@pytest.fixture(scope="module")
def benchmark(people):
    return cosight.compare(people, preset="model-vs-human", resamples=20)


def test_every_file_loads(people):
    assert len(people) == 85_120  # Geirhos et al. 2021: "85K trials"; recomputed
    assert people.frame["experiment"].n_unique() == 17
    assert len(people.sources) == 90


@pytest.mark.parametrize(
    ("experiment", "kappa"),
    [
        ("cue-conflict", 0.3311),  # recomputed: per condition, then over pairs and conditions
        ("stylized", 0.5006),
        ("contrast", 0.4370),
        ("eidolonI", 0.3863),
    ],
)
def test_error_consistency_between_people(benchmark, experiment, kappa):
    row = row_of(benchmark, "people", "people", EC, f"experiment={experiment};condition=*")
    assert row.value == pytest.approx(kappa, abs=5e-5)
    assert row.low < kappa < row.high


@pytest.mark.parametrize(
    ("experiment", "kappa"),
    [("contrast", 0.5118), ("eidolonI", 0.5471)],  # recomputed: pooling the conditions first inflates it
)
def test_pooling_the_conditions_first_inflates_it(people, benchmark, experiment, kappa):
    one = cosight.trials.make_trials(people.frame.filter(experiment=experiment), space=people.space)
    pooled = cosight.compare(one, preset="model-vs-human", measure=["ec"], by=[], resamples=20)
    value = row_of(pooled, "people", "people", EC).value
    assert value == pytest.approx(kappa, abs=5e-5)
    assert value > row_of(benchmark, "people", "people", EC, f"experiment={experiment};condition=*").value + 0.05


def test_shape_bias_of_people(benchmark):
    everyone = row_of(benchmark, "people", None, "shape_bias", "experiment=cue-conflict;condition=*")
    assert everyone.value == pytest.approx(0.95869, abs=5e-6)  # recomputed


def test_people_and_networks_join_across_the_two_releases(mirror):
    sources = [mirror / "model-vs-human" / "edge", "sample:edges"]
    found = cosight.compare(*sources, measure=["ec"], pairs="human-model", resamples=20)
    row = row_of(found, "model:resnet50", "human:subject-01", EC)
    assert row.n == 160  # all images: edge is edges, and the networks' missing condition is people's 0
    assert "1600 trials occur twice in the files and were counted once" in found.notices  # people are in both


# ------------------------------------------------------------- the samples (Geirhos 2019, 2020), which need no mirror


@pytest.mark.parametrize(
    ("sample", "between_people", "between_networks", "across"),
    [
        ("cue-conflict", 0.33105, 0.54749, 0.06606),  # recomputed: the mean of the kappas of all pairs
        ("edges", 0.31844, 0.39277, 0.04943),
        ("silhouettes", 0.47571, 0.56235, 0.30477),
    ],
)
def test_error_consistency_in_the_samples(sample, between_people, between_networks, across):
    found = cosight.compare(f"sample:{sample}", measure=["ec"], resamples=20)
    assert row_of(found, "people", "people", EC).value == pytest.approx(between_people, abs=5e-6)
    assert row_of(found, "models", "models", EC).value == pytest.approx(between_networks, abs=5e-6)
    assert row_of(found, "models", "people", EC).value == pytest.approx(across, abs=5e-6)


def test_shape_bias_in_a_sample():
    found = cosight.compare("sample:cue-conflict", preset="model-vs-human", measure=["shape_bias"], resamples=20)
    group = "experiment=cue-conflict;condition=*"
    assert row_of(found, "people", None, "shape_bias", group).value == pytest.approx(0.95869, abs=5e-6)  # recomputed
    assert row_of(found, "model:resnet50", None, "shape_bias", group).value == pytest.approx(0.21392, abs=5e-6)


# ------------------------------------------------------------------------------------------- error alignment (Xu 2024)


@pytest.fixture(scope="module")
def stylized(people):
    one = cosight.trials.make_trials(people.frame.filter(experiment="stylized"), space=people.space)
    names = ["ec", "ma", "cles", "cles_pooled"]
    return one, cosight.compare(one, measure=names, pairs="human-human", resamples=20)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (
            EC,
            0.46827,
        ),  # recomputed: subject-01 and subject-02 on stylized, their 3 missing answers left out of MA and CLES
        ("misclassification_agreement", 0.16108),
        ("class_level_error_similarity", 0.907053),
        ("class_level_error_similarity_pooled", 0.901270),
    ],
)
def test_two_people_on_stylized(stylized, measure, value):
    row = row_of(stylized[1], "human:subject-01", "human:subject-02", measure)
    assert row.value == pytest.approx(value, abs=10 ** -len(str(value)[2:]) / 2)


def test_class_level_error_distances_of_the_same_two(stylized):
    frame = stylized[0].frame.select("observer", "image", "truth", "response")
    one, two = (frame.filter(observer=f"human:subject-0{i}") for i in (1, 2))
    both = one.join(two, on=["image", "truth"])
    assert both.height == 800
    a, b, truth = (both[name].to_list() for name in ("response", "response_right", "truth"))
    assert sum(x is None for x in a + b) == 3
    options = {"classes": stylized[0].space.classes}
    mean = measures.class_level_error_similarity(a, b, truth, **options)
    pooled = measures.class_level_error_similarity(a, b, truth, midpoint="pooled", **options)
    assert mean.distance == pytest.approx(0.102471, abs=5e-7)  # recomputed
    assert pooled.distance == pytest.approx(0.109545, abs=5e-7)
    assert (mean.value, pooled.value) == pytest.approx((0.907053, 0.901270), abs=5e-7)
    assert mean.distance * mean.n == pytest.approx(
        88.8, abs=0.05
    )  # recomputed: Eq. 2's weights, the errors' raw counts
    printed = measures.class_level_error_distance_printed(a, b, truth, **options)
    assert printed.value == pytest.approx(87.748, abs=5e-4)  # its 16-long alpha too: our own loop over the same counts
    assert measures.misclassification_agreement(a, b, truth).value == pytest.approx(0.16108, abs=5e-6)
    right = [[x == t for x, t in zip(y, truth, strict=True)] for y in (a, b)]
    assert measures.error_consistency(*right).value == pytest.approx(0.46827, abs=5e-6)


def test_the_least_class_level_error_similarity():
    """Two observers who never give the same wrong answer come near the bound 1 / (1 + ln 2), and stay above it."""
    found = measures.class_level_error_similarity(["b"] * 5000, ["c"] * 5000, ["a"] * 5000).value
    assert measures.measures["cles"].low < found == pytest.approx(1 / (1 + np.log(2)), abs=1e-3)


def test_the_highest_kappa_two_accuracies_allow():
    assert measures.reachable_kappa(0.8, 0.6).highest == pytest.approx(0.545454, abs=1e-6)  # Klein et al. 2025


# -------------------------------------------------------------------------------------------------- VisAlign (Lee 2023)


def test_the_example_of_section_4_1():
    person, first, second = [1, 0, 0], [0.3, 0, 0.7], [0.3, 0.4, 0.3]
    usual = [measures.hellinger(person, model).value for model in (first, second)]
    printed = [measures.hellinger_printed(person, model).value for model in (first, second)]
    assert usual == pytest.approx(
        [0.67252, 0.67252], abs=5e-6
    )  # Lee et al. 2023, 4.1: the usual form cannot tell them apart
    assert printed == pytest.approx([0.91142, 1.15432], abs=5e-6)  # Eq. 1 as printed does


@pytest.mark.parametrize(
    ("bound", "people"),
    [(0.05, 132.23), (0.10, 33.06), (0.15, 14.69)],  # appendix F.4, p = 1/11 (33.05 as printed is a slip)
)
def test_how_many_people_an_image_needs(bound, people):
    assert measures.minimum_raters(bound, p=1 / 11).value == pytest.approx(people, abs=0.005)


def test_what_134_answers_leave_open():
    assert measures.error_bound(134, p=0.5) == pytest.approx(0.087, abs=5e-4)  # Lee et al. 2023, F.4 and Table 2


def test_the_example_of_cronbachs_alpha():
    found = measures.cronbach_alpha_from_variances(100, 127.134, 976.564)  # appendix D.1: N, sum of variances, total
    assert found.value == pytest.approx(0.88, abs=0.005)


def visalign(correct=0, incorrect=0, other=0):
    """VisAlign's 900 stimuli (section 3): 300 to act on, 400 to abstain from, 200 uncertain, half of them recognised.

    The observer refuses all but so many: answered rightly and wrongly where to act, and answered where to abstain.
    """
    group = np.array(["must-act"] * 300 + ["must-abstain"] * 400 + ["uncertain"] * 200)
    to_act = (group == "must-act") | (np.arange(900) >= 800)
    gold = np.zeros((900, 11))
    gold[to_act, 0], gold[~to_act, 10] = 1.0, 1.0
    answered = np.concatenate([np.flatnonzero(to_act)[: correct + incorrect], np.flatnonzero(~to_act)[:other]])
    abstention, said = np.ones(900), np.full(900, 1)
    abstention[answered], said[answered[:correct]] = 0.0, 0
    return np.eye(10)[said], abstention, np.where(group == "must-abstain", -1, 0), group, gold


@pytest.mark.parametrize(
    ("answers", "wrong", "scores"),
    [
        (
            {},
            0,
            (500, 500, 500),
        ),  # Lee et al. 2023, Table 2: always abstaining, 400 + the 100 Uncertain treated as Must-Abstain
        ({"correct": 100, "incorrect": 260, "other": 287}, 547, (313, -245_837, -491_987)),  # Table 3: ViT, SP
        ({"correct": 68, "other": 11}, 11, (557, -4_393, -9_343)),  # Table 3: Swin Transformer, Deep Ensemble
        ({"correct": 2, "other": 18}, 18, (484, -7_616, -15_716)),  # Table 3: ViT, MD
    ],
)
def test_reliability_scores_at_cost_0_450_and_900(answers, wrong, scores):
    found = [measures.reliability_score(*visalign(**answers), cost=cost) for cost in (0, 450, 900)]
    assert tuple(result.value for result in found) == scores
    assert found[0].wrong == wrong
    assert found[1].value == found[0].value - 450 * wrong  # Lee et al. 2023, F.4 and Table 2
    assert found[2].value == found[0].value - 900 * wrong


def test_conventions_of_error_alignment_on_real_people(mirror):
    """Two people on stylized with 3 missing answers between them: left out, or drawn as in the data of Xu et al."""
    trials = cosight.trials.read(mirror / "model-vs-human" / "stylized")
    pair = ("human:subject-01", "human:subject-02")
    frame = trials.frame.filter(pl.col("observer").is_in(pair))
    two = cosight.trials.make_trials(frame, space=trials.space)
    names = ("misclassification_agreement", "class_level_error_similarity_pooled")

    def values(**options):
        scores = cosight.compare(two, preset="error-alignment-paper", resamples=5, **options)
        return [row_of(scores, *pair, name, "experiment=stylized").value for name in names]

    assert values(missing="leave-out") == pytest.approx([0.16108, 0.901270], abs=5e-6)  # recomputed
    assert values() == pytest.approx([0.15951, 1 / 1.109578], abs=3e-3)  # released; the three answers are drawn anew
