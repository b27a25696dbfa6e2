"""A newcomer's first commands: ugly CSV files joined with published trials, published repositories as cloned."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from cosight.trials import align, read


@pytest.fixture(scope="module")
def answers():
    """The answers of one published person to the edge drawings, under a name of their own."""
    frame = read("sample:edges").only("human:subject-09").frame
    return frame.select("image", "truth", "response", rt=pl.col("rt").round(3)).with_columns(who=pl.lit("Anna"))


def pandas_style(frame):
    columns = {"participant": "who", "stimulus": "image", "choice": "response", "true_label": "truth"}
    milliseconds = (pl.col("rt") * 1000).round(0).alias("reaction_time")
    table = frame.select(*(pl.col(ours).alias(theirs) for theirs, ours in columns.items()), milliseconds)
    return table.with_row_index("").write_csv(null_value="NaN"), []


def excel_style(frame):
    seconds = pl.col("rt").cast(pl.String).str.replace(".", ",", literal=True).alias("RT")
    table = frame.select(
        SUBJECT="who", FILENAME="image", RESPONSE="response", CATEGORY="truth", CONDITION=pl.lit("0,0")
    )
    return "\ufeff" + table.with_columns(frame.select(seconds)).write_csv(separator=";", null_value="NA"), []


def jspsych_style(frame):
    table = frame.select(
        trial_type=pl.lit("image-button-response"),
        trial_index=pl.int_range(pl.len()),
        prolific_pid="who",
        stimulus=pl.lit("img/edges/") + pl.col("image"),
        response="response",
        correct_response="truth",
        rt=pl.col("rt") * 1000,
    )
    return table.write_csv(separator="\t", null_value="null"), []


def r_style(frame):
    capital = pl.col("truth", "response").str.to_titlecase()
    table = frame.with_columns(capital).select(
        subj="who", img="image", resp="response", truth="truth", cond=pl.lit(0.0)
    )
    return table.with_row_index("").write_csv(quote_style="always", null_value=""), []


def foreign_words(frame):
    table = frame.select(VP="who", Bild="image", Antwort="response", Klasse="truth", RZ="rt")
    return table.write_csv(null_value="na"), ["--columns", "observer=VP,image=Bild,response=Antwort,truth=Klasse,rt=RZ"]


@pytest.mark.parametrize("style", [pandas_style, excel_style, jspsych_style, r_style, foreign_words])
def test_ugly_files_join_published_trials(answers, style, tmp_path, cosight):
    text, options = style(answers)
    path = tmp_path / "my.csv"
    path.write_text(text, encoding="utf-8")
    done = cosight("trials", "convert", path, tmp_path / "my.parquet", "--experiment", "edge", *options)
    assert done.code == 0, done.err
    table = align(read(tmp_path / "my.parquet", "sample:edges"))
    own, published = (table.observers.index(f"human:{name}") for name in ("Anna", "subject-09"))
    assert table.answers.response.shape == (36, 160)
    assert np.array_equal(table.answers.response[own], table.answers.response[published])
    if style is not r_style:
        assert read(tmp_path / "my.parquet").frame["rt"].equals(answers["rt"])


def test_a_csv_file_is_compared_as_it_is(answers, tmp_path, cosight):
    answers.with_columns(experiment=pl.lit("edges")).rename({"who": "subject"}).write_csv(tmp_path / "my.csv")
    options = ["--pairs", "human-human", "--resamples", "5", "--json"]
    done = cosight("compare", tmp_path / "my.csv", "sample:edges", "--measure", "ec", *options)
    assert done.code == 0, done.err
    assert "my.csv: guessed observer=subject, observers are people" in done.err
    pairs = {(row["observer"], row["against"]): row["value"] for row in json.loads(done.out)}
    assert pairs["human:Anna", "human:subject-09"] == 1


def test_a_csv_file_without_an_experiment_says_how_to_join_it(answers, tmp_path, cosight):
    answers.rename({"who": "subject"}).write_csv(tmp_path / "my.csv")
    done = cosight("compare", tmp_path / "my.csv", "sample:edges", "--measure", "ec", "--resamples", "5")
    assert "no experiment; to join these trials with others, convert them with --experiment NAME" in done.err


def test_a_misspelled_answer_is_named_with_its_file_and_row(answers, tmp_path, cosight):
    wrong = answers.with_columns(pl.Series("response", ["trucc", "timeout", *answers["response"][2:]]))
    wrong.with_columns(experiment=pl.lit("edge")).rename({"who": "subject"}).write_csv(tmp_path / "my.csv")
    done = cosight("compare", tmp_path / "my.csv", "sample:edges", "--measure", "ec", "--resamples", "5")
    assert done.code == 2
    assert "my.csv, row 1, column response: a response is a class of model-vs-human-16, got 'trucc'" in done.err
    assert done.err.endswith("; did you mean truck?\n")


# ---- the published repositories


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A folder laid out as a clone of wichmann-lab/error-consistency."""
    from cosight.trials import write

    root = tmp_path_factory.mktemp("clones") / "error-consistency"
    for name in ("cue-conflict", "edges"):
        write(read(f"sample:{name}"), root.parent / name)
        (root / "raw-data").mkdir(parents=True, exist_ok=True)
        (root.parent / name / name).rename(root / "raw-data" / f"texture-shape_{name}")
    (root / "README.md").write_text("# Data, code and more\n")
    (root / "raw-data" / "brain-score_metrics").mkdir()
    (root / "raw-data" / "brain-score_metrics" / "brainscore_metrics.csv").write_text("# name, avg., V1\nx,.254,.214\n")
    return root


def test_a_clone_is_compared_by_its_own_folder_names(clone, cosight):
    folder = clone / "raw-data" / "texture-shape_cue-conflict"
    done = cosight(
        "compare", folder, "--measure", "ec,shape_bias", "--pairs", "human-human", "--resamples", "2", "--json"
    )
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    people = {
        row["measure"]: row["value"] for row in rows if row["observer"] == "people" and row["statistic"] == "value"
    }
    # Geirhos et al. 2021: error consistency of people .331 and shape bias .959 on cue-conflict
    assert people["error_consistency"] == pytest.approx(0.3311, abs=5e-5)
    assert people["shape_bias"] == pytest.approx(0.95869, abs=5e-6)


def test_a_whole_clone_is_read_and_joins_the_samples(clone):
    trials = read(clone, "sample:edges", "sample:cue-conflict")
    assert any("2 files are no trials and were skipped" in notice for notice in trials.notices)
    table = align(trials)
    assert any(notice.startswith("50400 trials occur twice") for notice in table.notices)
    assert table.answers.response.shape == (35, 1280 + 160)
