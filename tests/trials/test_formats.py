from __future__ import annotations

import json

import polars as pl
import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.trials import label_space, label_spaces, make_trials, read, write
from cosight.trials.formats import output_format

HEADER = "subj,session,trial,rt,object_response,category,condition,imagename"
PERSON = "subject-01,1,1,0.8,knife,oven,0,0001_edg_s01_0_oven_00_oven10.png"
MODEL = "alexnet,1,1,NaN,chair,oven,NaN,oven10.png"
SPACE = label_spaces["model-vs-human-16"]


def csv(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


def table(observer="model:net", image="oven10.png", experiment="edge", space=SPACE):
    row = {"observer": observer, "kind": observer.split(":")[0], "experiment": experiment, "image": image}
    return make_trials(pl.DataFrame([{**row, "truth": "oven", "response": "car"}]), space=space)


def board(path, images=("a.png",)):
    path.write_text(json.dumps({image: [1.0] + [0.0] * 10 for image in images}))
    return path


def test_content_decides_and_not_the_name(tmp_path):
    write(table(), tmp_path / "real.parquet")
    (tmp_path / "real.parquet").rename(tmp_path / "table.csv")
    assert read(tmp_path / "table.csv").frame["observer"].to_list() == ["model:net"]
    assert read(csv(tmp_path / "edge" / "data.txt", PERSON)).frame["observer"].to_list() == ["human:subject-01"]
    assert read(csv(tmp_path / "edge" / "odd.parquet", MODEL)).frame["observer"].to_list() == ["model:alexnet"]
    assert read(board(tmp_path / "net")).frame["response"].to_list() == ["tiger"]


def test_a_folder_mixes_formats_people_and_models(tmp_path):
    csv(tmp_path / "edge" / "s01.csv", PERSON)
    csv(tmp_path / "edge" / "alexnet.csv", MODEL)
    write(table("vlm:gpt"), tmp_path / "deep" / "down" / "answers.parquet")
    found = read(tmp_path)
    assert sorted(found.frame["observer"]) == ["human:subject-01", "model:alexnet", "vlm:gpt"]
    assert found.space == SPACE
    assert [n for n in found.notices if not n.startswith("classes taken")] == []


def test_several_paths_are_one_table_and_the_same_path_twice_is_twice_the_rows(tmp_path):
    one, two = csv(tmp_path / "edge" / "a.csv", PERSON), csv(tmp_path / "edge" / "b.csv", MODEL)
    assert len(read(one, str(two))) == 2
    assert len(read(one, one)) == 2


def test_files_of_no_known_format_are_passed_over_and_counted(tmp_path):
    csv(tmp_path / "edge" / "s01.csv", PERSON)
    for name in ("README.md", "notes.txt", "picture.png", "more.xml"):
        (tmp_path / name).write_bytes(b"\x89PNG something else")
    write(table(), tmp_path / "t.parquet")  # with observers.parquet beside, which is no news
    _, notice = read(tmp_path).notices
    assert notice == f"{tmp_path}: 4 files are no trials and were skipped (README.md, more.xml, notes.txt...)"


def test_hidden_files_and_folders_are_skipped(tmp_path):
    csv(tmp_path / "edge" / "s01.csv", PERSON)
    csv(tmp_path / "edge" / ".s02.csv.part", MODEL)
    csv(tmp_path / ".git" / "x.csv", MODEL)
    found = read(tmp_path)
    assert len(found) == 1
    assert found.notices == ("classes taken to be model-vs-human-16, of which 1 occur; --labels names others",)


def test_a_run_folder_stands_for_its_trials(tmp_path):
    run = tmp_path / "runs" / "first"
    write(table("model:a"), run / "trials" / "a.parquet")
    write(table("model:b"), run / "trials" / "b.parquet")
    (run / "run.json").write_text("{}")
    pl.DataFrame({"file": ["1.png"]}).write_parquet(run / "stimuli.parquet")
    pl.DataFrame({"value": [1.0]}).write_parquet(run / "scores.parquet")
    for path in (run, tmp_path):
        found = read(path)
        assert (sorted(found.frame["observer"]), found.notices) == (["model:a", "model:b"], ())


def test_a_psych_ds_folder_is_read_as_a_whole(tmp_path):
    write(table("human:1"), tmp_path / "set", to="psych-ds")
    csv(tmp_path / "set" / "edge" / "extra.csv", PERSON)  # not among its data files
    assert read(tmp_path).frame["observer"].to_list() == ["human:1"]


def test_labels_declare_the_space(tmp_path):
    path = tmp_path / "t.parquet"
    write(table(space=None), path)
    assert read(path, labels=label_space("oven,car")).space.classes == ("oven", "car")
    with pytest.raises(InvalidInput, match="truth is a class of given, got 'oven'"):
        read(path, labels=label_space("cat,dog"))


def test_files_must_share_a_label_space(tmp_path):
    csv(tmp_path / "edge" / "s01.csv", PERSON)
    board(tmp_path / "net.json")
    with pytest.raises(InvalidInput, match=r"must share one label space, got .*model-vs-human-16"):
        read(tmp_path)


# ----------------------------------------------------------------------------------------------------- what is wrong


def test_a_path_that_does_not_exist(tmp_path):
    with pytest.raises(InvalidInput, match=r"a file or folder that exists, got .*nowhere"):
        read(tmp_path / "nowhere")


def test_no_path_at_all():
    with pytest.raises(InvalidInput, match="name at least one file or folder"):
        read()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a trial file"),
        (b"\x00\x01\x02\xff" * 100, "not a trial file"),
        (b"hello\nworld\n", "not a trial file"),
        (b"a,b\n1,2\n", "no column for the observer, image, response. Columns found: a, b. Needed: observer, image"),
        (HEADER.encode() + b"\n", "must hold at least one trial, got none"),
        (b"PAR1", "not a readable Parquet file"),
        (b"subj,session\n", "no column for the image, response. Columns found: subj, session"),
        (HEADER.encode() + b"\n\xff\xfe\n", "is CSV text, this is not"),
    ],
)
def test_a_file_without_trials_is_named_in_one_line(tmp_path, content, words):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=rf"data\.csv: .*{words}") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_folder_without_trials_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"no trial files here .*, 0 other files"):
        read(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InvalidInput, match=r"no trial files here .*, 1 other files; name the folder"):
        read(tmp_path)


# ----------------------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    ("name", "to", "form"),
    [
        ("t.parquet", None, "parquet"),
        ("folder", None, "model-vs-human"),
        ("t", "parquet", "parquet"),
        ("d", "psych-ds", "psych-ds"),
    ],
)
def test_the_ending_or_the_option_names_the_format(tmp_path, name, to, form):
    before = table("human:1")
    assert output_format(name, to).name == form
    write(before, tmp_path / name, to=to)
    assert (
        read(tmp_path / name).frame.select("observer", "response").equals(before.frame.select("observer", "response"))
    )


def test_an_ending_or_a_format_nobody_knows(tmp_path):
    with pytest.raises(InvalidInput, match=r"a trial file ends in .*\.parquet.*, got t\.xlsx"):
        write(table(), tmp_path / "t.xlsx")
    with pytest.raises(UnknownName, match="parquet"):
        write(table(), tmp_path / "t", to="parket")


def test_the_published_files_all_load(mirror):
    found = read(mirror / "model-vs-human")  # Geirhos et al. 2021: 17 experiments, 90 files, 85,120 trials
    assert (len(found), found.frame["experiment"].n_unique(), len(found.sources)) == (85_120, 17, 90)
    assert set(found.frame["kind"]) == {"human"}
    assert [n for n in found.notices if not n.startswith("classes taken")] == []
