"""The one registry: names to things, with aliases, nearest-name errors and room for other packages.

A package outside cosight adds an entry through an entry point in the group `cosight.KINDs`
(`cosight.measures`, ...): the entry point's module is imported the first time the registry is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from cosight.errors import InvalidInput, UnknownName

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Names of one kind of thing, in the order they were added.

    >>> fruit: Registry[str] = Registry("fruit")
    >>> _ = fruit.add("apple", "round", aliases=("malus",))
    >>> fruit["malus"]
    'round'
    >>> fruit["aple"]
    Traceback (most recent call last):
    cosight.errors.UnknownName: no fruit is called 'aple'; did you mean apple? (`cosight list fruits` shows all)
    """

    def __init__(self, kind: str, *, listed: bool = True) -> None:
        self.kind = kind
        self.listed = listed  # whether `cosight list` shows it
        self._entries: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._loaded = False

    def add(self, name: str, entry: T, *, aliases: tuple[str, ...] = ()) -> T:
        """Add `entry` and return it; a name or alias already taken raises."""
        keys = (name, *aliases)
        for key in keys:
            if key in self._entries or key in self._aliases or keys.count(key) > 1:
                raise InvalidInput(f"{self.kind} names are unique, got {key!r} twice; choose another")
        self._entries[name] = entry
        self._aliases.update(dict.fromkeys(aliases, name))
        return entry

    def name_of(self, name: str) -> str:
        """The entry's own name, given that name or an alias."""
        self._load()
        key = self._aliases.get(name, name)
        if key not in self._entries:
            raise UnknownName(self._not_found(name))
        return key

    def __getitem__(self, name: str) -> T:
        return self._entries[self.name_of(name)]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._entries)

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._entries or name in self._aliases

    def _not_found(self, name: str) -> str:
        near = get_close_matches(name, [*self._entries, *self._aliases], n=3)
        guess = f"did you mean {' or '.join(near)}? " if near else ""
        every = f"(`cosight list {self.kind}s` shows all)" if self.listed else f"there are {', '.join(self._entries)}"
        return f"no {self.kind} is called {name!r}; {guess}{every if guess or not self.listed else every.strip('()')}"

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True  # first, so that an extension may read the registry while it loads
        try:
            for point in entry_points(group=f"cosight.{self.kind}s"):
                point.load()
        except BaseException:
            self._loaded = False  # an extension that fails to load fails every time, not only the first
            raise
