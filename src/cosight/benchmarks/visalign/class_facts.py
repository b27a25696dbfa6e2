"""What a VisAlign set needs to know of its classes: the label space, near misses, other objects, words for prompts.

VisAlign's own classes are described in `classes/visalign-11.toml`. A TOML file of the same form describes any others;
what it leaves out, and classes without a file, take VisAlign's templates and backgrounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.toml_settings import parse_table, read_toml
from cosight.trials.spaces import LabelSpace, label_space

__all__ = ["ClassFacts", "check_other_folders", "facts_of_folders", "read_class_facts"]

DEFAULT = "visalign-11"
_TABLES = ("aliases", "members", "subspecies")


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """Facts about the classes of a VisAlign set.

    Attributes:
        space: The label space; `abstain` is one of its answers.
        near: Names of what is nearly one of the classes, for category 6.
        others: Names of objects outside the classes, for hybrids from prompts.
        subspecies: Words for each class in prompts.
        backgrounds: Where the classes are not seen, for prompts of category 2.
        background_template: Prompt with {animal} and {background}.
        hybrid_templates: Prompts with {animal} and {other}.
        negative_prompt: What a text-to-image model should avoid.
        source: Where the lists come from.
        note: What a reader should know about them.
    """

    space: LabelSpace
    near: tuple[str, ...]
    others: tuple[str, ...]
    subspecies: Mapping[str, tuple[str, ...]]
    backgrounds: tuple[str, ...]
    background_template: str
    hybrid_templates: tuple[str, ...]
    negative_prompt: str
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class _File:
    """The keys of a file besides its tables [aliases], [members] and [subspecies]."""

    labels: str = ""
    name: str = ""
    classes: tuple[str, ...] = ()
    members_of: str = ""
    near: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    backgrounds: tuple[str, ...] = ()
    background_template: str = ""
    hybrid_templates: tuple[str, ...] = ()
    negative_prompt: str = ""
    source: str = ""
    note: str = ""


def read_class_facts(labels: str = DEFAULT) -> ClassFacts:
    """Read what is known about classes.

    Args:
        labels: A registered label space, comma-separated class names, or a TOML file (`*.toml`).

    Returns:
        The facts. Refusing is always an answer.

    Raises:
        InvalidInput: The file is not valid.
        UnknownName: No label space has this name.

    >>> read_class_facts("cat,dog").space.answers
    ('cat', 'dog', 'abstain')
    >>> read_class_facts().subspecies["camel"]
    ('Bactrian camel', 'Arabian camel', 'Wild bactrian camel')
    """
    if labels == DEFAULT:
        return _visalign_facts()
    if labels.endswith(".toml"):
        return _read_file(Path(labels).expanduser(), _visalign_facts())
    return _merge(label_space(labels), _File(), {}, _visalign_facts())


def facts_of_folders(folders: Iterable[str]) -> ClassFacts:
    """Return the facts about photos in these class folders: VisAlign's, or of the folder names as classes."""
    names, visalign = sorted(set(folders)), _visalign_facts()
    if set(names) <= set(visalign.space.words()):
        return visalign
    return _merge(LabelSpace("the class folders", tuple(names), abstain=True), _File(), {}, visalign)


def check_other_folders(facts: ClassFacts, folders: Mapping[str, Iterable[str]]) -> None:
    """Refuse other objects and near misses that are one of the classes, and near misses among other objects.

    Args:
        facts: The classes.
        folders: Names of the folders by what they are used for: `others`, `near`.

    Raises:
        InvalidInput: A folder is called like a class, or one of `others` like a near miss.
    """

    def simple(name: str) -> str:
        return name.lower().replace("_", " ")

    classes = {simple(word) for word in facts.space.words()}
    near = {simple(name) for name in facts.near}
    for use, names in folders.items():
        if own := sorted(name for name in names if simple(name) in classes):
            raise InvalidInput(f"--{use} must show none of the classes, got {', '.join(own)}; move these folders away")
        if use == "others" and (close := sorted(name for name in names if simple(name) in near)):
            raise InvalidInput(
                f"--others must not show near misses of the classes, got {', '.join(close)}; move them to --near"
            )


@cache
def _visalign_facts() -> ClassFacts:
    with as_file(files(__package__).joinpath("classes", f"{DEFAULT}.toml")) as path:
        return _read_file(path, None)


def _read_file(path: Path, defaults: ClassFacts | None) -> ClassFacts:
    content = read_toml(path, hint="name a label space, comma-separated classes or a TOML file")
    tables: dict[str, dict[str, Any]] = {name: content.pop(name, {}) for name in _TABLES}
    facts = parse_table(_File, content, context=str(path))
    try:
        _check_tables(tables)
        if bool(facts.labels) == bool(facts.classes):
            raise InvalidInput("the file needs either labels, a label space, or classes, got both or neither")
        space = label_space(facts.labels) if facts.labels else _label_space(facts, tables, path.stem)
        if unknown := set(tables["subspecies"]) - set(space.classes):
            raise InvalidInput(f"[subspecies] has lines for classes, got {min(unknown)}")
        for template in (facts.background_template, *facts.hybrid_templates):
            _check_template(template, "background" if template == facts.background_template else "other")
    except CosightError as error:
        raise type(error)(f"{path}: {error}") from error
    return _merge(space, facts, tables["subspecies"], defaults)


def _check_tables(tables: Mapping[str, Any]) -> None:
    def is_words(value: Any) -> bool:
        return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)

    for name, table in tables.items():
        is_valid = (lambda value: isinstance(value, str)) if name == "aliases" else is_words
        if not isinstance(table, dict) or not all(map(is_valid, table.values())):
            form = 'WORD = "CLASS"' if name == "aliases" else 'CLASS = ["NAME", ...]'
            raise InvalidInput(f"[{name}] has lines {form}, got {str(table)[:80]}")


def _label_space(facts: _File, tables: Mapping[str, Mapping[str, Any]], stem: str) -> LabelSpace:
    """Return the label space that a file describes. Members may be named by their titles."""
    members, finer = tables["members"], facts.members_of
    if members and (set(members) != set(facts.classes) or not finer):
        raise InvalidInput(
            f"[members] has a line for every class, and members_of names their label space, got {', '.join(members)} "
            f"of {finer or 'none'}"
        )
    return LabelSpace(
        facts.name or stem,
        facts.classes,
        abstain=True,
        source=facts.source,
        aliases=tuple(tables["aliases"].items()),
        members=tuple(tuple(label_space(finer).recognise(members[name]).values()) for name in facts.classes if members),
        members_of=finer,
    )


def _check_template(template: str, word: str) -> None:
    try:
        template.format(**{"animal": "", word: ""})
    except (LookupError, ValueError) as error:
        raise InvalidInput(f"a template has the words {{animal}} and {{{word}}}, got {template!r}") from error


def _merge(
    space: LabelSpace, facts: _File, subspecies: Mapping[str, list[str]], defaults: ClassFacts | None
) -> ClassFacts:
    """Return the facts of a file; templates and backgrounds that it lacks are the defaults, words the class titles."""
    if not space.abstain:
        space = replace(space, name=f"{space.name} with abstain", abstain=True)

    def choose(name: str) -> Any:
        return getattr(facts, name) or (defaults and getattr(defaults, name))

    return ClassFacts(
        space=space,
        near=facts.near,
        others=facts.others,
        subspecies={
            name: tuple(subspecies.get(name, (space.title(name).replace("_", " "),))) for name in space.classes
        },
        backgrounds=choose("backgrounds"),
        background_template=choose("background_template"),
        hybrid_templates=choose("hybrid_templates"),
        negative_prompt=choose("negative_prompt"),
        source=facts.source,
        note=facts.note,
    )
