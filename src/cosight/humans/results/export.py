"""A study's results on disk: its trials, who is excluded and why, gold labels, curated lists."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
from cosight.stimuli.sets import StimulusSet, gold_labels
from cosight.trials.choices import KEEP, REJECT, TARGET
from cosight.trials.file_tables import csv_text
from cosight.trials.formats import write
from cosight.trials.manifest import MANIFEST, write_manifest
from cosight.trials.table import Trials, role_notices

if TYPE_CHECKING:
    from cosight.humans.results.quality import Quality

__all__ = [
    "FORMATS",
    "Export",
    "LabelledSet",
    "curated_list",
    "export_format",
    "export_results",
    "gold_table",
    "is_curation",
    "label_set",
    "path_beside",
    "read_exclusions",
]

FORMATS = ("parquet", "csv", "model-vs-human", "psych-ds")
_SUFFIXES = {".parquet": "parquet", ".csv": "csv"}  # the other formats are folders
_ROSTER = "participants.csv"
_EXCLUDED = "excluded.json"
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


@dataclass(frozen=True, slots=True)
class Export:
    """What an export has written: the trials, the files beside them, and notices."""

    trials: Trials
    paths: tuple[Path, ...]
    notices: tuple[str, ...]


def export_results(
    trials: Trials,
    quality: Quality,
    out: Path,
    *,
    to: str | None = None,
    everyone: bool = False,
    gold: Path | None = None,
    curated: Mapping[str, str] | None = None,
    roster: pl.DataFrame | None = None,
    force: bool = False,
) -> Export:
    """Write a study's results. Whatever is refused is refused before the first file is written.

    Args:
        trials: All trials of the study.
        quality: Their quality; who is excluded is listed in `OUT-excluded.json`, with the reasons and the rules.
        out: The file or folder of the trials. The other files are written beside it.
        to: Format of the trials; None: that of the suffix of `out`. A CSV file is for spreadsheets: texts that they
            would take for a formula begin with an apostrophe, and only its owner can read it.
        everyone: Whether the trials include those of excluded participants.
        gold: The stimulus set that gets the answers as gold labels; they are also written to `OUT-gold.csv`.
        curated: The names of the images in their set, by digest: write the votes to `OUT-curated.csv`.
        roster: Who took part, written to `OUT-participants.csv`, which only its owner can read.
        force: Whether existing files are overwritten.

    Raises:
        InvalidInput: A file exists already, or the answers do not allow what was asked for.
    """
    chosen = trials if everyone else quality.kept
    to = export_format(out, to)
    _check_output(chosen, out, to)
    texts = {path_beside(out, _EXCLUDED): _excluded_json(quality, everyone=everyone)}
    labels: LabelledSet | None = None
    notices: list[str] = []
    if gold is not None:
        texts[path_beside(out, "gold.csv")] = csv_text(gold_table(chosen))
        if chosen.space is not None and not (gold / MANIFEST).is_file():
            notices.append(f"{gold} has no {MANIFEST}: the gold labels are in the table only")
        elif chosen.space is not None:
            labels = label_set(chosen, gold)
            notices += role_notices(chosen.frame, ("test",))
            notices.append(f"gold labels of {labels.images} images of {gold} are {labels.whose} now")
    if curated is not None:  # `cosight build` reads it, so names stay as they are
        texts[path_beside(out, "curated.csv")] = curated_list(chosen, files=curated).write_csv()
    if roster is not None:
        texts[path_beside(out, _ROSTER)] = csv_text(roster)
    for path in texts:  # `write` checks the files of the trials
        if not force and os.path.lexists(path):
            raise InvalidInput(f"{path} exists; choose another name, or overwrite it with --force")
    written = write(chosen, out, to=to, force=force)
    if to == "csv":
        out.chmod(0o600)
    for path, text in texts.items():
        with atomic_write(path, private=path == path_beside(out, _ROSTER)) as draft:
            draft.write_text(text, encoding="utf-8")
    if labels is not None:
        write_manifest(labels.stimuli.root, labels.stimuli.frame, labels.stimuli.facts)
    return Export(written, tuple(texts), (*written.notices, *notices))


def export_format(out: Path, to: str | None = None) -> str:
    """Return the format of an export, chosen by name or by the suffix of the file.

    Raises:
        InvalidInput: There is no such format, or the file has the suffix of another.

    >>> export_format(Path("answers.csv")), export_format(Path("answers"), "psych-ds")
    ('csv', 'psych-ds')
    """
    if to is not None and to not in FORMATS:
        raise InvalidInput(f"the format must be one of {', '.join(FORMATS)}, got {to!r}")
    by_suffix = _SUFFIXES.get(out.suffix.lower())
    if (to or by_suffix) is None or (to in _SUFFIXES.values() and by_suffix != to):
        raise InvalidInput(
            f"an export is a file that ends in .parquet or .csv, or a folder with --format model-vs-human or psych-ds, "
            f"got {out.name or out}"
        )
    return to or str(by_suffix)


def _check_output(trials: Trials, out: Path, to: str) -> None:
    if not out.name or (to in _SUFFIXES.values() and out.is_dir()):
        raise InvalidInput(f"the output must be a new file or folder, got {out}; choose another")
    if to == "model-vs-human" and trials.space is None:
        raise InvalidInput("model-vs-human files hold classes, got other answers; export parquet or psych-ds")
    if not len(trials):
        raise InvalidInput(
            "there are no answers to export; collect some, or use --all to include excluded participants"
        )


def _excluded_json(quality: Quality, *, everyone: bool) -> str:
    """Return who is excluded, why and by which rules, as JSON."""
    content = {
        "participants": quality.participants.height,
        "written_all_the_same": everyone,
        "excluded": [asdict(one) for one in quality.flagged],
        "rules": asdict(quality.rules),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_exclusions(trials: Path) -> dict[str, Any] | None:
    """Read the participants that were excluded from a study, from the file beside its exported trials.

    Args:
        trials: The exported trials.

    Returns:
        The number of `participants`, the `excluded` ones with their reasons, the `rules`, and whether the trials have
        them `written_all_the_same`; None where there is no such file.
    """
    try:
        content = json.loads(path_beside(trials, _EXCLUDED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    names = {"participants", "written_all_the_same", "excluded", "rules"}
    return content if isinstance(content, dict) and content.keys() == names else None


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """A stimulus set with gold labels that are not written yet, the number of labelled images, and whose they are."""

    stimuli: StimulusSet
    images: int
    whose: str


def label_set(trials: Trials, root: Path) -> LabelledSet:
    """Return the stimulus set at `root` with the answers as gold labels.

    The answers are people's, or simulated people's where there are no others: never both.
    """
    kind: Literal["human", "simulated"] = "human" if (trials.frame["kind"] == "human").any() else "simulated"
    stimuli, images = gold_labels(root, trials, kind=kind)
    return LabelledSet(stimuli, images, "people's" if kind == "human" else "simulated people's")
