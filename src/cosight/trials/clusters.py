"""Clusters of stimuli: which stimuli were made from the same photo or picture, and so are not independent.

Thirty distortions of one photo are not thirty photos. Bootstrap resamples therefore draw clusters, each with all its
stimuli. By default a cluster is the source photo (`parent` in the manifest of a set or run). The name of a cue-conflict
image, SHAPEn-TEXTUREm.png, tells two pictures that it was made from; shape and texture pictures are crossed factors,
which are drawn independently of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput, did_you_mean
from cosight.trials.join import ABOUT, CUE_CONFLICT, AlignedTrials, match_manifest
from cosight.trials.table import Trials

__all__ = ["INDEPENDENT", "with_clusters"]

INDEPENDENT = "none"  # the value of --cluster-by for stimuli that are independent of each other
_PARENT = "parent"
_CUES = r"^([A-Za-z_ ]+\d+)-([A-Za-z_ ]+\d+)\.[A-Za-z]+$"  # shape picture, texture picture
_MOST_FACTORS = 2
_MOST_GENERATIONS = 10  # a stimulus made from a stimulus made from ... a photo


def with_clusters(
    table: AlignedTrials, trials: Trials, manifest: pl.DataFrame | None, cluster_by: Sequence[str] | None = None
) -> AlignedTrials:
    """Return the table with the clusters that its stimuli belong to.

    Args:
        table: Aligned trials.
        trials: The trials behind the table.
        manifest: Rows of the manifests of the stimuli, as `collect_manifests` returns them; None for no manifest.
        cluster_by: One column of the manifest or the trials whose values are the clusters, two columns for crossed
            factors, or `none` for independent stimuli. By default the source photo, else the pictures that the name of
            a cue-conflict image tells, else every stimulus is its own cluster. So is a stimulus without a value.

    Raises:
        InvalidInput: A column does not exist, or has several values for one stimulus.
    """
    asked = tuple(cluster_by or ())
    if asked == (INDEPENDENT,):
        return replace(table, clusters=None, cluster_by=asked)
    if INDEPENDENT in asked or len(set(asked)) < len(asked) or len(asked) > _MOST_FACTORS:
        raise InvalidInput(
            f"--cluster-by takes one column, two different ones, or {INDEPENDENT}, got {', '.join(asked)}"
        )
    if asked:
        factors = [{name: _values(name, table, trials, manifest)} for name in asked]
    else:
        factors = _default_factors(table, manifest)
    used = [{name: values for name, values in factor.items() if values.count()} for factor in factors]
    own = table.columns.select(pl.coalesce("stimulus", "key")).to_series()
    primary = pl.select(pl.coalesce(*used[0].values(), own)).to_series()
    codes = [_codes(primary), *(_codes(values) for factor in used[1:] for values in factor.values())]
    names = [name for factor in used for name in factor]
    stimuli = table.columns["key"].n_unique()
    if not names or (len(codes) == 1 and len(np.unique(codes[0])) == stimuli):
        return replace(table, cluster_by=asked)
    sizes = {name: values.drop_nulls().n_unique() for factor in used for name, values in factor.items()}
    counts = ", ".join(f"{size} by {name}" for name, size in sizes.items())
    notice = f"intervals draw {stimuli} stimuli in clusters ({counts}); --cluster-by {INDEPENDENT} draws each by itself"
    return replace(table, clusters=np.stack(codes), cluster_by=tuple(names)).with_notices(notice)


def _default_factors(table: AlignedTrials, manifest: pl.DataFrame | None) -> list[dict[str, pl.Series]]:
    """Return the source photo of each column, or the shape picture of its name; and, crossed, the texture picture."""
    height = table.columns.height
    parent = pl.Series([None] * height, dtype=pl.String)
    if manifest is not None and manifest[_PARENT].count():
        parent = _of_manifest(_PARENT, table, manifest)
    image = pl.when(pl.col("experiment") == CUE_CONFLICT, pl.lit(parent).is_null()).then(pl.col("image"))
    shape, texture = (
        table.columns.select((pl.lit(f"{cue} ") + image.str.extract(_CUES, number)).alias(cue)).to_series()
        for number, cue in ((1, "shape"), (2, "texture"))
    )
    return [{_PARENT: parent, "shape": shape}, {"texture": texture}]


def _values(name: str, table: AlignedTrials, trials: Trials, manifest: pl.DataFrame | None) -> pl.Series:
    """Return the value that a column of the trials or the manifest has for each column of the table, as text."""
    if name in table.columns.columns and name not in ("key", "presentation"):
        values = table.columns[name]
    elif manifest is not None and name in manifest.columns:
        values = _of_manifest(name, table, manifest)
    elif name in trials.frame.columns:
        values = _of_trials(name, table, trials)
    else:
        columns = dict.fromkeys([*trials.frame.columns, *(manifest.columns if manifest is not None else ())])
        more = "choose one" if manifest is not None else "a stimulus set or run among the sources adds its manifest's"
        hint = did_you_mean(name, [*columns, INDEPENDENT], most=1, otherwise=more)
        raise InvalidInput(f"--cluster-by must be one of {', '.join(columns)} or {INDEPENDENT}, got {name!r}; {hint}")
    if values.dtype.is_nested():
        raise InvalidInput(f"--cluster-by takes a column of single values, got {name}, which has lists")
    if not values.count():
        raise InvalidInput(f"--cluster-by {name}: none of the stimuli has a value in this column; choose another")
    return values.cast(pl.String)


def _of_trials(name: str, table: AlignedTrials, trials: Trials) -> pl.Series:
    observer, column = np.nonzero(table.rows >= 0)
    answered = pl.DataFrame({"column": column, "value": trials.frame[name].gather(table.rows[observer, column])})
    distinct = answered.drop_nulls().group_by("column").agg(pl.col("value").min(), n=pl.col("value").n_unique())
    several = distinct.filter(pl.col("n") > 1).sort("column")
    if several.height:
        image = table.columns["image"][several["column"][0]]
        raise InvalidInput(f"--cluster-by {name}: a stimulus has one value, got several for {image}; choose another")
    numbered = table.columns.select(column=pl.int_range(pl.len(), dtype=pl.Int64))
    return numbered.join(distinct, on="column", how="left", maintain_order="left")["value"]


def _of_manifest(name: str, table: AlignedTrials, manifest: pl.DataFrame) -> pl.Series:
    """Return the value of a manifest's column for each column of the table; null where it has none.

    Stimuli are matched by digest where that tells one value, else as trials are joined with a manifest.
    """
    column = _first_ancestors(manifest.select("stimulus", _PARENT)) if name == _PARENT else manifest[name]
    facts = manifest.select(*ABOUT).with_columns(column.cast(pl.String).alias("value"))
    distinct = facts.select("stimulus", "value").drop_nulls().unique()
    single = distinct.filter(~pl.col("stimulus").is_duplicated())
    values = table.columns.select("stimulus").join(single, on="stimulus", how="left", maintain_order="left")["value"]
    rest = np.flatnonzero(values.is_null().to_numpy())
    if not len(rest) or not facts["value"].count():
        return values
    known = pl.col("stimulus").is_in(single["stimulus"].implode()).fill_null(False)  # an unfinished run has no digests
    unmatched = facts.filter(~known & pl.col("value").is_not_null())
    candidates = facts if table.columns["stimulus"].has_nulls() else unmatched
    if not candidates.height:
        return values
    pairs = match_manifest(candidates, table.columns[rest])
    nearest = pairs.filter(pl.col("near") == pl.col("near").max().over("trial_row"))
    value_of = candidates["value"].gather(nearest["row"])
    matched = nearest.select("trial_row", value=value_of).group_by("trial_row").agg(pl.col("value").min())
    filled = values.to_list()
    for row, value in matched.iter_rows():
        filled[rest[row]] = value
    return pl.Series(filled, dtype=pl.String)


def _first_ancestors(manifest: pl.DataFrame) -> pl.Series:
    """Return the photo that each stimulus goes back to: its parent, or the parent of that, and so on."""
    made = manifest.drop_nulls(["stimulus", _PARENT]).unique("stimulus", keep="first")
    parent_of = made.filter(pl.col("stimulus") != pl.col(_PARENT)).select(value="stimulus", older=_PARENT)
    values = manifest.select(value=pl.col(_PARENT).cast(pl.String))
    for _ in range(_MOST_GENERATIONS):
        older = values.join(parent_of, on="value", how="left", maintain_order="left")
        if not older["older"].count():
            break
        values = older.select(value=pl.coalesce("older", "value"))
    return values["value"]


def _codes(values: pl.Series) -> NDArray[np.int64]:
    """Return a number for each distinct text, in their order; -1 for null."""
    return np.asarray((values.rank("dense").cast(pl.Int64) - 1).fill_null(-1).to_numpy())
