"""Label spaces: the ordered class names that answers are about, and what else their classes are called."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from cosight.errors import InvalidInput
from cosight.registry import Registry

__all__ = ["ABSTAIN", "LabelSpace", "guess_label_space", "label_space", "label_spaces", "space_facts", "space_from"]

ABSTAIN = "abstain"  # the answer "none of these, uncertain or unrecognisable"
_FEW = 20  # answers up to which a message lists all
_LISTED = 5  # classes that a message about two spaces lists
_LEAST_FRACTION = 1 / 20  # of a space's classes must occur before it is guessed: man and woman are not CIFAR-100


@dataclass(frozen=True, slots=True)
class LabelSpace:
    """Ordered class names that answers are about.

    `abstain` says whether refusing is one of the answers. Classes whose names say little (WordNet ids) have `titles`
    for people. `aliases` are pairs (other word, class). `members` are the classes of a finer space, `members_of`, that
    make up each class: mappings are built from them.

    >>> LabelSpace("pets", ("cat", "dog"), abstain=True).answers
    ('cat', 'dog', 'abstain')
    """

    name: str
    classes: tuple[str, ...]
    abstain: bool = False
    source: str = ""
    titles: tuple[str, ...] = field(default=(), repr=False)  # none, or one per class; two classes may share one
    aliases: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    members: tuple[tuple[str, ...], ...] = field(default=(), repr=False)  # none, or one group per class
    members_of: str = ""

    def __post_init__(self) -> None:
        for name in ("classes", "titles", "aliases", "members"):  # lists, where they come from a file
            object.__setattr__(self, name, _as_tuples(getattr(self, name)))
        if len(set(self.classes)) < len(self.classes) or ABSTAIN in self.classes or not self.classes:
            raise InvalidInput(
                f"a label space has distinct class names besides {ABSTAIN!r}, got {', '.join(self.classes) or 'none'}"
            )
        if self.titles and len(self.titles) != len(self.classes):
            raise InvalidInput(
                f"{self.name} must have a title for each of its {len(self.classes)} classes or none, "
                f"got {len(self.titles)}"
            )
        counts = Counter(word for word, _ in self.aliases)
        for word, name in self.aliases:
            if name not in self.classes or word in self.answers or counts[word] > 1:
                raise InvalidInput(
                    f"an alias of {self.name} must be one other word for one of its classes, got {word!r} for {name!r}"
                )
        if self.members:
            self._check_members()

    def _check_members(self) -> None:
        if len(self.members) != len(self.classes) or not all(self.members) or not self.members_of:
            raise InvalidInput(
                f"{self.name} must have members of one named space (members_of) for each of its {len(self.classes)} "
                f"classes or none at all, got {sum(map(bool, self.members))} groups of {self.members_of or 'no space'}"
            )
        member, count = Counter(member for group in self.members for member in group).most_common(1)[0]
        if count > 1:
            raise InvalidInput(f"a member must belong to one class of {self.name} only, got {member!r} {count} times")

    @property
    def answers(self) -> tuple[str, ...]:
        """The classes, then `abstain` where the space has it: the codes of answers."""
        return (*self.classes, ABSTAIN) if self.abstain else self.classes

    def one_hot(self, answer: str) -> list[float]:
        """Return the label distribution with probability 1 for one answer.

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
        """Return the title of the class `name`, or the name itself where it has none.

        >>> label_space("imagenet-1k").title("n01440764")
        'tench'
        """
        return self.titles[self.classes.index(name)] if self.titles and name in self.classes else name

    def recognise(self, names: Iterable[str]) -> dict[str, str]:
        """Return the class that each of `names`, such as names of folders, stands for.

        Either all are classes, their titles (blanks or underscores) or aliases, or all are numbers of classes from 0.
        A title that two classes share stands for neither.

        Raises:
            InvalidInput: A name stands for no class.

        >>> label_space("imagenet-1k").recognise(["n01443537", "tench"])
        {'n01443537': 'n01443537', 'tench': 'n01440764'}
        >>> label_space("imagenet-1k").recognise(["0", "999"])
        {'0': 'n01440764', '999': 'n15075141'}
        """
        distinct = list(dict.fromkeys(names))
        digits = [name for name in distinct if name.isascii() and name.isdigit()]
        by_word = self.words()
        by_number = {name: self.classes[int(name)] for name in digits if int(name) < len(self.classes)}
        for known in (by_word, by_number):
            if all(name in known for name in distinct):
                return {name: known[name] for name in distinct}
        unknown = next(name for name in distinct if name not in (by_number if distinct[0] in by_number else by_word))
        shared = [name for name in self.classes if self.title(name) == unknown.replace("_", " ")]
        if len(shared) > 1:
            raise InvalidInput(f"{unknown!r} is the title of {' and '.join(shared)} in {self.name}; name one of these")
        raise InvalidInput(
            f"names must be classes of {self.name} ({self.in_words}), their titles, "
            f"or all of them numbers 0 to {len(self.classes) - 1}; got {unknown!r}: rename it or name another space"
        )

    def recognise_members(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the class that each of `names` stands for, where names may also be those of the finer space.

        Either all are names of this space, as `recognise` reads them, or all are names of the space `members_of`. A
        finer class stands for the class it is a member of; None where it is a member of none. Numbers are those of the
        finer space, if there is one.

        Raises:
            InvalidInput: A name stands for no class.

        >>> label_space("laion-c-16").recognise_members(["n01440764", "n15075141"])  # tench, toilet tissue
        {'n01440764': 'fish', 'n15075141': None}
        >>> label_space("laion-c-16").recognise_members(["vehicle", "fish"])
        {'vehicle': 'car_truck', 'fish': 'fish'}
        """
        distinct = list(dict.fromkeys(names))
        by_word = self.words()
        if not self.members:
            return dict(self.recognise(distinct))
        if all(name in by_word for name in distinct):
            return {name: by_word[name] for name in distinct}
        finer = label_spaces[self.members_of]
        class_of = {member: name for name, group in zip(self.classes, self.members, strict=True) for member in group}
        try:
            return {name: class_of.get(member) for name, member in finer.recognise(distinct).items()}
        except InvalidInput:
            known = by_word if any(name in by_word for name in distinct) else finer.words()
            unknown = next(name for name in distinct if name not in known)
            raise InvalidInput(
                f"names must be classes of {self.name} ({self.in_words}), or all of them classes of {finer.name} (ids, "
                f"titles or numbers); got {unknown!r}: rename it or leave it out"
            ) from None

    def order_in(self, other: LabelSpace) -> list[int]:
        """Return the position of each class among those of `other`, to reorder values over its classes by name.

        Raises:
            InvalidInput: The two spaces have different classes.

        >>> LabelSpace("pets", ("cat", "dog")).order_in(LabelSpace("animals", ("dog", "cat")))
        [1, 0]
        """
        missing, extra = ([c for c in a.classes if c not in b.classes] for a, b in ((self, other), (other, self)))
        if missing or extra:
            parts = []
            for what, names in (("not among them", missing), ("missing", extra)):
                more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
                parts += [f"{what}: {', '.join(names[:_LISTED])}{more}"] if names else []
            raise InvalidInput(
                f"probabilities and gold labels over {other.in_words} cannot be read as {self.in_words} "
                f"({'; '.join(parts)}); name the same classes with --labels, in any order"
            )
        position = {name: index for index, name in enumerate(other.classes)}
        return [position[name] for name in self.classes]

    def words(self) -> dict[str, str]:
        """Return the class of every word that stands for one: titles, aliases, and the answers themselves.

        >>> label_space("laion-c-16").words()["vehicle"]
        'car_truck'
        """
        shared = Counter(self.titles)
        titles = dict(zip(self.titles, self.classes, strict=True)) if self.titles else {}
        unique = {title: name for title, name in titles.items() if shared[title] == 1}
        underscored = {title.replace(" ", "_"): name for title, name in unique.items()}
        return {**underscored, **unique, **dict(self.aliases), **{name: name for name in self.answers}}


def space_from(facts: Any, source: str) -> LabelSpace | None:
    """Return the label space that a file's metadata describes; None where it names none.

    Args:
        facts: The fields of a label space, as JSON, or None.
        source: The file, for error messages.

    Raises:
        InvalidInput: The facts do not describe a label space.
    """
    if facts is None:
        return None

    def texts(values: Any) -> bool:
        return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)

    def groups(values: Any) -> bool:
        return isinstance(values, list | tuple) and all(texts(value) for value in values)

    def pairs(values: Any) -> bool:
        return groups(values) and all(len(value) == 2 for value in values)

    text = (lambda value: isinstance(value, str)), "text"
    rules: dict[str, tuple[Callable[[Any], bool], str]] = {
        "name": text,
        "classes": (texts, "a list of names"),
        "abstain": (lambda value: isinstance(value, bool), "true or false"),
        "source": text,
        "titles": (texts, "a list of names"),
        "aliases": (pairs, "a list of pairs of names"),
        "members": (groups, "lists of names"),
        "members_of": text,
    }
    if not isinstance(facts, dict) or not {"name", "classes"} <= set(facts) <= set(rules):
        raise InvalidInput(f"{source}: a label space has {', '.join(rules)}, got {str(facts)[:80]}")
    for name, value in facts.items():
        is_valid, what = rules[name]
        if not is_valid(value):
            raise InvalidInput(f"{source}: {name} of a label space is {what}, got {str(value)[:80]}")
    try:
        return LabelSpace(**facts)
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from error


def space_facts(space: LabelSpace) -> str | dict[str, Any]:
    """Return what a set's metadata store about a label space: the name of a registered one, else its fields as JSON.

    `space_from` reads the fields.

    >>> space_facts(label_space("cat,dog,abstain"))
    {'name': 'given', 'classes': ['cat', 'dog'], 'abstain': True}
    """
    if space in label_spaces.values():
        return space.name
    facts: dict[str, Any] = json.loads(json.dumps(asdict(space)))  # lists, as they are read again
    return {name: value for name, value in facts.items() if value}


def _as_tuples(values: Any) -> Any:
    """Return nested lists as nested tuples."""
    return tuple(_as_tuples(value) for value in values) if isinstance(values, list | tuple) else values


label_spaces: Registry[LabelSpace] = Registry("label-space")

for _file in sorted(files(__package__).joinpath("label_spaces").iterdir(), key=lambda file: file.name):
    _name, _facts = _file.name.removesuffix(".json"), json.loads(_file.read_text(encoding="utf-8"))
    _aliases, _members = _facts.get("aliases", {}), _facts.get("members", {})
    if _members and list(_members) != _facts["classes"]:
        raise InvalidInput(f"members of {_name} must be listed by class, in the order of classes")
    _lists = {"name": _name, "aliases": list(_aliases.items()), "members": list(_members.values())}
    label_spaces.add(_name, LabelSpace(**{**_facts, **_lists}))


def label_space(text: str) -> LabelSpace:
    """Return a label space by its name, or make one of comma-separated class names.

    Args:
        text: The name of a registered space, or class names; `abstain` among them makes refusing an answer.

    Returns:
        The label space.

    Raises:
        UnknownName: No space has this name.

    >>> label_space("cat,dog,abstain").answers
    ('cat', 'dog', 'abstain')
    """
    if "," not in text:
        return label_spaces[text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    return LabelSpace("given", tuple(n for n in names if n != ABSTAIN), ABSTAIN in names)


@cache
def guess_label_space(truths: frozenset[str]) -> LabelSpace | None:
    """Return the smallest registered space that has all of these true classes, or None; None too for no classes.

    The truths must be at least a twentieth of the space's classes. Bare numbers must be all of its classes, because any
    classes may be numbered. model-vs-human's 16 classes come first, because most data of people are about them.

    >>> guess_label_space(frozenset({"knife", "oven"})).name
    'model-vs-human-16'
    """
    for space in sorted(label_spaces.values(), key=lambda s: (s.name != "model-vs-human-16", len(s.answers))):
        numbered = all(name.isdigit() for name in space.classes)
        least = len(space.classes) if numbered else _LEAST_FRACTION * len(space.classes)
        if truths and truths <= set(space.answers) and len(truths) >= least:
            return space
    return None
