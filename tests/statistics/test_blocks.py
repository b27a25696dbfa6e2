"""Intervals: one code path, held against a plain resampling loop that draws the same stimuli and people."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import cosight
from cosight.measures import (
    class_level_error_similarity,
    draw_people,
    draw_stimuli,
    error_consistency,
    measures,
    misclassification_agreement,
)
from cosight.statistics.blocks import (
    Key,
    empty_block,
    finite_resampled,
    join_blocks,
    make_block,
    mean_over_groups,
    nested_means,
    range_of,
    single_block,
)
from cosight.statistics.blocks import rows_of as block_rows
from cosight.statistics.resampling import random_stream
from cosight.statistics.rows import FLAGS, STATISTICS
from tests.scoring.made import LETTERS, answered, observers, plain_interval, plain_mean, row_of, trials

RESAMPLES, SEED = 40, 3


def share_row(right, n, *, clusters=None, resamples=1000, seed=0, measure="accuracy", group=()):
    """The row of a share of `right` of n trials, resampled one by one."""
    rng = np.random.default_rng(seed)
    samples = rng.binomial(n, right / n, resamples) / n
    block = single_block(group, Key("model:a", None, measure), right / n, samples, n, clusters=clusters)
    return block_rows(block, confidence=0.95, seed=0)[0]


def test_shares_near_the_ends_have_intervals_that_hold_the_truth():
    """Percentiles of resamples hold .97 of 30 trials in 63 %."""
    rows = [share_row(right, 30) for right in range(31)]
    holds = [row.low <= 0.97 <= row.high for row in rows]
    assert 0.92 <= binom.pmf(np.arange(31), 30, 0.97) @ holds <= 0.99
    assert (rows[30].low, rows[30].high) == (pytest.approx(0.05 ** (1 / 30)), 1)
    assert share_row(29, 30, seed=1) == share_row(29, 30, seed=2)  # of independent trials, whatever was drawn


def test_a_share_of_trials_in_clusters_is_worth_fewer_trials():
    alone, clustered = share_row(300, 300), share_row(300, 300, clusters=10)
    assert (alone.low, clustered.low) == (pytest.approx(0.05 ** (1 / 300)), pytest.approx(0.05 ** (1 / 10)))
    rng, yes = np.random.default_rng(0), np.repeat([1.0, 0.0], [20, 10])  # 30 clusters of 10 trials that go one way
    samples = rng.multinomial(30, np.full(30, 1 / 30), size=4000) @ yes / 30
    block = single_block((), Key("model:a", None, "accuracy"), 2 / 3, samples, 300, clusters=30)
    row, whole = block_rows(block, confidence=0.95, seed=0)[0], share_row(20, 30)
    assert (row.low, row.high) == pytest.approx((whole.low, whole.high), abs=0.02)


def test_a_mean_of_shares_may_vary_less_than_as_many_trials():
    """Half of the groups always right, half always wrong: only what varies within groups is uncertain."""
    resampled = 0.5 + np.random.default_rng(0).normal(0, 0.01, 4000)
    key, group = Key("model:a", None, "accuracy"), (("condition", "*"),)
    mean = block_rows(single_block(group, key, 0.5, resampled, 100), confidence=0.95, seed=0)[0]
    pooled = block_rows(single_block((), key, 0.5, resampled, 100), confidence=0.95, seed=0)[0]
    assert mean.high - mean.low == pytest.approx(4 * 0.01, rel=0.05)
    assert pooled.high - pooled.low == pytest.approx(4 * 0.05, rel=0.05)


def test_measures_that_are_shares_say_so():
    shares = {name for name, facts in measures.items() if facts.share}
    assert shares == {
        "accuracy",
        "action_share",
        "answer_share",
        "clustering_share",
        "converged_share",
        "coverage",
        "observed_consistency",
        "refusal_rate",
        "response_agreement",
        "shape_bias",
        "two_alternative_share",
        "unparsed_rate",
    }
    assert all((measures[name].low, measures[name].high) == (0, 1) for name in shares)


class Plain:
    """The loop anyone would write: resample stimuli by index, people by name, recompute, average over pairs."""

    def __init__(self, rows, measure):
        self.measure = measure
        self.kinds = {row["observer"]: row["kind"] for row in rows}
        self.truth = {self.place(row): row["truth"] for row in rows}
        self.said = {(row["observer"], self.place(row)): row["response"] for row in rows}
        self.stimuli = sorted(self.truth)

    @staticmethod
    def place(row):
        return row["experiment"], row["condition"], row["image"], row.get("trial") or 0

    def met(self, observer, places):
        return [p for p in places if (observer, p) in self.said]

    def groups(self, by):
        """Group -> its stimuli, the groups as `compare` writes them."""
        keys = {"experiment": 0, "condition": 1}
        out = {}
        for p in self.stimuli:
            out.setdefault(tuple((name, p[keys[name]]) for name in by), []).append(p)
        return out

    def value(self, one, two, places):
        both = [p for p in places if (one, p) in self.said and (two, p) in self.said]
        a, b, t = [self.said[one, p] for p in both], [self.said[two, p] for p in both], [self.truth[p] for p in both]
        if self.measure == "ec":
            return error_consistency(
                [x == y for x, y in zip(a, t, strict=True)], [x == y for x, y in zip(b, t, strict=True)]
            ).value
        plain = misclassification_agreement if self.measure == "ma" else class_level_error_similarity
        return plain(a, b, t, classes=LETTERS.classes).value

    def drawn_stimuli(self, group, places):
        together = sorted({p[:3] for p in places})  # presentations of a stimulus are drawn together
        rng = random_stream(SEED, "stimuli", str(group))
        for times in draw_stimuli(np.ones(len(together)), RESAMPLES, rng).astype(int):
            often = dict(zip(together, times, strict=True))
            yield [p for p in places for _ in range(often[p[:3]])]

    def leave_out(self, one, two, places):
        """Leave out one group of stimuli at a time, and every two of 14 larger ones (Efron & Stein 1981).

        Returns the influence of each group, and how often each is drawn; only for ungrouped stimuli presented once.
        """
        rng = random_stream(SEED, "jackknife", "()")
        groups = min(100, len(places))
        group = rng.permutation(len(places)) % groups
        drawn = draw_stimuli(np.ones(groups), RESAMPLES, rng)
        value = lambda left_out, many: self.value(  # noqa: E731
            one, two, [p for p, g in zip(places, group, strict=True) if g % many not in left_out]
        )
        without = np.array([value({g}, groups) for g in range(groups)])
        influence = (without.mean() - without) * np.sqrt((groups - 1) / groups)
        joint = []
        for i, j in combinations(range(14), 2):
            joint.append(14 * value(set(), 14) - 13 * (value({i}, 14) + value({j}, 14)) + 12 * value({i, j}, 14))
        of_pairs = np.var(joint) * 13 / 28 / (influence**2).sum()
        return influence * np.sqrt(1 - min(of_pairs, 1) * 2 / 3), drawn

    def drawn_people(self, kind, places):
        experiments = sorted({p[0] for p in places})
        around = [p for p in self.stimuli if p[0] in experiments]
        roster = sorted(o for o, k in self.kinds.items() if k == kind and self.met(o, around))
        there = {o for o in roster if self.met(o, places)}
        if len(roster) < 4:
            return [[o for o in roster if o in there]] * RESAMPLES
        times = draw_people(len(roster), RESAMPLES, random_stream(SEED, "people", *experiments, *roster)).astype(int)
        return [[o for o, n in zip(roster, row, strict=True) for _ in range(n) if o in there] for row in times]

    def pairs_mean(self, people, places):
        """Over pairs of draws that are not the same person."""
        return plain_mean([self.value(a, b, places) for a, b in combinations(people, 2) if a != b])

    def against(self, observer, people, places):
        return plain_mean([self.value(observer, p, places) for p in people if p != observer])

    def samples(self, group, places, observer=None, kind="human"):
        """The deviations over stimuli and over people, added, and the units that their spread is worth."""
        how = self.pairs_mean if observer is None else lambda people, again: self.against(observer, people, again)
        everyone = [o for o in sorted(self.kinds) if self.kinds[o] == kind and self.met(o, places)]
        over_stimuli = np.array([how(everyone, again) for again in self.drawn_stimuli(group, places)])
        over_people = np.array([how(people, places) for people in self.drawn_people(kind, places)])
        drawn = len([o for o in everyone if o != observer])
        a, b = np.nanvar(over_people), np.nanvar(over_stimuli)
        stimuli = len({p[:3] for p in places})
        units = 1 + (a + b) ** 2 / (a**2 / (drawn - 1) + b**2 / (stimuli - 1))
        return over_stimuli + over_people - how(everyone, places), units

    def whole(self, places, observer=None, kind="human"):
        people = sorted(o for o, k in self.kinds.items() if k == kind and self.met(o, places))
        return self.pairs_mean(people, places) if observer is None else self.against(observer, people, places)


def averaged(parts):
    """Means with equal weights, resample by resample, of what is defined, and the fewest units."""
    samples = np.stack([of_part for of_part, _ in parts])
    return np.array([plain_mean(column) for column in samples.T]), min(units for _, units in parts)


def check(row, value, samples):
    of_row, units = samples
    biased = row.measure == "misclassification_agreement"
    ends = plain_interval(of_row, value, min(units, row.clusters), biased=biased)
    ends = np.clip(ends, measures[row.measure].low, measures[row.measure].high)
    assert row.value == pytest.approx(value, abs=1e-9)
    assert (row.low, row.high) == pytest.approx(tuple(ends), abs=1e-9)


PEOPLE_AND_MODELS = observers(people=5, models=2)


@pytest.fixture(scope="module")
def rows():
    return answered(PEOPLE_AND_MODELS, skill=0.5)


@pytest.mark.parametrize("measure", ["ec", "cles"])
def test_pooled_means_match_the_plain_loop(rows, measure):
    plain = Plain(rows, measure)
    found = cosight.compare(trials(rows), measure=[measure], resamples=RESAMPLES, seed=SEED)
    name = cosight.measures.measures.name_of(measure)
    for observer in (None, "model:1", "human:2"):
        value, samples = plain.whole(plain.stimuli, observer), plain.samples((), plain.stimuli, observer)
        row = row_of(found, observer or "people", "people", name)
        assert row.value == pytest.approx(value, abs=1e-9)
        if measure == "ec":  # the n of other measures is a mean over pairs, and a row's n is whole
            check(row, value, samples)


@pytest.mark.parametrize("measure", ["ec", "ma", "cles"])
def test_every_pair_matches_the_plain_loop(measure):
    rows = answered(PEOPLE_AND_MODELS, skill=0.1, stimuli=20)  # so many joint errors that MA is seldom undefined
    plain = Plain(rows, measure)
    found = cosight.compare(trials(rows), measure=[measure], resamples=RESAMPLES, seed=SEED)
    name = cosight.measures.measures.name_of(measure)
    for one, two in [("human:0", "human:4"), ("model:0", "human:1"), ("model:0", "model:1")]:
        value = plain.value(one, two, plain.stimuli)
        if measure == "cles":  # to first order
            influence, drawn = plain.leave_out(one, two, plain.stimuli)
            samples = value + (drawn - 1) @ influence
        else:
            samples = np.array([plain.value(one, two, again) for again in plain.drawn_stimuli((), plain.stimuli)])
        check(row_of(found, one, two, name), value, (samples, np.inf))


def test_groups_and_their_mean_match_the_plain_loop(rows):
    plain = Plain(rows, "ec")
    found = cosight.compare(trials(rows), measure=["ec"], by=["condition"], resamples=RESAMPLES, seed=SEED)
    parts = plain.groups(["condition"])
    values, samples = [], []
    for group, places in parts.items():
        values.append(plain.whole(places))
        samples.append(plain.samples(group, places))
        check(
            row_of(found, "people", "people", "error_consistency", f"condition={group[0][1]}"), values[-1], samples[-1]
        )
    top = row_of(found, "people", "people", "error_consistency", "condition=*")
    check(top, plain_mean(values), averaged(samples))
    assert top.note == "mean over condition: 3 groups"


def nested(plain, observer=None):
    """Over conditions within experiments, then over experiments: experiment -> (value, samples), and the top."""
    inside = {}
    for group, places in plain.groups(["experiment", "condition"]).items():
        inside.setdefault(group[0][1], []).append(
            (plain.whole(places, observer), plain.samples(group, places, observer))
        )
    means = {
        name: (plain_mean([value for value, _ in parts]), averaged([samples for _, samples in parts]))
        for name, parts in inside.items()
    }
    return means, (plain_mean([v for v, _ in means.values()]), averaged([s for _, s in means.values()]))


@pytest.mark.parametrize("observer", [None, "model:0"])
def test_two_nested_keys_match_the_plain_loop(rows, observer):
    found = cosight.compare(
        trials(rows), measure=["ec"], by=["experiment", "condition"], resamples=RESAMPLES, seed=SEED
    )
    means, top = nested(Plain(rows, "ec"), observer)
    name = observer or "people"
    for experiment, (value, samples) in means.items():
        check(
            row_of(found, name, "people", "error_consistency", f"experiment={experiment};condition=*"), value, samples
        )
    check(row_of(found, name, "people", "error_consistency", "experiment=*;condition=*"), *top)


def test_a_preset_matches_the_plain_loop():
    kept = {"contrast": ("c05", "c10"), "rotation": ("90",)}
    everything = {"contrast": ("c05", "c10", "c100"), "rotation": ("0", "90")}
    rows = answered(PEOPLE_AND_MODELS, conditions=everything, skill=0.5)
    found = cosight.compare(trials(rows), preset="model-vs-human", measure=["ec"], resamples=RESAMPLES, seed=SEED)
    plain = Plain([row for row in rows if row["condition"] in kept[row["experiment"]]], "ec")
    check(row_of(found, "people", "people", "error_consistency", "experiment=*;condition=*"), *nested(plain)[1])


def test_presentations_of_a_stimulus_are_drawn_together():
    once = answered(observers(people=4, models=1), conditions={"one": ("x",)}, stimuli=9)
    again = answered(observers(people=4), conditions={"one": ("x",)}, stimuli=9, seed=1)
    rows = [{**row, "trial": 0} for row in once] + [{**row, "trial": 1} for row in again]
    spread = rows + [{**row, "trial": 1} for row in once if row["kind"] == "model"]  # a model answers for both
    found = cosight.compare(trials(rows), measure=["ec"], resamples=RESAMPLES, seed=SEED, role=["test", "repeat"])
    plain = Plain(spread, "ec")
    for observer in (None, "model:0"):
        value, samples = plain.whole(plain.stimuli, observer), plain.samples((), plain.stimuli, observer)
        check(row_of(found, observer or "people", "people", "error_consistency"), value, samples)


def test_three_people_are_not_drawn_again():
    rows = answered(observers(people=3, models=1))
    plain = Plain(rows, "ec")
    row = row_of(
        cosight.compare(trials(rows), measure=["ec"], resamples=RESAMPLES, seed=SEED),
        "people",
        "people",
        "error_consistency",
    )
    check(row, plain.whole(plain.stimuli), plain.samples((), plain.stimuli))
    assert "3 people are too few to resample" in row.note


def test_what_else_is_asked_changes_no_interval(rows):
    alone = cosight.compare(trials(rows), measure=["ec"], resamples=RESAMPLES, seed=SEED)
    beside = cosight.compare(trials(rows), measure=["accuracy", "ma", "ec"], resamples=RESAMPLES, seed=SEED)
    some = cosight.compare(trials(rows), measure=["ec"], pairs="human-human", resamples=RESAMPLES, seed=SEED)
    for other in (beside, some):
        assert row_of(other, "people", "people", "error_consistency") == row_of(
            alone, "people", "people", "error_consistency"
        )


# ------------------------------------------------------------------------------------------------------------ blocks

NAN = float("nan")


def block(group, values, samples=None, names=None):
    keys = tuple(Key(name, None, "m") for name in (names or "abcdef"[: len(values)]))
    draw = np.array(samples if samples is not None else [[v, v] for v in values], dtype=float).reshape(len(values), -1)
    return make_block(group, keys, np.array(values, dtype=float), draw, np.full(len(values), 10.0))


def test_the_mean_over_groups_has_equal_weights_and_counts_what_it_leaves_out():
    first = block((("g", "1"),), [1.0, NAN], [[1.0, NAN], [5.0, 5.0]])
    second = block((("g", "2"),), [2.0, 4.0], [[3.0, 5.0], [6.0, NAN]])
    mean = mean_over_groups([first, second], (("g", "*"),), "g")
    assert mean.values.tolist() == [1.5, 4.0]
    assert mean.resampled[0].tolist() == [2.0, 5.0]  # nan left out of the second resample
    assert mean.resampled[1][0] == 6.0  # a group whose value is undefined lends no resamples either
    assert np.isnan(mean.resampled[1][1])
    assert mean.n.tolist() == [20.0, 10.0]
    assert mean.notes == ("mean over g: 2 groups", "mean over g: 1 groups, 1 undefined left out")


def test_a_number_that_a_group_lacks_is_not_counted():
    mean = mean_over_groups([block((), [1.0, 3.0]), block((), [2.0])], (), "g")
    assert mean.values.tolist() == [1.5, 3.0]
    assert mean.notes[1] == "mean over g: 1 groups"


def test_a_mean_of_nothing_defined_is_undefined():
    mean = mean_over_groups([block((), [NAN])], (), "g")
    assert np.isnan(mean.values[0])
    (row,) = block_rows(mean, confidence=0.95, seed=0)
    assert row.note == "mean over g: 0 groups, 1 undefined left out; undefined"
    assert row.flags == ("undefined_parts", "undefined")


def test_a_mean_of_nothing_defined_has_the_reason_of_its_parts():
    parts = [replace(block((("g", name),), [NAN]), notes=("undefined: no errors",)) for name in "12"]
    assert mean_over_groups(parts, (), "g").notes == ("undefined: no errors, in every g",)
    assert mean_over_groups(parts[:1], (), "g").notes == ("undefined: no errors",)
    other = replace(parts[1], notes=("undefined: no answers",))
    assert mean_over_groups([parts[0], other], (), "g").notes == ("mean over g: 0 groups, 2 undefined left out",)


def test_nested_means_go_from_the_last_key_up():
    groups = [("e", "1"), ("e", "1"), ("e", "2")]
    cells = [block((g, ("c", str(i))), [v]) for i, (g, v) in enumerate(zip(groups, [1.0, 3.0, 10.0], strict=True))]
    means = {m.group: m.values[0] for m in nested_means(cells, ("e", "c"))}
    assert means == {
        (("e", "1"), ("c", "*")): 2.0,
        (("e", "2"), ("c", "*")): 10.0,
        (("e", "*"), ("c", "*")): 6.0,
    }


def test_blocks_are_picked_and_joined():
    one = block((), [1.0, 2.0, 3.0])
    assert one.at([0, 2]).values.tolist() == [1.0, 3.0]
    assert [key.observer for key in one.at([2, 0]).keys] == ["c", "a"]
    both = join_blocks(
        [one.at([0]), single_block((), Key("z", None, "m"), 9.0, np.array([8.0, 10.0]), 4, "made", ("sweep",))]
    )
    assert (both.values.tolist(), both.notes, both.resampled.shape) == ([1.0, 9.0], ("", "made"), (2, 2))
    assert (both.flags, both.clusters.tolist()) == (((), ("sweep",)), [10.0, 4.0])
    assert block_rows(empty_block((), 5), confidence=0.95, seed=0) == []


def test_infinite_numbers_have_no_interval_and_say_so():
    values, samples = np.array([np.inf, 1.0]), np.array([[np.inf, 2.0], [1.0, np.inf]])
    clean = finite_resampled(values, samples)
    assert np.isnan(clean[0]).all()
    assert clean[1][0] == 1.0
    row = block_rows(block((), [np.inf], [[np.inf, 2.0]]), confidence=0.95, seed=0)[0]
    assert (row.value, row.low, row.high, row.note) == (None, None, None, "infinite")
    assert row.flags == ("infinite",)


def test_a_row_says_why_it_has_no_value_and_what_its_interval_lacks():
    undefined, some, many = block_rows(
        block((), [NAN, 1.0, 1.0], [[1.0] * 20, [NAN] * 2 + [1.0] * 18, [NAN] * 3 + [1.0] * 17]),
        confidence=0.95,
        seed=7,
    )
    assert (undefined.value, undefined.low, undefined.note) == (None, None, "undefined")
    assert undefined.flags == ("undefined",)
    assert (some.value, some.low, some.note, some.seed) == (
        1.0,
        1.0,
        "2 of 20 resamples undefined; the interval has no width",
        7,
    )
    assert some.flags == ("undefined_resamples", "no_width")
    assert (many.value, many.low, many.high) == (1.0, None, None)  # more than a tenth


def test_a_flag_that_is_there_is_not_raised_again():
    given = single_block((), Key("a", None, "m"), NAN, np.full(9, NAN), 0, "undefined: nobody came", ("undefined",))
    (row,) = block_rows(given, confidence=0.95, seed=0)
    assert (row.flags, row.note) == (("undefined",), "undefined: nobody came")


def test_the_variant_of_a_key_joins_the_group_of_its_row():
    keys = [Key("a", None, "m", variant=(("cost", cost),)) for cost in ("0", "N")]
    given = make_block((("condition", "fog"),), keys, np.zeros(2), np.zeros((2, 3)), np.full(2, 4.0))
    rows = block_rows(given, confidence=0.95, seed=0)
    assert [row.group for row in rows] == [(("condition", "fog"), ("cost", "0")), (("condition", "fog"), ("cost", "N"))]
    assert [row.in_group("cost") for row in rows] == ["0", "N"]


# ------------------------------------------------------------------------------------------- what was drawn, and ends


def block_over(values, clusters, *, over_people):
    """A block whose units of resampling are not its trials."""
    keys, samples = [Key(name, None, "m") for name in "abc"[: len(values)]], np.zeros((len(values), 2))
    n = np.full(len(values), 100.0)
    return make_block((), keys, np.array(values), samples, n, clusters=np.array(clusters), over_people=over_people)


@pytest.mark.parametrize(("over_people", "clusters"), [(False, [9.0, 8.0]), (True, [4.0, 8.0])])
def test_a_mean_over_groups_rests_on_all_their_stimuli_but_on_the_fewest_people(over_people, clusters):
    """The same people come in every group, other stimuli in each; what is undefined adds nothing."""
    cells = [
        block_over([0.5, NAN], [5.0, 3.0], over_people=over_people),
        block_over([0.7, 0.1], [4.0, 8.0], over_people=over_people),
    ]
    mean = mean_over_groups(cells, (), "g")
    assert mean.clusters.tolist() == clusters
    assert [row.clusters for row in block_rows(mean, confidence=0.95, seed=0)] == clusters
    assert mean.n.tolist() == [200.0, 100.0]


def test_a_mean_of_means_still_rests_on_the_fewest_people():
    places, people = [("1", "x"), ("1", "y"), ("2", "x")], [6.0, 5.0, 7.0]
    cells = [
        replace(block_over([0.5], [count], over_people=True), group=(("e", e), ("c", c)))
        for (e, c), count in zip(places, people, strict=True)
    ]
    assert [mean.clusters.tolist() for mean in nested_means(cells, ("e", "c"))] == [[5.0], [7.0], [5.0]]


def test_a_mean_of_nothing_defined_rests_on_nobody():
    assert mean_over_groups([block_over([NAN], [5.0], over_people=True)], (), "g").clusters.tolist() == [0.0]


def test_the_units_that_were_drawn_widen_an_interval_not_the_trials():
    samples = np.random.default_rng(0).normal(0.5, 0.1, (1, 500))
    keys, values, n = [Key("a", None, "accuracy")], np.array([0.5]), np.array([1000.0])
    few, many = (make_block((), keys, values, samples, n, clusters=np.array([c])) for c in (5.0, 1000.0))
    (narrow,), (wide,) = (block_rows(given, confidence=0.95, seed=0) for given in (many, few))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (narrow.n, narrow.clusters, wide.n, wide.clusters) == (1000, 1000, 1000, 5)


@pytest.mark.parametrize(
    ("measure", "statistic", "ends"),
    [
        ("hellinger", "value", (0, 1)),
        ("hellinger", "ceiling_split_half", (0, 1)),
        ("error_consistency", "ceiling_leave_one_out", (-1, 1)),
        ("error_consistency", "difference", (-2, 2)),
        ("kullback_leibler", "difference", (-np.inf, np.inf)),
        ("hellinger", "sd", (0, np.inf)),
        ("hellinger", "normalised", (-np.inf, np.inf)),
        ("hellinger", "rank", (-np.inf, np.inf)),
        ("of another package", "value", (-np.inf, np.inf)),
    ],
)
def test_ranges(measure, statistic, ends):
    assert range_of(measure, statistic) == ends


WILD = st.one_of(st.floats(-50, 50), st.just(NAN))


@settings(deadline=None)
@given(
    st.sampled_from(sorted(measures)),
    st.sampled_from(STATISTICS),
    st.floats(0, 1),
    st.lists(WILD, min_size=1, max_size=25),
    WILD,
    st.integers(0, 40),
)
def test_interval_ends_stay_inside_the_range_and_around_the_value(measure, statistic, share, samples, min_high, units):
    lowest, highest = range_of(measure, statistic)
    value = np.clip(np.interp(share, [0, 1], np.clip([lowest, highest], -50, 50)), lowest, highest)
    given = make_block(
        (), [Key("a", None, measure, statistic)], np.array([value]), np.array([samples]), np.array([9]),
        min_high=np.array([min_high]), clusters=np.array([units]),
    )  # fmt: skip
    (row,) = block_rows(given, confidence=0.95, seed=0)
    assert (row.low is None) == (row.high is None)
    if row.low is not None:
        assert lowest <= row.low <= row.value + 1e-9
        assert row.value - 1e-9 <= row.high <= highest
    assert set(row.flags) <= set(FLAGS)
