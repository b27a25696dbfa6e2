"""Prompt tables of categories 2 and 5."""

from __future__ import annotations

import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosight.benchmarks.visalign.balanced_draws import draws
from cosight.benchmarks.visalign.class_facts import read_class_facts
from cosight.benchmarks.visalign.prompts import PROMPT_SCHEMA, prompt_table
from cosight.errors import InvalidInput
from cosight.trials.spaces import label_spaces

CLASSES = label_spaces["visalign-11"].classes


def test_the_lists_are_the_papers():  # Lee et al. 2023, D.2 and Table 6
    facts = read_class_facts()
    assert tuple(facts.subspecies) == CLASSES
    counts = dict(zip(CLASSES, (6, 7, 3, 6, 8, 5, 4, 8, 15, 1), strict=True))  # kangaroo: 17 lines, 2 are headings
    assert {name: len(animals) for name, animals in facts.subspecies.items()} == counts
    assert not [animal for animals in facts.subspecies.values() for animal in animals if "Genus" in animal]
    assert len(set(facts.backgrounds)) == 28
    assert facts.others == ("eagle", "bird", "fish", "alligator")
    assert facts.negative_prompt.startswith("unrealistic, bad anatomy,")
    assert facts.negative_prompt.endswith("disgusting, amputation")


def test_a_prompt_reads_as_the_paper_prints_it():
    table = prompt_table(2, count=63 * 28, seed=0)
    wanted = (
        "RAW photo of a Amur tiger on the moon, 8k uhd, dslr, soft lighting, high quality, film grain, Fujifilm XT3"
    )
    row = table.filter(pl.col("prompt") == wanted).row(0, named=True)
    assert (row["truth"], row["subspecies"], row["background"]) == ("tiger", "Amur tiger", "on the moon")
    words = set(prompt_table(5, count=2000, seed=0, routes=["text"])["prompt"])
    assert {"Plains zebra that looks like fish", "a picture of Sun Bear with head of an eagle"} <= words


@pytest.mark.parametrize("category", [2, 5])
@settings(max_examples=25)
@given(count=st.integers(1, 60), more=st.integers(0, 60), seed=st.integers(0, 5))
def test_a_longer_table_begins_with_the_shorter(category, count, more, seed):
    longer = prompt_table(category, count=count + more, seed=seed)
    assert dict(longer.schema) == PROMPT_SCHEMA
    assert longer.head(count).equals(prompt_table(category, count=count, seed=seed))


@pytest.mark.parametrize("category", [2, 5])
def test_tables_are_balanced_reproducible_and_seeded(category):
    table = prompt_table(category, count=400, seed=7)
    assert set(table["original"].value_counts()["count"]) == {40}
    assert table["seed"].n_unique() == 400
    other = prompt_table(category, count=400, seed=8)
    assert not table["prompt"].equals(other["prompt"])
    shared = table.join(other, on=["prompt", "target"], nulls_equal=True)
    assert shared.height
    assert not (shared["seed"] == shared["seed_right"]).any()
    assert set(table["truth"]) == (set(CLASSES) if category == 2 else {"abstain"})


def test_nothing_comes_twice_before_all_have_come():
    giraffes = prompt_table(2, count=10 * 6 * 28 + 10, seed=1).filter(original="giraffe")
    assert giraffes["prompt"].n_unique() == 6 * 28
    assert giraffes.head(6 * 28)["prompt"].n_unique() == 6 * 28
    again = giraffes.row(-1, named=True)
    assert giraffes.filter(prompt=again["prompt"])["seed"].n_unique() == 2  # the second lap makes another image


def test_a_class_is_spread_over_subspecies_and_backgrounds():
    tigers = prompt_table(2, count=10 * 28, seed=2).filter(original="tiger")
    assert set(tigers["background"].value_counts()["count"]) == {1}
    shares = tigers["subspecies"].value_counts()["count"]
    assert shares.max() - shares.min() <= 1


def test_routes_take_turns_and_a_mix_names_its_target():
    table = prompt_table(5, count=400, seed=3)
    assert table["route"].value_counts().sort("route").rows() == [("mix", 200), ("text", 200)]
    mixes, texts = table.filter(route="mix"), table.filter(route="text")
    assert texts["target"].null_count() == texts["negative_prompt"].null_count() == 200
    assert mixes["target"].null_count() == 0
    for row in mixes.iter_rows(named=True):
        shown = row["subspecies"] if row["target"] == row["other"] else row["other"]
        assert f"a {shown} {row['background']}" in row["prompt"]
        assert row["other"] != row["original"]
        if shown == row["other"]:
            assert shown in read_class_facts().others
            assert row["target"] == row["subspecies"]
    assert mixes.filter(pl.col("target") == pl.col("subspecies")).height
    assert mixes.filter(pl.col("other").is_in(CLASSES)).height


def test_other_animals_can_be_replaced():
    table = prompt_table(5, count=40, seed=0, routes=["text"], others=["shark"])
    assert set(table["other"]) == {"shark"}


@pytest.mark.parametrize(
    ("category", "options", "message"),
    [
        (3, {}, "category 2 or 5, got 3"),
        (2, {"count": 0}, "count must be at least 1, got 0"),
        (2, {"routes": ["mix"]}, "routes of category 2 are text, each at most once, got mix"),
        (5, {"routes": []}, "got none"),
        (5, {"others": ["Tiger"]}, "outside the classes, got 'Tiger'"),
        (5, {"others": ["eagle", "eagle"]}, "distinct names"),
    ],
)
def test_bad_requests_are_named(category, options, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        prompt_table(category, **({"count": 5, "seed": 0} | options))


def test_draws_use_every_combination_and_need_one():
    combinations = [(i, j) for i in range(3) for j in range(5)]
    stream = draws(combinations, name="x", seed=0)
    laps = [[next(stream) for _ in combinations] for _ in range(2)]
    assert [{draw.values for draw in lap} for lap in laps] == [set(combinations)] * 2
    assert [{draw.lap for draw in lap} for lap in laps] == [{0}, {1}]
    with pytest.raises(InvalidInput, match="no combination for x"):
        next(draws([], name="x", seed=0))
