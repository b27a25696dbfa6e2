"""Factors of training by which models are grouped: architecture, loss, augmentation, learning paradigm, or any other.

What is known comes from a model's checkpoint, or from a TOML file with one table per factor:

[loss]
adversarial = ["*-l2-*", "robust-*"]
standard = ["standard-*"]

[architecture]
ResNet-20 = ["*resnet20"]

A factor of a model about which nobody says anything is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cosight.benchmarks.name_patterns import Patterns, first_fit, parse_pairs, parse_tables
from cosight.errors import InvalidInput
from cosight.statistics.rows import GroupKey
from cosight.toml_settings import read_toml

__all__ = ["factors_of", "read_factors"]


def read_factors(given: Sequence[str] | None, *, reserved: Iterable[str] = ()) -> dict[str, Patterns]:
    """Return the patterns of each factor that a user gives.

    Args:
        given: A TOML file with one table per factor (value = list of patterns), or pairs PATTERN=FAMILY, which make the
            factor `family`.
        reserved: Names that no factor can have.

    Returns:
        Factor -> patterns of models' names with its values.

    Raises:
        InvalidInput: The file or a pair does not have this form.

    >>> read_factors(["*trades*=TRADES"])
    {'family': (('*trades*', 'TRADES'),)}
    """
    parts = list(given or ())
    if not parts:
        return {}
    if not (len(parts) == 1 and Path(parts[0]).suffix == ".toml"):
        return {"family": parse_pairs(parts)}
    factors = parse_tables(read_toml(Path(parts[0])), parts[0])
    if taken := [name for name in factors if name in set(reserved) or set(name) & set(";=")]:
        raise InvalidInput(f"{parts[0]}: {taken[0]!r} cannot be the name of a factor of training; rename the table")
    return factors


def factors_of(model: str, declared: Mapping[str, str], given: Mapping[str, Patterns]) -> GroupKey:
    """Return the factors of a model that are known: those that the user gave go before those of its checkpoint.

    >>> factors_of("a-trades", {"loss": "standard", "paradigm": "supervised"}, {"loss": (("*trades", "TRADES"),)})
    (('loss', 'TRADES'), ('paradigm', 'supervised'))
    """
    found = {name: value for name, patterns in given.items() if (value := first_fit(patterns, model)) is not None}
    return tuple(sorted({**declared, **found}.items()))
