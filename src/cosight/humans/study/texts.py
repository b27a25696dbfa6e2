"""Every sentence that a participant sees: `texts.toml` of a study, English at first, to be translated."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.humans.study.trial_types import trial_types
from cosight.toml_settings import check_keys, read_toml
from cosight.trials.spaces import ABSTAIN

if TYPE_CHECKING:
    from cosight.humans.study.design import Study

__all__ = ["TEXTS", "english", "label_titles", "new_texts", "read_texts"]

TEXTS = "texts.toml"
_ENTRY = re.compile(r'^(\w+) = ("""\n.*?"""|"[^\n]*")\n', re.MULTILINE | re.DOTALL)
_FILLED_IN = re.compile(r"\{(\w+)\}")
_VARIANT = "_abstain"  # instructions where refusing is an answer
_FREE = ("demographics_", "label_")  # keys with such beginnings are added as a study needs them


@cache
def _source() -> str:
    return files("cosight.humans.study").joinpath("texts", "en.toml").read_text(encoding="utf-8")


def english(kind: str) -> dict[str, str]:
    """The sentences that a study of this type needs, in English."""
    return {key: text for key, text in tomllib.loads(_source()).items() if _is_needed(key, kind)}


def _is_needed(key: str, kind: str) -> bool:
    """A sentence that ends in the name of a trial type is only for that type."""
    others = [f"_{name}" for name in trial_types if name != kind]
    return not key.endswith((*others, _VARIANT))


def new_texts(kind: str, *, abstain: bool) -> str:
    """The text of a new `texts.toml`, with its comments."""
    special = f"instructions_{kind}{_VARIANT}"
    swapped = abstain and special in tomllib.loads(_source())

    def kept(entry: re.Match[str]) -> str:
        if swapped and entry[1] == special:
            return entry[0].replace(_VARIANT, "", 1)
        wanted = _is_needed(entry[1], kind) and not (swapped and special == entry[1] + _VARIANT)
        return entry[0] if wanted else ""

    return _ENTRY.sub(kept, _source())


def read_texts(file: Path, study: Study) -> dict[str, str]:
    """The study's sentences; one that lacks, means nothing or has other words in braces than English is refused."""
    texts, needed = read_toml(file, hint="`cosight study new` writes one"), english(study.type)
    demanded = [*needed, *(f"demographics_{name}" for name in study.participants.demographics)]
    check_keys([key for key in texts if not key.startswith(_FREE)], needed, context=str(file))
    for key in demanded:
        if not isinstance(texts.get(key), str) or not texts[key].strip():
            raise InvalidInput(f"{file} must have a sentence {key}, got {texts.get(key)!r}; write it as TEXT in quotes")
    for key, text in texts.items():
        _check_words(file, key, text, needed)
    return {key: text.strip() for key, text in texts.items()}


def _check_words(file: Path, key: str, text: str, needed: Mapping[str, str]) -> None:
    if not isinstance(text, str):
        raise InvalidInput(f"{file}: {key} must be text, got {text!r}")
    strange = set(_FILLED_IN.findall(text)) - set(_FILLED_IN.findall(needed.get(key, "")))
    if strange:
        known = ", ".join(f"{{{word}}}" for word in _FILLED_IN.findall(needed.get(key, ""))) or "none"
        raise InvalidInput(f"{file}: {key} is filled in with {known}, got {{{min(strange)}}}; take it out")


def label_titles(study: Study) -> dict[str, str]:
    """What the buttons say, by answer: the texts' `label_NAME` where there is one, else the class' own title."""
    if study.space is None:
        return {}
    own = {name: study.texts.get(f"label_{name}", study.space.title(name)) for name in study.space.classes}
    return {**own, ABSTAIN: study.texts["abstain"]} if study.space.abstain else own
