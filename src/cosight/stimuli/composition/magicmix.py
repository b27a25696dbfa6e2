"""Semantic mixing: the layout of an image, the content of a prompt (MagicMix, Liew et al. 2022, arXiv 2210.16056)."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.composition.pipelines import Pipeline, seeded
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, as_floats, checked, in_colour

__all__ = ["mix"]

_PARTS = ("vae", "unet", "text_encoder", "tokenizer", "scheduler")
_GRID = 8  # pixels a latent of Stable Diffusion


def mix(
    pipeline: Pipeline,
    image: Image,
    prompt: str,
    *,
    seed: int,
    lowest: float = 0.3,
    highest: float = 0.6,
    weight: float = 0.5,
    negative_prompt: str | None = None,
    steps: int = 50,
    guidance: float = 7.5,
) -> Bytes:
    """`image` with `prompt` mixed into it, of the same size.

    The image is noised up to the share `highest` (K_max) of the way to pure noise and denoised under the prompt. Down
    to the share `lowest` (K_min) each denoised latent is replaced by weight * denoised + (1 - weight) * the image
    noised to the same point (the paper's nu; one noise for all points); below, it is denoised freely. With weight 1
    this is image-to-image of strength `highest`, with weight 0 of strength `lowest`; with weight 0 and `lowest` 0 the
    image comes back as the autoencoder renders it. .3, .6 and .5 are the defaults of the open implementations.

    `pipeline` is any pipeline made like Stable Diffusion: one text encoder, a U-Net and an autoencoder.
    """
    import torch

    _check(pipeline, lowest=lowest, highest=highest, weight=weight, steps=steps)
    pixels = _pixels(checked(image))
    with torch.no_grad():
        layout = _encoded(pipeline.vae, pixels)
        texts = _texts(pipeline, prompt, negative_prompt or "", guidance)
        path = _Path(pipeline, texts, guidance, seeded(seed), steps)
        return _decoded(pipeline.vae, path.mixed(layout, lowest=lowest, highest=highest, weight=weight))


def _check(pipeline: Pipeline, *, lowest: float, highest: float, weight: float, steps: int) -> None:
    missing = [part for part in _PARTS if getattr(pipeline, part, None) is None]
    if missing or getattr(pipeline, "text_encoder_2", None) is not None:
        fault = f"without {', '.join(missing)}" if missing else "with two text encoders"
        raise InvalidInput(
            f"mixing needs a pipeline made like Stable Diffusion 1 or 2, got {type(pipeline).__name__} {fault};"
            " load such a pipeline, or use the text route"
        )
    if not 0 <= lowest <= highest <= 1:
        raise InvalidInput(f"mixing needs 0 <= lowest <= highest <= 1, got lowest {lowest:g} and highest {highest:g}")
    if not 0 <= weight <= 1:
        raise InvalidInput(f"weight must lie in [0, 1], got {weight:g}; 0 keeps the image, 1 follows the prompt")
    if steps < 1:
        raise InvalidInput(f"steps must be at least 1, got {steps}")


def _pixels(image: Image) -> Floats:
    """Float RGB in [0, 1] whose sides fit the latent grid."""
    if image.shape[0] % _GRID or image.shape[1] % _GRID:
        raise InvalidInput(
            f"the sides of an image to mix must be multiples of {_GRID}, got {image.shape[1]} x {image.shape[0]};"
            " resize it first"
        )
    return as_floats(in_colour(image))


def _encoded(vae: Any, pixels: Floats) -> Any:
    """The autoencoder's latent of the image: the distribution's mode, so no draw decides it."""
    import torch

    weights = next(vae.parameters())
    batch = torch.from_numpy(pixels * 2 - 1).permute(2, 0, 1)[None].to(weights)
    return vae.encode(batch).latent_dist.mode() * vae.config.scaling_factor


def _decoded(vae: Any, latent: Any) -> Bytes:
    picture = vae.decode(latent / vae.config.scaling_factor).sample[0]
    array = (picture.float().cpu().permute(1, 2, 0).numpy() + 1) / 2
    return as_bytes(np.clip(array, 0, 1))


def _texts(pipeline: Pipeline, prompt: str, negative_prompt: str, guidance: float) -> Any:
    """Embeddings of the prompts, (1 or 2, tokens, width): the negative one first, only where guidance uses it."""
    prompts = [negative_prompt, prompt] if guidance > 1 else [prompt]
    length = pipeline.tokenizer.model_max_length
    tokens = pipeline.tokenizer(prompts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    return pipeline.text_encoder(tokens.input_ids.to(pipeline.text_encoder.device))[0]


class _Path:
    """The way from noise to an image under one prompt; stepping changes a scheduler, so each path has its own."""

    def __init__(self, pipeline: Pipeline, texts: Any, guidance: float, generator: Any, steps: int) -> None:
        self.unet, self.texts, self.guidance, self.generator = pipeline.unet, texts, guidance, generator
        self.scheduler = type(pipeline.scheduler).from_config(pipeline.scheduler.config)
        self.scheduler.set_timesteps(steps, device=texts.device)
        takes = signature(self.scheduler.step).parameters
        self.draws = {"generator": generator} if "generator" in takes else {}  # else it would draw from global state

    def mixed(self, layout: Any, *, lowest: float, highest: float, weight: float) -> Any:
        """The latent after the three stretches: noised to `highest`, mixed down to `lowest`, then free."""
        import torch

        times = self.scheduler.timesteps
        noise = torch.randn(layout.shape, generator=self.generator, dtype=torch.float32).to(layout)
        points = [self.scheduler.add_noise(layout, noise, time[None]) for time in times] + [layout]
        start, free = (len(times) - _steps(share, len(times)) for share in (highest, lowest))
        latent = points[start]
        for index in range(start, len(times)):
            latent = self._step(latent, times[index])
            if index < free:
                latent = weight * latent + (1 - weight) * points[index + 1]
        return latent

    def _step(self, latent: Any, time: Any) -> Any:
        """One step of the scheduler, with classifier-free guidance where there is a negative prompt."""
        import torch

        batch = self.scheduler.scale_model_input(torch.cat([latent] * len(self.texts)), time)
        predicted = self.unet(batch, time, encoder_hidden_states=self.texts).sample
        if len(self.texts) == 2:
            without, under = predicted.chunk(2)
            predicted = without + self.guidance * (under - without)
        return self.scheduler.step(predicted, time, latent, **self.draws).prev_sample


def _steps(share: float, steps: int) -> int:
    """Whole steps in a share of them, rounded down, as diffusers counts the strength of image-to-image."""
    return int(share * steps + 1e-9)  # .3 * 10 must be 3
