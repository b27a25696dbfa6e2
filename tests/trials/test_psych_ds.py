from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.trials import leaderboard, model_vs_human, psych_ds  # noqa: F401  register their formats
from cosight.trials.formats import formats
from cosight.trials.spaces import label_space
from cosight.trials.table import KINDS, OBSERVERS, SCHEMA, make_trials

FORMAT = formats["psych-ds"]
DESCRIPTION = "dataset_description.json"
FILE_NAME = r"([a-z]+-[a-zA-Z0-9]+)(_[a-z]+-[a-zA-Z0-9]+)*_data\.csv"  # Psych-DS 1.0, rule of data files
PETS = label_space("cat,dog,abstain")

FULL = {
    "observer": "model:m#knn",
    "kind": "model",
    "experiment": 'e, "1"',
    "stimulus": "0f",
    "image": "a.png",
    "condition": "0.90",
    "level": 3,
    "truth": "cat",
    "response": "dog",
    "probabilities": [0.1, 0.9],
    "abstention": 0.1 + 0.2,
    "rt": 0.868942022323608,
    "role": "repeat",
    "repetition": 1,
    "session": "01",
    "block": 2,
    "trial": 7,
    "extra": '{"a": [1, "x,\\ny"],\r\n "b": "é"}',
}
BARE = {**dict.fromkeys(SCHEMA), "observer": "human:s01", "kind": "human", "image": "b.png"}


def table(*rows, **more):
    return make_trials(pl.DataFrame(list(rows), schema=SCHEMA), **more)


def roundtrip(trials, folder):
    FORMAT.write(trials, folder)
    return FORMAT.read([folder / DESCRIPTION])


def data_files(folder):
    return sorted(f.name for f in (folder / "data").iterdir())


# ---- our own folders


def test_folders_from_before_there_were_roles_are_read(tmp_path):
    FORMAT.write(table({**FULL, "role": "test", "extra": '{"role": "distractor", "block": 3}'}, BARE), tmp_path / "old")
    for file in (tmp_path / "old" / "data").iterdir():
        pl.read_csv(file, infer_schema=False).drop("role", "repetition", "block").write_csv(file)
    read = FORMAT.read([tmp_path / "old" / DESCRIPTION]).frame
    assert read.select("role", "repetition", "block").rows() == [("distractor", None, 3), ("test", None, None)]


def test_everything_comes_back(tmp_path):
    known = pl.DataFrame([["model:m#knn", "model", "cnn", "resnet", 45, "knn"]], schema=OBSERVERS, orient="row")
    sources = [{"file": "edge/a.csv", "columns": ["subj", "Session"], "crlf": True, "n": None}]
    before = table(FULL, BARE, {**FULL, "image": "c.png"}, space=PETS, observers=known, sources=sources)
    after = roundtrip(before, tmp_path / "out")
    assert after.frame.equals(before.frame)  # the third row is the first file's: order is restored
    assert after.observers.equals(before.observers)
    assert (after.space, after.sources) == (before.space, before.sources)


def test_null_and_empty_text_stay_apart(tmp_path):
    before = table(BARE, {**BARE, "condition": "", "extra": "", "session": "NA"})
    assert roundtrip(before, tmp_path / "out").frame.equals(before.frame)


TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PROBABILITIES = st.lists(st.floats(2**-100, 1, width=32), min_size=1, max_size=4).map(lambda x: [v / sum(x) for v in x])
ROWS = st.fixed_dictionaries(
    {
        "observer": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
        "kind": st.sampled_from([kind for kind in KINDS if kind != "simulated"]),  # those have names of their own
        "image": st.text(st.characters(exclude_categories=["Cs"])),
        **dict.fromkeys(("experiment", "stimulus", "condition", "truth", "response", "session", "extra"), TEXT),
        **dict.fromkeys(("level", "trial"), st.none() | st.integers(-(2**63), 2**63 - 1)),
        "probabilities": st.none() | PROBABILITIES,
        "abstention": st.none() | st.floats(0, 1),
        "rt": st.none() | st.floats(0, allow_infinity=False),
    }
)


@given(rows=st.lists(ROWS, min_size=1, max_size=6))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_table_comes_back(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("ds") / "out"
    before = table(*rows)
    after = roundtrip(before, folder)
    assert after.frame.equals(before.frame)
    names = data_files(folder)
    assert len({name.lower() for name in names}) == before.frame["observer"].n_unique()
    assert all(re.fullmatch(FILE_NAME, name) for name in names)


def test_the_folder_is_psych_ds(tmp_path):
    FORMAT.write(table(FULL, BARE, space=PETS), tmp_path / "out")
    about = json.loads((tmp_path / "out" / DESCRIPTION).read_text())
    assert (about["@context"], about["@type"]) == ("https://schema.org/", "Dataset")
    assert all(about[key] for key in ("name", "description", "schemaVersion"))
    variables = about["variableMeasured"]
    assert all(v["@type"] == "PropertyValue" and v["description"] for v in variables)
    assert {v["name"]: v.get("unitText") for v in variables}["rt"] == "seconds"
    assert data_files(tmp_path / "out") == ["subject-modelmknn_data.csv", "subject-s01_data.csv"]
    for name in data_files(tmp_path / "out"):  # Psych-DS: the columns are those described, no more and no fewer
        header = pl.read_csv(tmp_path / "out" / "data" / name).columns
        assert sorted(header) == sorted(v["name"] for v in variables) == sorted([*SCHEMA, "row"])


def test_probabilities_are_short_json_lists(tmp_path):
    FORMAT.write(table(FULL), tmp_path / "out")
    cells = pl.read_csv(tmp_path / "out" / "data" / "subject-modelmknn_data.csv", infer_schema=False)
    assert cells["probabilities"].to_list() == ["[0.1, 0.9]"]
    assert cells["rt"].to_list() == ["0.868942022323608"]


def test_observers_that_differ_in_signs_or_case_get_files_of_their_own(tmp_path):
    names = ["human:s01", "human:S01", "human:s-01", "s01", "human:../../evil", "..", "é", "s01x2", "x" * 500]
    before = table(*({**BARE, "observer": name} for name in names))
    assert roundtrip(before, tmp_path / "out").frame["observer"].to_list() == names
    assert len({name.lower() for name in data_files(tmp_path / "out")}) == len(names)
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


def test_a_part_of_a_folder_can_be_read(tmp_path):
    before = table(BARE, FULL, BARE)
    FORMAT.write(before, tmp_path / "out")
    (tmp_path / "out" / "data" / "subject-modelmknn_data.csv").unlink()
    after = FORMAT.read([tmp_path / "out" / DESCRIPTION])
    assert after.frame.equals(before.frame[[0, 2]])
    assert after.observers["observer"].to_list() == ["human:s01"]


def test_no_trials_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="at least one data file, got no trials"):
        FORMAT.write(make_trials(table(BARE).frame.clear()), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="new or empty"):
        FORMAT.write(table(BARE), tmp_path.parent)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",extra,", ",more,", r"subject-s01_data\.csv: .*has the column 'extra'"),
        (",2\n", ",two\n", r"subject-s01_data\.csv, row 1, column row: .*got 'two'"),
        ("0.25", "fast", r"subject-s01_data\.csv, row 1, column rt: .*got 'fast'"),
        ("0.25", "inf", r"subject-s01_data\.csv, row 1, column rt: rt is a number of seconds"),
        ("[0.5, 0.5]", "[0.5, half]", r"subject-s01_data\.csv, row 1, column probabilities: .*half"),
        ("[0.5, 0.5]", "0.5", r"subject-s01_data\.csv, row 1, column probabilities: .*got '0.5'"),
        ("[0.5, 0.5]", "[0.5, 0.1]", r"subject-s01_data\.csv, row 1, column probabilities: probabilities sum to one"),
        (",,,,2\n", "\n", r"subject-s01_data\.csv, row 1, column row: .*half a line"),
    ],
)
def test_a_cell_changed_by_hand_is_named(tmp_path, old, new, words):
    FORMAT.write(table(FULL, {**BARE, "rt": 0.25, "probabilities": [0.5, 0.5]}), tmp_path / "out")
    path = tmp_path / "out" / "data" / "subject-s01_data.csv"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(InvalidInput, match=words):
        FORMAT.read([tmp_path / "out" / DESCRIPTION])


@pytest.mark.parametrize(
    ("key", "value"),
    [("cosight:labelSpace", {"name": "x"}), ("cosight:labelSpace", "cat"), ("cosight:observers", [{"seed": "x"}, 1])],
)
def test_a_description_changed_by_hand_is_named(tmp_path, key, value):
    FORMAT.write(table(BARE, space=PETS), tmp_path / "out")
    path = tmp_path / "out" / DESCRIPTION
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InvalidInput, match=rf"{DESCRIPTION}[:,] {key}"):
        FORMAT.read([path])


def test_published_trials_come_back(mirror, tmp_path):
    human = formats["model-vs-human"]
    before = human.read(sorted((mirror / "model-vs-human" / "cue-conflict").glob("*.csv")))
    after = roundtrip(before, tmp_path / "out")
    assert after.frame.equals(before.frame)
    human.write(after, tmp_path / "again")
    for path in (mirror / "model-vs-human" / "cue-conflict").glob("*.csv"):
        assert (tmp_path / "again" / "cue-conflict" / path.name).read_bytes() == path.read_bytes()


# ---- other people's folders


@pytest.fixture
def foreign(tmp_path):
    """Write a folder of somebody else: file name -> text; return its description."""

    def write(files: dict[str, str], variables=("x",), **about) -> Path:
        facts = {"@context": "https://schema.org/", "@type": "Dataset", "name": "theirs", "description": "d"}
        (tmp_path / DESCRIPTION).write_text(json.dumps({**facts, "variableMeasured": list(variables), **about}))
        for name, text in files.items():
            path = tmp_path / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / DESCRIPTION

    return write


def test_columns_are_known_by_common_names(foreign):
    text = (
        "Participant,stimulus,Response,correct_response,Trial Index,mood\np1,a.png,cat,dog,1,good\np1,b.png,NA,dog,2,\n"
    )
    trials = FORMAT.read([foreign({"study-pets_session-2_site-lab4_data.csv": text})])
    first, second = trials.frame.rows(named=True)
    assert (first["observer"], first["kind"], first["experiment"]) == ("human:p1", "human", "pets")
    assert (first["image"], first["response"], first["truth"]) == ("a.png", "cat", "dog")
    assert (first["trial"], first["session"], first["stimulus"]) == (1, "2", None)
    assert json.loads(first["extra"]) == {"mood": "good", "site": "lab4"}
    assert second["response"] is None
    assert trials.sources == ({"file": "data/study-pets_session-2_site-lab4_data.csv"},)


def test_the_subject_may_be_named_by_the_file_alone(foreign):
    files = {
        "b/subject-02_data.csv": "image,response\na.png,cat\n",
        "a/subject-01_data.tsv": "image\tresponse\na.png\tdog\n",
    }
    trials = FORMAT.read([foreign(files)])
    assert trials.frame["observer"].to_list() == ["human:01", "human:02"]
    assert trials.frame["response"].to_list() == ["dog", "cat"]
    assert trials.frame["extra"].to_list() == [None, None]


def test_a_column_goes_before_the_file_name(foreign):
    text = "participant,image,response\np1,a.png,cat\n"
    row = FORMAT.read([foreign({"subject-9_data.csv": text})]).frame.row(0, named=True)
    assert row["observer"] == "human:p1"
    assert json.loads(row["extra"]) == {"subject": "9"}


def test_observers_may_tell_their_kind(foreign):
    text = "subject,image,response\nmodel:vit,a.png,cat\nother:x,a.png,cat\n"
    frame = FORMAT.read([foreign({"study-1_data.csv": text})]).frame
    assert frame["observer"].to_list() == ["model:vit", "human:other:x"]
    assert frame["kind"].to_list() == ["model", "human"]


@pytest.mark.parametrize(
    ("variable", "rt"),
    [
        ({"@type": "PropertyValue", "name": "rt", "unitText": "seconds"}, 0.5),
        ({"@type": "PropertyValue", "name": "rt", "unitText": "s"}, 0.5),
        ({"@type": "PropertyValue", "name": "rt", "unitText": "ms"}, None),
        ({"@type": "PropertyValue", "name": "rt"}, None),
        ({"@type": "PropertyValue", "name": "other", "unitText": "seconds"}, None),
        ("rt", None),
    ],
)
def test_times_count_only_when_said_to_be_seconds(foreign, variable, rt):
    path = foreign({"subject-1_data.csv": "image,response,rt\na.png,cat,0.5\nb.png,cat,NA\n"}, [variable])
    frame = FORMAT.read([path]).frame
    assert frame["rt"].to_list() == [rt, None]
    assert json.loads(frame["extra"][0] or "{}") == ({} if rt else {"rt": "0.5"})


def test_levels_and_trials_count_only_where_all_are_whole(foreign):
    text = "image,response,level,trial\na.png,cat,3,1\nb.png,cat,NA,practice\n"
    frame = FORMAT.read([foreign({"subject-1_data.csv": text})]).frame
    assert frame["level"].to_list() == [3, None]
    assert frame["trial"].to_list() == [None, None]
    assert [json.loads(x)["trial"] for x in frame["extra"]] == ["1", "practice"]


def test_a_bad_time_in_seconds_is_named(foreign):
    variables = [{"name": "rt", "unitText": "seconds"}]
    path = foreign({"subject-1_data.csv": "image,response,rt\na.png,cat,1\nb.png,cat,slow\n"}, variables)
    with pytest.raises(InvalidInput, match=r"subject-1_data\.csv, row 2, column rt: .*got 'slow'"):
        FORMAT.read([path])


@pytest.mark.parametrize(
    ("header", "field"), [("image,rt", "response"), ("response,rt", "image"), ("image,response", "observer")]
)
def test_a_missing_essential_is_named(foreign, header, field):
    got = header.replace(",", ", ")
    name = "study-1_data.csv" if field == "observer" else "subject-1_data.csv"
    with pytest.raises(InvalidInput, match=rf"{name}: trials need a column for the {field} \({field}, .*got {got}"):
        FORMAT.read([foreign({name: f"{header}\n1,2\n"})])


def test_an_empty_cell_of_the_subject_is_named(foreign):
    text = "subject,image,response\np1,a.png,cat\nNA,b.png,cat\n"
    with pytest.raises(InvalidInput, match=r"study-1_data\.csv, row 2, column observer: every trial has an observer"):
        FORMAT.read([foreign({"study-1_data.csv": text})])


@pytest.mark.parametrize(
    ("answers", "name"),
    [
        (("knife", "oven"), "model-vs-human-16"),
        (("tiger", "abstain"), "visalign-11"),
        (("left", "oven"), None),
        (("NA", "NA"), None),
    ],
)
def test_the_label_space_is_recognised_when_every_answer_fits(foreign, answers, name):
    text = "image,response\n" + "".join(f"{i}.png,{answer}\n" for i, answer in enumerate(answers))
    space = FORMAT.read([foreign({"subject-1_data.csv": text})]).space
    assert (space and space.name) == name


def test_several_folders_at_once(tmp_path):
    for name in ("a", "b"):
        FORMAT.write(table({**BARE, "observer": f"human:{name}"}), tmp_path / name)
    trials = FORMAT.read([tmp_path / "b" / DESCRIPTION, tmp_path / "a" / DESCRIPTION])
    assert trials.frame["observer"].to_list() == ["human:b", "human:a"]


def test_bom_and_stray_files_do_no_harm(foreign):
    files = {"subject-1_data.csv": "\ufeffimage,response\na.png,cat\n", "notes.txt": "x", "._subject-1_data.csv": "\0"}
    assert FORMAT.read([foreign(files)]).frame["image"].to_list() == ["a.png"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "a dataset description is JSON text"),
        ("[1]", '"@type": "Dataset"'),
        ('{"Name": "x", "BIDSVersion": "1.8"}', '"@type": "Dataset"'),
        ('{"@type": "Dataset"}', r"has data/\*_data\.csv beside its description"),
    ],
)
def test_a_description_that_is_none(tmp_path, content, words):
    (tmp_path / DESCRIPTION).write_text(content)
    with pytest.raises(InvalidInput, match=rf"{DESCRIPTION}: .*{words}"):
        FORMAT.read([tmp_path / DESCRIPTION])


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"image,response\na,b,c\n"])
def test_a_data_file_that_is_no_table(foreign, data):
    path = foreign({"subject-1_data.csv": ""})
    (path.parent / "data" / "subject-1_data.csv").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"subject-1_data\.csv: a trial file is CSV text"):
        FORMAT.read([path])


# ---- recognising


@pytest.mark.parametrize(
    "head",
    [
        b'{"@type": "Dataset", "name": "x"}',
        b'{"type" : "https://schema.org/Dataset"}',
        b'{"name": "x", "variableMeasured": [',
    ],
)
def test_a_description_is_recognised_by_name_and_content(head):
    assert FORMAT.recognises(Path("a") / DESCRIPTION, head)
    assert not FORMAT.recognises(Path("a") / "run.json", head)


@pytest.mark.parametrize("head", [b"", b"{}", b'{"Name": "x", "BIDSVersion": "1.8", "DatasetType": "raw"}'])
def test_a_bids_description_is_not(head):
    assert not FORMAT.recognises(Path("a") / DESCRIPTION, head)


def test_one_format_alone_recognises_ours(tmp_path):
    FORMAT.write(table(BARE), tmp_path / "out")
    path = tmp_path / "out" / DESCRIPTION
    assert [name for name, known in formats.items() if known.recognises(path, path.read_bytes()[:200])] == ["psych-ds"]
