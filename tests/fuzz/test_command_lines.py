"""Command lines that nobody would type, and some that somebody might."""

import pytest

from tests.fuzz.mutations import ODD_TEXT

# that would serve, train or compute for minutes where the rest of the line happens to be right
LONG = ("demo", "study serve", "study simulate", "train", "build digits")
WORDS = ("sample:edges", ".", "nowhere", "a.parquet", "timm:nothing", "all", "cat,dog", "ec,ma", "experiment", "3")
# a process cannot be given a NUL, and nothing outside the test's folder may be written to
ODD = [text for text in ODD_TEXT if "\x00" not in text and text not in ("/", "..")]


def _commands(name, command):
    inner = getattr(command, "commands", None)
    if inner is None and hasattr(command, "list_commands"):
        inner = {n: command.get_command(None, n) for n in command.list_commands(None)}
    if inner:
        for child, sub in inner.items():
            yield from _commands(f"{name} {child}".strip(), sub)
    else:
        yield name, command


@pytest.fixture(scope="module")
def commands():
    from typer.main import get_command

    from cosight.cli.app import app

    return [(name, command) for name, command in _commands("", get_command(app)) if name not in LONG]


def test_options_and_arguments(cases, fuzz, commands, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def value(rng):
        pool = WORDS if rng.random() < 0.7 else ODD
        return pool[int(rng.integers(len(pool)))]

    def prepare(rng):
        name, command = commands[int(rng.integers(len(commands)))]
        line = name.split()
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                line += [value(rng) for _ in range(int(rng.integers(0, 3)))]
            elif rng.random() < 0.25:
                line.append(parameter.opts[0])
                if not getattr(parameter, "is_flag", False) and rng.random() < 0.95:
                    line.append(value(rng))
        if rng.random() < 0.1:
            line.insert(int(rng.integers(len(line) + 1)), value(rng))
        return line

    fuzz(cases, prepare)
