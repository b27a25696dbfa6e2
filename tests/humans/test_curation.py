"""Curators' votes become a list: the majority keeps, a tie rejects, disagreements come first."""

import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.humans.results.export import curated_list, is_curation
from cosight.humans.results.quality import assess
from cosight.measures import fleiss_kappa
from tests.humans.answered import row, sheet, trials_of

VOTES = {"a": "kkk", "b": "kkr", "c": "krr", "d": "rrr", "e": "kr"}


def votes(table, kind="human", reason="bad quality"):
    said = {"k": ("keep", {}), "r": ("reject", {"reason": reason})}
    return [
        row(f"c{n}", item, said[vote][0], kind=kind, image=f"{item}.jpg", truth="tiger", **said[vote][1])
        for item, text in table.items()
        for n, vote in enumerate(text)
    ]


@pytest.fixture
def listed():
    return curated_list(trials_of(votes(VOTES), space=None), files={"a": "tiger/a.jpg"})


def test_the_majority_keeps_and_a_tie_rejects(listed):
    kept = dict(listed.select("stimulus", "kept").iter_rows())
    assert kept == {"a": True, "b": True, "c": False, "d": False, "e": False}


def test_disagreements_come_first(listed):
    assert listed["stimulus"].to_list() == ["b", "c", "e", "a", "d"]
    assert listed["disagreement"].to_list() == [True, True, True, False, False]


def test_votes_reasons_and_files_are_told(listed):
    facts = listed.filter(stimulus="c").row(0, named=True)
    assert (facts["keep"], facts["reject"], facts["reasons"]) == (1, 2, "bad quality (2)")
    assert (facts["image"], facts["truth"], facts["curators"]) == ("c.jpg", "tiger", "people")
    assert listed.filter(stimulus="a")["file"].item() == "tiger/a.jpg"
    assert listed.filter(stimulus="b")["file"].item() is None


def test_the_commonest_reason_comes_first():
    rows = votes({"x": "r"}, reason="offensive") + [
        row(f"d{n}", "x", "reject", trial=2, reason="text or logo") for n in range(2)
    ]
    assert curated_list(trials_of(rows, space=None))["reasons"].item() == "text or logo (2); offensive (1)"


def test_simulated_curators_count_only_where_there_are_no_people():
    simulated = votes({"a": "rrrr", "z": "k"}, kind="simulated")
    both = curated_list(trials_of(votes({"a": "k"}) + simulated, space=None))
    assert both.select("stimulus", "kept", "curators").rows() == [("a", True, "people")]
    alone = curated_list(trials_of(simulated, space=None))
    assert alone["curators"].unique().to_list() == ["simulated people"]


def test_curators_have_a_kappa():
    quality = assess(trials_of(votes(VOTES), space=None), resamples=20)
    counts = [[3, 0], [2, 1], [1, 2], [0, 3], [1, 1]]
    assert quality.agreement[0].value == pytest.approx(fleiss_kappa(counts).value)


def test_other_answers_are_no_votes():
    trials = trials_of(sheet(["01"]))
    assert not is_curation(trials)
    with pytest.raises(InvalidInput, match="curate study"):
        curated_list(trials)


def test_an_image_that_nobody_judged_is_not_listed():
    table = curated_list(trials_of([*votes({"a": "k"}), row("c9", "q", None)], space=None))
    assert table.filter(pl.col("stimulus") == "q").height == 0
