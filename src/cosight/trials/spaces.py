"""Label spaces: the ordered class names that answers are about, and what else their classes are called."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from cosight.errors import InvalidInput
from cosight.registry import Registry

__all__ = ["ABSTAIN", "LabelSpace", "guess_label_space", "label_space", "label_spaces"]

ABSTAIN = "abstain"  # the answer "none of these, uncertain or unrecognisable"
_FEW = 20  # as many answers are shown one by one
_LEAST_SHARE = 1 / 20  # of a space's classes must occur before it is guessed: man and woman alone are not CIFAR-100


@dataclass(frozen=True, slots=True)
class LabelSpace:
    """Ordered class names; `abstain` says whether refusing is one of the answers.

    Classes whose names say little (WordNet ids) have `titles` for people. `aliases` are pairs (other word, class).
    `members` are the classes of a finer space, `members_of`, that make up each class: what a mapping is built from.
    """

    name: str
    classes: tuple[str, ...]
    abstain: bool = False
    source: str = ""
    titles: tuple[str, ...] = field(default=(), repr=False)  # none, or one a class; two classes may share one
    aliases: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    members: tuple[tuple[str, ...], ...] = field(default=(), repr=False)  # none, or one group a class
    members_of: str = ""

    def __post_init__(self) -> None:
        for name in ("classes", "titles", "aliases", "members"):  # lists, where they come from a file
            object.__setattr__(self, name, _tuples(getattr(self, name)))
        twice = len(set(self.classes)) < len(self.classes)
        if twice or ABSTAIN in self.classes or not self.classes:
            raise InvalidInput(
                f"a label space has distinct class names besides {ABSTAIN!r}, got {', '.join(self.classes) or 'none'}"
            )
        _check_titles(self)
        _check_aliases(self)
        _check_members(self)

    @property
    def answers(self) -> tuple[str, ...]:
        """The classes, then `abstain` where the space has it: the codes of answers."""
        return (*self.classes, ABSTAIN) if self.abstain else self.classes

    def one_hot(self, answer: str) -> list[float]:
        """Return the label distribution of an image that everybody answers alike.

        >>> LabelSpace("ab", ("a", "b"), abstain=True).one_hot("b")
        [0.0, 1.0, 0.0]
        """
        if answer not in self.answers:
            raise InvalidInput(f"an answer must be one of {self.in_words}, got {answer!r}")
        return [float(name == answer) for name in self.answers]

    @property
    def in_words(self) -> str:
        """The answers in one line: all of them where they are few, else the first and how many there are.

        >>> label_space("imagenet-1k").in_words
        'n01440764 (tench), n01443537 (goldfish), n01484850 (great white shark), ... 1,000 classes'
        """
        if len(self.answers) <= _FEW:
            return " ".join(self.answers)
        first = [f"{c} ({self.title(c)})" if self.titles else c for c in self.classes[:3]]
        refusing = " and abstain" if self.abstain else ""
        return f"{', '.join(first)}, ... {len(self.classes):,} classes{refusing}"

    def title(self, name: str) -> str:
        """What people call the class `name`: its title, or the name itself where there is none.

        >>> label_space("imagenet-1k").title("n01440764")
        'tench'
        """
        return self.titles[self.classes.index(name)] if self.titles and name in self.classes else name

    def recognise(self, names: Iterable[str]) -> dict[str, str]:
        """The class that each of `names` (of folders, say) stands for.

        Either all are classes, their titles (blanks or underscores) or aliases, or all are numbers of classes from 0.
        A title that two classes share stands for neither.

        >>> label_space("imagenet-1k").recognise(["n01443537", "tench"])
        {'n01443537': 'n01443537', 'tench': 'n01440764'}
        >>> label_space("imagenet-1k").recognise(["0", "999"])
        {'0': 'n01440764', '999': 'n15075141'}
        """
        asked = list(dict.fromkeys(names))
        words, numbers = self.words(), self._by_number(asked)
        for known in (words, numbers):
            if all(name in known for name in asked):
                return {name: known[name] for name in asked}
        strange = next(name for name in asked if name not in (numbers if asked[0] in numbers else words))
        raise InvalidInput(
            f"names must be classes of {self.name} ({self.in_words}), their titles, "
            f"or all of them numbers 0 to {len(self.classes) - 1}; got {strange!r}: rename it or name another space"
        )

    def words(self) -> dict[str, str]:
        """Every word that stands for one class, and that class: titles, aliases, and the answers themselves.

        >>> label_space("laion-c-16").words()["vehicle"]
        'car_truck'
        """
        titles = dict(zip(self.titles, self.classes, strict=True)) if self.titles else {}
        shared = Counter(self.titles)
        sure = {title: name for title, name in titles.items() if shared[title] == 1}
        spelt = {title.replace(" ", "_"): name for title, name in sure.items()}
        return {**spelt, **sure, **dict(self.aliases), **{name: name for name in self.answers}}

    def _by_number(self, names: list[str]) -> dict[str, str]:
        whole = [name for name in names if name.isascii() and name.isdigit()]
        return {name: self.classes[int(name)] for name in whole if int(name) < len(self.classes)}


def _tuples(values: Any) -> Any:
    return tuple(_tuples(value) for value in values) if isinstance(values, list | tuple) else values


def _check_titles(space: LabelSpace) -> None:
    if space.titles and len(space.titles) != len(space.classes):
        raise InvalidInput(
            f"{space.name} must have a title for each of its {len(space.classes)} classes or none, "
            f"got {len(space.titles)}"
        )


def _check_aliases(space: LabelSpace) -> None:
    counts = Counter(word for word, _ in space.aliases)
    for word, name in space.aliases:
        if name not in space.classes or word in space.answers or counts[word] > 1:
            raise InvalidInput(
                f"an alias of {space.name} must be one other word for one of its classes, got {word!r} for {name!r}"
            )


def _check_members(space: LabelSpace) -> None:
    if not space.members:
        return
    if len(space.members) != len(space.classes) or not all(space.members) or not space.members_of:
        raise InvalidInput(
            f"{space.name} must have members of one named space (members_of) for each of its {len(space.classes)} "
            f"classes or none at all, got {sum(map(bool, space.members))} groups of {space.members_of or 'no space'}"
        )
    member, times = Counter(m for group in space.members for m in group).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"a member must belong to one class of {space.name} only, got {member!r} {times} times")


def _read_facts(name: str, facts: dict[str, Any]) -> LabelSpace:
    members = facts.get("members", {})
    if members and list(members) != facts["classes"]:
        raise InvalidInput(f"members of {name} must be listed by class, in the order of classes")
    more = {"aliases": list(facts.get("aliases", {}).items()), "members": list(members.values())}
    return LabelSpace(**{**facts, **more, "name": name})


label_spaces: Registry[LabelSpace] = Registry("label-space")

for _file in sorted(files(__package__).joinpath("label_spaces").iterdir(), key=lambda f: f.name):
    _name = _file.name.removesuffix(".json")
    label_spaces.add(_name, _read_facts(_name, json.loads(_file.read_text(encoding="utf-8"))))


def label_space(text: str) -> LabelSpace:
    """A space by its name, or made of comma-separated class names (`abstain` among them makes it an answer).

    >>> label_space("cat,dog,abstain").answers
    ('cat', 'dog', 'abstain')
    """
    if "," not in text:
        return label_spaces[text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    return LabelSpace("given", tuple(n for n in names if n != ABSTAIN), ABSTAIN in names)


@cache
def guess_label_space(truths: frozenset[str]) -> LabelSpace | None:
    """The smallest registered space that these true classes tell, or None; None too for no classes at all.

    model-vs-human's 16 classes come first: most people's data are about them. Truths tell a space that has all of them
    when they are at least a twentieth of its classes. Bare numbers must be all of them: any classes may be numbered.

    >>> guess_label_space(frozenset({"knife", "oven"})).name
    'model-vs-human-16'
    """
    for space in sorted(label_spaces.values(), key=lambda s: (s.name != "model-vs-human-16", len(s.answers))):
        if truths and truths <= set(space.answers) and _is_told(space, truths):
            return space
    return None


def _is_told(space: LabelSpace, truths: frozenset[str]) -> bool:
    numbered = all(name.isdigit() for name in space.classes)
    least = len(space.classes) if numbered else _LEAST_SHARE * len(space.classes)
    return len(truths) >= least
