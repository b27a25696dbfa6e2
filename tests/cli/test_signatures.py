"""Commands made from the signatures of functions."""

import subprocess
import sys
from collections.abc import Sequence
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from cosight.cli.commands import split_docstring
from cosight.cli.signatures import Call, add_command, command_for

CALLS: list[Call] = []


def paint(
    wall: str | Path,
    *others: Any,
    colour: Literal["red", "blue"] = "red",
    layers: int | None = None,
    widths: float | Sequence[float] = (1.0,),
    tools: Sequence[str] | None = None,
    helpers: list[str] | None = None,
    wet: bool = False,
    dry: bool = True,
    note: Annotated[str, "A note."] = "",
    progress: Any = None,
) -> None:
    """Paint walls.

    Slowly.

    Args:
        wall: The wall.
        *others: More walls.
        colour: Which colour; `dry` is better.
        layers: Number of layers, of which
            the last is glossy.

    Returns:
        Nothing: there are `colour` and `wall`.
    """


def record(call: Call, as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False) -> None:
    """Paint and print."""
    CALLS.append(call)
    typer.echo(f"json {as_json}")


@pytest.fixture
def run():
    app = typer.Typer(rich_markup_mode=None)
    app.command("other")(lambda: None)
    add_command(app, "paint", record, function=f"{__name__}:paint", renamed={"helpers": "helper"})
    CALLS.clear()
    return lambda *arguments: CliRunner().invoke(app, ["paint", *arguments])


def test_values_reach_the_function_with_their_types(run):
    done = run(
        "a", "b", "c", "--colour", "blue", "--layers", "2", "--widths", ".5,1", "--tools", "brush, roll",
        "--tools", "tape", "--helper", "x,y", "--helper", "z", "--wet", "--no-dry", "--json",
    )  # fmt: skip
    assert done.output == "json True\n"
    (call,) = CALLS
    assert call.function is paint
    assert call.arguments == (Path("a"), "b", "c")
    assert call.options == {
        "colour": "blue", "layers": 2, "widths": [0.5, 1.0], "tools": ["brush", "roll", "tape"],
        "helpers": ["x,y", "z"], "wet": True, "dry": False, "note": "",
    }  # fmt: skip


def test_an_option_that_is_not_given_keeps_the_functions_default(run):
    assert run("a", "b").exit_code == 0
    assert CALLS[0].options == {"colour": "red", "wet": False, "dry": True, "note": ""}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b", "--colour", "green"), "'green' is not one of 'red', 'blue'"),
        (("a", "b", "--layers", "many"), "--layers"),
        (("a", "b", "--widths", "1,wide"), "--widths takes comma-separated numbers, got 1,wide"),
        (("a",), "others"),
        (("a", "b", "--progress", "x"), "No such option: --progress"),
    ],
)
def test_wrong_values_are_refused(run, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_help_texts_come_from_the_docstring(run):
    text = " ".join(run("--help").output.split())
    assert "Paint and print." in text
    assert "Number of layers, of which the last is glossy." in text
    assert "Which colour; --dry is better." in text
    assert "A note." in text
    assert "--helper " in text
    assert "progress" not in text


def test_a_parameter_of_the_action_replaces_the_functions(run):
    def action(call: Call, colour: Annotated[str, typer.Option(help="Any colour.")] = "green") -> None:
        call.options.update(asked=colour)
        CALLS.append(call)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(command_for(paint, action))
    assert CliRunner().invoke(app, ["a", "b", "--colour", "grey"]).exit_code == 0
    assert CALLS[0].options["asked"] == "grey"
    assert "colour" not in CALLS[0].options


def test_text_and_examples_of_a_docstring():
    text, examples = split_docstring(f"{getdoc(paint)}\n\nExamples:\n    paint wall\n\n    paint roof --wet\n")
    assert text.split() == ["Paint", "walls.", "Slowly."]
    assert examples == ("paint wall", "paint roof --wet")


def test_help_imports_no_function():
    code = "import sys; from cosight.cli.app import app; app(['--help'], standalone_mode=False)"
    loaded = f"{code}; print([name for name in ('numpy', 'polars', 'torch', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
