"""TOML files checked against dataclasses: known keys, required keys and types, each mistake reported in one line.

    content = read_toml(file)
    recipe = parse_table(Recipe, content, context=str(file))

Field types may be bool, int, float, str, `Literal` of texts, `tuple[T, ...]` of one of these, or any of them `| None`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cosight.errors import CosightError, InvalidInput, UnknownName, did_you_mean, first_line
from cosight.files import nearest_path

__all__ = ["check_keys", "parse_table", "parse_tables", "read_toml"]

T = TypeVar("T")
_SINGULAR = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLURAL = {int: "whole numbers", float: "numbers", bool: "true and false", str: "texts"}


def read_toml(file: Path, *, hint: str | None = None) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        file: The file.
        hint: What to do when the file does not exist, though its folder does; ends the error message (default: the
            nearest path).

    Returns:
        Its content as nested dictionaries and lists.

    Raises:
        InvalidInput: The file does not exist, cannot be read or is not valid TOML.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors write a byte order mark
    except FileNotFoundError as error:
        advice = hint if hint and file.parent.is_dir() else nearest_path(file, otherwise=hint or "check the path")
        raise InvalidInput(f"{file} does not exist; {advice}") from error
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}; name a TOML file") from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, nested too deeply
        raise InvalidInput(f"{file} is not a valid TOML file: {first_line(error)}; correct it") from error


def check_keys(keys: Iterable[str], known: Iterable[str], *, context: str) -> None:
    """Raise UnknownName for the first key that is not known, and suggest the nearest known one.

    Args:
        keys: The keys of a table.
        known: The keys it may have.
        context: The file and table, for the error message.

    >>> check_keys(["sed"], ["name", "seed"], context="study.toml")
    Traceback (most recent call last):
    cosight.errors.UnknownName: study.toml: unknown key 'sed'; did you mean seed?
    """
    known = list(known)
    for key in keys:
        if key not in known:
            suggestion = did_you_mean(key, known, most=1, otherwise=f"known keys are {', '.join(known)}")
            raise UnknownName(f"{context}: unknown key {key!r}; {suggestion}")


def parse_table(cls: type[T], table: Any, *, context: str) -> T:
    """Make a dataclass of a TOML table.

    Args:
        cls: The dataclass. A field without a default is a required key.
        table: The table as `read_toml` returns it.
        context: The file and table, which begin every error message.

    Returns:
        An instance of `cls`. Whole numbers stay `int` where the field is a float; lists become tuples.

    Raises:
        UnknownName: A key that `cls` has no field for.
        InvalidInput: A missing key, a value of the wrong type, or a value that `cls.__post_init__` rejects.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Optimizer:
    ...     rate: float
    ...     steps: int = 10
    >>> parse_table(Optimizer, {"rate": 0.1}, context="recipe.toml")
    Optimizer(rate=0.1, steps=10)
    >>> parse_table(Optimizer, {"rate": "fast"}, context="recipe.toml")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: recipe.toml: rate must be a number, got 'fast'
    """
    if not isinstance(table, Mapping):
        raise InvalidInput(f"{context}: must be a table, got {table!r}")
    hints, known = get_type_hints(cls), fields(cls)  # type: ignore[arg-type]
    check_keys(table, [field.name for field in known], context=context)
    for field in known:
        if field.default is MISSING and field.default_factory is MISSING and field.name not in table:
            raise InvalidInput(f"{context}: {field.name} is missing; add a line {field.name} = ...")
    try:
        return cls(**{key: _check_type(key, value, hints[key]) for key, value in table.items()})
    except CosightError as error:
        raise type(error)(f"{context}: {error}") from error


def parse_tables(cls: type[T], tables: Any, *, context: str) -> tuple[T, ...]:
    """Make a dataclass of each table of an array of tables (`[[name]]` in TOML); see `parse_table`."""
    if not isinstance(tables, list):
        raise InvalidInput(f"{context}: must be an array of tables, got {tables!r}; write the name in [[ and ]]")
    return tuple(parse_table(cls, table, context=context) for table in tables)


def _check_type(key: str, value: Any, hint: Any) -> Any:
    """Return the value, a list as a tuple, if TOML gave it the declared type."""
    if get_origin(hint) in (Union, UnionType):  # TYPE | None: TOML has no null, so a value is of the type
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise InvalidInput(f"{key} must be {' or '.join(choices)}, got {value!r}")
        return value
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        if not isinstance(value, list) or not all(_is_instance(part, element) for part in value):
            raise InvalidInput(f"{key} must be a list of {_PLURAL[element]}, got {value!r}; write [..., ...]")
        return tuple(value)
    if not _is_instance(value, hint):
        raise InvalidInput(f"{key} must be {_SINGULAR[hint]}, got {value!r}")
    return value


def _is_instance(value: Any, hint: type) -> bool:
    """Like isinstance, but true and false are no numbers, and whole numbers are numbers."""
    return type(value) is hint or (hint is float and type(value) is int)
