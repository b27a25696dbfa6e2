"""Bad workers are found, good ones kept, and every exclusion says why."""

import json
from dataclasses import asdict, replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cosight.errors import InvalidInput
from cosight.humans.results.exclusion import (
    Rules,
    longest_run,
    mean_bound,
    probability_at_least,
    probability_at_most,
    run_bound,
)
from cosight.humans.results.quality import assess
from cosight.trials import read
from tests.humans.answered import crowd, row, sheet, trials_of

PLANTED = {"good": 60, "clicker": 6, "presser": 6, "distracted": 6}


def rates(quality):
    """The share left out of each kind of worker."""
    found = {}
    for name, out in quality.participants.select("participant", "excluded").iter_rows():
        found.setdefault(name.split(":")[1].split("-")[0], []).append(out)
    return {what: np.mean(outs) for what, outs in found.items()}


def reasons(quality, who):
    return {one.participant: one.reasons for one in quality.flagged}.get(f"human:{who}", ())


@pytest.fixture(scope="module")
def survey():
    """VisAlign's design with three clear distractors, and planted bad workers."""
    return assess(crowd(PLANTED, seed=1), resamples=50)


def test_planted_bad_workers_are_found_and_good_ones_kept(survey):
    found = rates(survey)
    assert found["presser"] == found["distracted"] == 1
    assert found["clicker"] >= 5 / 6  # who says abstain to three distractors by chance (1 in 1331) may yet be found
    # A good person slips on one of three clear distractors in 1 - (1 - .02 * 10 / 11)^3 = 5.4 %, and is dropped for it:
    # the published rule. 13 of 60 or more would have a probability of 1e-5.
    assert found["good"] < 13 / 60


def test_good_people_are_dropped_for_distractors_alone(survey):
    out = [one for one in survey.flagged if "good" in one.participant]
    assert all(len(one.reasons) == 1 and "clear distractors" in one.reasons[0] for one in out)


def test_nothing_but_gold_images_finds_clickers_and_pressers():
    found = rates(assess(crowd(PLANTED, seed=2, distractors=0, gold=10), resamples=50))
    assert found == {"good": 0, "clicker": 1, "presser": 1, "distracted": 0}  # who fails distractors does all else well


def test_without_any_check_pressers_and_many_clickers_are_found():
    quality = assess(crowd(PLANTED, seed=3, distractors=0, repeats=0, shown=60), resamples=50)
    found = rates(quality)
    assert (found["good"], found["presser"]) == (0, 1)
    assert found["clicker"] >= 0.5  # 60 images, many of them noise to anybody
    assert "with the others" in reasons(quality, "clicker-0")[0]


@pytest.mark.parametrize("experiment", ["eidolonIII", "uniform-noise"])
def test_real_people_in_a_laboratory_are_kept(mirror, experiment):
    """1,280 images each, many of them hardly visible: plenty of guesses and favourite answers, all honest."""
    trials = read(mirror / "model-vs-human" / experiment)
    assert assess(trials, resamples=10).flagged == ()
    one = trials.frame["observer"][0]
    own, others = (trials.frame.filter(who) for who in (pl.col("observer") == one, pl.col("observer") != one))
    mixed = pl.concat([own.with_columns(pl.col("response").shuffle(seed=0)), others])  # own answers, wrong images
    found = assess(replace(trials, frame=mixed), resamples=10)
    assert [flagged.participant for flagged in found.flagged] == [one]


def test_kept_are_the_trials_of_the_others(survey):
    out = {one.participant for one in survey.flagged}
    assert out.isdisjoint(survey.kept.frame["observer"])
    assert set(survey.kept.observers["observer"]) == set(survey.participants["participant"]) - out
    assert survey.notices == (f"{len(out)} of 78 people excluded",)


def test_a_participant_in_numbers():
    given = [
        row("a", "x", "1", trial=1, rt=1.0, truth="1", late=True),
        row("a", "d1", "abstain", trial=2, rt=2.0, role="distractor", expected="abstain", clear=True),
        row("a", "d2", "4", trial=3, rt=9.0, role="distractor", clear=False),  # any answer will do
        row("a", "g", "1", trial=4, rt=3.0, role="gold", expected="7"),
        row("a", "x", "1", trial=5, rt=4.0, role="repeat", repeat_of=1, finished=True),
        row("a", "y", None, trial=6, rt=None),
        row("a", "w", "2", trial=7, role="warmup"),
    ]
    facts = assess(trials_of(given), resamples=10).participants.row(0, named=True)
    assert (facts["trials"], facts["missed"], facts["finished"], facts["median_rt"]) == (6, 1, True, 3.0)
    assert (facts["distractors_passed"], facts["distractors_failed"]) == (1, 0)
    assert (facts["gold_passed"], facts["gold_failed"]) == (0, 1)
    assert (facts["repeats"], facts["repeats_same"], facts["late"]) == (1, 1, 1)
    assert (facts["longest_run"], facts["commonest_share"]) == (2, 0.6)
    assert (facts["excluded"], facts["reasons"]) == (False, [])


@pytest.mark.parametrize(
    ("answer", "clear", "out"),
    [("abstain", True, False), ("3", True, True), ("3", False, False), (None, True, False)],  # a miss is not wrong
)
def test_only_a_wrong_answer_to_a_clear_distractor_drops(answer, clear, out):
    quality = assess(
        trials_of([row("a", "d", answer, role="distractor", expected="abstain", clear=clear)]), resamples=10
    )
    assert quality.participants["excluded"].to_list() == [out]
    assert reasons(quality, "a") == (("1 wrong on clear distractors (trial 1: 3 instead of abstain)",) if out else ())


def test_a_failed_attention_check_drops():
    rows = [
        row(who, "c", said, role="check", expected="a" * 64, truth="a" * 64, options=["b" * 64, "a" * 64])
        for who, said in (("good", "a" * 64), ("bad", "b" * 64))
    ]
    quality = assess(trials_of(rows, space=None), resamples=10)
    assert [one.participant for one in quality.flagged] == ["human:bad"]
    assert "1 attention checks failed" in quality.flagged[0].reasons[0]


@pytest.mark.parametrize(("seconds", "out"), [(0.19, True), (0.21, False)])
def test_answers_too_fast_to_have_looked(seconds, out):
    rows = [row("a", f"i{i}", "3", trial=i, rt=rt) for i, rt in enumerate([seconds, 5.0, 0.01])]
    quality = assess(trials_of(rows), resamples=10)
    assert quality.participants["excluded"].to_list() == [out]
    assert ("too fast to have looked" in "".join(reasons(quality, "a"))) == out


@pytest.mark.parametrize(("wrong", "out"), [(3, False), (7, True)])
def test_gold_images_allow_for_slips(wrong, out):
    """A hundred others are never wrong. By the binomial with 6 % slips, 3 of 10 have p = .02 and 7 of 10 p = 3e-7."""
    rows = [row(f"o{p}", f"g{i}", str(i), trial=i, role="gold", expected=str(i)) for p in range(100) for i in range(10)]
    said = ["abstain" if i < wrong else str(i) for i in range(10)]
    rows += [row("a", f"g{i}", x, trial=i, role="gold", expected=str(i)) for i, x in enumerate(said)]
    told = reasons(assess(trials_of(rows), resamples=10), "a")
    assert any(f"{wrong} of 10 gold images wrong" in reason for reason in told) == out


def consistent(same, pairs, others=30):
    """A participant with `same` of `pairs` repeats alike, among others who all agree."""
    rows = [row(f"o{p}", f"i{i}", str(i % 7), trial=i + 1) for p in range(others) for i in range(pairs)]
    rows += [row("a", f"i{i}", str(i % 7), trial=i + 1) for i in range(pairs)]
    again = [str(i % 7) if i < same else "9" for i in range(pairs)]
    rows += [
        row("a", f"i{i}", said, trial=pairs + i + 1, role="repeat", repeat_of=i + 1) for i, said in enumerate(again)
    ]
    return assess(trials_of(rows), resamples=10)


@pytest.mark.parametrize(
    ("same", "pairs", "out"), [(0, 2, False), (1, 2, False), (4, 8, False), (2, 8, True), (0, 6, True)]
)
def test_repeats_answered_less_alike_than_strangers_do(same, pairs, out):
    """Two repeats say little: two slips in four showings happen to one good person in seventy."""
    told = " ".join(reasons(consistent(same, pairs), "a"))
    assert ("repeated images answered alike" in told) == out


def test_the_timid_are_kept():
    """Somebody who refuses every second image that the others name is no same-key presser, however many there are."""
    rows = [row(f"o{p}", f"i{i}", str(i % 10), trial=i + 1) for p in range(20) for i in range(400)]
    rows += [row("timid", f"i{i}", "abstain" if i % 2 else str(i % 10), trial=i + 1) for i in range(400)]
    assert assess(trials_of(rows), resamples=10).flagged == ()


def test_always_the_same_side_is_told_by_its_place():
    """The chosen stimuli differ from task to task; the side does not."""
    rng = np.random.default_rng(0)
    rows = []
    for person, task in product([*map(str, range(12)), "lefty"], range(40)):
        options = [f"t{task}", f"s{task}"][:: rng.choice([1, -1])]
        said = options[0] if person == "lefty" else f"t{task}" if rng.random() < 0.8 else f"s{task}"
        rows.append(row(person, f"k{task}", said, trial=task + 1, truth=f"t{task}", options=options))
    quality = assess(trials_of(rows, space=None), resamples=10)
    assert [one.participant for one in quality.flagged] == ["human:lefty"]
    assert "'option 1' 40 times of 40" in quality.flagged[0].reasons[0]


def test_a_side_is_no_reason_where_the_others_choose_it_too():
    rows = [
        row(f"p{p}", f"k{i}", f"t{i}", trial=i + 1, truth=f"t{i}", options=[f"t{i}", f"s{i}"])
        for p in range(8)
        for i in range(60)
    ]
    assert assess(trials_of(rows, space=None), resamples=10).flagged == ()


def test_nobody_is_among_their_own_others():
    """a says 1, b says 2, three times each. The others of a never say 1: half given up gives 2 x .5^3 = .25."""
    rows = sheet(["111", "222"])
    assert len(assess(trials_of(rows), rules=Rules(error=0.3), resamples=10).flagged) == 2
    assert assess(trials_of(rows), rules=Rules(error=0.2), resamples=10).flagged == ()


def test_a_lone_curator_who_keeps_everything_is_kept():
    rows = [row("a", f"i{i}", "keep", trial=i + 1) for i in range(200)]
    assert assess(trials_of(rows, space=None), resamples=10).flagged == ()
    both = rows + [row("b", f"i{i}", "keep" if i % 50 else "reject", trial=i + 1) for i in range(200)]
    assert assess(trials_of(both, space=None), resamples=10).flagged == ()


def test_one_answer_an_image_gives_no_reason():
    """LAION-C's design: nobody shares an image; a favourite guess is not held against anybody."""
    rng = np.random.default_rng(0)
    favourite = {"a": "3", "b": "5", "c": "7"}
    rows = [
        row(who, f"{who}{i}", guess if rng.random() < 0.4 else str(rng.integers(10)), trial=i + 1)
        for who, guess in favourite.items()
        for i in range(600)
    ]
    assert assess(trials_of(rows), resamples=10).flagged == ()


def test_simulated_people_are_judged_apart():
    """Two simulated pressers agree with each other; among thirty people they would be found."""
    people = sheet(["0123456789" * 4] * 30)
    quality = assess(trials_of(people + sheet(["3" * 40] * 2, kind="simulated")), resamples=10)
    assert quality.flagged == ()
    assert quality.participants["group"].to_list() == ["people"] * 30 + ["simulated people"] * 2
    assert {one.observer for one in quality.agreement} == {"people", "simulated people"}
    assert "separately" in quality.notices[-1]
    alone = assess(trials_of(people), resamples=10)
    assert [one for one in quality.agreement if one.observer == "people"] == list(alone.agreement)
    pressers = [{**r, "observer": f"human:x{r['session']}"} for r in sheet(["3" * 40] * 2)]
    assert len(assess(trials_of(people + pressers), resamples=10).flagged) == 2


def test_what_is_stored_is_json_with_the_rules(survey):
    told = json.loads(survey.to_json())
    assert told["rules"] == asdict(Rules())
    assert told["seed"] == 0
    assert len(told["participants"]) == 78
    assert told["flagged"][0]["reasons"]
    lines = survey.to_csv().splitlines()
    assert lines[0].startswith("participant,group,trials,missed")
    assert len(lines) == 79


def test_the_same_seed_gives_the_same_numbers():
    trials = trials_of(sheet(["0123", "0023", "0111"]))
    assert assess(trials, resamples=50, seed=3).to_json() == assess(trials, resamples=50, seed=3).to_json()


@pytest.mark.parametrize("kind", ["model", "judge"])
def test_without_people_there_is_nothing_to_judge(kind):
    with pytest.raises(InvalidInput, match="no answers of people or simulated people; collect some"):
        assess(trials_of([row("a", "i", "3", kind=kind)]))


def test_what_is_said_besides_must_be_json():
    with pytest.raises(InvalidInput, match="must hold JSON objects"):
        assess(trials_of([{**row("a", "i", "3"), "extra": "{role: test"}]))


@pytest.mark.parametrize("bad", [{"distractors": 0}, {"checks": 0}, {"error": 1}, {"slips": -0.1}, {"seconds": -1}])
def test_impossible_rules_are_refused(bad):
    with pytest.raises(InvalidInput, match="got"):
        Rules(**bad)


@given(st.lists(st.floats(0, 1), max_size=8), st.integers(0, 8))
def test_sums_of_unequal_coins(shares, count):
    """Against adding up every outcome."""
    outcomes = list(product([0, 1], repeat=len(shares)))
    chances = [np.prod([p if hit else 1 - p for p, hit in zip(shares, hits, strict=True)]) for hits in outcomes]
    least = sum(c for c, hits in zip(chances, outcomes, strict=True) if sum(hits) >= count)
    most = sum(c for c, hits in zip(chances, outcomes, strict=True) if sum(hits) <= count)
    assert probability_at_least(np.array(shares), count) == pytest.approx(least, abs=1e-12)
    assert probability_at_most(np.array(shares), count) == pytest.approx(most, abs=1e-12)


def test_equal_coins_are_scipys_binomial():
    assert probability_at_most(np.full(20, 0.3), 4) == pytest.approx(stats.binom.cdf(4, 20, 0.3), rel=1e-12)


@given(st.integers(1, 40), st.floats(0.05, 0.95), st.integers(0, 40))
def test_the_bound_of_a_mean_lies_above_the_binomial(n, expected, hits):
    hits = min(hits, n)
    assert mean_bound(hits / n, expected, n) >= stats.binom.cdf(hits, n, expected) - 1e-12


def test_the_bound_of_a_run_lies_above_what_happens():
    rng = np.random.default_rng(0)
    shares = rng.uniform(0.2, 0.7, 12)
    hits = rng.random((4000, 12)) < shares
    long = np.lib.stride_tricks.sliding_window_view(hits, 5, axis=1).all(axis=2).any(axis=1).mean()
    assert 0 < long <= run_bound(shares, 5)


@given(st.lists(st.sampled_from("ab"), max_size=12))
def test_the_longest_run(values):
    length, start = longest_run(values)
    assert len(set(values[start : start + length])) <= 1
    assert all(len(set(values[i : i + length + 1])) > 1 for i in range(len(values) - length))
