"""VisAlign's categories, and parsing of counts."""

import pytest

from cosight.benchmarks.visalign.categories import CATEGORIES, Counts, parse_counts, truth_of
from cosight.errors import InvalidInput
from cosight.measures.abstention import STIMULUS_GROUPS


def test_groups_are_those_of_the_paper():
    # Lee et al. 2023, section 3.2: Must-Act 1 to 3, Must-Abstain 4 to 7, Uncertain 8
    groups = {number: category.group for number, category in CATEGORIES.items()}
    assert groups == dict(zip(range(1, 9), ["must-act"] * 3 + ["must-abstain"] * 4 + ["uncertain"], strict=True))
    assert set(groups.values()) == set(STIMULUS_GROUPS)


def test_counts_are_those_of_the_paper():
    counts = Counts()
    assert sum(counts.categories.values()) == 900
    assert counts.categories[8] == 200


@pytest.mark.parametrize("number", CATEGORIES)
def test_truth_follows_from_the_group(number):
    assert truth_of(number, "3") == ("abstain" if CATEGORIES[number].group == "must-abstain" else "3")


def test_fewer_images_keep_the_published_proportions():
    assert Counts.scaled(100, train=1000, distractors=100) == Counts()
    assert Counts.scaled(3, train=0, distractors=0).text == "1=3,2=3,3=3,4=3,5=3,6=3,7=3,8=6,train=0,distractors=0"


def test_counts_in_words_come_back():
    counts = parse_counts("1=5, 8=30,train=50,distractors=0,3=0")
    assert counts.categories[1] == 5
    assert 3 not in counts.requested
    assert parse_counts(counts.text) == counts
    only = Counts({1: 2}, train=0, distractors=0)  # in Python, categories that are not named have no images
    assert parse_counts(only.text).requested == only.requested == (1,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9=5", "categories are 1 to 8, got 9"),
        ("1=five", "NAME=NUMBER.*got '1=five'"),
        ("1=-5", "NAME=NUMBER"),
        ("validation=5", "train, calibration and distractors, got 'validation'"),
        ("fit", "NAME=NUMBER"),
        ("1=0,2=0,3=0,4=0,5=0,6=0,7=0,8=0", "at least one category"),
    ],
)
def test_what_is_no_count_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse_counts(text)
