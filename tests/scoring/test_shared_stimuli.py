"""People beside a model: their row, their ceilings and the model's share of them are about the same stimuli."""

import numpy as np
import pytest

import cosight
from cosight.measures import error_consistency
from cosight.trials import make_trials, read
from tests.scoring.made import answered, observers, row_of, trials

EC = "error_consistency"


def pairwise(rows, images):
    """People's mean EC with each other on some images, by the plain function."""
    names = sorted({row["observer"] for row in rows if row["kind"] == "human"})
    right = {(r["observer"], r["experiment"], r["condition"], r["image"]): r["response"] == r["truth"] for r in rows}
    values = [
        error_consistency([right[(a, *key)] for key in images], [right[(b, *key)] for key in images]).value
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    ]
    return np.nanmean(values)


def keys_of(rows):
    return sorted({(row["experiment"], row["condition"], row["image"]) for row in rows})


@pytest.fixture(scope="module")
def whole():
    return answered(observers(people=5, models=2), stimuli=40, seed=3)


def without(rows, observer, keep):
    return [r for r in rows if r["observer"] != observer or (r["experiment"], r["condition"], r["image"]) in keep]


def test_a_run_on_some_stimuli_is_divided_by_the_ceiling_on_these(whole):
    some = keys_of(whole)[::3]
    rows = without(without(whole, "model:0", some), "model:1", some)
    found = cosight.compare(trials(rows), measure=["acc", "ec"], resamples=50)
    ceiling = pairwise(whole, some)
    people = row_of(found, "people", "people", EC)
    assert (people.value, people.n) == (pytest.approx(ceiling), len(some))
    assert row_of(found, "model:0", "people", EC, statistic="ceiling_leave_one_out").value == pytest.approx(ceiling)
    own = row_of(found, "model:0", "people", EC).value
    assert row_of(found, "model:0", "people", EC, statistic="normalised").value == pytest.approx(own / ceiling)
    assert row_of(found, "human:0", None, "accuracy").n == len(some)
    assert f"people are scored on the {len(some)} stimuli that a model answered too" in " ".join(found.notices)
    assert any(f"answered {len(some)} of people's {len(keys_of(whole))} stimuli" in text for text in found.notices)
    alone = cosight.compare(trials(rows), measure=["ec"], resamples=20, pairs="human-human")
    assert row_of(alone, "people", "people", EC).n == len(keys_of(whole))


def test_models_on_different_stimuli_have_ceilings_of_their_own(whole):
    half = keys_of(whole)[::2]
    rows = without(whole, "model:1", half)
    found = cosight.compare(trials(rows), measure=["ec"], resamples=200, seed=1)
    everything, own = pairwise(whole, keys_of(whole)), pairwise(whole, half)
    ceilings = [row_of(found, f"model:{i}", "people", EC, statistic="ceiling_leave_one_out") for i in (0, 1)]
    assert [row.value for row in ceilings] == [pytest.approx(everything), pytest.approx(own)]
    assert [row.n for row in ceilings] == [len(keys_of(whole)), len(half)]
    assert ceilings[1].high - ceilings[1].low > ceilings[0].high - ceilings[0].low  # half as many stimuli
    for i, ceiling in enumerate((everything, own)):
        value = row_of(found, f"model:{i}", "people", EC).value
        assert row_of(found, f"model:{i}", "people", EC, statistic="normalised").value == pytest.approx(value / ceiling)
        assert row_of(found, f"model:{i}", "people", EC, statistic="ceiling_split_half").value is not None
    both = row_of(found, "models", "people", EC, statistic="ceiling_leave_one_out").value
    assert both == pytest.approx((everything + own) / 2)
    alone = cosight.compare(trials([r for r in rows if r["observer"] != "model:0"]), measure=["ec"], resamples=20)
    assert row_of(alone, "people", "people", EC).value == pytest.approx(own)  # as if the other model were not there


def test_means_over_groups_use_the_groups_in_which_the_model_took_part(whole):
    one = [key for key in keys_of(whole) if key[0] == "one"]
    rows = without(whole, "model:1", one)
    found = cosight.compare(trials(rows), measure=["ec"], by=["experiment"], resamples=20)
    mean = row_of(found, "model:1", "people", EC, "experiment=*", statistic="ceiling_leave_one_out")
    assert mean.value == pytest.approx(pairwise(whole, one))
    own = row_of(found, "model:1", "people", EC, "experiment=*").value
    share = row_of(found, "model:1", "people", EC, "experiment=*", statistic="normalised").value
    assert share == pytest.approx(own / pairwise(whole, one))


def test_a_network_on_320_of_1280_real_images(mirror):
    """Ten people (Geirhos et al. 2019); the share was .2855 of the ceiling on all 1,280 and is .2727 on the shared."""
    here = {path.name for path in (mirror / "texture-vs-shape" / "cue-conflict").rglob("*.png")}
    sample = read("sample:cue-conflict").frame
    people, network = sample.filter(kind="human"), sample.filter(observer="model:resnet50")
    some = network.filter(network["image"].is_in(sorted(here)))
    assert some.height == 320
    space = read("sample:cue-conflict").space
    whole, part = (
        cosight.compare(make_trials(people), make_trials(model), measure=["ec"], resamples=20, labels=space)
        for model in (network, some)
    )
    ceilings = [row_of(x, "people", "people", EC) for x in (whole, part)]
    assert [row.n for row in ceilings] == [1280, 320]
    assert ceilings[0].value == pytest.approx(0.33105, abs=5e-6)
    own = row_of(part, "model:resnet50", "people", EC).value
    assert row_of(part, "model:resnet50", "people", EC, statistic="normalised").value == pytest.approx(
        own / ceilings[1].value
    )
    assert ceilings[1].value == pytest.approx(0.33105 * 0.2855 / 0.2727, rel=2e-3)


def perfect(rows, observer, condition):
    return [
        {**r, "response": r["truth"]} if (r["observer"], r["condition"]) == (observer, condition) else r for r in rows
    ]


def test_a_group_in_which_the_model_is_undefined_counts_neither_for_it_nor_for_its_ceiling():
    """MA of a model without errors in a condition is undefined there: its share is that of the other conditions."""
    rows = perfect(answered(observers(people=4, models=1), stimuli=150, seed=5), "model:0", "x")
    found = cosight.compare(trials(rows), measure=["ma"], by=["condition"], resamples=20)
    name = "misclassification_agreement"
    mine, both = (
        row_of(found, who, "people", name, "condition=*", statistic="normalised") for who in ("model:0", "models")
    )
    used = [group for group in ("condition=y", "condition=z") if row_of(found, "model:0", "people", name, group).value]
    values = [row_of(found, "model:0", "people", name, group).value for group in used]
    ceilings = [row_of(found, "people", "people", name, group).value for group in used]
    assert row_of(found, "model:0", "people", name, "condition=x").value is None
    assert mine.value == both.value == pytest.approx(np.mean(values) / np.mean(ceilings))


def test_a_group_without_a_ceiling_counts_neither(whole):
    """Only one person took part in the second experiment: there is no ceiling."""
    rows = [r for r in whole if r["experiment"] == "one" or r["observer"] in ("human:0", "model:0")]
    found = cosight.compare(trials(rows), measure=["ec"], by=["experiment"], resamples=20)
    own = row_of(found, "model:0", "people", EC, "experiment=one").value
    ceiling = row_of(found, "people", "people", EC, "experiment=one").value
    share = row_of(found, "model:0", "people", EC, "experiment=*", statistic="normalised").value
    assert share == pytest.approx(own / ceiling)
    assert row_of(found, "model:0", "people", EC, "experiment=*").value != pytest.approx(own)  # its mean has both


def test_a_model_that_shares_nothing_is_left_out_of_the_mean_over_models(whole):
    stranger = [{**r, "observer": "model:9", "experiment": "far"} for r in whole if r["observer"] == "model:0"]
    alone, beside = (
        cosight.compare(trials(rows), measure=["ec"], resamples=20) for rows in (whole, [*whole, *stranger])
    )
    for kind in ("ceiling_leave_one_out", "normalised"):
        before, after = (row_of(x, "models", "people", EC, statistic=kind) for x in (alone, beside))
        assert after.value == pytest.approx(before.value)
    lacking = row_of(beside, "model:9", "people", EC, statistic="ceiling_leave_one_out")
    assert (lacking.value, lacking.note) == (None, "undefined: so is the model's own value")


def test_distances_have_ceilings_on_each_models_stimuli(whole):
    some = keys_of(whole)[::4]
    rows = without(whole, "model:1", some)
    both = cosight.score(trials(rows), measure=["hellinger"], resamples=50)
    alone = cosight.score(trials([r for r in rows if r["observer"] != "model:0"]), measure=["hellinger"], resamples=50)
    name = {"measure": "hellinger", "statistic": "ceiling_leave_one_out"}
    people, mine = row_of(alone, "people", "people", **name), row_of(both, "model:1", "people", **name)
    assert (mine.value, mine.n) == (pytest.approx(people.value), people.n)
    assert people.n < len(some) < row_of(both, "people", "people", **name).n  # some answers are missing
    assert row_of(both, "model:0", "people", **name).value == row_of(both, "people", "people", **name).value
    half = row_of(both, "model:1", "people", "hellinger", statistic="ceiling_split_half")
    assert half.value == pytest.approx(
        row_of(alone, "people", "people", "hellinger", statistic="ceiling_split_half").value
    )
