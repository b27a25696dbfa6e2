"""Bad input gets one clear line and exit 2, and nothing is half-written."""

import json

import polars as pl
import pytest

HEADER = "subj,session,trial,rt,object_response,category,condition,imagename"


def csv_file(folder, rows, header=HEADER, name="a.csv"):
    path = folder / "edge" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def observers(folder, *, other_image="cat1.png"):
    csv_file(folder, ["subject-01,1,1,0.5,cat,cat,0,0001_edg_s01_0_cat_00_cat1.png"], name="one.csv")
    csv_file(folder, [f"resnet,1,1,NaN,cat,cat,0,{other_image}"], name="two.csv")
    return folder


def missing_column(folder):
    return csv_file(folder, ["subject-01,1,1,.5,cat,cat,0"], header=HEADER.replace(",imagename", ""))


def unknown_class(folder):
    observers(folder)
    return csv_file(folder, ["subject-02,1,1,.5,zebra,cat,0,cat1.png"]).parent


def class_never_seen(folder):
    rows = ["subject-01,1,1,.5,wug,wug,0,w1.png", "subject-01,1,2,.5,dax,wug,0,w2.png"]
    csv_file(folder, rows)
    return csv_file(folder, ["net,1,1,NaN,wug,wug,0,w1.png"], name="b.csv").parent


def probabilities(folder):
    path = folder / "bad.parquet"
    columns = {"observer": ["m:a"], "kind": ["model"], "image": ["a.png"], "truth": ["cat"], "response": ["cat"]}
    pl.DataFrame({**columns, "probabilities": [[0.5, 0.9]]}).write_parquet(path)
    return path


def empty_folder(folder):
    (folder / "empty").mkdir()
    return folder / "empty"


def binary_csv(folder):
    path = folder / "noise.csv"
    path.write_bytes(bytes(range(256)) * 20)
    return path


def half_binary_csv(folder):
    path = csv_file(folder, [])
    path.write_bytes(HEADER.encode() + b"\n" + bytes(range(128, 256)))
    return path


def bad_number(folder):
    return csv_file(folder, ["subject-01,1,one,.5,cat,cat,0,cat1.png"])


CASES = [
    (missing_column, [], "a.csv: no column for the image. Columns found: subj, session, trial, rt, object_response"),
    (unknown_class, [], "a.csv, row 1, column response: a response is a class of model-vs-human-16, got 'zebra'"),
    (class_never_seen, [], "a response must be a class that some trial shows, got 'dax'"),
    (probabilities, [], "bad.parquet, row 1, column probabilities: probabilities sum to one, got 1.4"),
    (empty_folder, [], "empty: no trial files here"),
    (binary_csv, [], "noise.csv: not a trial file"),
    (half_binary_csv, [], "a.csv: a trial file is CSV text, this is not"),
    (bad_number, [], "a.csv, row 1, column trial: trial is a whole number, got 'one'"),
    (lambda folder: observers(folder, other_image="dog7.png"), [], "observers must share stimuli to be compared"),
    (observers, ["--resamples", "0"], "--resamples must be 1 or more, got 0"),
    (observers, ["--pairs", "model-model"], "got 1 people and 1 models"),
    (observers, ["--pairs", "both"], "pairs must be one of all, human-human, human-model, model-model, got 'both'"),
    (observers, ["--measure", "error_consistancy"], "did you mean error_consistency"),
    (observers, ["--by", "colour"], "trials are grouped by experiment, condition, level, truth, got 'colour'"),
    (observers, ["--preset", "model-vs-humans"], "did you mean model-vs-human?"),
    (observers, ["--labels", "nope"], "no label-space is called 'nope'"),
    (observers, ["--missing", "zero"], "'zero' is not one of 'leave-out', 'random'"),
    (observers, ["--measure", "shape_bias"], "shape_bias needs trials of the cue-conflict experiment"),
    (observers, ["--json", "--csv"], "choose one of --json and --csv"),
    (observers, ["--confidence", "95"], "confidence must lie between 0 and 1, got 95"),
    (observers, ["--gamma", "2"], "--gamma"),
    (observers, ["--resamples", "many"], "--resamples"),
    (observers, ["--what"], "no such option: --what; see `cosight compare --help`"),
    (lambda folder: folder / "nowhere", [], "trials must be a file or folder that exists"),
]


@pytest.mark.parametrize(("make", "options", "message"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_compare_refuses_in_one_line(make, options, message, tmp_path, cosight):
    done = cosight("compare", make(tmp_path), *options)
    assert done.code == 2
    assert done.out == ""
    *notes, line = done.err.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert line.startswith("cosight: ")
    assert message in line


def test_score_says_what_a_measure_needs(tmp_path, cosight):
    done = cosight("score", observers(tmp_path), "--measure", "reliability_score")
    assert (done.code, done.out) == (2, "")
    assert "reliability_score needs abstention" in done.err


def test_a_refused_conversion_leaves_nothing(tmp_path, cosight):
    target = tmp_path / "out.parquet"
    assert cosight("trials", "convert", unknown_class(tmp_path / "in"), target).code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


def test_an_existing_folder_is_not_written_into(tmp_path, cosight):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    done = cosight("trials", "convert", observers(tmp_path / "in"), tmp_path / "out")
    assert done.code == 2
    assert "must be new or empty" in done.err
    assert (tmp_path / "out" / "mine.txt").read_text() == "kept"


def test_an_unknown_ending_is_refused(tmp_path, cosight):
    done = cosight("trials", "convert", observers(tmp_path / "in"), tmp_path / "out.xlsx")
    assert done.code == 2
    assert "a trial file ends in" in done.err


@pytest.mark.parametrize("what", ["nothing", "measure"])
def test_list_names_what_it_lists(what, cosight):
    done = cosight("list", what)
    assert (done.code, done.out) == (2, "")
    assert "cosight lists models, model-lists, measures, label-spaces" in done.err


def test_json_never_has_nan(tmp_path, cosight):
    rows = json.loads(cosight("compare", observers(tmp_path), "--json").out, parse_constant=pytest.fail)
    undefined = [row for row in rows if row["measure"] == "error_consistency" and row["value"] is None]
    assert undefined
    assert all("undefined" in row["note"] or "0 pairs" in row["note"] for row in undefined)


def test_a_target_that_cannot_be_written_is_one_line(tmp_path, cosight):
    (tmp_path / "file").write_text("not a folder")
    done = cosight("trials", "convert", observers(tmp_path / "in"), tmp_path / "file" / "out.parquet")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith(f"cosight: {tmp_path / 'file'}")


def test_more_resamples_than_memory_is_one_line(tmp_path, cosight):
    done = cosight("compare", observers(tmp_path), "--resamples", 10**12)
    assert done.code == 2
    assert "fewer --resamples" in done.err.splitlines()[-1]


def test_a_folder_that_links_to_itself_is_read_once(tmp_path, cosight):
    observers(tmp_path)
    (tmp_path / "edge" / "loop").symlink_to(tmp_path)
    assert cosight("trials", "show", tmp_path).out.startswith("2 trials, 2 observers")


def test_blank_lines_at_the_end_are_no_trials(tmp_path, cosight):
    path = csv_file(tmp_path, ["subject-01,1,1,.5,cat,cat,0,cat1.png", "", ""])
    assert cosight("trials", "show", path).out.startswith("1 trials, 1 observers")
