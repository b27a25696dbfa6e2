"""VisAlign's leaderboard format: one JSON object per model, file name -> 11 numbers, the ten classes and then abstain.

The numbers are not negative and not all 0; they are renormalised on reading, and null stands for abstaining. The
11-way output [p * (1 - a), a] is split into `probabilities` p over the ten classes, `abstention` a and `response`, the
likeliest class (gamma is applied when scoring). a = 1 leaves no p: a hard refusal, like null. The file is named after
the model.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.trials.file_tables import check_memory, text_size
from cosight.trials.formats import Format, formats
from cosight.trials.spaces import ABSTAIN, LabelSpace, label_spaces
from cosight.trials.table import Trials, make_trials

__all__: list[str] = []

Eleven: TypeAlias = tuple[float, ...] | None  # None: a hard refusal

_SPACE = label_spaces["visalign-11"]
_SIZE = len(_SPACE.answers)
_EXPERIMENT = "visalign"

_STRING = r'"(?:[^"\\]|\\.)*'  # without its closing quote
_NUMBER = r"(?:-?\d[\d.eE+-]*|NaN|-?Infinity)"
_ENTRY = re.compile(rf'\s*{_STRING}"\s*:\s*(?:null|\[\s*{_NUMBER}(?:\s*,\s*{_NUMBER})*\s*\])\s*')
_CUT_SHORT = re.compile(rf'\s*(?:{_STRING}(?:\\?|"\s*(?::\s*(?:n|nu|nul|\[[-+\d.eE,\sNaInfity]*)?)?))?\Z')


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether every value in `head` is null or a flat list of numbers; reading checks how many and which."""
    text = head.decode("utf-8-sig", errors="ignore").lstrip()
    if not text.startswith("{"):
        return False
    position, entries = 1, 0
    while entry := _ENTRY.match(text, position):
        position, entries = entry.end(), entries + 1
        if text[position : position + 1] != ",":
            return position == len(text) or text[position:].rstrip() == "}"
        position += 1
    return entries > 0 and _CUT_SHORT.match(text, position) is not None


def _read(paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise InvalidInput(f"a leaderboard file is named after its model, got two called {twice!r}; rename one")
    check_memory(paths, text_size(paths))
    frame = pl.concat([_as_trials(path, _read_file(path)) for path in paths])
    trials = make_trials(frame, space=_SPACE, sources=[{"file": path.name} for path in paths])
    return trials if space is None else trials.with_space(space)


def _read_file(path: Path) -> dict[str, Eleven]:
    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):  # json would silently keep the last one
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise InvalidInput(f"{path}: an image has one entry, got {key!r} twice or more; keep one")
        return entries

    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=without_repeats)
        json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair is JSON but no text
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: a leaderboard file is JSON text, this is not: {error}") from error
    if not isinstance(content, dict) or not content:
        got = "an empty object" if content == {} else f"a {type(content).__name__}"
        raise InvalidInput(f"{path}: a leaderboard file is one object, file name -> {_SIZE} numbers, got {got}")
    return {key: _eleven(value, f"{path}, image {key!r}") for key, value in content.items()}


def _eleven(value: Any, where: str) -> Eleven:
    """Check the numbers of one image and return them."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(x) in (int, float) for x in value):  # bool is an int, not a number
        raise InvalidInput(f"{where}: the value is a list of {_SIZE} numbers or null, got {json.dumps(value)[:80]}")
    if len(value) != _SIZE:
        raise InvalidInput(f"{where}: there are {_SIZE} numbers, {', '.join(_SPACE.answers)}; got {len(value)}")
    for x in value:
        if not 0 <= x <= sys.float_info.max:  # nan fails too, and an int too long for a float
            raise InvalidInput(f"{where}: numbers are finite and not negative, got {str(x)[:40]}")
    if not any(value):
        raise InvalidInput(f"{where}: the numbers sum to more than 0, got all 0; write null for a refusal")
    return tuple(float(x) for x in value)


def _as_trials(path: Path, entries: dict[str, Eleven]) -> pl.DataFrame:
    split = [_split(value) for value in entries.values()]
    return pl.DataFrame(
        {
            "observer": f"model:{path.stem}",
            "kind": "model",
            "experiment": _EXPERIMENT,
            "image": list(entries),
            "response": [response for response, _, _ in split],
            "probabilities": [p for _, p, _ in split],
            "abstention": [a for _, _, a in split],
        },
        schema_overrides={"probabilities": pl.List(pl.Float32), "abstention": pl.Float64, "image": pl.String},
    )


def _split(eleven: Eleven) -> tuple[str, list[float] | None, float]:
    """Return the likeliest class, p and a of the 11-way output [p * (1 - a), a]."""
    if eleven is None:
        return ABSTAIN, None, 1.0
    largest = max(eleven)
    scaled = [x / largest for x in eleven]  # first, so that huge numbers have a finite sum
    of_classes = math.fsum(scaled[:-1])
    abstention = scaled[-1] / (of_classes + scaled[-1])
    if abstention == 1:
        return ABSTAIN, None, 1.0
    # as stored, in float32: the response stays the first of the largest when the table is written and read again
    p = np.asarray([x / of_classes for x in scaled[:-1]], dtype=np.float32)
    return _SPACE.classes[int(p.argmax())], p.tolist(), abstention


def _write(trials: Trials, path: Path) -> None:
    """Write one file for one observer, in the order of its rows; the observer gets the file's name when read again."""
    frame = trials.frame
    names = frame["observer"].unique(maintain_order=True).to_list()
    if len(names) != 1:
        some = ", ".join([*names[:3], *(["..."] if len(names) > 3 else [])]) or "none"
        raise InvalidInput(f"a leaderboard file holds one observer, got {len(names)} ({some}); choose with --only")
    if trials.space is None or trials.space.answers != _SPACE.answers:
        got = "none" if trials.space is None else trials.space.name
        raise InvalidInput(
            f"a leaderboard file needs the label space {_SPACE.name}, got {got}; declare it with --labels"
        )
    if frame["image"].has_nulls():
        raise InvalidInput("a leaderboard file needs the image name of every trial, got a trial without; write Parquet")
    repeated = frame.filter(pl.col("image").is_duplicated())
    if repeated.height:
        raise InvalidInput(
            f"a leaderboard file has one entry per image, got {repeated['image'][0]!r} twice or more; choose one "
            "experiment"
        )
    rows = frame.select("image", "response", "probabilities", "abstention").rows()
    lines = [f"{json.dumps(image)}: {json.dumps(_eleven_way(*rest, image=image))}" for image, *rest in rows]
    with atomic_write(path) as draft:
        draft.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8", newline="\n")


def _eleven_way(
    response: str | None, p: list[float] | None, abstention: float | None, *, image: str
) -> list[float] | None:
    """Return [p * (1 - a), a], or None for a hard refusal."""
    if p is not None:
        a = 0.0 if abstention is None else abstention
        total = math.fsum(p)  # float32 probabilities sum to one only nearly
        return [x / total * (1 - a) for x in p] + [a]
    if response == ABSTAIN and abstention in (None, 1.0):
        return None
    raise InvalidInput(
        f"a leaderboard file needs every trial's probabilities or a hard refusal (response {ABSTAIN}, abstention 1), "
        f"got response {response} and abstention {abstention} for image {image!r}; write Parquet or model-vs-human"
    )


_FORMAT = Format(
    "leaderboard",
    "VisAlign's leaderboard JSON: file name -> 11 numbers or null, one file per model",
    _recognises,
    _read,
    _write,
    ".json",
    frozenset({"image", "response", "probabilities", "abstention"}),
)
formats.add("leaderboard", _FORMAT)
