"""Families of observers and kinds of domains: from `families.toml`, or as the user says."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from cosight.benchmarks.name_patterns import Patterns, first_fit, parse_pairs, parse_tables
from cosight.toml_settings import check_keys, read_toml

__all__ = ["OTHER", "PERSON", "Families", "families_of", "read_families"]

PERSON, OTHER = "person", "other"
_TABLES = ("families", "domains")


@dataclass(frozen=True, slots=True)
class Families:
    """Patterns of names, each with its family or kind of domain; the first one that fits decides."""

    models: Patterns = ()
    domains: Patterns = ()

    def family(self, model: str) -> str | None:
        """Return the family of a model; None where no pattern fits.

        >>> read_families(["model:net-*=mine"]).family("model:net-7")
        'mine'
        """
        return first_fit(self.models, model)

    def kind_of_domain(self, domain: str) -> str | None:
        """Return the kind of a domain, such as an experiment; None where no pattern fits.

        >>> read_families().kind_of_domain("uniform-noise")
        'synthetic'
        """
        return first_fit(self.domains, domain)


def read_families(given: str | Path | Sequence[str] | None = None) -> Families:
    """Return the families of models and kinds of domains: those given first, then those that ship with cosight.

    Args:
        given: A TOML file with the tables `families` and `domains` (name of the family = list of patterns), or pairs
            PATTERN=FAMILY.

    Raises:
        InvalidInput: A pair has no `=`, or the file does not have this form.

    >>> read_families().family("timm:vit_base_patch16_224.augreg_in1k"), read_families().family("model:vgg19")
    ('transformer', 'CNN')
    """
    own, parts = Families(), [given] if isinstance(given, str | Path) else list(given or ())
    if len(parts) == 1 and Path(parts[0]).suffix == ".toml":
        own = _parse(read_toml(Path(parts[0])), str(parts[0]))
    elif parts:
        own = Families(models=parse_pairs(map(str, parts)))
    return Families(own.models + _shipped().models, own.domains + _shipped().domains)


def families_of(
    observers: Iterable[tuple[str, str]], declared: Mapping[str, str | None], families: Families, people: Sequence[str]
) -> dict[str, str]:
    """Return the family of each observer.

    Args:
        observers: Names and kinds.
        declared: The families that the trials' own table of observers names, which go before the patterns that ship
            with cosight, not before those that the user gave.
        families: The patterns.
        people: The kinds that are people.
    """
    shipped = _shipped()
    given = Families(models=families.models[: len(families.models) - len(shipped.models)])
    out = {}
    for name, kind in observers:
        of_model = given.family(name) or declared.get(name) or shipped.family(name) or OTHER
        out[name] = PERSON if kind in people else of_model
    return out


@cache
def _shipped() -> Families:
    text = (files("cosight.benchmarks.error_alignment") / "families.toml").read_text(encoding="utf-8")
    return _parse(tomllib.loads(text), "families.toml")


def _parse(content: Mapping[str, Any], context: str) -> Families:
    check_keys(content, _TABLES, context=context)
    tables = parse_tables(content, context)
    return Families(*(tables.get(table, ()) for table in _TABLES))
