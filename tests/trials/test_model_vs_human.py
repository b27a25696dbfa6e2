from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.trials import model_vs_human, parquet, psych_ds  # noqa: F401  register their formats
from cosight.trials.formats import formats, read
from cosight.trials.table import make_trials

FORMAT = formats["model-vs-human"]
HEADER = "subj,session,trial,rt,object_response,category,condition,imagename"
PERSON = "subject-01,1,1,0.868942022323608,knife,oven,0,0001_edg_s01_0_oven_00_oven10.png"
REFUSAL = "subject-01,1,2,NaN,na,oven,0,0002_edg_s01_0_oven_00_oven11.png"
MODEL = "alexnet,1,1,NaN,chair,oven,NaN,oven10.png"


@pytest.fixture
def file(tmp_path):
    """Write lines to edge/NAME.csv and return the path."""

    def write(*lines: str, name: str = "edge_s01.csv", end: str = "\n") -> Path:
        path = tmp_path / "in" / "edge" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("".join(line + end for line in lines).encode())
        return path

    return write


def rewritten(paths, out):
    """What is written after reading: relative path -> bytes."""
    FORMAT.write(FORMAT.read(paths), out)
    return {f.relative_to(out).as_posix(): f.read_bytes() for f in out.rglob("*") if f.is_file()}


def test_a_person_a_refusal_and_a_model(file):
    trials = FORMAT.read([file(HEADER, PERSON, REFUSAL), file(HEADER, MODEL, name="edge_alexnet.csv")])
    first, second, third = trials.frame.rows(named=True)
    assert (first["observer"], first["kind"], first["experiment"]) == ("human:subject-01", "human", "edge")
    assert (first["image"], first["condition"], first["truth"], first["response"]) == (
        "oven10.png",
        "0",
        "oven",
        "knife",
    )
    assert (first["rt"], first["session"], first["trial"]) == (0.868942022323608, "1", 1)
    assert json.loads(first["extra"]) == {
        "file": "edge/edge_s01.csv",
        "imagename": "0001_edg_s01_0_oven_00_oven10.png",
    }
    assert (second["response"], second["rt"]) == (None, None)  # `na` is no answer, NaN no time
    assert (third["observer"], third["kind"], third["condition"]) == ("model:alexnet", "model", None)
    assert trials.space.name == "model-vs-human-16"


@pytest.mark.parametrize("header", [HEADER, HEADER.replace("session", "Session"), HEADER.title()])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_spelling_of_header_and_line_ends_survive(file, tmp_path, header, end):
    path = file(header, PERSON, REFUSAL, end=end)
    assert FORMAT.recognises(path, path.read_bytes()[:100])
    assert rewritten([path], tmp_path / "out") == {"edge/edge_s01.csv": path.read_bytes()}


@pytest.mark.parametrize("condition", ["3", "3.0", "0.90", "true", "True", "c05", "1-10-10"])
def test_conditions_are_text(file, tmp_path, condition):
    path = file(HEADER, f"subject-01,1,1,0.5,knife,oven,{condition},oven1.png")
    assert FORMAT.read([path]).frame["condition"].to_list() == [condition]
    assert rewritten([path], tmp_path / "out")["edge/edge_s01.csv"] == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("0001_cl_s01_cr_oven_40_n04111531_14126.png", "n04111531_14126.png"),  # WordNet id: the last two parts
        ("0001_edg_s01_0_oven_00_oven10.png", "oven10.png"),
        ("0001_s5n_s01_0_bird_00_bird2-clock3.png", "bird2-clock3.png"),
        ("n04111531_14126.png", "n04111531_14126.png"),
        ("oven10.png", "oven10.png"),
        ("0001_n1_oven10.png", "0001_n1_oven10.png"),  # not the published pattern: the whole name
        ("day_7.png", "day_7.png"),
    ],
)
def test_the_image_behind_a_presentation(file, name, image):
    assert FORMAT.read([file(HEADER, f"s,1,1,0.5,oven,oven,0,{name}")]).frame["image"].to_list() == [image]


def test_two_images_stay_two_whatever_their_names_end_in(tmp_path):
    rows = pl.concat([trial(image="day_7.png"), trial(image="night_7.png")])
    assert roundtrip(rows, tmp_path / "out")["image"].to_list() == ["day_7.png", "night_7.png"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("image", "0001_edg_s01_0_oven_00_oven10.png"),  # it would be read as oven10.png
        ("image", "NaN"),
        ("response", "na"),
        ("truth", "nan"),
    ],
)
def test_names_that_would_be_read_as_others_are_not_written(tmp_path, column, value):
    with pytest.raises(InvalidInput, match=f"cannot hold the {column} '{value}'"):
        roundtrip(trial(**{column: value}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_experiments_that_would_share_a_folder_are_not_written(tmp_path):
    with pytest.raises(InvalidInput, match="'a b' and 'a-b' would share one"):
        roundtrip(pl.concat([trial(experiment="a b"), trial(experiment="a-b")]), tmp_path / "out")


def test_a_repeated_column_is_refused(file):
    with pytest.raises(InvalidInput, match="two columns are called 'rt'; rename or remove one"):
        FORMAT.read([file(f"{HEADER},RT", "s,1,1,0.5,oven,oven,0,a.png,600")])


def test_a_byte_order_mark_is_no_part_of_the_header(file):
    path = file(HEADER, "s,1,1,0.5,oven,oven,0,a.png")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read(path).frame["observer"].to_list() == ["human:s"]


def test_milliseconds_are_reported(file):
    (notice,) = [n for n in read(file(HEADER, "s,1,1,650,oven,oven,0,a.png")).notices if "milliseconds" in n]
    assert "observers with a median rt above 100 seconds: 1 (human:s: 650)" in notice


def test_further_columns_survive_whatever_their_name(file, tmp_path):
    lines = [
        HEADER + ",age,is sure,a.b,it's,kind",
        PERSON + ',31,yes,,"x, ""y""",practice',
        REFUSAL + ",31,NaN,1,,practice",
    ]
    path = file(*lines)
    other = file(HEADER, MODEL, name="edge_alexnet.csv")
    kept = json.loads(FORMAT.read([path, other]).frame["extra"][0])
    assert (kept["age"], kept["is sure"], kept["kind"], kept["it's"]) == ("31", "yes", "practice", 'x, "y"')
    again = rewritten([path, other], tmp_path / "out")
    assert again == {"edge/edge_s01.csv": path.read_bytes(), "edge/edge_alexnet.csv": other.read_bytes()}


@pytest.mark.parametrize("name", ["*", "^a.*$"])
def test_a_further_column_may_have_a_name_that_polars_reads_as_several(file, tmp_path, name):
    path = file(HEADER + f",age,{name}", PERSON + ",31,x")
    assert json.loads(FORMAT.read([path]).frame["extra"][0])[name] == "x"
    assert rewritten([path], tmp_path / "out") == {"edge/edge_s01.csv": path.read_bytes()}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("subject-01,1,1,fast,knife,oven,0,a.png", "row 2, column rt: rt is a number of seconds or NaN, got 'fast'"),
        ("subject-01,1,one,0.5,knife,oven,0,a.png", "row 2, column trial: trial is a whole number, got 'one'"),
        ("subject-01,1,1,inf,knife,oven,0,a.png", "row 2, column rt"),
        ("subject-01,1,1,0.5,spoon,oven,0,a.png", "row 2, column response: .*got 'spoon'"),
        ("subject-01,1,1", "row 2, column imagename: .*half a line"),
        (PERSON + ",more", "CSV text"),
    ],
)
def test_a_bad_row_is_named_with_its_own_file(file, line, words):
    good, bad = file(HEADER, PERSON, REFUSAL), file(HEADER, PERSON, line, name="edge_bad.csv")
    with pytest.raises(InvalidInput, match=words) as error:
        FORMAT.read([good, bad])
    assert str(bad) in str(error.value)


@pytest.mark.parametrize("name", HEADER.split(","))
def test_a_missing_column_is_named(file, name):
    header = ",".join(column for column in HEADER.split(",") if column != name)
    with pytest.raises(InvalidInput, match=rf"edge_s01\.csv: .*must have the column '{name}'"):
        FORMAT.read([file(header, "1,1,1,1,1,1,1")])


def test_columns_that_would_be_lost_are_refused(file):
    with pytest.raises(InvalidInput, match="cannot be called 'file'"):
        FORMAT.read([file(HEADER + ",file", PERSON + ",x")])
    with pytest.raises(InvalidInput, match=r"edge_s01\.csv: "):
        FORMAT.read([file(HEADER + ",Session", PERSON + ",x")])


def test_bytes_that_are_no_text(file):
    path = file(HEADER)
    path.write_bytes(HEADER.encode() + b"\n\xff\xfe")
    with pytest.raises(InvalidInput, match="CSV text"):
        FORMAT.read([path])


def test_other_files_are_not_recognised():
    assert not FORMAT.recognises(Path("a.csv"), b"name,age\nx,1\n")
    assert not FORMAT.recognises(Path("a.json"), b'{"a.png": null}')


def trial(**changes):
    row = {"observer": "human:s01", "kind": "human", "experiment": "edge", "image": "a.png"}
    return pl.DataFrame([{**row, "truth": "oven", "response": "oven", **changes}], infer_schema_length=None)


def roundtrip(frame, out):
    FORMAT.write(make_trials(frame), out)
    return FORMAT.read(sorted(out.rglob("*.csv"))).frame


@pytest.mark.parametrize(
    ("observer", "kind"),
    [
        ("human:s01", "human"),  # nothing in the file but the name can tell: no rt
        ("human:subject-01", "human"),
        ("model:alexnet", "model"),
        ("model:subject-9", "model"),
        ("timm:resnet50.a1_in1k", "model"),
        ("vlm:gpt-4o", "vlm"),
        ("simulated:s1", "simulated"),
        ("human:a:b", "human"),
    ],
)
@pytest.mark.parametrize("rt", [None, 0.1 + 0.2])
def test_trials_of_ours_keep_who_answered(tmp_path, observer, kind, rt):
    row = roundtrip(trial(observer=observer, kind=kind, rt=rt), tmp_path / "out").row(0, named=True)
    assert (row["observer"], row["kind"], row["rt"]) == (observer, kind, rt)


def test_observers_of_one_name_and_two_kinds_stay_apart(tmp_path):
    rows = pl.concat([trial(rt=0.5), trial(observer="model:s01", kind="model", rt=None)], how="vertical_relaxed")
    assert roundtrip(rows, tmp_path / "out")["observer"].to_list() == ["human:s01", "model:s01"]


@pytest.mark.parametrize("column", ["truth", "image"])
def test_what_the_files_cannot_leave_out(tmp_path, column):
    trials = make_trials(trial(**{column: None, "stimulus": "0f"}).cast({column: pl.String}))
    with pytest.raises(InvalidInput, match=f"need the {column} of every trial; write Parquet or Psych-DS"):
        FORMAT.write(trials, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": json.dumps({"file": file})}
        for file in ("../../evil.csv", "../evil.csv", "/tmp/evil.csv", "a/..", "./evil.csv", "..\\evil.csv", "a/\0", "")
    ]
    + [{"experiment": e} for e in ("..", ".", "", "../..", "/", "a/b", "\0")]
    + [{"observer": o} for o in ("human:../../evil", "human:..", "human:/", "a/b")]
    + [{"session": s} for s in ("../../evil", "/")]
    + [{"extra": "not JSON"}],
)
def test_no_trial_can_write_outside_the_folder(tmp_path, changes):
    out = tmp_path / "deep" / "deeper" / "out"
    FORMAT.write(make_trials(trial(**changes)), out)
    written = [f for f in tmp_path.rglob("*") if f.is_file()]
    assert len(written) == 1
    assert written[0].relative_to(out).as_posix().count("/") == 1
    assert written[0].suffix == ".csv"


@pytest.mark.parametrize(("through", "name"), [("parquet", "t.parquet"), ("psych-ds", "t/dataset_description.json")])
def test_a_path_hidden_in_a_file_is_not_followed(tmp_path, through, name):
    known, given = formats[through], tmp_path / "given" / name
    known.write(make_trials(trial(extra='{"file": "../../evil.csv"}')), given if known.suffix else given.parent)
    FORMAT.write(known.read([given]), tmp_path / "a" / "b" / "out")
    assert [f.name for f in tmp_path.rglob("*.csv") if "given" not in f.parts] == ["edge_s01_session-1.csv"]
    assert (tmp_path / "a" / "b" / "out" / "edge" / "edge_s01_session-1.csv").is_file()


# ---- the published files


@pytest.mark.parametrize(
    ("folder", "files", "trials", "experiments", "people", "models"),
    [
        ("model-vs-human", 90, 85_120, 17, 10, 0),  # Geirhos et al. 2021
        ("error-consistency", 105, 50_400 + 5_600, 3, 10, 25),  # Geirhos et al. 2020: 35 x (1,280 + 160 + 160)
    ],
)
def test_published_trials_survive_to_the_byte(mirror, tmp_path, folder, files, trials, experiments, people, models):
    source = mirror / folder
    paths = sorted(source.rglob("*.csv"))
    table = FORMAT.read(paths)
    assert (len(paths), len(table)) == (files, trials)
    assert table.frame["experiment"].n_unique() == experiments
    kinds = table.observers["kind"].to_list()
    assert (kinds.count("human"), kinds.count("model")) == (people, models)
    assert table.space.name == "model-vs-human-16"
    FORMAT.write(table, tmp_path / "out")
    changed = [p for p in paths if (tmp_path / "out" / p.relative_to(source)).read_bytes() != p.read_bytes()]
    assert changed == []
    assert sum(1 for _ in (tmp_path / "out").rglob("*.csv")) == files
