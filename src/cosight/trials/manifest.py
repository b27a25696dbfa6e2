"""The stimulus manifest: one row per stimulus of a set or a run, stored as `stimuli.parquet` beside the images."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write

__all__ = ["DISTRACTORS", "MANIFEST", "MANIFEST_SCHEMA", "SPLITS", "manifest_frame", "read_manifest", "write_manifest"]

MANIFEST = "stimuli.parquet"
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
    "gold": pl.List(pl.Float64()),  # people's label distribution
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


def read_manifest(root: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read the manifest of the set or run at `root`.

    Returns:
        One row per stimulus, with every column of `MANIFEST_SCHEMA` and any further ones, and the metadata of the set
        (settings, versions).

    Raises:
        InvalidInput: The manifest cannot be read.
    """
    path = root / MANIFEST
    try:
        frame = pl.read_parquet(path, glob=False)
        facts: dict[str, Any] = json.loads(pl.read_parquet_metadata(path).get(_METADATA, "{}"))
        known = [pl.col(name).cast(kind) for name, kind in MANIFEST_SCHEMA.items() if name in frame.columns]
        absent = [pl.lit(None, kind).alias(name) for name, kind in MANIFEST_SCHEMA.items() if name not in frame.columns]
        return frame.with_columns(*known, *absent), facts
    except (pl.exceptions.PolarsError, json.JSONDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(
            f"cannot read the manifest {path}: {reason}; remove {root} and make the set again"
        ) from error


def write_manifest(root: Path, frame: pl.DataFrame, facts: Mapping[str, Any]) -> None:
    """Write `stimuli.parquet` atomically; `facts` goes into its metadata."""
    with atomic_write(root / MANIFEST, durable=True) as draft:
        text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
        frame.write_parquet(draft, compression="zstd", metadata={_METADATA: text})
