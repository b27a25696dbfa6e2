"""What a study can show, from its sets."""

from __future__ import annotations

import json
import os

import pytest
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.humans.study import verify_images as verify
from cosight.humans.study.assignment import assign
from cosight.humans.study.design import read_study
from cosight.humans.study.pool import load_pool
from cosight.humans.study.trial_types import TrialContext
from cosight.humans.study.verify_images import verify_images
from cosight.humans.web import server
from cosight.stimuli.images import digest, read_image
from cosight.stimuli.sets import read_set
from cosight.trials.manifest import manifest_frame, write_manifest
from tests.humans.conftest import CLASSES, draw_image, make_stimuli, make_study, open_study, write_set


def pooled(folder, kind, **options):
    study = read_study(make_study(folder, kind, **options))
    return study, load_pool(study)


def test_images_of_a_manifest(tmp_path):
    study, pool = pooled(tmp_path, "classify")
    rows = read_set(study.set).frame.rows(named=True)
    tests = pool.by_role("test")
    assert [one.item for one in tests] == [row["stimulus"] for row in rows]
    one, row = tests[3], rows[3]
    assert (one.slots[0].name, one.slots[0].stimulus) == ("image", row["stimulus"])
    assert digest(read_image(one.slots[0].file)) == one.item
    assert {name: one.facts[name] for name in ("image", "condition", "level", "truth")} == {
        name: row[name] for name in ("image", "condition", "level", "truth")
    }
    assert (one.expected, one.clear) == (None, False)


def test_distractors_expect_a_refusal_where_they_are_clear(tmp_path):
    make_stimuli(tmp_path / "set")
    frame = read_set(tmp_path / "set" / "distractors").frame.rows(named=True)
    flags = [True, False, None, True]
    told = [json.dumps({} if flag is None else {"clear": flag}) for flag in flags]
    rows = [{**row, "parameters": text} for row, text in zip(frame, told, strict=True)]
    write_manifest(tmp_path / "set" / "distractors", manifest_frame(rows), {"settings": {}})
    _, pool = pooled(tmp_path, "classify")
    found = [(one.clear, one.expected) for one in pool.by_role("distractor")]
    assert found == [(True, "abstain"), (False, None), (True, "abstain"), (True, "abstain")]
    rows = [{**row, "parameters": '{"clear": false}'} for row in rows]
    write_manifest(tmp_path / "set" / "distractors", manifest_frame(rows), {"settings": {}})
    with pytest.raises(InvalidInput, match="at least one distractor must be clear"):
        pooled(tmp_path, "classify")


def test_distractors_can_lie_elsewhere(tmp_path):
    write_set(tmp_path / "others", 3, first=800)
    _, pool = pooled(tmp_path, "classify", more="[sets]\ndistractors = '../others'\n")
    assert {one.slots[0].file.parent.parent.name for one in pool.by_role("distractor")} == {"others"}


def test_gold_images_are_unaltered_and_not_asked_about(tmp_path):
    make_stimuli(tmp_path / "set")
    rows = read_set(tmp_path / "set").frame.rows(named=True)
    for place, row in enumerate(rows):
        row |= {"kind": "fog" if place < 6 else "clean", "group": "uncertain" if place < 6 else "must-act"}
    rows[-1]["truth"] = None  # of this one nobody can say what is right
    write_manifest(tmp_path / "set", manifest_frame(rows), {"settings": {}})
    show = "[show]\ngroup = 'uncertain'\n"
    _, pool = pooled(tmp_path, "classify", more=show, gold=5)
    gold = pool.by_role("gold")
    assert len(pool.by_role("test")) == 6
    assert [(one.item, one.expected) for one in gold] == [(row["stimulus"], row["truth"]) for row in rows[6:-1]]
    with pytest.raises(InvalidInput, match="gold must be at most 5"):
        pooled(tmp_path, "classify", more=show, gold=6)
    with pytest.raises(InvalidInput, match="gold must be at most 0"):  # all of them are asked about
        pooled(tmp_path, "classify", gold=1)


def test_folders_without_a_manifest_are_read_once_for_their_digests(tmp_path):
    for place, name in enumerate([*CLASSES, "distractors"]):
        (tmp_path / "set" / name).mkdir(parents=True)
        for number in range(2):
            Pillow.fromarray(draw_image(10 * place + number)).save(tmp_path / "set" / name / f"{number}.png")
    _, pool = pooled(tmp_path, "classify")
    tests = pool.by_role("test")
    assert len(tests) == 8
    assert len(pool.by_role("distractor")) == 2  # a folder of the set, but no class
    assert all(one.item == digest(read_image(one.slots[0].file)) for one in pool.items.values())
    assert {one.facts["truth"] for one in tests} == set(CLASSES)


def test_an_image_that_is_there_twice_is_one_item(tmp_path):
    rows = write_set(tmp_path / "set", 6)
    write_manifest(tmp_path / "set", manifest_frame([*rows, {**rows[0], "image": "again"}]), {"settings": {}})
    _, pool = pooled(tmp_path, "classify", distractors=0)
    assert len(pool.items) == 6


def test_an_image_in_two_roles_is_refused(tmp_path):
    write_set(tmp_path / "set", 6)
    write_set(tmp_path / "set" / "distractors", 3, first=5)
    with pytest.raises(InvalidInput, match="is test and distractor"):
        pooled(tmp_path, "classify")


def test_warm_up_images_know_their_block(tmp_path):
    write_set(tmp_path / "other", 3, first=900)
    _, pool = pooled(tmp_path, "timed", more="[[warmup]]\nset = '../other'\nimages = 3\n")
    assert [one.facts["block"] for one in pool.by_role("warmup")] == [0] * 4 + [1] * 3


def test_forced_choices_and_their_checks(tmp_path):
    _, pool = pooled(tmp_path, "2afc")
    tests, checks = pool.by_role("test"), pool.by_role("check")
    assert [one.item for one in tests] == ["task-0", "task-1", "task-2"]
    assert [slot.name for slot in tests[0].slots] == ["query", "left", "right"]
    for test, check in zip(tests, checks, strict=True):
        query, left, right = check.slots
        assert check.item != test.item
        assert check.expected == query.stimulus == left.stimulus == test.facts["truth"]
        assert (left.file, right.file) == tuple(slot.file for slot in test.slots[1:])
        assert check.facts["source"] == test.facts["source"]


def test_panels_and_their_checks(tmp_path):
    study, pool = pooled(tmp_path, "cluster")
    (panel,), (check,) = pool.by_role("test"), pool.by_role("check")
    assert [slot.name for slot in panel.slots] == [f"{w}-{n}" for w in ("column", "row") for n in (1, 2, 3)]
    assert [slot.stimulus for slot in check.slots[3:]] == list(panel.facts["targets"])
    for one in assign(study, pool, number=1, loads={}):
        item = pool.items[one.item]
        asked = TrialContext(item, one.order)
        right = [asked.stimuli("column").index(row) for row in asked.stimuli("row")] if item is check else [0, 0, 0]
        rows = study.kind.parse(asked, right)
        assert all((row.expected == row.response) == (item is check) for row in rows)


def test_only_tasks_whose_queries_are_all_shown_are_asked(tmp_path):
    _, pool = pooled(tmp_path, "2afc", images=2, more="[show]\ncondition = 'clear'\n")
    assert [one.item for one in pool.by_role("test")] == ["task-0", "task-2"]


@pytest.fixture
def swapped(tmp_path):
    """A study whose first two images changed places after the set was made, and its pool."""
    study, pool = pooled(tmp_path, "classify")
    first, second = (item.slots[0].file for item in pool.by_role("test")[:2])
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    return study, pool, (first, second)


def test_images_that_changed_since_the_manifest_are_named(swapped):
    study, pool, files = swapped
    with pytest.raises(InvalidInput, match="pixels of 2 images differ from the manifest") as refused:
        verify_images(pool, study.root)
    assert all(str(file) in str(refused.value) for file in files)


def test_a_study_with_changed_images_is_not_served(swapped, monkeypatch):
    monkeypatch.setattr(server, "static_files", lambda: {"index.html": b""})
    study, _, _ = swapped
    with pytest.raises(InvalidInput, match="pixels of 2 images differ from the manifest"):
        server.serve(study.root, port=0, announce=lambda addresses: pytest.fail("it was served"))
    assert not (study.root / "answers.sqlite").exists()


def test_an_image_that_changes_while_the_study_is_served_is_not_shown(tmp_path, caplog):
    with open_study(make_study(tmp_path, "classify")) as here:
        trial = here.trials(here.begin())[0]
        for file in (tmp_path / "set").rglob("*.png"):
            Pillow.fromarray(draw_image(7_000)).save(file)
        assert here.client.get(trial["images"]["image"]).status_code == 500
    assert "changed while the study is served" in caplog.text


def test_images_are_decoded_once_until_they_change(tmp_path, monkeypatch):
    study, pool = pooled(tmp_path, "classify")
    decoded = []
    monkeypatch.setattr(verify, "read_image", lambda file: decoded.append(file.name) or read_image(file))
    verify_images(pool, study.root)
    assert len(decoded) == len(pool.items)
    verify_images(pool, study.root)
    assert len(decoded) == len(pool.items)
    one = pool.by_role("test")[0].slots[0].file
    times = one.stat()
    Pillow.fromarray(draw_image(7_001)).save(one)
    os.utime(one, ns=(times.st_atime_ns, times.st_mtime_ns))  # the time of modification is no proof
    with pytest.raises(InvalidInput, match=one.name):
        verify_images(pool, study.root)
    (study.root / verify.VERIFIED).write_text("[not JSON")
    with pytest.raises(InvalidInput, match=one.name):
        verify_images(pool, study.root)
