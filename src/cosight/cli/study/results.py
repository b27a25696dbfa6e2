"""`cosight study quality` and `export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosight.cli.options import AsCsv, AsJson, notify
from cosight.cli.output import check_pipe
from cosight.cli.study.lifecycle import Database, StudyFolder
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.humans.results.quality import Quality
    from cosight.trials import Trials

__all__ = ["export", "quality"]


def quality(study: StudyFolder, db: Database = None, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """Show which participants are excluded and why, and how far the others agree, with intervals.

    --csv prints the participants, --json everything. For a curate study it lists images on which curators disagree.

    Examples:
        cosight study quality survey
        cosight study quality survey --csv
    """
    from cosight.humans.results.quality import assess
    from cosight.study import read_trials

    if as_json and as_csv:
        raise InvalidInput("choose one of --json and --csv, got both")
    if as_json or as_csv:
        check_pipe("--json" if as_json else "--csv")
    trials = read_trials(study, db=db)
    assessment = assess(trials)
    notify(assessment.notices)
    if as_json:
        typer.echo(assessment.to_json())
    elif as_csv:
        typer.echo(assessment.to_csv(), nl=False)
    else:
        _print_quality(assessment, trials)


def export(
    study: StudyFolder,
    out: Annotated[Path, typer.Argument(help="The file or folder to write.", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="parquet, csv, model-vs-human or psych-ds (default: by the file's suffix, .parquet or .csv).",
        ),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Include excluded participants.")] = False,
    gold: Annotated[
        bool, typer.Option("--gold", help="Also write gold labels, and add them to the stimulus set.")
    ] = False,
    curated: Annotated[
        bool, typer.Option("--curated", help="Also write the list of kept and rejected images.")
    ] = False,
    participants: Annotated[
        bool,
        typer.Option("--participants", help="Also write the participants: platform ids, bonuses, demographics."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    db: Database = None,
) -> None:
    """Write the answers of a study without excluded participants, and a file that lists those with the reasons.

    Examples:
        cosight study export survey survey.parquet --gold
        cosight study export survey psych-ds --format psych-ds --all
    """
    from cosight.study import export as export_study

    done = export_study(
        study,
        out,
        to=to,
        everyone=everyone,
        gold=gold,
        curated=curated,
        participants=participants,
        force=force,
        db=db,
    )
    notify(done.notices)
    typer.echo(f"{len(done.trials)} trials of {done.trials.frame['observer'].n_unique()} participants: {out}")
    for path in done.paths:
        typer.echo(f"also wrote: {path}")


def _print_quality(assessment: Quality, trials: Trials) -> None:
    from cosight.cli.tables import print_text
    from cosight.humans.results.export import curated_list, is_curation

    _print_table("participants", [_participant_cells(row) for row in assessment.participants.iter_rows(named=True)])
    for one in assessment.flagged:
        print_text(f"excluded: {one.participant}: {'; '.join(one.reasons)}")
    typer.echo("")
    _print_table("agreement", [_agreement_cells(row) for row in assessment.agreement])
    if is_curation(trials) and len(assessment.kept):
        images = curated_list(assessment.kept)
        disputed = images.filter("disagreement")
        kept = int(images["kept"].sum())
        print_text(f"{kept} of {images.height} images kept; curators disagree about {disputed.height}:")
        columns = disputed.select("image", "keep", "reject", "reasons")
        cells = [{name: str(value or "") for name, value in row.items()} for row in columns.iter_rows(named=True)]
        _print_table("disagreements", cells)
    print_text(
        f"value [95% interval], {assessment.resamples} resamples, seed {assessment.seed}; --json has every number"
    )


def _participant_cells(row: Mapping[str, Any]) -> dict[str, str]:
    def fraction(passed: int, failed: int) -> str:
        return f"{passed}/{passed + failed}" if passed + failed else ""

    return {
        "participant": row["participant"],
        "trials": str(row["trials"]),
        "missed": str(row["missed"] or ""),
        "finished": {True: "yes", False: "no", None: ""}[row["finished"]],
        "median s": "" if row["median_rt"] is None else f"{row['median_rt']:.2f}",
        "distractors": fraction(row["distractors_passed"], row["distractors_failed"]),
        "checks": fraction(row["checks_passed"], row["checks_failed"]),
        "gold": fraction(row["gold_passed"], row["gold_failed"]),
        "repeats": fraction(row["repeats_same"], row["repeats"] - row["repeats_same"]),
        "run": str(row["longest_run"]),
        "late": str(row["late"] or ""),
        "windowed": str(row["windowed"] or ""),
        "commonest": "" if row["commonest_share"] is None else f"{row['commonest_share']:.0%}",
        "out": "out" if row["excluded"] else "",
    }


def _agreement_cells(row: Any) -> dict[str, str]:
    value = "-" if row.value is None else f"{row.value:.3f}"
    interval = "" if row.low is None or row.high is None else f" [{row.low:.3f}, {row.high:.3f}]"
    measure = row.measure.replace("_", " ")
    return {"measure": measure, "of": row.observer, "value": value + interval, "n": str(row.n), "note": row.note}


def _print_table(title: str, rows: Sequence[Mapping[str, str]]) -> None:
    """Print a table without columns that are empty in every row."""
    from cosight.cli.tables import print_table

    columns = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    print_table([{name: row[name] for name in columns} for row in rows], title=title)
