"""What a vision-language model is asked: which class an image shows, or which of some images looks like another.

The classes have the words that people see on the buttons of a study (the titles of the label space), and a line each.
The order of the options is drawn for every trial: options are sorted by the hash of the trial's seed and their word.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from cosight.errors import InvalidInput
from cosight.models.vlm.estimates import estimate_tokens
from cosight.trials.spaces import ABSTAIN, LabelSpace, label_spaces

__all__ = [
    "LARGE_SPACE",
    "Prompt",
    "choice_prompt",
    "class_prompt",
    "class_words",
    "large_prompt_note",
    "member_titles",
    "order_seed",
    "shuffled",
]

LARGE_SPACE = 100  # classes above which the size of the prompt is worth a warning
_EXAMPLES = 3  # members named in the line of a class
_LETTERS = "ABCDEFGHIJ"
_ABSTAIN_LINE = "no category fits, you cannot tell what the image shows, or you are unsure between categories"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question.

    Attributes:
        system: The system message.
        question: The user's text, before the images.
        images: The heading of each image of the question; empty for a single image.
        options: Word of each option, in the order of the question -> the answer that it stands for.
        reason: Whether the reason is asked for.
    """

    system: str
    question: str
    images: tuple[str, ...]
    options: Mapping[str, str]
    reason: bool = False

    @property
    def tokens(self) -> int:
        """Estimated number of tokens of the text."""
        return estimate_tokens(self.system, self.question, *self.images)

    def __str__(self) -> str:
        images = "".join(f"\n{heading} <image>" for heading in self.images) or "\n<image>"
        return f"system:\n{self.system}\n\nuser:\n{self.question}{images}"


def order_seed(seed: int, stimulus: str) -> int:
    """Return the seed of a trial's order of options, from the run's seed and the stimulus or task.

    >>> order_seed(0, "a") == order_seed(0, "a"), order_seed(0, "a") == order_seed(1, "a")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{stimulus}".encode()).digest()[:4], "big")


def shuffled(options: Sequence[str], seed: int) -> list[str]:
    """Return options in the order that a seed gives, sorted by the SHA-256 of `SEED/OPTION`.

    >>> shuffled(["cat", "dog", "frog"], 1)
    ['dog', 'frog', 'cat']
    """
    return sorted(options, key=lambda option: hashlib.sha256(f"{seed}/{option}".encode()).digest())


@cache
def class_words(space: LabelSpace) -> dict[str, str]:
    """Return the word of each answer: the class name, or the title of a class whose name is a code.

    Args:
        space: The label space.

    Returns:
        Answer -> word, in the order of the answers.

    >>> from cosight.trials.spaces import label_space
    >>> list(class_words(label_space("imagenet-1k")).items())[0], class_words(label_space("cat,dog"))
    (('n01440764', 'tench'), {'cat': 'cat', 'dog': 'dog'})
    """
    words, folded = {}, Counter(title.casefold() for title in space.titles)
    for name in space.classes:
        is_code = any(map(str.isdigit, name)) and any(map(str.isalpha, name))
        word = space.title(name) if is_code else name
        words[name] = f"{word} ({name})" if is_code and folded[word.casefold()] > 1 else word
    return {**words, ABSTAIN: ABSTAIN} if space.abstain else words


def member_titles(space: LabelSpace) -> dict[str, list[str]]:
    """Return the titles of the finer classes that make up each class; empty where there are none.

    >>> from cosight.trials.spaces import label_space
    >>> member_titles(label_space("laion-c-16"))["ball"][0]
    'baseball'
    """
    if not space.members or space.members_of not in label_spaces:
        return {}
    finer = label_spaces[space.members_of]
    titles = dict(zip(finer.classes, finer.titles or finer.classes, strict=True))
    groups = zip(space.classes, space.members, strict=True)
    return {name: [titles[member] for member in group] for name, group in groups}


@cache
def _class_lines(space: LabelSpace) -> dict[str, str]:
    """Return the line of each answer: its word, the title that people see, and examples from the members."""
    members = member_titles(space)
    lines = {}
    for name, word in class_words(space).items():
        title = space.title(name)
        parts = [] if word.replace("_", " ") == title or word.startswith(title) else [title]
        group = members.get(name, [])
        step = max(len(group) // _EXAMPLES, 1)
        examples = [example for example in group[::step] if example not in (word, title)][:_EXAMPLES]
        if examples:
            parts.append(f"for example {', '.join(examples)}")
        if name == ABSTAIN:
            parts = [_ABSTAIN_LINE]
        lines[name] = f"- {word}: {', '.join(parts)}" if parts else f"- {word}"
    return lines


def class_prompt(space: LabelSpace, *, seed: int = 0, reason: bool = False) -> Prompt:
    """Return the question which class of a label space an image shows.

    Args:
        space: The label space; `abstain` is an option where it has it.
        seed: Seed of the order of the options.
        reason: Whether to ask for the reason.

    Returns:
        The question.

    >>> from cosight.trials.spaces import label_space
    >>> print(class_prompt(label_space("cat,dog"), seed=1).question)
    What is the main object in this image? One of: dog, cat.
    """
    words, lines = class_words(space), _class_lines(space)
    answers = {word: answer for answer, word in words.items()}
    order = shuffled(list(answers), seed)
    unsure = (
        f"Name a category only if you are sure that it fits. Answer {ABSTAIN} if {_ABSTAIN_LINE}."
        if space.abstain
        else "The image may be altered so strongly that the object is hard to recognise. If you are unsure, guess: "
        "every image belongs to one of the categories."
    )
    system = (
        "You take part in an experiment on how images are recognised. You will see one image at a time. Say which of "
        f"these {len(space.classes)} categories its main object belongs to.\n\n{unsure}\n\nCategories:\n"
        + "\n".join(lines[answers[word]] for word in order)
        + f"\n\n{_how_to_answer('category', order, reason)}"
    )
    question = f"What is the main object in this image? One of: {', '.join(order)}."
    return Prompt(system, question, (), {word: answers[word] for word in order}, reason)


def choice_prompt(options: Sequence[str], *, reason: bool = False) -> Prompt:
    """Return the question which of some images looks most like a reference image (2AFC and clustering tasks).

    Args:
        options: The options, identified by their stimuli, in the order in which their images are sent.
        reason: Whether to ask for the reason.

    Returns:
        The question; its images are the reference, then the options.

    Raises:
        InvalidInput: There are fewer than 2 options, or more than 10.

    >>> choice_prompt(["x", "y"]).options
    {'A': 'x', 'B': 'y'}
    """
    if not 2 <= len(options) <= len(_LETTERS):
        raise InvalidInput(f"a choice must have 2 to {len(_LETTERS)} options, got {len(options)}; make smaller panels")
    letters = list(_LETTERS[: len(options)])
    listed = f"{', '.join(letters[:-1])} and {letters[-1]}"
    more = "more" if len(options) == 2 else "most"
    system = (
        "You take part in an experiment on how similar images look. You will see a reference image and "
        f"{len(options)} options, {listed}. Say which option looks {more} like the reference. If you are unsure, "
        f"guess.\n\n{_how_to_answer('option', letters, reason)}"
    )
    question = f"Which option looks {more} like the reference? One of: {', '.join(letters)}."
    images = ("Reference:", *(f"Option {letter}:" for letter in letters))
    return Prompt(system, question, images, dict(zip(letters, options, strict=True)), reason)


def _how_to_answer(what: str, words: Sequence[str], reason: bool) -> str:
    single = "one word" if not any(" " in word for word in words) else "one name of the list"
    if reason:
        return (
            f"Answer first with {single}, the name of the {what}, alone on the first line. Then give your reason in "
            "one sentence: what in the image you base the answer on."
        )
    return f"Answer with {single}, the name of the {what}, and nothing else."


def large_prompt_note(space: LabelSpace, images: int) -> str | None:
    """Return the warning about a label space of many classes: the size of its prompt; None where it has few.

    >>> from cosight.trials.spaces import label_space
    >>> large_prompt_note(label_space("cifar-10"), 100) is None
    True
    """
    if len(space.classes) <= LARGE_SPACE:
        return None
    tokens = class_prompt(space).tokens
    return (
        f"the {len(space.classes):,} classes of {space.name} make a prompt of about {tokens:,} tokens per image, "
        f"{tokens * images:,} for {images:,} images; --labels with fewer classes costs less"
    )
