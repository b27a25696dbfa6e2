"""Agreement of a study's participants: equal to `cosight.measures` and to outside references on the same table."""

import numpy as np
import polars as pl
import pytest
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

from cosight.humans.results.quality import assess
from cosight.measures import cronbach_alpha, fleiss_kappa, intra_annotator_kappa, krippendorff_alpha
from cosight.trials import read
from cosight.trials.spaces import label_spaces
from tests.humans.answered import Crowd, row, sheet, trials_of


def found(trials, measure, who="people", resamples=20):
    rows = assess(trials, resamples=resamples).agreement
    return next(one for one in rows if (one.measure, one.observer) == (measure, who))


@pytest.fixture(scope="module")
def colour(mirror):
    """Four people, 1,280 images each, all the same ones: complete forms."""
    return read(mirror / "model-vs-human" / "colour")


def people_by_image(trials):
    """(people, images) codes of the 16 classes, -1 for no answer; made without our joins."""
    frame = trials.frame.filter(kind="human")
    classes = label_spaces["model-vs-human-16"].classes
    wide = frame.with_columns(key=pl.concat_str("condition", "image", separator="/")).pivot(
        "key", index="observer", values="response", aggregate_function="first"
    )
    return np.array([[-1 if x is None else classes.index(x) for x in line[1:]] for line in wide.iter_rows()])


def test_real_people_on_real_images(colour):
    codes = people_by_image(colour)
    counts = np.stack([(codes == c).sum(axis=0) for c in range(16)], axis=1)
    ratings = np.where(codes < 0, np.nan, codes)
    quality = assess(colour, resamples=50)
    assert quality.flagged == ()  # laboratory observers who were paid to look
    values = {one.measure: one for one in quality.agreement}
    assert values["fleiss_kappa"].value == pytest.approx(fleiss_kappa(counts).value, abs=1e-12)
    whole = counts[counts.sum(axis=1) == 4]
    assert fleiss_kappa(whole).value == pytest.approx(statsmodels_fleiss(whole), abs=1e-12)
    assert values["krippendorff_alpha"].value == pytest.approx(krippendorff_alpha(ratings).value, abs=1e-12)
    assert values["krippendorff_alpha"].low < values["krippendorff_alpha"].value < values["krippendorff_alpha"].high
    assert values["intra_annotator_kappa"].value is None
    assert values["intra_annotator_kappa"].note == "undefined: nobody answered a stimulus twice"


def test_cronbachs_alpha_of_real_complete_forms(colour):
    """Right where the answer is the truth and more than half gave it, or else the commonest answer."""
    frame = colour.frame.filter(kind="human").with_columns(key=pl.concat_str("condition", "image", separator="/"))
    scores = []
    for (_, truth), part in frame.group_by("key", "truth", maintain_order=True):
        given = part.sort("observer")["response"].to_list()
        answered = [x for x in given if x is not None]
        common = max(sorted(set(answered)), key=answered.count)
        gold = truth if answered.count(truth) * 2 > len(answered) else common
        scores.append([x == gold for x in given])
    expected = cronbach_alpha(np.array(scores, float).T).value
    assert found(colour, "cronbach_alpha").value == pytest.approx(expected, abs=1e-12)


def test_a_survey_with_repeats_equals_the_measures():
    made = Crowd(seed=5, repeats=5)
    trials = made.fill(good=12)
    quality = assess(trials, resamples=20)
    kept = set(quality.kept.frame["observer"])
    rows = [r for r in made.rows if r["observer"] in kept and r["stimulus"].startswith("t")]
    repeated = {(r["observer"], r["stimulus"]) for r in rows if '"repeat"' in r["extra"]}
    pairs = [r for r in rows if (r["observer"], r["stimulus"]) in repeated]
    columns = [[r[name] for r in pairs] for name in ("observer", "stimulus", "response")]
    value = {one.measure: one.value for one in quality.agreement}
    assert value["intra_annotator_kappa"] == pytest.approx(intra_annotator_kappa(*columns).value, abs=1e-12)
    first = [r for r in rows if '"test"' in r["extra"]]
    items = sorted({r["stimulus"] for r in first})
    answers = sorted({r["response"] for r in first})
    counts = np.zeros((len(items), len(answers)), int)
    for r in first:
        counts[items.index(r["stimulus"]), answers.index(r["response"])] += 1
    assert value["fleiss_kappa"] == pytest.approx(fleiss_kappa(counts).value, abs=1e-12)


def test_the_interval_within_people_draws_people_with_all_their_pairs():
    """Three are steady, three change their mind on half of 40 images: who is drawn matters more than which images."""
    rows, counts = [], []
    for person in range(6):
        for i in range(40):
            first, again = str(i % 5), str((i + (person > 2 and i // 5 % 2)) % 5)
            rows.append(row(f"p{person}", f"i{i}", first, trial=i + 1))
            rows.append(row(f"p{person}", f"i{i}", again, trial=i + 41, role="repeat", repeat_of=i + 1))
            counts.append(np.bincount([int(first), int(again)], minlength=5))
    one = found(trials_of(rows), "intra_annotator_kappa", resamples=400)
    assert one.value == pytest.approx(fleiss_kappa(counts).value)
    assert one.note.startswith("240 pairs of 6 people")
    rng = np.random.default_rng(0)
    naive = [fleiss_kappa(np.array(counts)[rng.integers(0, 240, 240)]).value for _ in range(400)]
    assert one.high - one.low > 2 * np.ptp(np.percentile(naive, [2.5, 97.5]))


FORMS = {0: ["000", "001", "011", "111", "000"], 1: ["01", "00", "11", "10"]}


def formed(forms):
    rows = []
    for form, answers in forms.items():
        for one in sheet(answers, form=form):
            name = f"f{form}{one['observer'][6:]}"
            rows.append({**one, "observer": f"human:{name}", "session": name, "stimulus": f"{form}{one['stimulus']}"})
    return trials_of(rows, space=label_spaces["digits-11"])


def test_forms_have_an_alpha_each_and_a_mean():
    """Truth is 0 throughout; where no more than half see it, gold is abstain and nobody is right (Lee et al., D.1)."""
    one = found(formed(FORMS), "cronbach_alpha", resamples=50)
    first = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0]], float)  # 4, 3 and 2 of 5 see the 0
    value = cronbach_alpha(first).value
    assert one.value == pytest.approx(value)  # 2 of 4 is not more than half: nobody is right about the second form
    assert one.note.startswith(f"mean of 1 forms ({value:.3f}), right and wrong of 9 people")
    both = found(formed({0: FORMS[0], 1: ["01", "00", "00", "10", "00"]}), "cronbach_alpha", resamples=50)
    second = cronbach_alpha(np.array([[1, 0], [1, 1], [1, 1], [0, 1], [1, 1]], float)).value
    assert both.value == pytest.approx((value + second) / 2)


def test_those_who_left_a_form_are_left_out_and_counted():
    rows = [
        r for r in formed({0: FORMS[0]}).frame.iter_rows(named=True) if r["observer"] != "human:f0p4" or r["trial"] < 3
    ]
    one = found(trials_of(rows), "cronbach_alpha")
    # the one who left is counted in the gold of the two images they did answer, as their answers are
    first = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]], float)
    assert one.value == pytest.approx(cronbach_alpha(first).value)
    assert "1 without a complete form left out" in one.note


def test_without_complete_forms_alpha_is_null_with_a_note():
    one = found(trials_of(sheet(["0123", "012"])), "cronbach_alpha")
    assert (one.value, one.low, one.n) == (None, None, 0)
    assert "forms = true" in one.note


def test_choices_agree_about_the_target_not_about_its_name():
    """Fleiss (1971) by hand: 3 tasks, 2 people; both target, both target, one of each: P = 2/3, p = 5/6, 1/6."""
    said = {"a": "TTT", "b": "TTS"}
    rows = [
        row(who, f"k{i}", f"{side}{i}", trial=i + 1, truth=f"T{i}", options=[f"S{i}", f"T{i}"])
        for who, text in said.items()
        for i, side in enumerate(text)
    ]
    expected = (2 / 3 - 26 / 36) / (1 - 26 / 36)
    assert found(trials_of(rows, space=None), "fleiss_kappa").value == pytest.approx(expected)


def test_excluded_people_are_in_no_figure():
    good = sheet(["0123", "0123", "0112"])
    bad = [row("bad", f"i{i}", "9", trial=i + 1, rt=0.05, truth="0") for i in range(4)]
    with_bad, without = found(trials_of(good + bad), "fleiss_kappa"), found(trials_of(good), "fleiss_kappa")
    assert with_bad == without


def test_checks_and_warm_up_are_in_no_figure():
    rows = sheet(["0123", "0123", "0112"])
    more = [
        row(f"p{p}", f"{role}{p}", str(p), trial=9, role=role) for p in range(3) for role in ("warmup", "distractor")
    ]
    assert found(trials_of(rows + more), "krippendorff_alpha") == found(trials_of(rows), "krippendorff_alpha")


def test_the_interval_over_images_covers():
    """Of 40 studies with 30 images drawn of the same 2,000, 33 or more have intervals that hold the value of all."""
    rng = np.random.default_rng(0)
    truth, skill = rng.integers(0, 4, 2000), rng.uniform(0.4, 1, 2000)
    said = np.where(rng.random((5, 2000)) < skill, truth, rng.integers(0, 4, (5, 2000)))
    counts = np.stack([(said == c).sum(axis=0) for c in range(4)], axis=1)
    whole, hits = fleiss_kappa(counts).value, 0
    for _ in range(40):
        some = rng.choice(2000, 30, replace=False)
        one = found(
            trials_of(sheet(["".join(map(str, said[p, some])) for p in range(5)])), "fleiss_kappa", resamples=200
        )
        hits += one.low <= whole <= one.high
    assert hits >= 33


@pytest.mark.parametrize(
    ("answers", "why"),
    [(["012"], "undefined: no stimulus has two answers"), (["111", "111"], "undefined: all answers are the same")],
)
def test_what_is_undefined_says_why(answers, why):
    found = {one.measure: one for one in assess(trials_of(sheet(answers)), resamples=10).agreement}
    for name in ("fleiss_kappa", "krippendorff_alpha"):
        assert (found[name].value, found[name].note) == (None, why)
