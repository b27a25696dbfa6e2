"""Checks of finished sets: splits that share images or lack a category are refused."""

from pathlib import Path

import pytest

from cosight.benchmarks.visalign.categories import check_categories
from cosight.errors import InvalidInput
from cosight.stimuli.sets import StimulusSet, check_splits
from cosight.trials.manifest import manifest_frame


def row(split, category, stimulus, gold=(0.0, 1.0), parent=None):
    return {"split": split, "category": category, "stimulus": stimulus, "gold": list(gold), "parent": parent}


def stimuli(*rows, **settings):
    return StimulusSet(Path("set"), manifest_frame(rows), {"settings": settings})


GOOD = (row("train", None, "a"), row("calibration", 1, "b", parent="p"), row("test", 1, "c", parent="q"))


def test_a_good_set_passes():
    check_splits(stimuli(*GOOD))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((row("calibration", 1, "c"), row("test", 1, "c")), "calibration and test of set share 1"),
        ((*GOOD, row("calibration", 1, "a")), "calibration and train of set share 1"),
        ((*GOOD, row("closed", 1, "c")), "closed and test of set share 1"),
        ((*GOOD, row("test", 1, "d", parent="p")), "share the sources of their images"),
        ((row("test", 1, "c"),), "needs a calibration split of its own, set has none"),
        ((*GOOD, row("test", 1, "d", gold=(0.5, 0.4))), "gold must sum to one, got 0.9"),
        ((*GOOD, row("test", 1, "d", gold=(-0.5, 1.5))), "must not be negative, got -0.5"),
        ((*GOOD, row("test", 1, "d", gold=(0.0, 0.0, 1.0))), "differ in length"),
        ((*GOOD, row("validation", 1, "d")), "set has 'validation'"),
    ],
)
def test_a_bad_set_is_refused_in_one_line(rows, message):
    with pytest.raises(InvalidInput, match=message) as error:
        check_splits(stimuli(*rows))
    assert "\n" not in str(error.value)


def test_a_tested_split_without_a_category_of_the_test_split_is_refused():
    check_categories(stimuli(*GOOD))
    with pytest.raises(InvalidInput, match="calibration of set has none of category 2"):
        check_categories(stimuli(*GOOD, row("test", 2, "d")))


def test_a_category_asked_for_needs_images():
    zeros = ",".join(f"{n}=0" for n in range(3, 9))
    with pytest.raises(InvalidInput, match=r"none of category 2 .*set 2=0 in the counts"):
        check_categories(stimuli(*GOOD, counts=f"1=1,2=1,{zeros}"))
    check_categories(stimuli(*GOOD, counts=f"1=1,2=0,{zeros}"))


def test_images_without_a_gold_label_yet_pass():
    check_splits(stimuli(*GOOD, {**row("test", 1, "d"), "gold": None}))


def test_a_closed_test_set_needs_no_labels():
    check_splits(stimuli(*GOOD, {**row("closed", None, "d"), "gold": None}))
