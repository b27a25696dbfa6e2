"""The parts of a design: each a table of `study.toml`, its numbers checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass

from cosight.errors import InvalidInput
from cosight.measures.study_size import minimum_raters

__all__ = ["Design", "Example", "Participants", "Timing", "Warmup"]

_PLATFORMS = ("none", "prolific", "mturk")
_NARROWEST = 0.001  # half a width that takes up to a million answers an image
_COUNTS = ("distractors", "gold", "repeats", "checks", "overlap", "conditions")


@dataclass(frozen=True, slots=True)
class Design:
    """How many of what. `images` are the different test images of a participant; everything else comes on top.

    Either `answers` an image are wanted, or as many as give an interval of half-width `width` to a share near `share`.
    """

    images: int
    answers: int | None = None
    width: float | None = None
    share: float | None = None
    distractors: int = 0
    gold: int = 0
    repeats: int = 0  # test images that are shown a second time
    checks: int = 0
    blocks: int = 1
    forms: bool = False
    overlap: int = 0
    conditions: int = 0  # 0: all of them, mixed
    idle: int = 60  # minutes

    def __post_init__(self) -> None:
        for name in ("images", "blocks", "idle"):
            _at_least(1, name, getattr(self, name))
        for name in _COUNTS:
            _at_least(0, name, getattr(self, name))
        _check_stop_rule(self)
        _check_within(self)
        _check_conditions(self)

    @property
    def wanted(self) -> int:
        """Answers an image after which the study is complete.

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
        _at_least(1, "images", self.images)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of a timed trial in seconds, and how the image is shown; the defaults are those of LAION-C.

    Li et al. 2025, 2.3 and A.2; they give no time for the fixation cross: half a second is ours.
    """

    fixation: float = 0.5
    exposure: float = 2.5
    response: float = 2.0
    prompt: float = 0.75  # before the end of `response`
    background: float = 0.454  # grey, 0 black to 1 white
    degrees: float = 5.0  # of visual angle, the image's side
    distance: float = 65.0  # cm from the screen
    bonus: float = 0.5  # for a block with a share right above `bonus_above`; 0: none
    bonus_above: float = 0.9

    def __post_init__(self) -> None:
        for name in ("exposure", "response", "degrees", "distance"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInput(f"{name} must be above 0, got {getattr(self, name):g}")
        for name, high in (("fixation", 60.0), ("bonus", 1e6), ("background", 1.0), ("bonus_above", 1.0)):
            if not 0 <= getattr(self, name) <= high:
                raise InvalidInput(f"{name} must be 0 to {high:g}, got {getattr(self, name):g}")
        if not 0 <= self.prompt <= self.response:
            raise InvalidInput(
                f"prompt must be 0 to response ({self.response:g} s) before the end, got {self.prompt:g}"
            )


@dataclass(frozen=True, slots=True)
class Example:
    """An image of the instructions, and what to answer to it."""

    image: str  # relative to the study's folder
    answer: str


@dataclass(frozen=True, slots=True)
class Participants:
    """Who takes part, and what they are asked besides."""

    consent: bool = True
    demographics: tuple[str, ...] = ()
    calibration: bool = False
    platform: str = "none"
    completion_code: str = ""  # empty: one is made for each participant
    completion_url: str = ""
    participants: int = 0  # at most; 0: until the stop rule

    def __post_init__(self) -> None:
        _at_least(0, "participants", self.participants)
        if self.platform not in _PLATFORMS:
            raise InvalidInput(f"platform must be {', '.join(_PLATFORMS)}, got {self.platform!r}")
        if self.platform == "none" and (self.completion_code or self.completion_url):
            raise InvalidInput("a completion code and address belong to a platform, got platform none; name it")
        if self.completion_url and not self.completion_url.startswith(("https://", "http://")):
            raise InvalidInput(f"completion_url must begin with https://, got {self.completion_url!r}")
        if len(set(self.demographics)) < len(self.demographics):
            raise InvalidInput(f"demographics must be asked once each, got {', '.join(self.demographics)}")


def _at_least(low: int, name: str, value: int) -> None:
    if value < low:
        raise InvalidInput(f"{name} must be {low} or more, got {value}")


def _check_stop_rule(design: Design) -> None:
    if (design.answers is None) == (design.width is None):
        got = "neither" if design.answers is None else "both"
        raise InvalidInput(f"the stop rule is answers an image or the width of an interval, got {got}; give one")
    if design.answers is not None:
        _at_least(1, "answers", design.answers)
    if (design.width is None) != (design.share is None):
        raise InvalidInput("width and share go together (share 0.5 is the safe one), got one of them")
    for name, low in (("width", _NARROWEST), ("share", 0.0)):
        value = getattr(design, name)
        if value is not None and not low < value < 1:
            raise InvalidInput(f"{name} must lie between {low:g} and 1, got {value:g}; 5 % is 0.05")


def _check_within(design: Design) -> None:
    for name in ("repeats", "blocks", "overlap"):
        if getattr(design, name) > design.images:
            raise InvalidInput(f"{name} must be at most images ({design.images}), got {getattr(design, name)}")
    if design.overlap == design.images:
        raise InvalidInput(f"overlap must leave images that not everybody sees, got all {design.images}")
    if design.forms and (design.overlap or design.conditions):
        raise InvalidInput("forms are fixed, overlap and conditions choose images; got both, take one out")


def _check_conditions(design: Design) -> None:
    for name in ("blocks", "overlap"):
        if design.conditions and getattr(design, name) % design.conditions:
            raise InvalidInput(
                f"{name} must be shared evenly by {design.conditions} conditions, got {getattr(design, name)}; "
                f"give a multiple of {design.conditions}"
            )
