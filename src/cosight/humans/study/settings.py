"""TOML tables as frozen values: every key known, every value of its declared type."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from cosight.errors import InvalidInput, UnknownName

__all__ = ["check_keys", "read_toml", "tables_of", "value_of"]

T = TypeVar("T")
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a TOML file, or one line that says what is wrong with it."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InvalidInput(f"{file} is not there; `cosight study new` writes one") from error
    except (ValueError, OSError) as error:  # not TOML, not UTF-8, a folder
        raise InvalidInput(f"{file} is not a TOML file that can be read: {error}") from error


def check_keys(content: Mapping[str, Any], known: list[str], *, where: str) -> None:
    """Refuse a key that means nothing, with the nearest one that does."""
    for key in content:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            guess = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UnknownName(f"{where} has no setting called {key!r}; {guess}")


def value_of(kind: type[T], table: Any, *, where: str) -> T:
    """The dataclass `kind` filled from a table; `where` is what messages call it."""
    if not isinstance(table, Mapping):
        raise InvalidInput(f"{where} must be a table of settings, got {table!r}")
    hints, known = get_type_hints(kind), fields(kind)  # type: ignore[arg-type]
    check_keys(table, [field.name for field in known], where=where)
    for field in known:
        if field.default is MISSING and field.name not in table:
            raise InvalidInput(f"{where} must say {field.name}, got nothing; add a line {field.name} = ...")
    return kind(**{name: _typed(value, hints[name], f"{name} in {where}") for name, value in table.items()})


def tables_of(kind: type[T], tables: Any, *, where: str) -> tuple[T, ...]:
    """The dataclasses of an array of tables (`[[where]]`)."""
    if not isinstance(tables, list):
        raise InvalidInput(f"{where} must be a list of tables, got {tables!r}; write [[{where}]]")
    return tuple(value_of(kind, table, where=f"[[{where}]]") for table in tables)


def _typed(value: Any, hint: Any, name: str) -> Any:
    """The value, where TOML gave the declared type; whole numbers are numbers too."""
    if isinstance(hint, UnionType):  # TYPE | None: what is absent is None, what is there is of the type
        return _typed(value, get_args(hint)[0], name)
    if get_origin(hint) is tuple:
        if not isinstance(value, list) or not all(type(part) is str for part in value):
            raise InvalidInput(f'{name} must be a list of texts, got {value!r}; write ["a", "b"]')
        return tuple(value)
    if type(value) is not hint and not (hint is float and type(value) is int):
        raise InvalidInput(f"{name} must be {_WORDS[hint]}, got {value!r}")
    return value
