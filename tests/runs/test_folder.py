"""A run's folder: names of files, shards that are found again, features put together."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from cosight.files import file_name
from cosight.runs.execution import ShardAnswers
from cosight.runs.folder import RunFolder, _join_safetensors
from cosight.runs.run_plan import RunPlan, Shard
from cosight.trials.manifest import manifest_frame
from cosight.trials.parquet import read_sources
from cosight.trials.spaces import label_spaces

_NAMES = st.text(st.characters(codec="utf-8"), max_size=200) | st.from_regex(
    r"[a-z]+:[A-Za-z0-9._/=,-]*", fullmatch=True
)


@pytest.mark.parametrize(
    ("observer", "name"),
    [
        ("timm:resnet50.a1_in1k", "timm-resnet50.a1_in1k"),
        ("onnx:tiny.onnx,size=64", "onnx-tiny.onnx,size=64"),
        ("human:s01", "human-s01"),
        ("openclip:ViT-B-32/laion2b", "openclip-ViT-B-32-laion2b-d2aeeb52"),  # no longer told by its letters alone
        ("..", "-.-5ec1f7e7"),
        (".hidden", "-hidden-16924190"),
        ("", "-e3b0c442"),  # sha256 of nothing
    ],
)
def test_names_of_files_can_be_read(observer, name):
    assert file_name(observer) == name


@given(_NAMES)
def test_a_name_of_a_file_is_one_on_every_system(observer):
    found = file_name(observer)
    assert re.fullmatch(r"[A-Za-z0-9_+=@#,-][A-Za-z0-9._+=@#,-]*", found, re.ASCII)
    assert len(found) <= 129  # with ending and number below the 143 bytes that encrypted file systems allow
    assert found == file_name(observer)


@given(_NAMES, _NAMES)
def test_two_observers_share_no_file_but_where_it_is_refused(one, two):
    """The one colon after the source is written as a hyphen: `a:b` and `a-b`, which a run refuses together."""
    if file_name(one) == file_name(two):
        assert one.replace(":", "-", 1) == two.replace(":", "-", 1)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_joined_features_are_those_of_the_parts_one_after_the_other(rows, width, with_features, seed):
    rng = np.random.default_rng(seed)
    widths = {"logits": width, **({"features": 3} if with_features else {})}
    parts = [
        {name: rng.normal(size=(count, wide)).astype(np.float32) for name, wide in widths.items()} for count in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{place}.safetensors") for place in range(len(parts))]
        for path, part in zip(paths, parts, strict=True):
            save_file(part, path)
        out = Path(folder, "joined.safetensors")
        _join_safetensors(paths, out)
        whole = load_file(out)
        assert set(whole) == set(widths)
        for name, array in whole.items():
            assert array.tobytes() == np.concatenate([part[name] for part in parts]).tobytes()
        with safe_open(out, "numpy") as opened:
            assert opened.get_slice("logits").get_shape() == [sum(rows), width]
        assert int.from_bytes(out.read_bytes()[:8], "little") % 8 == 0  # aligned, as the format asks for


@dataclass(frozen=True)
class Rows:
    frame: pl.DataFrame
    stamps: tuple[str, ...]
    settings: dict = field(default_factory=dict)
    folder: Path = Path()


@dataclass(frozen=True)
class Someone:
    name: str = "mine:one"
    kind: str = "model"


@pytest.fixture
def plan():
    """Three images in two shards, as if shards were small."""
    rows = [{"file": f"{n}.png", "image": f"{n}.png", "truth": "cat", "experiment": "e"} for n in range(3)]
    made = RunPlan(Rows(manifest_frame(rows), ("a", "b", "c")), label_spaces["cifar-10"], features=True)
    object.__setattr__(made, "shards", (Shard(0, range(2)), Shard(1, range(2, 3))))  # as a cached property would
    return made


def _given(plan, index, skipped=()):
    shard = plan.shards[index]
    shown = [row for row in shard.rows if row not in skipped]
    shares = pl.Series("probabilities", [[0.1] * 10] * len(shown), dtype=pl.List(pl.Float32))
    columns = pl.DataFrame({"response": pl.Series(["cat"] * len(shown), dtype=pl.String), "probabilities": shares})
    array = np.array([[np.nan if row in skipped else row] for row in shard.rows], dtype=np.float32)
    digests = tuple(f"digest {row}" for row in shown)
    return ShardAnswers(
        shard, tuple(shown), digests, columns, dict.fromkeys(skipped, "broken"), {"logits": array, "features": array}
    )


def test_a_shard_is_found_again_with_its_key_and_what_was_skipped(plan, tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.read_job("mine:one", 0) is None
    folder.write(Someone(), plan, _given(plan, 0, skipped=[1]), "the key")
    done = folder.read_job("mine:one", 0)
    assert (done.key, done.images, done.skipped) == ("the key", 1, {1: "broken"})
    assert folder.has_features("mine:one", 0)
    assert not folder.has_features("mine:one", 1)
    assert read_sources(folder.trial_file("mine:one", 0)) == [
        {"job": "the key", "images": 1, "skipped": {"1": "broken"}}
    ]


def test_parts_of_features_stay_until_they_are_joined(plan, tmp_path):
    folder = RunFolder(tmp_path)
    folder.write(Someone(), plan, _given(plan, 0, skipped=[1]), "key")
    folder.join_features("mine:one", plan.shards)
    assert not folder.features_file("mine:one").exists()
    folder.write(Someone(), plan, _given(plan, 1), "key")
    folder.join_features("mine:one", plan.shards)
    assert [path.name for path in (tmp_path / "features").iterdir()] == ["mine-one.safetensors"]
    np.testing.assert_array_equal(load_file(folder.features_file("mine:one"))["logits"], [[0], [np.nan], [2]])


def test_digests_are_learnt_from_whoever_was_shown_the_image(plan, tmp_path):
    folder = RunFolder(tmp_path)
    folder.write(Someone(), plan, _given(plan, 0, skipped=[1]), "key")
    folder.write(Someone(), plan, _given(plan, 1), "key")
    folder.write_digests(plan, ["mine:one"])
    assert pl.read_parquet(tmp_path / "stimuli.parquet")["stimulus"].to_list() == ["digest 0", None, "digest 2"]
    folder.write(Someone("mine:two"), plan, _given(plan, 0), "key")
    folder.write_digests(plan, ["mine:one", "mine:two"])
    assert pl.read_parquet(tmp_path / "stimuli.parquet")["stimulus"].to_list() == ["digest 0", "digest 1", "digest 2"]


def test_a_folder_without_answers_says_so(plan, tmp_path):
    folder = RunFolder(tmp_path)
    assert not folder.has_answers()
    folder.write_stimuli(plan)
    (tmp_path / "trials/.abc.cosight-draft").touch()
    assert not folder.has_answers()
    folder.write(Someone(), plan, _given(plan, 0), "key")
    folder.trial_file("mine:one", 0).unlink()  # killed between the features and the table
    assert folder.has_answers()


def test_only_errors_of_the_disk_are_told_as_such(plan, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    told = "parquet: underlying IO error: No space left on device (os error 28)"  # as polars 2.1 words it

    def raises(message):
        def write_parquet(*given, **more):
            raise pl.exceptions.ComputeError(message)

        return write_parquet

    monkeypatch.setattr(pl.DataFrame, "write_parquet", raises(told))
    with pytest.raises(OSError, match="No space left on device") as error:
        folder.write_stimuli(plan)
    assert (error.value.errno, error.value.filename) == (28, str(tmp_path / "stimuli.parquet"))
    monkeypatch.setattr(pl.DataFrame, "write_parquet", raises("something else"))
    with pytest.raises(pl.exceptions.ComputeError):
        folder.write_stimuli(plan)
