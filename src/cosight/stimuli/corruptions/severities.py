"""The registry of corruptions, its sources, and its severities."""

from __future__ import annotations

from typing import Literal, get_args

from cosight.errors import InvalidInput
from cosight.registry import Registry
from cosight.stimuli.kinds import Kind

__all__ = ["BOTH", "IMAGENET_C", "VISALIGN", "Variant", "corruptions", "severity_step"]

Variant = Literal["visalign", "imagenet-c"]
IMAGENET_C = "Hendrycks and Dietterich 2019"
VISALIGN = "Lee et al. 2023"  # severities 6-10, multiplicative brightness, cropping
BOTH = f"{IMAGENET_C}; {VISALIGN}"
_IMAGENET_C_SEVERITIES = 5

corruptions: Registry[Kind] = Registry("corruption")


def severity_step(kind: Kind, severity: int, variant: Variant = "visalign") -> int:
    """Return the index of a severity among the steps of a corruption.

    Args:
        kind: The corruption.
        severity: 1 to 10; 1 to 5 for ImageNet-C's extras and for the variant "imagenet-c".
        variant: "visalign" or "imagenet-c".

    Returns:
        The index, from 0.

    Raises:
        InvalidInput: If the corruption does not have this severity in this variant.

    >>> severity_step(corruptions["fog"], 7)
    6
    >>> severity_step(corruptions["fog"], 7, "imagenet-c")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: severity of fog must be 1 to 5 in ImageNet-C, got 7; variant "visalign" has more
    """
    if variant not in get_args(Variant):
        raise InvalidInput(f"variant must be {' or '.join(get_args(Variant))}, got {variant}")
    step = kind.step(str(severity), word="severity")
    if variant == "imagenet-c" and IMAGENET_C not in kind.citation:
        raise InvalidInput(f'ImageNet-C has no {kind.name}; variant "visalign" has it')
    if variant == "imagenet-c" and step >= _IMAGENET_C_SEVERITIES:
        raise InvalidInput(
            f"severity of {kind.name} must be 1 to {_IMAGENET_C_SEVERITIES} in ImageNet-C, got {severity}; "
            'variant "visalign" has more'
        )
    return step
