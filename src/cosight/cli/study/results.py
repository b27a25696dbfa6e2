"""`cosight study quality` and `export`: what the answers are worth, and taking them away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosight.cli.options import AsCsv, AsJson, notify
from cosight.cli.study.running import Database, StudyFolder
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from cosight.humans.database.store import Store
    from cosight.humans.results.quality import Quality
    from cosight.humans.study.design import Study
    from cosight.humans.study.pool import Pool
    from cosight.trials import Trials

__all__ = ["export", "quality"]


def quality(study: StudyFolder, db: Database = None, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """Who did the task and who is left out, with every reason; how far the others agree, with intervals.

    --csv has the participants, --json everything. In a curate study, the images that curators disagree about.
    """
    from cosight.humans.database.study_trials import study_trials
    from cosight.humans.results.quality import assess

    if as_json and as_csv:
        raise InvalidInput("choose one of --json and --csv, got both")
    with _opened(study, db) as (design, pool, store):
        trials = study_trials(design, pool, store)
    found = assess(trials)
    notify(found.notices)
    if as_json:
        typer.echo(found.to_json())
    elif as_csv:
        typer.echo(found.to_csv(), nl=False)
    else:
        _print(found, trials)


def export(
    study: StudyFolder,
    out: Annotated[Path, typer.Argument(help="The file or folder to write.", show_default=False)],
    to: Annotated[str, typer.Option("--format", help="parquet, model-vs-human or psych-ds.")] = "parquet",
    everyone: Annotated[bool, typer.Option("--all", help="Also those who are left out.")] = False,
    gold: Annotated[
        bool, typer.Option("--gold", help="Also write gold labels, and attach them to the stimulus set.")
    ] = False,
    curated: Annotated[
        bool, typer.Option("--curated", help="Also write the list of kept and rejected images.")
    ] = False,
    participants: Annotated[
        bool,
        typer.Option("--participants", help="Also write who took part: platform ids, bonuses, what they said."),
    ] = False,
    db: Database = None,
) -> None:
    """Write a study's answers without those of the participants who are left out; beside them who that is and why."""
    from cosight.humans.database.roster import roster
    from cosight.humans.database.study_trials import study_trials
    from cosight.humans.results import export as exports
    from cosight.humans.results.quality import assess

    with _opened(study, db) as (design, pool, store):
        trials = study_trials(design, pool, store)
        people = roster(design, pool, store) if participants else None
    found = assess(trials, resamples=None)
    chosen = trials if everyone else found.kept
    written = exports.write_trials(chosen, out, to=to)
    gold_notices = _attached(chosen, design.set) if gold and design.space is not None else ()
    paths = [exports.write_excluded(found, out, everyone=everyone)]
    if gold:
        paths.append(exports.write_gold(chosen, out))
    if curated:
        paths.append(exports.write_curated(chosen, out, files=_files(pool, design.set)))
    if people is not None:
        paths.append(exports.write_roster(people, out))
    notify((*found.notices, *written.notices, *gold_notices))
    typer.echo(f"{len(written)} trials of {written.frame['observer'].n_unique()} participants: {out}")
    for path in paths:
        typer.echo(f"beside it: {path}")


@contextmanager
def _opened(folder: Path, db: str | None) -> Iterator[tuple[Study, Pool, Store]]:
    """The study, what it shows and its database."""
    from cosight.humans.database.store import Store
    from cosight.humans.study.design import read_study
    from cosight.humans.study.pool import pool_of

    study = read_study(folder)
    pool = pool_of(study)
    with closing(Store.open(study, db)) as store:
        yield study, pool, store


def _files(pool: Pool, root: Path) -> dict[str, str]:
    """Names of the set's images, by digest."""
    slots = [slot for item in pool.items.values() for slot in item.slots if slot.file.is_relative_to(root)]
    return {slot.stimulus: slot.file.relative_to(root).as_posix() for slot in slots}


def _attached(trials: Trials, root: Path) -> tuple[str, ...]:
    from cosight.humans.results.export import attach_gold
    from cosight.trials.manifest import MANIFEST
    from cosight.trials.table import role_notices

    if not (root / MANIFEST).is_file():
        return (f"{root} has no {MANIFEST} to keep gold labels in: they are in the table only",)
    images, whose = attach_gold(trials, root)
    return (*role_notices(trials.frame, ("test",)), f"gold labels of {images} images of {root} are {whose} now")


def _print(found: Quality, trials: Trials) -> None:
    from cosight.humans.results.curator_votes import curated_list, is_curation

    _print_rows("participants", [_line(row) for row in found.participants.iter_rows(named=True)])
    for one in found.flagged:
        typer.echo(f"left out: {one.participant}: {'; '.join(one.reasons)}")
    typer.echo("")
    _print_rows("agreement", [_coefficient(row) for row in found.agreement])
    if is_curation(trials) and len(found.kept):
        _print_disagreements(curated_list(found.kept))
    typer.echo(f"value [95% interval], {found.resamples} resamples, seed {found.seed}; --json has every number")


def _line(row: Mapping[str, Any]) -> dict[str, str]:
    """A participant as a reader wants them; checks of a kind that nobody met are left out later."""
    tested = {name: _of(row[f"{name}_passed"], row[f"{name}_failed"]) for name in ("distractors", "checks", "gold")}
    repeats = _of(row["repeats_same"], row["repeats"] - row["repeats_same"])
    return {
        **{"participant": row["participant"], "trials": str(row["trials"]), "missed": str(row["missed"] or "")},
        "finished": {True: "yes", False: "no", None: ""}[row["finished"]],
        "median s": "" if row["median_rt"] is None else f"{row['median_rt']:.2f}",
        **{**tested, "repeats": repeats, "run": str(row["longest_run"]), "late": str(row["late"] or "")},
        "commonest": "" if row["commonest_share"] is None else f"{row['commonest_share']:.0%}",
        "out": "out" if row["excluded"] else "",
    }


def _of(passed: int, failed: int) -> str:
    return f"{passed}/{passed + failed}" if passed + failed else ""


def _coefficient(row: Any) -> dict[str, str]:
    value = "-" if row.value is None else f"{row.value:.3f}"
    ends = "" if row.low is None or row.high is None else f" [{row.low:.3f}, {row.high:.3f}]"
    name = row.measure.replace("_", " ")
    return {"measure": name, "of": row.observer, "value": value + ends, "n": str(row.n), "note": row.note}


def _print_disagreements(images: pl.DataFrame) -> None:
    apart = images.filter("disagreement")
    kept = int(images["kept"].sum())
    typer.echo(f"{kept} of {images.height} images kept; curators disagree about {apart.height}:")
    names = ("image", "keep", "reject", "reasons")
    _print_rows(
        "disagreements", [{name: str(row[name] or "") for name in names} for row in apart.iter_rows(named=True)]
    )


def _print_rows(title: str, rows: Sequence[Mapping[str, str]]) -> None:
    """A table; columns that are empty throughout are left out."""
    from rich.table import Table

    from cosight.cli.tables import console

    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    console().print(table)
