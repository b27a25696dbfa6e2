"""The `cosight` program: its commands, and how errors are reported.

Exit codes: 0 success, 2 user error (one line on standard error), 1 anything else.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise

import typer
from typer.exceptions import Abort, TyperException

from cosight.cli import build, data, export, run, stimuli, study, trials
from cosight.cli.commands import Command, Group, describe_usage_error
from cosight.cli.compare import compare
from cosight.cli.demo import demo
from cosight.cli.disagree import disagree
from cosight.cli.evaluate import evaluate
from cosight.cli.figure import figure
from cosight.cli.judge import judge
from cosight.cli.listing import list_names
from cosight.cli.plan import plan
from cosight.cli.report import report
from cosight.cli.score import score
from cosight.cli.shift import shift
from cosight.cli.signatures import add_command
from cosight.cli.train import train
from cosight.errors import CosightError, InvalidInput, first_line
from cosight.extras import extra_of

__all__ = ["app", "main"]

app = typer.Typer(
    name="cosight",
    help="Measure how closely vision models match human perception: one table of trials for people and models, every "
    "number with its interval.",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo", cls=Command)(demo)
add_command(app, "evaluate", evaluate, function="cosight.runs.evaluate:evaluate")
add_command(app, "compare", compare, function="cosight.scoring.compare:compare")
add_command(app, "score", score, function="cosight.scoring.score:score")
add_command(app, "disagree", disagree, function="cosight.scoring.disagree:disagree")
add_command(app, "report", report, function="cosight.reports.site:report")
add_command(app, "figure", figure, function="cosight.reports.figures:figure")
add_command(app, "shift", shift, function="cosight.runs.shift:shift")
add_command(app, "plan", plan, function="cosight.scoring.plan:plan", renamed={"observers": "observer"})
add_command(app, "train", train, function="cosight.training.trainer:train")
add_command(app, "judge", judge, function="cosight.models.judges.answer_tasks:judge")
app.command("list", cls=Command)(list_names)
app.add_typer(build.app, name="build")
app.add_typer(run.app, name="run")
app.add_typer(trials.app, name="trials")
app.add_typer(data.app, name="data")
app.add_typer(stimuli.app, name="stimuli")
app.add_typer(study.app, name="study")
app.add_typer(export.app, name="export")


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"cosight {installed('cosight')}")
        raise typer.Exit


def main() -> None:
    """Run the program; print a user error as one line on standard error."""
    try:
        for before, argument in pairwise(sys.argv):
            if not argument and not before.startswith("-"):  # an empty path would stand for the current folder
                raise InvalidInput("an argument is empty (''); name a file or folder, or leave it out")
        try:
            code = app(standalone_mode=False, prog_name="cosight")
        except (ImportError, RuntimeError) as error:
            if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C during an import
                raise KeyboardInterrupt from error
            raise
    except TyperException as error:
        _exit_with(describe_usage_error(error))
    except CosightError as error:
        _exit_with(str(error))
    except ModuleNotFoundError as error:
        extra = extra_of((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _exit_with(f"this needs {error.name}, not installed here; pip install 'cosight[{extra}]'")
    except MemoryError as error:
        _exit_with(f"not enough memory ({error}); use fewer --resamples, fewer observers or a smaller --batch")
    except RuntimeError as error:
        from cosight.devices import is_out_of_memory

        if is_out_of_memory(error):
            _exit_with(f"not enough memory ({first_line(error)}); use a smaller batch or model, or another --device")
        if not str(error).startswith("Symlink loop"):  # Path.resolve before Python 3.13
            raise
        _exit_with(f"{error}; name a file or folder that exists")
    except (Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # the reader has closed the pipe (`cosight ... | head`); this avoids an error message at the flush on exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a file that cannot be read or written
        from cosight.files import DISK_FULL

        hint = "; free some space, then run the same command again" if error.errno in DISK_FULL else ""
        _exit_with(f"{error.filename or 'a file'}: {error.strerror or error}{hint}")
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _exit_with(message: str) -> None:
    typer.echo(f"cosight: {' '.join(message.split())}", err=True)
    sys.exit(2)
