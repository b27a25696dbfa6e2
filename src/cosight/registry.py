"""The registry behind every `cosight list`: names to entries, with aliases, hints and entry points.

A package outside cosight adds entries through an entry point in the group `cosight.KINDs` (`cosight.measures`, ...).
The entry point's module is imported when the registry is first read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from cosight.errors import InvalidInput, UnknownName, did_you_mean

__all__ = ["Registry", "split_names"]

T = TypeVar("T")


def split_names(names: str | Iterable[str] | None) -> list[str] | None:
    """Return the names in one comma-separated text or in several; None where there are none.

    >>> split_names("ec, ma"), split_names(["ec, ma", "cles"]), split_names([])
    (['ec', 'ma'], ['ec', 'ma', 'cles'], None)
    """
    texts = [names] if isinstance(names, str) else names or ()
    return [name.strip() for text in texts for name in text.split(",") if name.strip()] or None


class Registry(Mapping[str, T], Generic[T]):
    """Entries of one kind by name, in the order they were added.

    Args:
        kind: What an entry is called in messages; with an s, the name of the entry point group.
        listed: Whether `cosight list` shows the entries.

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
        self.listed = listed
        self._entries: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._loaded = False

    def add(self, name: str, entry: T, *, aliases: tuple[str, ...] = ()) -> T:
        """Add an entry under its name and aliases and return it.

        Raises:
            InvalidInput: If the name or an alias exists already.
        """
        keys = (name, *aliases)
        for key in keys:
            if key in self._entries or key in self._aliases or keys.count(key) > 1:
                raise InvalidInput(f"{self.kind} names are unique, got {key!r} twice; choose another")
        self._entries[name] = entry
        self._aliases.update(dict.fromkeys(aliases, name))
        return entry

    def name_of(self, name: str) -> str:
        """Return the entry's own name, given that name or an alias.

        Raises:
            UnknownName: If no entry has this name; the message suggests similar ones.
        """
        self._load()
        key = self._aliases.get(name, name)
        if key not in self._entries:
            every = f"`cosight list {self.kind}s` shows all" if self.listed else f"there are {', '.join(self._entries)}"
            guess = did_you_mean(name, [*self._entries, *self._aliases], otherwise="")
            raise UnknownName(f"no {self.kind} is called {name!r}; {f'{guess} ({every})' if guess else every}")
        return key

    def __getitem__(self, name: str) -> T:
        return self._entries[self.name_of(name)]

    def get(self, name: str, default: Any = None) -> Any:  # Mapping's expects a KeyError, whose message is quoted
        """Return the entry of a name or alias, or the default."""
        return self._entries.get(self._aliases.get(name, name), default) if name in self else default

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._entries)

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._entries or name in self._aliases

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
