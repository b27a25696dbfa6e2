"""Adversarial attacks: FGSM, PGD and AutoAttack, in the Linf and the L2 norm.

A model is any callable from images, a torch tensor (N, channels, height, width) in [0, 1], to logits (N, classes), in
eval mode and with its normalisation inside. `eps` is in units of such pixels (write 8/255); with `space="normalised"`
it is in units of each channel's `std`, as in VisAlign. The result stays in [0, 1] and, up to float rounding, within
`eps` of the images; where the loss has no gradient, an image stays as it is.

The result for an image does not depend on the rest of its batch (up to float noise in the model) if each image has its
own generator for the random start. torch is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
    "PreparedAttack",
    "Rngs",
    "Space",
    "Target",
    "ascend",
    "attacks",
    "check_eps",
    "check_eval",
    "check_logits",
    "check_range",
    "draw_start",
    "fgsm",
    "input_gradient",
    "make_target",
    "pgd",
    "pgd_settings",
    "project",
    "steepest",
    "with_gradients",
]

Classifier = Callable[["torch.Tensor"], "torch.Tensor"]
Norm = Literal["linf", "l2"]
Space = Literal["pixels", "normalised"]
Rngs = np.random.Generator | Sequence[np.random.Generator]
PreparedAttack = Callable[[float, "torch.Tensor", Rngs | None], "torch.Tensor"]
"""(eps, rows, generators of those rows) -> the attacked images of those rows."""

PGD_STEPS = 20
_LEAST_CLASSES = 4  # of AutoAttack
_REACH = 2.5  # default step = 2.5 eps / steps: the start may lie anywhere in the ball (Madry et al. 2018, section 5)


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A model, images with their true labels, and pixels per unit of eps."""

    model: Classifier
    images: Tensor
    labels: Tensor
    scale: Tensor  # (1, channels or 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Attack:
    """A registered attack.

    Attributes:
        name: Its name.
        prepare: `prepare(target, **options)` does the work that all eps share and returns the attack on that target.
        norm: Norm that eps bounds.
        random: Whether it draws random numbers.
        options: Names of its options.
        settings: `settings(eps, **options)` returns the numbers that define the attack, for the manifest.
        summary: One line for lists.
        citation: Where it was published.
    """

    name: str
    prepare: Callable[..., PreparedAttack]
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
    """Take one step of `eps` along the sign of the gradient of the cross-entropy (Goodfellow et al. 2015).

    Args:
        model: The classifier.
        images: Images in [0, 1], (N, channels, height, width).
        labels: True class of each image.
        eps: Size of the step.
        space: Unit of `eps`: pixels, or the channels' `std` (normalised).
        std: Standard deviation per channel, for "normalised" (default: `model.std`).

    Returns:
        The attacked images.

    Raises:
        InvalidInput: If an argument does not fit, or the model has no gradient.
    """
    target = make_target(model, images, labels, space=space, std=std)
    check_eps(eps, "linf", space)
    return _prepare_fgsm(target)(eps, _all_rows(target), None)


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
    """Ascend the cross-entropy in steps, projecting onto the eps ball after each (Madry et al. 2018).

    Args:
        model: The classifier.
        images: Images in [0, 1], (N, channels, height, width).
        labels: True class of each image.
        eps: Radius of the ball.
        norm: Norm of the ball.
        steps: Number of steps.
        step_size: Length of a step (default: 2.5 eps / steps).
        random_start: Whether to start at a uniform draw from the ball instead of the image.
        rng: Generator of the random start: one for the batch, or one per image.
        space: Unit of `eps`: pixels, or the channels' `std` (normalised).
        std: Standard deviation per channel, for "normalised" (default: `model.std`).

    Returns:
        The last iterate.

    Raises:
        InvalidInput: If an argument does not fit, or the model has no gradient.
    """
    if norm not in get_args(Norm):
        raise InvalidInput(f"norm must be linf or l2, got {norm!r}")
    target = make_target(model, images, labels, space=space, std=std)
    check_eps(eps, norm, space)
    attack = _prepare_pgd(target, norm=norm, steps=steps, step_size=step_size, random_start=random_start)
    return attack(eps, _all_rows(target), rng)


def make_target(
    model: Classifier,
    images: Tensor,
    labels: ArrayLike | Tensor,
    *,
    space: Space = "pixels",
    std: Sequence[float] | None = None,
) -> Target:
    """Check everything but eps and return the target of an attack. The arguments are those of `fgsm`."""
    torch = _torch()
    check_eval(model)
    if not isinstance(images, torch.Tensor) or images.ndim != 4 or not images.is_floating_point():
        shape, dtype = tuple(np.shape(images)), getattr(images, "dtype", type(images).__name__)
        raise InvalidInput(f"images must be a float tensor (N, channels, height, width), got {dtype} {shape}")
    if images.numel() and not (images.min() >= 0 and images.max() <= 1):  # nan fails here too
        low, high = float(images.min()), float(images.max())
        raise InvalidInput(f"images must lie in [0, 1], got {low:g} to {high:g}; put the normalisation into the model")
    if space not in get_args(Space):
        raise InvalidInput(f"space must be pixels or normalised, got {space!r}")
    if space == "pixels" and std is not None:
        raise InvalidInput(f"std belongs to space='normalised', got std {tuple(std)} with space='pixels'; leave it out")
    with with_gradients():
        clean = images.detach().clone()
        codes = torch.as_tensor(labels, device=clean.device)
        if codes.is_floating_point() or codes.dtype == torch.bool or codes.shape != clean.shape[:1]:
            raise InvalidInput(
                f"labels must be {len(clean)} whole numbers, one per image, got {codes.dtype} of shape "
                f"{tuple(codes.shape)}"
            )
        if space == "pixels":
            scale = clean.new_ones(1, 1, 1, 1)
        else:
            spread, channels = getattr(model, "std", None) if std is None else std, clean.shape[1]
            if spread is None or len(spread) != channels or not all(isfinite(s) and s > 0 for s in spread):
                raise InvalidInput(
                    f"space='normalised' needs std, {channels} positive numbers, got {spread}; give std=..."
                )
            scale = clean.new_tensor(tuple(spread)).reshape(1, -1, 1, 1)
        return Target(model, clean, codes.long().clone(), scale)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise InvalidInput("attacks need torch, which is not installed; pip install 'cosight[models]'") from error
    return torch


def check_eval(model: Classifier) -> None:
    """Raise if any part of the model is in train mode: its answers would depend on the batch."""
    module = getattr(model, "module", model)
    parts = module.modules() if hasattr(module, "modules") else [module]
    if any(getattr(part, "training", False) is True for part in parts):
        raise InvalidInput("a model is attacked in eval mode, got one in train mode; call model.eval() first")


def check_eps(eps: float, norm: Norm, space: Space, *, name: str = "eps") -> None:
    """Raise if eps is negative or not finite, or was written as 8 instead of 8/255. `name` is for the message."""
    if not (isfinite(eps) and eps >= 0):
        raise InvalidInput(f"{name} must be a finite number from 0 up, got {eps}")
    if eps > 1 and norm == "linf" and space == "pixels":
        raise InvalidInput(
            f"{name} is in units of pixels in [0, 1], got {eps:g}; {eps:g}/255 is written {eps / 255:.4g}"
        )


def _all_rows(target: Target) -> Tensor:
    return _torch().arange(len(target.images), device=target.images.device)  # type: ignore[no-any-return]


@contextmanager
def with_gradients() -> Iterator[None]:
    """Enable gradients, even if the caller works under no_grad or inference_mode."""
    torch = _torch()
    with torch.inference_mode(False), torch.enable_grad():
        yield


def input_gradient(loss: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Compute the gradient of a loss with respect to images.

    Args:
        loss: Function from images to one number; the sum over images, so that a gradient does not depend on the batch.
        images: Images (N, channels, height, width).

    Returns:
        The gradient, of the images' shape.

    Raises:
        InvalidInput: If the loss has no gradient with respect to the images, or one that is not finite.

    >>> import torch
    >>> input_gradient(lambda images: (images**2).sum(), torch.ones(1, 1, 1, 2)).tolist()
    [[[[2.0, 2.0]]]]
    """
    torch = _torch()
    with with_gradients():
        pixels = images.detach().clone().requires_grad_()
        value = loss(pixels)
        (gradient,) = torch.autograd.grad(value, pixels, allow_unused=True) if value.requires_grad else (None,)
    if gradient is None:
        raise InvalidInput("an attack needs a gradient, got logits cut off from the images; remove no_grad or detach")
    broken = ~gradient.isfinite().flatten(1).all(1)
    if broken.any():
        count, first = int(broken.sum()), int(broken.nonzero()[0, 0])
        raise InvalidInput(f"gradients must be finite, got nan or infinity for {count} images, the first at {first}")
    return gradient  # type: ignore[no-any-return]


def _gradient(model: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of each image's own cross-entropy."""

    def loss(pixels: Tensor) -> Tensor:
        logits = model(pixels)
        check_logits(logits, len(labels))
        check_range(labels, logits.shape[1])
        return _torch().nn.functional.cross_entropy(  # type: ignore[no-any-return]
            logits, labels.to(logits.device), reduction="sum"
        )

    return input_gradient(loss, images)


def check_logits(logits: Any, count: int) -> None:
    """Raise unless the logits are (count, classes)."""
    shape = tuple(getattr(logits, "shape", ()))
    if len(shape) != 2 or shape[0] != count:
        got = f"shape {shape}" if shape else type(logits).__name__
        raise InvalidInput(f"a model must return logits of shape ({count}, classes) here, got {got}; wrap the model")


def check_range(labels: Any, classes: int) -> None:
    """Raise unless all labels (a tensor or an array) are classes of the model."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        low, high = int(labels.min()), int(labels.max())
        raise InvalidInput(f"labels must be 0 to {classes - 1}, the model's classes, got {low} to {high}")


def _prepare_fgsm(target: Target) -> PreparedAttack:
    """Compute the gradient once, for every eps."""
    step = _gradient(target.model, target.images, target.labels).sign() * target.scale

    def attack(eps: float, rows: Tensor, rngs: Rngs | None) -> Tensor:
        return (target.images[rows] + eps * step[rows]).clamp(0, 1)

    return attack


def _prepare_pgd(
    target: Target,
    *,
    norm: Norm,
    steps: int = PGD_STEPS,
    step_size: float | None = None,
    random_start: bool = True,
) -> PreparedAttack:
    if steps < 1:
        raise InvalidInput(f"steps must be at least 1, got {steps}")
    if step_size is not None and not (isfinite(step_size) and step_size > 0):
        raise InvalidInput(f"step_size must be a positive number, got {step_size}; leave it out for 2.5 eps / steps")

    @with_gradients()
    def attack(eps: float, rows: Tensor, rngs: Rngs | None) -> Tensor:
        clean, labels = target.images[rows], target.labels[rows]
        length = pgd_settings(eps, steps=steps, step_size=step_size)["step_size"]
        start = draw_start(clean, eps, norm, rngs) if random_start else clean.new_zeros(clean.shape)
        uphill = partial(_gradient, target.model, labels=labels)
        return ascend(uphill, clean, start, eps=eps, norm=norm, steps=steps, step_size=length, scale=target.scale)

    return attack


def ascend(
    uphill: Callable[[Tensor], Tensor],
    clean: Tensor,
    start: Tensor,
    *,
    eps: float,
    norm: Norm,
    steps: int,
    step_size: float,
    scale: Tensor | float = 1.0,
) -> Tensor:
    """Ascend a loss in steps from `clean + start`, projecting onto the eps ball after each: the steps of PGD.

    Args:
        uphill: Function from images to the gradient of the loss.
        clean: Images in [0, 1], (N, channels, height, width).
        start: The first change of the images, in units of eps.
        eps: Radius of the ball.
        norm: Norm of the ball.
        steps: Number of steps.
        step_size: Length of a step.
        scale: Pixels per unit of eps.

    Returns:
        The last iterate, in [0, 1].

    >>> import torch
    >>> grey = torch.full((1, 1, 1, 2), 0.5)
    >>> ascend(torch.ones_like, grey, 0 * grey, eps=0.25, norm="linf", steps=3, step_size=0.2).tolist()
    [[[[0.75, 0.75]]]]
    """
    change = start
    for _ in range(steps):
        attacked = (clean + change * scale).clamp(0, 1)
        direction = steepest(uphill(attacked) * scale, norm)  # the chain rule, in units of eps
        change = project((attacked - clean) / scale + step_size * direction, eps, norm)
    # Clipping to [0, 1] brings every pixel nearer to the clean one, so it does not leave the ball.
    return (clean + change * scale).clamp(0, 1)


def pgd_settings(
    eps: float, *, steps: int = PGD_STEPS, step_size: float | None = None, random_start: bool = True
) -> dict[str, Any]:
    """Return the options of PGD at this eps, with the default step size filled in.

    >>> pgd_settings(0.08, steps=10)
    {'steps': 10, 'step_size': 0.02, 'random_start': True}
    """
    length = _REACH * eps / steps if step_size is None else step_size
    return {"steps": steps, "step_size": length, "random_start": random_start}


def _prepare_auto(target: Target, *, norm: Norm) -> PreparedAttack:
    """Run AutoAttack by its authors' package; where none of its attacks fools the model, an image stays as it is.

    All images of a call are attacked together, and their random numbers follow from the first generator.
    """
    torch = _torch()
    try:
        from pyautoattack import AutoAttack  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise InvalidInput("AutoAttack needs pyautoattack; pip install 'cosight[attacks]'") from error
    if not bool((target.scale == 1).all()):
        raise InvalidInput("AutoAttack needs eps in units of pixels, got space='normalised'; leave it out")

    class Network(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, images: Tensor) -> Tensor:
            return target.model(images)

    with torch.no_grad():
        classes = target.model(target.images[:1]).shape[1]
    if classes < _LEAST_CLASSES:  # the loss of its targeted attack has the four largest logits
        raise InvalidInput(f"AutoAttack needs a model with at least {_LEAST_CLASSES} classes, got {classes}; use PGD")

    @with_gradients()
    def attack(eps: float, rows: Tensor, rngs: Rngs | None) -> Tensor:
        if rngs is None:
            raise InvalidInput("AutoAttack needs rng, got None; give numpy.random.default_rng(SEED)")
        first = rngs if isinstance(rngs, np.random.Generator) else rngs[0]
        clean = target.images[rows]
        with torch.random.fork_rng():
            auto = AutoAttack(
                Network().eval(),
                norm={"linf": "Linf", "l2": "L2"}[norm],
                eps=eps,
                seed=int(first.integers(2**31)),
                device=str(clean.device),
            )
            for part in (auto.apgd_targeted, auto.fab):
                part.n_target_classes = min(part.n_target_classes, classes - 1)
            attacked: Tensor = auto.run_standard_evaluation(clean, target.labels[rows], batch_size=len(clean))[0]
        return attacked.clamp(0, 1)

    return attack


def draw_start(clean: Tensor, eps: float, norm: Norm, rngs: Rngs | None) -> Tensor:
    """Draw uniformly from the eps ball, once per image."""
    if rngs is None:
        raise InvalidInput(
            "a random start needs rng, got None; give numpy.random.default_rng(SEED) or random_start=False"
        )
    each = [rngs] * len(clean) if isinstance(rngs, np.random.Generator) else list(rngs)
    if len(each) != len(clean):
        raise InvalidInput(f"rng must be one generator, or one per image ({len(clean)}), got {len(each)}")
    draws = []
    for rng in each:
        if norm == "linf":
            draws.append(rng.uniform(-1, 1, tuple(clean.shape[1:])))
        else:  # a normal draw has a uniform direction; the d-th root makes the radius that of a uniform draw
            direction = rng.standard_normal(tuple(clean.shape[1:]))
            radius: float = rng.uniform() ** (1 / direction.size)
            draws.append(direction * (radius / float(np.linalg.norm(direction))))
    return clean.new_tensor(np.array(draws).reshape(clean.shape) * eps)


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """Return the unit step that raises the loss most; zero where there is no gradient."""
    if norm == "linf":
        return gradient.sign()
    largest = gradient.abs().amax(dim=(1, 2, 3), keepdim=True)
    scaled = gradient / largest.where(largest > 0, 1)  # squares of tiny gradients would be zero
    return scaled / _lengths(scaled).clamp(min=1)  # a scaled image's length is at least 1, or 0


def project(change: Tensor, eps: float, norm: Norm) -> Tensor:
    """Return the nearest change within the eps ball."""
    if norm == "linf":
        return change.clamp(-eps, eps)
    lengths = _lengths(change)
    return change * (eps / lengths).where(lengths > eps, 1)


def _lengths(change: Tensor) -> Tensor:
    return _torch().linalg.vector_norm(change, dim=(1, 2, 3), keepdim=True)  # type: ignore[no-any-return]


_GOODFELLOW = "Goodfellow, Shlens and Szegedy 2015, Explaining and harnessing adversarial examples"
_MADRY = "Madry et al. 2018, Towards deep learning models resistant to adversarial attacks"
_PGD: dict[str, Any] = {
    "random": True,
    "options": frozenset({"steps", "step_size", "random_start"}),
    "settings": pgd_settings,
    "citation": _MADRY,
}

_AUTO = "APGD, targeted APGD, FAB and Square (AutoAttack's standard version)"
_AUTO_FACTS: dict[str, Any] = {
    "random": True,
    "options": frozenset(),
    "settings": lambda eps: {"version": "standard"},
    "citation": "Croce and Hein 2020, Reliable evaluation of adversarial robustness",
}

for _entry in (
    Attack(
        name="fgsm",
        prepare=_prepare_fgsm,
        norm="linf",
        random=False,
        options=frozenset(),
        settings=lambda eps: {},
        summary="One step along the gradient's sign.",
        citation=_GOODFELLOW,
    ),
    Attack(
        "pgd-linf",
        partial(_prepare_pgd, norm="linf"),
        "linf",
        summary="Many steps, the change of every pixel within eps.",
        **_PGD,
    ),
    Attack(
        "pgd-l2",
        partial(_prepare_pgd, norm="l2"),
        "l2",
        summary="Many steps, the L2 norm of the image's change within eps.",
        **_PGD,
    ),
    Attack("autoattack-linf", partial(_prepare_auto, norm="linf"), "linf", summary=f"{_AUTO}, Linf.", **_AUTO_FACTS),
    Attack("autoattack-l2", partial(_prepare_auto, norm="l2"), "l2", summary=f"{_AUTO}, L2.", **_AUTO_FACTS),
):
    attacks.add(_entry.name, _entry)
