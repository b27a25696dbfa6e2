"""People's answers as gold labels: what a study found takes the place of no label, or of a simulated panel's."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput
from cosight.measures.gold import label_counts
from cosight.stimuli.sets import SCHEMA, read_set, write_manifest
from cosight.trials.spaces import label_space
from cosight.trials.table import Trials

__all__ = ["put_gold"]


def put_gold(root: Path, trials: Trials) -> int:
    """Put people's answers to Uncertain images into the manifest of the set at `root`; how many images have some.

    Only people count (`kind` human), on images known by their digest. Images that nobody answered keep what they have.
    """
    stimuli = read_set(root)
    space = label_space(stimuli.facts["settings"]["labels"])
    asked = stimuli.frame.filter(pl.col("group") == "uncertain")["stimulus"].unique(maintain_order=True).to_list()
    given = trials.frame.filter(
        (pl.col("kind") == "human") & pl.col("stimulus").is_in(asked) & pl.col("response").is_not_null()
    )
    if not given.height:
        raise InvalidInput(f"gold labels need people's answers to Uncertain images of {root}, got none in the trials")
    strange = set(given["response"]) - set(space.answers)
    if strange:
        raise InvalidInput(f"people's answers must be those of {space.name}, got {min(strange)!r}; convert them first")
    codes = [space.answers.index(answer) for answer in given["response"]]
    images = {name: place for place, name in enumerate(given["stimulus"].unique(maintain_order=True))}
    counts = label_counts([images[name] for name in given["stimulus"]], codes, len(space.answers)).counts
    found = {name: counts[place].tolist() for name, place in images.items()}
    rows = [_with_gold(row, found.get(row["stimulus"])) for row in stimuli.frame.iter_rows(named=True)]
    write_manifest(root, pl.DataFrame(rows, schema={**SCHEMA, **stimuli.frame.schema}), stimuli.facts)
    return len(images)


def _with_gold(row: dict[str, object], counts: list[int] | None) -> dict[str, object]:
    if counts is None or row["group"] != "uncertain":
        return row
    told = {**json.loads(str(row["parameters"] or "{}")), "gold": "people"}
    shares = [count / sum(counts) for count in counts]
    return {**row, "gold_counts": counts, "gold": shares, "parameters": json.dumps(told, sort_keys=True)}
