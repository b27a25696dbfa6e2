"""Answering shards: in order, the same whatever the threads, with few batches in memory."""

from __future__ import annotations

import random
import threading
import time
import weakref

import numpy as np
import pytest
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.models import Preprocessing, as_model
from cosight.runs.execution import _PREFETCH, ExecutionOptions, answer_shards
from cosight.runs.observers import model_observer
from cosight.runs.run_plan import RunPlan
from cosight.runs.stimulus_sources import stored_stimuli
from cosight.stimuli.images import decode
from cosight.stimuli.sets import read_set
from cosight.trials.spaces import label_spaces

_SPACE = label_spaces["cifar-10"]


def _means(images):
    features = images.reshape(len(images), 3, 4, 4, 4, 4).mean(axis=(3, 5)).reshape(len(images), -1)
    return features[:, :10] * 5, features


def _who(function=_means):
    shape = Preprocessing((16, 16), (0, 0, 0), (1, 1, 1))
    model = as_model(function, name="mine:means", preprocessing=shape, outputs="logits", features=True)
    return model_observer(model, _SPACE)


@pytest.fixture(scope="module")
def plan(images):
    return RunPlan(stored_stimuli(read_set(images)), _SPACE, features=True)


def _bytes(given):
    return (
        given.rows,
        given.stimuli,
        given.columns.rows(),
        given.arrays["logits"].tobytes(),
        given.arrays["features"].tobytes(),
    )


@pytest.mark.parametrize("loaders", [2, 7])
def test_the_same_bytes_however_many_threads_read(plan, monkeypatch, loaders):
    alone = [*answer_shards(_who(), plan, plan.shards, ExecutionOptions(loaders=1))]
    _read_in_disorder(monkeypatch)
    many = [*answer_shards(_who(), plan, plan.shards, ExecutionOptions(loaders=loaders))]
    assert [given.shard for given in many] == list(plan.shards)
    assert [*map(_bytes, many)] == [*map(_bytes, alone)]
    assert [row for given in many for row in given.rows] == list(range(240))


def _read_in_disorder(monkeypatch):
    rng = random.Random(0)

    def slowly(data, **more):
        time.sleep(rng.uniform(0, 0.003))
        return decode(data, **more)

    monkeypatch.setattr("cosight.runs.stimulus_sources.decode", slowly)


def test_answers_are_those_of_the_images_one_by_one(plan):
    who = _who()
    logits = np.concatenate(
        [given.arrays["logits"] for given in answer_shards(who, plan, plan.shards, ExecutionOptions())]
    )
    for row in range(0, 240, 37):
        (seen,) = plan.stimuli.load(range(row, row + 1))
        np.testing.assert_array_equal(logits[row], who.model.answer(who.model.prepare(seen.pixels)[None]).logits[0])


def test_shards_can_be_asked_for_in_any_order_and_alone(plan):
    whole = {given.shard.index: _bytes(given) for given in answer_shards(_who(), plan, plan.shards, ExecutionOptions())}
    some = [plan.shards[3], plan.shards[1]]
    assert [_bytes(given) for given in answer_shards(_who(), plan, some, ExecutionOptions())] == [whole[3], whole[1]]
    assert [*answer_shards(_who(), plan, [], ExecutionOptions())] == []


class Watched:
    """An observer whose buffers are counted while they are alive."""

    def __init__(self, inner):
        self.inner, self.buffers, self.most = inner, [], 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def buffer(self, count):
        made = self.inner.buffer(count)
        self.buffers.append(weakref.ref(made))
        self.most = max(self.most, sum(buffer() is not None for buffer in self.buffers))
        return made


def test_few_batches_are_in_memory_at_any_time(images):
    plan = RunPlan(stored_stimuli(read_set(images)), _SPACE, batch=8)
    who = Watched(_who())
    assert len([*answer_shards(who, plan, plan.shards, ExecutionOptions())]) == 4
    assert len(who.buffers) == 30
    assert who.most <= _PREFETCH + 1


def test_images_are_read_while_the_model_answers(plan):
    """The next batches are in the making when one is answered."""
    who, made = Watched(_who()), []
    answer = who.inner.answer
    who.answer = lambda *given: made.append(len(who.buffers)) or answer(*given)
    next(answer_shards(who, plan, plan.shards, ExecutionOptions()))
    assert made == [1 + _PREFETCH, 2 + _PREFETCH]


def test_without_features_no_arrays_are_kept(images):
    plan = RunPlan(stored_stimuli(read_set(images)), _SPACE)
    given = next(answer_shards(_who(), plan, plan.shards, ExecutionOptions()))
    assert given.arrays == {}
    assert given.columns.columns == ["response", "probabilities"]


@pytest.fixture
def damaged(few_images):
    """Files in rows 3 (first shard) and 70, 71 (second) are no images."""
    plan = RunPlan(stored_stimuli(read_set(few_images)), _SPACE, features=True)
    whole = [*answer_shards(_who(), plan, plan.shards, ExecutionOptions())]
    for row in (3, 70, 71):
        (few_images / plan.stimuli.frame["file"][row]).write_bytes(b"no image")
    return RunPlan(stored_stimuli(read_set(few_images)), _SPACE, features=True), whole


def test_what_cannot_be_shown_is_skipped_and_changes_nothing_else(damaged):
    plan, whole = damaged
    found = [*answer_shards(_who(), plan, plan.shards, ExecutionOptions(on_error="skip"))]
    assert [sorted(given.skipped) for given in found] == [[3], [70, 71]]
    for before, after in zip(whole, found, strict=True):
        places = [row - after.shard.rows.start for row in after.rows]
        lost = [row - after.shard.rows.start for row in after.skipped]
        assert after.arrays["logits"][places].tobytes() == before.arrays["logits"][places].tobytes()
        assert np.isnan(after.arrays["logits"][lost]).all()
        assert np.isnan(after.arrays["features"][lost]).all()
        assert after.columns.rows() == before.columns[places].rows()
        assert after.stimuli == tuple(before.stimuli[place] for place in places)


def test_stop_means_the_first_one_and_leaves_the_shards_before(damaged):
    plan, _ = damaged
    files = plan.stimuli.frame["file"]
    with pytest.raises(InvalidInput, match=f"{files[3]}.*--on-error skip"):
        next(answer_shards(_who(), plan, plan.shards, ExecutionOptions()))
    Pillow.new("RGB", (32, 32)).save(plan.stimuli.folder / files[3])
    mended = RunPlan(stored_stimuli(read_set(plan.stimuli.folder)), _SPACE, features=True)
    giving = answer_shards(_who(), mended, mended.shards, ExecutionOptions())
    assert next(giving).rows == tuple(range(64))
    with pytest.raises(InvalidInput, match=files[70]):
        next(giving)


def test_what_a_model_raises_ends_the_threads(plan):
    def fails(images):
        if len(images) > 8:  # not those that models are tried with
            raise RuntimeError("no more")
        return _means(images)

    with pytest.raises(RuntimeError, match="no more"):
        next(answer_shards(_who(fails), plan, plan.shards, ExecutionOptions()))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cosight-load")]


def test_whoever_stops_listening_ends_the_threads(plan):
    giving = answer_shards(_who(), plan, plan.shards, ExecutionOptions(loaders=3))
    next(giving)
    giving.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cosight-load")]


def test_thumbnails_are_kept_beside(plan, tmp_path):
    given = next(answer_shards(_who(), plan, plan.shards, ExecutionOptions(thumbnails=tmp_path)))
    kept = {path.stem: path for path in tmp_path.rglob("*.jpeg")}
    assert set(kept) >= set(given.stimuli)
    with Pillow.open(kept[given.stimuli[0]]) as picture:
        assert picture.size == (48, 40)  # never enlarged
