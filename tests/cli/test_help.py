"""Help texts, messages about the command line itself, and shell completion."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.main import get_command

from cosight.cli.app import app
from cosight.cli.commands import commands_of

GROUPS = ["", "build", "run", "stimuli", "study", "trials"]


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_without_a_command_prints_its_help(group, cosight):
    bare, asked = cosight(*group.split()), cosight(*group.split(), "--help")
    assert (bare.code, bare.err) == (0, "")
    assert bare.out == asked.out
    assert bare.out.startswith(f"Usage: {f'cosight {group}'.strip()} [OPTIONS] COMMAND")
    assert "\n\nCommands:\n" in bare.out


@pytest.mark.parametrize("group", GROUPS)
def test_descriptions_in_a_list_of_commands_are_whole_sentences(group, cosight):
    listing = cosight(*group.split()).out.partition("Commands:\n")[2]
    assert max(map(len, listing.splitlines())) <= 80
    assert "..." not in listing
    words = " ".join(listing.split())
    below = [pair for pair in commands_of(get_command(app)) if pair[0].split()[1:-1] == group.split()]
    assert below
    for _, command in below:
        first_sentence = " ".join(command.help.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
        assert first_sentence in words


@pytest.mark.parametrize("name", [name for name, _ in commands_of(get_command(app))])
def test_every_help_text_fits_a_terminal_and_ends_with_examples(name, cosight):
    done = cosight(*name.split()[1:], "--help")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\nExamples:\n" in done.out
    assert done.out.splitlines()[-1].startswith(f"  {name}")


MISTAKES = [
    ("compre sample:edges", "no command is called 'compre'; did you mean compare or score? (see `cosight --help`)"),
    ("studdy", "no command is called 'studdy'; did you mean study? (see `cosight --help`)"),
    ("study nw", "no command is called 'nw'; did you mean new? (see `cosight study --help`)"),
    ("study frobnicate", "there are new, show, serve, simulate, status, quality, export; see `cosight study --help`"),
    ("trials shwo x", "no command is called 'shwo'; did you mean show? (see `cosight trials --help`)"),
    ("build visalgn out", "no benchmark is called 'visalgn'; did you mean visalign?"),
    ("list sampels", "did you mean samples?"),
    ("list", "Missing argument 'what'; see `cosight list --help`"),
    ("compare", "see `cosight compare --help`"),
    ("compare x --measures ec", "no such option: --measures; did you mean --measure? (see `cosight compare --help`)"),
    ("compare x --confidance .9", "did you mean --confidence? (see `cosight compare --help`)"),
    ("compare x -q", "no such option: -q; see `cosight compare --help`"),
    ("compare x --resamples many", "--resamples"),
    ("compare x --resamples many", "see `cosight compare --help`"),
    ("plan trials", "see `cosight plan --help`"),
    ("plan --measure ec --width .1 --accuracy .8,high", "--accuracy takes comma-separated numbers, got .8,high"),
    ("plan --measure ec --width .1 --accuracy .8,high", "see `cosight plan --help`"),
    ("score sample:edgs", "no sample is called 'edgs'; did you mean edges?"),
    ("score edges", "got edges; did you mean sample:edges?"),
    ("score sample:edges --measure acuracy", "did you mean accuracy or"),
    ("score sample:edges --by conditon", "got 'conditon'; did you mean condition?"),
    ("score sample:edges --labels imagenet1k", "imagenet1k"),
    ("score sample:edges --role tset", "no role is called 'tset'; did you mean test?"),
    ("score sample:edges --on visaling", "no benchmark is called 'visaling'; did you mean visalign?"),
    ("compare sample:edges --by experment", "did you mean experiment?"),
    ("compare sample:edges --preset model-vs-humans", "did you mean model-vs-human?"),
    ("compare sample:edges --cluster-by imgae", "did you mean image?"),
    ("compare answres.parquet", "got answres.parquet; did you mean answers.parquet?"),
    ("trials show data/answres.parquet", "got data/answres.parquet; did you mean data/answers.parquet?"),
    ("trials convert sample:edges out --to psychds", "did you mean psych-ds?"),
    ("stimuli verify photo", "did you mean photos?"),
    ("stimuli corrupt photos out --kind fogg", "did you mean fog?"),
    ("run status rnu", "did you mean run?"),
    ("train recip.toml --out networks", "recip.toml does not exist; did you mean recipe.toml?"),
    ("study status servey", "did you mean survey/study.toml?"),
    ("evaluate trials:answers.parquet --on photo --out new", "got photo; did you mean photos?"),
    ("evaluate trials:answers.parquet --on laionc --source photos --out new", "did you mean laion-c?"),
    ("evaluate tim:resnet50 --on photos --out new", "did you mean timm?"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=lambda text: text[:40])
def test_a_typing_mistake_gets_one_line_with_the_nearest_name(line, message, cosight, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("answers.parquet", "data/answers.parquet", "recipe.toml", "survey/study.toml", "run/run.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "photos").mkdir()
    done = cosight(*line.split())
    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]
    assert done.err.splitlines()[-1].startswith("cosight: ")


SMALL = "sample:edges --measure accuracy"


@pytest.mark.parametrize(("line", "message"), [
    ("--confidence 95", "--confidence must lie between 0 and 1, got 95.0; did you mean .95?"),
    ("--confidence 0", "--confidence must lie between 0 and 1, got 0.0"),
    ("--confidence 1e3", "--confidence must lie between 0 and 1, got 1000.0"),
    ("--gamma 50", "--gamma must be 0 to 1, got 50.0; did you mean .5?"),
    ("--resamples 0", "--resamples must be 1 or more, got 0"),
    ("--seed -1", "--seed must be a whole number, 0 or more, got -1"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["compare", "score"])
def test_numbers_are_checked_before_anything_is_read(command, line, message, cosight):
    done = cosight(command, "no-such-file.parquet", *line.split())
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_all_paths_are_checked_before_the_first_is_read(cosight, tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    done = cosight("compare", tmp_path / "broken.parquet", tmp_path / "missing.parquet")
    assert "missing.parquet" in done.err


def complete(shell, line):
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    environment = {**os.environ, **words, "_TYPER_COMPLETE_ARGS": line, "_COSIGHT_COMPLETE": f"complete_{shell}"}
    done = subprocess.run([sys.executable, "-m", "cosight"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_shell_completes_commands_options_and_words():
    assert complete("bash", "cosight st").split() == ["stimuli", "study"]
    assert complete("bash", "cosight compare --mea").split() == ["--measure"]
    assert complete("bash", "cosight compare --missing ").split() == ["leave-out", "random"]
    assert '"simulate"' in complete("zsh", "cosight study si")


@pytest.mark.parametrize(("shell", "line"), [
    ("bash", "complete -o default -F _cosight_completion cosight"),
    ("zsh", "compdef _cosight_completion cosight"),
])  # fmt: skip
def test_the_script_for_a_shell_is_printed(shell, line):
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "cosight", "--show-completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert line in done.stdout.splitlines()
