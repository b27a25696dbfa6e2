"""What is asked: every class has a line, in the words that people see, in an order that the seed gives."""

from __future__ import annotations

import pytest

from cosight.errors import InvalidInput
from cosight.models.vlm.estimates import image_tokens
from cosight.models.vlm.prompts import choice_prompt, class_prompt, class_words, large_prompt_note, order_seed, shuffled
from cosight.trials.spaces import ABSTAIN, label_space, label_spaces


@pytest.mark.parametrize("space", label_spaces.values(), ids=lambda space: space.name)
def test_every_class_has_a_line_and_a_word_of_its_own(space):
    prompt = class_prompt(space)
    words = list(class_words(space).values())
    assert len(set(words)) == len(words)
    assert sorted(prompt.options.values()) == sorted(space.answers)
    lines = [line for line in prompt.system.splitlines() if line.startswith("- ")]
    assert len(lines) == len(space.answers)
    assert sorted(line[2:].split(": ")[0] for line in lines) == sorted(words)
    assert prompt.question.endswith(f"One of: {', '.join(prompt.options)}.")


def test_refusing_is_offered_where_the_label_space_has_it():
    assert ABSTAIN in class_prompt(label_space("visalign-11")).options
    assert "guess" not in class_prompt(label_space("visalign-11")).system
    assert ABSTAIN not in class_prompt(label_space("cifar-10")).system
    assert "guess" in class_prompt(label_space("cifar-10")).system


def test_the_order_depends_on_seed_and_stimulus_and_is_balanced():
    space = label_space("cat,dog,frog,ship")
    orders = [tuple(class_prompt(space, seed=order_seed(0, f"image {n}")).options) for n in range(400)]
    assert len(set(orders)) == 24
    first = [order[0] for order in orders]
    assert all(70 < first.count(name) < 130 for name in space.classes)
    assert shuffled(["cat", "dog"], 3) == shuffled(["dog", "cat"], 3)  # the seed alone decides


def test_the_reason_comes_after_the_answer():
    system = class_prompt(label_space("cat,dog"), reason=True).system
    assert system.index("first line") < system.index("reason")


def test_choices_have_letters():
    prompt = choice_prompt(["x", "y", "z"])
    assert prompt.images == ("Reference:", "Option A:", "Option B:", "Option C:")
    assert dict(prompt.options) == {"A": "x", "B": "y", "C": "z"}
    for options in (["x"], list("abcdefghijk")):
        with pytest.raises(InvalidInput, match="2 to 10 options"):
            choice_prompt(options)


def test_a_thousand_classes_are_worth_a_warning():
    note = large_prompt_note(label_space("imagenet-1k"), 50)
    assert note.startswith("the 1,000 classes of imagenet-1k make a prompt of about ")
    tokens = class_prompt(label_space("imagenet-1k")).tokens
    assert f"{tokens:,} tokens per image, {tokens * 50:,} for 50 images" in note
    assert large_prompt_note(label_space("laion-c-16"), 50) is None


def test_tokens_of_an_image_follow_the_published_rule():
    """OpenAI's examples for GPT-4o: 1024 x 1024 is 765 tokens, 2048 x 4096 is 1105; with low detail always 85."""
    assert image_tokens(1024, 1024, "high") == 765
    assert image_tokens(2048, 4096, "high") == 1105
    assert image_tokens(4096, 8192, "low") == 85
