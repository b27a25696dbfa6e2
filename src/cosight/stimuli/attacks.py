"""Attacks: the smallest change of pixels that leads a classifier astray. FGSM and PGD, in the Linf and the L2 norm.

A model is any callable from images, a torch tensor (N, channels, height, width) in [0, 1], to logits (N, classes), in
eval mode, with its normalisation inside. `eps` is in units of such pixels (write 8/255); with `space="normalised"` it
is in units of each channel's `std`, as VisAlign counts it. The result stays in [0, 1] and, up to the last bit of a
float, within `eps` of the images; where the loss has no gradient, an image stays as it is.

An image's result does not depend on the rest of its batch (up to float noise in the model) when each image brings its
own generator for the random start. torch is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from cosight.errors import InvalidInput
from cosight.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = [
    "PGD_STEPS",
    "Attack",
    "Classifier",
    "Norm",
    "Rngs",
    "Space",
    "Strike",
    "Target",
    "attacks",
    "check_eps",
    "check_eval",
    "check_logits",
    "check_range",
    "fgsm",
    "pgd",
    "pgd_settings",
    "target",
]

Classifier = Callable[["torch.Tensor"], "torch.Tensor"]
Norm = Literal["linf", "l2"]
Space = Literal["pixels", "normalised"]
Rngs = np.random.Generator | Sequence[np.random.Generator]
Strike = Callable[[float, "torch.Tensor", Rngs | None], "torch.Tensor"]
"""(eps, rows, generators of those rows) -> the attacked images of those rows."""

PGD_STEPS = 20
_REACH = 2.5  # default step = 2.5 eps / steps: the start may lie anywhere in the ball (Madry et al. 2018, section 5)


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What an attack is aimed at: a model, its images with their true labels, and pixels per unit of eps."""

    model: Classifier
    images: Tensor
    labels: Tensor
    scale: Tensor  # (1, channels or 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to attack. `aim(target, **options)` does the work that all eps share and returns the strike;
    `settings(eps, **options)` are the numbers that decide an attack of this size, for the record.
    """

    name: str
    aim: Callable[..., Strike]
    norm: Norm
    random: bool
    options: frozenset[str]
    settings: Callable[..., dict[str, Any]]
    summary: str
    citation: str


attacks: Registry[Attack] = Registry("attack")


def fgsm(
    model: Classifier,
    images: Tensor,
    labels: ArrayLike | Tensor,
    *,
    eps: float,
    space: Space = "pixels",
    std: Sequence[float] | None = None,
) -> Tensor:
    """One step of `eps` along the sign of the gradient of the cross-entropy (Goodfellow et al. 2015).

    `space="normalised"` needs `std`, one number a channel; by default the model's own, where it has one.
    """
    aimed = target(model, images, labels, space=space, std=std)
    check_eps(eps, "linf", space)
    return _aim_fgsm(aimed)(eps, _all_rows(aimed), None)


def pgd(
    model: Classifier,
    images: Tensor,
    labels: ArrayLike | Tensor,
    *,
    eps: float,
    norm: Norm = "linf",
    steps: int = PGD_STEPS,
    step_size: float | None = None,
    random_start: bool = True,
    rng: Rngs | None = None,
    space: Space = "pixels",
    std: Sequence[float] | None = None,
) -> Tensor:
    """Steps of steepest ascent of the cross-entropy, put back into the ball after each (Madry et al. 2018).

    `step_size` is 2.5 eps / steps unless given. The start is uniform in the ball, drawn from `rng`: one generator for
    the batch, or one an image (then an image's start does not depend on its place). The last iterate is returned.
    """
    if norm not in get_args(Norm):
        raise InvalidInput(f"norm must be linf or l2, got {norm!r}")
    aimed = target(model, images, labels, space=space, std=std)
    check_eps(eps, norm, space)
    strike = _aim_pgd(aimed, norm=norm, steps=steps, step_size=step_size, random_start=random_start)
    return strike(eps, _all_rows(aimed), rng)


def target(
    model: Classifier,
    images: Tensor,
    labels: ArrayLike | Tensor,
    *,
    space: Space = "pixels",
    std: Sequence[float] | None = None,
) -> Target:
    """Check everything but eps, once."""
    torch = _torch()
    check_eval(model)
    if not isinstance(images, torch.Tensor) or images.ndim != 4 or not images.is_floating_point():
        got = tuple(np.shape(images)), getattr(images, "dtype", type(images).__name__)
        raise InvalidInput(f"images must be a float tensor (N, channels, height, width), got {got[1]} {got[0]}")
    if images.numel() and not (images.min() >= 0 and images.max() <= 1):  # nan fails here too
        low, high = float(images.min()), float(images.max())
        raise InvalidInput(f"images must lie in [0, 1], got {low:g} to {high:g}; put the normalisation into the model")
    with _gradients():
        clean = images.detach().clone()
        return Target(model, clean, _labels(labels, clean).clone(), _scale(model, clean, space, std))


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise InvalidInput("attacks need torch, which is not installed; pip install 'cosight[models]'") from error
    return torch


def check_eval(model: Classifier) -> None:
    """Refuse a model with any part in train mode: its answers would depend on the batch."""
    module = getattr(model, "module", model)
    parts = module.modules() if hasattr(module, "modules") else [module]
    if any(getattr(part, "training", False) is True for part in parts):
        raise InvalidInput("a model is attacked in eval mode, got one in train mode; call model.eval() first")


def _labels(labels: ArrayLike | Tensor, images: Tensor) -> Tensor:
    torch = _torch()
    given = torch.as_tensor(labels, device=images.device)
    if given.is_floating_point() or given.dtype == torch.bool or given.shape != images.shape[:1]:
        rule = f"labels must be {len(images)} whole numbers, one an image"
        raise InvalidInput(f"{rule}, got {given.dtype} of shape {tuple(given.shape)}")
    return given.long()  # type: ignore[no-any-return]


def _scale(model: Classifier, images: Tensor, space: Space, std: Sequence[float] | None) -> Tensor:
    if space not in get_args(Space):
        raise InvalidInput(f"space must be pixels or normalised, got {space!r}")
    if space == "pixels" and std is not None:
        raise InvalidInput(f"std belongs to space='normalised', got std {tuple(std)} with space='pixels'; leave it out")
    if space == "pixels":
        return images.new_ones(1, 1, 1, 1)
    spread = getattr(model, "std", None) if std is None else std
    channels = images.shape[1]
    if spread is None or len(spread) != channels or not all(isfinite(s) and s > 0 for s in spread):
        raise InvalidInput(f"space='normalised' needs std, {channels} positive numbers, got {spread}; give std=...")
    return images.new_tensor(tuple(spread)).reshape(1, -1, 1, 1)


def check_eps(eps: float, norm: Norm, space: Space) -> None:
    """Refuse what is no size of a change, and 8 where 8/255 is meant."""
    if not (isfinite(eps) and eps >= 0):
        raise InvalidInput(f"eps must be a finite number from 0 up, got {eps}")
    if eps > 1 and norm == "linf" and space == "pixels":
        raise InvalidInput(f"eps is in units of pixels in [0, 1], got {eps:g}; write {eps:g}/255 if that is meant")


def _all_rows(aimed: Target) -> Tensor:
    return _torch().arange(len(aimed.images), device=aimed.images.device)  # type: ignore[no-any-return]


@contextmanager
def _gradients() -> Iterator[None]:
    """Gradients are on in here, even where the caller works under no_grad or inference_mode."""
    torch = _torch()
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _gradient(model: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    """Gradient of each image's own cross-entropy: the sum over images keeps the batch size out of it."""
    torch = _torch()
    with _gradients():
        pixels = images.detach().clone().requires_grad_()
        logits = model(pixels)
        check_logits(logits, len(labels))
        check_range(labels, logits.shape[1])
        loss = torch.nn.functional.cross_entropy(logits, labels.to(logits.device), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, pixels, allow_unused=True) if loss.requires_grad else (None,)
    if gradient is None:
        raise InvalidInput("an attack needs a gradient, got logits cut off from the images; remove no_grad or detach")
    broken = ~gradient.isfinite().flatten(1).all(1)
    if broken.any():
        count, first = int(broken.sum()), int(broken.nonzero()[0, 0])
        raise InvalidInput(f"gradients must be finite, got nan or infinity for {count} images, the first at {first}")
    return gradient  # type: ignore[no-any-return]


def check_logits(logits: Any, count: int) -> None:
    """Refuse what is not (count, classes)."""
    shape = tuple(getattr(logits, "shape", ()))
    if len(shape) != 2 or shape[0] != count:
        got = f"shape {shape}" if shape else type(logits).__name__
        raise InvalidInput(f"a model gives logits of shape ({count}, classes) here, got {got}; wrap the model")


def check_range(labels: Any, classes: int) -> None:
    """Refuse labels (a tensor or an array) that are no classes of the model."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        low, high = int(labels.min()), int(labels.max())
        raise InvalidInput(f"labels must be 0 to {classes - 1}, the model's classes, got {low} to {high}")


def _aim_fgsm(aimed: Target) -> Strike:
    """One gradient serves every eps."""
    step = _gradient(aimed.model, aimed.images, aimed.labels).sign() * aimed.scale

    def strike(eps: float, rows: Tensor, rngs: Rngs | None) -> Tensor:
        return (aimed.images[rows] + eps * step[rows]).clamp(0, 1)

    return strike


def _aim_pgd(
    aimed: Target,
    *,
    norm: Norm,
    steps: int = PGD_STEPS,
    step_size: float | None = None,
    random_start: bool = True,
) -> Strike:
    if steps < 1:
        raise InvalidInput(f"steps must be at least 1, got {steps}")
    if step_size is not None and not (isfinite(step_size) and step_size > 0):
        raise InvalidInput(f"step_size must be a positive number, got {step_size}; leave it out for 2.5 eps / steps")

    @_gradients()
    def strike(eps: float, rows: Tensor, rngs: Rngs | None) -> Tensor:
        clean, labels = aimed.images[rows], aimed.labels[rows]
        length = pgd_settings(eps, steps=steps, step_size=step_size)["step_size"]
        change = _start(clean, eps, norm, rngs) if random_start else clean.new_zeros(clean.shape)  # in units of eps
        for _ in range(steps):
            attacked = (clean + change * aimed.scale).clamp(0, 1)
            uphill = _gradient(aimed.model, attacked, labels) * aimed.scale  # the chain rule, in units of eps
            moved = (attacked - clean) / aimed.scale + length * _steepest(uphill, norm)
            change = _into_ball(moved, eps, norm)
        # Clipping to [0, 1] brings every pixel nearer to the clean one, so it does not leave the ball.
        return (clean + change * aimed.scale).clamp(0, 1)

    return strike


def pgd_settings(
    eps: float, *, steps: int = PGD_STEPS, step_size: float | None = None, random_start: bool = True
) -> dict[str, Any]:
    """How PGD walks at this eps: the options, and the step size that follows where none is given.

    >>> pgd_settings(0.08, steps=10)
    {'steps': 10, 'step_size': 0.02, 'random_start': True}
    """
    length = _REACH * eps / steps if step_size is None else step_size
    return {"steps": steps, "step_size": length, "random_start": random_start}


def _start(clean: Tensor, eps: float, norm: Norm, rngs: Rngs | None) -> Tensor:
    """Uniform in the ball, one draw an image."""
    if rngs is None:
        raise InvalidInput(
            "a random start needs rng, got None; give numpy.random.default_rng(SEED) or random_start=False"
        )
    each = [rngs] * len(clean) if isinstance(rngs, np.random.Generator) else list(rngs)
    if len(each) != len(clean):
        raise InvalidInput(f"rng must be one generator, or one an image ({len(clean)}), got {len(each)}")
    draw = _in_cube if norm == "linf" else _in_ball
    drawn = np.array([draw(rng, tuple(clean.shape[1:])) for rng in each]).reshape(clean.shape)
    return clean.new_tensor(drawn * eps)


def _in_cube(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return rng.uniform(-1, 1, shape)


def _in_ball(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A normal draw has a uniform direction; the d-th root makes the radius that of a uniform draw."""
    direction = rng.standard_normal(shape)
    radius: float = rng.uniform() ** (1 / direction.size)
    return direction * (radius / float(np.linalg.norm(direction)))


def _steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """The unit step that raises the loss most, zero where there is no gradient."""
    if norm == "linf":
        return gradient.sign()
    largest = gradient.abs().amax(dim=(1, 2, 3), keepdim=True)
    scaled = gradient / largest.where(largest > 0, 1)  # squares of tiny gradients would be zero
    return scaled / _lengths(scaled).clamp(min=1)  # a scaled image's length is at least 1, or 0


def _into_ball(change: Tensor, eps: float, norm: Norm) -> Tensor:
    if norm == "linf":
        return change.clamp(-eps, eps)
    lengths = _lengths(change)
    return change * (eps / lengths).where(lengths > eps, 1)


def _lengths(change: Tensor) -> Tensor:
    return _torch().linalg.vector_norm(change, dim=(1, 2, 3), keepdim=True)  # type: ignore[no-any-return]


def _aim_pgd_linf(aimed: Target, **options: Any) -> Strike:
    return _aim_pgd(aimed, norm="linf", **options)


def _aim_pgd_l2(aimed: Target, **options: Any) -> Strike:
    return _aim_pgd(aimed, norm="l2", **options)


_GOODFELLOW = "Goodfellow, Shlens and Szegedy 2015, Explaining and harnessing adversarial examples"
_MADRY = "Madry et al. 2018, Towards deep learning models resistant to adversarial attacks"
_PGD: dict[str, Any] = {
    "random": True,
    "options": frozenset({"steps", "step_size", "random_start"}),
    "settings": pgd_settings,
    "citation": _MADRY,
}

for _entry in (
    Attack(
        name="fgsm",
        aim=_aim_fgsm,
        norm="linf",
        random=False,
        options=frozenset(),
        settings=lambda eps: {},
        summary="One step along the gradient's sign.",
        citation=_GOODFELLOW,
    ),
    Attack("pgd-linf", _aim_pgd_linf, "linf", summary="Many steps, every pixel within eps.", **_PGD),
    Attack("pgd-l2", _aim_pgd_l2, "l2", summary="Many steps, the image's length of change within eps.", **_PGD),
):
    attacks.add(_entry.name, _entry)
