from __future__ import annotations

import json

import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.trials.spaces import ABSTAIN, LabelSpace, label_space, label_spaces, space_of

VISALIGN = ("tiger", "zebra", "camel", "giraffe", "elephant", "rhino", "gorilla", "bear", "kangaroo", "human")


@pytest.mark.parametrize(
    ("name", "classes", "abstain"),
    [
        ("visalign-11", 10, True),  # Lee et al. 2023: ten mammals and abstain
        ("model-vs-human-16", 16, False),
        ("laion-c-16", 16, False),
        ("cifar-10", 10, False),
    ],
)
def test_spaces_we_bring(name, classes, abstain):
    space = label_spaces[name]
    assert (space.name, len(space.classes), space.abstain) == (name, classes, abstain)
    assert len(space.answers) == classes + abstain
    assert space.source


def test_visalign_is_in_the_order_of_the_leaderboard():
    assert label_spaces["visalign-11"].answers == (*VISALIGN, ABSTAIN)


@pytest.mark.parametrize("name", ["model-vs-human-16", "laion-c-16"])
def test_classes_are_those_of_the_published_mappings(name, mirror):
    mapping = json.loads((mirror / "class-mappings" / f"{name}.json").read_text())
    published = mapping.get("classes", mapping)
    assert sorted(published) == sorted(label_spaces[name].classes)


@pytest.mark.parametrize("classes", [(), ("cat", "cat"), ("cat", ABSTAIN)])
def test_a_space_has_distinct_classes_besides_abstain(classes):
    with pytest.raises(InvalidInput, match="distinct class names"):
        LabelSpace("bad", classes)


def test_a_space_by_name_or_by_its_classes():
    assert label_space("cifar-10") is label_spaces["cifar-10"]
    given = label_space(" cat, abstain ,dog,")
    assert (given.classes, given.abstain, given.answers) == (("cat", "dog"), True, ("cat", "dog", ABSTAIN))
    assert not label_space("cat,dog").abstain


def test_a_misspelt_space_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="visalign-11"):
        label_space("visalign-10")


@pytest.mark.parametrize(
    ("truths", "name"),
    [
        ({"knife", "oven"}, "model-vs-human-16"),
        ({"bear", "elephant"}, "model-vs-human-16"),  # VisAlign has both too: the people's data come first
        ({"bear", ABSTAIN}, "visalign-11"),
        ({"timekeeping"}, "laion-c-16"),
        ({"deer", "frog"}, "cifar-10"),
    ],
)
def test_truths_name_their_space(truths, name):
    assert space_of(frozenset(truths)).name == name


@pytest.mark.parametrize("truths", [{"unheard-of"}, {"knife", "timekeeping"}, set()])
def test_truths_of_no_space(truths):
    assert space_of(frozenset(truths)) is None
