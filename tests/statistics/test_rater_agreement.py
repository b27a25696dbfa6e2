"""Agreement among people in `cosight score`, against the plain functions on the same trials."""

import numpy as np
import pytest

import cosight
from cosight.errors import InvalidInput
from cosight.measures import cronbach_alpha, fleiss_kappa, intra_annotator_kappa, krippendorff_alpha
from cosight.trials import LabelSpace
from tests.scoring.made import trials

CLASSES = ("a", "b", "c")
NAMES = ["fleiss_kappa", "krippendorff_alpha", "cronbach_alpha", "intra_annotator_kappa"]


def answers(people=5, stimuli=40, sessions=1, seed=0):
    """Codes (people, sessions, stimuli): the truth, or one time in three anything."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, stimuli)
    said = np.where(
        rng.random((people, sessions, stimuli)) < 2 / 3, truth, rng.integers(0, 3, (people, sessions, stimuli))
    )
    return truth, said


def rows(truth, said, kind="human"):
    return [
        {
            "observer": f"{kind}:{p}", "kind": kind, "experiment": "one", "condition": "0", "image": f"{i}.png",
            "truth": CLASSES[truth[i]], "response": CLASSES[said[p, s, i]] if said[p, s, i] >= 0 else None,
            "session": str(s), "trial": i,
        }
        for p in range(said.shape[0]) for s in range(said.shape[1]) for i in range(said.shape[2])
    ]  # fmt: skip


def scored(made, **options):
    found = cosight.score(trials(made), measure=NAMES, resamples=200, **options)
    return {row.measure: row for row in found.rows}


def test_values_are_those_of_the_measures():
    truth, said = answers()
    said[0, 0, :3] = -1
    found = scored(rows(truth, said))
    one = said[:, 0]
    counts = np.stack([(one == c).sum(axis=0) for c in range(3)], axis=1)
    assert found["fleiss_kappa"].value == pytest.approx(fleiss_kappa(counts).value)
    ratings = np.where(one >= 0, one, np.nan)
    assert found["krippendorff_alpha"].value == pytest.approx(krippendorff_alpha(ratings).value)
    gold = np.where(2 * counts[np.arange(40), truth] > counts.sum(axis=1), truth, counts.argmax(axis=1))
    assert found["cronbach_alpha"].value == pytest.approx(cronbach_alpha((one == gold).astype(float)).value)
    for name in ("fleiss_kappa", "krippendorff_alpha"):
        assert found[name].low < found[name].value < found[name].high
    assert (found["intra_annotator_kappa"].value, found["intra_annotator_kappa"].low) == (None, None)
    assert "nobody answered a stimulus twice" in found["intra_annotator_kappa"].note
    assert found["fleiss_kappa"].observer == "people"


def test_repeated_answers_give_the_intra_form():
    truth, said = answers(people=2, sessions=2)
    found = scored(rows(truth, said))["intra_annotator_kappa"]
    rater, _, item = np.indices(said.shape)
    plain = intra_annotator_kappa(rater.ravel(), item.ravel(), said.ravel())
    assert found.value == pytest.approx(plain.value)
    assert found.low < found.value < found.high
    assert found.n == plain.n == 80


def test_the_interval_of_fleiss_is_a_bootstrap_over_stimuli():
    truth, said = answers(stimuli=120)
    found = scored(rows(truth, said))["fleiss_kappa"]
    counts = np.stack([(said[:, 0] == c).sum(axis=0) for c in range(3)], axis=1)
    rng = np.random.default_rng(1)
    plain = [fleiss_kappa(counts[rng.integers(0, 120, 120)]).value for _ in range(1000)]
    assert found.high - found.low == pytest.approx(np.ptp(np.quantile(plain, [0.025, 0.975])), rel=0.2)


def test_alpha_is_of_those_who_were_shown_the_same_stimuli():
    truth, said = answers()
    found = scored([row for row in rows(truth, said) if (row["observer"], row["trial"]) != ("human:1", 7)])
    counts = np.stack([(said[:, 0] == c).sum(axis=0) for c in range(3)], axis=1)
    counts[7, said[1, 0, 7]] -= 1
    gold = np.where(2 * counts[np.arange(40), truth] > counts.sum(axis=1), truth, counts.argmax(axis=1))
    scores = (said[[0, 2, 3, 4], 0] == gold).astype(float)
    assert found["cronbach_alpha"].value == pytest.approx(cronbach_alpha(scores).value)
    assert "4 people; interval over people, 1 without a complete form left out" in found["cronbach_alpha"].note


def test_without_complete_forms_alpha_is_undefined():
    truth, said = answers()
    each = [row for row in rows(truth, said) if row["trial"] % 5 != int(row["observer"][-1])]
    found = scored(each)
    assert found["cronbach_alpha"].value is None
    assert found["cronbach_alpha"].note.startswith("undefined: alpha needs complete forms")
    assert found["fleiss_kappa"].value is not None


def test_only_first_showings_count_between_people_and_all_within_them():
    truth, said = answers(people=6, sessions=2)
    made = [
        {**row, "role": "repeat" if row["session"] == "1" else "test", "repetition": int(row["session"])}
        for row in rows(truth, said)
        if row["session"] == "0" or row["trial"] < 10
    ]
    found = scored(made)
    counts = np.stack([(said[:, 0] == c).sum(axis=0) for c in range(3)], axis=1)
    assert found["fleiss_kappa"].value == pytest.approx(fleiss_kappa(counts).value)
    pairs = said[:, :, :10]
    rater, _, item = np.indices(pairs.shape)
    plain = intra_annotator_kappa(rater.ravel(), item.ravel(), pairs.ravel())
    assert (found["intra_annotator_kappa"].value, found["intra_annotator_kappa"].n) == (
        pytest.approx(plain.value),
        plain.n,
    )
    assert found["intra_annotator_kappa"].note == "60 pairs of 6 people; interval over people"


def test_checks_warm_up_and_distractors_are_in_no_number():
    truth, said = answers()
    plain = rows(truth, said)
    more = [
        {**row, "image": f"{role}-{row['image']}", "role": role, "trial": row["trial"] + 100}
        for role in ("distractor", "gold", "check", "warmup")
        for row in plain
    ]
    assert scored([*plain, *more]) == scored(plain)


def test_simulated_people_are_called_so():
    truth, said = answers()
    found = scored(rows(truth, said, kind="simulated"))["fleiss_kappa"]
    assert found.observer == "simulated people"
    assert "5 simulated people" in found.note


def test_one_person_alone_agrees_with_nobody():
    truth, said = answers(people=1)
    with pytest.raises(InvalidInput, match="fleiss_kappa needs several people"):
        scored(rows(truth, said))


def test_the_same_people_are_drawn_alike_in_every_group():
    """Two conditions with the same answers: their mean is each of them, and so is its interval."""
    truth, said = answers(people=8, stimuli=20)
    twice = [{**row, "condition": name} for name in "xy" for row in rows(truth, said)]
    found = cosight.score(trials(twice), measure=["cronbach_alpha"], by=["condition"], resamples=200).rows
    ends = {row.group: (row.value, row.low, row.high) for row in found}
    assert ends[("condition", "x"),] == ends[("condition", "y"),] == pytest.approx(ends[("condition", "*"),])


def test_three_people_have_no_interval_and_the_note_says_so():
    truth, said = answers(people=3)
    found = scored(rows(truth, said))["cronbach_alpha"]
    assert (found.low, found.high) == (None, None)
    assert "no interval, fewer than 4 people on a form are too few to resample" in found.note


def test_one_person_agrees_with_themselves():
    truth, said = answers(people=1, sessions=2)
    marked = [{**row, "repetition": int(row["session"])} for row in rows(truth, said)]
    found = cosight.score(trials(marked), measure=["intra_annotator_kappa"], resamples=50).rows
    assert [row.n for row in found] == [40]
    with pytest.raises(InvalidInput, match="needs several answers of a person to the same stimulus"):
        cosight.score(trials(rows(truth, said[:, :1])), measure=["intra_annotator_kappa"])


def test_the_threshold_of_abstention_holds_within_people_too():
    truth, said = answers(people=4, sessions=2)
    space = LabelSpace("letters", CLASSES, abstain=True)
    made = [{**row, "abstention": 0.4 * (row["trial"] % 2)} for row in rows(truth, said)]
    made = [{**row, "repetition": int(row["session"])} for row in made]
    found = [
        cosight.score(trials(made, space), measure=["intra_annotator_kappa"], resamples=20, gamma=gamma).rows[0].value
        for gamma in (0.3, 0.5)
    ]
    assert found[0] > found[1]  # half of the answers are the same refusal
