"""New studies: `study.toml` and `texts.toml` with comments, from defaults or a published protocol."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.files import atomic_write
from cosight.humans.study.design import STUDY, Design, Study, Timing, read_study
from cosight.humans.study.pool import read_sources
from cosight.humans.study.texts import TEXTS, new_texts
from cosight.humans.study.trial_types import TrialType, trial_types
from cosight.registry import Registry
from cosight.stimuli.sets import read_set
from cosight.trials.manifest import DISTRACTORS, manifest_space
from cosight.trials.spaces import LabelSpace, guess_label_space, label_space, label_spaces

__all__ = ["Protocol", "new_study", "protocols"]


@dataclass(frozen=True, slots=True)
class Protocol:
    """The numbers of a published study. Without `images` everybody sees all. `notes` are comments of study.toml."""

    name: str
    type: str
    summary: str
    citation: str
    images: int | None
    design: Mapping[str, int | float | bool]
    show: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # for sets that have such columns
    warmup: tuple[int, ...] = ()  # images of each block; the user names their sets
    participants: int = 0
    notes: tuple[str, ...] = ()


protocols: Registry[Protocol] = Registry("protocol", listed=False)

# LAION-C's conditions. A set may also have the undistorted photos, which are not among the test images.
_LAION_C = ("mosaic", "glitched", "vertical_lines", "geometric_shapes", "stickers", "luminance_checkerboard")

protocols.add(
    "visalign",
    Protocol(
        name="visalign",
        type="classify",
        summary="the crowd survey behind VisAlign's Uncertain images",
        citation="Lee et al. 2023, 3.3 and F",
        images=23,
        design={"answers": 134, "distractors": 10, "repeats": 2},
        show={"split": ("test",), "group": ("uncertain",)},
        notes=(
            "35 showings per person, 10 of them distractors. The paper repeats two images and does not say whether",
            "the second showings are among the 35: here they are, 23 images + 2 second showings + 10 distractors.",
            "134 are valid answers: participants who fail a clear distractor are excluded, so collect some more.",
        ),
    ),
)
protocols.add(
    "laion-c",
    Protocol(
        name="laion-c",
        type="timed",
        summary="the laboratory experiment behind LAION-C's human curves",
        citation="Li et al. 2025, 2.3 and A.2",
        images=600,
        design={"answers": 1, "blocks": 10, "conditions": 2, "idle": 60},
        show={"condition": _LAION_C},
        warmup=(45, 45),
        participants=19,
        notes=(
            "Two conditions per person, five blocks of 60 each. No two people see the same image, so no ceiling can be",
            "computed; --overlap 60, for example, shows some images to everybody who has their distortion.",
            "Warm-up: one block of clean images, one with distortions that are not among those of the study.",
            "`idle` is an hour, so that nobody loses their images in a break between blocks.",
        ),
    ),
)
protocols.add(
    "2afc",
    Protocol(
        name="2afc",
        type="2afc",
        summary="is an inverted representation closer to its target than to its seed",
        citation="Nanda et al. 2021, 2.2, 2.4 and A.1",
        images=None,
        design={"answers": 3, "checks": 5},
        notes=(
            "Three people answer every query. The paper does not give the number of attention checks; we use five.",
        ),
    ),
)
protocols.add(
    "clustering",
    Protocol(
        name="clustering",
        type="cluster",
        summary="match inverted representations with their targets, three at a time",
        citation="Nanda et al. 2021, 2.2, 2.4 and A.1",
        images=None,
        design={"answers": 3, "checks": 3},
        notes=(
            "Three people answer every panel. The paper does not give the number of attention checks; we use three.",
        ),
    ),
)

_TEST_SPLIT = {"split": ("test",)}  # training images are not for comparisons with people
# The defaults of a new study: a start to be changed, not a recommendation. Forced choices and curation: three people,
# as in Nanda et al. 2021; an odd number has a majority.
_DEFAULTS: Mapping[str, Protocol] = {
    "classify": Protocol("", "classify", "", "", 25, {"answers": 20, "repeats": 2}, _TEST_SPLIT),
    "timed": Protocol("", "timed", "", "", 60, {"answers": 5}, _TEST_SPLIT),
    "2afc": Protocol("", "2afc", "", "", 100, {"answers": 3, "checks": 2}),
    "cluster": Protocol("", "cluster", "", "", 30, {"answers": 3, "checks": 1}),
    "curate": Protocol("", "curate", "", "", 100, {"answers": 3}),
}
_REASONS = ("wrong class", "several objects", "text or logo", "bad quality", "offensive")
_COMMENTS = {
    "images": "different images per participant; the following are added to them",
    "answers": "per image; the study is complete when every image has them. Instead, these two lines:",
    "pool": "images of the set that the study uses, evenly over the classes, drawn with the seed; 0: all",
    "distractors": "images of none of the classes; participants who name a class for a clear one are excluded",
    "gold": "unaltered images, which everybody should see right",
    "repeats": "number of the images that are shown a second time",
    "checks": "attention checks, whose query equals an option",
    "blocks": "with a break between them",
    "forms": "true: fixed forms, everybody with a form answers all of it (Cronbach's alpha)",
    "overlap": "number of the images that everybody sees (for a ceiling)",
    "conditions": "conditions per participant, 0: all, mixed",
    "idle": "minutes after which the unanswered images of somebody who left go to others",
    "fixation": "seconds, like the next three",
    "prompt": "before the end of `response`",
    "background": "grey, 0 black to 1 white",
    "degrees": "of visual angle, the image's side",
    "distance": "cm from the screen",
    "bonus": "for a block whose accuracy is above `bonus_above`",
}


def new_study(
    folder: str | Path,
    *,
    type: str | None = None,  # noqa: A002
    stimuli: str | Path,
    labels: str | None = None,
    protocol: str | None = None,
    images: int | None = None,
    answers: int | None = None,
    pool: int = 0,
    overlap: int = 0,
    warmup: Sequence[str | Path] = (),
    announce: Callable[[str], None] = lambda line: None,
) -> Study:
    """Write the files of a new study and read them back.

    Args:
        folder: The study's folder.
        type: The trial type; None: that of the protocol.
        stimuli: The stimulus set.
        labels: A label space or comma-separated classes; None: the space that the set names, else the set's classes.
        protocol: A published study whose numbers to use; None: defaults that fit the set.
        images: Different images per participant; None: the number of the protocol, or a default that fits the set.
        answers: Answers per image; None: the number of the protocol, or a default.
        pool: Number of images of the set that the study uses, evenly over the classes and drawn at random; 0: all.
        overlap: Number of each participant's images that everybody sees, for a ceiling (timed studies).
        warmup: Sets whose images are shown in blocks before the others, one block per set (timed studies). Their sizes
            are the protocol's, or 20.
        announce: Called with a line about the buttons, where they were chosen here, and one about the numbers.

    Returns:
        The study. If it is not valid, the files are removed again.

    Raises:
        InvalidInput: The folder has a study, the protocol is for another type, or the set does not fit.
    """
    folder, stimuli = Path(folder), Path(stimuli)
    if type is None:
        if not protocol:
            raise InvalidInput(f"a study needs a trial type; give --type ({', '.join(trial_types)}) or --protocol")
        type = protocols[protocol].type  # noqa: A001
    kind, numbers = trial_types[type], protocols[protocol] if protocol else _DEFAULTS[type]
    if numbers.type != type:
        raise InvalidInput(f"protocol {numbers.name} is for type {numbers.type}, got {type}; use --type {numbers.type}")
    if any((folder / name).exists() for name in (STUDY, TEXTS)):
        raise InvalidInput(f"{folder} has a study already; edit its {STUDY}, or choose another folder")
    if pool < 0:
        raise InvalidInput(f"pool must be 0 or more, got {pool}")
    for option, number in (("images", images), ("answers", answers)):
        if number is not None and number < 1:
            raise InvalidInput(f"{option} must be 1 or more, got {number}")
    for option, value in (("overlap", overlap), ("warmup", warmup)):
        if value and option not in kind.options:
            raise InvalidInput(f"{option} is for timed studies, got it with type {type}; leave it out")
    own_numbers = {} if answers is None else {"answers": answers}
    own_numbers |= {"overlap": overlap} if overlap else {}
    numbers = replace(numbers, design={**numbers.design, "pool": pool, **own_numbers})
    chosen = _Labels(labels) if labels or "labels" not in kind.options else _choose_labels(kind, stimuli)
    space = None if chosen.text is None else label_space(chosen.text)
    contents = {
        STUDY: _study_toml(folder, kind, stimuli, chosen.text, numbers, space, images, [Path(one) for one in warmup]),
        TEXTS: new_texts(type, abstain=space is not None and space.abstain, titles=chosen.titles),
    }
    is_new_folder = not folder.exists()
    for name, text in contents.items():
        with atomic_write(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
    try:
        study = read_study(folder)
    except CosightError:
        for name in contents:
            (folder / name).unlink()
        if is_new_folder:
            folder.rmdir()
        raise
    if chosen.reason:
        announce(chosen.reason)
    announce(_numbers_in_words(study))
    return study


@dataclass(frozen=True, slots=True)
class _Labels:
    """The labels of a study, the titles of their buttons where the names say little, and why they were chosen."""

    text: str | None
    titles: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


def _choose_labels(kind: TrialType, stimuli: Path) -> _Labels:
    """Return the label space that the set names or whose classes it has all; else the set's own classes."""
    stimulus_set = read_set(stimuli)
    if named := manifest_space(stimulus_set.facts):
        text = named.name if named in label_spaces.values() else ",".join(named.answers)
        return _Labels(text, reason=f"buttons: {named.in_words} (the set names {named.name})")
    truths = frozenset(stimulus_set.frame["truth"].drop_nulls())
    space = guess_label_space(truths)
    if space is not None and truths >= set(space.classes):
        return _Labels(space.name, reason=f"buttons: {space.in_words} ({space.name}, guessed from the set's classes)")
    classes = sorted(truths) if space is None else [name for name in space.answers if name in truths]
    if len(classes) < 2 or any("," in name for name in classes):
        got = ", ".join(map(repr, classes)) or "none"
        raise InvalidInput(
            f"{kind.name} needs two classes or more, without commas, but {stimuli} has {got}; name them with --labels"
        )
    text = ",".join(classes)
    if space is None:
        return _Labels(text, reason=f"buttons: {label_space(text).in_words} (the set's classes)")
    reason = (
        f"buttons: {label_space(text).in_words} (the set's classes, {len(classes)} of {space.name}; --labels "
        f"{space.name} shows all. Evaluate models with --labels {text} to compare them)"
    )
    return _Labels(text, {name: space.title(name) for name in classes if space.title(name) != name}, reason)


def _numbers_in_words(study: Study) -> str:
    """Return how many participants the design needs at least.

    The last of them may see fewer images than the others.
    """
    sources = read_sources(study)
    available = len(sources.tasks or sources.test)
    people = max(study.answers, -(-available * study.answers // study.design.images))
    same = f"; --pool {study.design.images} shows everybody the same images" if study.design.images < available else ""
    return (
        f"design: {study.design.images} of {available} images per participant, {study.answers} answers per image; "
        f"complete after {people} participants or more{same}"
    )


def _study_toml(
    folder: Path,
    kind: TrialType,
    stimuli: Path,
    labels: str | None,
    numbers: Protocol,
    space: LabelSpace | None,
    images: int | None,
    warmup: Sequence[Path],
) -> str:
    frame = read_set(stimuli).frame
    present = {column: set(frame[column]) for column in numbers.show}
    show = {column: tuple(v for v in values if v in present[column]) for column, values in numbers.show.items()}
    show = {column: values for column, values in show.items() if values}
    design = _choose_design(folder, kind, stimuli, numbers, space, show, images)
    heading = ["A study. Everything may change until it is served; after that only the stop rule and the texts."]
    if numbers.name:
        heading = [f"A study after {numbers.citation}: {numbers.summary}.", *numbers.notes]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")[:64] or "study"
    head: dict[str, Any] = {"name": name, "type": kind.name, "set": _relative(stimuli, folder)}
    head |= {"seed": 0} if labels is None else {"labels": labels, "seed": 0}
    parts = [
        [f"# {line}" for line in heading],
        [_line(name, value) for name, value in head.items()],
        _show_lines(show),
        ["[design]", *_design_lines(kind, design)],
    ]
    if "timing" in kind.options:
        times = [_line(part.name, part.default, _COMMENTS.get(part.name, "")) for part in fields(Timing)]
        parts += [_warmup_lines(numbers, [_relative(one, folder) for one in warmup]), ["[timing]", *times]]
    parts += [_example_lines(space), _participant_lines(kind, numbers)]
    if "curate" in kind.options:
        parts.append(["[curate]", _line("reasons", list(_REASONS))])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _choose_design(
    folder: Path,
    kind: TrialType,
    stimuli: Path,
    numbers: Protocol,
    space: LabelSpace | None,
    show: Mapping[str, tuple[str, ...]],
    images: int | None,
) -> dict[str, Any]:
    """Return the numbers of [design]. Defaults are lowered to what the set has; a protocol's and `images` are not."""
    has_distractors = "distractors" in kind.options and (stimuli / DISTRACTORS).is_dir()
    smallest = Design(images=1, answers=1, pool=int(numbers.design["pool"]), distractors=int(has_distractors))
    sources = read_sources(Study(folder, "new", kind.name, stimuli, smallest, space, show=show))
    available, distractors = len(sources.tasks or sources.test), len(sources.distractor)
    if images is not None and images > available:
        raise InvalidInput(f"images must be at most {available}, the number that {stimuli} has to show, got {images}")
    numbers = numbers if images is None else replace(numbers, images=images)
    if numbers.name:
        for what, has, needs in (
            ("images", available, numbers.images or 0),
            ("distractors", distractors, numbers.design.get("distractors", 0)),
            ("attention checks, each made of another task", available, numbers.design.get("checks", 0)),
        ):
            if needs > has:
                raise InvalidInput(
                    f"protocol {numbers.name} shows everybody {needs} {what}, but {stimuli} has {has}; build a larger "
                    "set, or leave --protocol out and change the design"
                )
        return {"images": available if numbers.images is None else numbers.images, **numbers.design}
    shown = available if numbers.images is None else min(numbers.images, available)
    design: dict[str, Any] = {"images": shown, **numbers.design}
    if kind.name == "classify" and space is not None and space.abstain:
        design["distractors"] = min(10, distractors)  # as many as in Lee et al. 2023, if the set has them
    return design | {name: min(design[name], shown) for name in ("repeats", "checks") if name in design}


def _show_lines(show: Mapping[str, tuple[str, ...]]) -> list[str]:
    comment = "# which stimuli of the set are test images: values of manifest columns; without this table all"
    if not show:
        return ["# [show]", comment, '# split = "test"']
    values = {column: list(values) if len(values) > 1 else values[0] for column, values in show.items()}
    return ["[show]", comment, *(_line(column, value) for column, value in values.items())]


def _design_lines(kind: TrialType, design: Mapping[str, Any]) -> list[str]:
    lines = []
    special = {option for other in trial_types.values() for option in other.options}
    for part in fields(Design):
        if part.name in ("width", "share"):
            continue
        if part.name not in special or part.name in kind.options:
            lines.append(_line(part.name, design.get(part.name, part.default), _COMMENTS.get(part.name, "")))
        if part.name == "answers":
            lines += [
                "# width = 0.05   # half the width of a proportion's interval",
                "# share = 0.09  # the proportion",
            ]
    return lines


def _warmup_lines(numbers: Protocol, sets: Sequence[str]) -> list[str]:
    """Return the warm-up blocks; as comments where no sets are named."""
    lines = ["# Blocks before the others, with images of sets of their own:"]
    sizes = numbers.warmup or (20,)
    for index, name in enumerate(sets or ["../clean", "../corrupted"][: len(sizes)]):
        block = ["[[warmup]]", _line("set", name), _line("images", sizes[min(index, len(sizes) - 1)])]
        lines += block if sets else [f"# {line}" for line in block]
    return lines


def _relative(stimuli: Path, folder: Path) -> str:
    """Return the path of a set as study.toml has it."""
    return Path(os.path.relpath(stimuli.resolve(), folder.resolve())).as_posix()


def _participant_lines(kind: TrialType, numbers: Protocol) -> list[str]:
    calibration = _line("calibration", True, "match a card on the screen, for the size of the image")
    return [
        "[participants]",
        _line("consent", True),
        _line("screening", [], 'for example ["vision", "colour"]; who answers no does not take part'),
        _line("demographics", [], 'for example ["age", "gender"]; participants may skip each'),
        *([calibration] if "calibration" in kind.options else []),
        _line("platform", "none", "none, prolific, mturk"),
        _line("completion_code", "", "of the platform; without one each participant gets their own"),
        _line("completion_url", "", "address that leads back to the platform"),
        _line("participants", numbers.participants, "at most; 0: until the study is complete"),
    ]


def _example_lines(space: LabelSpace | None) -> list[str]:
    answer = "..." if space is None else space.classes[0]
    lines = ["Examples in the instructions:", "[[examples]]", _line("image", "examples/one.png")]
    return [f"# {line}" for line in [*lines, _line("answer", answer)]]


def _line(name: str, value: Any, comment: str = "") -> str:
    """Return a line of TOML; JSON writes texts, numbers, booleans and lists of texts as TOML does.

    >>> _line("images", 25, "per participant")
    'images = 25             # per participant'
    """
    written = f"{name} = {json.dumps(value, ensure_ascii=False)}"
    return f"{written:<24}# {comment}" if comment else written
