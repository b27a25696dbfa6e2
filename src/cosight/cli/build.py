"""`cosight build`: one command per benchmark that can be built, read from the registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperGroup
from typer.main import get_command

from cosight.cli.options import notify, progress_bar

__all__ = ["app"]

_ENDINGS = {  # options that every build takes
    "humans": "Trials of people: their answers become gold labels, of Uncertain images where the set has groups.",
    "sheet": "Also write a contact sheet (.png, .jpg).",
}


class _Builders(TyperGroup):
    """The benchmarks that can be built, those of other packages included. The registry is read when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        from cosight.benchmarks import benchmarks

        return [name for name, entry in benchmarks.items() if entry.build is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of one of them; another name raises an error that says what there is."""
        from cosight.benchmarks import benchmarks, builder_of

        entry = benchmarks[cmd_name]
        own = typer.Typer(add_completion=False, rich_markup_mode=None)
        own.command(entry.name)(_command(entry.name, builder_of(entry)))
        return get_command(own)


app = typer.Typer(cls=_Builders, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _build() -> None:
    """Build a benchmark's stimulus set: images, splits, gold labels, distractors, a datasheet."""


def _command(name: str, builder: Callable[..., Any]) -> Callable[..., None]:
    """Make a command of a builder: its own parameters, and what every build can end with."""
    parameters = signature(builder, eval_str=True).parameters.values()
    positional = [parameter.name for parameter in parameters if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]

    def run(**given: Any) -> None:
        from cosight.benchmarks import build

        arguments = [given.pop(argument) for argument in positional]
        with progress_bar() as progress:
            if any(parameter.name == "progress" for parameter in parameters):
                given["progress"] = progress
            built = build(name, *arguments, **given)
        parts = [part for part in (built.made, built.closed) if part is not None]
        dropped = Counter((job.rsplit("/", 1)[0], reason) for part in parts for job, reason in part.dropped.items())
        missing = (f"{count} of {place} are missing: {reason}" for (place, reason), count in sorted(dropped.items()))
        notify((*built.notices, *missing))
        new, present = sum(part.new for part in parts), sum(part.present for part in parts)
        there = f", {present} were there" if present else ""
        typer.echo(f"{new} stimuli made{there}: {arguments[positional.index('out')]}")

    endings = [
        Parameter(option, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, text])
        for option, text in _ENDINGS.items()
    ]
    own = [_typer_parameter(parameter) for parameter in (*parameters, *endings) if parameter.name != "progress"]
    run.__doc__ = cleandoc(builder.__doc__ or "")
    run.__signature__ = Signature(own)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return run


def _typer_parameter(parameter: Parameter) -> Parameter:
    """A builder's parameter as Typer declares it: positional ones are arguments, keyword-only ones options."""
    annotated = get_origin(parameter.annotation) is Annotated
    kind, *texts = get_args(parameter.annotation) if annotated else (parameter.annotation,)
    text = next((text for text in texts if isinstance(text, str)), "")
    if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
        declared: Any = typer.Argument(help=text, show_default=False)
    else:
        declared = typer.Option(f"--{parameter.name.replace('_', '-')}", help=text)
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, declared])
