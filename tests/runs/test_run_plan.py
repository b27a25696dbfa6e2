"""Shards and keys: every row once, and a key that knows what changes an answer."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.models import Preprocessing, as_model
from cosight.runs.observers import model_observer
from cosight.runs.run_plan import RunPlan, digest_of, plan_probe_training, plan_run
from cosight.runs.stimulus_sources import stored_stimuli
from cosight.stimuli.sets import read_set
from cosight.trials.manifest import manifest_frame
from cosight.trials.spaces import LabelSpace, label_spaces

from .conftest import draw_images

_SPACE = label_spaces["cifar-10"]


@dataclass(frozen=True)
class Rows:
    """Stimuli of which only the rows matter."""

    frame: pl.DataFrame
    stamps: tuple[str, ...]
    settings: dict = field(default_factory=dict)
    folder: Path = Path()


def _rows(count, **changes):
    rows = [{"file": f"{n}.png", "image": f"{n}.png", "truth": "cat", "condition": "0"} for n in range(count)]
    frame = manifest_frame({**row, **changes} if n == 0 else row for n, row in enumerate(rows))
    return Rows(frame, tuple(f"stamp {n}" for n in range(count)))


def _only(count):
    return Rows(pl.DataFrame({"stimulus": [None] * count}), ())


@given(st.integers(1, 400_000), st.integers(1, 5000))
def test_shards_cover_every_row_once_in_whole_batches(count, batch):
    shards = RunPlan(_only(count), _SPACE, batch=batch).shards
    assert [shard.index for shard in shards] == list(range(len(shards)))
    assert shards[0].rows.start == 0
    assert shards[-1].rows.stop == count
    assert all(one.rows.stop == two.rows.start for one, two in pairwise(shards))
    sizes = {len(shard.rows) for shard in shards[:-1]}
    assert len(sizes) <= 1
    assert all(size % batch == 0 and 64 <= size < 2048 + batch for size in sizes)


@pytest.mark.parametrize(
    ("count", "batch", "shards", "first"),
    [
        (1, 32, 1, 1),
        (64, 32, 1, 64),
        (65, 32, 2, 64),
        (640, 32, 10, 64),
        (10_000, 32, 63, 160),  # 64 shards of 156.25, in whole batches
        (50_000, 50, 63, 800),
        (1_000_000, 32, 489, 2048),  # bounded, however large the set
        (100, 1000, 1, 100),
    ],
)
def test_sizes_of_shards(count, batch, shards, first):
    found = RunPlan(_only(count), _SPACE, batch=batch).shards
    assert (len(found), len(found[0].rows)) == (shards, first)


def test_what_is_no_plan():
    with pytest.raises(InvalidInput, match="--batch must be a whole number, 1 or more, got 0"):
        RunPlan(_rows(1), _SPACE, batch=0)
    with pytest.raises(InvalidInput, match="at least one stimulus"):
        RunPlan(_only(0), _SPACE)


_IDENTITY = {"observer": "a", "weights": "w", "preprocessing": {"size": [8, 8], "mean": [0.5]}, "mapping": "m"}
_PLAN = RunPlan(_rows(100), _SPACE)


def _key(plan=_PLAN, shard=0, **changes):
    return plan.key({**_IDENTITY, **changes}, plan.shards[shard])


@pytest.mark.parametrize(
    "key",
    [
        _key(observer="b"),
        _key(weights="v"),
        _key(preprocessing={"size": [8, 8], "mean": [0.25]}),
        _key(settings={"precision": "bf16"}),
        _key(mapping="n"),
        _key(shard=1),
        *(_key(replace(_PLAN, stimuli=_rows(100, **change))) for change in (
            {"truth": "dog"}, {"truth": None}, {"condition": "1"}, {"level": 2}, {"image": "x"}, {"experiment": "x"},
        )),
        _key(replace(_PLAN, stimuli=replace(_rows(100), stamps=("other", *_rows(100).stamps[1:])))),
        _key(replace(_PLAN, stimuli=_rows(60))),
        _key(replace(_PLAN, space=LabelSpace("cifar-10", _SPACE.classes, abstain=True))),
        _key(replace(_PLAN, space=LabelSpace("cifar-10", _SPACE.classes[::-1]))),
        _key(replace(_PLAN, features=True)),
    ],
)  # fmt: skip
def test_a_key_changes_with_all_that_changes_an_answer_or_its_row(key):
    assert key != _key()


@pytest.mark.parametrize(
    "key",
    [
        _key(replace(_PLAN, batch=16)),  # which the plan's settings hold, as shards may be others
        _key(replace(_PLAN, how="max")),  # which the mapping's digest holds, where it matters
        _key(replace(_PLAN, space=LabelSpace("another name", _SPACE.classes))),
        _key(replace(_PLAN, stimuli=replace(_rows(100), folder=Path("elsewhere")))),
        _key(replace(_PLAN, stimuli=_rows(100, stimulus="learnt on reading"))),
        _key(replace(_PLAN, stimuli=_rows(110))),  # more in the other shard
        _PLAN.key(dict(reversed(_IDENTITY.items())), _PLAN.shards[0]),
    ],
)
def test_a_key_does_not_change_with_what_does_not(key):
    assert key == _key()


def test_the_key_of_a_version_is_that_of_the_next():
    """Ours, as of schema 2: runs that people have are found again as long as it holds; else the schema grows."""
    assert _key() == "c8e1c44a448feea5d67ff0a2b4ba15f03383d9e46d8248c6e6368d02c32120b1"


def test_the_same_images_elsewhere_are_the_same_plan(tmp_path, few_images):
    before = plan_for_folder(few_images)
    there = tmp_path / "moved" / few_images.name
    shutil.copytree(few_images, there)
    after = plan_for_folder(there)
    assert after.settings == before.settings
    assert [after.key(_IDENTITY, shard) for shard in after.shards] == [
        before.key(_IDENTITY, shard) for shard in before.shards
    ]


def plan_for_folder(folder, **changes):
    given = {
        "source": None, "labels": None, "how": "mean", "features": False, "limit": None, "seed": 0, "tiles": None,
        "format": "png", "batch": 32, **changes,
    }  # fmt: skip
    return plan_run(folder, folder / "run", **given)


def test_settings_survive_the_record(few_images):
    settings = plan_for_folder(
        few_images, labels="airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"
    ).settings
    assert json.loads(json.dumps(settings)) == settings


@given(st.permutations(["x", "y", "z"]))
def test_a_digest_is_the_same_whatever_the_order_of_keys(order):
    values = {"x": 1, "y": [1.5, None], "z": {"ä": "b"}}
    assert digest_of({key: values[key] for key in order}) == digest_of(values)


def _answering(scale=1.0, classes=1000, **options):
    given = {"size": (8, 8), "mean": (0, 0, 0), "std": (1, 1, 1), **options.pop("preprocessing", {})}

    def answer(x):
        return np.linspace(-scale, 1, classes, dtype=np.float32) * x.mean(axis=(1, 2, 3))[:, None]

    options = {"outputs": "logits", **options}
    return as_model(answer, name="mine:a", preprocessing=Preprocessing(**given), **options)


_SIXTEEN = label_spaces["model-vs-human-16"]


@pytest.mark.parametrize(
    "other",
    [
        model_observer(_answering(scale=2.0), _SIXTEEN),
        model_observer(_answering(preprocessing={"mean": (0.5, 0.5, 0.5)}), _SIXTEEN),
        model_observer(_answering(preprocessing={"interpolation": "nearest"}), _SIXTEEN),
        model_observer(_answering(), _SIXTEEN, how="max"),
        model_observer(_answering(), label_spaces["laion-c-16"]),
        model_observer(_answering(class_names=label_spaces["imagenet-1k"].classes[::-1]), _SIXTEEN),
    ],
)
def test_an_identity_holds_weights_preprocessing_and_mapping(other):
    mine = model_observer(_answering(), _SIXTEEN)
    assert model_observer(_answering(), _SIXTEEN).identity == mine.identity
    assert _key(**other.identity) != _key(**mine.identity)
    assert json.loads(json.dumps(other.identity)) == other.identity


def test_a_probe_is_not_trained_on_what_is_shown(few_images, tmp_path):
    plan = plan_for_folder(few_images)
    other = draw_images(tmp_path / "other", 20, shape=(32, 32), seed=4)
    assert plan_probe_training(other, plan).stimuli.frame.height == 20
    shutil.copy(few_images / "cat/0003.png", other / "cat/copied.png")
    with pytest.raises(InvalidInput, match=r"1 of .* are"):
        plan_probe_training(other, plan)


def test_stamps_are_of_all_files_in_order(few_images):
    assert len(set(stored_stimuli(read_set(few_images)).stamps)) == 100
