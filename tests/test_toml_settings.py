"""TOML tables become dataclasses, or one line says which key of which file is wrong."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from cosight.errors import CosightError, InvalidInput, UnknownName
from cosight.toml_settings import check_keys, parse_table, parse_tables, read_toml


@dataclass(frozen=True, slots=True)
class Settings:
    name: str
    rate: float = 0.1
    steps: int = 10
    flip: bool = True
    mode: Literal["fast", "exact"] = "exact"
    labels: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1, 2)
    size: int | None = None
    ssl: Literal["simclr", "byol"] | None = None
    extra: tuple[float, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InvalidInput(f"steps must be 1 or more, got {self.steps}")


def test_every_type_is_read(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(
        'name = "a"\nrate = 1\nsteps = 3\nflip = false\nmode = "fast"\nlabels = ["x", "y"]\nseeds = [4]\nsize = 32\n'
        'ssl = "byol"\nextra = [1, 0.5]\n'
    )
    settings = parse_table(Settings, read_toml(file), context=str(file))
    assert settings == Settings("a", 1, 3, False, "fast", ("x", "y"), (4,), 32, "byol", (1, 0.5))
    assert type(settings.rate) is int


def test_defaults_fill_what_is_left_out():
    assert parse_table(Settings, {"name": "a"}, context="a.toml") == Settings("a")


@pytest.mark.parametrize(
    ("table", "error", "line"),
    [
        ({"name": "a", "stepps": 3}, UnknownName, "a.toml: [x]: unknown key 'stepps'; did you mean steps?"),
        ({"steps": 3}, InvalidInput, "a.toml: [x]: name is missing; add a line name = ..."),
        ({"name": 3}, InvalidInput, "a.toml: [x]: name must be text, got 3"),
        ({"name": "a", "rate": "fast"}, InvalidInput, "a.toml: [x]: rate must be a number, got 'fast'"),
        ({"name": "a", "rate": True}, InvalidInput, "a.toml: [x]: rate must be a number, got True"),
        ({"name": "a", "steps": 3.0}, InvalidInput, "a.toml: [x]: steps must be a whole number, got 3.0"),
        ({"name": "a", "steps": True}, InvalidInput, "a.toml: [x]: steps must be a whole number, got True"),
        ({"name": "a", "steps": 0}, InvalidInput, "a.toml: [x]: steps must be 1 or more, got 0"),
        ({"name": "a", "flip": 1}, InvalidInput, "a.toml: [x]: flip must be true or false, got 1"),
        ({"name": "a", "mode": "slow"}, InvalidInput, "a.toml: [x]: mode must be fast or exact, got 'slow'"),
        ({"name": "a", "ssl": "dino"}, InvalidInput, "a.toml: [x]: ssl must be simclr or byol, got 'dino'"),
        ({"name": "a", "size": "32"}, InvalidInput, "a.toml: [x]: size must be a whole number, got '32'"),
        ({"name": "a", "labels": "x"}, InvalidInput, "labels must be a list of texts, got 'x'; write [..., ...]"),
        ({"name": "a", "seeds": [1, True]}, InvalidInput, "seeds must be a list of whole numbers, got [1, True]"),
        ([], InvalidInput, "a.toml: [x]: must be a table, got []"),
    ],
)
def test_every_mistake_is_one_line_with_file_and_key(table, error, line):
    with pytest.raises(error) as caught:
        parse_table(Settings, table, context="a.toml: [x]")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_that_resembles_none_lists_those_there_are():
    with pytest.raises(UnknownName, match="unknown key 'zzz'; known keys are name, seed"):
        check_keys(["name", "zzz"], ("name", "seed"), context="a.toml")


def test_arrays_of_tables():
    assert parse_tables(Settings, [{"name": "a"}, {"name": "b"}], context="[[x]]") == (Settings("a"), Settings("b"))
    with pytest.raises(InvalidInput, match=r"\[\[x\]\]: must be an array of tables"):
        parse_tables(Settings, {"name": "a"}, context="[[x]]")
    with pytest.raises(InvalidInput, match=r"\[\[x\]\]: name is missing"):
        parse_tables(Settings, [{"name": "a"}, {}], context="[[x]]")


@pytest.mark.parametrize(
    ("content", "words"), [(None, "does not exist; make one"), (b"a = ", "valid TOML"), (b"\xff", "valid TOML")]
)
def test_files_that_cannot_be_read(tmp_path, content, words):
    file = tmp_path / "a.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CosightError, match=words) as caught:
        read_toml(file, hint="make one")
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInput, match="cannot read"):
        read_toml(tmp_path)
