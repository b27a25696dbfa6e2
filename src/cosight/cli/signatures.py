"""Commands made from Python functions: the signature and the docstring of a function declare its options.

| parameter of the function | on the command line |
|---|---|
| positional, `*args` | an argument |
| keyword-only | an option; required without a default |
| `bool` | a flag |
| `Literal[...]` | one of these words |
| `Sequence[...]` | comma-separated values; the option may also be repeated |
| `list[...]` | the option may be repeated; commas are part of a value |
| a union | the first of its types that can be typed: sequences, numbers, words, paths, text |

The help text of an option is the parameter's entry under `Args:` in the docstring, or a string in its `Annotated`.
A parameter named `progress` is left to the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.main import get_command

from cosight.cli.commands import Command
from cosight.extras import MissingExtra, require_for
from cosight.registry import split_names

__all__ = ["Call", "add_command", "argument_texts", "command_for"]

_TYPES = (bool, int, float, Path, str)  # what one value on the command line can be; the first one of a union is taken


@dataclass(frozen=True, slots=True)
class Call:
    """A function and what the command line gives for its parameters."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]  # only the options that were given, or that have a default on the command line

    def __call__(self, *more_arguments: Any, **more_options: Any) -> Any:
        """Call the function; arguments of the command itself come last and win."""
        return self.function(*self.arguments, *more_arguments, **{**self.options, **more_options})


def add_command(
    app: typer.Typer,
    name: str,
    action: Callable[..., None],
    *,
    function: str,
    renamed: Mapping[str, str] | None = None,
) -> None:
    """Add a command to `app` that has the options of a function and of `action`.

    The function is imported when the command is used, not for the help text of `app`.

    Args:
        app: The Typer program or group.
        name: Name of the command.
        action: What the command does: its first parameter is the `Call`, the others are declared as Typer does and
            replace the function's parameters of the same name. Its docstring is the command's help text.
        function: The function as `module:name`.
        renamed: Parameter of the function -> name of its argument or option, where they differ.
    """

    @cache
    def complete() -> Any:
        module, attribute = function.split(":")
        own = typer.Typer(add_completion=False, rich_markup_mode=None)
        own.command(name, cls=Command)(command_for(getattr(import_module(module), attribute), action, renamed=renamed))
        return get_command(own)

    class LazyCommand(Command):
        def make_context(self, info_name: Any, args: Any, parent: Any = None, **settings: Any) -> Any:
            try:
                if parent is not None:
                    require_for(f"{parent.command_path} {info_name}".partition(" ")[2])  # the function may import them
            except MissingExtra as error:
                if "--help" not in args:
                    raise
                typer.echo(f"{error}. The options are listed then.\n")
                return super().make_context(info_name, args, parent=parent, **settings)
            return complete().make_context(info_name, args, parent=parent, **settings)

    def placeholder() -> None:
        pass

    app.command(name, cls=LazyCommand, help=getdoc(action))(placeholder)


def command_for(
    function: Callable[..., Any],
    action: Callable[..., None],
    *,
    renamed: Mapping[str, str] | None = None,
    help_text: str | None = None,
) -> Callable[..., None]:
    """Return a function that Typer makes a command of; see `add_command`."""
    names = dict(renamed or {})
    own = dict(list(signature(action, eval_str=True).parameters.items())[1:])
    texts = argument_texts(getdoc(function) or "")
    parameters = {
        name: parameter
        for name, parameter in signature(function, eval_str=True).parameters.items()
        if name not in own and name != "progress"
    }
    options = {name: names.get(name, name) for name in parameters}
    declared = {
        name: _typer_parameter(parameter, options[name], _help_text(parameter, texts, options))
        for name, parameter in parameters.items()
    }

    def run(**values: Any) -> None:
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        for name, parameter in parameters.items():
            value = values.pop(options[name])
            if parameter.kind is Parameter.VAR_POSITIONAL:
                arguments += value
            elif parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
                arguments.append(value)
            elif (value := _split_values(value, parameter, options[name])) is not None:
                keywords[name] = value
        action(Call(function, tuple(arguments), keywords), **values)

    order = [declared.get(name) or own[name] for name in signature(function).parameters if name in {*declared, *own}]
    order += [parameter for name, parameter in own.items() if parameter not in order]
    keyword_only = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in order]
    run.__doc__ = help_text or getdoc(action)
    run.__signature__ = Signature(keyword_only)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword_only}
    return run


def argument_texts(docstring: str) -> dict[str, str]:
    """Return parameter -> text of the `Args:` section of a Google-style docstring.

    >>> argument_texts('''Add.
    ...
    ... Args:
    ...     a: The first number,
    ...         which may be negative.
    ...     *more: Others.
    ...
    ... Returns:
    ...     Their sum.
    ... ''')
    {'a': 'The first number, which may be negative.', 'more': 'Others.'}
    """
    section = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)*)", docstring, re.MULTILINE)
    entries = re.split(r"^ {4}\**(\w+): *", section[1] if section else "", flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}


def _value_type(annotation: Any) -> Any:
    """Return the type of a parameter on the command line: Sequence[T], list[T], Literal or one of `_TYPES`."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    for member in members:
        if get_origin(member) in (Sequence, list, Literal):
            return member
    return next((known for known in _TYPES if known in members), str)


def _typer_parameter(parameter: Parameter, name: str, text: str) -> Parameter:
    value_type = _value_type(parameter.annotation)
    optional = parameter.default is not Parameter.empty
    default = parameter.default
    metavar = None
    if get_origin(value_type) is Sequence:  # split and converted later; the function's own default stands
        metavar = "<name,...>" if get_args(value_type) == (str,) else "<number,...>"
        value_type, default = list[str], None if optional else default
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_OR_KEYWORD):
        declaration: Any = typer.Argument(help=text, show_default=False)
        value_type = list[value_type] if parameter.kind is Parameter.VAR_POSITIONAL else value_type  # type: ignore[valid-type]
    else:
        flag = f"--{name.replace('_', '-')}"
        spelling = f"{flag}/--no-{flag[2:]}" if value_type is bool and default is True else flag
        declaration = typer.Option(spelling, help=text, metavar=metavar, show_default=default not in (None, ""))
    if optional and default is None:
        value_type = value_type | None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value_type, declaration])


def _help_text(parameter: Parameter, texts: Mapping[str, str], options: Mapping[str, str]) -> str:
    """Return the help text of a parameter; other parameters are written in it as options."""
    metadata = getattr(parameter.annotation, "__metadata__", ())
    text = texts.get(parameter.name) or next((item for item in metadata if isinstance(item, str)), "")

    def as_option(match: re.Match[str]) -> str:
        return f"--{options[match[1]].replace('_', '-')}" if match[1] in options else match[0]

    return re.sub(r"`(\w+)`", as_option, text)


def _split_values(value: Any, parameter: Parameter, option: str) -> Any:
    """Return the values of a `Sequence` parameter, None where there are none; any other value as it is."""
    value_type = _value_type(parameter.annotation)
    if get_origin(value_type) is not Sequence:
        return value
    (kind,), names = get_args(value_type), split_names(value)
    try:
        return None if names is None else [kind(name) for name in names]
    except ValueError:
        raise typer.BadParameter(f"--{option} takes comma-separated numbers, got {', '.join(value)}") from None
