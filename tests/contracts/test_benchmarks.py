"""What every registered benchmark keeps to."""

import subprocess
import sys
from inspect import Parameter, signature

import pytest

from cosight.benchmarks import Benchmark, benchmarks, build
from cosight.errors import InvalidInput, UnknownName
from cosight.measures import measures
from cosight.scoring.presets import presets
from cosight.stimuli.alterations import all_alterations
from cosight.stimuli.images import preparation
from cosight.trials import label_spaces

every_benchmark = pytest.mark.parametrize("name", list(benchmarks))


@every_benchmark
def test_an_entry_says_what_it_is(name):
    entry = benchmarks[name]
    assert entry.name == name
    assert entry.labels in label_spaces
    assert entry.measures
    assert [measure for measure in entry.measures if measures.name_of(measure) != measure] == []
    for words in (entry.summary, entry.source, entry.humans, entry.needs, entry.experiment):
        assert words
    assert entry.summary.endswith(".")


@every_benchmark
def test_an_entry_is_built_or_altered_or_compared(name):
    entry = benchmarks[name]
    assert any(way is not None for way in (entry.build, entry.altered, entry.comparison))
    assert ("build" in entry.supports) == (entry.build is not None)
    assert ("evaluate" in entry.supports) == (entry.altered is not None)
    if entry.altered is not None:
        assert all_alterations(entry.altered.verb, **entry.altered.options)
        assert preparation(entry.altered.prepare) is not None


@every_benchmark
def test_a_builder_declares_its_options_with_help(name):
    builder = benchmarks[name].build
    if builder is None:
        return
    parameters = signature(builder, eval_str=True).parameters
    assert parameters["out"].kind is Parameter.POSITIONAL_OR_KEYWORD
    assert parameters["progress"].default is None
    for parameter in parameters.values():
        if parameter.name != "progress":
            (text,) = parameter.annotation.__metadata__
            assert text.endswith(".")
            assert parameter.name not in ("humans", "sheet")  # those end every build
    assert builder.__doc__


@every_benchmark
def test_table_and_report_sections_are_complete(name):
    entry = benchmarks[name]
    assert set(entry.sections) <= {"stimuli", "table"}
    for section in entry.sections.values():
        assert section.title
        assert section.text.endswith(".")
    if entry.comparison is not None:
        assert set(entry.measures) <= set(presets[entry.comparison.preset].measures)
        assert "table" in entry.sections
    if entry.table is not None:
        assert [measure for measure in entry.table.measures if measures.name_of(measure) != measure] == []
        assert "table" in entry.sections


def test_what_is_supported_follows_from_the_fields():
    plain = Benchmark("x", "X.", "nobody", "digits", "x", "none")
    assert plain.supports == ()
    assert Benchmark("x", "X.", "nobody", "digits", "x", "none", build=print, table=object()).supports == (
        "build",
        "score",
    )


def test_the_command_that_makes_it_is_told():
    assert benchmarks["digits"].usage == "cosight build digits OUT"
    assert benchmarks["laion-c"].usage == "cosight evaluate MODEL --on laion-c --source PHOTOS"


def test_names_that_cannot_be_built_are_refused(cosight, tmp_path):
    with pytest.raises(UnknownName, match="did you mean digits"):
        build("digit", tmp_path / "out")
    with pytest.raises(InvalidInput, match="nothing to build"):
        build("imagenet-c", tmp_path / "out")
    with pytest.raises(InvalidInput, match="error-alignment compares any trials, so there is nothing to build; run"):
        build("error-alignment", tmp_path / "out")
    assert "did you mean digits" in cosight("build", "digit", tmp_path / "out").err
    refused = cosight("build", "imagenet-c", tmp_path / "out")
    assert refused.code == 2
    assert "--on imagenet-c --source PHOTOS" in refused.err


def test_a_benchmark_to_build_first_is_told_how(cosight, tmp_path):
    done = cosight("evaluate", "python:math:floor,size=32,mean=0,std=1", "--on", "cifar-10h", "--out", tmp_path / "run")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "run `cosight build cifar-10h SOURCE OUT`, then give --on OUT" in done.err


def test_the_list_shows_what_is_supported_and_needed_in_80_columns(cosight, monkeypatch):
    from rich.console import Console

    from cosight.cli import tables

    monkeypatch.setattr(tables, "console", lambda: Console(width=80))
    done = cosight("list", "benchmarks")
    assert max(len(line) for line in done.out.splitlines()) <= 80
    for word in ("supports", "needs", *benchmarks, "build", "evaluate"):
        assert word in done.out


def test_the_list_and_the_help_import_nothing_heavy():
    code = """
import sys
from cosight.cli.app import main
for arguments in (["list", "benchmarks"], ["build", "--help"], ["build", "visalign", "--help"]):
    sys.argv = ["cosight", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, arguments
print([name for name in ("torch", "cv2", "PIL", "numba") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
