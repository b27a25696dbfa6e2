"""From a model's own outputs to the classes people were asked about."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER
from cosight.trials.mapping import LabelMap, answers_from, label_map
from cosight.trials.spaces import ABSTAIN, LabelSpace, label_spaces

HOWS = ("mean", "sum", "max")
PETS = LabelSpace("pets", ("cat", "dog"), members=(("tabby", "siamese"), ("pug",)), members_of="breeds")
BREEDS = LabelSpace("breeds", ("pug", "parrot", "siamese", "tabby"))


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def outputs(rows, columns, seed=0):
    return softmax(np.random.default_rng(seed).normal(0, 3, (rows, columns)))


# ---- published mappings


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("laion-c-16", 285),  # Li et al. 2025: 16 superclasses of 285 ImageNet classes
        ("model-vs-human-16", 207),  # counted in the released mapping of Geirhos et al. 2018
    ],
)
def test_columns_are_those_of_the_released_mappings(name, size, mirror):
    released = json.loads((mirror / "class-mappings" / f"{name}.json").read_text())
    mapping = label_map("imagenet-1k", name)
    assert {c: sorted(group) for c, group in zip(mapping.classes, mapping.groups, strict=True)} == {
        c: sorted(group) for c, group in released.items()
    }
    assert sum(map(len, mapping.groups)) == size


def test_laion_c_by_wordnet_id_is_the_same_mapping(mirror):
    released = json.loads((mirror / "class-mappings" / "laion-c-16-wordnet.json").read_text())
    space = label_spaces["laion-c-16"]
    assert {c: sorted(m) for c, m in zip(space.classes, space.members, strict=True)} == {
        c: sorted(m) for c, m in released.items()
    }


@pytest.mark.parametrize(
    ("target", "name", "columns"),
    [
        ("model-vs-human-16", "bear", (294, 295, 296, 297)),  # Geirhos et al. 2018: brown, black, polar and sloth bear
        ("model-vs-human-16", "knife", (499,)),  # cleaver
        ("laion-c-16", "butterfly", (321, 322, 323, 324, 325, 326)),
    ],
)
def test_columns_of_some_classes(target, name, columns):
    mapping = label_map("imagenet-1k", target)
    assert mapping.groups[mapping.classes.index(name)] == columns


def test_imagenet_a_is_a_softmax_over_its_200_logits():
    # Hendrycks et al. 2021 pick the 200 logits first; dividing the probabilities by their sum is the same
    logits = np.random.default_rng(1).normal(0, 3, (50, 1000))
    mapping = label_map("imagenet-1k", "imagenet-a-200")
    columns = [group[0] for group in mapping.groups]
    assert (len(columns), columns[:5], columns[-1]) == (200, [6, 11, 13, 15, 17], 988)  # their eval.py
    mapped = answers_from(mapping.apply(softmax(logits)))
    np.testing.assert_allclose(mapped.probabilities, softmax(logits[:, columns]), atol=1e-7)
    np.testing.assert_array_equal(mapped.response, logits[:, columns].argmax(axis=1))


# ---- values


@pytest.mark.parametrize(
    ("how", "raw", "response"),
    [("mean", [0.25, 0.4], 1), ("sum", [0.5, 0.4], 0), ("max", [0.3, 0.4], 1)],  # by hand
)
def test_values_by_hand(how, raw, response):
    mapping = label_map(BREEDS, PETS, how=how)
    assert (mapping.source, mapping.target, mapping.how, mapping.outputs) == ("breeds", "pets", how, 4)
    assert mapping.groups == ((3, 2), (0,))
    values = mapping.apply([[0.4, 0.1, 0.2, 0.3]])
    np.testing.assert_allclose(values, [raw], rtol=1e-15)
    mapped = answers_from(values)
    assert mapped.response.tolist() == [response]
    np.testing.assert_allclose(mapped.probabilities, np.array([raw]) / sum(raw), rtol=1e-6)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("target", ["model-vs-human-16", "laion-c-16"])
def test_every_class_is_made_of_its_own_columns(target, how):
    p, mapping = outputs(20, 1000), label_map("imagenet-1k", target, how=how)
    expected = np.stack([getattr(np, how)(p[:, list(group)], axis=1) for group in mapping.groups], axis=1)
    np.testing.assert_allclose(mapping.apply(p), expected, rtol=1e-12)


@st.composite
def mappings(draw):
    """A mapping of some of `k` columns onto classes, and probabilities for it."""
    k = draw(st.integers(2, 12))
    columns = draw(st.permutations(range(k)))
    used = draw(st.integers(1, k))
    cuts = sorted(draw(st.sets(st.integers(1, used - 1), max_size=used - 1))) if used > 1 else []
    groups = tuple(tuple(columns[a:b]) for a, b in zip([0, *cuts], [*cuts, used], strict=True))
    p = outputs(draw(st.integers(1, 6)), k, seed=draw(st.integers(0, 999)))
    return groups, k, p


def of(groups, k, how):
    return LabelMap("own", "asked", how, k, tuple(f"class {i}" for i in range(len(groups))), groups)


@given(mappings())
def test_mean_is_below_max_is_below_sum_and_sum_is_mean_times_size(case):
    groups, k, p = case
    mean, total, most = (of(groups, k, how).apply(p) for how in ("mean", "sum", "max"))
    assert (mean <= most * (1 + 1e-12)).all()
    assert (most <= total * (1 + 1e-12)).all()
    np.testing.assert_allclose(total, mean * [len(g) for g in groups], rtol=1e-12)
    assert (total.sum(axis=1) <= 1 + 1e-9).all()


@given(mappings(), st.sampled_from(HOWS), st.randoms())
def test_the_order_of_members_and_of_outputs_does_not_matter(case, how, random):
    groups, k, p = case
    moved = list(range(k))
    random.shuffle(moved)  # column i of the other model is column moved[i] of this one
    other = tuple(tuple(sorted(moved.index(column) for column in group)) for group in groups)
    np.testing.assert_allclose(of(groups, k, how).apply(p), of(other, k, how).apply(p[:, moved]), rtol=1e-12)


@given(mappings(), st.sampled_from(HOWS))
def test_stored_probabilities_sum_to_one_and_have_the_maximum_of_the_raw_values(case, how):
    groups, k, p = case
    raw = of(groups, k, how).apply(p)
    mapped = answers_from(raw)
    np.testing.assert_allclose(mapped.probabilities.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(mapped.response, raw.argmax(axis=1))
    np.testing.assert_array_equal(mapped.probabilities.argmax(axis=1), mapped.response)


def test_a_row_does_not_depend_on_its_neighbours():
    # runs are cut into shards and batches anywhere, and end in the same bytes; 2,500 rows are three blocks
    p, mapping = outputs(2500, 1000).astype(np.float32), label_map("imagenet-1k", "laion-c-16")
    whole = mapping.apply(p)
    assert (
        whole[1020:1030].tobytes() == np.concatenate([mapping.apply(p[i : i + 1]) for i in range(1020, 1030)]).tobytes()
    )
    assert whole[7:2400].tobytes() == mapping.apply(np.asfortranarray(p)[7:2400]).tobytes()


def test_no_images_give_no_answers():
    raw = label_map("imagenet-1k", "laion-c-16").apply(np.empty((0, 1000)))
    mapped = answers_from(raw)
    assert (raw.shape, mapped.response.shape, mapped.probabilities.shape) == ((0, 16), (0,), (0, 16))


# ---- what is stored


def test_a_near_tie_stays_with_the_answer_in_float32():
    raw = np.array([[0.3, 0.3 * (1 + 1e-12), 0.1], [0.2, 0.2, 0.1]])  # equal in float32; equal altogether
    mapped = answers_from(raw)
    assert mapped.response.tolist() == [1, 0]
    assert mapped.probabilities.argmax(axis=1).tolist() == [1, 0]
    np.testing.assert_allclose(mapped.probabilities, raw / raw.sum(axis=1, keepdims=True), rtol=1e-6)


def test_belief_wholly_outside_the_classes_is_no_answer():
    mapped = answers_from(label_map(BREEDS, PETS).apply([[0, 1, 0, 0], [1, 0, 0, 0]]))
    assert mapped.response.tolist() == [NO_ANSWER, 1]
    assert np.isnan(mapped.probabilities[0]).all()
    assert mapped.probabilities[1].tolist() == [0, 1]


@pytest.mark.parametrize("raw", [[[-0.1, 0.5]], [[np.nan, 0.5]], [[np.inf, 0.5]], [0.5, 0.5], np.empty((2, 0))])
def test_raw_values_are_finite_and_not_negative(raw):
    with pytest.raises(InvalidInput, match="raw values must be"):
        answers_from(raw)


# ---- which mapping


@pytest.mark.parametrize("name", sorted(label_spaces))
def test_a_space_maps_onto_itself_unchanged(name):
    mapping = label_map(name, name)
    p = outputs(3, mapping.outputs)
    assert mapping.apply(p).tobytes() == p.tobytes()
    assert mapping.classes == label_spaces[name].classes
    assert ABSTAIN not in mapping.classes


def test_another_head_maps_by_class_name():
    own = LabelSpace("own", ("dog", "frog", "cat"))
    assert label_map(own, LabelSpace("asked", ("cat", "dog"), abstain=True)).groups == ((2,), (0,))


def test_another_head_maps_by_title_and_alias():
    # tiger, zebra and gorilla are ImageNet classes 292, 340 and 366
    assert label_map("imagenet-1k", LabelSpace("asked", ("zebra", "gorilla", "tiger"))).groups == (
        (340,),
        (366,),
        (292,),
    )
    assert label_map(
        LabelSpace("own", ("great_white_shark", "tench")),
        LabelSpace("asked", ("n1", "n2"), titles=("tench", "great white shark")),
    ).groups == ((1,), (0,))
    words = LabelSpace("own", tuple({"car_truck": "vehicle"}.get(c, c) for c in label_spaces["laion-c-16"].classes))
    assert label_map(words, "laion-c-16").groups == tuple((i,) for i in range(16))


def test_a_head_with_more_wordnet_ids_maps_by_members():
    larger = LabelSpace("larger", ("n00000001", *reversed(label_spaces["imagenet-1k"].classes)))
    mapping, usual = label_map(larger, "laion-c-16"), label_map("imagenet-1k", "laion-c-16")
    assert [[1000 - column for column in group] for group in mapping.groups] == [list(group) for group in usual.groups]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("imagenet-1k", "visalign-11", "imagenet-1k lacks camel, giraffe, elephant, rhino, bear and 2 more: .*--probe"),
        ("cifar-10", "model-vs-human-16", "made of classes of imagenet-1k.*cifar-10 lacks bear, bicycle"),
        ("imagenet-a-200", "laion-c-16", "imagenet-a-200 lacks ball"),  # some members are not all members
        ("imagenet-a-200", "imagenet-1k", "imagenet-a-200 lacks n01440764, .* and 795 more"),
        ("imagenet-1k", "crane,tench", "lacks crane: "),  # a bird and a machine: which is not said
        ("digits", "cifar-10", "a linear probe"),
    ],
)
def test_no_mapping_says_what_is_lacking_and_what_to_do(source, target, words):
    with pytest.raises(InvalidInput, match=words):
        label_map(source, target)


def test_wrong_outputs_are_refused():
    mapping = label_map("imagenet-1k", "laion-c-16")
    with pytest.raises(
        InvalidInput, match=re.escape("must be (n, 1000), an output for each class of imagenet-1k, got shape (2, 10)")
    ):
        mapping.apply(outputs(2, 10))
    with pytest.raises(InvalidInput, match="sum to one"):
        mapping.apply(outputs(2, 1000) * 2)
    with pytest.raises(InvalidInput, match="must not be negative"):
        mapping.apply(np.random.default_rng(0).normal(size=(2, 1000)))  # logits
    with pytest.raises(InvalidInput, match="mean, sum, max, got 'median'"):
        label_map("imagenet-1k", "laion-c-16", how="median")


@pytest.mark.parametrize("groups", [((0,),), ((0,), ()), ((0,), (4,)), ((0,), (-1,)), ((0, 1), (1,))])
def test_every_class_has_columns_of_its_own(groups):
    with pytest.raises(InvalidInput, match="columns of its own out of 4"):
        LabelMap("own", "asked", "mean", 4, ("cat", "dog"), groups)


# ---- identity


def test_the_digest_tells_answers_apart_and_nothing_else():
    digests = [
        label_map("imagenet-1k", target, how=how).digest
        for target in ("laion-c-16", "model-vs-human-16")
        for how in HOWS
    ]
    assert len(set(digests)) == 6
    assert label_map(BREEDS, PETS).digest == label_map(LabelSpace("renamed", BREEDS.classes), PETS).digest
    assert (
        len({label_map("cifar-10", "cifar-10", how=how).digest for how in HOWS}) == 1
    )  # one member each: no matter how
    assert label_map("cifar-10", "cifar-10").digest != label_map("digits", "digits").digest


def test_the_digest_stays():
    # stored in runs: a change here makes every finished job strange
    assert label_map(BREEDS, PETS).digest == "58126874bf7ce1a399eec90c627d34d978aa55211cdcc10e16b25b5f851bfeb5"
