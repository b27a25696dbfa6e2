"""Abstention: Table 2 item by item, VisAlign's published totals, the sweep against the score, risk and coverage."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, astuple
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve

from cosight.errors import InvalidInput
from cosight.measures import mean_abstention
from cosight.measures.abstention import (
    ABSTAIN_ACTIONS,
    ACT_ACTIONS,
    Action,
    action_share,
    reliability_score,
    reliability_sweep,
    with_abstention,
)
from cosight.measures.declarations import measures
from cosight.measures.selective import (
    risk_coverage,
)

NAN = math.nan
GRID = np.linspace(0, 1, 6)  # few levels, so that ties with gamma and lam are drawn often
LEVELS = st.sampled_from(GRID.tolist())
law = settings(deadline=None)


def score(data, **options):
    return reliability_score(data.probabilities, data.abstention, data.original, data.group, data.gold, **options)


def sweep(data, **options):
    return reliability_sweep(data.probabilities, data.abstention, data.original, data.group, data.gold, **options)


@st.composite
def trials(draw, least=1):
    """Random stimuli of every group and answers to them: ties, hard refusals and pictures of no class included."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(least, 25)), draw(st.integers(1, 4))
    p = rng.integers(1, 4, (n, k)).astype(float)
    gold = rng.integers(1, 4, (n, k + 1)) ** 2.0
    group = rng.choice(["must-act", "must-abstain", "uncertain"], n)
    original = np.where((group == "must-abstain") & (rng.random(n) < 0.5), -1, rng.integers(0, k, n))
    abstention = rng.choice(GRID, n)
    p[(abstention == 1) & (rng.random(n) < 0.5)] = NAN
    return SimpleNamespace(
        probabilities=p / p.sum(axis=1, keepdims=True),
        abstention=abstention,
        original=original,
        group=group,
        gold=gold / gold.sum(axis=1, keepdims=True),
    )


def table_2(p, a, original, group, gold, gamma, lam):
    """One stimulus' action, read off Table 2 of Lee et al. 2023 with plain comparisons."""
    act = group == "must-act" or (group == "uncertain" and gold[original] > lam)
    if a > gamma or np.isnan(p).all():
        return Action.ACT_ABSTAINED if act else Action.ABSTAIN_ABSTAINED
    predicted = list(p).index(max(p))
    if act:
        return Action.ACT_CORRECT if predicted == original else Action.ACT_INCORRECT
    return Action.ABSTAIN_ORIGINAL if group == "uncertain" and predicted == original else Action.ABSTAIN_OTHER


def visalign(correct=0, incorrect=0, other=0):
    """VisAlign's composition, 300 + 400 + 200 of which 100 recognised; refused but for the answers asked for."""
    group = np.repeat(["must-act", "must-abstain", "uncertain"], [300, 400, 200])
    gold = np.zeros((900, 11))
    gold[:800, 0] = gold[800:, 10] = 1  # the first 100 Uncertain are seen by all, the last 100 by none
    act = np.flatnonzero((group == "must-act") | ((group == "uncertain") & (gold[:, 0] > 0.5)))
    rest = np.setdiff1d(np.arange(900), act)
    predicted, abstention = np.zeros(900, dtype=int), np.ones(900)
    predicted[act[correct:]] = predicted[rest] = 3
    abstention[act[: correct + incorrect]] = abstention[rest[:other]] = 0
    return SimpleNamespace(
        probabilities=np.eye(10)[predicted],
        abstention=abstention,
        original=np.where(group == "must-abstain", -1, 0),
        group=group,
        gold=gold,
    )


@pytest.mark.parametrize(
    ("answers", "wrong", "totals"),
    [  # RS_0, RS_450, RS_900 as printed in Lee et al. 2023, Table 3
        ({}, 0, (500, 500, 500)),  # ViT, Deep Ensemble: what always abstaining gives
        ({"correct": 100, "incorrect": 260, "other": 287}, 547, (313, -245837, -491987)),  # ViT, SP
        ({"correct": 68, "other": 11}, 11, (557, -4393, -9343)),  # Swin Transformer, Deep Ensemble
        ({"correct": 2, "incorrect": 0, "other": 18}, 18, (484, -7616, -15716)),  # ViT, MD
    ],
)
def test_published_totals(answers, wrong, totals):
    data = visalign(**answers)
    results = [score(data, cost=cost) for cost in (0, 450, 900)]
    assert tuple(result.value for result in results) == totals
    assert [result.wrong for result in results] == [wrong] * 3
    assert results[0].n == 900


CASES = [  # group, share of people for the original label (class 0), predicted class, action, score at cost 7
    ("must-act", NAN, 0, Action.ACT_CORRECT, 1),
    ("must-act", NAN, 1, Action.ACT_INCORRECT, -7),
    ("must-act", NAN, None, Action.ACT_ABSTAINED, 0),
    ("must-abstain", NAN, 0, Action.ABSTAIN_OTHER, -7),  # the original label is spared on Uncertain stimuli only
    ("must-abstain", NAN, 1, Action.ABSTAIN_OTHER, -7),
    ("must-abstain", NAN, None, Action.ABSTAIN_ABSTAINED, 1),
    ("uncertain", 0.51, 0, Action.ACT_CORRECT, 1),
    ("uncertain", 0.51, 1, Action.ACT_INCORRECT, -7),
    ("uncertain", 0.51, None, Action.ACT_ABSTAINED, 0),
    ("uncertain", 0.5, 0, Action.ABSTAIN_ORIGINAL, 0),  # exceeds lambda: .5 itself does not
    ("uncertain", 0.5, 1, Action.ABSTAIN_OTHER, -7),
    ("uncertain", 0.5, None, Action.ABSTAIN_ABSTAINED, 1),
]


@pytest.mark.parametrize(("group", "share", "predicted", "action", "points"), CASES)
def test_every_row_of_table_2(group, share, predicted, action, points):
    p = [[NAN, NAN]] if predicted is None else [np.eye(2)[predicted]]
    result = reliability_score(p, [float(predicted is None)], [0], [group], [[share, 0, 1 - share]], cost=7)
    assert result.actions.tolist() == [action]
    assert result.items.tolist() == [points] == [result.value]
    assert getattr(result.counts, action.name.lower()) == 1 == sum(astuple(result.counts))
    assert result.wrong == (points < 0)


def test_shares_are_within_their_half():
    group, share, predicted, _, _ = zip(*CASES, strict=True)
    p = [[NAN, NAN] if code is None else np.eye(2)[code] for code in predicted]
    gold = [[s, 0, 1 - s] for s in share]
    result = reliability_score(p, [float(code is None) for code in predicted], [0] * 12, group, gold)
    assert astuple(result.counts) == (2, 2, 2, 1, 3, 2)
    assert astuple(result.shares) == pytest.approx((2 / 6, 2 / 6, 2 / 6, 1 / 6, 3 / 6, 2 / 6))


def test_shares_of_an_empty_half_are_undefined():
    result = reliability_score([[1, 0]], [0], [0], ["must-act"])
    np.testing.assert_array_equal(astuple(result.shares), [1, 0, 0, NAN, NAN, NAN])
    np.testing.assert_array_equal(reliability_sweep([[1, 0]], [0], [0], ["must-act"]).shares[0, 3:], [NAN] * 3)


@law
@given(data=trials(), gamma=LEVELS, lam=LEVELS, cost=st.floats(0, 900))
def test_against_table_2_item_by_item(data, gamma, lam, cost):
    result = score(data, gamma=gamma, lam=lam, cost=cost)
    rows = zip(data.probabilities, data.abstention, data.original, data.group, data.gold, strict=True)
    assert result.actions.tolist() == [table_2(*row, gamma, lam) for row in rows]
    assert result.value == pytest.approx(result.items.sum())
    assert (result.gamma, result.lam, result.cost) == (gamma, lam, cost)


@law
@given(data=trials(), gamma=LEVELS, cost=st.integers(0, 1000))
def test_cost_only_multiplies_the_wrong(data, gamma, cost):
    free, dear = score(data, gamma=gamma), score(data, gamma=gamma, cost=cost)
    assert dear.value == free.value - cost * free.wrong
    assert -cost * free.n <= dear.value <= free.n


@law
@given(data=trials(), seed=st.integers(0, 1000))
def test_order_and_class_names_do_not_matter(data, seed):
    rng = np.random.default_rng(seed)
    n, k = data.probabilities.shape
    data.probabilities += np.arange(k) * 1e-6  # ties depend on the order of the classes, so break them
    order, new = rng.permutation(n), rng.permutation(k)
    renamed = np.append(np.argsort(new), -1)  # the code -1 stays
    other = reliability_score(
        data.probabilities[order][:, new],
        data.abstention[order],
        renamed[data.original[order]],
        data.group[order],
        data.gold[order][:, [*new, k]],
    )
    np.testing.assert_array_equal(other.actions, score(data).actions[order])


@law
@given(
    data=trials(), gammas=st.lists(LEVELS | st.floats(0, 1), min_size=1, max_size=6), lam=LEVELS, cost=st.floats(0, 9)
)
def test_sweep_is_the_score_at_each_gamma(data, gammas, lam, cost):
    swept = sweep(data, gammas=gammas, lam=lam, cost=cost)
    single = [score(data, gamma=gamma, lam=lam, cost=cost) for gamma in gammas]
    np.testing.assert_array_equal(swept.gamma, gammas)
    np.testing.assert_array_equal(swept.score, [s.value for s in single])
    np.testing.assert_array_equal(swept.wrong, [s.wrong for s in single])
    np.testing.assert_array_equal(swept.counts, [astuple(s.counts) for s in single])
    np.testing.assert_array_equal(swept.shares, [astuple(s.shares) for s in single])


@law
@given(data=trials(), gamma=st.floats(0, 1))
def test_default_gammas_are_every_outcome(data, gamma):
    swept = sweep(data, cost=2)
    assert score(data, gamma=gamma, cost=2).value in swept.score
    assert swept.value >= score(data, gamma=gamma, cost=2).value
    assert score(data, gamma=swept.best, cost=2).value == swept.value
    assert (np.diff(swept.gamma) > 0).all()


def test_abstains_strictly_above_gamma_and_ties_go_to_the_first_class():
    p, group = [[0.4, 0.4, 0.2]] * 2, ["must-act"] * 2
    result = reliability_score(p, [0.5, 0.5 + 1e-9], [0, 0], group)
    assert result.actions.tolist() == [Action.ACT_CORRECT, Action.ACT_ABSTAINED]
    assert reliability_score(p, [0, 0], [0, 1], group).items.tolist() == [1, 0]


def test_a_hard_refusal_refuses_at_every_gamma():
    result = reliability_score([[NAN, NAN], [1, 0]], [1, 1], [0, 0], ["must-act"] * 2, gamma=1)
    assert result.actions.tolist() == [Action.ACT_ABSTAINED, Action.ACT_CORRECT]
    assert reliability_sweep([[NAN, NAN]], [1], [0], ["must-act"]).counts[:, Action.ACT_ABSTAINED].tolist() == [1, 1]


def test_gold_is_read_on_uncertain_rows_only():
    gold = [[NAN] * 3, [0.9, 0.0, 0.1]]
    result = reliability_score([[1, 0]] * 2, [0, 0], [0, 0], ["must-abstain", "uncertain"], gold)
    assert result.actions.tolist() == [Action.ABSTAIN_OTHER, Action.ACT_CORRECT]


def test_without_items_the_score_is_undefined():
    result = reliability_score(np.empty((0, 3)), [], [], [])
    assert math.isnan(result.value)
    assert (result.n, result.wrong, result.items.shape) == (0, 0, (0,))
    assert np.isnan(astuple(result.shares)).all()
    swept = reliability_sweep(np.empty((0, 3)), [], [], [])
    assert np.isnan(swept.score).all()
    assert math.isnan(swept.value)
    assert math.isnan(swept.best)


GOOD = {"probabilities": [[0.5, 0.5]], "abstention": [0.2], "original": [0], "group": ["must-act"]}


@pytest.mark.parametrize("function", [reliability_score, reliability_sweep])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": ["uncertain"]}, "got 1 without; pass gold"),
        ({"group": ["uncertain"], "gold": [[0.5, 0.5]]}, r"gold must have shape \(1, 3\), abstain last, got \(1, 2\)"),
        ({"group": ["uncertain"], "gold": [[0.5, 0.5, NAN]]}, "gold must not be negative, got nan"),
        ({"group": ["uncertain"], "gold": [[0.5, 0.5, 0.5]]}, "gold must sum to one"),
        ({"group": ["uncertain"], "original": [-1], "gold": [[1, 0, 0]]}, "got it on uncertain"),
        ({"original": [-1]}, "original may be -1 on must-abstain only, got it on must-act"),
        ({"original": [2]}, "original must be -1 to 1, got 2"),
        ({"original": [-2], "group": ["must-abstain"]}, "original must be -1 to 1, got -2"),
        ({"original": [0.0]}, "original must be integer codes, got"),
        ({"original": ["tiger"]}, "original must be integer codes"),
        ({"original": [0, 0]}, "one length"),
        ({"group": ["Must-Act"]}, "must-act, must-abstain, uncertain, got 'Must-Act'"),
        ({"group": [None]}, "got 'None'"),
        ({"group": ["must-act"] * 2}, "one length"),
        ({"abstention": [1.2]}, "abstention must be 0 to 1, got 1.2"),
        ({"abstention": [-0.1]}, "abstention must be 0 to 1, got -0.1"),
        ({"abstention": [NAN]}, "abstention must be finite"),
        ({"abstention": [0.1, 0.2]}, "one length"),
        ({"probabilities": [[NAN, NAN]]}, "hard refusal with abstention 1, got 0.2"),
        ({"probabilities": [[0.5, NAN]], "abstention": [1]}, "probabilities must not be negative, got nan"),
        ({"probabilities": [[0.5, 0.4]]}, "probabilities must sum to one, got 0.9"),
        ({"probabilities": [0.5, 0.5]}, r"shape \(n, classes\), got \(2,\)"),
        ({"lam": 1.5}, "lam must be 0 to 1, got 1.5"),
        ({"cost": -1}, "cost must be finite and not negative, got -1"),
        ({"cost": math.inf}, "cost must be finite"),
    ],
)
def test_bad_input_is_refused(function, change, message):
    function(**GOOD)
    with pytest.raises(InvalidInput, match=message):
        function(**GOOD | change)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, NAN])
def test_bad_gamma_is_refused(gamma):
    with pytest.raises(InvalidInput, match="gamma must be"):
        reliability_score(**GOOD, gamma=gamma)
    with pytest.raises(InvalidInput, match="gammas must be"):
        reliability_sweep(**GOOD, gammas=[0.5, gamma])


def test_no_gamma_at_all_is_refused():
    with pytest.raises(InvalidInput, match="gammas must not be empty"):
        reliability_sweep(**GOOD, gammas=[])


@law
@given(data=trials(least=0))
def test_with_abstention_is_a_distribution_that_keeps_the_ratios(data):
    result = with_abstention(data.probabilities, data.abstention)
    np.testing.assert_array_equal(result[:, -1], data.abstention)
    np.testing.assert_allclose(result.sum(axis=1), 1)
    soft = data.abstention < 1
    rescaled = result[soft, :-1] / result[soft, :-1].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rescaled, data.probabilities[soft])


def test_with_abstention_refuses_what_the_score_refuses():
    with pytest.raises(InvalidInput, match="hard refusal"):
        with_abstention([[NAN, NAN]], [0.9])
    with pytest.raises(InvalidInput, match="one length"):
        with_abstention([[1, 0]], [0.9, 0.1])


def test_registered_under_its_alias():
    assert measures["rs"].function is reliability_score
    assert measures["rs"].symmetric is None


def test_results_are_frozen_and_without_negative_zero():
    result = reliability_score([[0, 1]], [0], [0], ["must-act"])
    assert math.copysign(1, result.items[0]) == 1
    with pytest.raises(FrozenInstanceError):
        result.value = 1.0


# ----------------------------------------------------------------------------------------------------- action shares


@law
@given(trials(), LEVELS, LEVELS)
def test_action_shares_are_those_of_the_reliability_score(data, gamma, lam):
    whole = score(data, gamma=gamma, lam=lam)
    given = data.probabilities, data.abstention, data.original, data.group, data.gold
    found = {action: action_share(*given, action=action, gamma=gamma, lam=lam) for action in Action}
    assert [found[action].value for action in Action] == pytest.approx(list(astuple(whole.shares)), nan_ok=True)
    for half in (ACT_ACTIONS, ABSTAIN_ACTIONS):
        there = np.isin(whole.actions, half)
        for action in half:
            np.testing.assert_array_equal(np.isnan(found[action].items), ~there)
            assert (found[action].items[there] == (whole.actions[there] == action)).all()
        if there.any():
            assert sum(found[action].value for action in half) == pytest.approx(1)


def test_an_action_without_stimuli_to_take_it_on_has_no_share():
    found = action_share([[0.9, 0.1]], [0.1], [0], ["must-act"], action=Action.ABSTAIN_OTHER)
    assert math.isnan(found.value)
    assert found.action is Action.ABSTAIN_OTHER
    assert action_share([[0.9, 0.1]], [0.1], [0], ["must-act"]).value == 1


def aurc_by_hand(abstention, correct):
    """Accept stimuli one threshold at a time; each accepted stimulus adds the risk at its own threshold."""
    total = 0.0
    for own in abstention:
        accepted = [right for a, right in zip(abstention, correct, strict=True) if a <= own]
        total += 1 - sum(accepted) / len(accepted)
    return total / len(abstention)


risk_answers = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


@law
@given(rows=risk_answers)
def test_area_against_brute_force(rows):
    abstention, correct = zip(*rows, strict=True)
    curve = risk_coverage(abstention, correct)
    assert curve.value == pytest.approx(aurc_by_hand(abstention, correct), abs=1e-12)
    assert 0 <= curve.value <= 1
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(1 - np.mean(correct))
    assert curve.threshold.tolist() == sorted(set(abstention))


@law
@given(rows=risk_answers)
def test_curve_against_scikit_learn(rows):
    # with "correct" as the positive class, precision among the accepted is 1 - risk
    abstention, correct = map(np.array, zip(*[*rows, (2, True)], strict=True))  # sklearn warns without a positive
    precision, _, thresholds = precision_recall_curve(correct, -abstention)
    curve = risk_coverage(abstention, correct)
    np.testing.assert_allclose(curve.risk, 1 - precision[:-1][::-1], atol=1e-12)
    np.testing.assert_array_equal(curve.threshold, -thresholds[::-1])
    np.testing.assert_allclose(curve.coverage, [(abstention <= t).mean() for t in curve.threshold])


@law
@given(rows=risk_answers, data=st.data())
def test_only_the_order_of_abstention_matters(rows, data):
    abstention, correct = map(np.array, zip(*rows, strict=True))
    order = data.draw(st.permutations(range(len(rows))))
    plain, bent = risk_coverage(abstention, correct), risk_coverage(np.exp(abstention)[order] - 9, correct[order])
    np.testing.assert_array_equal(plain.risk, bent.risk)
    assert plain.value == pytest.approx(bent.value)


@pytest.mark.parametrize(
    ("abstention", "correct", "area"),
    [
        ([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], 0),  # a perfect observer
        ([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], 1),  # always wrong
        ([0.5] * 4, [1, 0, 0, 0], 0.75),  # nothing to order by: one point, the error rate
        ([0.1, 0.2], [1, 0], 0.25),  # errors last: (0 + 1/2) / 2
        ([0.1, 0.2], [0, 1], 0.75),  # errors first: (1 + 1/2) / 2
        ([], [], NAN),
    ],
)
def test_reference_areas(abstention, correct, area):
    assert risk_coverage(abstention, correct).value == pytest.approx(area, nan_ok=True)


def test_without_items_the_curve_is_empty():
    curve = risk_coverage([], [])
    assert curve.coverage.shape == curve.risk.shape == curve.threshold.shape == (0,)


@pytest.mark.parametrize(
    ("abstention", "correct", "message"),
    [
        ([0.1], [1, 0], "one length, got abstention 1, correct 2"),
        ([NAN], [1], "abstention must be finite"),
        ([0.1], [2], "correct must be true/false"),
        ([[0.1]], [1], "abstention must have 1 axes"),
    ],
)
def test_risk_coverage_refuses_bad_input(abstention, correct, message):
    with pytest.raises(InvalidInput, match=message):
        risk_coverage(abstention, correct)


def test_declared_and_frozen():
    assert measures["aurc"].function is risk_coverage
    assert measures["aurc"].symmetric is None
    with pytest.raises(FrozenInstanceError):
        risk_coverage([0.1], [1]).value = 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.randoms())
def test_mean_abstention_is_the_mean_in_any_order(values, random):
    shuffled = random.sample(values, len(values))
    assert mean_abstention(shuffled).value == pytest.approx(np.mean(values))
    assert 0 <= mean_abstention(values).value <= 1


def test_mean_abstention_without_items_is_undefined():
    assert math.isnan(mean_abstention([]).value)


@pytest.mark.parametrize("bad", [-0.1, 1.5])
def test_mean_abstention_refuses_numbers_outside_0_and_1(bad):
    with pytest.raises(InvalidInput, match=r"abstention must be 0 to 1"):
        mean_abstention([0.5, bad])
