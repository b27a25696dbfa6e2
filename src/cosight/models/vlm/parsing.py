"""From the text of a vision-language model's answer to an option, a refusal, or nothing.

A class is recognised by its word, its name, title or alias in the label space, the classes that it is made of, and the
plural or singular of any of these. A text that names several classes is not parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from cosight.models.vlm.prompts import class_words, member_titles
from cosight.trials.spaces import ABSTAIN, LabelSpace

__all__ = ["Finder", "Outcome", "ParsedReply", "class_finder", "letter_finder", "parse_reply"]

Outcome = Literal["answered", "abstained", "refused", "unparsed"]
Finder = Callable[[str], set[str]]  # the answers that a text names

_FENCE = re.compile(r"^```\w*\s*|\s*```$")
_ANSWER_FIELD = re.compile(r'"answer"\s*:\s*"((?:[^"\\]|\\.)*)')
_LABEL = re.compile(
    r"^\W*(?:(?:the|my|final)\s+)?(?:answer|category|class|option|label)\s*(?:is|:|=)\s*", re.IGNORECASE
)
_SEPARATORS = re.compile(r"[^\w']+|_+")
_ARTICLES = ("a", "an", "the")
_IRREGULAR = {
    "people": "person",
    "persons": "person",
    "men": "man",
    "women": "woman",
    "children": "child",
    "mice": "mouse",
    "geese": "goose",
    "teeth": "tooth",
    "feet": "foot",
    "oxen": "ox",
}
_ABSTENTIONS = (  # as the whole answer
    "none",
    "none of these",
    "none of them",
    "none of the above",
    "no category",
    "unsure",
    "uncertain",
    "unknown",
    "unrecognisable",
    "unrecognizable",
)
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|can(?:no|')t|can not|could(?: not|n't)|unable|won't|will not|not able|"
    r"not allowed|decline|refuse)\b",
    re.IGNORECASE,
)
_HEDGE = re.compile(r"\b(?:but|however|guess|likely|probably|appears?|looks?|seems?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What an answer says.

    Attributes:
        outcome: answered; abstained (it says `abstain`, or that none fits); refused; unparsed (it names no option, or
            several).
        answer: The option, where the outcome is answered.
        reason: The reason that it gives, if any.
    """

    outcome: Outcome
    answer: str | None = None
    reason: str | None = None


def parse_reply(text: str, find: Finder, *, refused: bool = False) -> ParsedReply:
    """Return what the text of an answer says.

    Args:
        text: The text: JSON with `answer` and perhaps `reason`, or plain text, whose first line is the answer.
        find: Returns the answers that a text names.
        refused: Whether the endpoint itself marked the answer as a refusal.

    Returns:
        The outcome.

    >>> from cosight.trials.spaces import label_space
    >>> find = class_finder(label_space("laion-c-16"))
    >>> parse_reply('{"answer": "Vehicles", "reason": "Wheels."}', find)
    ParsedReply(outcome='answered', answer='car_truck', reason='Wheels.')
    >>> parse_reply("I'm sorry, I can't help with that.", find).outcome, parse_reply("dog or cat", find).outcome
    ('refused', 'unparsed')
    """
    if refused:
        return ParsedReply("refused", reason=text.strip() or None)
    plain = _FENCE.sub("", text.strip().replace("\u2019", "'"))
    answer, reason = _read_json(plain)
    if answer is None:
        first, _, rest = plain.partition("\n")
        answer, reason = _LABEL.sub("", first), rest.strip() or None
    for part in (answer, plain):
        named = find(_after_refusal(part))
        if len(named) == 1:
            (found,) = named
            return ParsedReply("abstained" if found == ABSTAIN else "answered", found, reason)
        if named:
            return ParsedReply("unparsed", reason=reason)
    return ParsedReply("refused" if _REFUSAL.search(plain) else "unparsed", reason=reason)


def _after_refusal(text: str) -> str:
    """Return the text that may name an option: all of it, or what follows "but" or "probably" after a refusal.

    >>> _after_refusal("I cannot tell who this is, but it looks like a bear."), _after_refusal("I cannot see a bear.")
    ('but it looks like a bear.', '')
    """
    *_, rest = _REFUSAL.split(text)
    hedge = _HEDGE.search(rest)
    return text if rest == text else rest[hedge.start() :] if hedge else ""


def _read_json(text: str) -> tuple[str | None, str | None]:
    """Return `answer` and `reason` of JSON text, also of text that was cut off after the answer."""
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        match = _ANSWER_FIELD.search(text)
        return (match[1] if match else None), None
    if isinstance(content, dict) and "answer" in content:
        reason = content.get("reason")
        return str(content["answer"]), str(reason) if reason else None
    return None, None


def letter_finder(letters: Mapping[str, str]) -> Finder:
    """Return the function that finds options named by single capital letters.

    >>> find = letter_finder({"A": "x", "B": "y"})
    >>> find("b"), find("Option A looks like a twin."), find("A or B")
    ({'y'}, {'x'}, set())
    """

    def find(text: str) -> set[str]:
        alone = text.strip(" .*\"'()").upper()
        named = {alone} if alone in letters else set(re.findall(r"\b[A-Z]\b", text)) & set(letters)
        return {letters[letter] for letter in named} if len(named) == 1 else set()

    return find


@cache
def class_finder(space: LabelSpace) -> Finder:
    """Return the function that finds the classes of a label space that a text names.

    >>> from cosight.trials.spaces import label_space
    >>> find = class_finder(label_space("model-vs-human-16"))
    >>> find("Two knives."), find("a Siamese cat"), sorted(find("a bird or a boat")), find("a spoon")
    ({'knife'}, {'cat'}, ['bird', 'boat'], set())
    """
    terms = _terms(space)
    longest = max(len(term.split()) for term in terms)

    def look_up(words: list[str]) -> str | None:
        return next((terms[form] for form in _forms(" ".join(words)) if form in terms), None)

    def find(text: str) -> set[str]:
        words = _normalise(text)
        whole = look_up(words)
        if whole is not None:
            return {whole}
        if " ".join(words) in _ABSTENTIONS:
            return {ABSTAIN}
        named: set[str] = set()
        start = 0
        while start < len(words):
            for length in range(min(longest, len(words) - start), 0, -1):
                answer = look_up(words[start : start + length])
                if answer is not None and (length > 1 or words[start] not in _ARTICLES):
                    named.add(answer)
                    break
            else:
                length = 1
            start += length
        return named

    return find


def _terms(space: LabelSpace) -> dict[str, str]:
    """Return every text that stands for one answer; the names of the space's own classes win over other texts."""
    own = [*space.words().items(), *((word, answer) for answer, word in class_words(space).items()), (ABSTAIN, ABSTAIN)]
    synonyms = [(part, name) for name in space.classes for part in space.title(name).split(" or ")]
    of_members = [(title, name) for name, titles in member_titles(space).items() for title in titles]
    terms: dict[str, str] = {}
    for texts in (own, synonyms, of_members):
        meanings: dict[str, set[str]] = {}
        for text, answer in texts:
            meanings.setdefault(" ".join(_normalise(text)), set()).add(answer)
        terms |= {
            text: min(names) for text, names in meanings.items() if len(names) == 1 and text and text not in terms
        }
    return terms


def _normalise(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and leading articles."""
    words = _SEPARATORS.sub(" ", text).casefold().split()
    while len(words) > 1 and words[0] in _ARTICLES:
        del words[0]
    return words


def _forms(text: str) -> list[str]:
    """Return a text, and its singular or plural as far as English is regular.

    >>> "butterfly" in _forms("butterflies"), "knife" in _forms("knives"), "tools" in _forms("tool")
    (True, True, True)
    """
    start, _, word = text.rpartition(" ")
    forms = [word, _IRREGULAR.get(word, word)]
    for ending, singulars in (("ies", ("y", "ie")), ("ves", ("f", "fe")), ("es", ("",)), ("s", ("",))):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            forms += [word[: -len(ending)] + singular for singular in singulars]
    forms += [f"{word}s", f"{word}es"]
    return [f"{start} {form}".strip() for form in dict.fromkeys(forms)]
