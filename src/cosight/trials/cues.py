"""The two cues of a cue-conflict image: its truth is the shape, its name tells the texture."""

from __future__ import annotations

import numpy as np
import polars as pl

from cosight.measures.answers import NO_ANSWER, CodeArray

__all__ = ["CUE_CONFLICT", "texture_codes"]

CUE_CONFLICT = "cue-conflict"  # the experiment whose images are named SHAPEn-TEXTUREm.png (Geirhos et al. 2019)


def texture_codes(columns: pl.DataFrame, labels: tuple[str, ...]) -> CodeArray:
    """The texture's class of each stimulus, NO_ANSWER where an image has none.

    >>> columns = pl.DataFrame({"experiment": ["cue-conflict", "edge"], "image": ["cat3-dog12.png", "cat1.png"]})
    >>> texture_codes(columns, ("cat", "dog")).tolist()
    [1, -1]
    """
    codes = {label: index for index, label in enumerate(labels)}
    texture = pl.col("image").str.extract(r"^[^-]*\d-([A-Za-z_ ]+)\d+\.[A-Za-z]+$")
    named = pl.when(pl.col("experiment") == CUE_CONFLICT).then(texture)
    coded = columns.select(named.replace_strict(codes, default=NO_ANSWER, return_dtype=pl.Int16)).to_series()
    return np.asarray(coded.to_numpy(), dtype=np.int16)
