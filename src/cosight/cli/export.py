"""`cosight export`: results and stimulus sets in public interchange formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cosight.cli.commands import Group
from cosight.cli.signatures import Call, add_command

if TYPE_CHECKING:
    from cosight.export import ExportResult

__all__ = ["app"]

app = typer.Typer(
    cls=Group,
    help="Write results and stimulus sets in public interchange formats.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def every_eval_ever(call: Call) -> None:
    """Write score rows as records of Every Eval Ever, one JSON file per model.

    The records have each model's values alone and against people, with their intervals.

    Examples:
        cosight export every-eval-ever scores.json --benchmark edges --evaluator Lab
        cosight export every-eval-ever scores.json --benchmark edges --evaluator Me
    """
    _print_result(call())


def eval_results(call: Call) -> None:
    """Write score rows as evaluation results of Hugging Face model repositories, one YAML file per model.

    Examples:
        cosight export eval-results scores.json --dataset owner/edges
        cosight export eval-results scores.json --dataset owner/edges --out cards
    """
    _print_result(call())


def croissant(call: Call) -> None:
    """Describe a stimulus set as Croissant JSON-LD, in croissant.json next to its manifest.

    Examples:
        cosight export croissant foggy --license CC-BY-4.0 --creator Lab
        cosight export croissant foggy --license MIT --creator Lab --name fog
    """
    typer.echo(f"wrote {call()}")


def _print_result(result: ExportResult) -> None:
    models = "1 model" if len(result.files) == 1 else f"{len(result.files)} models"
    typer.echo(f"wrote {result.rows} values of {models}, for example {result.files[0]}")
    if result.left_out:
        typer.echo(f"left out {result.left_out} rows: people, differences, ranks, ceilings, undefined or quoted values")


add_command(app, "every-eval-ever", every_eval_ever, function="cosight.export:every_eval_ever")
add_command(app, "eval-results", eval_results, function="cosight.export:eval_results")
add_command(app, "croissant", croissant, function="cosight.export:croissant")
