"""The trial table as CSV: everything comes back, no cell is a formula of a spreadsheet."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.trials import formats, read, write
from cosight.trials.table import OBSERVERS, SCHEMA
from tests.trials.test_psych_ds import BARE, FULL, PETS, ROWS, table

FORMULAS = ["=1+1", "'=1+1", "''=x", "-2+3", "-5", "'-5", "@a", "+x", "\t=1", "'", "''"]


def roundtrip(trials, folder):
    write(trials, folder / "t.csv", force=True)
    return read(folder / "t.csv")


def test_everything_comes_back(tmp_path):
    known = pl.DataFrame([["model:m#knn", "model", "cnn", "resnet", 45, "knn"]], schema=OBSERVERS, orient="row")
    sources = [{"file": "edge/a.csv", "columns": ["subj", "Session"], "crlf": True, "n": None}]
    before = table(FULL, BARE, {**FULL, "image": "c.png"}, space=PETS, observers=known, sources=sources)
    after = roundtrip(before, tmp_path)
    assert after.frame.equals(before.frame)
    assert after.observers.equals(before.observers)
    assert (after.space, after.sources) == (before.space, before.sources)


@given(rows=st.lists(ROWS, min_size=1, max_size=6))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_table_comes_back(tmp_path_factory, rows):
    before = table(*rows)
    after = roundtrip(before, tmp_path_factory.mktemp("csv"))
    assert after.frame.equals(before.frame)


def test_formulas_are_guarded_and_come_back(tmp_path):
    before = table(*({**BARE, "image": f"{i}.png", "condition": text} for i, text in enumerate(FORMULAS)))
    assert roundtrip(before, tmp_path).frame.equals(before.frame)
    cells = pl.read_csv(tmp_path / "t.csv", infer_schema=False)["condition"].to_list()
    assert not [cell for cell in cells if cell[0] in "=+@\t" or (cell[0] == "-" and cell != "-5")]


def test_the_table_is_read_without_its_description(tmp_path):
    before = read("sample:edges")
    write(before, tmp_path / "edges.csv")
    assert set(json.loads((tmp_path / "edges.csv-metadata.json").read_text())) >= {"@context", "tableSchema"}
    assert read(tmp_path).notices == ()  # the description is not counted as another file
    (tmp_path / "edges.csv-metadata.json").unlink()
    after = read(tmp_path / "edges.csv")
    assert after.frame.equals(before.frame)
    assert after.space == before.space


def test_published_files_come_back_by_way_of_csv(mirror, tmp_path, cosight):
    for source, target in (("sample:edges", "edges.csv"), (tmp_path / "edges.csv", "again")):
        assert cosight("trials", "convert", source, tmp_path / target).code == 0
    published = mirror / "error-consistency" / "edges"
    written = {file.name: file.read_bytes() for file in (tmp_path / "again" / "edges").iterdir()}
    assert written == {file.name: file.read_bytes() for file in published.iterdir()}


def test_a_description_of_another_program_is_refused(tmp_path):
    write(table(BARE), tmp_path / "t.csv")
    (tmp_path / "t.csv-metadata.json").write_text("[]")
    with pytest.raises(InvalidInput, match=r"t\.csv-metadata\.json: not written by cosight"):
        read(tmp_path / "t.csv")


def test_a_cell_changed_by_hand_is_named(tmp_path):
    write(table({**BARE, "rt": 0.5}), tmp_path / "t.csv")
    path = tmp_path / "t.csv"
    path.write_text(path.read_text().replace("0.5", "soon"))
    with pytest.raises(InvalidInput, match=r"t\.csv, row 1, column rt: a cell is a number or nothing, got 'soon'"):
        read(path)


def test_a_table_saved_by_a_spreadsheet_with_semicolons(tmp_path):
    write(table({**BARE, "rt": 0.5}), tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_text()
    (tmp_path / "excel.csv").write_text(text.replace(",", ";").replace("0.5", "0,5"), encoding="utf-8-sig")
    after = read(tmp_path / "excel.csv").frame
    assert after.select("observer", "image", "rt", "role").rows() == [("human:s01", "b.png", 0.5, "test")]


def test_existing_files_and_full_disks(tmp_path, cosight, refused_when_full):
    write(table(BARE), tmp_path / "t.csv")
    assert "t.csv exists" in cosight("trials", "convert", "sample:edges", tmp_path / "t.csv").err
    files = refused_when_full(
        [1000, 50_000], "trials", "convert", "sample:edges", tmp_path / "new.csv", folder=tmp_path
    )
    assert set(files) <= {"new.csv", "new.csv-metadata.json"}
    assert not (tmp_path / "new.csv").exists()


def test_every_column_is_kept():
    assert formats["csv"].keeps == set(SCHEMA)
