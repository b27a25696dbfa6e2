"""Damaged run records."""

import shutil

import polars as pl
import pytest

from tests.fuzz.mutations import damage_bytes, damage_json

CLASSES = "cat,dog"


@pytest.fixture(scope="module")
def finished_run(photos_folder, tmp_path_factory):
    """A run of recorded answers, which needs no model."""
    from cosight.runs.evaluate import evaluate

    answers = tmp_path_factory.mktemp("answers") / "answers.parquet"
    files = sorted(photos_folder.rglob("*.png"))
    frame = {"observer": "m:a", "kind": "model", "image": [f.name for f in files], "response": "cat"}
    frame |= {"truth": [f.parent.name for f in files], "experiment": photos_folder.name}
    pl.DataFrame(frame).write_parquet(answers)
    out = tmp_path_factory.mktemp("run") / "run"
    evaluate(f"trials:{answers}", on=photos_folder, labels=CLASSES, out=out)
    return out


def test_run_records(cases, fuzz, finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "runs" / "damaged")
    shutil.copytree(finished_run, tmp_path / "runs" / "whole")
    record = tmp_path / "runs" / "damaged" / "run.json"
    whole = record.read_bytes()
    commands = (("run", "status"), ("trials", "show"), ("run", "list"), ("score",))

    def prepare(rng):
        record.write_bytes((damage_json if rng.random() < 0.8 else damage_bytes)(whole, rng))
        command = commands[int(rng.integers(len(commands)))]
        target = tmp_path / "runs" if command == ("run", "list") else record.parent
        return (*command, target, "--json")

    fuzz(cases, prepare)
