"""The design of a study: `study.toml` and `texts.toml` of its folder, read and checked before anybody is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.humans.study.image_sources import check_sources, shown_digest, sources_of
from cosight.humans.study.parts import Design, Example, Participants, Timing, Warmup
from cosight.humans.study.texts import TEXTS, read_texts
from cosight.humans.study.trial_types import TrialType, trial_types
from cosight.toml_settings import check_keys, parse_table, parse_tables, read_toml
from cosight.trials.choices import KEEP, REJECT
from cosight.trials.spaces import LabelSpace, label_space

__all__ = ["STUDY", "Design", "Example", "Participants", "Study", "Timing", "Warmup", "read_study"]

STUDY = "study.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # part of addresses, keys and file names


@dataclass(frozen=True, slots=True)
class Study:
    """A study as its folder says. Paths are as seen from here; what is only for some types is empty for the others."""

    root: Path
    name: str
    type: str
    set: Path
    design: Design
    space: LabelSpace | None = None
    seed: int = 0
    distractors: Path | None = None
    show: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # manifest column -> values asked about
    warmup: tuple[Warmup, ...] = ()
    timing: Timing | None = None
    examples: tuple[Example, ...] = ()
    participants: Participants = field(default_factory=Participants)
    reasons: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""  # of all that decides what is shown; not of the texts, the stop rule or who takes part

    @property
    def answers(self) -> int:
        """Answers wanted an image."""
        return self.design.wanted

    @property
    def kind(self) -> TrialType:
        """Its trial type."""
        return trial_types[self.type]


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands before the first table."""

    name: str
    type: str
    set: str
    labels: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Sets:
    distractors: str | None = None


@dataclass(frozen=True, slots=True)
class _Curate:
    reasons: tuple[str, ...] = ()


_TABLES = ("show", "design", "warmup", "timing", "examples", "participants", "curate", "sets")


def read_study(folder: Path) -> Study:
    """Read the design in `folder` and check it against its sets; every mistake is one line."""
    file = Path(folder) / STUDY
    study = _parse_study(file, read_toml(file, hint="`cosight study new` writes one"))
    study = replace(study, texts=read_texts(study.root / TEXTS, study))
    try:
        sources = sources_of(study)
        check_sources(study, sources)
    except CosightError as error:
        raise type(error)(f"{file}: {error}") from error
    return replace(study, digest=shown_digest(study, sources))


def _parse_study(file: Path, content: Mapping[str, Any]) -> Study:
    root = file.parent
    check_keys(content, [*(f.name for f in fields(_Head)), *_TABLES], context=str(file))
    head = parse_table(_Head, {k: v for k, v in content.items() if k not in _TABLES}, context=str(file))
    design = parse_table(Design, content.get("design", {}), context=f"{file}: [design]")
    sets = parse_table(_Sets, content.get("sets", {}), context=f"{file}: [sets]")
    warmup = parse_tables(Warmup, content.get("warmup", []), context=f"{file}: [[warmup]]")
    timing = parse_table(Timing, content.get("timing", {}), context=f"{file}: [timing]")
    examples = parse_tables(Example, content.get("examples", []), context=f"{file}: [[examples]]")
    participants = parse_table(Participants, content.get("participants", {}), context=f"{file}: [participants]")
    curate = parse_table(_Curate, content.get("curate", {}), context=f"{file}: [curate]")
    try:
        kind = _checked_head(head)
        study = Study(
            root=root,
            name=head.name,
            type=head.type,
            set=root / head.set,
            design=design,
            space=_space(kind, head.labels),
            seed=head.seed,
            distractors=None if sets.distractors is None else root / sets.distractors,
            show=_show(content.get("show", {})),
            warmup=warmup,
            timing=timing if "timing" in kind.options else None,
            examples=examples,
            participants=participants,
            reasons=curate.reasons,
        )
        _check_options(kind, content)
        _check_study(study)
    except CosightError as error:
        raise type(error)(f"{file}: {error}") from error
    return study


def _checked_head(head: _Head) -> TrialType:
    if not _NAME.fullmatch(head.name):
        raise InvalidInput(f"name must be letters, digits, dots, dashes or underscores, at most 64, got {head.name!r}")
    if head.seed < 0:
        raise InvalidInput(f"seed must be 0 or more, got {head.seed}")
    return trial_types[head.type]


def _space(kind: TrialType, labels: str | None) -> LabelSpace | None:
    if "labels" not in kind.options:
        return None
    if labels is None:
        raise InvalidInput(f"{kind.name} asks for classes, got no labels; add labels = SPACE, or classes and commas")
    return label_space(labels)


def _show(table: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, Mapping):
        raise InvalidInput(f"[show] must be a table of columns and values, got {table!r}")
    chosen = {column: tuple(map(str, value if isinstance(value, list) else [value])) for column, value in table.items()}
    empty = [column for column, values in chosen.items() if not values]
    if empty:
        raise InvalidInput(f"{empty[0]} in [show] must name a value, got none; leave the line out to show all")
    return chosen


def _check_options(kind: TrialType, content: Mapping[str, Any]) -> None:
    """Settings that mean nothing to this type are mistakes, not decoration."""
    given = {**content, **content.get("design", {}), **content.get("participants", {})}
    for name, value in given.items():
        users = [other.name for other in trial_types.values() if name in other.options]
        if value and users and kind.name not in users:
            raise InvalidInput(f"{name} is for {', '.join(users)}, got it in a study of type {kind.name}; take it out")


def _check_study(study: Study) -> None:
    people = study.participants
    if 0 < people.participants < study.answers:
        raise InvalidInput(
            f"{study.answers} answers an image need as many participants, got participants = {people.participants}; "
            "raise it or ask for fewer answers"
        )
    if "curate" in study.kind.options:
        _check_reasons(study.reasons)
    if study.design.distractors and study.space is not None and not study.space.abstain:
        raise InvalidInput(
            f"distractors must be refused, but {study.space.name} has no abstain; add it or take them out"
        )
    _check_examples(study)


def _check_reasons(reasons: tuple[str, ...]) -> None:
    names = {KEEP, REJECT, "", *reasons}
    if not reasons or len(names) < len(reasons) + 3:
        raise InvalidInput(
            f"[curate] names different reasons to reject an image, none of them {KEEP} or {REJECT}, "
            f"got {', '.join(reasons) or 'none'}; see `cosight study new`"
        )


def _check_examples(study: Study) -> None:
    for example in study.examples:
        if not (study.root / example.image).is_file():
            raise InvalidInput(f"examples are images in the study's folder, {example.image} is not there")
        if study.space is not None and example.answer not in study.space.answers:
            raise InvalidInput(f"an example's answer must be one of {study.space.in_words}, got {example.answer!r}")
