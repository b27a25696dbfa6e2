"""The design of a study: `study.toml` and `texts.toml` of its folder, read and checked before anybody takes part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.humans.study.pool import check_sources, compute_digest, read_sources
from cosight.humans.study.texts import TEXTS, read_texts
from cosight.humans.study.trial_types import TrialType, trial_types
from cosight.measures.study_size import minimum_raters
from cosight.toml_settings import check_keys, parse_table, parse_tables, read_toml
from cosight.trials.choices import KEEP, REJECT
from cosight.trials.spaces import LabelSpace, label_space

__all__ = ["STUDY", "Design", "Example", "Participants", "Study", "Timing", "Warmup", "read_study"]

STUDY = "study.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # part of addresses, keys and file names
_PLATFORMS = ("none", "prolific", "mturk")
_RETURN_ADDRESSES = {"prolific": "https://app.prolific.com/submissions/complete?cc={code}"}
_MTURK_HOSTS = ("https://www.mturk.com", "https://workersandbox.mturk.com")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_MAXIMUM_COUNT = 1_000_000  # of images, answers, participants and minutes; more is a typing error
_MAXIMUM_SEED = 2**63 - 1
_MINIMUM_WIDTH = 0.001  # half a width that takes up to a million answers per image


@dataclass(frozen=True, slots=True)
class Design:
    """How many images and answers. `images` are the different test images per participant; the rest is added to them.

    The stop rule is either `answers` per image, or as many as give an interval of half-width `width` to a proportion
    near `share`.
    """

    images: int
    answers: int | None = None
    width: float | None = None
    share: float | None = None
    pool: int = 0  # images of the set that the study uses; 0: all
    distractors: int = 0
    gold: int = 0
    repeats: int = 0  # test images that are shown a second time
    checks: int = 0
    blocks: int = 1
    forms: bool = False
    overlap: int = 0
    conditions: int = 0  # 0: all of them, mixed
    idle: int = 5  # minutes; short, because somebody may be waiting for the images

    def __post_init__(self) -> None:
        for name in ("images", "blocks", "idle"):
            _check_count(1, name, getattr(self, name))
        for name in ("pool", "distractors", "gold", "repeats", "checks", "overlap", "conditions"):
            _check_count(0, name, getattr(self, name))
        self._check_stop_rule()
        for name in ("repeats", "blocks", "overlap"):
            if getattr(self, name) > self.images:
                raise InvalidInput(f"{name} must be at most images ({self.images}), got {getattr(self, name)}")
        if self.overlap == self.images:
            raise InvalidInput(f"overlap must be less than images ({self.images}), got {self.overlap}")
        if self.forms and (self.overlap or self.conditions):
            raise InvalidInput("forms cannot be combined with overlap or conditions, got both; remove one")
        for name in ("blocks", "overlap"):
            if self.conditions and getattr(self, name) % self.conditions:
                raise InvalidInput(
                    f"{name} must be a multiple of conditions ({self.conditions}), got {getattr(self, name)}"
                )

    def _check_stop_rule(self) -> None:
        if (self.answers is None) == (self.width is None):
            got = "neither" if self.answers is None else "both"
            raise InvalidInput(f"the stop rule is either answers or width, got {got}; give one")
        if self.answers is not None:
            _check_count(1, "answers", self.answers)
        if (self.width is None) != (self.share is None):
            raise InvalidInput("width needs share and share needs width, got one of them; share = 0.5 is safe")
        for name, low in (("width", _MINIMUM_WIDTH), ("share", 0.0)):
            value = getattr(self, name)
            if value is not None and not low < value < 1:
                raise InvalidInput(f"{name} must lie between {low:g} and 1, got {value!s:.30}; 5 % is 0.05")

    @property
    def wanted(self) -> int:
        """Return the number of answers per image after which the study is complete.

        >>> Design(images=25, width=0.05, share=1 / 11).wanted  # Lee et al. 2023, F.4
        134
        """
        if self.answers is not None:
            return self.answers
        return minimum_raters(self.width or 0.0, p=self.share or 0.0, plus_one=True).raters


@dataclass(frozen=True, slots=True)
class Warmup:
    """A block before the others, with images of a set of its own."""

    set: str  # relative to the study's folder
    images: int

    def __post_init__(self) -> None:
        _check_count(1, "images", self.images)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of a timed trial in seconds, and how the image is shown; the defaults are those of LAION-C.

    Li et al. 2025, 2.3 and A.2; they give no time for the fixation cross: half a second is our choice.
    """

    fixation: float = 0.5
    exposure: float = 2.5
    response: float = 2.0
    prompt: float = 0.75  # before the end of `response`
    background: float = 0.454  # grey, 0 black to 1 white
    degrees: float = 5.0  # of visual angle, the image's side
    distance: float = 65.0  # cm from the screen
    bonus: float = 0.5  # for a block whose accuracy is above `bonus_above`; 0: none
    bonus_above: float = 0.9

    def __post_init__(self) -> None:
        for name, high in (("exposure", 3600.0), ("response", 3600.0), ("degrees", 180.0), ("distance", 10_000.0)):
            if not 0 < getattr(self, name) <= high:
                raise InvalidInput(f"{name} must be above 0 and at most {high:g}, got {getattr(self, name)!s:.30}")
        for name, high in (("fixation", 60.0), ("bonus", 1e6), ("background", 1.0), ("bonus_above", 1.0)):
            if not 0 <= getattr(self, name) <= high:
                raise InvalidInput(f"{name} must be 0 to {high:g}, got {getattr(self, name)!s:.30}")
        if not 0 <= self.prompt <= self.response:
            raise InvalidInput(f"prompt must be 0 to response ({self.response:g} s), got {self.prompt!s:.30}")


@dataclass(frozen=True, slots=True)
class Example:
    """An image of the instructions, and the answer to give to it."""

    image: str  # relative to the study's folder
    answer: str


@dataclass(frozen=True, slots=True)
class Participants:
    """Who takes part, and the questions they are asked about themselves.

    Whoever answers a question of `screening` with no does not take part. A platform has codes of its own for them and
    for those who do not consent.
    """

    consent: bool = True
    screening: tuple[str, ...] = ()
    demographics: tuple[str, ...] = ()
    calibration: bool = False
    platform: str = "none"
    completion_code: str = ""  # empty: a random one per participant
    completion_url: str = ""  # {code} in it is replaced; empty: the platform's, where it has one
    screened_out_code: str = ""
    no_consent_code: str = ""
    mturk_hosts: tuple[str, ...] = _MTURK_HOSTS  # whose form takes the results
    participants: int = 0  # at most; 0: until the stop rule

    def __post_init__(self) -> None:
        _check_count(0, "participants", self.participants)
        if self.platform not in _PLATFORMS:
            raise InvalidInput(f"platform must be {', '.join(_PLATFORMS)}, got {self.platform!r}")
        codes = self.codes
        if self.platform == "none" and (codes or self.completion_url):
            raise InvalidInput("a platform's codes and completion_url need a platform, got platform none; name it")
        if self.completion_url and not self.completion_url.startswith(("https://", "http://")):
            raise InvalidInput(f"completion_url must begin with https://, got {self.completion_url!r}")
        if len(set(codes)) < len(codes):
            raise InvalidInput(f"each outcome must have a code of its own, got {', '.join(codes)}")
        if self.screened_out_code and not self.screening:
            raise InvalidInput("screened_out_code needs questions, got no screening; add screening = [...]")
        if self.no_consent_code and not self.consent:
            raise InvalidInput("no_consent_code needs consent, got consent = false; remove one of them")
        if self.completion_url and len(codes) > bool(self.completion_code) and "{code}" not in self.completion_url:
            raise InvalidInput(
                f"completion_url must have {{code}} where there are several codes, got {self.completion_url!r}"
            )
        for name, questions in (("demographics", self.demographics), ("screening", self.screening)):
            if len(set(questions)) < len(questions):
                raise InvalidInput(f"{name} must be different questions, got {', '.join(questions)}")
        for host in self.mturk_hosts:
            if not _ORIGIN.fullmatch(host):
                raise InvalidInput(f"mturk_hosts must be such as {_MTURK_HOSTS[0]}, without a path, got {host!r}")

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the codes that the platform has given."""
        return tuple(filter(None, (self.completion_code, self.screened_out_code, self.no_consent_code)))

    def return_address(self, code: str) -> str:
        """Return the address that takes a participant back to the platform with this code; empty without a code.

        >>> Participants(platform="prolific", completion_code="C1").return_address("C1")
        'https://app.prolific.com/submissions/complete?cc=C1'
        """
        address = self.completion_url or (_RETURN_ADDRESSES.get(self.platform, "") if code in self.codes else "")
        return address.replace("{code}", code) if code else ""


def _check_count(low: int, name: str, value: int, *, high: int = _MAXIMUM_COUNT) -> None:
    if value < low:
        raise InvalidInput(f"{name} must be {low} or more, got {value!s:.30}")
    if value > high:
        raise InvalidInput(f"{name} must be at most {high}, got {value!s:.30}")


@dataclass(frozen=True, slots=True)
class Study:
    """A study as its folder defines it. Paths can be opened as they are; settings of other types are empty."""

    root: Path
    name: str
    type: str
    set: Path
    design: Design
    space: LabelSpace | None = None
    seed: int = 0
    distractors: Path | None = None
    show: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # manifest column -> values of the test images
    warmup: tuple[Warmup, ...] = ()
    timing: Timing | None = None
    examples: tuple[Example, ...] = ()
    participants: Participants = field(default_factory=Participants)
    reasons: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""  # of everything that decides what is shown; not of the texts, the stop rule or the participants

    @property
    def answers(self) -> int:
        """Return the number of answers wanted per image."""
        return self.design.wanted

    @property
    def kind(self) -> TrialType:
        """Return its trial type."""
        return trial_types[self.type]


@dataclass(frozen=True, slots=True)
class _Head:
    """The keys before the first table of study.toml."""

    name: str
    type: str
    set: str
    labels: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Sets:
    distractors: str | None = None


@dataclass(frozen=True, slots=True)
class _Curate:
    reasons: tuple[str, ...] = ()


_TABLES = ("show", "design", "warmup", "timing", "examples", "participants", "curate", "sets")


def read_study(folder: Path) -> Study:
    """Read the design in `folder` and check it against its sets. Raises InvalidInput with one line per mistake."""
    file = Path(folder) / STUDY
    study = _parse_study(file, read_toml(file, hint="`cosight study new` writes one"))
    study = replace(study, texts=read_texts(study.root / TEXTS, study))
    try:
        sources = read_sources(study)
        check_sources(study, sources)
    except CosightError as error:
        raise type(error)(f"{file}: {error}") from error
    return replace(study, digest=compute_digest(study, sources))


def _parse_study(file: Path, content: Mapping[str, Any]) -> Study:
    root = file.parent
    check_keys(content, [*(f.name for f in fields(_Head)), *_TABLES], context=str(file))
    head = parse_table(_Head, {k: v for k, v in content.items() if k not in _TABLES}, context=str(file))
    design = parse_table(Design, content.get("design", {}), context=f"{file}: [design]")
    sets = parse_table(_Sets, content.get("sets", {}), context=f"{file}: [sets]")
    warmup = parse_tables(Warmup, content.get("warmup", []), context=f"{file}: [[warmup]]")
    timing = parse_table(Timing, content.get("timing", {}), context=f"{file}: [timing]")
    examples = parse_tables(Example, content.get("examples", []), context=f"{file}: [[examples]]")
    participants = parse_table(Participants, content.get("participants", {}), context=f"{file}: [participants]")
    curate = parse_table(_Curate, content.get("curate", {}), context=f"{file}: [curate]")
    try:
        kind = trial_types[head.type]
        study = Study(
            root=root,
            name=head.name,
            type=head.type,
            set=root / head.set,
            design=design,
            space=_label_space(kind, head.labels),
            seed=head.seed,
            distractors=None if sets.distractors is None else root / sets.distractors,
            show=_parse_show(content.get("show", {})),
            warmup=warmup,
            timing=timing if "timing" in kind.options else None,
            examples=examples,
            participants=participants,
            reasons=curate.reasons,
        )
        _check_options(kind, content)
        _check_study(study)
    except CosightError as error:
        raise type(error)(f"{file}: {error}") from error
    return study


def _label_space(kind: TrialType, labels: str | None) -> LabelSpace | None:
    if "labels" not in kind.options:
        return None
    if labels is None:
        raise InvalidInput(f"{kind.name} needs labels, got no labels; add labels = SPACE, or comma-separated classes")
    return label_space(labels)


def _parse_show(table: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, Mapping):
        raise InvalidInput(f"[show] must be a table of columns and values, got {table!r}")
    show = {column: tuple(map(str, value if isinstance(value, list) else [value])) for column, value in table.items()}
    for column, values in show.items():
        if not values:
            raise InvalidInput(f"[show]: {column} must have a value, got none; leave the line out to show all")
    return show


def _check_options(kind: TrialType, content: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a setting that only other trial types have."""
    settings = {**content, **content.get("design", {}), **content.get("participants", {})}
    for name, value in settings.items():
        types = [other.name for other in trial_types.values() if name in other.options]
        if value and types and kind.name not in types:
            raise InvalidInput(f"{name} is for {', '.join(types)}, got it in a study of type {kind.name}; remove it")


def _check_study(study: Study) -> None:
    if not _NAME.fullmatch(study.name):
        raise InvalidInput(f"name must be letters, digits, dots, dashes or underscores, at most 64, got {study.name!r}")
    _check_count(0, "seed", study.seed, high=_MAXIMUM_SEED)
    if 0 < study.participants.participants < study.answers:
        raise InvalidInput(
            f"{study.answers} answers per image need as many participants, got participants = "
            f"{study.participants.participants}; raise it or lower the number of answers"
        )
    if "curate" in study.kind.options:
        names = {KEEP, REJECT, "", *study.reasons}
        if not study.reasons or len(names) < len(study.reasons) + 3:
            raise InvalidInput(
                f"[curate] must have different reasons to reject an image, none of them {KEEP} or {REJECT}, "
                f"got {', '.join(study.reasons) or 'none'}; see `cosight study new`"
            )
    if study.design.distractors and study.space is not None and not study.space.abstain:
        raise InvalidInput(
            f"distractors must be refused, but {study.space.name} has no abstain; add it or set distractors = 0"
        )
    for example in study.examples:
        if not (study.root / example.image).is_file():
            raise InvalidInput(f"the example {example.image} does not exist in {study.root}; put the image there")
        if study.space is not None and example.answer not in study.space.answers:
            raise InvalidInput(f"an example's answer must be one of {study.space.in_words}, got {example.answer!r}")
