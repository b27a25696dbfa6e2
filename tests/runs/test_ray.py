"""The engine `ray`, on a real cluster of this machine: the local run's bytes, whatever happens to its workers."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.extras import MissingExtra
from cosight.runs import ray_engine
from cosight.runs.evaluate import evaluate
from cosight.runs.ray_engine import _ActorPool
from cosight.runs.run_plan import Shard

from .conftest import SUPERCLASSES, TINY, draw_images, kept

ray = pytest.importorskip("ray")
_HERE = "127.0.0.2"  # loopback; Ray takes 127.0.0.1 for the outer address

# Notes the process of every call; dies where the test says so, but never in the test's own process.
_FRAGILE = """
import os, signal, time
from pathlib import Path

from tiny import other


def _die_if(word):
    if Path(word).exists() and os.getpid() != int(Path("driver").read_text()):
        os.kill(os.getpid(), signal.SIGKILL)


def model():
    _die_if("dies loading")
    inner = other()

    def answer(images):
        with Path("workers").open("a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(0.1)
        if len(images) > 10:  # not those that models are tried with
            _die_if("dies answering")
        return inner(images)

    return answer
"""
_MODEL = "python:fragile:model,size=16,mean=0,std=1"


@pytest.fixture(scope="module")
def cluster():
    """Two CPUs' worth of Ray; its address."""
    before = os.environ.get("RAY_USAGE_STATS_ENABLED")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = ray.init(
        _node_ip_address=_HERE, num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20,
        log_to_driver=False, logging_level=logging.ERROR,
    )  # fmt: skip
    yield found.address_info["gcs_address"]
    ray.shutdown()
    os.environ.pop("RAY_USAGE_STATS_ENABLED")
    if before is not None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = before


@pytest.fixture
def fragile(in_workshop, tmp_path, monkeypatch):
    """In a folder of its own with the modules `tiny` and `fragile`."""
    shutil.copy(in_workshop / "tiny.py", tmp_path)
    (tmp_path / "fragile.py").write_text(_FRAGILE)
    (tmp_path / "driver").write_text(str(os.getpid()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "fragile", raising=False)
    return tmp_path


def _both(tmp_path, *models, workers=2, **options):
    """What a local run and a Ray run keep."""
    for engine in ("local", "ray"):
        evaluate(*models, out=tmp_path / engine, engine=engine, threads=1, workers=workers, **options)
    return kept(tmp_path / "local"), kept(tmp_path / "ray")


def test_two_workers_give_the_local_runs_bytes(cluster, images, in_workshop, tmp_path):
    local, remote = _both(tmp_path, TINY, on=images, features=True)
    assert remote == local


@pytest.mark.slow
def test_two_workers_give_the_local_runs_bytes_with_torch(
    cluster, mirror, in_workshop, tmp_path, one_torch_thread, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    pixels = np.asarray(Pillow.open(mirror / "cifar10" / "test_images.png").crop((0, 0, 1024, 130)))
    for place, row in enumerate(pixels.reshape(130, 32, 32, 3)):
        Path("shelf").mkdir(exist_ok=True)
        Pillow.fromarray(row).save(f"shelf/{place:03d}.png")
    shutil.copy(mirror / "weights" / "cifar10" / "standard-resnet20.safetensors", "net.safetensors")
    line = "cosight:resnet20,checkpoint=net.safetensors"
    local, remote = _both(tmp_path, line, on="shelf", labels="cifar-10", features=True)
    assert remote == local


@pytest.mark.slow
def test_photos_altered_on_the_way(cluster, in_workshop, tmp_path):
    photos = draw_images(tmp_path / "photos", 16, shape=(64, 64), classes=SUPERCLASSES)
    line = TINY.replace("model", "thousand")
    local, far = _both(tmp_path, line, workers=1, on="laion-c", source=photos, limit=3, thumbnails=True)
    assert far == local
    thumbnails = list((tmp_path / "ray" / "thumbnails").rglob("*.jpeg"))
    assert len(thumbnails) == 3 * (1 + 6 * 5)  # photos, undistorted and with six distortions at five levels


@pytest.mark.slow
def test_the_command_line_on_a_cluster_that_others_started(cluster, images, command, in_workshop, tmp_path):
    evaluate(TINY, on=images, out=tmp_path / "local", threads=1, features=True)
    where = ("--on", images, "--out", tmp_path / "ray", "--features")
    ended = command.run("evaluate", TINY, *where, "--engine", "ray", "--threads", 1, RAY_ADDRESS=cluster)
    assert ended.returncode == 0, ended.stderr
    assert "raylet" not in ended.stdout + ended.stderr
    assert len(list((tmp_path / "ray" / "trials").glob("python*"))) == 4  # shards
    assert kept(tmp_path / "ray") == kept(tmp_path / "local")


@pytest.mark.slow
def test_killed_workers_lose_nothing(cluster, images, fragile):
    evaluate(_MODEL, on=images, out="local", threads=1, features=True)
    Path("workers").unlink()
    done, killed = [], set()

    def kill_both(count, total, _):
        done.append(count)
        if len(done) == 1:
            killed.update(_noted())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    evaluate(_MODEL, on=images, out="ray", threads=1, features=True, engine="ray", workers=2, progress=kill_both)
    assert kept(Path("ray")) == kept(Path("local"))
    assert (len(done), done[-1]) == (4, 240)  # each of the four shards came once
    assert len(killed) >= 1
    assert set(_noted()) - killed  # who had to do the rest


def _noted():
    """Workers that were at it, in the order of their calls."""
    return [pid for pid in map(int, Path("workers").read_text().split()) if pid != os.getpid()]


@pytest.fixture
def less_patience(monkeypatch):
    """Given up after two deaths instead of three: a new worker takes seconds."""
    monkeypatch.setattr(ray_engine, "_MOST_DEATHS", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("less_patience")
def test_a_model_that_kills_every_worker_is_given_up(cluster, images, fragile):
    evaluate(_MODEL, on=images, out="local", threads=1)
    deadly = Path("dies answering")
    with pytest.raises(InvalidInput, match=r"^Ray workers died again .* answering images \d+ to \d+ .*--engine local$"):
        evaluate(_MODEL, on=images, out="ray", engine="ray", workers=1, progress=lambda *_: deadly.touch())
    whole, begun = kept(Path("local")), kept(Path("ray"))
    answers = {name for name in begun if name.startswith("trials/python")}
    assert 1 <= len(answers) < 4
    assert {name: begun[name] for name in answers} == {name: whole[name] for name in answers}
    deadly.unlink()
    evaluate(_MODEL, on=images, out="ray", threads=1)
    assert kept(Path("ray")) == whole


@pytest.mark.slow
@pytest.mark.usefixtures("less_patience")
def test_a_model_that_no_worker_survives_loading(cluster, images, fragile):
    Path("dies loading").touch()
    with pytest.raises(InvalidInput, match=r"^Ray workers died again and again, the last while loading the model \("):
        evaluate(_MODEL, on=images, out="ray", engine="ray", workers=1)


@pytest.mark.slow
def test_another_model_under_the_same_name_is_refused(cluster, images, fragile):
    with Path("fragile.py").open("a") as file:
        file.write("\nif os.getpid() != int(Path('driver').read_text()):\n    from tiny import model as other\n")
    with pytest.raises(InvalidInput, match=r"^python:fragile:model.* has other weights on .* the same files"):
        evaluate(_MODEL, on=images, out="ray", engine="ray", workers=1)


@pytest.mark.slow
def test_a_broken_image_stops_with_its_line_or_is_skipped(cluster, few_images, in_workshop, tmp_path):
    broken = few_images / "cat" / "0073.png"
    broken.write_bytes(broken.read_bytes()[:200])
    said = []
    for engine in ("local", "ray"):
        with pytest.raises(InvalidInput, match=r"0073\.png") as refused:
            evaluate(TINY, on=few_images, out=tmp_path / f"stopped {engine}", engine=engine, workers=1)
        said.append((type(refused.value), str(refused.value)))
    assert said[0] == said[1]
    local, far = _both(tmp_path, TINY, workers=1, on=few_images, features=True, on_error="skip")
    assert far == local


def test_a_model_itself_is_refused(images, tmp_path):
    from cosight.models import Preprocessing, as_model

    grey = Preprocessing(size=(16, 16), mean=(0, 0, 0), std=(1, 1, 1))
    model = as_model(lambda x: x[:, 0, 0, :10], name="mine:grey", preprocessing=grey, outputs="logits")
    with pytest.raises(InvalidInput, match=r"load models by name, got the model mine:grey itself; .*--engine local"):
        evaluate(model, on=images, out=tmp_path / "run", engine="ray")


def test_more_threads_than_a_node_has(cluster, images, in_workshop, tmp_path):
    with pytest.raises(InvalidInput, match="--threads must be at most the CPUs of a Ray node, 2 here, got 3"):
        evaluate(TINY, on=images, out=tmp_path / "run", engine="ray", threads=3, workers=1)


def test_devices_that_the_cluster_does_not_have(cluster, images, in_workshop, tmp_path):
    with pytest.raises(InvalidInput, match="Ray gives every worker a card of its own, got --device cuda:1; use --dev"):
        evaluate(TINY, on=images, out=tmp_path / "run", engine="ray", device="cuda:1")
    with pytest.raises(InvalidInput, match="--device cuda is not available: no node of the Ray cluster has a GPU"):
        evaluate(TINY, on=images, out=tmp_path / "run", engine="ray", device="cuda")


@pytest.mark.parametrize(
    ("address", "where"), [(f"{_HERE}:9", f"at {_HERE}:9 "), (f"ray://{_HERE}:9", "at ray://"), ("", "")]
)
def test_no_cluster(images, in_workshop, tmp_path, monkeypatch, address, where):
    def nobody(**_):
        raise ConnectionError("Could not find any running Ray instance. Please specify ...")  # Ray 2.60, address "auto"

    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", nobody)
    with pytest.raises(
        InvalidInput, match=rf"^there is no Ray cluster {where}.*; start one with `ray start --head`, or"
    ):
        evaluate(TINY, on=images, out=tmp_path / "run", engine="ray")


def test_without_ray(images, in_workshop, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cosight\[ray\]'"):
        evaluate(TINY, on=images, out=tmp_path / "run", engine="ray")


def test_a_finished_run_needs_no_cluster(images, in_workshop, tmp_path, monkeypatch):
    evaluate(TINY, on=images, out=tmp_path / "run", threads=1)
    monkeypatch.setattr("ray.init", None)
    assert evaluate(TINY, on=images, out=tmp_path / "run", engine="ray").new == 0


class _Pretend:
    """As much of Ray as a crew needs. Each draw says who is next to end, and whether by an answer or by death."""

    def __init__(self, draw):
        self.draw, self.owed, self.most, self.dead = draw, [], 0, []

    def hire(self):
        return _Actor(self)

    def wait(self, results):
        self.most = max(self.most, *(sum(one[0] is actor for one in self.owed) for actor, _ in self.owed))
        return [self.draw(st.sampled_from(self._first()))], []

    def _first(self):
        """What each actor is at; actors do one thing after the other."""
        return [one for place, one in enumerate(self.owed) if one[0] not in [actor for actor, _ in self.owed[:place]]]

    def get(self, result):
        if self.draw(st.integers(0, 3)) == 0:
            raise ray.exceptions.ActorDiedError
        self.owed.remove(result)
        return result[1]

    def kill(self, actor):
        self.dead.append(actor)
        self.owed = [one for one in self.owed if one[0] is not actor]


class _Actor:
    """Calls are remembered as (actor, shard), in order."""

    def __init__(self, pretend):
        self.pretend = pretend
        self.get_ready = self.answer = self

    def remote(self, shard=None):
        assert self not in self.pretend.dead
        self.pretend.owed.append((self, shard))
        return self, shard


@given(st.data(), st.integers(1, 8), st.integers(1, 4))
def test_whoever_dies_each_shard_comes_once_or_it_is_given_up(data, count, actors):
    pretend = _Pretend(data.draw)
    shards = [Shard(index, range(index, index + 1)) for index in range(count)]
    came = []
    with suppress(InvalidInput):
        came.extend(_ActorPool(pretend, pretend.hire, deque(shards)).answers(actors))
        assert sorted(came, key=lambda shard: shard.index) == shards
    assert len(came) == len(set(came))
    assert pretend.most <= 2
    assert not pretend.owed  # nobody is left at work


def test_the_registry_has_it_without_importing_ray():
    code = "import sys; from cosight.runs.execution import engines; print([*engines], 'ray' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "['local', 'ray'] False"
