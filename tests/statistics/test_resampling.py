from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cosight
from cosight.errors import InvalidInput
from cosight.statistics import resampling
from cosight.statistics.pair_scores import pairs_of
from cosight.statistics.resampling import (
    ObserverGroup,
    draw_resamples,
    observer_groups,
    random_stream,
)
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED
from cosight.trials import align, stimulus_groups
from cosight.trials.clusters import with_clusters
from tests.scoring.made import answered, observers, row_of, trials


def table_of(rows, by=(), roles=("test",)):
    table = align(trials(rows), roles=roles)
    return table, stimulus_groups(table, by)


def draw(rows, by=(), roles=("test",), **options):
    table, parts = table_of(rows, by, roles)
    return [draw_resamples(table, cell, **{"resamples": 30, "seed": 1, **options}) for cell in parts]


def test_a_stream_depends_on_seed_and_words_alone():
    assert random_stream(1, "a", "b").random() == random_stream(1, "a", "b").random()
    assert len({random_stream(1, "a").random(), random_stream(2, "a").random(), random_stream(1, "b").random()}) == 3
    with pytest.raises(InvalidInput, match=r"0 or more, got -1"):
        random_stream(-1)


def test_people_are_drawn_again_and_models_are_not():
    (found,) = draw(answered(observers(people=5, models=2)))
    assert (found.observer_weights[:, :5].sum(axis=1) == 5).all()
    assert found.observer_weights[:, :5].std() > 0
    assert (found.observer_weights[:, 5:] == 1).all()


@pytest.mark.parametrize(("people", "again"), [(3, False), (4, True)])
def test_fewer_than_four_people_are_kept_as_they_are(people, again):
    (found,) = draw(answered(observers(people=people)))
    assert (found.observer_weights != 1).any() == again


@pytest.mark.parametrize(
    ("name", "size", "text"),
    [
        (PEOPLE, 3, "interval over stimuli only, 3 people are too few to resample"),
        (SIMULATED, 1, "interval over stimuli only, 1 simulated people are too few to resample"),
        (PEOPLE, 4, ""),
        (MODELS, 2, ""),  # models are named, never drawn
    ],
)
def test_a_group_says_whether_it_is_too_small_to_resample(name, size, text):
    group = ObserverGroup(name, np.arange(size))
    assert group.too_few is bool(text)
    assert group.too_few_note == text


def test_simulated_people_are_drawn_apart_from_real_ones():
    (found,) = draw(answered(observers(people=5, simulated=4)))
    assert (found.observer_weights[:, :5].sum(axis=1) == 5).all()
    assert (found.observer_weights[:, 5:].sum(axis=1) == 4).all()


def test_conditions_of_an_experiment_share_the_people_but_not_the_stimuli():
    x, y, z = draw(answered(observers(people=5)), by=["experiment", "condition"])
    assert (x.observer_weights == y.observer_weights).all()  # experiment one
    assert (x.observer_weights != z.observer_weights).any()  # experiment two
    numbers = [part.rng.random() for part in (x, y, z)]
    assert len(set(numbers)) == 3


def test_a_person_who_missed_a_condition_still_shares_the_draw():
    rows = [r for r in answered(observers(people=5)) if not (r["observer"] == "human:0" and r["condition"] == "y")]
    x, y, _ = draw(rows, by=["experiment", "condition"])
    assert y.observer_index.tolist() == [1, 2, 3, 4]
    assert (x.observer_weights[:, 1:] == y.observer_weights).all()


def test_every_number_of_a_cell_sees_the_same_resamples():
    (found,) = draw(answered(observers(people=5)))

    def total(answers, weights):
        return answers.correct.astype(np.float32) @ weights.T

    first, again = found.resample([total])[0], found.resample([total])[0]
    assert (first == again).all()
    assert first.shape == (5, 30)
    assert first.std(axis=1).min() > 0


def test_blocks_of_resamples_add_up_to_all_of_them(monkeypatch):
    (whole,) = draw(answered(observers(people=5)), resamples=31)
    one = whole.resample([lambda a, w: w.T])[0]
    monkeypatch.setattr(resampling, "BLOCK", 4 * whole.answers.stimuli)  # four resamples a block
    assert (whole.resample([lambda a, w: w.T])[0] == one).all()


def test_to_first_order_a_linear_statistic_varies_as_by_resampling():
    rows = answered(observers(people=5), conditions={"one": ("x",)}, stimuli=300)
    (found,) = draw(rows, resamples=4000)

    def share(answers, weights):
        return answers.correct @ weights.T / weights.sum(axis=1)

    drawn, linear = found.resample([share])[0], found.resample_to_first_order(share)
    assert linear.shape == (5, 4000)
    assert linear.mean(axis=1) == pytest.approx(drawn.mean(axis=1), abs=0.003)
    spread = linear.std(axis=1) / drawn.std(axis=1)
    assert spread == pytest.approx(np.ones(5), abs=0.3)  # a spread over 100 groups is known to 7 %
    assert spread.mean() == pytest.approx(1, abs=0.12)
    assert (found.resample_to_first_order(share) == linear).all()


def test_to_first_order_clusters_are_drawn_as_a_whole_and_groups_of_stimuli_share_them():
    rows = answered(observers(people=4), conditions={"one": ("x", "y")}, stimuli=40)
    table = with_clusters(align(trials(rows)), trials(rows), None, ["image"])
    first, second = (
        draw_resamples(table, group, resamples=200, seed=1).resample_to_first_order(
            lambda answers, weights: (weights * (np.arange(40) % 2)).sum(axis=1)[None] / weights.sum(axis=1)
        )
        for group in stimulus_groups(table, ["condition"])
    )
    assert first.std() > 0
    assert (first == second).all()


def test_to_first_order_the_noise_of_stimuli_counts_once_where_clusters_are_crossed():
    rows = answered(observers(people=4), conditions={"one": ("x",)}, stimuli=400)
    rng = np.random.default_rng(5)
    aligned = align(trials(rows))
    (group,) = stimulus_groups(aligned, ())
    crossed = replace(aligned, clusters=np.stack(np.divmod(np.arange(400), 20)))
    noise, photo = rng.normal(size=400), rng.normal(size=20)[np.arange(400) // 20]
    for items, variance in ((noise, noise.var() / 400), (noise + photo, noise.var() / 400 + photo.var() / 20)):
        found = draw_resamples(crossed, group, resamples=2000, seed=1).resample_to_first_order(
            lambda _, weights, of=items: (weights @ of / weights.sum(axis=1))[None]
        )
        assert found.var() == pytest.approx(variance, rel=0.5)  # a variance over 20 clusters is known to 30 %


def test_presentations_of_one_stimulus_have_one_weight():
    rows = answered(observers(people=4), conditions={"one": ("x",)}, stimuli=6)
    twice = [{**row, "trial": trial} for trial in (1, 2) for row in rows]
    (found,) = draw(twice, roles=("test", "repeat"))
    weights = found.resample([lambda a, w: w.T])[0]
    assert weights.shape == (12, 30)
    assert (weights[::2] == weights[1::2]).all()
    assert (weights[::2].sum(axis=0) == 6).all()
    assert draw(rows)[0].factors == ()


def test_alike_stimuli_of_two_observers_are_merged_unless_more_than_answers_counts():
    rows = answered(observers(people=2), stimuli=50, missing=0)
    merged, kept = draw(rows)[0], draw(rows, merge=False)[0]
    assert len(merged.patterns.counts) <= 3 * 3 * 3 < merged.answers.stimuli == 150
    assert merged.patterns.counts.sum() == 150
    assert len(kept.patterns.counts) == 150
    for found in (merged, kept):  # as many stimuli are drawn as there are
        assert (found.resample([lambda a, w: w.sum(axis=1)])[0] == 150).all()


def test_an_observer_without_trials_in_a_group_is_not_in_it():
    rows = [r for r in answered(observers(people=4, models=1)) if r["kind"] == "human" or r["experiment"] == "one"]
    one, two = draw(rows, by=["experiment"])
    assert one.observer_index.tolist() == [0, 1, 2, 3, 4]
    assert two.observer_index.tolist() == [0, 1, 2, 3]


# ------------------------------------------------------------------------------------------------------------ groups


def test_groups_keep_simulated_people_apart():
    table, _ = table_of(answered(observers(people=2, simulated=2, models=1)))
    groups = observer_groups(table.people, table.simulated)
    assert {g.name: g.members.tolist() for g in groups} == {PEOPLE: [0, 1], SIMULATED: [2, 3], MODELS: [4]}
    assert [g.is_people for g in groups] == [True, True, False]
    table, _ = table_of(answered(observers(models=2)))
    assert [g.name for g in observer_groups(table.people, table.simulated)] == [MODELS]


@pytest.mark.parametrize("name", ["people", "simulated people", "models"])
def test_no_observer_has_the_name_of_a_group(name):
    rows = answered([(name, "human"), ("human:1", "human")])
    with pytest.raises(InvalidInput, match=f"got an observer '{name}'"):
        cosight.compare(trials(rows), resamples=2)


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        ("all", [[0, 1], [2, 0], [3, 0], [2, 1], [3, 1], [2, 3]]),
        ("human-human", [[0, 1]]),
        ("human-model", [[2, 0], [3, 0], [2, 1], [3, 1]]),  # the model before the person
        ("model-model", [[2, 3]]),
    ],
)
def test_pairs_of_a_kind(kind, pairs):
    found = pairs_of(np.array([True, True, False, False]), kind)
    assert found.tolist() == pairs


def test_an_unknown_kind_of_pair():
    with pytest.raises(InvalidInput, match="one of all, human-human, human-model, model-model, got 'both'"):
        pairs_of(np.array([True, True]), "both")


def test_simulated_people_count_as_people_for_pairs_and_never_share_a_mean():
    rows = answered(observers(people=4, simulated=4, models=1))
    found = cosight.compare(trials(rows), measure=["ec"], pairs="human-human", resamples=20)
    pairs = {(r.observer, r.against) for r in found.rows if r.measure == "error_consistency"}
    assert ("human:0", "simulated:0") in pairs
    assert not any("model" in name for pair in pairs for name in pair)
    real, made = ([r for r in rows if r["kind"] != kind] for kind in ("simulated", "human"))
    alone = cosight.compare(trials(real), measure=["ec"], pairs="human-human", resamples=20)
    assert row_of(found, "people", "people", "error_consistency") == row_of(
        alone, "people", "people", "error_consistency"
    )
    apart = row_of(
        cosight.compare(trials(made), measure=["ec"], resamples=20), SIMULATED, SIMULATED, "error_consistency"
    )
    assert row_of(found, SIMULATED, SIMULATED, "error_consistency") == apart
    assert row_of(found, PEOPLE, SIMULATED, "error_consistency").note.startswith("mean of 16 pairs")
    assert {r.observer for r in found.rows if "ceiling" in r.statistic} == {PEOPLE, SIMULATED}
