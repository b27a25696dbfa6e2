"""A study's results on disk: its trials, who is excluded and why, gold labels, curated lists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.humans.results.records import first_test_records, records_by_group
from cosight.measures.choice import choice_share
from cosight.measures.gold_distributions import gold_distribution, label_counts
from cosight.measures.uncertainty import mean_with_interval
from cosight.stimuli.sets import write_gold_labels
from cosight.trials.choices import KEEP, REJECT, TARGET
from cosight.trials.formats import write
from cosight.trials.table import Trials

if TYPE_CHECKING:
    from cosight.humans.results.quality import Quality

__all__ = [
    "FORMATS",
    "attach_gold",
    "curated_list",
    "gold_table",
    "is_curation",
    "path_beside",
    "write_curated",
    "write_excluded",
    "write_gold",
    "write_roster",
    "write_trials",
]

FORMATS = ("parquet", "model-vs-human", "psych-ds")
_GOLD_SCHEMA: dict[str, pl.DataType] = {
    "group": pl.String(),  # people, or simulated people
    "stimulus": pl.String(),  # digest, or task; null: the mean over all tasks
    "image": pl.String(),
    "truth": pl.String(),
    "answer": pl.String(),  # a class or abstain; for a choice among options `target`
    "count": pl.Int64(),
    "n": pl.Int64(),  # answers; for the mean over tasks the tasks
    "share": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
}
_CURATED_SCHEMA: dict[str, pl.DataType] = {
    "stimulus": pl.String(),
    "file": pl.String(),
    "image": pl.String(),
    "truth": pl.String(),
    "keep": pl.Int64(),
    "reject": pl.Int64(),
    "reasons": pl.String(),  # the commonest first, with the number of curators
    "kept": pl.Boolean(),
    "disagreement": pl.Boolean(),
    "curators": pl.String(),  # people, or simulated people
}


def gold_table(trials: Trials, *, confidence: float = 0.95, seed: int = 0) -> pl.DataFrame:
    """Compute the proportion of every answer to each image, with the interval of each proportion (`share_interval`).

    For 2AFC and clustering tasks it is the proportion of participants who chose the aligned option; a last row per
    group has the mean over tasks, with its interval over tasks. Only first showings count.
    """
    rows: list[dict[str, Any]] = []
    for group, group_records in records_by_group(trials).items():
        records = first_test_records(group_records)
        if records["choices"].is_not_null().all():
            rows += _choice_rows(group, records, confidence, seed)
        elif trials.space is not None:
            rows += _answer_rows(group, records, trials.space.answers, confidence)
        else:
            raise InvalidInput(
                "gold labels need classes or options, got other answers; use --curated for curate studies"
            )
    return pl.DataFrame(rows, schema=_GOLD_SCHEMA)


def _answer_rows(group: str, records: pl.DataFrame, answers: Sequence[str], confidence: float) -> list[dict[str, Any]]:
    items = records.unique("item", keep="first", maintain_order=True).select("item", "image", "truth")
    item_codes = {item: index for index, item in enumerate(items["item"])}
    counts = label_counts(
        [item_codes[item] for item in records["item"]],
        [answers.index(answer) for answer in records["answer"]],
        len(answers),
        items=len(item_codes),
    ).counts
    gold = gold_distribution(counts, confidence=confidence)
    return [
        {
            "group": group,
            "stimulus": row["item"],
            "image": row["image"],
            "truth": row["truth"],
            "answer": answer,
            "count": int(counts[i, c]),
            "n": int(gold.n[i]),
            "share": gold.probabilities[i, c],
            "low": gold.low[i, c],
            "high": gold.high[i, c],
        }
        for i, row in enumerate(items.iter_rows(named=True))
        for c, answer in enumerate(answers)
    ]


def _choice_rows(group: str, records: pl.DataFrame, confidence: float, seed: int) -> list[dict[str, Any]]:
    chosen = (records["answer"] != TARGET).cast(pl.Int64).to_numpy()  # 0 is the aligned option
    is_aligned = choice_share(chosen, np.zeros(len(chosen), np.int64)).items
    answers = pl.Series([TARGET if item == 1 else "" for item in is_aligned], dtype=pl.String)
    rows = _answer_rows(group, records.with_columns(answer=answers), (TARGET, ""), confidence)
    rows = [row for row in rows if row["answer"] == TARGET]
    mean = mean_with_interval(
        [row["share"] for row in rows],
        answers=sum(row["n"] for row in rows),
        confidence=confidence,
        rng=np.random.default_rng(seed),
    )
    total = {
        "group": group,
        "stimulus": None,
        "image": None,
        "truth": None,
        "answer": TARGET,
        "count": sum(row["count"] for row in rows),
        "n": mean.n,
        "share": mean.value,
        "low": mean.low,
        "high": mean.high,
    }
    return [*rows, total]


def is_curation(trials: Trials) -> bool:
    """Whether the answers are votes to keep or reject an image."""
    return trials.space is None and bool(set(trials.frame["response"].drop_nulls()) <= {KEEP, REJECT})


def curated_list(trials: Trials, *, files: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Return one row per image, disagreements first: votes, reasons and whether it is kept.

    An image is kept when more curators keep than reject it; a tie is rejected. Votes of simulated people count only
    where there are none of people. `files` are the images' names in their set, by digest.
    """
    if not is_curation(trials):
        raise InvalidInput("a curated list needs votes to keep or reject, got other answers; use a curate study")
    group, records = next(iter(records_by_group(trials).items()))  # people come first
    rows = []
    for votes in first_test_records(records).partition_by("item", maintain_order=True):
        first, counts = votes.row(0, named=True), Counter(votes["answer"])
        reasons = Counter(votes["reason"].drop_nulls()).most_common()
        rows.append(
            {
                "stimulus": first["item"],
                "file": (files or {}).get(first["item"]),
                "image": first["image"],
                "truth": first["truth"],
                "keep": counts[KEEP],
                "reject": counts[REJECT],
                "reasons": "; ".join(f"{reason} ({times})" for reason, times in reasons),
                "kept": counts[KEEP] > counts[REJECT],
                "disagreement": bool(counts[KEEP] and counts[REJECT]),
                "curators": group,
            }
        )
    rows.sort(key=lambda row: (not row["disagreement"], row["image"] or "", row["stimulus"]))
    return pl.DataFrame(rows, schema=_CURATED_SCHEMA)


def path_beside(out: Path, suffix: str) -> Path:
    """Return the path of a file that is written with `out`.

    >>> path_beside(Path("answers.parquet"), "gold.csv").name
    'answers-gold.csv'
    """
    return out.with_name(f"{out.stem}-{suffix}")


def write_trials(trials: Trials, out: Path, *, to: str) -> Trials:
    """Write the trials; return what was written. model-vs-human files have no roles: they hold test trials only."""
    if to not in FORMATS:
        raise InvalidInput(f"the format must be one of {', '.join(FORMATS)}, got {to!r}")
    if not out.name or (to == "parquet" and out.is_dir()):
        raise InvalidInput(f"the output must be a new file or folder, got {out}; choose another")
    if to == "model-vs-human" and trials.space is None:
        raise InvalidInput("model-vs-human files hold classes, got other answers; export parquet or psych-ds")
    if not len(trials):
        raise InvalidInput(
            "there are no answers to export; collect some, or use --all to include excluded participants"
        )
    return write(trials, out, to=to)


def write_excluded(quality: Quality, out: Path, *, everyone: bool) -> Path:
    """Write who is excluded, why and by which rules; with `everyone` they are among the trials nevertheless."""
    content = {
        "participants": quality.participants.height,
        "written_all_the_same": everyone,
        "excluded": [asdict(one) for one in quality.flagged],
        "rules": asdict(quality.rules),
    }
    return _write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", path_beside(out, "excluded.json"))


def write_gold(trials: Trials, out: Path) -> Path:
    """Write label distributions, or proportions of aligned choices, with their intervals."""
    return _write_text(gold_table(trials).write_csv(), path_beside(out, "gold.csv"))


def attach_gold(trials: Trials, root: Path) -> tuple[int, str]:
    """Write the answers to the manifest of the stimulus set at `root`; return the number of images and whose answers.

    The answers are people's, or simulated people's where there are no others: never both.
    """
    kind: Literal["human", "simulated"] = "human" if (trials.frame["kind"] == "human").any() else "simulated"
    whose = "people's" if kind == "human" else "simulated people's"
    return write_gold_labels(root, trials, kind=kind), whose


def write_curated(trials: Trials, out: Path, *, files: Mapping[str, str]) -> Path:
    """Write the curated list, which `cosight build` reads."""
    return _write_text(curated_list(trials, files=files).write_csv(), path_beside(out, "curated.csv"))


def write_roster(roster: pl.DataFrame, out: Path) -> Path:
    """Write who took part. Platform ids and demographics are personal data: do not publish the file."""
    return _write_text(roster.write_csv(), path_beside(out, "participants.csv"))


def _write_text(text: str, path: Path) -> Path:
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path
