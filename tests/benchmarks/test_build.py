"""`cosight build`: people's answers as gold labels, contact sheets, bad arguments."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cosight.cli.build import app
from cosight.errors import InvalidInput
from cosight.stimuli.images import read_image
from cosight.stimuli.sets import read_set, write_gold_labels
from cosight.trials import write
from cosight.trials.spaces import label_spaces
from cosight.trials.table import make_trials

FEW = "1=10,2=0,3=0,4=0,5=0,6=0,7=0,8=10,train=0,distractors=0"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def original_set(tmp_path_factory):
    out = tmp_path_factory.mktemp("digits") / "set"
    assert run("digits", out, "--counts", FEW).output == f"40 stimuli made: {out}\n"
    return out


@pytest.fixture
def built(original_set, tmp_path):
    """A copy of the set, to be changed."""
    return Path(shutil.copytree(original_set, tmp_path / "set"))


def answers(stimulus, given, kind="human"):
    frame = pl.DataFrame({"response": given}).with_columns(
        observer=pl.format("{}:{}", pl.lit(kind), pl.int_range(pl.len())),
        kind=pl.lit(kind),
        stimulus=pl.lit(stimulus),
        truth=pl.lit("3"),
    )
    return make_trials(frame, space=label_spaces["digits-11"])


def test_people_take_the_panels_place(built):
    before = read_set(built).frame
    image = before.filter(group="uncertain")["stimulus"][3]
    assert write_gold_labels(built, answers(image, ["3", "3", "abstain", "8"])) == 1
    after = read_set(built).frame
    row = after.filter(stimulus=image).row(0, named=True)
    assert row["gold_counts"] == [0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 1]
    assert row["gold"][3] == 0.5
    assert json.loads(row["parameters"])["gold"] == "people"
    others = pl.col("stimulus") != image
    assert after.filter(others).equals(before.filter(others))
    again = run("digits", built, "--counts", FEW)  # a resumed build keeps them
    assert again.output == f"0 stimuli made, 40 existed: {built}\n"
    assert read_set(built).frame.equals(after)


def test_first_showings_of_test_images_count(built, tmp_path):
    image = read_set(built).frame.filter(group="uncertain")["stimulus"][0]
    given = answers(image, ["3", "8", "8", "3"]).frame.with_columns(
        observer=pl.Series(["human:a", "human:a", "human:b", "human:c"]),
        role=pl.Series(["test", "repeat", "test", "distractor"]),
        repetition=pl.Series([0, 1, 0, 0]),
    )
    write(make_trials(given, space=label_spaces["digits-11"]), tmp_path / "people.parquet")
    done = run("digits", built, "--counts", FEW, "--humans", tmp_path / "people.parquet")
    assert read_set(built).frame.filter(stimulus=image)["gold_counts"][0].to_list() == [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0]
    assert "2 of 4 trials are left out by their role (1 distractor, 1 repeat)" in done.stderr


def test_a_missed_first_showing_is_not_replaced_by_the_second(built):
    image = read_set(built).frame.filter(group="uncertain")["stimulus"][0]
    given = answers(image, [None, "8", "3"]).frame.with_columns(
        observer=pl.Series(["human:a", "human:a", "human:b"]), session=pl.Series(["2", "10", "1"])
    )
    write_gold_labels(built, make_trials(given, space=label_spaces["digits-11"]))
    assert read_set(built).frame.filter(stimulus=image)["gold_counts"][0].sum() == 1


def test_only_people_on_uncertain_images_count(built):
    frame = read_set(built).frame
    doubtful, clean = frame.filter(group="uncertain")["stimulus"][0], frame.filter(category=1)["stimulus"][0]
    for trials in (answers(doubtful, ["3"], kind="simulated"), answers(clean, ["3"]), answers(doubtful, [None])):
        with pytest.raises(InvalidInput, match="got none in the trials"):
            write_gold_labels(built, trials)


def test_humans_and_sheet_from_the_command_line(built, tmp_path):
    image = read_set(built).frame.filter(group="uncertain")["stimulus"][0]
    write(answers(image, ["7", "7"]), tmp_path / "people.parquet")
    sheet = tmp_path / "sheet.png"
    run("digits", built, "--counts", FEW, "--humans", tmp_path / "people.parquet", "--sheet", sheet)
    assert read_set(built).frame.filter(stimulus=image)["gold"][0][7] == 1
    assert read_image(sheet).shape[2] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("digits", "OUT", "--counts", "1=many"), "got '1=many'"),
        (("digits", "OUT", "--sheet", "sheet.gif"), "a sheet is a .png or .jpg file"),
        (("digits", "OUT", "--seed", "-1"), "--seed must be a whole number, 0 or more, got -1"),
        (("digits", "OUT", "--humans", "EMPTY"), "empty"),
        (("visalign", "OUT", "--photos", "EMPTY"), "found none in"),
        (("visalign", "OUT", "--public", "EMPTY"), "found none in"),
        (("visalign", "OUT"), "give --photos DIR, or --public DIR"),
        (("visalign", "OUT", "--public", "EMPTY", "--others", "EMPTY"), "got --others too"),
        (("visalign", "OUT", "--public", "EMPTY", "--calibration", "-1"), "--calibration must be 0 or more, got -1"),
        (("visalign", "OUT", "--photos", "EMPTY", "--calibration", "9"), "got no --public"),
        (("visalign", "OUT", "--photos", "EMPTY", "--lists", "EMPTY"), "got no --public"),
    ],
)
def test_mistakes_are_one_line(tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    places = {"OUT": tmp_path / "out", "EMPTY": tmp_path / "empty"}
    with pytest.raises(InvalidInput, match=message) as error:
        run(*(places.get(argument, argument) for argument in arguments))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()
