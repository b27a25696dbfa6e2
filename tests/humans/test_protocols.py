"""New studies, of every type and after every protocol, read back as they were written."""

from __future__ import annotations

import re
import shutil
from collections import Counter

import pytest

from cosight.errors import InvalidInput
from cosight.humans.study.assignment import assign
from cosight.humans.study.design import read_study
from cosight.humans.study.new import new_study, protocols
from cosight.humans.study.pool import load_pool
from cosight.humans.study.trial_types import trial_types
from cosight.stimuli.tasks import clustering_tasks, read_set, two_alternative_tasks, write_tasks
from cosight.trials.manifest import manifest_frame, write_manifest
from tests.humans.conftest import CLASSES, LABELS, make_stimuli


@pytest.fixture(scope="module")
def stimuli(tmp_path_factory):
    return make_stimuli(tmp_path_factory.mktemp("stimuli") / "set")


def named_set(root, rows):
    """A set of empty files: designs look only at what the manifest says."""
    (root / "images").mkdir(parents=True)
    full = [{"stimulus": f"s{i}", "file": f"images/{i}.png", "image": f"{i}.png", **row} for i, row in enumerate(rows)]
    for row in full:
        (root / row["file"]).touch()
    write_manifest(root, manifest_frame(full), {"settings": {"labels": "digits-11"}})
    return root


def visalign_set(root):
    others = [{"truth": "3", "split": "calibration", "group": "uncertain"}, {"truth": "3", "group": "must-act"}]
    asked = [{"truth": "4", "split": "test", "group": "uncertain"}] * 30
    named_set(root, [*asked, *others * 5])
    named_set(root / "distractors", [{"stimulus": f"d{i}", "truth": "abstain"} for i in range(12)])


def laion_set(root):
    named_set(
        root,
        [
            {"truth": str(c), "condition": k, "level": v, "parent": f"p{c}{i}"}
            for k in ("mosaic", "stickers", "glitched")
            for v in range(1, 6)
            for c in range(10)
            for i in range(6)
        ],
    )


def inverted_set(root):
    rows = [{"stimulus": f"t{i}"} for i in range(12)]
    rows += [{"stimulus": f"x{i}"} for i in range(24)]
    seeds = [f'{{"seed_stimulus": "x{i}"}}' for i in range(24)]
    rows += [{"stimulus": f"r{i}", "parent": f"t{i // 2}", "parameters": seeds[i]} for i in range(24)]
    found = read_set(named_set(root, rows))
    write_tasks(root, [*two_alternative_tasks(found), *clustering_tasks(found)])


SETS = {"visalign": visalign_set, "laion-c": laion_set, "2afc": inverted_set, "clustering": inverted_set}


@pytest.mark.parametrize("name", sorted(protocols))
def test_every_protocol_is_written_and_reads_back(tmp_path, name):
    SETS[name](tmp_path / "set")
    protocol = protocols[name]
    study = new_study(tmp_path / "mine", type=protocol.type, stimuli=tmp_path / "set", protocol=name)
    assert (study.name, study.type) == ("mine", protocol.type)
    for setting, value in protocol.design.items():
        assert getattr(study.design, setting) == value
    assert study.participants.participants == protocol.participants
    text = (tmp_path / "mine" / "study.toml").read_text()
    assert all(f"# {note}" in text for note in (*protocol.notes, f"A study after {protocol.citation}"))


def test_visaligns_survey_is_35_showings(tmp_path):
    """Lee et al. 2023, 3.3 and F: 35 images a worker, 10 of them distractors, two shown twice; 134 answers."""
    visalign_set(tmp_path / "set")
    study = new_study(tmp_path / "mine", type="classify", stimuli=tmp_path / "set", protocol="visalign")
    shown = [one.role for one in assign(study, load_pool(study), number=1, loads={})]
    assert (len(shown), shown.count("distractor"), shown.count("repeat"), study.answers) == (35, 10, 2, 134)
    assert study.show == {"split": ("test",), "group": ("uncertain",)}
    assert "unsure between names" in study.texts["instructions_classify"]


def test_laion_cs_experiment(tmp_path):
    """Li et al. 2025, 2.3 and A.2: ten blocks of 60, 19 people, 11,400 trials, image 2.5 s, answer 2 s."""
    laion_set(tmp_path / "set")
    study = new_study(tmp_path / "mine", type="timed", stimuli=tmp_path / "set", protocol="laion-c", labels="digits")
    assert study.participants.participants * study.design.images == 11_400
    assert study.design.images == study.design.blocks * 60
    timing = study.timing
    assert (timing.exposure, timing.response, timing.prompt, timing.background) == (2.5, 2.0, 0.75, 0.454)
    assert (timing.degrees, timing.distance, timing.bonus, timing.bonus_above) == (5, 65, 0.5, 0.9)
    shown = assign(study, load_pool(study), number=1, loads={})
    assert [sum(one.block == block for one in shown) for block in range(10)] == [60] * 10
    assert "# images = 45" in (tmp_path / "mine" / "study.toml").read_text()


def test_laion_cs_experiment_with_its_warm_up_and_images_in_common(tmp_path):
    """Two blocks of 45 before the others; the undistorted photos are not tested; some images are everybody's."""
    laion_set(tmp_path / "set")
    clean = {"condition": "clean", "level": 0}
    for block, condition in (("clean", "clean"), ("other", "blur")):
        warm = {"condition": condition, "level": 0}
        named_set(tmp_path / block, [{"stimulus": f"{block}{i}", "truth": str(i % 10), **warm} for i in range(50)])
    frame = read_set(tmp_path / "set").frame
    rows = [*frame.to_dicts(), {**frame.to_dicts()[0], **clean, "stimulus": "photo"}]
    write_manifest(tmp_path / "set", manifest_frame(rows), {"settings": {"labels": "digits"}})
    study = new_study(
        tmp_path / "mine",
        type="timed",
        stimuli=tmp_path / "set",
        protocol="laion-c",
        labels="digits",
        overlap=60,
        warmup=[tmp_path / "clean", tmp_path / "other"],
    )
    pool = load_pool(study)
    shown = [assign(study, pool, number=number, loads={}) for number in range(4)]
    assert [sum(one.block == block for one in shown[0]) for block in range(12)] == [45, 45, *[60] * 10]
    tests = [[pool.items[one.item] for one in showings if one.role == "test"] for showings in shown]
    assert {item.facts["condition"] for items in tests for item in items} == {"mosaic", "stickers", "glitched"}
    seen = [{item.item for item in items if item.facts["condition"] == "mosaic"} for items in tests]
    assert len(set.intersection(*filter(None, seen))) >= 30  # 60 in two conditions
    with pytest.raises(InvalidInput, match="overlap is for timed studies, got it with type classify"):
        new_study(tmp_path / "other", type="classify", stimuli=tmp_path / "set", labels="digits", overlap=2)


def test_everybody_answers_every_forced_choice(tmp_path):
    """Nanda et al. 2021, 2.4: three people each."""
    inverted_set(tmp_path / "set")
    pairs = new_study(tmp_path / "pairs", type="2afc", stimuli=tmp_path / "set", protocol="2afc")
    panels = new_study(tmp_path / "panels", type="cluster", stimuli=tmp_path / "set", protocol="clustering")
    assert (pairs.design.images, pairs.answers) == (24, 3)
    assert (panels.design.images, panels.answers) == (4, 3)


@pytest.mark.parametrize("kind", sorted(trial_types))
def test_every_type_is_written_and_reads_back(tmp_path, stimuli, kind):
    labels = LABELS if kind in ("classify", "timed") else None
    study = new_study(tmp_path / "a" / "mine", type=kind, stimuli=stimuli, labels=labels)
    assert study.set.resolve() == stimuli.resolve()
    assert study.design.images == {"2afc": 3, "cluster": 1}.get(kind, 12)
    assert study.design.distractors == (4 if kind == "classify" else 0)
    assert assign(study, load_pool(study), number=1, loads={})
    assert (study.reasons != ()) == (kind == "curate")


def test_labels_are_told_by_the_set_where_it_can(tmp_path, stimuli):
    visalign_set(tmp_path / "digits")
    study = new_study(tmp_path / "one", type="classify", stimuli=tmp_path / "digits")
    assert study.space.name == "digits-11"
    assert (study.show, study.design.images) == ({"split": ("test",)}, 25)  # of the 30 that are tested
    folders = tmp_path / "animals"
    for name in ("knife", "oven"):
        (folders / name).mkdir(parents=True)
        shutil.copy(next((stimuli / "images").iterdir()), folders / name / f"{name}.png")
    lines = []
    two = new_study(tmp_path / "two", type="classify", stimuli=folders, announce=lines.append)
    assert two.space.answers == ("knife", "oven")
    assert lines[0] == (
        "buttons: knife oven (the set's classes, 2 of model-vs-human-16; --labels model-vs-human-16 shows all. "
        "Evaluate models with --labels knife,oven to compare them)"
    )
    (folders / "oven").rename(folders / "thing")
    new_study(tmp_path / "three", type="classify", stimuli=folders, announce=lines.append)
    assert lines[2] == "buttons: knife thing (the set's classes)"
    shutil.rmtree(folders / "thing")
    with pytest.raises(InvalidInput, match=r"needs two classes or more.* has 'knife'; name them with --labels"):
        new_study(tmp_path / "four", type="classify", stimuli=folders)


def class_folders(home, classes, file):
    for name in classes:
        (home / name).mkdir(parents=True)
        shutil.copy(file, home / name / f"{name}.png")
    return home


def test_a_space_is_guessed_where_the_set_has_all_its_classes(tmp_path, stimuli):
    from cosight.trials.spaces import label_space

    file, lines = next((stimuli / "images").iterdir()), []
    space = label_space("model-vs-human-16")
    everything = class_folders(tmp_path / "all", space.classes, file)
    assert new_study(tmp_path / "a", type="timed", stimuli=everything, announce=lines.append).space == space
    assert lines[0].endswith("(model-vs-human-16, guessed from the set's classes)")
    assert (
        lines[1]
        == "design: 16 of 16 images per participant, 5 answers per image; complete after 5 participants or more"
    )


def test_buttons_of_classes_whose_names_say_little_have_titles(tmp_path, stimuli):
    """Sixty of ImageNet's WordNet ids: the buttons are these sixty, in words."""
    from cosight.humans.study.texts import label_titles
    from cosight.trials.spaces import label_space

    space = label_space("imagenet-1k")
    file = next((stimuli / "images").iterdir())
    study = new_study(
        tmp_path / "a", type="classify", stimuli=class_folders(tmp_path / "set", space.classes[:60], file)
    )
    assert study.space.answers == space.classes[:60]
    assert label_titles(study)["n01440764"] == "tench"


def test_numbers_named_at_the_start(tmp_path, stimuli):
    lines = []
    study = new_study(
        tmp_path / "a", type="classify", stimuli=stimuli, labels=LABELS, images=5, answers=3, announce=lines.append
    )
    assert (study.design.images, study.answers, study.design.idle) == (5, 3, 5)
    assert lines == [
        "design: 5 of 12 images per participant, 3 answers per image; complete after 8 participants or more; "
        "--pool 5 shows everybody the same images"
    ]
    one = new_study(tmp_path / "b", type="classify", stimuli=stimuli, labels=LABELS, images=1)
    assert (one.design.repeats, one.answers) == (1, 20)
    for wrong, message in (
        ({"images": 13}, r"images must be at most 12, the number that .* has to show, got 13"),
        ({"images": 0}, "images must be 1 or more, got 0"),
        ({"answers": -1}, "answers must be 1 or more, got -1"),
        ({"pool": -1}, "pool must be 0 or more, got -1"),
        ({"pool": 13}, r"pool must be at most 12, the number that .* has, got 13"),
        ({"pool": 4, "images": 5}, r"images must be at most 4, the number that .* has to show, got 5"),
    ):
        with pytest.raises(InvalidInput, match=message):
            new_study(tmp_path / "c", type="classify", stimuli=stimuli, labels=LABELS, **wrong)
        assert not (tmp_path / "c").exists()


def test_a_few_images_of_a_large_set(tmp_path, stimuli):
    """Everybody answers the same ones, as many of each class, whatever else the set has."""
    lines = []
    options = {"type": "classify", "stimuli": stimuli, "labels": LABELS, "answers": 3, "pool": 8}
    study = new_study(tmp_path / "a", announce=lines.append, **options)
    assert lines == [
        "design: 8 of 8 images per participant, 3 answers per image; complete after 3 participants or more"
    ]
    tests = load_pool(study).by_role("test")
    assert Counter(item.facts["truth"] for item in tests) == dict.fromkeys(CLASSES, 2)
    showings = [assign(study, load_pool(study), number=number, loads={}) for number in (1, 2)]
    seen = [{one.item for one in all_of_them if one.role == "test"} for all_of_them in showings]
    assert seen[0] == seen[1] == {item.item for item in tests}
    pairs = new_study(tmp_path / "b", type="2afc", stimuli=stimuli, pool=2)
    assert (len(load_pool(pairs).by_role("test")), pairs.design.images) == (2, 2)


def test_the_seed_draws_the_pool(tmp_path, stimuli):
    study = new_study(tmp_path / "a", type="classify", stimuli=stimuli, labels=LABELS, pool=4)
    file = study.root / "study.toml"
    drawn = {tuple(load_pool(study).items)}
    for seed in range(1, 6):
        file.write_text(re.sub("seed = .*", f"seed = {seed}", file.read_text()))
        drawn.add(tuple(load_pool(read_study(study.root)).items))
    assert len(drawn) > 3


def test_numbers_named_at_the_start_replace_those_of_a_protocol(tmp_path):
    visalign_set(tmp_path / "set")
    options = {"type": "classify", "stimuli": tmp_path / "set", "protocol": "visalign"}
    study = new_study(tmp_path / "mine", images=4, answers=2, **options)
    assert (study.design.images, study.answers, study.design.distractors) == (4, 2, 10)


def test_a_protocol_sets_the_type(tmp_path):
    visalign_set(tmp_path / "set")
    assert new_study(tmp_path / "mine", stimuli=tmp_path / "set", protocol="visalign", images=4).type == "classify"


def test_what_does_not_hold_leaves_nothing_behind(tmp_path, stimuli):
    home = tmp_path / "mine"
    with pytest.raises(InvalidInput, match="true classes must be answers of given"):
        new_study(home, type="classify", stimuli=stimuli, labels="ape,bee")
    assert not home.exists()
    home.mkdir()
    with pytest.raises(InvalidInput, match="true classes must be answers of given"):
        new_study(home, type="classify", stimuli=stimuli, labels="ape,bee")
    assert list(home.iterdir()) == []  # the folder was there before
    with pytest.raises(InvalidInput, match="protocol visalign is for type classify, got timed"):
        new_study(home, type="timed", stimuli=stimuli, labels=LABELS, protocol="visalign")
    with pytest.raises(InvalidInput, match=r"a study needs a trial type; give --type \(classify, .*\) or --protocol"):
        new_study(home, stimuli=stimuli, labels=LABELS)
    assert list(home.iterdir()) == []
    new_study(home, type="curate", stimuli=stimuli)
    before = (home / "study.toml").read_text()
    with pytest.raises(InvalidInput, match="has a study already"):
        new_study(home, type="curate", stimuli=stimuli)
    assert (home / "study.toml").read_text() == before


def test_a_protocol_that_needs_a_larger_set_says_so(tmp_path, stimuli):
    with pytest.raises(InvalidInput, match=r"visalign shows everybody 23 images, but .* has 12; build a larger"):
        new_study(tmp_path / "study", type="classify", stimuli=stimuli, labels=LABELS, protocol="visalign")
    assert not (tmp_path / "study").exists()
    with pytest.raises(InvalidInput, match=r"2afc shows everybody 5 attention checks, .* has 3; build a larger"):
        new_study(tmp_path / "study", type="2afc", stimuli=stimuli, protocol="2afc")


def test_a_study_is_named_after_its_folder_in_letters_that_addresses_allow(tmp_path):
    visalign_set(tmp_path / "set")
    study = new_study(tmp_path / " first wave (pilot)", type="classify", stimuli=tmp_path / "set", protocol="visalign")
    assert study.name == "first-wave-pilot"
