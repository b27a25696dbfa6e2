from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cosight.errors import InvalidInput
from cosight.trials import LabelSpace, make_trials, read, write
from cosight.trials.formats import formats
from cosight.trials.table import OBSERVERS, SCHEMA

PETS = LabelSpace("pets", ("cat", "dog"), abstain=True, source="a shelter")
ROW = {
    "observer": "timm:net", "kind": "model", "experiment": "e", "stimulus": "d1", "image": "1.png", "condition": "0.90",
    "level": 3, "truth": "abstain", "response": "cat", "probabilities": [0.75, 0.25], "abstention": 0.1 + 0.2,
    "rt": 0.1, "session": "1", "trial": 2, "extra": '{"raw": "cät"}',
}  # fmt: skip
BARE = dict.fromkeys(ROW) | {"observer": "human:1", "kind": "human", "image": "2.png"}
FACTS = {
    "observer": "timm:net",
    "kind": "model",
    "family": "cnn",
    "architecture": "resnet",
    "seed": 45,
    "abstention": "knn",
}


def trials(*rows, observers=None, sources=()):
    known = None if observers is None else pl.DataFrame(observers)
    return make_trials(pl.DataFrame(rows or [ROW, BARE], schema=SCHEMA), space=PETS, observers=known, sources=sources)


def test_everything_survives_a_round_trip(tmp_path):
    before = trials(observers=[FACTS], sources=[{"file": "a.csv", "columns": ["x"]}])
    assert write(before, tmp_path / "t.parquet") is before
    after = read(tmp_path / "t.parquet")
    assert_frame_equal(after.frame, before.frame, check_exact=True)
    assert after.space == PETS
    assert after.sources == before.sources
    assert_frame_equal(after.observers, before.observers)
    assert after.observers.row(0, named=True) == FACTS
    assert (tmp_path / "t.parquet").read_bytes()[:4] == b"PAR1"


def test_an_unknown_space_stays_unknown(tmp_path):
    table = make_trials(pl.DataFrame([BARE], schema=SCHEMA))
    write(table, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").space is None


def test_observers_beside_gather_and_the_newest_facts_win(tmp_path):
    write(trials(ROW, observers=[FACTS]), tmp_path / "a.parquet")
    write(trials(BARE), tmp_path / "b.parquet")
    beside = pl.read_parquet(tmp_path / "observers.parquet")
    assert beside["observer"].to_list() == ["human:1", "timm:net"]
    assert beside.columns == list(OBSERVERS)
    write(trials(ROW, observers=[{**FACTS, "seed": 46}]), tmp_path / "a.parquet", force=True)
    assert read(tmp_path / "a.parquet").observers["seed"].to_list() == [46]
    assert len(read(tmp_path)) == 2  # observers.parquet is no trial file


def test_tables_of_others_without_our_metadata_are_read(tmp_path):
    pl.DataFrame([{"observer": "human:1", "kind": "human", "image": "1", "response": "cat"}]).write_parquet(
        tmp_path / "x.parquet"
    )
    table = read(tmp_path / "x.parquet")
    assert (len(table), table.space, table.frame.columns) == (1, None, list(SCHEMA))


def test_a_newer_table_is_refused(tmp_path):
    path = tmp_path / "new.parquet"
    trials().frame.write_parquet(path, metadata={"cosight": json.dumps({"version": 3, "space": None})})
    with pytest.raises(InvalidInput, match=r"new\.parquet: written by a newer cosight \(table version 3\); update"):
        read(path)


@pytest.mark.parametrize("keep", [4, 100, -8])
def test_a_file_cut_short_is_named(tmp_path, keep):
    path = tmp_path / "cut.parquet"
    write(trials(), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InvalidInput, match=r"cut\.parquet: not a readable Parquet file") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_metadata_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "odd.parquet"
    trials().frame.write_parquet(path, metadata={"cosight": "{"})
    with pytest.raises(InvalidInput, match=r"odd\.parquet"):
        read(path)


@pytest.mark.parametrize("beside", [b"PAR1 and nothing", None])
def test_observers_that_cannot_be_read_are_named(tmp_path, beside):
    write(trials(), tmp_path / "t.parquet")
    path = tmp_path / "observers.parquet"
    path.write_bytes(beside) if beside else pl.DataFrame({"x": [1]}).write_parquet(path)
    with pytest.raises(
        InvalidInput, match=r"observers\.parquet: (not a readable Parquet file|a table of observers has)"
    ):
        read(tmp_path / "t.parquet")


def test_a_table_of_something_else_is_named(tmp_path):
    pl.DataFrame({"file": ["1.png"]}).write_parquet(tmp_path / "stimuli.parquet")
    with pytest.raises(
        InvalidInput, match=r"stimuli\.parquet: a trial table must have the column 'observer', got file"
    ):
        read(tmp_path / "stimuli.parquet")


def test_a_bad_row_is_named_with_its_file(tmp_path):
    frame = trials(ROW, ROW).frame.with_columns(abstention=pl.Series([0.5, 1.5]))
    frame.write_parquet(tmp_path / "bad.parquet")
    with pytest.raises(
        InvalidInput, match=r"bad\.parquet, row 2, column abstention: abstention lies in \[0, 1\], got 1\.5"
    ):
        read(tmp_path / "bad.parquet")


def test_writing_is_whole_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write(trials(ROW), path)
    before = {f.name: f.read_bytes() for f in tmp_path.iterdir()}

    def torn(self, file, **options):
        file.write_bytes(b"PAR1 half")
        raise OSError("no space left")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", torn)
    with pytest.raises(OSError, match="no space left"):
        write(trials(BARE), path, force=True)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before  # the old file, and no draft beside it


def test_an_existing_file_is_overwritten_only_with_force(tmp_path, cosight):
    path = tmp_path / "t.parquet"
    write(trials(ROW, BARE), path)
    before = path.read_bytes()
    done = cosight("trials", "convert", path, path, "--only", "human:1")
    assert done.code == 2
    assert "t.parquet exists; choose another name, or overwrite it with --force" in done.err
    assert path.read_bytes() == before
    assert cosight("trials", "convert", path, path, "--only", "human:1", "--force").code == 0
    assert len(read(path)) == 1


@pytest.mark.parametrize("target", ["new/t.parquet", "t2.parquet", "psych-ds"])
def test_further_columns_about_observers_survive(tmp_path, target):
    write(trials(ROW, BARE), tmp_path / "t.parquet")
    beside = pl.DataFrame({"observer": ["human:1", "human:9"], "age": [31, 44], "note": ["left-handed", None]})
    beside.write_parquet(tmp_path / "observers.parquet")
    table = read(tmp_path / "t.parquet")
    write(table, tmp_path / target, to="psych-ds" if target == "psych-ds" else None)
    found = read(tmp_path / target).observers
    assert found.columns == [*OBSERVERS, "age", "note"]
    assert found.filter(observer="human:1").select("age", "note").row(0) == (31, "left-handed")
    if target == "t2.parquet":  # beside the same observers
        assert pl.read_parquet(tmp_path / "observers.parquet").filter(observer="human:9")["age"].to_list() == [44]


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    program = (
        "import resource, signal, sys\n"
        "from cosight.cli.app import main\n"
        "import cosight.trials\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))\n"
        "main()\n"
    )
    for target, to in (("t.parquet", "parquet"), ("folder", "model-vs-human"), ("described", "psych-ds")):
        arguments = ["trials", "convert", "sample:edges", str(tmp_path / target), "--to", to]
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        reason = f"{tmp_path / target}: {os.strerror(errno.EFBIG)}"
        assert done.stderr == f"cosight: {reason}; free some space, then run the same command again\n"
        assert list(tmp_path.iterdir()) == []


def test_every_column_is_kept():
    assert formats["parquet"].keeps == set(SCHEMA)


def test_columns_a_trial_does_not_have_are_reported(tmp_path):
    frame = trials(ROW).frame.with_columns(foo=pl.lit(1))
    frame.write_parquet(tmp_path / "t.parquet")
    assert any("foo" in notice for notice in read(tmp_path / "t.parquet").notices)


def test_a_level_with_a_fraction_is_refused(tmp_path):
    trials(ROW).frame.with_columns(level=pl.lit(1.7)).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match="'level' must hold whole numbers"):
        read(tmp_path / "t.parquet")


def test_the_table_of_observers_is_not_written_over(tmp_path):
    with pytest.raises(InvalidInput, match="choose another name for the table"):
        write(trials(ROW), tmp_path / "observers.parquet")
    assert list(tmp_path.iterdir()) == []
