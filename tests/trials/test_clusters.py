from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.trials import align, stimulus_groups
from cosight.trials.clusters import with_clusters
from cosight.trials.manifest import collect_manifests, is_stimulus_set, manifest_frame, write_manifest
from tests.scoring.made import trials


def trial(image, *, observer="model:a", stimulus=None, experiment="photos", condition="blur", **more):
    facts = {"image": image, "stimulus": stimulus, "experiment": experiment, "condition": condition}
    kind = "human" if observer.startswith("human") else "model"
    return {"observer": observer, "kind": kind, "truth": "a", "response": "a", **facts, **more}


def stimulus(image, parent, *, digest=None, condition="blur", **more):
    facts = {"image": image, "experiment": "photos", "condition": condition, "truth": "a"}
    return {"stimulus": digest or f"{condition} {image}", "parent": parent, **facts, **more}


def clustered(rows, manifest=None, cluster_by=None):
    table = trials(rows)
    known = None if manifest is None else manifest if isinstance(manifest, pl.DataFrame) else manifest_frame(manifest)
    return with_clusters(align(table), table, known, cluster_by)


def partition(table, factor=0):
    """The images of each cluster of one factor; those without a cluster are left out."""
    found: dict[int, list[str]] = {}
    for image, code in zip(table.columns["image"], table.clusters[factor].tolist(), strict=True):
        if code >= 0:
            found.setdefault(code, []).append(image)
    return sorted(sorted(images) for images in found.values())


TWO_PHOTOS = [
    stimulus(f"{photo}{i}", f"photo {photo}", condition=condition)
    for photo in "xy"
    for i, condition in enumerate(("blur", "fog"))
]


def test_a_cluster_is_the_source_photo_for_people_and_models_alike():
    by_digest = [trial(row["image"], stimulus=row["stimulus"], condition=row["condition"]) for row in TWO_PHOTOS]
    by_name = [trial(row["image"], observer="human:1", condition=row["condition"]) for row in TWO_PHOTOS]
    for rows in (by_digest, by_name, [*by_digest, *by_name]):
        table = clustered(rows, TWO_PHOTOS)
        assert partition(table) == [["x0", "x1"], ["y0", "y1"]]
        assert table.cluster_by == ("parent",)
        assert "intervals draw 4 stimuli in clusters (2 by parent); --cluster-by none" in table.notices[-1]


def test_a_run_on_the_way_has_clusters_though_its_manifest_has_no_digests_yet():
    manifest = [row | {"stimulus": None, "level": level} for row in TWO_PHOTOS for level in (1, 2)]
    rows = [
        trial(row["image"], stimulus=f"{row['image']} {row['level']}", condition=row["condition"], level=row["level"])
        for row in manifest
    ]
    assert partition(clustered(rows, manifest)) == [["x0", "x0", "x1", "x1"], ["y0", "y0", "y1", "y1"]]


def test_a_stimulus_without_a_parent_is_its_own_cluster_and_a_photo_is_of_the_cluster_made_from_it():
    manifest = [*TWO_PHOTOS, stimulus("x", None, digest="photo x"), stimulus("lone", None)]
    rows = [trial(row["image"], stimulus=row["stimulus"], condition=row["condition"]) for row in manifest]
    assert partition(clustered(rows, manifest)) == [["lone"], ["x", "x0", "x1"], ["y0", "y1"]]


def test_a_stimulus_made_from_a_stimulus_goes_back_to_the_photo():
    manifest = [*TWO_PHOTOS, stimulus("attacked", "fog x1", digest="d1"), stimulus("again", "d1", digest="d2")]
    rows = [trial(row["image"], stimulus=row["stimulus"], condition=row["condition"]) for row in manifest]
    assert partition(clustered(rows, manifest)) == [["again", "attacked", "x0", "x1"], ["y0", "y1"]]


def test_where_two_photos_look_the_same_when_altered_the_name_tells_them_apart():
    black = [stimulus(name, f"photo {name}", digest="black", condition="dark") for name in "xy"]
    rows = [trial("x", stimulus="black", condition="dark"), trial("x0", stimulus="blur x0")]
    table = clustered(rows, [*TWO_PHOTOS, *black])
    assert partition(table) == [["x", "x0"]]  # the digest alone could be of either photo


def test_independent_stimuli_have_no_clusters():
    rows = [trial(f"{i}.png") for i in range(3)]
    assert clustered(rows).clusters is None
    assert clustered(rows, [stimulus(f"{i}.png", f"photo {i}") for i in range(3)]).clusters is None
    assert clustered(rows).notices == align(trials(rows)).notices


def cue_conflict(*names, **more):
    return [trial(name, experiment="cue-conflict", condition="0", **more) for name in names]


def test_cue_conflict_names_tell_two_crossed_pictures():
    table = clustered([*cue_conflict("cat1-dog2.png", "cat1-dog3.png", "dog1-dog2.png"), trial("cat1-dog2.png")])
    assert table.cluster_by == ("shape", "texture")
    images = ["cat1-dog2.png", "cat1-dog3.png"]
    assert partition(table) == [["cat1-dog2.png"], images, ["dog1-dog2.png"]]  # the last trial is of another experiment
    assert partition(table, 1) == [["cat1-dog2.png", "dog1-dog2.png"], ["cat1-dog3.png"]]
    assert sorted(table.clusters[1].tolist())[0] == -1  # no cue-conflict image, so no texture


def test_the_manifest_comes_before_the_name():
    manifest = [
        {**stimulus("cat1-dog2.png", "photo x"), "experiment": "cue-conflict", "condition": "0"},
        {**stimulus("dog1-cat2.png", "photo x"), "experiment": "cue-conflict", "condition": "0"},
    ]
    table = clustered(cue_conflict("cat1-dog2.png", "dog1-cat2.png"), manifest)
    assert (table.cluster_by, partition(table), len(table.clusters)) == (
        ("parent",),
        [["cat1-dog2.png", "dog1-cat2.png"]],
        1,
    )


def test_clusters_by_any_column():
    rows = [trial(row["image"], condition=row["condition"], block=i % 2) for i, row in enumerate(TWO_PHOTOS)]
    scene = manifest_frame(TWO_PHOTOS).with_columns(scene=pl.Series(["beach", None, "beach", None]))
    assert partition(clustered(rows, scene, ["scene"])) == [["x0", "y0"], ["x1"], ["y1"]]
    assert partition(clustered(rows, None, ["condition"])) == [["x0", "y0"], ["x1", "y1"]]
    assert partition(clustered(rows, None, ["block"])) == [["x0", "y0"], ["x1", "y1"]]
    crossed = clustered(rows, scene, ["parent", "block"])
    assert crossed.cluster_by == ("parent", "block")
    assert (partition(crossed), partition(crossed, 1)) == ([["x0", "x1"], ["y0", "y1"]], [["x0", "y0"], ["x1", "y1"]])
    independent = clustered(rows, scene, ["none"])
    assert (independent.clusters, independent.cluster_by) == (None, ("none",))


@pytest.mark.parametrize(
    ("cluster_by", "message"),
    [
        (["scene"], "--cluster-by must be one of observer, .* or none, got 'scene'; a stimulus set or run among"),
        (["probabilities"], "--cluster-by takes a column of single values, got probabilities, which has lists"),
        (["level"], "--cluster-by level: none of the stimuli has a value"),
        (["observer"], "--cluster-by observer: a stimulus has one value, got several for x0"),
        (["image", "image"], "takes one column, two different ones, or none, got image, image"),
        (["image", "none"], "takes one column, two different ones, or none, got image, none"),
        (["image", "truth", "block"], "takes one column, two different ones, or none"),
    ],
)
def test_columns_that_are_no_clusters(cluster_by, message):
    rows = [trial("x0", observer=name, probabilities=[1.0, 0.0, 0.0]) for name in ("model:a", "model:b")]
    with pytest.raises(InvalidInput, match=message):
        clustered(rows, None, cluster_by)


def test_manifests_are_found_in_runs_sets_and_by_name(tmp_path):
    frame = manifest_frame(TWO_PHOTOS)
    for name in ("set", "runs/one", "runs/two"):
        (tmp_path / name).mkdir(parents=True)
        write_manifest(tmp_path / name, frame.with_columns(scene=pl.lit("beach")), {})
        if name != "set":
            (tmp_path / name / "run.json").write_text("{}")
    for sources, height in ((["set"], 4), (["runs"], 8), (["runs/one/stimuli.parquet"], 4)):
        found = collect_manifests([tmp_path / name for name in sources])
        assert (found.height, set(found["scene"])) == (height, {"beach"})
    assert collect_manifests(["sample:edges", trials([trial("x")])]) is None
    assert [is_stimulus_set(tmp_path / name) for name in ("set", "runs/one", "runs/one/stimuli.parquet")] == [
        True,
        False,
        True,
    ]
    rows = [trial(row["image"], stimulus=row["stimulus"], condition=row["condition"]) for row in TWO_PHOTOS]
    assert partition(clustered(rows, collect_manifests([tmp_path / "runs"]))) == [["x0", "x1"], ["y0", "y1"]]


def test_groups_that_share_clusters_are_drawn_together():
    rows = [trial(row["image"], condition=row["condition"], truth=row["image"][0]) for row in TWO_PHOTOS]
    rows = [{**row, "truth": "a" if row["image"][0] == "x" else "b"} for row in rows]
    table = clustered(rows, TWO_PHOTOS)
    blur, fog = stimulus_groups(table, ["condition"])  # each has both photos
    assert blur.pools[0] is fog.pools[0]
    assert blur.pools[0].groups == (blur.group, fog.group)
    of_a, of_b = stimulus_groups(table, ["truth"])  # each has a photo of its own
    assert [pool.groups for group in (of_a, of_b) for pool in group.pools] == [(of_a.group,), (of_b.group,)]
    assert sorted(np.concatenate([of_a.pools[0].clusters, of_b.pools[0].clusters])) == [0, 1]
    assert stimulus_groups(align(trials(rows)), ["condition"])[0].pools == ()


def test_a_group_without_a_crossed_factor_is_drawn_by_the_other():
    table = clustered([*cue_conflict("cat1-dog2.png", "cat1-dog3.png"), trial("x"), trial("y", experiment="zoo")])
    cues, photos, zoo = stimulus_groups(table, ["experiment"])
    assert [len(group.pools) for group in (cues, photos, zoo)] == [2, 2, 2]
    assert [[len(pool.clusters) for pool in group.pools] for group in (cues, photos, zoo)] == [[1, 2], [1, 0], [1, 0]]
    assert {pool.groups for pool in (*photos.pools, *zoo.pools)} == {(photos.group,), (zoo.group,)}
