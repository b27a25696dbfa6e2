"""What a VisAlign set knows of its classes: label spaces, TOML files, class folders."""

import json

import pytest

from cosight.benchmarks.visalign.class_facts import check_other_folders, facts_of_folders, read_class_facts
from cosight.benchmarks.visalign.prompts import prompt_table
from cosight.errors import CosightError, InvalidInput
from cosight.trials.manifest import manifest_space
from cosight.trials.mapping import label_map
from cosight.trials.spaces import label_spaces, space_facts

VEHICLES = """
name = "vehicles"
classes = ["car", "bus"]
members_of = "imagenet-1k"
near = ["golf_cart"]
others = ["tractor"]
backgrounds = ["under water"]
[aliases]
automobile = "car"
[members]
car = ["sports car", "convertible"]
bus = ["school bus", "n03769881"]
[subspecies]
car = ["estate car", "coupe"]
"""


@pytest.fixture
def vehicles(tmp_path):
    path = tmp_path / "vehicles.toml"
    path.write_text(VEHICLES)
    return path


def test_a_file_describes_label_space_and_words(vehicles):
    facts = read_class_facts(str(vehicles))
    assert facts.space.answers == ("car", "bus", "abstain")
    assert facts.space.recognise(["automobile", "bus"]) == {"automobile": "car", "bus": "bus"}
    groups = label_map("imagenet-1k", facts.space).groups
    assert groups == ((817, 511), (779, 654))  # the usual order of ImageNet's classes
    assert facts.subspecies == {"car": ("estate car", "coupe"), "bus": ("bus",)}
    assert facts.hybrid_templates == read_class_facts().hybrid_templates  # what it leaves out is VisAlign's
    prompts = prompt_table(2, count=3, seed=0, facts=facts)["prompt"].to_list()
    assert all("under water" in text for text in prompts)
    assert set(prompt_table(5, count=2, seed=0, facts=facts, routes=["text"])["other"]) == {"tractor"}


def test_a_label_space_survives_the_manifest(vehicles):
    space = read_class_facts(str(vehicles)).space
    stored = json.loads(json.dumps({"settings": {"labels": space_facts(space)}}))
    assert manifest_space(stored) == space
    assert stored["settings"]["labels"] == space_facts(space)  # a resumed build compares them
    assert space_facts(label_spaces["visalign-11"]) == "visalign-11"


def test_hybrids_without_others_are_of_the_classes():
    table = prompt_table(5, count=6, seed=0, facts=read_class_facts("cat,dog,cow"), routes=["text"])
    assert set(table["other"]) == {"cat", "dog", "cow"}
    assert not (table["other"] == table["original"]).any()


def test_any_label_space_gets_abstain():
    space = read_class_facts("model-vs-human-16").space
    assert space.answers[-1] == "abstain"
    assert space.members == label_spaces["model-vs-human-16"].members


def test_class_folders_are_the_classes_unless_they_are_visaligns():
    assert facts_of_folders(["tiger", "rhinoceros", "person"]).space == label_spaces["visalign-11"]
    assert facts_of_folders(["tiger", "lion"]).space.classes == ("lion", "tiger")


def test_folders_of_other_objects_show_no_class(vehicles):
    facts = read_class_facts(str(vehicles))
    check_other_folders(facts, {"others": ["cup"], "near": ["golf cart"]})
    for folders, message in (
        ({"others": ["cup", "Automobile"]}, "--others must show none of the classes, got Automobile"),
        ({"near": ["bus"]}, "--near must show none of the classes, got bus"),
        ({"others": ["golf cart"]}, "got golf cart; move them to --near"),
    ):
        with pytest.raises(InvalidInput, match=message):
            check_other_folders(facts, folders)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('classes = ["car", "bus"]', "", "needs either labels, a label space, or classes"),
        ('classes = ["car", "bus"]', 'classes = ["car", "bus", "bus"]', "distinct class names"),
        ("classes =", "klasses =", "did you mean classes"),
        ('name = "vehicles"', 'labels = "digits"', "got both or neither"),
        ('automobile = "car"', 'automobile = "lorry"', "one other word for one of its classes"),
        ('automobile = "car"', "automobile = 3", r"\[aliases\] has lines"),
        ('bus = ["school bus", "n03769881"]', "", r"\[members\] has a line for every class"),
        ('members_of = "imagenet-1k"', "", "members_of names their label space"),
        ('"convertible"', '"convertable"', "got 'convertable'"),
        ('car = ["estate car", "coupe"]', 'lorry = ["lorry"]', r"\[subspecies\] has lines for classes, got lorry"),
        ('near = ["golf_cart"]', 'background_template = "a {beast}"', "a template has the words {animal} and"),
        ('near = ["golf_cart"]', "near = 3", "near must be a list of texts"),
        ("[members]", "[members", "not a valid TOML file"),
    ],
)
def test_mistakes_are_named_in_one_line(vehicles, old, new, message):
    vehicles.write_text(VEHICLES.replace(old, new))
    with pytest.raises(CosightError, match=message) as error:
        read_class_facts(str(vehicles))
    assert "\n" not in str(error.value)
    assert "vehicles.toml" in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"none\.toml does not exist"):
        read_class_facts(str(tmp_path / "none.toml"))
