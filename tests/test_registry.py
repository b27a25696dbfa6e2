"""The registry: names, aliases, hints for misspelled names, and entries of other packages."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from cosight.errors import CosightError, InvalidInput, UnknownName, did_you_mean
from cosight.registry import Registry


@pytest.fixture
def fruit():
    registry: Registry[str] = Registry("fruit")
    registry.add("pear", "long", aliases=("pyrus",))
    registry.add("apple", "round", aliases=("malus", "pomme"))
    return registry


def test_names_and_aliases_find_the_same_entry(fruit):
    assert fruit["apple"] == fruit["malus"] == fruit["pomme"] == "round"
    assert [fruit.name_of(name) for name in ("apple", "malus", "pear", "pyrus")] == ["apple", "apple", "pear", "pear"]


def test_add_gives_the_entry_back():
    entry = object()
    assert Registry("thing").add("it", entry) is entry


def test_iteration_is_in_order_of_adding_and_without_aliases(fruit):
    fruit.add("fig", "soft")
    assert list(fruit) == ["pear", "apple", "fig"]
    assert len(fruit) == 3
    assert list(fruit.values()) == ["long", "round", "soft"]
    assert dict(fruit.items())["fig"] == "soft"


def test_membership_knows_aliases(fruit):
    assert "apple" in fruit
    assert "malus" in fruit
    assert "aple" not in fruit
    assert 3 not in fruit
    assert "apple" not in Registry("fruit")  # each has its own


@pytest.mark.parametrize(("name", "aliases", "twice"), [
    ("apple", (), "apple"),  # a name that is a name
    ("malus", (), "malus"),  # a name that is an alias
    ("fig", ("apple",), "apple"),  # an alias that is a name
    ("fig", ("ficus", "pyrus"), "pyrus"),  # an alias that is an alias
])  # fmt: skip
def test_a_name_taken_is_refused_and_nothing_is_added(fruit, name, aliases, twice):
    with pytest.raises(InvalidInput, match=f"fruit names are unique, got '{twice}' twice; choose another"):
        fruit.add(name, "new", aliases=aliases)
    assert list(fruit) == ["pear", "apple"]
    assert fruit["apple"] == fruit["malus"] == "round"
    assert "fig" not in fruit
    assert "ficus" not in fruit


@pytest.mark.parametrize(("name", "message"), [
    ("aple", "no fruit is called 'aple'; did you mean apple? (`cosight list fruits` shows all)"),
    ("mallus", "no fruit is called 'mallus'; did you mean malus? (`cosight list fruits` shows all)"),  # an alias
    ("zzz", "no fruit is called 'zzz'; `cosight list fruits` shows all"),  # nothing near
    ("", "no fruit is called ''; `cosight list fruits` shows all"),
])  # fmt: skip
def test_an_unknown_name_gets_the_most_similar_ones(fruit, name, message):
    for look in (fruit.__getitem__, fruit.name_of):
        with pytest.raises(UnknownName) as error:
            look(name)
        assert str(error.value) == message


def test_several_near_names_are_all_named():
    registry: Registry[int] = Registry("kind")
    for index, name in enumerate(("hellinger", "hellinger_2", "hellingers", "hellinger_3", "cosine")):
        registry.add(name, index)
    with pytest.raises(UnknownName, match=r"did you mean (hellinger\S* or ){2}hellinger\S*\? \(") as error:
        registry["helinger"]
    assert "cosine" not in str(error.value)


def test_a_registry_that_no_command_lists_names_its_entries():
    hidden: Registry[int] = Registry("pair-form", listed=False)
    hidden.add("one", 1, aliases=("uno",))
    hidden.add("two", 2)
    with pytest.raises(UnknownName) as error:
        hidden["tow"]
    assert str(error.value) == "no pair-form is called 'tow'; did you mean two? (there are one, two)"


def test_a_wrong_name_is_a_lookup_error_and_one_of_ours(fruit):
    with pytest.raises(LookupError):
        fruit["aple"]
    with pytest.raises(CosightError):
        fruit["aple"]


# ---------------------------------------------------------------------------------------------------- other packages

_MODULE = """
    from dataclasses import dataclass
    from cosight.measures.declarations import declare, measures

    assert "accuracy" in measures  # an extension may read the registry while it loads

    @dataclass(frozen=True, slots=True)
    class Found:
        value: float

    @declare("always_seven", summary="Seven.", low=7, high=7, direction="neither", symmetric=None,
             needs=("responses", "truth"), citation="nobody", aliases=("seven",))
    def always_seven(responses, truth):
        return Found(7.0)
"""


@pytest.fixture
def installed(tmp_path):
    """A folder with a package installed as pip leaves it, whose entry point brings a measure."""
    (tmp_path / "more_measures.py").write_text(textwrap.dedent(_MODULE), encoding="utf-8")
    info = tmp_path / "more_measures-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-measures\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[cosight.measures]\nmore = more_measures\n", encoding="utf-8")
    return tmp_path


def python(*arguments, folder=None):
    paths = [str(folder)] if folder else []
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=known)


def test_an_installed_package_adds_its_measures_when_the_registry_is_first_read(installed):
    script = f"""
        import sys
        sys.path.insert(0, {str(installed)!r})
        from cosight.measures import measures
        print("more_measures" in sys.modules)
        print(measures["seven"].function([], []).value, measures.name_of("seven"))
        print("more_measures" in sys.modules, list(measures)[-1], "accuracy" in measures)
    """
    done = python("-c", textwrap.dedent(script))
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["False", "7.0 always_seven", "True always_seven True"]


@pytest.mark.parametrize("read", [list, len, lambda fruit: "fig" in fruit, lambda fruit: fruit.get("apple")])
def test_every_way_to_read_loads_it(installed, monkeypatch, read):
    (installed / "more_fruit.py").write_text("", encoding="utf-8")
    info = installed / "more_measures-1.0.dist-info" / "entry_points.txt"
    info.write_text("[cosight.fruits]\nmore = more_fruit\n", encoding="utf-8")
    monkeypatch.syspath_prepend(installed)
    fruit: Registry[str] = Registry("fruit")
    fruit.add("apple", "round")
    assert "more_fruit" not in sys.modules
    read(fruit)
    assert sys.modules.pop("more_fruit", None) is not None


def test_the_command_line_lists_it_and_without_the_package_does_not(installed, cosight):
    assert "always_seven" in python("-m", "cosight", "list", "measures", folder=installed).stdout
    without = cosight("list", "measures").out
    assert "accuracy" in without
    assert "always_seven" not in without


def test_an_entry_point_of_another_kind_is_left_alone(installed):
    info = installed / "more_measures-1.0.dist-info" / "entry_points.txt"
    info.write_text("[cosight.label-spaces]\nmore = more_measures\n", encoding="utf-8")
    script = "from cosight.measures import measures; print('seven' in measures, 'accuracy' in measures)"
    assert python("-c", script, folder=installed).stdout == "False True\n"


@pytest.mark.parametrize("aliases", [("a",), ("b", "b")])
def test_an_entry_has_each_of_its_names_once(aliases):
    with pytest.raises(InvalidInput, match="names are unique"):
        Registry("thing").add("a", 1, aliases=aliases)


def test_did_you_mean_ignores_case_and_names_all_when_nothing_is_similar():
    assert did_you_mean("vit-b-33", ["ViT-B-32", "RN50"]) == "did you mean ViT-B-32?"
    assert did_you_mean("aple", ["apples", "apple"], most=1) == "did you mean apple?"
    assert did_you_mean("fig", ["apple", "pear"]) == "there are apple, pear"
    assert did_you_mean("fig", []) == "there are none"
    assert did_you_mean("fig", ["apple"], otherwise="choose another") == "choose another"


def test_get_returns_the_default_for_an_unknown_name(fruit):
    assert (fruit.get("malus"), fruit.get("aple"), fruit.get("aple", "none")) == ("round", None, "none")
