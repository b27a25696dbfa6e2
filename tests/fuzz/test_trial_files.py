"""Damaged trial files, of every format."""

import json

import polars as pl
import pytest

from cosight.trials import label_spaces, make_trials, read, write
from tests.fuzz.mutations import ODD_VALUES, damage_bytes, damage_csv, damage_json

COLUMNS = {
    "observer": ["human:a", "human:b", "m:net", "m:net"],
    "kind": ["human", "human", "model", "model"],
    "experiment": ["edges"] * 4,
    "image": ["cat1.png", "cat1.png", "cat1.png", "dog2.png"],
    "condition": ["0", "0", "0", "1"],
    "truth": ["cat", "cat", "cat", "dog"],
    "response": ["cat", "dog", "cat", None],
    "rt": [0.5, 0.7, None, None],
    "session": ["1"] * 4,
    "trial": [1, 1, 1, 2],
}


@pytest.fixture(scope="module")
def trials():
    return make_trials(pl.DataFrame(COLUMNS), space=label_spaces["model-vs-human-16"])


@pytest.fixture(scope="module")
def sources(trials, tmp_path_factory):
    """A file or folder of each format."""
    folder = tmp_path_factory.mktemp("sources")
    write(trials, folder / "trials.parquet")
    write(trials, folder / "csv", to="model-vs-human")
    write(trials, folder / "psych-ds", to="psych-ds")
    probabilities = {"visalign-1.png": [0.1] * 10 + [0.0], "visalign-2.png": None}
    (folder / "board.json").write_text(json.dumps(probabilities))
    write(trials, folder / "own.csv")
    for path in (
        folder / "trials.parquet",
        folder / "own.csv",
        folder / "csv",
        folder / "psych-ds",
        folder / "board.json",
    ):
        assert len(read(path))
    return folder


def test_csv(cases, fuzz, sources, tmp_path):
    whole = sorted((sources / "csv").rglob("*.csv"))[0].read_bytes()
    path = tmp_path / "edges" / "edges_human-a_session_1.csv"
    path.parent.mkdir()

    def prepare(rng):
        path.write_bytes((damage_csv if rng.random() < 0.6 else damage_bytes)(whole, rng))
        return ("trials", "show", path) if rng.random() < 0.7 else ("compare", path, sources / "csv", "--resamples", 5)

    fuzz(cases, prepare)


UGLY = b"""\xef\xbb\xbf;SUBJECT;FileName;Answer;Correct Label;RT (ms);cond;age;trial;kind
0;P1;img/cat1.png;Cat;cat;512,5;0,5;31;1;human
1;P1;img/dog2.png;na;dog;;0,5;31;2;human
2;P2;img/cat1.png;=1+1;cat;"1134";1;;1;human
"""


def test_tables_of_other_programs(cases, fuzz, sources, tmp_path):
    path, target = tmp_path / "my.csv", tmp_path / "out.csv"
    about = tmp_path / "own.csv-metadata.json"
    own = (sources / "own.csv").read_bytes()
    description = (sources / "own.csv-metadata.json").read_bytes()

    def prepare(rng):
        damage = damage_csv if rng.random() < 0.6 else damage_bytes
        if rng.random() < 0.4:
            (tmp_path / "own.csv").write_bytes(damage(own, rng) if rng.random() < 0.6 else own)
            about.write_bytes((damage_json if rng.random() < 0.8 else damage_bytes)(description, rng))
            return "trials", "show", tmp_path / "own.csv"
        path.write_bytes(damage(UGLY, rng))
        given = [] if rng.random() < 0.5 else ["--columns", "observer=SUBJECT,image=FileName,response=Answer,rt=age"]
        return "trials", "convert", path, target, "--force", "--experiment", "edge", *given

    fuzz(cases, prepare)


def test_parquet_bytes(cases, fuzz, sources, tmp_path):
    whole = (sources / "trials.parquet").read_bytes()
    path = tmp_path / "trials.parquet"

    def prepare(rng):
        path.write_bytes(damage_bytes(whole, rng))
        return "trials", "show", path

    fuzz(cases, prepare)


def odd_column(rng, height):
    """A column of a type that a trial table does not have."""
    match int(rng.integers(7)):
        case 0:
            return pl.Series([{"a": 1, "b": None}] * height)
        case 1:
            return pl.Series([["x", None]] * height)
        case 2:
            return pl.Series([b"\x00\xff"] * height)
        case 3:
            return pl.Series([float("nan")] * height)
        case 4:
            return pl.Series([None] * height)
        case 5:
            return pl.Series([True, False] * height)[:height]
        case _:
            return pl.Series(["\x00"] * height, dtype=pl.Categorical)


def test_parquet_columns_and_metadata(cases, fuzz, sources, tmp_path):
    frame = pl.read_parquet(sources / "trials.parquet")
    metadata = pl.read_parquet_metadata(sources / "trials.parquet")["cosight"].encode()
    path = tmp_path / "trials.parquet"

    def prepare(rng):
        changed, about = frame, metadata
        if rng.random() < 0.7:
            name = frame.columns[int(rng.integers(len(frame.columns)))]
            changed = frame.with_columns(odd_column(rng, frame.height).alias(name))
        if rng.random() < 0.7:
            about = (damage_json if rng.random() < 0.8 else damage_bytes)(metadata, rng)
        changed.write_parquet(path, metadata={"cosight": about.decode("utf-8", "replace")})
        return "trials", "show", path

    fuzz(cases, prepare)


def test_psych_ds(cases, fuzz, sources, tmp_path):
    files = [path for path in sorted((sources / "psych-ds").rglob("*")) if path.is_file()]
    target = tmp_path / "psych-ds"

    def prepare(rng):
        damaged = files[int(rng.integers(len(files)))]
        for file in files:
            copy = target / file.relative_to(sources / "psych-ds")
            copy.parent.mkdir(parents=True, exist_ok=True)
            content = file.read_bytes()
            if file == damaged:
                by_kind = damage_json if file.suffix == ".json" else damage_csv
                content = (by_kind if rng.random() < 0.7 else damage_bytes)(content, rng)
            copy.write_bytes(content)
        return "trials", "show", target

    fuzz(cases, prepare)


def test_leaderboard(cases, fuzz, sources, tmp_path):
    whole = (sources / "board.json").read_bytes()
    path = tmp_path / "board.json"

    def prepare(rng):
        content = (damage_json if rng.random() < 0.7 else damage_bytes)(whole, rng)
        path.write_bytes(content if rng.random() < 0.95 else json.dumps(ODD_VALUES).encode())
        return "trials", "show", path

    fuzz(cases, prepare)
