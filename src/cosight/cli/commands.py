"""Groups and commands: help texts with examples, hints for misspelled names, extras that a command needs.

The docstring of a command is its help text. Lines under `Examples:` are printed at the end as they stand, and the tests
run them; `Args:`, `Returns:` and `Raises:` are for readers of the code.
"""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from cosight.errors import did_you_mean
from cosight.extras import require_for

__all__ = ["Command", "Group", "commands_of", "describe_usage_error", "split_docstring"]


def split_docstring(docstring: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a docstring before its sections, and the lines of its section `Examples:`.

    >>> split_docstring('''Add two numbers.
    ...
    ... Args:
    ...     a: The first number.
    ...
    ... Examples:
    ...     add 1 2
    ... ''')
    ('Add two numbers.', ('add 1 2',))
    """
    text = re.split(r"^(?:Args:|Returns:|Raises:|Examples:|>>>)", docstring, maxsplit=1, flags=re.MULTILINE)[0]
    section = re.search(r"^Examples:\n((?:[ ]+.*\n?|\n)*)", docstring, re.MULTILINE)
    examples = (line.strip() for line in (section[1] if section else "").splitlines())
    return text.strip(), tuple(line for line in examples if line)


class _WithExamples:
    """What commands and groups share: a help text that ends with examples."""

    help: str | None

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.help, self.examples = split_docstring(self.help or "")

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help text, whatever its length."""
        first = (self.help or "").partition("\n\n")[0]
        return " ".join(first.split()).partition(". ")[0].rstrip(".")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, unwrapped so that they can be copied."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Command(_WithExamples, TyperCommand):
    """A command. It checks first that the packages it needs are installed."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; usage errors that it raises know their command."""
        require_for(ctx.command_path.partition(" ")[2])
        try:
            return super().invoke(ctx)
        except TyperException as error:
            if getattr(error, "ctx", None) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise


class Group(_WithExamples, TyperGroup):
    """A group of commands. Without a command it prints its help text."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{**settings, "suggest_commands": False})  # `get_command` suggests

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before the command's name."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; the message about an unknown one has the nearest names."""
        command = super().get_command(ctx, cmd_name)
        if command is None and ctx is not None and not cmd_name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no command is called {cmd_name!r}; {did_you_mean(cmd_name, self.list_commands(ctx))}")
        return command


def commands_of(group: Any, name: str = "cosight") -> list[tuple[str, Any]]:
    """Return the full name and the command of everything below a group; `get_command(app)` is the largest."""
    if not hasattr(group, "list_commands"):
        return [(name, group)]
    below = {key: group.get_command(None, key) for key in group.list_commands(None)}
    return [pair for key, command in below.items() for pair in commands_of(command, f"{name} {key}")]


def describe_usage_error(error: TyperException) -> str:
    """Return the message about a wrong argument, with the nearest option and the command whose help text explains it.

    Args:
        error: The error that Typer raised while it parsed the command line.
    """
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    if context is not None and hasattr(error, "possibilities"):  # an unknown option
        name = error.option_name  # type: ignore[attr-defined]
        known = [option for parameter in context.command.get_params(context) for option in parameter.opts]
        guess = did_you_mean(name, (option for option in known if option.startswith("--")), otherwise="")
        message = f"no such option: {name}" + (f"; {guess}" if guess else "")
    hint = f"see `{context.command_path if context else 'cosight'} --help`"
    return f"{message} ({hint})" if message.endswith("?") else f"{message}; {hint}"
