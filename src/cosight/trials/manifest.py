"""The stimulus manifest: one row per stimulus of a set or a run, stored as `stimuli.parquet` beside the images."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput, first_line
from cosight.files import atomic_write
from cosight.trials.file_tables import compact, read_parquet
from cosight.trials.spaces import ABSTAIN, LabelSpace, label_space, space_facts, space_from

__all__ = [
    "DISTRACTORS",
    "MANIFEST",
    "MANIFEST_SCHEMA",
    "SPLITS",
    "collect_manifests",
    "is_stimulus_set",
    "manifest_folders",
    "manifest_frame",
    "manifest_space",
    "order_gold",
    "read_manifest",
    "with_manifest_space",
    "write_manifest",
]

MANIFEST = "stimuli.parquet"
_RUN = "run.json"  # a folder with this file is a run
DISTRACTORS = "distractors"  # folder inside a set: its distractors for studies, a set of their own
SPLITS = ("train", "calibration", "test", "closed")  # `closed`: a test set whose labels are kept elsewhere
MANIFEST_SCHEMA: dict[str, pl.DataType] = {
    "stimulus": pl.String(),  # digest of the decoded pixels; null until the image has been read
    "file": pl.String(),  # relative to the set's folder
    "image": pl.String(),  # the name to join on
    "experiment": pl.String(),
    "truth": pl.String(),
    "original": pl.String(),  # the class a picture was made from
    "condition": pl.String(),
    "level": pl.Int64(),
    "category": pl.Int64(),
    "group": pl.String(),  # must-act, must-abstain, uncertain
    "split": pl.String(),  # one of SPLITS
    "gold": pl.List(pl.Float64()),  # people's label distribution over the answers of the set's label space
    "gold_counts": pl.List(pl.Int64()),  # the answers behind it
    "kind": pl.String(),
    "parameters": pl.String(),  # JSON
    "seed": pl.Int64(),
    "parent": pl.String(),  # digest of the stimulus it was made from
}
_METADATA = "cosight.stimuli"  # key of the set's settings and versions in the Parquet metadata


def manifest_frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Build a manifest from rows; columns that a row lacks are null."""
    return pl.DataFrame([{name: row.get(name) for name in MANIFEST_SCHEMA} for row in rows], schema=MANIFEST_SCHEMA)


def read_manifest(root: Path, *, without: Sequence[str] = ()) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read the manifest of the set or run at `root`.

    Args:
        root: Folder of the set or run.
        without: Columns that are not needed: they are null, which takes no memory.

    Returns:
        One row per stimulus, with every column of `MANIFEST_SCHEMA` and any further ones, and the metadata of the set
        (settings, versions).

    Raises:
        InvalidInput: The manifest cannot be read.
    """
    path = root / MANIFEST
    try:
        frame, texts = read_parquet(path, without=without)
        facts: dict[str, Any] = json.loads(texts.get(_METADATA, "{}"))
        known = [pl.col(name).cast(kind) for name, kind in MANIFEST_SCHEMA.items() if name in frame.columns]
        absent = [pl.lit(None, kind).alias(name) for name, kind in MANIFEST_SCHEMA.items() if name not in frame.columns]
        if not isinstance(facts, dict) or not isinstance(facts.get("settings", {}), dict):
            raise ValueError("its metadata are not those of a stimulus set")
        if not isinstance(facts.get("settings", {}).get("labels"), str | dict | None):
            raise ValueError(f"its label space must be a name or fields, got {facts['settings']['labels']!r}")
        return compact(frame.with_columns(*known, *absent)), facts
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"cannot read the manifest {path}: {first_line(error)}; remove {root} and make the set again"
        ) from error


def manifest_space(facts: Mapping[str, Any]) -> LabelSpace | None:
    """Return the label space that a manifest's metadata names, of which its gold labels are distributions.

    >>> manifest_space({"settings": {"labels": "visalign-11"}}).abstain
    True
    """
    settings = facts.get("settings")
    labels = facts.get("labels") or (settings.get("labels") if isinstance(settings, dict) else None)
    if labels is None or isinstance(labels, str):
        return label_space(labels) if labels else None
    if isinstance(labels, dict):
        return space_from(labels, "the manifest")
    if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise InvalidInput(f"the labels of a manifest are a label space or class names, got {str(labels)[:80]}")
    return LabelSpace("the set's classes", tuple(name for name in labels if name != ABSTAIN), ABSTAIN in labels)


def with_manifest_space(facts: Mapping[str, Any], space: LabelSpace) -> dict[str, Any]:
    """Return the metadata of a manifest whose gold labels are in this label space."""
    return {**facts, "labels": space_facts(space)}


def order_gold(frame: pl.DataFrame, own: LabelSpace | None, space: LabelSpace) -> pl.DataFrame:
    """Return a manifest with gold labels in the order of another label space, reordered by class name.

    Args:
        frame: The manifest. A value for `abstain` comes last and stays there.
        own: The label space of its gold labels; None where the manifest names none: they stay as they are.
        space: The label space to order them by.

    Raises:
        InvalidInput: The manifest has gold labels, and the two spaces have different classes.

    >>> frame = manifest_frame([{"gold": [0.7, 0.2, 0.1]}])
    >>> order_gold(frame, label_space("cat,dog,abstain"), label_space("dog,cat"))["gold"].to_list()
    [[0.2, 0.7, 0.1]]
    """
    columns = [name for name in ("gold", "gold_counts") if frame[name].count()]
    if own is None or own.classes == space.classes or not columns:
        return frame
    order, size = space.order_in(own), len(own.classes)
    for name in columns:
        wrong = frame.filter(~pl.col(name).list.len().is_in([size, size + 1]))
        if wrong.height:
            image, values = wrong.select("image", name).row(0)
            raise InvalidInput(
                f"gold label of {image} must have a number for each of {own.in_words}, got {len(values)}"
            )
    gathered = (
        pl.concat_list(pl.col(name).list.gather(order), pl.col(name).list.slice(size)).alias(name) for name in columns
    )
    return frame.with_columns(gathered)


def is_stimulus_set(path: object) -> bool:
    """Return whether `path` is a stimulus set with a manifest, or a manifest itself; a run folder is neither."""
    if not isinstance(path, str | Path):
        return False
    folder = Path(path)
    return _is_manifest(folder) or ((folder / MANIFEST).is_file() and not (folder / _RUN).is_file())


def _is_manifest(path: Path) -> bool:
    return path.name == MANIFEST and path.is_file()


def manifest_folders(sources: Iterable[object]) -> list[Path]:
    """Return the folders that have the manifests of the runs and stimulus sets among `sources`.

    Args:
        sources: Folders of sets and runs, manifests, and other sources of trials. A folder without a manifest is
            searched for runs that have one.
    """
    folders: list[Path] = []
    for path in [Path(source) for source in sources if isinstance(source, str | Path)]:
        if _is_manifest(path):
            folders.append(path.parent)
        elif (path / MANIFEST).is_file():
            folders.append(path)
        elif path.is_dir():
            runs = [record.parent for record in sorted(path.rglob(_RUN))]
            folders += [run for run in runs if (run / MANIFEST).is_file()]
    return list(dict.fromkeys(folders))


def collect_manifests(sources: Iterable[object]) -> pl.DataFrame | None:
    """Read the manifests of the runs and stimulus sets among `sources`.

    Returns:
        The rows of all manifests, one after the other, with every column that any of them has; None where no source
        has a manifest.
    """
    frames = [read_manifest(folder)[0] for folder in manifest_folders(sources)]
    return pl.concat(frames, how="diagonal_relaxed") if frames else None


def write_manifest(root: Path, frame: pl.DataFrame, facts: Mapping[str, Any]) -> None:
    """Write `stimuli.parquet` atomically; `facts` goes into its metadata."""
    with atomic_write(root / MANIFEST, durable=True) as draft:
        text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
        frame.write_parquet(draft, compression="zstd", metadata={_METADATA: text})
