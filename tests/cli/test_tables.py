"""Tables on narrow and wide terminals: nothing cut, people before models, short names."""

from __future__ import annotations

import re
import sys

import polars as pl
import pytest

import cosight as package
from cosight.cli.tables import console, print_comparison, print_scores
from cosight.statistics.row_text import group_name, number_text, short_name
from cosight.statistics.rows import Row, parse_group
from tests.scoring.made import answered, row_of, trials

MEASURES = ("accuracy", "error_consistency", "misclassification_agreement", "class_level_error_similarity")
WHO = (("alice", "human"), ("zoe", "human"), ("bob", "human"), ("aaa", "model"), ("timm:resnet50.a1_in1k", "model"))


@pytest.fixture(scope="module")
def table():
    return trials(answered(WHO, skill=0.5))


@pytest.fixture(scope="module")
def compared(table):
    return package.compare(table, resamples=20)


@pytest.fixture
def terminal(monkeypatch, capsys):
    """Print on a terminal so many columns wide, and return its lines without colours."""

    def show(columns, function, *arguments, **options):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        capsys.readouterr()
        function(*arguments, **options)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        return plain.replace("\u00a0", " ").splitlines()

    return show


def without_verdict(lines):
    """The lines of a comparison up to its caption, which the verdict follows."""
    end = next(i for i, line in enumerate(lines) if "every number" in line)
    return lines[: end + 1]


def shown(scores):
    """The rows that the table of observers shows in `against people` lines."""
    for name, _ in WHO:
        for measure in MEASURES:
            yield name, row_of(scores, name, None if measure == "accuracy" else "people", measure)


# ------------------------------------------------------------------------------------------------------------- widths


def test_at_80_columns_every_interval_stands_under_its_value(terminal, compared):
    lines = terminal(80, print_comparison, compared, people=True)
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    lines = without_verdict(lines)
    place = {line.split()[0]: i for i, line in enumerate(lines) if line[:1].strip()}
    for name, row in shown(compared):
        value, interval = f"{row.value:.3f}", f"[{row.low:.2f} {row.high:.2f}]"
        start = [m.start() for m in re.finditer(re.escape(value), lines[place[name]])]
        below = [m.start() for m in re.finditer(re.escape(interval), lines[place[name] + 1])]
        assert set(start) & set(below), f"{interval} of {row.measure} does not stand under {value} of {name}"


def test_at_200_columns_value_and_interval_share_a_line(terminal, compared):
    lines = without_verdict(terminal(200, print_comparison, compared, people=True))
    by_name = {line.split()[0]: line for line in lines if line.strip()}
    for name, row in shown(compared):
        assert f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]" in by_name[name]
    assert len([line for line in lines[1:] if line.startswith("alice")]) == 1
    assert not any(line.lstrip().startswith("[") for line in lines)


@pytest.mark.parametrize("columns", [80, 200])
def test_the_table_of_scores_is_never_cut(terminal, table, columns):
    scores = package.score(table, resamples=20, measure=["accuracy", "response_entropy", "hellinger"])
    text = "\n".join(terminal(columns, print_scores, scores))
    assert "…" not in text
    for row in scores.rows:
        if ".ceiling" not in row.measure:
            wide, narrow = f"[{row.low:.3f}, {row.high:.3f}]", f"[{row.low:.2f} {row.high:.2f}]"
            assert wide in text or narrow in text


def test_a_long_name_gets_a_line_of_its_own(terminal):
    name = "timm:vit_base_patch16_224.augreg_in21k_ft_in1k"
    scores = package.compare(trials(answered([("human:0", "human"), (name, "model")])), resamples=20)
    lines = terminal(80, print_comparison, scores)
    assert max(map(len, lines)) <= 80
    accuracy = row_of(scores, name, None, "accuracy")
    assert f"{accuracy.value:.3f}" in lines[lines.index(name) + 1]


def test_a_name_longer_than_the_terminal_is_folded_and_loses_no_letter(terminal):
    name = "ensemble:" + "+".join(f"cosight:vit-small@{seed}" for seed in range(45, 50))
    scores = package.compare(trials(answered([("human:0", "human"), (name, "model")])), resamples=20)
    lines = without_verdict(terminal(80, print_comparison, scores))
    assert max(map(len, lines)) <= 80
    first = next(i for i, line in enumerate(lines) if line.startswith("ensemble:"))
    assert "".join(lines[first : first + 2]) == name


@pytest.mark.parametrize("columns", [40, 80])
def test_every_digit_survives_the_narrowest_terminal(terminal, compared, columns):
    text = " ".join(terminal(columns, print_comparison, compared, people=True))
    assert "…" not in text
    low = row_of(compared, "zoe", "people", "error_consistency").low
    assert f"[{low:.2f}" in text


def test_what_is_no_terminal_is_wide(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert console().width == 2000
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert console().width == 80


# ----------------------------------------------------------------------------------------------------------- sections


def test_people_stand_above_models_whatever_they_are_called(terminal, compared):
    lines = without_verdict(terminal(200, print_comparison, compared, people=True, sort="name"))
    rows = [line.split()[0] if line.strip() else "" for line in lines[1:-1]]
    assert rows == ["people", "alice", "bob", "zoe", "", "models", "aaa", "timm:resnet50.a1_in1k"]


def test_simulated_people_stand_between_people_and_models(terminal):
    who = [("human:0", "human"), ("human:1", "human"), ("simulated:0", "simulated"), ("simulated:1", "simulated")]
    scores = package.compare(trials(answered([*who, ("a", "model"), ("b", "model")])), resamples=20)
    lines = without_verdict(terminal(200, print_comparison, scores, people=True, sort="name"))
    names = [re.split(r"\s{2,}", line)[0] for line in lines if line.strip()]
    order = ["human:0", "human:1", "simulated:0", "simulated:1", "models", "a", "b"]
    assert [name for name in names if name in order] == order


def test_pairs_are_listed_when_asked_for(terminal, compared):
    lines = terminal(200, print_comparison, compared, list_pairs=True)
    pairs = {tuple(line.split()[:2]) for line in lines if line.strip()}
    assert {("alice", "bob"), ("aaa", "alice"), ("aaa", "timm:resnet50.a1_in1k"), ("models", "people")} <= pairs
    few = terminal(200, print_comparison, compared, people=True)
    assert not any(line.split()[:2] == ["alice", "bob"] for line in few)


def test_grouped_tables_have_a_line_for_all_people_and_one_for_each_model(terminal, table):
    scores = package.compare(table, by=["condition"], measure=["ec"], resamples=20)
    lines = without_verdict(terminal(200, print_comparison, scores, sort="name"))
    assert lines[0].split() == ["group", "observer", "against", "n", "EC"]
    told = [line.split() for line in lines[1:-1] if line.strip()]
    groups = [" ".join(words[: words.index("people", 1)]) for words in told]
    assert groups == [
        f"{group} {observer}".removesuffix(" people")  # that line has people as observer and against
        for group in ("x", "y", "z", "mean over condition")
        for observer in ("people", "models", "aaa", "timm:resnet50.a1_in1k")
    ]
    assert not any("alice" in line for line in lines)
    assert sum("aaa" in line for line in lines) == 4


def test_without_models_single_people_are_shown_and_nobody_is_ranked(terminal, table):
    people = table.keep(pl.col("kind") == "human")
    lines = terminal(200, print_comparison, package.compare(people, measure=["ec"], resamples=20))
    assert [line.split()[0] for line in lines[1:5]] == ["people", "alice", "bob", "zoe"]
    assert "ranked" not in " ".join(lines)
    grouped = terminal(200, print_comparison, package.compare(people, measure=["ec"], by=["condition"], resamples=20))
    assert not any("alice" in line for line in grouped)


def test_the_table_of_a_terminal_has_at_most_200_lines_and_keeps_the_mean(terminal):
    rows = answered([("human:0", "human"), *((f"model:{i}", "model") for i in range(70))], stimuli=3)
    scores = package.compare(trials(rows), measure=["acc", "ec"], by=["condition"], resamples=2)
    lines = without_verdict(terminal(200, print_comparison, scores))
    assert len(lines) < 90
    assert {line.split("  ")[0] for line in lines if " people  " in line} == {"mean over condition"}
    assert "only the mean over groups is shown; --out FILE or a pipe has every group" in lines


def test_the_caption_says_how_the_intervals_were_made(terminal, compared):
    lines = without_verdict(terminal(200, print_comparison, compared))
    caption = "models ranked by EC; value [95% interval], 20 resamples, seed 0; --out FILE has every number"
    assert lines[-1] == caption


def test_ceilings_and_correlations_follow_the_table(terminal):
    data = trials(answered([(f"human:{i}", "human") for i in range(4)] + [("a", "model")]))
    scores = package.compare(data, measure=["ec", "ma"], correlate=True, resamples=20)
    lines = terminal(200, print_comparison, scores)
    ceiling = row_of(scores, "people", "people", "error_consistency", statistic="ceiling_split_half")
    assert any(line.startswith(f"split-half ceiling of people: EC {number_text(ceiling)}") for line in lines)
    assert any(line.split() == ["Spearman's", "r", "EC", "and", "MA"] for line in lines)


# -------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(("measure", "short"), [
    ("error_consistency", "EC"),
    ("misclassification_agreement", "MA"),
    ("class_level_error_similarity", "CLES"),
    ("accuracy", "accuracy"),
    ("response_entropy", "response entropy"),
    ("rank_correlation_of_nobody", "rank correlation of nobody"),
])  # fmt: skip
def test_short_names(measure, short):
    assert short_name(measure) == short


@pytest.mark.parametrize(("value", "low", "high", "text"), [
    (0.33114, 0.2763, 0.4, "0.331 [0.276, 0.400]"),
    (-0.1, -0.25, 0.0, "-0.100 [-0.250, 0.000]"),
    (0.5, None, None, "0.500"),
    (0.5, 0.1, None, "0.500"),
    (0.5, None, 0.9, "0.500"),
    (None, None, None, "-"),
    (0.0, 0.0, 0.0, "0.000 [0.000, 0.000]"),
    (-1234.56, -2000.4, 99.9994, "-1235 [-2000, 99.999]"),  # a reliability score
])  # fmt: skip
def test_numbers_as_text(value, low, high, text):
    assert number_text(Row(observer="a", measure="error_consistency", value=value, low=low, high=high, n=10)) == text


@pytest.mark.parametrize(("group", "name"), [
    ("", ""),
    ("condition=x", "x"),
    ("condition=*", "mean over condition"),
    ("experiment=one;condition=x", "one x"),
    ("experiment=one;condition=*", "one mean over condition"),
    ("experiment=*;condition=*", "mean over experiment and condition"),
    ("condition=a=b", "a=b"),
])  # fmt: skip
def test_group_names(group, name):
    assert group_name(parse_group(group)) == name


def test_names_are_not_taken_for_markup(capsys, monkeypatch):
    rows = answered([("model:resnet50[v2]", "model"), ("model:x[/b]", "model"), ("human::b:c", "human")])
    print_comparison(package.compare(trials(rows), resamples=5), list_pairs=True)
    out = capsys.readouterr().out
    assert all(name in out for name in ("model:resnet50[v2]", "model:x[/b]", "human::b:c"))


# -------------------------------------------------------------------------------------------------------- explanations


def test_a_dash_is_explained_below_the_table_and_n_is_what_is_shared(terminal, table):
    stranger = [{**row, "observer": "stranger", "experiment": "elsewhere"} for row in answered([("x", "model")])]
    scores = package.compare(table, trials(stranger), measure=["acc", "ec"], resamples=20)
    lines = without_verdict(terminal(200, print_comparison, scores))
    (mine,) = [line.split() for line in lines if line.startswith("stranger")]
    assert mine[1:3] == ["people", "0"]
    assert "-" in mine
    assert any(line.startswith("EC of stranger: undefined: no common trials") for line in lines)
    assert any("stranger: none of its 42 stimuli match people's 42: its experiments" in note for note in scores.notices)
    (people,) = [line.split() for line in lines if line.startswith("people")]
    assert people[2] == "42"
