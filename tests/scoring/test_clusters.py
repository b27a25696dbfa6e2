"""Intervals over clusters of stimuli, beside a bootstrap of photos written out."""

from __future__ import annotations

import numpy as np
import pytest

import cosight
from cosight.measures import draw_stimuli
from cosight.measures.uncertainty import share_intervals
from cosight.statistics.resampling import draw_resamples, random_stream
from cosight.trials import align, stimulus_groups
from cosight.trials.clusters import with_clusters
from cosight.trials.manifest import manifest_frame
from tests.measures.simulated import clustered_case, coverage
from tests.scoring.made import LETTERS, row_of, trials
from tests.scoring.made_runs import GROUPS, REFUSING, answers, random_answers, write_run, write_set
from tests.scoring.made_runs import stimuli as visalign_stimuli

PHOTOS, RESAMPLES, CONDITIONS = 24, 300, ("blur", "fog", "snow")


def altered_photos(photos=PHOTOS, conditions=CONDITIONS):
    """Manifest rows: every photo in every condition."""
    return [
        {
            "stimulus": f"{condition} {photo}",
            "parent": f"photo {photo}",
            "image": f"{photo}.png",
            "experiment": "altered",
            "condition": condition,
            "truth": LETTERS.classes[photo % 3],
        }
        for photo in range(photos)
        for condition in conditions
    ]


def answered_photos(rows, observers=("model:a",), seed=0):
    """Trials in which an observer is right about a photo in most of its conditions, or in few."""
    rng = np.random.default_rng(seed)
    said = []
    for observer in observers:
        skill = {parent: rng.random() for parent in sorted({row["parent"] for row in rows})}
        for row in rows:
            right = rng.random() < (0.95 if skill[row["parent"]] < 0.6 else 0.1)
            response = row["truth"] if right else LETTERS.classes[(LETTERS.classes.index(row["truth"]) + 1) % 3]
            kept = {name: row[name] for name in ("stimulus", "image", "experiment", "condition", "truth")}
            kind = "human" if observer.startswith("human") else "model"
            said.append({"observer": observer, "kind": kind, "response": response, **kept})
    return said


def correct_of(said, rows):
    """Right and wrong, (photos, conditions)."""
    right = {trial["stimulus"]: trial["response"] == trial["truth"] for trial in said}
    return np.array([right[row["stimulus"]] for row in rows]).reshape(-1, len(CONDITIONS))


def share_interval(samples, value, n):
    """The interval of a share from resamples of the photos."""
    photos = np.array([float(PHOTOS)])
    found = share_intervals(samples[None].astype(float), np.array([value]), n=np.array([float(n)]), clusters=photos)
    return found.low[0], found.high[0]


def test_accuracy_is_resampled_over_photos(tmp_path):
    rows = altered_photos()
    said = answered_photos(rows)
    run = write_run(tmp_path / "run", rows, said, LETTERS)
    found = cosight.score(run, measure=["accuracy"], resamples=RESAMPLES)
    row = row_of(found, "model:a", None, "accuracy")
    assert (row.n, row.clusters) == (72, PHOTOS)
    assert found.settings["cluster_by"] == ["parent"]
    correct = correct_of(said, rows)
    order = sorted(range(PHOTOS), key=lambda photo: f"photo {photo}")  # clusters are numbered by name
    drawn = draw_stimuli(np.ones(PHOTOS), RESAMPLES, random_stream(0, "stimuli", "()"))
    samples = drawn @ correct[order].mean(axis=1) / PHOTOS
    assert (row.low, row.high) == pytest.approx(share_interval(samples, correct.mean(), n=72), abs=1e-6)


def test_conditions_share_the_draw_of_photos(tmp_path):
    rows = altered_photos()
    said = answered_photos(rows)
    run = write_run(tmp_path / "run", rows, said, LETTERS)
    by = {"measure": ["accuracy"], "by": ["condition"], "resamples": RESAMPLES}
    found = cosight.score(run, **by)
    mean = row_of(found, "model:a", None, "accuracy", "condition=*")
    assert (mean.n, mean.clusters) == (72, PHOTOS)  # not three times as many photos
    correct = correct_of(said, rows)
    order = sorted(range(PHOTOS), key=lambda photo: f"photo {photo}")
    groups = [str((("condition", condition),)) for condition in CONDITIONS]
    drawn = draw_stimuli(np.ones(PHOTOS), RESAMPLES, random_stream(0, "stimuli", *groups))
    samples = (drawn @ correct[order] / PHOTOS).mean(axis=1)
    assert (mean.low, mean.high) == pytest.approx(share_interval(samples, correct.mean(), n=np.inf), abs=1e-6)
    alone = row_of(cosight.score(run, cluster_by=["none"], **by), "model:a", None, "accuracy", "condition=*")
    assert alone.value == mean.value
    assert alone.clusters == 72
    assert mean.high - mean.low > 1.3 * (alone.high - alone.low)


def test_without_clusters_the_intervals_are_those_of_independent_stimuli(tmp_path):
    rows = altered_photos()
    said = answered_photos(rows, ("model:a", "model:b", *(f"human:{i}" for i in range(4))))
    run = write_run(tmp_path / "run", rows, said, LETTERS)
    for options in ({}, {"by": ["condition"]}):
        plain = cosight.compare(trials(said), measure=["accuracy", "ec"], resamples=50, **options)
        assert plain.settings["cluster_by"] == []
        assert cosight.compare(run, measure=["accuracy", "ec"], resamples=50, cluster_by=["none"], **options).rows == (
            plain.rows
        )


def test_people_get_the_clusters_of_the_stimuli_they_share_with_a_run(tmp_path):
    rows = altered_photos()
    run = write_run(tmp_path / "run", rows, answered_photos(rows), LETTERS)
    people = trials(answered_photos(rows, [f"human:{i}" for i in range(4)], seed=1))
    for found in (
        cosight.compare(run, people, measure=["accuracy", "ec"], resamples=50),
        cosight.compare(people, write_set(tmp_path / "set", rows), measure=["accuracy", "ec"], resamples=50),
    ):
        of_pairs = [row for row in found.rows if row.measure == "error_consistency" and row.statistic == "value"]
        assert {row.clusters for row in of_pairs} == {PHOTOS}
        assert any(row.observer == "human:0" for row in of_pairs)


def test_fewer_than_twenty_clusters_are_flagged(tmp_path):
    rows = altered_photos(photos=19)
    said = answered_photos(rows, ("model:a", *(f"human:{i}" for i in range(4))))
    run = write_run(tmp_path / "run", rows, said, LETTERS)
    for options in ({}, {"by": ["condition"]}):
        found = cosight.compare(run, measure=["accuracy", "ec"], resamples=20, **options)
        assert all("few_clusters" in row.flags for row in found.rows if row.statistic in ("value", "normalised"))
        assert row_of(found, "model:a", None, "accuracy", "condition=*" if options else "").note.endswith(
            "19 clusters of stimuli are few, so the interval is rough"
        )
    assert not any("few_clusters" in row.flags for row in cosight.compare(run, cluster_by=["none"], resamples=5).rows)
    twenty = altered_photos(photos=20)
    run = write_run(tmp_path / "twenty", twenty, answered_photos(twenty), LETTERS)
    assert not any("few_clusters" in row.flags for row in cosight.score(run, resamples=20).rows)


def test_crossed_factors_are_drawn_by_themselves_and_multiplied():
    rows = altered_photos()
    table = trials(answered_photos(rows))
    aligned = with_clusters(align(table), table, manifest_frame(rows), ["parent", "condition"])
    (draw,) = [draw_resamples(aligned, group, resamples=40, seed=3) for group in stimulus_groups(aligned, ())]
    weights = draw.stimulus_weights()
    of_photos = draw_stimuli(np.ones(PHOTOS), 40, random_stream(3, "stimuli", "()"))
    of_conditions = draw_stimuli(np.ones(3), 40, random_stream(3, "stimuli", "()", "crossed"))
    photos, conditions = aligned.clusters
    np.testing.assert_array_equal(weights, of_photos[:, photos] * of_conditions[:, conditions])
    assert draw.cluster_counts(np.ones((1, 72), dtype=bool)).tolist() == [3]  # the fewer of the two


def test_agreement_and_distances_use_the_same_photos(tmp_path):
    rows = altered_photos()
    said = answered_photos(rows, ("model:a", *(f"human:{i}" for i in range(5))))
    twice = [{**trial, "role": "repeat", "repetition": 1} for trial in said if trial["kind"] == "human"]
    run = write_run(tmp_path / "run", rows, [*said, *twice], LETTERS)
    names = ["fleiss_kappa", "hellinger", "response_agreement", "intra_annotator_kappa"]
    found = cosight.score(run, measure=names, resamples=20)
    clusters = {(row.measure, row.clusters) for row in found.rows if row.value is not None}
    assert clusters == {(name, PHOTOS) for name in names[:3]} | {("intra_annotator_kappa", 5)}  # the last over people


def test_a_benchmarks_table_draws_photos_that_categories_share(tmp_path):
    counts = dict.fromkeys(GROUPS, 24)
    rows = [{**row, "parent": f"photo {row['image'][-4:]}"} for row in visalign_stimuli(counts)]
    run = write_run(tmp_path / "run", rows, answers(rows, "model:a#sp", random_answers(0)), REFUSING)
    options = {"on": "visalign", "resamples": 100}
    together, apart = cosight.score(run, **options), cosight.score(run, cluster_by=["none"], **options)
    for measure, group, n in (("hellinger", "category=*", 192), ("reliability_score", "cost=N", 192)):
        against = "gold" if measure == "hellinger" else None
        one, two = (row_of(found, "model:a#sp", against, measure, group) for found in (together, apart))
        assert (one.value, one.n, one.clusters, two.clusters) == (two.value, n, 24, n)
        assert (one.low, one.high) != (two.low, two.high)


def test_intervals_over_photos_cover_where_those_over_stimuli_do_not():
    photos = coverage(clustered_case("ec", 60, 8), studies=50)
    stimuli = coverage(clustered_case("ec", 60, 8, by_cluster=False), studies=50)
    assert 0.92 <= photos.share <= 0.98
    assert stimuli.share < 0.87
