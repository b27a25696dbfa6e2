"""From the text of an answer to a class, a refusal or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.models.vlm.parsing import class_finder, letter_finder, parse_reply
from cosight.models.vlm.prompts import class_words
from cosight.trials.spaces import ABSTAIN, label_space, label_spaces

LAION = class_finder(label_space("laion-c-16"))
VISALIGN = class_finder(label_space("visalign-11"))
OBJECTS = class_finder(label_space("model-vs-human-16"))


@pytest.mark.parametrize(
    "text, answer",
    [
        ("dog", "dog"),
        ("Dog.", "dog"),
        ("  **dog**\n", "dog"),
        ("A dog", "dog"),
        ("Answer: dog", "dog"),
        ("The category is: dogs", "dog"),
        ("DOGS", "dog"),
        ("butterflies", "butterfly"),
        ("fishes", "fish"),
        ("watches", "timekeeping"),
        ("snake", "snakes"),
        # the words of the paper's prompt for these classes: FACTS, section 4 (Li et al. 2025, A.6)
        ("vehicle", "car_truck"),
        ("vehicles", "car_truck"),
        ("timekeeper", "timekeeping"),
        ("tool", "tools"),
        ("instrument", "instruments"),
        ("musical instrument", "instruments"),
        ("car or truck", "car_truck"),
        ("truck", "car_truck"),
        ("apes", "primate"),
        ("a hammer", "tools"),
        ("Golden Retriever", "dog"),
        ('{"answer": "dog"}', "dog"),
        ('```json\n{"answer": "dog"}\n```', "dog"),
        ('{"answer": "dog", "reason": "I see a tail', "dog"),  # cut off
        ("It looks like a boat on a lake.", "boat"),
        ("I can't be sure, but it is probably a cat.", "cat"),
        ("dog\nThe image shows a snout, unlike a cat.", "dog"),
    ],
)
def test_words_synonyms_and_plurals_name_a_class(text, answer):
    parsed = parse_reply(text, LAION)
    assert (parsed.outcome, parsed.answer) == ("answered", answer)


def test_knives_and_people():
    assert parse_reply("Two knives", OBJECTS).answer == "knife"
    assert parse_reply("people", VISALIGN).answer == "human"
    assert parse_reply("rhinoceroses", VISALIGN).answer == "rhino"


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, I can't help with that.",
        "I\u2019m sorry, but I can\u2019t identify the person in this image.",
        "I am unable to process this request.",
        "I cannot identify people.",
    ],
)
def test_refusals(text):
    assert parse_reply(text, VISALIGN).outcome == "refused"


def test_a_refusal_that_the_endpoint_marks_is_one_whatever_it_says():
    assert parse_reply("dog", LAION, refused=True).outcome == "refused"


@pytest.mark.parametrize("text", ["", "xyzzy", "a dog or a cat", "{}", '{"answ', "[1, 2]", '{"answer": 7}', "42", "a"])
def test_nonsense_is_not_parsed(text):
    assert parse_reply(text, LAION).outcome == "unparsed"


@pytest.mark.parametrize("text", ["abstain", "Abstain.", "None of these", "uncertain", '{"answer": "abstain"}'])
def test_abstaining(text):
    parsed = parse_reply(text, VISALIGN)
    assert (parsed.outcome, parsed.answer) == ("abstained", ABSTAIN)


def test_the_reason_is_kept():
    assert parse_reply('{"answer": "dog", "reason": "A tail."}', LAION).reason == "A tail."
    assert parse_reply("dog\nI see a tail.", LAION).reason == "I see a tail."


def test_letters_of_options():
    find = letter_finder({"A": "x", "B": "y", "C": "z"})
    for text, answer in (("B", "y"), ("b.", "y"), ('{"answer": "C"}', "z"), ("Option A is a better match", "x")):
        assert parse_reply(text, find).answer == answer
    assert parse_reply("A or B", find).outcome == "unparsed"
    assert parse_reply("a", find).answer == "x"


@pytest.mark.parametrize("space", label_spaces.values(), ids=lambda space: space.name)
def test_every_class_is_found_by_its_word_and_its_name(space):
    find = class_finder(space)
    for answer, word in class_words(space).items():
        assert find(word) == {answer}, word
        assert find(answer) == {answer}, answer


@given(st.text())
def test_any_text_has_an_outcome(text):
    parsed = parse_reply(text, LAION)
    assert parsed.outcome in ("answered", "abstained", "refused", "unparsed")
    assert (parsed.answer is not None) == (parsed.outcome in ("answered", "abstained"))
