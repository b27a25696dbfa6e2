"""Every sentence that a participant sees: `texts.toml` of a study, in English at first, for translation."""

from __future__ import annotations

import json
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

__all__ = ["TEXTS", "english_texts", "label_titles", "new_texts", "read_texts"]

TEXTS = "texts.toml"
_ENTRY = re.compile(r'^(\w+) = ("""\n.*?"""|"[^\n]*")\n', re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_ABSTAIN = "_abstain"  # the variant of the instructions for studies in which participants may abstain
_OPTIONAL = ("demographics_", "label_", "screening_")  # a study adds keys with these prefixes as it needs them


@cache
def _english_source() -> str:
    return files("cosight.humans.study").joinpath("texts", "en.toml").read_text(encoding="utf-8")


def english_texts(kind: str) -> dict[str, str]:
    """Return the sentences that a study of this trial type needs, in English."""
    return {key: text for key, text in tomllib.loads(_english_source()).items() if _is_needed(key, kind)}


def _is_needed(key: str, kind: str) -> bool:
    """Whether a study of this type needs a sentence; one that ends in a type's name is for that type only."""
    others = [f"_{name}" for name in trial_types if name != kind]
    return not key.endswith((*others, _ABSTAIN))


def new_texts(kind: str, *, abstain: bool, titles: Mapping[str, str] | None = None) -> str:
    """Return the content of a new `texts.toml`, with its comments; `titles` are the words on the buttons of classes."""
    variant = f"instructions_{kind}{_ABSTAIN}"
    has_variant = abstain and variant in tomllib.loads(_english_source())

    def keep_or_drop(entry: re.Match[str]) -> str:
        if has_variant and entry[1] == variant:
            return entry[0].replace(_ABSTAIN, "", 1)
        replaced = has_variant and variant == entry[1] + _ABSTAIN
        return entry[0] if _is_needed(entry[1], kind) and not replaced else ""

    text = _ENTRY.sub(keep_or_drop, _english_source())
    if titles:
        text += "\n# Buttons\n"
    for name, title in (titles or {}).items():  # JSON writes keys and texts in quotes as TOML does
        text += f"{json.dumps(f'label_{name}', ensure_ascii=False)} = {json.dumps(title, ensure_ascii=False)}\n"
    return text


def read_texts(file: Path, study: Study) -> dict[str, str]:
    """Read a study's sentences. Raises for missing or unknown ones and for placeholders that English does not have."""
    texts, english = read_toml(file, hint="`cosight study new` writes one"), english_texts(study.type)
    check_keys([key for key in texts if not key.startswith(_OPTIONAL)], english, context=str(file))
    people = study.participants
    added = [f"demographics_{name}" for name in people.demographics]
    added += [f"screening_{name}" for name in people.screening]
    # a study may lack the sentences of what it does not use
    unused = {"screening_": not people.screening, "mturk_": people.platform != "mturk", "platform_": not people.codes}
    for key in [*english, *added]:
        if key not in texts and any(key.startswith(prefix) for prefix, is_unused in unused.items() if is_unused):
            continue
        if not isinstance(texts.get(key), str) or not texts[key].strip():
            raise InvalidInput(f'{file}: {key} must be a sentence, got {texts.get(key)!r}; write {key} = "..."')
    for key, text in texts.items():
        if not isinstance(text, str):
            raise InvalidInput(f"{file}: {key} must be text, got {text!r}")
        known = _PLACEHOLDER.findall(english.get(key, ""))
        unknown = set(_PLACEHOLDER.findall(text)) - set(known)
        if unknown:
            listed = "the placeholders " + ", ".join(f"{{{word}}}" for word in known) if known else "no placeholders"
            raise InvalidInput(f"{file}: {key} has {listed}, got {{{min(unknown)}}}; remove it")
    return {key: text.strip() for key, text in texts.items()}


def label_titles(study: Study) -> dict[str, str]:
    """Return the text of each button by answer: `label_NAME` of the texts, else the title of the class."""
    if study.space is None:
        return {}
    titles = {name: study.texts.get(f"label_{name}", study.space.title(name)) for name in study.space.classes}
    return {**titles, ABSTAIN: study.texts["abstain"]} if study.space.abstain else titles
