"""A new study: `study.toml` and `texts.toml`, commented, with numbers to begin with or those of a protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.files import atomic_write
from cosight.humans.study.design import STUDY, Study, read_study
from cosight.humans.study.image_sources import sources_of
from cosight.humans.study.parts import Design, Timing
from cosight.humans.study.protocols import Protocol, protocols
from cosight.humans.study.texts import TEXTS, new_texts
from cosight.humans.study.trial_types import TrialType, trial_types
from cosight.stimuli.sets import read_set
from cosight.trials.manifest import DISTRACTORS
from cosight.trials.spaces import LabelSpace, guess_label_space, label_space

__all__ = ["new_study"]

_TESTED = {"split": "test"}  # what models learn from is not what people are compared on
# What a new study begins with: a start to be changed, not a recommendation. Forced choices and curation: three people,
# as Nanda et al. 2021 had; an odd number has a majority.
_STARTS: Mapping[str, Protocol] = {
    "classify": Protocol("", "classify", "", "", 25, {"answers": 20, "repeats": 2}, _TESTED),
    "timed": Protocol("", "timed", "", "", 60, {"answers": 5}, _TESTED),
    "2afc": Protocol("", "2afc", "", "", 100, {"answers": 3, "checks": 2}),
    "cluster": Protocol("", "cluster", "", "", 30, {"answers": 3, "checks": 1}),
    "curate": Protocol("", "curate", "", "", 100, {"answers": 3}),
}
_REASONS = ("wrong class", "several objects", "text or logo", "bad quality", "offensive")
_COMMENTS = {
    "images": "different images a participant; all that follows comes on top",
    "answers": "an image; the study is complete when every image has them. Or instead the two next lines:",
    "distractors": "images that are none of the classes; whoever names a class for a clear one is dropped",
    "gold": "unaltered images, which everybody should see right",
    "repeats": "of the images, this many are shown a second time",
    "checks": "attention checks, whose query equals an option",
    "blocks": "with a rest between them",
    "forms": "true: fixed forms, everybody on a form answers all of it (Cronbach's alpha)",
    "overlap": "of the images, this many are the same for everybody (a ceiling)",
    "conditions": "conditions a participant sees, 0: all, mixed",
    "idle": "minutes after which what somebody left unanswered goes to others",
    "fixation": "seconds, as the next three",
    "prompt": "before the end of `response`",
    "background": "grey, 0 black to 1 white",
    "degrees": "of visual angle, the image's side",
    "distance": "cm from the screen",
    "bonus": "for a block with a share right above `bonus_above`",
}


def new_study(
    folder: Path,
    *,
    type: str,  # noqa: A002
    stimuli: Path,
    labels: str | None = None,
    protocol: str | None = None,
) -> Study:
    """Write the files of a new study in `folder` and read them back; nothing is left behind where they do not hold."""
    kind, begin = trial_types[type], protocols[protocol] if protocol else _STARTS[type]
    if begin.type != type:
        raise InvalidInput(f"protocol {begin.name} is for type {begin.type}, got {type}; give --type {begin.type}")
    if any((folder / name).exists() for name in (STUDY, TEXTS)):
        raise InvalidInput(f"{folder} holds a study already; change its {STUDY}, or name another folder")
    given = _labels(kind, stimuli, labels)
    space = None if given is None else label_space(given)
    written = _study_text(folder, kind, stimuli, given, begin, space)
    return _written(folder, written, new_texts(type, abstain=space is not None and space.abstain))


def _written(folder: Path, study: str, texts: str) -> Study:
    made = not folder.exists()
    for name, text in ((STUDY, study), (TEXTS, texts)):
        with atomic_write(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
    try:
        return read_study(folder)
    except CosightError:
        for name in (STUDY, TEXTS):
            (folder / name).unlink()
        if made:
            folder.rmdir()
        raise


def _labels(kind: TrialType, stimuli: Path, labels: str | None) -> str | None:
    """The given labels, else those that the set's manifest or its true classes tell."""
    if "labels" not in kind.options or labels is not None:
        return labels
    found = read_set(stimuli)
    told = found.facts.get("settings", {}).get("labels")
    space = guess_label_space(frozenset(found.frame["truth"].drop_nulls()))
    if told is None and space is None:
        raise InvalidInput(
            f"{kind.name} asks for classes, {stimuli} tells none that are known; name them with --labels"
        )
    return str(told) if told is not None else space.name  # type: ignore[union-attr]


def _study_text(
    folder: Path, kind: TrialType, stimuli: Path, labels: str | None, begin: Protocol, space: LabelSpace | None
) -> str:
    show = _show(stimuli, begin)
    design = _design(folder, kind, stimuli, begin, space, show)
    parts = [
        [f"# {line}" for line in _heading(begin)],
        [_line(name, value) for name, value in _head(folder, kind, stimuli, labels).items()],
        _show_lines(show),
        ["[design]", *_design_lines(kind, design)],
        *_timed_lines(kind, begin),
        _example_lines(space),
        _participant_lines(kind, begin),
        ["[curate]", _line("reasons", list(_REASONS))] if "curate" in kind.options else [],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _heading(begin: Protocol) -> list[str]:
    if not begin.name:
        return ["A study. Change what you like before it is served; after that only the stop rule and the texts."]
    return [f"A study after {begin.citation}: {begin.summary}.", *begin.notes]


def _head(folder: Path, kind: TrialType, stimuli: Path, labels: str | None) -> dict[str, Any]:
    place = Path(os.path.relpath(stimuli.resolve(), folder.resolve())).as_posix()
    head: dict[str, Any] = {"name": folder.resolve().name, "type": kind.name, "set": place}
    return {**head, **({} if labels is None else {"labels": labels}), "seed": 0}


def _show(stimuli: Path, begin: Protocol) -> dict[str, str]:
    """What the protocol shows, as far as the set tells it apart."""
    frame = read_set(stimuli).frame
    return {column: value for column, value in begin.show.items() if (frame[column] == value).any()}


def _design(
    folder: Path, kind: TrialType, stimuli: Path, begin: Protocol, space: LabelSpace | None, show: Mapping[str, str]
) -> dict[str, Any]:
    """The design's numbers; without a protocol there are never more than the set has."""
    there, distractors = _available(folder, kind, stimuli, space, show)
    for what, has, needs in (
        ("images to ask about", there, begin.images or 0),
        ("distractors", distractors, begin.design.get("distractors", 0)),
        ("attention checks, each made of another task", there, begin.design.get("checks", 0)),
    ):
        if begin.name and needs > has:
            raise InvalidInput(
                f"protocol {begin.name} shows everybody {needs} {what}, {stimuli} has {has}; build a larger set, or "
                "leave --protocol out and change the design"
            )
    images = there if begin.images is None else begin.images if begin.name else min(begin.images, there)
    own: dict[str, Any] = {"images": images, **begin.design}
    if not begin.name and kind.name == "classify" and space is not None and space.abstain:
        own["distractors"] = min(10, distractors)  # as many as Lee et al. 2023 had, where there are some
    if not begin.name:
        own |= {name: min(own[name], images) for name in ("repeats", "checks") if name in own}
    return own


def _available(
    folder: Path, kind: TrialType, stimuli: Path, space: LabelSpace | None, show: Mapping[str, str]
) -> tuple[int, int]:
    """How many images or tasks there are to ask about, and how many distractors."""

    wanted = {column: (value,) for column, value in show.items()}
    asked = int("distractors" in kind.options and (stimuli / DISTRACTORS).is_dir())
    design = Design(images=1, answers=1, distractors=asked)
    found = sources_of(Study(folder, "new", kind.name, stimuli, design, space, show=wanted))
    return len(found.tasks or found.test), len(found.distractor)


def _show_lines(show: Mapping[str, str]) -> list[str]:
    comment = "# which stimuli of the set are asked about: values of the manifest's columns; without this table all"
    lines = [_line(column, value) for column, value in show.items()] or ['split = "test"']
    return ["[show]" if show else "# [show]", comment, *(lines if show else [f"# {line}" for line in lines])]


def _design_lines(kind: TrialType, given: Mapping[str, Any]) -> list[str]:
    lines = []
    special = {option for other in trial_types.values() for option in other.options}
    for part in fields(Design):
        if part.name in ("width", "share"):
            continue
        if part.name not in special or part.name in kind.options:
            lines.append(_line(part.name, given.get(part.name, part.default), _COMMENTS.get(part.name, "")))
        if part.name == "answers":
            lines += ["# width = 0.05   # half the width of the interval of a share", "# share = 0.09  # near this one"]
    return lines


def _timed_lines(kind: TrialType, begin: Protocol) -> list[list[str]]:
    if "timing" not in kind.options:
        return []
    blocks = begin.warmup or (20,)
    warmup = ["# Blocks before the others, with images of sets of their own:"]
    for images in blocks:
        warmup += ["# [[warmup]]", '# set = "../clean"', f"# images = {images}"]
    numbers = [_line(part.name, part.default, _COMMENTS.get(part.name, "")) for part in fields(Timing)]
    return [warmup, ["[timing]", *numbers]]


def _participant_lines(kind: TrialType, begin: Protocol) -> list[str]:
    timed = "calibration" in kind.options
    return [
        "[participants]",
        _line("consent", True),
        _line("demographics", [], 'such as ["age", "gender"]; each may be left out'),
        *([_line("calibration", True, "match a card on the screen, for the size of the image")] if timed else []),
        _line("platform", "none", "none, prolific, mturk"),
        _line("completion_code", "", "of the platform; without one each participant gets their own"),
        _line("completion_url", "", "where the platform takes them back"),
        _line("participants", begin.participants, "at most; 0: until the study is complete"),
    ]


def _example_lines(space: LabelSpace | None) -> list[str]:
    """Lines to fill in: images of examples are one's own."""
    answer = "..." if space is None else space.classes[0]
    lines = [
        "Shown with the instructions:",
        "[[examples]]",
        _line("image", "examples/one.png"),
        _line("answer", answer),
    ]
    return [f"# {line}" for line in lines]


def _line(name: str, value: Any, comment: str = "") -> str:
    """A line of TOML; JSON writes texts, numbers, truths and lists of texts as TOML does.

    >>> _line("images", 25, "a participant")
    'images = 25             # a participant'
    """
    written = f"{name} = {json.dumps(value, ensure_ascii=False)}"
    return f"{written:<24}# {comment}" if comment else written
