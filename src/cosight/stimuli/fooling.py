"""Attacked images that still look right to people and no longer to the model (Lee et al. 2023, section 3.2).

Several models give gradients, several eps are tried, and only what fools is kept. An attacked image is judged as it
will be stored, in 8 bits. Mind what that does to VisAlign's eps: with ImageNet's std, .005 is less than half an 8-bit
step and rounds to nothing, and .01 to .025 all round to one step; such attempts come out as `unchanged` and `repeated`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.attacks import (
    Attack,
    Classifier,
    Space,
    Strike,
    attacks,
    check_eps,
    check_eval,
    check_logits,
    check_range,
    target,
)
from cosight.stimuli.images import Bytes, as_bytes, as_floats, checked, digest, in_colour
from cosight.stimuli.kinds import stimulus_seed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["VISALIGN_EPS", "Attempt", "Choose", "Judges", "Verdict", "answers", "checked_eps", "fooling"]

VISALIGN_EPS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03)  # Lee et al. 2023, section 3.2, in normalised units

Judges = Literal["own", "any", "all"]
Choose = Literal["smallest", "all"]
Verdict = Literal[
    "kept",
    "clean-wrong",  # the judges do not get the clean image right: nothing to fool, no attack made
    "unchanged",  # in 8 bits the attacked image is the clean one
    "repeated",  # in 8 bits it is the same as at a smaller eps
    "not-fooled",
    "larger",  # a smaller eps already fools: no attack made
]


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One image, one model's gradients, one eps; what came of it.

    `before` and `after` are the classes that model gives the clean and the attacked 8-bit image (`after` is None where
    it was not asked), `fooled` the judges that went from right to wrong, `seed` the random start's (None where the
    attack has none). Only kept attempts hold `pixels`.
    """

    image: int  # place among the images handed in
    model: str
    attack: str
    eps: float
    verdict: Verdict
    before: int
    after: int | None = None
    fooled: tuple[str, ...] = ()
    seed: int | None = None
    pixels: Bytes | None = None

    @property
    def kept(self) -> bool:
        """Whether this is a stimulus."""
        return self.verdict == "kept"


def fooling(
    images: Sequence[Bytes],
    labels: ArrayLike,
    models: Mapping[str, Classifier],
    *,
    eps: Sequence[float] = VISALIGN_EPS,
    attack: str = "fgsm",
    space: Space = "normalised",
    judges: Judges = "own",
    choose: Choose = "smallest",
    seed: int = 0,
    batch: int = 1,
    options: Mapping[str, Any] | None = None,
) -> list[Attempt]:
    """Attack every image with every model's gradients at every eps: one attempt each, in that order, eps ascending.

    Images are uint8 and of one size, the one the models take; a grey image becomes RGB. `judges` says who must be right
    on the clean and wrong on the attacked image: the gradients' own model, any of the models, or all of them. With
    `choose="smallest"` an image and model stop at the first eps that fools; with "all", every eps that fools is kept.
    `options` go to the attack (steps, step_size, random_start). The random start is drawn from what the stimulus is
    made of and `seed`, so an image's attempts do not depend on the images around it. A `batch` beyond one, faster on a
    graphics card, loosens that: convolutions round differently, and a gradient near zero may change its sign.
    """
    values = _check_options(eps, judges, choose, batch, models)
    kind = attacks[attack]
    extra = dict(options or {})
    if set(extra) - kind.options:
        raise InvalidInput(
            f"{kind.name} takes {', '.join(sorted(kind.options)) or 'no options'}, got {', '.join(extra)}"
        )
    for value in values:
        check_eps(value, kind.norm, space)
    for model in models.values():
        check_eval(model)
    pixels, truth = _pixels(images), np.asarray(labels)
    if truth.shape != (len(pixels),) or not np.issubdtype(truth.dtype, np.integer):
        raise InvalidInput(f"labels must be {len(pixels)} whole numbers, one an image, got {truth.dtype} {truth.shape}")
    plan = _Plan(models, values, kind, space, judges, choose, seed, extra)
    parts = (slice(first, first + batch) for first in range(0, len(pixels), batch))
    return [attempt for part in parts for attempt in _attempts(plan, pixels[part], truth[part], part.start)]


def _check_options(
    eps: Sequence[float], judges: Judges, choose: Choose, batch: int, models: Mapping[str, Classifier]
) -> tuple[float, ...]:
    if judges not in get_args(Judges):
        raise InvalidInput(f"judges must be own, any or all, got {judges!r}")
    if batch < 1:
        raise InvalidInput(f"batch must be at least 1, got {batch}")
    if not models:
        raise InvalidInput("fooling needs at least one model to take gradients from, got none")
    return checked_eps(eps, choose=choose)


def checked_eps(eps: Sequence[float], *, choose: Choose) -> tuple[float, ...]:
    """The eps to try, ascending, if they and the rule to choose among them make sense."""
    if choose not in get_args(Choose):
        raise InvalidInput(f"choose must be smallest or all, got {choose!r}")
    values = tuple(sorted(float(value) for value in eps))
    if not values or not values[0] > 0 or len(set(values)) < len(values):
        raise InvalidInput(f"eps must be distinct positive numbers, at least one, got {tuple(eps)}")
    return values


def _pixels(images: Sequence[Bytes]) -> list[Bytes]:
    given = [checked(image) for image in images]
    wrong = next((image.dtype for image in given if image.dtype != np.uint8), None)
    if wrong is not None:
        raise InvalidInput(f"fooling judges 8-bit images, got {wrong}; round them with images.as_bytes first")
    colour = [in_colour(as_bytes(image)) for image in given]
    sizes = sorted({image.shape[:2] for image in colour})
    if len(sizes) > 1:
        shown = ", ".join(f"{width} x {height}" for height, width in sizes)
        raise InvalidInput(f"images of one call must have one size, got {shown}; crop them to the models' size first")
    return colour


@dataclass(frozen=True, slots=True)
class _Plan:
    """What `fooling` was asked for, checked."""

    models: Mapping[str, Classifier]
    eps: tuple[float, ...]
    attack: Attack
    space: Space
    judges: Judges
    choose: Choose
    seed: int
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Clean:
    """One clean image: its number among all, what it shows, and what each model takes it for."""

    number: int
    pixels: Bytes
    label: int
    digest: str
    before: Mapping[str, int]


def _attempts(plan: _Plan, pixels: list[Bytes], labels: NDArray[np.integer[Any]], first: int) -> list[Attempt]:
    """Every attempt on one batch, whose first image has the number `first`: by image, then model, then eps."""
    before = {name: answers(model, pixels, labels) for name, model in plan.models.items()}
    batch = [
        _Clean(first + row, image, int(labels[row]), digest(image), {name: before[name][row] for name in before})
        for row, image in enumerate(pixels)
    ]
    searched = [_search(plan, name, batch) for name in plan.models]
    return [attempt for of_image in zip(*searched, strict=True) for attempts in of_image for attempt in attempts]


def _search(plan: _Plan, name: str, batch: list[_Clean]) -> list[list[Attempt]]:
    """The attempts on each image with the gradients of the model `name`, eps ascending."""
    found: list[list[Attempt]] = [[] for _ in batch]
    able = [_decided(plan.judges, [clean.before[j] == clean.label for j in _judging(plan, name)]) for clean in batch]
    made = [[clean.digest] for clean in batch]  # what each image has been so far, in 8 bits
    live = [row for row, yes in enumerate(able) if yes]
    strike = _aimed(plan, name, batch) if live else None
    for eps in plan.eps:
        struck = _struck(plan, name, eps, strike, batch, live, made) if strike and live else {}
        for row, clean in enumerate(batch):
            skipped: Verdict = "larger" if able[row] else "clean-wrong"
            nothing = Attempt(clean.number, name, plan.attack.name, eps, skipped, clean.before[name])
            found[row].append(struck.get(row, nothing))
        if plan.choose == "smallest":
            live = [row for row in live if not struck[row].kept]
    return found


def _judging(plan: _Plan, name: str) -> list[str]:
    return [name] if plan.judges == "own" else list(plan.models)


def _decided(judges: Judges, votes: Sequence[bool]) -> bool:
    return any(votes) if judges == "any" else all(votes)


def _aimed(plan: _Plan, name: str, batch: list[_Clean]) -> Strike:
    images, labels = _tensor([clean.pixels for clean in batch]), [clean.label for clean in batch]
    return plan.attack.aim(target(plan.models[name], images, labels, space=plan.space), **plan.options)


def _struck(
    plan: _Plan, name: str, eps: float, strike: Strike, batch: list[_Clean], rows: list[int], made: list[list[str]]
) -> dict[int, Attempt]:
    """The attempts on these rows of the batch at one eps; `made` gets the digests of what they became."""
    import torch

    seeds = [stimulus_seed(batch[row].digest, plan.attack.name, f"{name}@{eps!r}", plan.seed) for row in rows]
    attacked = strike(eps, torch.tensor(rows), [np.random.default_rng(seed) for seed in seeds])
    pixels = [as_bytes(image) for image in attacked.permute(0, 2, 3, 1).cpu().numpy()]
    labels = np.array([batch[row].label for row in rows])
    after = {judge: answers(plan.models[judge], pixels, labels) for judge in _judging(plan, name)}
    attempts = {}
    for at, row in enumerate(rows):
        clean, identity = batch[row], digest(pixels[at])
        votes = {judge: clean.before[judge] == clean.label != after[judge][at] for judge in after}
        verdict = _verdict(identity, made[row], fools=_decided(plan.judges, list(votes.values())))
        made[row].append(identity)
        attempts[row] = Attempt(
            image=clean.number,
            model=name,
            attack=plan.attack.name,
            eps=eps,
            verdict=verdict,
            before=clean.before[name],
            after=after[name][at],
            fooled=tuple(judge for judge, fooled in votes.items() if fooled),
            seed=seeds[at] if plan.attack.random else None,
            pixels=pixels[at] if verdict == "kept" else None,
        )
    return attempts


def _verdict(identity: str, made: list[str], *, fools: bool) -> Verdict:
    if identity == made[0]:
        return "unchanged"
    if identity in made:
        return "repeated"
    return "kept" if fools else "not-fooled"


def _tensor(images: Sequence[Bytes]) -> Tensor:
    """Images as the models take them: float32 in [0, 1], (N, 3, height, width)."""
    import torch

    floats = np.stack([as_floats(in_colour(image)) for image in images])
    return torch.from_numpy(floats).permute(0, 3, 1, 2).contiguous()


def answers(model: Classifier, images: Sequence[Bytes], labels: NDArray[np.integer[Any]] | None = None) -> list[int]:
    """The class each 8-bit image, all of one size, is taken for; labels must be among the model's classes."""
    import torch

    with torch.no_grad():
        logits = model(_tensor(images))
    check_logits(logits, len(images))
    if labels is not None:
        check_range(labels, logits.shape[1])
    return logits.argmax(dim=1).tolist()
