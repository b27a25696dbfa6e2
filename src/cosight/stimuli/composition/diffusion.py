"""One row of a prompt table to one image, by any text-to-image pipeline of diffusers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosight.errors import InvalidInput
from cosight.stimuli.composition.magicmix import mix
from cosight.stimuli.composition.pipelines import Pipeline, text_to_image
from cosight.stimuli.images import Bytes

__all__ = ["generate"]


def generate(
    pipeline: Pipeline, row: Mapping[str, Any], *, size: int = 512, steps: int = 50, guidance: float = 7.5
) -> Bytes:
    """The image of one row of `prompt_table`, (size, size, 3); the same row and pipeline give the same bytes.

    Route "text" is one call of the pipeline; route "mix" makes the image of `prompt`, then mixes `target` into it.
    512 pixels, 50 steps and guidance 7.5 are what Stable Diffusion 1 is run with (Rombach et al. 2022; its pipeline's
    defaults); VisAlign gives none. Look at every image before people see it: the paper's authors kept only those that
    show one creature and look real.
    """
    if row["route"] not in ("text", "mix"):
        raise InvalidInput(f"a pipeline makes rows of route text or mix, got {row['route']!r}; see make_composite")
    settings: dict[str, Any] = {"seed": row["seed"], "steps": steps, "guidance": guidance}
    image = text_to_image(pipeline, row["prompt"], negative_prompt=row["negative_prompt"], size=size, **settings)
    return image if row["route"] == "text" else mix(pipeline, image, row["target"], **settings)
