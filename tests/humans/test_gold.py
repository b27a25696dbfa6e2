"""Label distributions and shares of aligned choices, with their intervals; gold labels in a set's manifest."""

import json

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from cosight.errors import InvalidInput
from cosight.humans.results.export import gold_table, label_set
from cosight.stimuli.sets import read_set, write_gold_labels
from cosight.trials.manifest import manifest_frame, manifest_space, write_manifest
from cosight.trials.spaces import label_space
from tests.humans.answered import DIGITS, row, sheet, trials_of

PETS = label_space("cat,dog,abstain")


def share(table, item, answer, group="people"):
    return table.filter(pl.col("stimulus").eq_missing(item), answer=answer, group=group).row(0, named=True)


def test_shares_with_their_intervals():
    """8 of 10 people: at either end of a mid-P interval, more extreme answers and half of these have 2.5 %."""
    table = gold_table(trials_of(sheet(["0"] * 8 + ["3"] * 2)))
    assert table.height == len(DIGITS.answers)
    eight = share(table, "i0", "0")
    assert (eight["count"], eight["n"], eight["share"]) == (8, 10, 0.8)
    low, high = eight["low"], eight["high"]
    assert binom.sf(8, 10, low) + binom.pmf(8, 10, low) / 2 == pytest.approx(0.025)
    assert binom.cdf(7, 10, high) + binom.pmf(8, 10, high) / 2 == pytest.approx(0.025)
    assert table["share"].sum() == pytest.approx(1)


def test_only_first_showings_of_what_was_asked_about_count():
    rows = [
        *sheet(["0", "0"]),
        row("p0", "i0", "3", trial=2, role="repeat", repeat_of=1),
        row("p0", "d", "abstain", trial=3, role="distractor", expected="abstain", clear=True),
        row("p0", "w", "5", trial=4, role="warmup"),
        row("p2", "i0", None, trial=1),  # missed
    ]
    table = gold_table(trials_of(rows))
    assert set(table["stimulus"]) == {"i0"}
    assert share(table, "i0", "0")["n"] == 2


def test_simulated_people_have_rows_of_their_own():
    table = gold_table(trials_of(sheet(["0", "0"]) + sheet(["1"], kind="simulated")))
    assert share(table, "i0", "0")["share"] == 1
    assert share(table, "i0", "1", "simulated people")["share"] == 1


@pytest.fixture
def chosen():
    """Three tasks of four people: 4, 3 and 1 choose the target."""
    rights = {"k0": "TTTT", "k1": "TTTS", "k2": "TSSS"}
    rows = [
        row(f"p{p}", task, f"{side}{task}", truth=f"T{task}", options=[f"S{task}", f"T{task}"], trial=1)
        for task, sides in rights.items()
        for p, side in enumerate(sides)
    ]
    return trials_of(rows, space=None)


def test_choices_have_the_share_of_the_aligned_option(chosen):
    table = gold_table(chosen)
    assert table["answer"].unique().to_list() == ["target"]
    assert [share(table, f"k{i}", "target")["share"] for i in range(3)] == [1, 0.75, 0.25]
    low = share(table, "k1", "target")["low"]
    assert binom.sf(3, 4, low) + binom.pmf(3, 4, low) / 2 == pytest.approx(0.025)
    whole = share(table, None, "target")
    assert (whole["share"], whole["count"], whole["n"]) == (pytest.approx(2 / 3), 8, 3)
    assert whole["low"] < 2 / 3 < whole["high"]


def test_votes_are_no_gold_labels():
    with pytest.raises(InvalidInput, match="--curated"):
        gold_table(trials_of([row("a", "i", "keep")], space=None))


@pytest.fixture
def plain(tmp_path):
    """A set without groups and without a label space of its own."""
    rows = [{"stimulus": f"i{i}", "file": f"images/{i}.png", "parameters": '{"angle": 3}'} for i in range(3)]
    write_manifest(tmp_path, manifest_frame(rows), {"settings": {"verb": "corrupt"}})
    return tmp_path


def pets(answers, kind="human"):
    return trials_of([row(f"p{n}", "i1", a, kind=kind) for n, a in enumerate(answers)], space=PETS)


def attach_gold(trials, root):
    """Write the labels that `study export --gold` would; the number of images, and whose labels they are."""
    labels = label_set(trials, root)
    write_manifest(root, labels.stimuli.frame, labels.stimuli.facts)
    return labels.images, labels.whose


def manifest_row(root, stimulus):
    return read_set(root).frame.filter(stimulus=stimulus).row(0, named=True)


def test_any_set_takes_gold_labels_from_a_study(plain):
    before = read_set(plain)
    assert attach_gold(pets(["cat", "cat", "abstain", "dog"]), plain) == (1, "people's")
    found = manifest_row(plain, "i1")
    assert (found["gold_counts"], found["gold"]) == ([2, 1, 1], [0.5, 0.25, 0.25])
    assert json.loads(found["parameters"]) == {"angle": 3, "gold": "people"}
    facts = read_set(plain).facts
    assert manifest_space(facts).answers == ("cat", "dog", "abstain")  # the order of the numbers
    assert {**facts, "labels": None} == {**before.facts, "labels": None}
    assert manifest_row(plain, "i0") == before.frame.row(0, named=True)


def test_simulated_answers_are_called_simulated_and_never_replace_peoples(plain):
    assert attach_gold(pets(["dog"], kind="simulated"), plain) == (1, "simulated people's")
    assert json.loads(manifest_row(plain, "i1")["parameters"])["gold"] == "simulated"  # what scores go by
    both = pl.concat([pets(["cat"]).frame, pets(["dog", "dog"], kind="simulated").frame])
    attach_gold(trials_of(both.iter_rows(named=True), space=PETS), plain)
    assert manifest_row(plain, "i1")["gold_counts"] == [1, 0, 0]
    with pytest.raises(InvalidInput, match="not replaced by simulated"):
        attach_gold(pets(["dog"], kind="simulated"), plain)
    assert manifest_row(plain, "i1")["gold_counts"] == [1, 0, 0]


def test_gold_labels_of_a_set_are_scored_as_simulated(plain):
    from cosight.statistics.gold_labels import gold_of, read_manifests
    from cosight.trials.join import align

    trials = pets(["dog"], kind="simulated")
    attach_gold(trials, plain)
    gold = gold_of(align(trials), read_manifests([plain]))
    assert gold.known.all()
    assert gold.simulated.all()
    assert gold.name == "simulated gold"


def test_repeats_and_checks_are_not_attached(plain):
    rows = [row("a", "i1", "cat"), row("a", "i1", "dog", role="repeat", trial=2), row("a", "i2", "cat", role="gold")]
    attach_gold(trials_of(rows, space=PETS), plain)
    assert manifest_row(plain, "i1")["gold_counts"] == [1, 0, 0]
    assert manifest_row(plain, "i2")["gold"] is None


def test_a_set_needs_a_manifest_and_answers_a_label_space(plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    from cosight.stimuli.images import encode

    (folder / "a.png").write_bytes(encode(np.zeros((32, 32, 3), np.uint8), "png"))
    with pytest.raises(InvalidInput, match=r"has no stimuli\.parquet"):
        write_gold_labels(folder, pets(["cat"]))
    with pytest.raises(InvalidInput, match="label space"):
        write_gold_labels(plain, trials_of([row("a", "i1", "cat")], space=None))
    with pytest.raises(InvalidInput, match="got none in the trials"):
        write_gold_labels(plain, trials_of([row("a", "elsewhere", "cat")], space=PETS))
