"""CLES from confusion matrices alone: equal to CLES from the trials behind them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight import compare, score
from cosight.errors import InvalidInput
from cosight.measures import (
    class_level_error_similarity,
    class_level_error_similarity_from_confusions,
    confusion_matrix,
)
from cosight.trials import read
from cosight.trials.join import align


@st.composite
def observers(draw):
    """Answers and truths of two observers, who need not have seen the same images; and the number of classes."""
    classes = draw(st.integers(2, 5))
    codes = st.integers(0, classes - 1)
    sessions = [
        draw(st.lists(st.tuples(st.one_of(codes, st.none()), codes), min_size=1, max_size=30)) for _ in range(2)
    ]
    return sessions, classes


@given(observers(), st.sampled_from(["mean", "pooled"]))
def test_matrices_give_the_value_of_their_trials(data, midpoint):
    (a, b), classes = data
    # trials of one observer are no answers of the other: a missing answer is left out of CLES
    truth = [t for _, t in a] + [t for _, t in b]
    first, second = [r for r, _ in a] + [None] * len(b), [None] * len(a) + [r for r, _ in b]
    names = range(classes)
    trials = class_level_error_similarity(first, second, truth, midpoint=midpoint, classes=names)
    matrices = (confusion_matrix(*zip(*side, strict=True), classes=names) for side in (a, b))
    similarity = class_level_error_similarity_from_confusions(*matrices, midpoint=midpoint)
    assert similarity.value == pytest.approx(trials.value, abs=1e-12, nan_ok=True)
    assert similarity.n == trials.n
    np.testing.assert_allclose(similarity.items, trials.items, atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1, 2, 3, 4], [4, 5, 6, 7]], r"a row and a column per class, a has shape \(2, 4\)"),
        ([1, 2], r"a has shape \(2,\)"),
        ([[1, -2], [3, 4]], "must be whole numbers, 0 or more, a has -2"),
        ([[1, 0.5], [3, 4]], "a has 0.5"),
        ([[1, np.nan], [3, 4]], "a has nan"),
        ([[1, 2], [3]], "all equally long, a has not"),
        (np.eye(3), "must be about the same classes, got 3 and 2 of them"),
    ],
)
def test_what_is_no_confusion_matrix(matrix, message):
    with pytest.raises(InvalidInput, match=message):
        class_level_error_similarity_from_confusions(matrix, np.eye(2))


def test_alpha_must_be_positive():
    with pytest.raises(InvalidInput, match="alpha must be positive"):
        class_level_error_similarity_from_confusions(np.eye(2), np.eye(2), alpha=0)


# ---- the command


def write_matrix(path, counts, classes):
    rows = [["truth", *classes, "na"], *([name, *map(int, row)] for name, row in zip(classes, counts, strict=True))]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    """Confusion matrices of a person and two networks of the sample, and what `compare` says of their trials."""
    folder = tmp_path_factory.mktemp("matrices")
    names = {"human:subject-01": "person.csv", "model:alexnet": "alexnet.csv", "model:vgg19": "vgg19.csv"}
    trials = read("sample:edges").only(*names)
    table = align(trials)
    for name, file in names.items():
        answers = table.answers.of([table.observers.index(name)])
        response = [table.labels[code] if code >= 0 else None for code in answers.response[0]]
        truth = [table.labels[code] for code in answers.truth]
        write_matrix(folder / file, confusion_matrix(response, truth, classes=table.labels), table.labels)
    measure = "accuracy,cles,cles_pooled,cled_printed"
    return folder, compare(trials, measure=measure, resamples=200).rows, measure


def test_the_command_gives_the_values_of_the_trials(edges, cosight):
    folder, expected, measure = edges
    files = [str(folder / name) for name in ("alexnet.csv", "vgg19.csv", "person.csv")]
    found = json.loads(cosight("compare", *files, "--measure", measure, "--resamples", "200", "--json").out)
    of_trials = {
        (row.measure, *sorted(filter(None, (row.observer.split(":")[-1], (row.against or "").split(":")[-1])))): row
        for row in expected
        if row.statistic == "value"
    }
    assert len(found) == 3 + 3 * 3  # an accuracy per observer, and three measures per pair
    for row in found:
        name = {"person": "subject-01"}
        pair = sorted(name.get(side, side) for side in (row["observer"], row["against"]) if side)
        reference = of_trials[(row["measure"], *pair)]
        assert row["value"] == pytest.approx(reference.value, abs=1e-12)
        assert row["low"] < row["value"] < row["high"]
        if row["measure"] == "accuracy":  # the same binomial; two observers' images are not paired here
            assert row["low"] == pytest.approx(reference.low, abs=0.03)


def test_the_table_has_every_observer_and_pair(edges, cosight):
    folder, _, _ = edges
    done = cosight("compare", str(folder / "alexnet.csv"), str(folder / "person.csv"), "--resamples", "50")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["observer", "alexnet", "person", "alexnet"]
    assert "There are no people" not in done.out
    assert "answers are taken to be independent" in done.err


def test_without_errors_there_is_no_value(tmp_path):
    files = [write_matrix(tmp_path / name, np.eye(2, 3) * 9, ["cat", "dog"]) for name in ("a.csv", "b.csv")]
    row = compare(*files, resamples=20).rows[-1]
    assert (row.value, row.flags, row.note) == (None, ("undefined",), "undefined: no errors")


def test_an_observers_draws_are_its_own(edges):
    """The interval of a pair does not depend on the other files."""
    folder, _, _ = edges
    files = [folder / name for name in ("alexnet.csv", "person.csv", "vgg19.csv")]
    two, three = (compare(*files[:count], measure="cles", resamples=100, seed=3).rows for count in (2, 3))
    assert two[0] == three[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("person.csv",), "needs the confusion matrices of two observers, got only"),
        (("person.csv", "sample:edges"), "compared with each other only, got sample:edges as well"),
        (("person.csv", "vgg19.csv", "--measure", "ec"), "so that error_consistency needs trials"),
        (("person.csv", "vgg19.csv", "--by", "condition"), "--by is about trials, and confusion matrices have none"),
        (("person.csv", "vgg19.csv", "--preset", "model-vs-human"), "--preset is about trials"),
        (("person.csv", "vgg19.csv", "--role", "all"), "--role is about trials"),
        (("person.csv", "wide.csv"), "wide.csv: a confusion matrix has a row and a column per class, got no row for"),
        (("person.csv", "below.csv"), "below.csv, row airplane, column airplane: a count must be a whole number"),
        (("person.csv", "other.csv"), "confusion matrices must be about the same classes"),
    ],
)
def test_what_cannot_be_compared_is_one_line(arguments, message, edges, cosight, monkeypatch):
    folder, _, _ = edges
    monkeypatch.chdir(folder)
    text = (folder / "person.csv").read_text()
    lines = text.splitlines(keepends=True)
    (folder / "wide.csv").write_text("".join(lines[:-1]))
    (folder / "below.csv").write_text("".join([lines[0], "airplane" + ",-1" * 17 + "\n", *lines[2:]]))
    (folder / "other.csv").write_text(text.replace("truck", "lorry"))
    done = cosight("compare", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_benchmark_of_pairs_needs_trials(edges):
    folder, _, _ = edges
    with pytest.raises(InvalidInput, match="--on error-alignment needs trials, got a confusion matrix; use `cosight"):
        score(folder / "person.csv", on="error-alignment")
