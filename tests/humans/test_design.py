"""A design is read whole, or refused in one line that says what to change."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import replace

import pytest

from cosight.errors import CosightError, InvalidInput, UnknownName
from cosight.humans.study.design import Design, Participants, Timing, read_study
from cosight.humans.study.texts import english_texts, label_titles, new_texts
from cosight.humans.study.trial_types import trial_types
from cosight.measures.study_size import minimum_raters
from cosight.stimuli.tasks import read_tasks, write_tasks
from tests.humans.conftest import LABELS, make_stimuli, make_study


@pytest.fixture(scope="module")
def stimuli(tmp_path_factory):
    return make_stimuli(tmp_path_factory.mktemp("stimuli") / "set")


@pytest.fixture
def home(tmp_path, stimuli):
    """A folder in which `make_study` finds a set."""
    shutil.copytree(stimuli, tmp_path / "set")
    return tmp_path


def changed(folder, old, new, file="study.toml"):
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    return folder


def refused(folder):
    with pytest.raises(CosightError) as error:
        read_study(folder)
    line = str(error.value)
    assert "\n" not in line
    assert str(folder.name) in line
    return line


@pytest.mark.parametrize("kind", sorted(trial_types))
def test_every_type_is_read(home, kind):
    study = read_study(make_study(home, kind))
    assert (study.name, study.type, study.seed, study.kind.name) == ("small", kind, 5, kind)
    assert study.set.resolve() == (home / "set").resolve()
    assert (study.space is not None) == (kind in ("classify", "timed"))
    assert (study.timing is not None) == (kind == "timed")
    assert re.fullmatch("[0-9a-f]{64}", study.digest)
    assert study.texts[f"question_{kind}"]
    assert study.answers == study.design.answers


@pytest.mark.parametrize(("width", "share", "answers"), [(0.05, 1 / 11, 134), (0.1, 1 / 11, 35), (0.15, 1 / 11, 16)])
def test_answers_from_the_width_of_an_interval(width, share, answers):
    """Lee et al. 2023, F.4: 132.23, 33.06 and 14.69, and the one more that eq. 4 has."""
    design = Design(images=1, width=width, share=share)
    assert design.wanted == answers == minimum_raters(width, p=share, plus_one=True).raters


BAD_STUDIES = [
    # (type, text replaced, by what, words of the message)
    ("classify", "seed = 5", "sed = 5", "unknown key 'sed'; did you mean seed"),
    ("classify", "seed = 5", "seed = -1", "seed must be 0 or more, got -1"),
    ("classify", "seed = 5", "seed = '5'", "study.toml: seed must be a whole number, got '5'"),
    ("classify", "name = 'small'", "", "study.toml: name is missing"),
    ("classify", "name = 'small'", "name = 'a/b'", "got 'a/b'"),
    ("classify", "type = 'classify'", "type = 'clasify'", "did you mean classify"),
    ("classify", "set = '../set'", "set = '../nowhere'", "there is no folder"),
    ("classify", f"labels = '{LABELS}'", "", "got no labels"),
    ("classify", f"labels = '{LABELS}'", "labels = 'visalgn-11'", "did you mean visalign-11"),
    ("classify", f"labels = '{LABELS}'", "labels = 'tiger,zebra,abstain'", "got 'camel'"),
    ("classify", f"labels = '{LABELS}'", "labels = 'tiger,zebra,camel,bear'", "has no abstain"),
    ("classify", "images = 4", "images = 13", "images must be at most 12"),
    ("classify", "images = 4", "images = 0", "images must be 1 or more, got 0"),
    ("classify", "images = 4", "images = 4.0", "[design]: images must be a whole number, got 4.0"),
    ("classify", "images = 4", "images = true", "must be a whole number, got True"),
    ("classify", "images = 4", "", "[design]: images is missing"),
    ("classify", "images = 4", "images = 4\nblock = 2", "did you mean blocks"),
    ("classify", "answers = 3", "answers = 0", "answers must be 1 or more, got 0"),
    ("classify", "answers = 3", "", "got neither"),
    ("classify", "answers = 3", "answers = 3\nwidth = 0.05\nshare = 0.5", "got both"),
    ("classify", "answers = 3", "width = 1.0\nshare = 0.5", "width must lie between 0.001 and 1, got 1"),
    ("classify", "answers = 3", "width = 0\nshare = 0.5", "width must lie between 0.001 and 1, got 0"),
    ("classify", "answers = 3", "width = nan\nshare = 0.5", "width must lie between 0.001 and 1, got nan"),
    ("classify", "answers = 3", "width = 1e-200\nshare = 0.5", "width must lie between 0.001 and 1, got 1e-200"),
    ("classify", "answers = 3", "width = 0.05", "width needs share and share needs width"),
    ("classify", "answers = 3", "width = 0.05\nshare = 2", "share must lie between 0 and 1, got 2"),
    ("classify", "distractors = 2", "distractors = 5", "distractors must be at most 4"),
    ("classify", "distractors = 2", "distractors = -2", "distractors must be 0 or more, got -2"),
    ("classify", "distractors = 2", "gold = 1", "gold must be at most 0"),
    ("classify", "repeats = 1", "repeats = 5", "repeats must be at most images (4), got 5"),
    ("classify", "repeats = 1", "blocks = 5", "blocks must be at most images (4), got 5"),
    ("classify", "repeats = 1", "blocks = 0", "blocks must be 1 or more"),
    ("classify", "repeats = 1", "idle = 0", "idle must be 1 or more"),
    ("classify", "repeats = 1", "checks = 1", "checks is for 2afc, cluster, got it in a study of type classify"),
    ("classify", "repeats = 1", "overlap = 1", "overlap is for timed"),
    ("classify", "[participants]", "[participants]\nparticipants = 2", "3 answers per image need as many participants"),
    ("classify", "[participants]", "[participants]\nparticipants = -1", "participants must be 0 or more"),
    ("classify", "[participants]", "[participants]\nplatform = 'facebook'", "none, prolific, mturk"),
    ("classify", "[participants]", "[participants]\ncompletion_code = 'X'", "need a platform"),
    (
        "classify",
        "[participants]",
        "[participants]\nplatform = 'prolific'\nscreened_out_code = 'X'",
        "screened_out_code needs questions, got no screening",
    ),
    (
        "classify",
        "[participants]",
        "[participants]\nplatform = 'prolific'\nconsent = false\nno_consent_code = 'X'",
        "no_consent_code needs consent",
    ),
    (
        "classify",
        "[participants]",
        "[participants]\nplatform = 'prolific'\ncompletion_code = 'X'\nno_consent_code = 'X'",
        "each outcome must have a code of its own, got X, X",
    ),
    (
        "classify",
        "[participants]",
        "[participants]\nplatform = 'prolific'\ncompletion_url = 'https://a/?cc=X'\nno_consent_code = 'X'",
        "completion_url must have {code}",
    ),
    ("classify", "[participants]", "[participants]\nmturk_hosts = ['https://a/b']", "without a path"),
    ("classify", "[participants]", "[participants]\nscreening = ['vision', 'vision']", "different questions"),
    ("classify", "[participants]", "[participants]\nscreening = ['height']", "screening_height must be a sentence"),
    (
        "classify",
        "[participants]",
        "[participants]\nplatform = 'mturk'\ncompletion_url = 'javascript:1'",
        "begin with https",
    ),
    ("classify", "[participants]", "[participants]\ncalibration = true", "calibration is for timed"),
    ("classify", "[participants]", "[participants]\nconsent = 1", "[participants]: consent must be true or false"),
    ("classify", "[participants]", "[participants]\ndemographics = 'age'", "must be a list of texts"),
    ("classify", "[participants]", "[participants]\ndemographics = ['age', 'age']", "different questions"),
    (
        "classify",
        "[participants]",
        "[participants]\ndemographics = ['shoe']",
        "demographics_shoe must be a sentence",
    ),
    ("classify", "[participants]", "[show]\ngrup = 'x'\n[participants]", "names columns of the set, got 'grup'"),
    ("classify", "[participants]", "[show]\nsplit = 'tset'\n[participants]", "has split 'tset'; there are test"),
    ("classify", "[participants]", "[show]\nsplit = []\n[participants]", "split must have a value"),
    ("classify", "[participants]", "[sets]\ndistractors = 'no'\n[participants]", "does not exist; build it"),
    (
        "classify",
        "[participants]",
        "[[examples]]\nimage='e.png'\nanswer='bear'\n[participants]",
        "example e.png does not",
    ),
    ("classify", "[participants]", "[[examples]]\nanswer='bear'\n[participants]", "[[examples]]: image is missing"),
    ("classify", "[participants]", "[timing]\nexposure = 1\n[participants]", "timing is for timed"),
    ("classify", "[design]", "[designs]", "did you mean design"),
    ("classify", "[design]", "[[design]]", "[design]: must be a table"),
    ("classify", "[design]", "design]", "is not a valid TOML file"),
    ("classify", "answers = 3", "answers = 1000000000000", "answers must be at most 1000000, got 1000000000000"),
    ("classify", "answers = 3", f"answers = 1{'0' * 400}", "answers must be at most 1000000, got 10000000000000"),
    ("classify", "answers = 3", f"width = 1{'0' * 400}\nshare = 0.5", "width must lie between 0.001 and 1, got 1000"),
    ("classify", "[participants]", "[participants]\nparticipants = 2000000", "participants must be at most 1000000"),
    ("classify", "seed = 5", "seed = 9223372036854775808", "seed must be at most 9223372036854775807"),
    ("2afc", "seed = 5", "seed = 5\nlabels = 'digits'", "labels is for classify, timed"),
    ("2afc", "images = 3", "images = 4", "images must be at most 3, the number of tasks"),
    ("2afc", "checks = 1", "checks = 4", "checks must be at most 3"),
    ("2afc", "checks = 1", "distractors = 1", "distractors is for classify, timed"),
    ("timed", "blocks = 2", "blocks = 3\nconditions = 2", "blocks must be a multiple of conditions (2), got 3"),
    ("timed", "blocks = 2", "blocks = 3\nconditions = 3", "conditions must be at most 2"),
    (
        "timed",
        "blocks = 2",
        "conditions = 2\nblocks = 2\noverlap = 3",
        "overlap must be a multiple of conditions (2)",
    ),
    ("timed", "blocks = 2", "overlap = 4", "overlap must be less than images (4), got 4"),
    ("timed", "blocks = 2", "overlap = 1\nforms = true", "forms cannot be combined with overlap or conditions"),
    ("timed", "images = 2", "images = 5", "images in [[warmup]] must be at most 4"),
    ("timed", "images = 2", "images = 0", "[[warmup]]: images must be 1 or more"),
    ("timed", "[[warmup]]", "[warmup]", "[[warmup]]: must be an array of tables"),
    (
        "timed",
        "[[warmup]]",
        "[timing]\nexposure = 0\n[[warmup]]",
        "exposure must be above 0 and at most 3600, got 0",
    ),
    ("timed", "[[warmup]]", "[timing]\nresponse = inf\n[[warmup]]", "[timing]: response must be above 0"),
    ("timed", "[[warmup]]", f"[timing]\ndistance = 1{'0' * 400}\n[[warmup]]", "distance must be above 0 and at most"),
    ("timed", "[[warmup]]", "[timing]\nprompt = 3\n[[warmup]]", "prompt must be 0 to response (2 s)"),
    ("timed", "[[warmup]]", "[timing]\nbackground = 116\n[[warmup]]", "[timing]: background must be 0 to 1, got 116"),
    ("curate", "reasons = [", "reason = [", "did you mean reasons"),
    ("curate", "'wrong class', 'bad quality'", "'x', 'x'", "different reasons"),
    ("curate", "'wrong class', 'bad quality'", "", "got none"),
    ("curate", "'wrong class'", "'keep'", "none of them keep"),
]


@pytest.mark.parametrize(("kind", "old", "new", "words"), BAD_STUDIES, ids=[case[2][:40] for case in BAD_STUDIES])
def test_every_mistake_is_one_clear_line(home, kind, old, new, words):
    assert words in refused(changed(make_study(home, kind), old, new))


def test_missing_images_and_files_are_named(home):
    folder = make_study(home, "classify")
    gone = sorted((home / "set" / "images").iterdir())[3]
    gone.unlink()
    assert re.search(f"1 images do not exist, the first is .*/{gone.name};", refused(folder))
    (folder / "study.toml").unlink()
    assert "`cosight study new` writes one" in refused(folder)


def test_tasks_of_the_other_type_are_not_enough(home):
    folder = make_study(home, "cluster")
    only = [task for task in read_tasks(home / "set") if task.kind == "2afc"]
    write_tasks(home / "set", only)
    assert "has no cluster tasks; make them with `cosight stimuli tasks" in refused(folder)


def test_sets_of_forced_choices_need_tasks(home):
    folder = make_study(home, "cluster")
    (home / "set" / "tasks.parquet").unlink()
    assert "has no tasks.parquet; make it with `cosight stimuli tasks" in refused(folder)


def test_examples_are_checked_against_the_labels(home):
    example = "[[examples]]\nimage = 'e.png'\nanswer = 'bears'\n[participants]"
    folder = changed(make_study(home, "classify"), "[participants]", example)
    shutil.copy(next((home / "set" / "images").iterdir()), folder / "e.png")
    assert "got 'bears'" in refused(folder)
    study = read_study(changed(folder, "bears", "bear"))
    assert study.examples[0].answer == "bear"


BAD_TEXTS = [
    ('next = "Next"', "", "next must be a sentence, got None"),
    ('next = "Next"', 'next = " "', "next must be a sentence, got ' '"),
    ('next = "Next"', "next = 3", "next must be a sentence, got 3"),
    ('next = "Next"', 'next = "Next"\nnxt = "x"', "did you mean next"),
    ('"{number} of {total}"', '"{number} von {all}"', "progress has the placeholders {number}, {total}, got {all}"),
    ('next = "Next"', 'next = "{x}"', "next has no placeholders, got {x}"),
    ('next = "Next"', 'next = "Next"\nlabel_tiger = 3', "label_tiger must be text"),
    ('next = "Next"', "next = Next", "is not a valid TOML file"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD_TEXTS)
def test_every_mistake_of_the_texts_is_one_clear_line(home, old, new, words):
    assert words in refused(changed(make_study(home, "classify"), old, new, "texts.toml"))


def test_texts_can_be_translated_and_labels_renamed(home):
    folder = changed(make_study(home, "classify"), 'next = "Next"', 'next = "Weiter"\nlabel_bear = "Bär"', "texts.toml")
    study = read_study(folder)
    assert study.texts["next"] == "Weiter"
    assert label_titles(study) == {
        "tiger": "tiger",
        "zebra": "zebra",
        "camel": "camel",
        "bear": "Bär",
        "abstain": "None of these, uncertain or unrecognisable",
    }


@pytest.mark.parametrize("kind", sorted(trial_types))
@pytest.mark.parametrize("abstain", [True, False])
def test_new_texts_hold_what_a_study_needs_and_no_more(kind, abstain):
    texts = tomllib.loads(new_texts(kind, abstain=abstain))
    assert texts.keys() == english_texts(kind).keys()
    others = [name for name in trial_types if name != kind]
    assert not [key for key in texts if key.endswith(tuple(others))]
    told = "last answer" in texts[f"instructions_{kind}"]
    assert told == (abstain and kind == "classify")


def test_the_digest_is_of_what_is_shown(home):
    study = read_study(make_study(home, "classify"))

    def digest(old, new, file="study.toml"):
        return read_study(changed(make_study(home, "classify"), old, new, file)).digest

    for same in [
        ("answers = 3", "answers = 9"),
        ("answers = 3", "width = 0.05\nshare = 0.5"),
        ("[participants]", "[participants]\nparticipants = 40"),
        ('next = "Next"', 'next = "On"', "texts.toml"),
    ]:
        assert digest(*same) == study.digest
    for other in [
        ("images = 4", "images = 5"),
        ("seed = 5", "seed = 6"),
        ("repeats = 1", "repeats = 2"),
        (LABELS, f"lion,{LABELS}"),
        ("[participants]", "[show]\ncondition = 'dark'\n[participants]"),
    ]:
        assert digest(*other) != study.digest


def test_without_a_manifest_the_digest_is_of_the_images_content(home):
    folder = changed(make_study(home, "curate"), "'../set'", "'../plain'")
    for name in ("a.png", "b.png", "c.png", "d.png"):
        (home / "plain").mkdir(exist_ok=True)
        (home / "plain" / name).write_bytes(name.encode())
    before = read_study(folder).digest
    assert read_study(folder).digest == before
    (home / "plain" / "b.png").write_bytes(b"another picture of that name")
    assert read_study(folder).digest != before


def test_show_takes_a_value_or_several(home):
    for table, images in (("condition = 'dark'", 6), ("condition = ['dark', 'clear']", 12), ("level = 1", 12)):
        folder = make_study(home, "classify", images=images)
        read_study(changed(folder, "[participants]", f"[show]\n{table}\n[participants]"))
        folder = make_study(home, "classify", images=images + 1)
        assert f"at most {images}" in refused(changed(folder, "[participants]", f"[show]\n{table}\n[participants]"))


def test_values_are_checked_when_made_in_python_too():
    with pytest.raises(InvalidInput, match="repeats must be at most images"):
        Design(images=2, answers=1, repeats=3)
    with pytest.raises(InvalidInput, match="bonus_above"):
        Timing(bonus_above=90)
    with pytest.raises(InvalidInput, match="platform"):
        replace(Participants(), platform="")


def test_an_unknown_type_names_those_there_are(home):
    with pytest.raises(UnknownName, match="there are classify, timed, 2afc, cluster, curate"):
        read_study(changed(make_study(home, "classify"), "type = 'classify'", "type = 'survey'"))


def test_a_byte_order_mark_is_no_part_of_a_file(home):
    """Some editors write one."""
    folder = make_study(home, "classify")
    for name in ("study.toml", "texts.toml"):
        (folder / name).write_text((folder / name).read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert read_study(folder).name == "small"
