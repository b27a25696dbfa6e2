from __future__ import annotations

import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.trials.spaces import ABSTAIN, LabelSpace, guess_label_space, label_space, label_spaces

VISALIGN = ("tiger", "zebra", "camel", "giraffe", "elephant", "rhino", "gorilla", "bear", "kangaroo", "human")


@pytest.mark.parametrize(
    ("name", "classes", "abstain"),
    [
        ("visalign-11", 10, True),  # Lee et al. 2023: ten mammals and abstain
        ("model-vs-human-16", 16, False),
        ("laion-c-16", 16, False),
        ("cifar-10", 10, False),
        ("cifar-100", 100, False),
        ("digits", 10, False),
        ("imagenet-1k", 1000, False),
        ("imagenet-a-200", 200, False),  # Hendrycks et al. 2021
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


def test_imagenet_is_the_published_list_in_its_order(mirror):
    published = json.loads((mirror / "class-mappings" / "imagenet-1k.json").read_text())
    space = label_spaces["imagenet-1k"]
    ours = {str(i): [c, space.title(c).replace(" ", "_")] for i, c in enumerate(space.classes)}
    assert ours == published
    assert list(space.classes) == sorted(space.classes)


@pytest.mark.parametrize(
    ("name", "file"), [("imagenet-1k", "imagenet_synsets"), ("imagenet-a-200", "imagenet_a_synsets")]
)
def test_imagenet_and_imagenet_a_are_those_of_timm(name, file):
    timm = find_spec("timm")  # found, not imported: it would bring torch
    if timm is None:
        pytest.skip("timm is not installed")
    folder = Path(timm.origin).parent / "data" / "_info"
    assert list(label_spaces[name].classes) == (folder / f"{file}.txt").read_text().split()


def test_imagenet_a_is_a_part_of_imagenet_with_the_same_titles():
    part, whole = label_spaces["imagenet-a-200"], label_spaces["imagenet-1k"]
    assert [part.title(c) for c in part.classes] == [whole.title(c) for c in part.classes]
    assert list(part.classes) == sorted(set(part.classes) & set(whole.classes))


def test_cifar_100_is_in_alphabetical_order():
    classes = label_spaces["cifar-100"].classes
    assert list(classes) == sorted(classes)
    # numbers as in the data set's own label files
    assert {i: classes[i] for i in (0, 1, 26, 39, 58, 76, 99)} == {
        0: "apple", 1: "aquarium_fish", 26: "crab", 39: "keyboard", 58: "pickup_truck", 76: "skyscraper", 99: "worm"
    }  # fmt: skip


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
        ({"tiger", "kangaroo"}, "visalign-11"),  # CIFAR-100 has both too: the smallest comes first
        ({"bed", "bee", "boy", "sea", "fox"}, "cifar-100"),
        (set("0123456789"), "digits"),
        (set(label_spaces["imagenet-a-200"].classes[:10]), "imagenet-a-200"),
        (set(label_spaces["imagenet-1k"].classes[:50]), "imagenet-1k"),
    ],
)
def test_truths_name_their_space(truths, name):
    assert guess_label_space(frozenset(truths)).name == name


@pytest.mark.parametrize(
    "truths",
    [
        {"unheard-of"},
        {"knife", "timekeeping"},
        set(),
        {"0", "1"},  # any two classes may be coded so
        {"man", "woman"},  # two of CIFAR-100's hundred
        {"n01440764"},
    ],
)
def test_truths_of_no_space(truths):
    assert guess_label_space(frozenset(truths)) is None


# ---- what classes are called


@pytest.mark.parametrize(
    ("space", "names", "classes"),
    [
        ("imagenet-1k", ["n01440764", "n15075141"], ["n01440764", "n15075141"]),
        ("imagenet-1k", ["great white shark", "tiger_shark"], ["n01484850", "n01491361"]),
        ("imagenet-1k", ["0", "999", "007"], ["n01440764", "n15075141", "n01514668"]),
        ("imagenet-a-200", ["0", "199"], ["n01498041", "n12267677"]),
        ("digits", ["9", "0"], ["9", "0"]),
        ("digits", ["seven", "1"], ["7", "1"]),
        ("laion-c-16", ["vehicle", "tool", "cat"], ["car_truck", "tools", "cat"]),  # words put to language models
        ("visalign-11", ["human", ABSTAIN], ["human", ABSTAIN]),
        ("cifar-10", [str(i) for i in range(10)], list(label_spaces["cifar-10"].classes)),
        ("cifar-10", [], []),
    ],
)
def test_names_of_folders_are_recognised(space, names, classes):
    assert label_spaces[space].recognise(names) == dict(zip(names, classes, strict=True))


@pytest.mark.parametrize(
    ("space", "names", "strange"),
    [
        ("imagenet-1k", ["0", "1000"], "1000"),
        ("imagenet-1k", ["0", "tench"], "tench"),  # numbers and names are never mixed
        ("imagenet-1k", ["tench", "-1"], "-1"),
        ("cifar-10", ["cat", ABSTAIN], ABSTAIN),
        ("cifar-10", ["\u0663"], "\u0663"),  # a digit, but not as folders are numbered
    ],
)
def test_names_that_are_not_recognised(space, names, strange):
    with pytest.raises(InvalidInput, match=f"classes of {space} .*got {strange!r}"):
        label_spaces[space].recognise(names)


def test_a_title_of_two_classes_is_explained():
    with pytest.raises(InvalidInput, match="'crane' is the title of n02012849 and n03126707 in imagenet-1k; name one"):
        label_spaces["imagenet-1k"].recognise(["tench", "crane"])


def test_titles_are_for_people():
    assert label_spaces["imagenet-1k"].title("n02123045") == "tabby"
    assert label_spaces["cifar-10"].title("cat") == "cat"
    assert label_spaces["imagenet-1k"].title(ABSTAIN) == ABSTAIN


def test_answers_in_one_line():
    assert label_spaces["visalign-11"].in_words == " ".join((*VISALIGN, ABSTAIN))
    assert label_spaces["cifar-100"].in_words == "apple, aquarium_fish, baby, ... 100 classes"
    many = LabelSpace("many", tuple(f"c{i}" for i in range(30)), abstain=True)
    assert many.in_words == "c0, c1, c2, ... 30 classes and abstain"


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"titles": ("a cat",)}, "a title for each of its 2 classes or none, got 1"),
        ({"aliases": (("kitty", "lion"),)}, "'kitty' for 'lion'"),
        ({"aliases": (("dog", "cat"),)}, "'dog' for 'cat'"),
        ({"aliases": (("pet", "cat"), ("pet", "dog"))}, "'pet' for"),
        ({"members": (("tabby",),), "members_of": "breeds"}, "got 1 groups of breeds"),
        ({"members": (("tabby",), ()), "members_of": "breeds"}, "got 1 groups of breeds"),
        ({"members": (("tabby",), ("pug",))}, "got 2 groups of no space"),
        ({"members": (("tabby",), ("pug", "tabby")), "members_of": "breeds"}, "'tabby' 2 times"),
    ],
)
def test_what_is_said_of_classes_fits_them(more, rule):
    with pytest.raises(InvalidInput, match=rule):
        LabelSpace("pets", ("cat", "dog"), **more)


@pytest.mark.parametrize("name", sorted(label_spaces))
def test_a_space_survives_json(name):
    space = label_spaces[name]
    again = LabelSpace(**json.loads(json.dumps(asdict(space))))
    assert again == space
    assert hash(again) == hash(space)


@pytest.mark.parametrize("name", [n for n in label_spaces if label_spaces[n].members])
def test_members_are_classes_of_the_space_they_are_said_to_be_of(name):
    space = label_spaces[name]
    assert {m for group in space.members for m in group} <= set(label_spaces[space.members_of].classes)


def test_one_hot_is_about_every_answer():
    assert label_spaces["digits-11"].one_hot("abstain") == [0.0] * 10 + [1.0]
    with pytest.raises(InvalidInput, match="got 'tiger'"):
        label_spaces["digits-11"].one_hot("tiger")


def test_finer_classes_are_recognised_and_others_are_none():
    space = label_spaces["laion-c-16"]
    assert space.recognise_members(["n02799071", "n15075141"]) == {"n02799071": "ball", "n15075141": None}
    assert space.recognise_members(["0", "999"]) == {"0": "fish", "999": None}  # numbers of ImageNet's classes
    assert space.recognise_members(["tool", "cat"]) == {"tool": "tools", "cat": "cat"}
    assert label_spaces["cifar-10"].recognise_members(["0", "9"]) == {"0": "airplane", "9": "truck"}
    for names, wrong in ((["n02799071", "n00000000"], "n00000000"), (["cat", "n02799071"], "n02799071"), (["x"], "x")):
        with pytest.raises(InvalidInput, match=f"or all of them classes of imagenet-1k .* got '{wrong}'"):
            space.recognise_members(names)
