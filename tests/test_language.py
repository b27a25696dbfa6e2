"""Idioms that made texts of this repository hard to read do not come back."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUFFIXES = {".py", ".md", ".toml", ".html", ".ts", ".css"}
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
BUILT = ROOT / "src" / "cosight" / "humans" / "web" / "static"  # from web/src, by npm

_PER = "category|class|core|experiment|image|line|network|observer|pair|person|process|resample|row|second|side|trial"
_COUNTED = "CSV|files?|folders?|images?|keys?|lines?|numbers?|pixels|rows?|seconds"

# name -> the idiom, and what to write instead; a blank stands for any white space
IDIOMS = {
    "set apart": (r"\bset apart\b", "separated, comma-separated"),
    "go on with": (r"\b(?:go|goes|going|gone|went) on (?:with|where|by itself)\b", "resume, continue"),
    "killed, it": (r"\b[Kk]illed, (?:it|they|a run)\b", "an interrupted run resumes"),
    "hold against": (r"\b(?:hold|holds|held|holding)(?: \S+){0,4} against\b", "compare with"),
    "told": (r"\btold\b", "described, distinguished; in code a noun: condition, label, expected"),
    "one row a trial": (rf"\b(?:[Oo]ne|[Ff]our|[Ss]ome|\d[\d,]*) (?:{_COUNTED}) an? (?:{_PER})\b", "one row per trial"),
    "one a class": (rf"\b(?:[Oo]ne|[Oo]nce) an? (?:{_PER})\b", "one per class"),
    "on the way": (r"\bon the way\b", "while models are evaluated, meanwhile"),
    "anew": (r"\banew\b", "again, a new ..."),
    "is to be found": (r"\b(?:is|are) to be found\b", "to detect"),
    "taken for": (r"\b(?:is|are|was|were|be) taken for\b(?! granted)|\btakes? them for\b", "assumed to be, counted as"),
    "made again": (r"\b(?:made|makes?(?: it| them)?) again\b", "rebuilt, computed again"),
    "mend": (r"\bmend(?:s|ed|ing)?\b", "repair, correct"),
    "who as a subject": (r"(?<!\w )\bWho (?:is|was|has|had|are|were|did)\b[^?]{0,300}?\.(?= )", "people who ..."),
    "one's own": (r"\bone's own\b", "your own"),
    "is nobody's": (r"\b(?:is|are) nobody's\b", "is unknown"),
    "drawn apart": (r"\bdrawn apart\b", "drawn independently"),
    "lie apart": (r"\blies? apart\b", "do not overlap"),
    "take their place": (
        r"\bin the place of\b|\btakes? (?:its|their) place\b|\bputs? [^.]{0,60} in (?:its|their) place\b",
        "replace",
    ),
    "changed round": (r"\bchanged round\b", "swapped"),
    "tell of": (r"\btells? (?:more|of)\b", "names, describes, has details"),
    "as said": (r"\bas said\b", "as described"),
    "thrice": (r"\bthrice\b", "three times"),
    "handed in": (r"\bhanded (?:in|again|out)\b|\bhands out\b", "passed, sent, assigned"),
    "goes with a": (r"\bgoes with an?\b|\bwhat does not go\b", "suits, applies to"),
    "come by itself": (r"\bcomes? by (?:itself|themselves)\b", "is automatic, needs no code"),
    "a past participle as a class": (
        r"\bclass (?:Asked|Given|OnTheWay|Said|Seen|Shown|Stored)\b",
        "a noun for what it holds",
    ),
}


@cache
def texts():
    """Every text by its path; white space is a single blank, so that an idiom is found across lines."""
    files = [ROOT / name for name in PAGES]
    for folder in ("src", "docs", "web/src"):
        files += [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    kept = [path for path in files if not path.is_relative_to(BUILT)]
    return {path.relative_to(ROOT).as_posix(): " ".join(path.read_text(encoding="utf-8").split()) for path in kept}


def hits(name):
    """The places of an idiom by file, with some words around each."""
    places = {}
    for file, text in texts().items():
        found = [text[max(0, hit.start() - 30) : hit.end() + 30] for hit in re.finditer(IDIOMS[name][0], text)]
        if found:
            places[file] = found
    return places


def test_texts_are_read():
    assert {"README.md", "docs/explanation/design.md", "src/cosight/errors.py", "web/src/api.ts"} <= set(texts())


@pytest.mark.parametrize("name", IDIOMS)
def test_idiom_does_not_come_back(name):
    assert hits(name) == {}, f"write instead: {IDIOMS[name][1]}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("set apart", "names, set apart by commas"),
        ("go on with", "cannot be gone on with"),
        ("killed, it", "Killed, it resumes"),
        ("hold against", "to hold the observers against people"),
        ("one row a trial", "one row an observer"),
        ("one a class", "default: one a core"),
        ("taken for", "its outputs are taken for ImageNet's"),
        ("who as a subject", "Who was shown a part is left out. The others"),
    ],
)
def test_idioms_are_found(name, text):
    assert re.search(IDIOMS[name][0], text)


@pytest.mark.parametrize(
    "text",
    [
        "one of a class, some of a row, once a model is loaded",
        "the row holds; a check against the manifest",
        "people who were shown it. Who is excluded? The others stay. ",
        "which is taken for granted; a leave-one-out ceiling",
        "is drawn again and handed over",
    ],
)
def test_plain_texts_are_not_found(text):
    assert [name for name, (idiom, _) in IDIOMS.items() if re.search(idiom, text)] == []
