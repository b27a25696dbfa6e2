"""The verdict: which model is closest to people, by how much, whether that may be chance; and when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

import cosight
from cosight.statistics.rows import Row, Scores
from cosight.statistics.verdict import closest_model, ranked_models, verdict_text
from tests.scoring.made import answered, observers, trials

EC, DISTANCE = "error_consistency", "hellinger"


def value(observer, number, against="people", **more):
    low, high = (None, None) if number is None else (number - 0.05, number + 0.05)
    facts = {"measure": EC, "value": number, "low": low, "high": high, "n": 90}
    return Row(observer=observer, against=against, **{**facts, **more})


def difference(a, b, number, p, **more):
    low, high = number - 0.02, number + 0.02
    return value(a, number, b, statistic="difference", low=low, high=high, p=p, p_adjusted=p, **more)


def rank(observer, number, high, **more):
    return value(observer, number, statistic="rank", low=1.0, high=high, **more)


def scores(*rows, kinds=None, measure=(EC,)):
    names = {row.observer for row in rows if row.observer not in ("people", "simulated people", "models", "gold")}
    kinds = {name: "human" if name.startswith("human:") else "model" for name in names} | (kinds or {})
    return Scores(tuple(rows), {"measure": list(measure), "confidence": 0.95, "by": []}, (), kinds)


PEOPLE = (value("people", 0.4), value("human:1", 0.4), value("human:2", 0.4))
TWO = (*PEOPLE, value("a", 0.1), value("b", 0.3))


def test_the_closest_is_named_with_its_lead_and_its_share():
    share = value("b", 0.75, statistic="normalised", low=0.6, high=0.9)
    text = verdict_text(
        scores(*TWO, share, difference("a", "b", -0.2, 0.004), rank("b", 1.0, 1.0), rank("a", 2.0, 2.0))
    )
    assert text == (
        "b is closest to people: EC 0.300 [0.250, 0.350], 75% [60%, 90%] of people's agreement with each other "
        "(0.400 [0.350, 0.450]). The next, a (0.100), is behind by 0.200 [0.180, 0.220] (p = .004): unlikely to be "
        "chance."
    )


def test_an_agreement_that_may_be_zero_has_no_shares():
    share = value("b", 7.5, statistic="normalised", low=-60, high=90)
    rows = value("people", 0.04, low=-0.01, high=0.09), value("a", 0.1), value("b", 0.3), share
    text = verdict_text(scores(*rows, kinds={"human:1": "human"}))
    assert text.startswith(
        "b is closest to people: EC 0.300 [0.250, 0.350]; people agree with each other by 0.040 [-0.010, 0.090]."
    )


def test_a_difference_in_either_order_is_the_closest_less_the_next():
    rows = difference("a", "b", -0.2, 0.01), difference("b", "a", 0.2, 0.01)
    one, other = (closest_model(scores(*TWO, row)) for row in rows)
    assert (one.difference.observer, one.difference.against) == ("b", "a")
    assert (one.difference.value, one.difference.low, one.difference.high) == pytest.approx((0.2, 0.18, 0.22))
    assert one.difference.value == other.difference.value
    assert one.certain is other.certain is True


def test_what_may_be_chance_is_called_so_with_the_ranks_that_fit():
    three = (*TWO, value("c", 0.29), rank("b", 1.0, 3.0), rank("c", 2.0, 3.0), rank("a", 3.0, 3.0))
    text = verdict_text(scores(*three, difference("b", "c", 0.01, 0.6)))
    assert "The next, c (0.290), is behind by 0.010 [-0.010, 0.030] (p = .6): that may be chance. " in text
    assert "Rank 1 to 3 of 3 fits b." in text


def test_p_at_the_resolution_of_the_resamples_is_an_upper_bound():
    row = difference("b", "a", 0.2, 0.002, flags=("p_at_resolution",))
    assert "(p <= .002): unlikely" in verdict_text(scores(*TWO, row))


def test_ties_share_the_first_place():
    tied = scores(*PEOPLE, value("a", 0.3), value("b", 0.3), value("c", 0.1))
    assert verdict_text(tied) == "2 models are equally close to people (a, b): EC 0.300 [0.250, 0.350]."
    ranks = rank("a", 1.5, 2.0), rank("b", 1.5, 2.0), rank("c", 3.0, 3.0)
    ranked = scores(*tied.rows, *ranks, difference("a", "b", 0.0, 1.0))
    assert [row.observer for row in closest_model(ranked).tied] == ["a", "b"]
    assert closest_model(ranked).certain is False
    many = scores(*PEOPLE, *(value(name, 0.3) for name in "abcde"))
    assert verdict_text(many).startswith("5 models are equally close to people (a, b, c and 2 more): EC 0.300")


def test_of_a_distance_the_smaller_is_closer():
    rows = value("a", 0.1), value("b", 0.3), difference("a", "b", -0.2, 0.01)
    rows = [replace(row, measure=DISTANCE) for row in rows]
    text = verdict_text(scores(*rows, measure=[DISTANCE]))
    assert text.startswith("a is closest to people: hellinger 0.100")
    assert "The next, b (0.300), is behind by 0.200 [0.180, 0.220] (p = .01): unlikely to be chance." in text


def test_one_model_has_nobody_to_be_ahead_of():
    text = verdict_text(scores(*PEOPLE, value("a", 0.1)))
    assert text == "a is the only model with a value: EC 0.100 [0.050, 0.150]."
    assert closest_model(scores(*PEOPLE, value("a", 0.1))).certain is None


def test_without_models_people_are_reported():
    text = verdict_text(scores(*PEOPLE))
    assert text == "There are no models among these observers. People agree with each other: EC 0.400 [0.350, 0.450]."


def test_without_people_there_is_no_closest():
    assert verdict_text(scores(value("a", 0.1, "b"), value("b", 0.1, "a"))).startswith("There are no people among")


def test_undefined_values_are_counted_or_explained():
    lost = value("c", None, note="undefined: no common trials (each of 2 pairs)", flags=("undefined",))
    assert verdict_text(scores(*TWO, lost)).endswith("EC of c is undefined.")
    assert verdict_text(scores(*PEOPLE, lost)) == (
        "EC of every model with people is undefined: no common trials (each of 2 pairs)."
    )


def test_without_an_interval_of_the_lead_the_ranks_decide():
    assert closest_model(scores(*TWO, rank("b", 1.0, 1.0), rank("a", 2.0, 2.0))).certain is True
    assert closest_model(scores(*TWO, rank("b", 1.0, 2.0), rank("a", 2.0, 2.0))).certain is False
    unknown = scores(*TWO)
    assert closest_model(unknown).certain is None
    assert "it is unknown whether that is chance" in verdict_text(unknown)


def test_models_on_different_stimuli_are_said_to_be():
    text = verdict_text(scores(*PEOPLE, value("a", 0.1, n=30), value("b", 0.3)))
    assert "Models share 30 to 90 stimuli with people, so they are not compared on the same stimuli." in text


def test_real_people_come_before_simulated_ones():
    both = scores(*TWO, value("a", 0.9, "simulated people"), value("b", 0.2, "simulated people"))
    assert closest_model(both).people == "people"
    assert closest_model(both).ranked[0].observer == "b"


def test_the_mean_over_groups_decides():
    groups = [(("condition", name),) for name in ("x", "y", "*")]
    numbers = {"a": (0.9, 0.1, 0.5), "b": (0.1, 0.5, 0.3)}
    rows = [
        value(name, number, group=group)
        for name in numbers
        for group, number in zip(groups, numbers[name], strict=True)
    ]
    assert verdict_text(scores(*rows)).startswith("Mean over condition: a is closest to people: EC 0.500")
    assert [row.observer for row in ranked_models(scores(*rows), EC, groups[1])] == ["b", "a"]


def test_other_measures_are_named_where_they_decide_otherwise():
    ma = "misclassification_agreement"
    both = scores(*TWO, value("a", 0.3, measure=ma), value("b", 0.1, measure=ma), measure=[EC, ma])
    assert verdict_text(both).endswith("By MA the closest is a, which may be chance.")
    assert verdict_text(both, EC) == verdict_text(both)
    assert verdict_text(both, ma).startswith("a is closest to people: MA 0.300")


def test_without_a_measure_of_two_observers_there_is_no_verdict():
    rows = [value("a", 0.5, None, measure="accuracy"), value("human:1", 0.6, None, measure="accuracy")]
    assert closest_model(scores(*rows, measure=["accuracy"])) is None
    assert verdict_text(scores(*rows, measure=["accuracy"])) == ""


# -------------------------------------------------------------------------------------------------- from comparisons


def compared(**counts):
    return cosight.compare(trials(answered(observers(**counts), skill=0.6)), measure=["ec"], resamples=40)


def test_of_simulated_people_the_same_is_known_as_of_real_ones_and_it_says_simulated():
    real, simulated = compared(people=4, models=3), compared(simulated=4, models=3)
    one, other = closest_model(real), closest_model(simulated)
    assert (one.people, other.people) == ("people", "simulated people")
    for verdict in (one, other):
        assert None not in (verdict.agreement, verdict.share, verdict.difference, verdict.rank)
        assert verdict.difference.value == pytest.approx(verdict.ranked[0].value - verdict.ranked[1].value)
        assert verdict.share.value == pytest.approx(verdict.ranked[0].value / verdict.agreement.value)
    assert " is closest to simulated people: " in verdict_text(simulated)
    derived = [row for row in simulated.rows if row.statistic in ("difference", "rank", "normalised")]
    assert {row.statistic for row in derived} == {"difference", "rank", "normalised"}
    assert all("simulated" in row.flags for row in derived)


def test_with_real_people_present_models_are_ranked_by_them_alone():
    mixed = compared(people=4, simulated=4, models=2)
    ranks = [row for row in mixed.rows if row.statistic in ("rank", "normalised")]
    assert {row.against for row in ranks} == {"people"}
    assert not any("simulated" in row.flags for row in mixed.rows if row.statistic == "difference")


@pytest.mark.parametrize(
    "counts", [{"people": 1, "models": 2}, {"people": 3}, {"models": 3}, {"people": 2, "models": 1}]
)
def test_every_kind_of_crowd_has_words(counts):
    assert verdict_text(compared(**counts)).endswith(".")
