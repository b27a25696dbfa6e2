"""Files that are damaged, too large or not where they should be."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.trials import file_tables, make_trials, read, write
from cosight.trials.file_tables import available_memory, check_memory, csv_text

TABLE = {"observer": ["human:a", "human:b"], "kind": "human", "image": "1.png", "truth": "cat", "response": "cat"}


@pytest.fixture
def trials():
    return make_trials(pl.DataFrame(TABLE))


@pytest.mark.parametrize("to", ["parquet", "model-vs-human", "psych-ds"])
def test_files_larger_than_the_memory_are_refused_before_they_are_read(to, tmp_path, monkeypatch, cosight):
    rows = {**TABLE, "observer": "human:a", "image": [f"{n}.png" for n in range(20_000)]}
    path = tmp_path / ("t.parquet" if to == "parquet" else "t")
    write(make_trials(pl.DataFrame(rows)), path, to=to)
    assert len(read(path)) == 20_000
    monkeypatch.setattr(file_tables, "available_memory", lambda: 1_000_000)
    done = cosight("trials", "show", path)
    assert done.code == 2
    assert "too large for the memory" in done.err
    assert "of 0.001 GB available; split it by observer or experiment" in done.err


def test_the_limit_of_memory_leaves_a_margin(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 1000)
    check_memory([path], 800, available=1000)
    with pytest.raises(InvalidInput, match="too large for the memory"):
        check_memory([path], 801, available=1000)
    assert available_memory() is None or available_memory() > 1_000_000


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("{", "the cosight metadata must be JSON"),
        ("[1]", "must be an object with a version"),
        ('{"version": "2"}', "must be an object with a version"),
        ('{"version": 99}', "written by a newer cosight"),
        ('{"sources": 3}', "the sources of trials are a list of objects, got 3"),
        ('{"sources": [{"file": 1}]}', "the sources of trials are a list of objects"),
        ('{"space": 7}', "a label space has name, classes"),
        ('{"space": {"name": "x"}}', "a label space has name, classes"),
        ('{"space": {"name": "x", "classes": [{}]}}', "classes of a label space is a list of names"),
        ('{"space": {"name": "x", "classes": ["a", "a"]}}', "a label space has distinct class names"),
        ('{"space": {"name": "x", "classes": ["a"], "aliases": ["b"]}}', "aliases of a label space is a list of pairs"),
    ],
)
def test_malformed_metadata_is_one_line(metadata, expected, trials, tmp_path, cosight):
    trials.frame.write_parquet(tmp_path / "t.parquet", metadata={"cosight": metadata})
    done = cosight("trials", "show", tmp_path / "t.parquet")
    assert done.code == 2
    assert f"{tmp_path / 't.parquet'}: " in done.err
    assert expected in done.err


def test_malformed_metadata_of_a_psych_ds_folder_is_one_line(trials, tmp_path):
    write(trials, tmp_path / "out", to="psych-ds")
    path = tmp_path / "out" / "dataset_description.json"
    for key, value in (("cosight:sources", 3), ("cosight:labelSpace", {"name": 1, "classes": []})):
        whole = path.read_text()
        path.write_text(json.dumps(json.loads(whole) | {key: value}))
        with pytest.raises(InvalidInput, match=f"dataset_description.json, {key}"):
            read(tmp_path / "out")
        path.write_text(whole)


@pytest.mark.parametrize("column", ["abstention", "response", "level", "probabilities"])
def test_columns_of_structs_are_refused(column, trials, tmp_path):
    frame = trials.frame.with_columns(pl.Series(column, [{"a": 1}, {"a": 2}]))
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match=f"column '{column}' must hold .*, got Struct"):
        read(tmp_path / "t.parquet")


def test_a_panic_of_the_parquet_reader_is_one_line(trials, tmp_path):
    """In a process of its own, because a panic prints to the terminal before Python sees it."""
    program = (
        "import sys, polars as pl\n"
        "import cosight.trials.file_tables as tables\n"
        "def panic(*_, **__):\n"
        "    import os; os.write(2, b'thread panicked at src/lib.rs')\n"
        "    raise pl.exceptions.PanicException('assertion failed: offset + length <= self.length')\n"
        "pl.scan_parquet = panic\n"
        "from cosight.cli.app import main\n"
        "main()\n"
    )
    write(trials, tmp_path / "t.parquet")
    command = [sys.executable, "-c", program, "trials", "show", str(tmp_path / "t.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"cosight: {tmp_path / 't.parquet'}: not a readable Parquet file: assertion failed")
    assert len(done.stderr.splitlines()) == 1


def test_links_that_lead_in_a_circle_are_no_trials(trials, tmp_path, cosight):
    folder = tmp_path / "folder"
    write(trials, folder / "t.parquet")
    (folder / "self").symlink_to(folder / "self")
    (folder / "up").symlink_to(folder)
    (folder / "one").symlink_to(folder / "two")
    (folder / "two").symlink_to(folder / "one")
    assert len(read(folder)) == 2
    assert cosight("trials", "show", folder / "self").code == 2
    write(trials, tmp_path / "described", to="psych-ds")
    (tmp_path / "described" / "data" / "again_data.csv").symlink_to(tmp_path / "described" / "data" / "again_data.csv")
    (tmp_path / "described" / "data" / "up").symlink_to(tmp_path / "described")
    assert len(read(tmp_path / "described")) == 2


def test_an_empty_path_is_not_the_current_folder(trials, tmp_path, cosight, monkeypatch):
    write(trials, tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    done = cosight("trials", "show", "")
    assert (done.code, done.out) == (2, "")
    assert "an argument is empty" in done.err
    with pytest.raises(InvalidInput, match="got an empty path"):
        read("")


def test_what_people_write_is_no_formula_in_a_spreadsheet():
    texts = [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "fine",
        "-5",
        "+41",
        "-1,5",
        None,
    ]
    table = pl.read_csv(csv_text(pl.DataFrame({"about": texts, "bonus": [-0.5] * 12})).encode(), infer_schema=False)
    assert table["about"].to_list() == [*(f"'{text}" for text in texts[:7]), *texts[7:]]
    assert set(table["bonus"]) == {"-0.5"}
