"""CSV files and data frames of any program: columns named or recognised, guesses reported, nothing lost."""

from __future__ import annotations

import json
from datetime import timedelta

import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.trials import align, read
from cosight.trials.columns import COLUMN_NAMES, recognise_columns
from cosight.trials.table import SCHEMA

HEADER = "participant_id,file,answer,label,time_ms"
ROWS = ["P1,bird3-bird2.png,bird,bird,1134", "P1,dog10-bicycle1.png,na,dog,", "P2,bird3-bird2.png,dog,bird,870.5"]


@pytest.fixture
def csv(tmp_path):
    def write(*lines, name="my.csv", encoding="utf-8"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
        return path

    return write


def rows(trials, *columns):
    return trials.frame.select(columns).rows()


def test_the_example_of_the_documentation(csv, cosight, tmp_path):
    path = csv(HEADER, *ROWS)
    columns = "observer=participant_id,image=file,response=answer,truth=label,rt=time_ms"
    options = ["--columns", columns, "--experiment", "cue-conflict", "--rt-unit", "ms"]
    done = cosight("trials", "convert", path, tmp_path / "my.parquet", *options)
    assert (done.code, done.out) == (0, f"3 trials of 2 observers written to {tmp_path / 'my.parquet'} (parquet)\n")
    assert "observers are people" in done.err  # the only guess
    assert done.err.count("note: ") == 1
    trials = read(tmp_path / "my.parquet")
    assert rows(trials, "observer", "experiment", "image", "truth", "response", "rt") == [
        ("human:P1", "cue-conflict", "bird3-bird2.png", "bird", "bird", 1.134),
        ("human:P1", "cue-conflict", "dog10-bicycle1.png", "dog", None, None),
        ("human:P2", "cue-conflict", "bird3-bird2.png", "bird", "dog", 0.8705),
    ]
    assert [json.loads(text)["time_ms"] for text in trials.frame["extra"]] == ["1134", None, "870.5"]
    joined = align(read(tmp_path / "my.parquet", "sample:cue-conflict"))
    assert joined.answers.response.shape == (37, 1280)


def test_guesses_are_reported(csv):
    trials = read(csv(HEADER + ",age", *(f"{row},31" for row in ROWS)))
    guessed, kept, experiment = trials.notices
    assert "guessed observer=participant_id, image=file, truth=label, response=answer, rt=time_ms" in guessed
    assert "time_ms in milliseconds, observers are people; `cosight trials convert` has --columns" in guessed
    assert kept.endswith("my.csv: columns kept in extra: age")
    assert experiment.endswith("to join these trials with others, convert them with --experiment NAME")


def test_a_table_in_our_own_words_is_not_a_guess(csv):
    path = csv("observer,experiment,image,response,truth,rt", "human:a,edge,1.png,cat,cat,0.5")
    assert read(path, labels="cat,dog").notices == ()


UGLY = {
    "index of pandas": (",participant,image,response,truth\n0,P1,a.png,cat,cat\n", {"Unnamed: 0": "0"}),
    "semicolons and commas": ("subject;image;response;truth;rt\nP1;a.png;cat;cat;0,75\n", {}),
    "tabs, null and paths": (
        "prolific_pid\tstimulus\tresponse\tcorrect_response\nP1\timg/x/a.png\tcat\tcat\nP1\timg/x/b.png\tnull\tcat\n",
        {"stimulus": "img/x/a.png"},
    ),
    "byte order mark, upper case": ("\ufeffSUBJECT,FILENAME,RESPONSE,CATEGORY\nP1,a.png,cat,cat\n", {}),
    "blanks and capitals": (
        "Subject ID, Image Name, Answer, Correct Label\nP1, a.png, Cat, Cat\n",
        {"Answer": " Cat", "Correct Label": " Cat"},
    ),
    "quotes of R": ('"","subj","img","resp","truth"\n"1","P1","a.png","cat","cat"\n', {"Unnamed: 0": "1"}),
    "numbers for people": ("Participant;Bild;Antwort\n1;a.png;cat\n", {}),
}


@pytest.mark.parametrize("name", UGLY)
def test_ugly_tables_are_read(csv, name):
    text, extra = UGLY[name]
    path = csv(text.rstrip("\n"))
    columns = ["image=Bild", "response=Antwort"] if "Bild" in text else None
    trials = read(path, columns=columns, experiment="pets", labels="cat,dog")
    observer = "human:1" if "Bild" in text else "human:P1"
    assert rows(trials, "observer", "kind", "experiment", "image", "response")[0] == (
        observer, "human", "pets", "a.png", "cat",
    )  # fmt: skip
    assert json.loads(trials.frame["extra"][0] or "{}") == extra
    if ";rt" in text:
        assert trials.frame["rt"].to_list() == [0.75]


def test_unicode_text_of_excel_is_read(csv):
    path = csv("subject\timage\tresponse", "Jürgen\ta.png\tcat", name="my.txt", encoding="utf-16")
    assert read(path).frame["observer"].to_list() == ["human:Jürgen"]
    with pytest.raises(InvalidInput, match="save it as CSV in UTF-8"):
        read(csv("subject,image,response", "Jürgen,a.png,cat", encoding="cp1252"))


@pytest.mark.parametrize("word", ["", "na", "NA", "NaN", "nan", "n/a", "null", "<NA>"])
def test_words_for_a_missing_answer(csv, word):
    assert read(csv("subject,image,response", f"s,a.png,{word}")).frame["response"].to_list() == [None]


def test_missing_columns_are_named_with_what_was_found(csv):
    path = csv("VP,Bild,Antwort", "1,a.png,cat")
    with pytest.raises(InvalidInput) as error:
        read(path)
    assert str(error.value) == (
        f"{path}: no column for the observer, image, response. Columns found: VP, Bild, Antwort. Needed: observer, "
        f"image, response; useful: truth, experiment, condition, rt. Name them, for example: cosight trials convert "
        f"{path} {path.with_suffix('.parquet')} --columns observer=VP,image=Bild,response=Antwort (or --observer NAME, "
        "if one observer gave all answers)"
    )
    with pytest.raises(InvalidInput, match=r"--observer NAME .the one observer of the file"):
        read(csv("image,response", "a.png,cat"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["observer"]}, "pairs such as observer=participant_id,image=file, got 'observer'"),
        ({"columns": ["obsever=subj"]}, "a trial has no column 'obsever'; did you mean observer"),
        ({"columns": ["image=subj", "image=x"]}, "names 'image' twice"),
        ({"columns": {"image": "filee"}}, r"no column is called 'filee' .*did you mean file\? Columns found: partici"),
        ({"columns": ["observer=file"], "observer": "x"}, "choose one of --observer and --columns observer=file"),
        ({"kind": "person"}, "--kind is one of human, model"),
        ({"rt_unit": "minutes"}, "--rt-unit is one of s, ms"),
        ({"rt_unit": "ms", "columns": ["session=time_ms"]}, "--rt-unit needs a column of response times"),
        ({"observer": "x"}, "this one has 'participant_id' with 2 of them; leave it out"),
        ({"columns": ["rt=label"]}, r"my\.csv, row 1, column label: a cell is a number or nothing, got 'bird'"),
    ],
)
def test_wrong_options_are_refused(csv, options, words):
    with pytest.raises(InvalidInput, match=words):
        read(csv(HEADER, *ROWS), **options)


def test_options_need_a_table(csv, tmp_path, cosight):
    with pytest.raises(InvalidInput, match="describe CSV files and data frames"):
        read("sample:edges", experiment="x")
    done = cosight("trials", "convert", "sample:edges", tmp_path / "a.parquet", "--observer", "human:subject-01")
    assert done.code == 2
    written = cosight("trials", "convert", "sample:edges", tmp_path / "a.parquet", "--only", "human:subject-01")
    assert written.code == 0
    with pytest.raises(InvalidInput, match="describe CSV files, this is none"):
        read(tmp_path / "a.parquet", experiment="x")


def test_answers_of_one_model(csv):
    path = csv("image_path,pred", "data/cat/1.png,cat", "data/dog/2.png,dog")
    trials = read(path, observer="resnet50", kind="model", experiment="pets", condition="0")
    assert rows(trials, "observer", "kind", "condition", "image", "truth")[0] == (
        "model:resnet50", "model", "0", "1.png", None,
    )  # fmt: skip
    assert read(path, observer="timm:vit", kind="model").frame["observer"][0] == "timm:vit"
    assert read(path, observer="model:x").frame["kind"][0] == "model"


def test_a_column_of_models_names_models(csv):
    trials = read(csv("model,image,prediction", "vit,a.png,cat"))
    assert rows(trials, "observer", "kind") == [("model:vit", "model")]
    assert "observers are models" in trials.notices[0]


def test_observers_without_times_beside_people_are_models(csv):
    path = csv("observer,image,response,rt", "anna,a.png,cat,0.5", "anna,b.png,na,", "alexnet,a.png,cat,")
    trials = read(path)
    assert trials.frame["observer"].to_list() == ["human:anna", "human:anna", "model:alexnet"]
    assert "observers with response times are people, the others models" in trials.notices[0]
    assert set(read(path, kind="human").frame["kind"]) == {"human"}


def test_one_file_per_participant(csv, cosight, tmp_path):
    for name in ("p1", "p2"):
        csv("file,answer", "a.png,cat", name=f"data/{name}.csv")
    refused = cosight("trials", "convert", tmp_path / "data", tmp_path / "all.parquet")
    assert refused.code == 2
    assert "no column for the observer" in refused.err
    done = cosight("trials", "convert", tmp_path / "data", tmp_path / "all.parquet", "--observer", "{file}")
    assert done.code == 0, done.err
    assert "p1.csv and 1 more files: guessed image=file" in done.err
    trials = read(tmp_path / "all.parquet")
    assert trials.frame["observer"].to_list() == ["human:p1", "human:p2"]
    assert trials.sources == tuple({"file": f"{name}.csv", "columns": ["file", "answer"]} for name in ("p1", "p2"))


def test_image_names_stay_whole_where_folders_tell_them_apart(csv):
    lines = ["s,cat/1.png,cat", "s,dog/1.png,dog"]
    assert read(csv("subject,image,response", *lines)).frame["image"].to_list() == ["cat/1.png", "dog/1.png"]


def test_a_guess_that_does_not_fit_is_kept_as_it_is(csv):
    trials = read(csv("subject,image,response,trial,role,rt", "s,a.png,cat,practice,child,slow"))
    assert rows(trials, "trial", "role", "rt") == [(None, "test", None)]
    assert json.loads(trials.frame["extra"][0]) == {"trial": "practice", "role": "child", "rt": "slow"}


@pytest.mark.parametrize("name", ["*", "^a.*$", "{}", "extra", "cosight:file"])
def test_columns_of_any_name_are_kept(csv, name):
    path = csv(f"subject,image,response,age,{name}", "s,a.png,cat,31,x")
    assert json.loads(read(path).frame["extra"][0]) == {"age": "31", name: "x"}


def test_the_unit_of_times_is_guessed(csv):
    def unit(name, *times):
        path = csv(f"subject,image,response,{name}", *(f"s,{i}.png,cat,{time}" for i, time in enumerate(times)))
        return read(path).frame["rt"].to_list()

    assert unit("rt", 0.5, 2) == [0.5, 2]
    assert unit("rt", 500, 900) == [0.5, 0.9]
    assert unit("rt_ms", 0.5) == [0.0005]
    assert unit("RT (s)", 500) == [500]
    assert unit("Reaction Time [ms]", 50) == [0.05]


def test_stimuli_are_digests_or_names_of_images(csv):
    digest = "0123456789abcdef" * 4
    trials = read(csv("subject,stimulus,response", f"s,{digest},cat"))
    assert rows(trials, "stimulus", "image") == [(digest, None)]
    assert rows(read(csv("subject,stimulus,response", "s,a.png,cat")), "stimulus", "image") == [(None, "a.png")]


def test_a_data_frame_of_polars():
    frame = pl.DataFrame({"subj": [1.0, None], "img": ["a.png", "b.png"], "answer": ["cat", None], "age": [31, 40]})
    frame = frame.with_columns(pl.col("subj").fill_null(2))
    trials = read(frame, columns={"image": "img"}, experiment="pets")
    assert rows(trials, "observer", "image", "response") == [("human:1", "a.png", "cat"), ("human:2", "b.png", None)]
    assert json.loads(trials.frame["extra"][1]) == {"age": 40}
    assert read(trials.frame).frame.equals(trials.frame)
    assert read(trials.frame).notices == ()


def test_a_data_frame_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "file": ["a.png", "b.png"],
            "response": pandas.Categorical(["cat", None]),
            "rt": pandas.array([500, None], dtype="Int64"),
            "when": pandas.Timestamp("2026-01-02"),
            "sure": [True, False],
        },
        index=pandas.Index(["P1", "P2"], name="participant"),
    )
    trials = read(frame)
    expected = [("human:P1", "a.png", "cat", 0.5), ("human:P2", "b.png", None, None)]
    assert rows(trials, "observer", "image", "response", "rt") == expected
    extra = json.loads(trials.frame["extra"][1])
    assert (extra["sure"], extra["when"][:10], extra["rt"]) == (False, "2026-01-02", None)
    with pytest.raises(InvalidInput, match="two columns called '1'"):
        read(pandas.DataFrame([[1, 2]], columns=[1, "1"]))
    with pytest.raises(InvalidInput, match="or data frames, got Series"):
        read(frame["file"])


ODD = {
    "struct": pl.Series([{"a": 1}]),
    "list": pl.Series([["x"]]),
    "binary": pl.Series([b"\x00\xff"]),
    "duration": pl.Series([timedelta(seconds=1)]),
    "object": pl.Series([object()], dtype=pl.Object),
}


@pytest.mark.parametrize("name", ODD)
def test_columns_without_text_are_kept_and_not_used(name):
    frame = pl.DataFrame(
        {"subject": ["s"], "image": ["a.png"], "response": ["cat"], "rt": ODD[name], "note": ODD[name]}
    )
    trials = read(frame)
    assert trials.frame["rt"].to_list() == [None]
    assert set(json.loads(trials.frame["extra"][0])) == {"rt", "note"}
    with pytest.raises(InvalidInput, match="column note: cells are text or numbers, got "):
        read(frame, columns={"truth": "note"})
    with pytest.raises(InvalidInput, match="no column for the image"):
        read(frame.with_columns(ODD[name].alias("image")))


def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path):
    (tmp_path / "my.xlsx").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InvalidInput, match=r"my\.xlsx: spreadsheets are not read; save the sheet as CSV"):
        read(tmp_path / "my.xlsx")


def test_a_table_without_rows_is_refused(csv):
    with pytest.raises(InvalidInput, match="at least one trial, got none"):
        read(csv("subject,image,response"), experiment="x")
    with pytest.raises(InvalidInput, match=r"the data frame: .*at least one trial, got none"):
        read(pl.DataFrame(schema=dict.fromkeys(("subject", "image", "response"), pl.String)))


def test_a_parquet_file_of_another_program(tmp_path):
    path = tmp_path / "frame.parquet"
    pl.DataFrame({"who": ["s1"], "image": ["a.png"], "response": ["cat"]}).write_parquet(path)
    assert read(path, columns=["observer=who"], experiment="x").frame["observer"].to_list() == ["human:s1"]


def test_every_common_name_stands_for_one_column():
    names = [name for known in COLUMN_NAMES.values() for name in known]
    assert len(names) == len(set(names))
    assert set(COLUMN_NAMES) == set(SCHEMA) - {"stimulus", "extra"}
    for ours, known in COLUMN_NAMES.items():
        assert all(recognise_columns([name.upper()]) == {ours: name.upper()} for name in known)
