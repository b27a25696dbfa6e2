"""Images from text-to-image pipelines of diffusers: load a pipeline, identify it, generate, mix (MagicMix)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from cosight.errors import InvalidInput, first_line
from cosight.stimuli.images import Bytes, Image, as_bytes, as_floats, check_image, to_rgb
from cosight.torchvision_ops import import_torchvision

__all__ = ["Pipeline", "generate", "load_pipeline", "mix", "pipeline_identity", "seed_generator", "text_to_image"]

Pipeline = Any  # any diffusers text-to-image pipeline: pipeline(prompt=, negative_prompt=, generator=, ...).images

_INDEX = "model_index.json"
_IDENTITY_SUFFIXES = (
    ".json",
    ".model",
    ".safetensors",
    ".txt",
)  # settings, tokenizers and weights
_EXTRA = "pip install 'cosight[diffusion]', with a torchvision made for this torch"
_MIX_PARTS = ("vae", "unet", "text_encoder", "tokenizer", "scheduler")
_LATENT_GRID = 8  # pixels per latent of Stable Diffusion


def load_pipeline(name: str | Path, *, device: str = "cpu") -> Pipeline:
    """Load a text-to-image pipeline, with its progress bars off.

    Args:
        name: A folder, or a name on the Hugging Face hub. Only safetensors weights are read.
        device: torch device.

    Returns:
        The pipeline.

    Raises:
        InvalidInput: If diffusers is missing or the pipeline cannot be loaded.

    >>> pipeline = load_pipeline("stable-diffusion-v1-5/stable-diffusion-v1-5", device="cuda")  # doctest: +SKIP
    """
    folder = Path(name).expanduser()
    pipeline = _call_diffusers("from_pretrained", str(folder if folder.is_dir() else name))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)


def pipeline_identity(name: str | Path) -> str:
    """Identify a pipeline, downloading it from the hub if necessary.

    Args:
        name: A folder, or a name on the Hugging Face hub.

    Returns:
        The sha256 of a folder's settings and weights, or NAME@COMMIT for the hub.

    Raises:
        InvalidInput: If diffusers is missing or there is no such pipeline.

    >>> Path("pipeline").mkdir()
    >>> _ = Path("pipeline/model_index.json").write_text("{}")
    >>> pipeline_identity("pipeline")[:12]
    '1b9f0cd0ae91'
    """
    folder = Path(name).expanduser()
    if folder.is_dir() and not (folder / _INDEX).is_file():
        raise InvalidInput(f"the folder of a pipeline has {_INDEX}, {name} does not; name the folder it was saved to")
    if not folder.is_dir():
        downloaded = Path(_call_diffusers("download", str(name)))
        return f"{name}@{downloaded.name}"  # the hub's client stores each commit in a folder of that name
    lines = []
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        parts = path.relative_to(folder).parts
        if path.suffix in _IDENTITY_SUFFIXES and path.is_file() and not any(part.startswith(".") for part in parts):
            stat = path.stat()
            lines.append(f"{'/'.join(parts)} {_file_digest(path, stat.st_size, stat.st_mtime_ns)}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@lru_cache(maxsize=256)
def _file_digest(path: Path, size: int, modified: int) -> str:
    """Compute the sha256 of a file. Weights are gigabytes: read in pieces, and again only if the file has changed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _call_diffusers(method: str, name: str) -> Any:
    """Call a class method of `DiffusionPipeline` with the name of a pipeline."""
    try:
        import_torchvision()  # transformers may import it
        from diffusers import DiffusionPipeline
    except (ImportError, RuntimeError) as error:
        raise InvalidInput(f"making images from text needs diffusers, got: {_root_cause(error)}; {_EXTRA}") from error
    try:
        return getattr(DiffusionPipeline, method)(name, use_safetensors=True)
    except (OSError, ValueError, RuntimeError, ImportError, AttributeError, KeyError, TypeError) as error:
        remedy = f"give a folder with {_INDEX} and safetensors weights, or go online once with a hub name"
        raise InvalidInput(f"cannot load the pipeline {name}: {_root_cause(error)}; {remedy}") from error


def _root_cause(error: BaseException) -> str:
    """Return the first line of the root cause, shortened."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error, most=160).rstrip(".:")


def seed_generator(seed: int) -> Any:
    """Return a torch generator on the CPU, so that a seed gives the same noise on every device."""
    import torch

    return torch.Generator("cpu").manual_seed(seed)


def generate(
    pipeline: Pipeline, row: Mapping[str, Any], *, size: int = 512, steps: int = 50, guidance: float = 7.5
) -> Bytes:
    """Generate the image of one row of a prompt table. The same row and pipeline give the same bytes.

    The defaults are those of Stable Diffusion 1 (Rombach et al. 2022); VisAlign gives none. Look at every image before
    people see it: the paper's authors kept only those that show one creature and look real.

    Args:
        pipeline: A text-to-image pipeline.
        row: A row of `prompt_table`. Route "text" is one call of the pipeline; route "mix" generates the image of
            `prompt`, then mixes `target` into it.
        size: Side of the image in pixels.
        steps: Denoising steps.
        guidance: Scale of classifier-free guidance.

    Returns:
        RGB pixels, (size, size, 3).

    Raises:
        InvalidInput: If the row has another route, or an argument does not fit.

    >>> image = generate(pipeline, prompt_table(5, count=2, seed=0).row(0, named=True))  # doctest: +SKIP
    """
    if row["route"] not in ("text", "mix"):
        raise InvalidInput(f"a pipeline makes rows of route text or mix, got {row['route']!r}; see make_composite")
    settings: dict[str, Any] = {"seed": row["seed"], "steps": steps, "guidance": guidance}
    image = text_to_image(pipeline, row["prompt"], negative_prompt=row["negative_prompt"], size=size, **settings)
    return image if row["route"] == "text" else mix(pipeline, image, row["target"], **settings)


def text_to_image(
    pipeline: Pipeline,
    prompt: str,
    *,
    seed: int,
    negative_prompt: str | None = None,
    size: int = 512,
    steps: int = 50,
    guidance: float = 7.5,
) -> Bytes:
    """Generate the image of a prompt.

    Args:
        pipeline: A text-to-image pipeline.
        prompt: What the image shows.
        seed: Seed of the noise.
        negative_prompt: What it does not show.
        size: Side of the image in pixels.
        steps: Denoising steps.
        guidance: Scale of classifier-free guidance.

    Returns:
        RGB pixels, (size, size, 3).

    Raises:
        InvalidInput: If `size` or `steps` does not fit, or the image is black: safety checkers return such images.

    >>> image = text_to_image(pipeline, "a photo of a tiger on the moon", seed=0)  # doctest: +SKIP
    """
    if size < 32 or size % 8:
        raise InvalidInput(f"size must be a multiple of 8 from 32 up (the pipelines' grid), got {size}")
    if steps < 1:
        raise InvalidInput(f"steps must be at least 1, got {steps}")
    output = pipeline(
        prompt=prompt,
        negative_prompt=negative_prompt,
        height=size,
        width=size,
        num_inference_steps=steps,
        guidance_scale=guidance,
        generator=seed_generator(seed),
        output_type="np",
    )
    image = as_bytes(check_image(np.asarray(output.images[0])))
    if not image.any():
        raise InvalidInput(
            f"an image must not be all black, got one for {prompt!r}: the pipeline's safety checker refused it;"
            " try another seed or load the pipeline without a checker"
        )
    return image


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
    """Mix the content of a prompt into the layout of an image (MagicMix, Liew et al. 2022, arXiv 2210.16056).

    The image is noised up to the fraction `highest` (K_max) of the way to pure noise and denoised under the prompt.
    Down to `lowest` (K_min) each denoised latent is replaced by weight * denoised + (1 - weight) * the image noised to
    the same step (the paper's nu; one noise for all steps); below, it is denoised freely. With weight 1 this is
    image-to-image of strength `highest`, with weight 0 of strength `lowest`; with weight 0 and `lowest` 0 the image
    comes back as the autoencoder renders it.

    Args:
        pipeline: A pipeline made like Stable Diffusion: one text encoder, a U-Net and an autoencoder.
        image: The layout.
        prompt: The content.
        seed: Seed of the noise.
        lowest: K_min. The default is that of the open implementations, as for `highest` and `weight`.
        highest: K_max.
        weight: How much of the prompt is mixed in.
        negative_prompt: What the image does not show.
        steps: Denoising steps.
        guidance: Scale of classifier-free guidance.

    Returns:
        RGB pixels of the image's size.

    Raises:
        InvalidInput: If the pipeline, the image or a number does not fit.

    >>> image = mix(pipeline, photo_of_a_tiger, "a corgi", seed=0)  # doctest: +SKIP
    """
    import torch

    missing = [part for part in _MIX_PARTS if getattr(pipeline, part, None) is None]
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
    array = check_image(image)
    if array.shape[0] % _LATENT_GRID or array.shape[1] % _LATENT_GRID:
        raise InvalidInput(
            f"the sides of an image to mix must be multiples of {_LATENT_GRID}, got {array.shape[1]} x "
            f"{array.shape[0]}; resize it first"
        )
    vae = pipeline.vae
    with torch.no_grad():
        pixels = torch.from_numpy(as_floats(to_rgb(array)) * 2 - 1).permute(2, 0, 1)[None].to(next(vae.parameters()))
        layout = vae.encode(pixels).latent_dist.mode() * vae.config.scaling_factor  # the mode, so no draw decides it
        texts = _embed(pipeline, prompt, negative_prompt or "", guidance)
        denoiser = _Denoiser(pipeline, texts, guidance, seed_generator(seed), steps)
        latent = denoiser.mix(layout, lowest=lowest, highest=highest, weight=weight)
        picture = vae.decode(latent / vae.config.scaling_factor).sample[0]
    decoded = (picture.float().cpu().permute(1, 2, 0).numpy() + 1) / 2
    return as_bytes(np.clip(decoded, 0, 1))


def _embed(pipeline: Pipeline, prompt: str, negative_prompt: str, guidance: float) -> Any:
    """Return the embeddings, (1 or 2, tokens, width): the negative prompt comes first, only if guidance uses it."""
    prompts = [negative_prompt, prompt] if guidance > 1 else [prompt]
    length = pipeline.tokenizer.model_max_length
    tokens = pipeline.tokenizer(prompts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    return pipeline.text_encoder(tokens.input_ids.to(pipeline.text_encoder.device))[0]


class _Denoiser:
    """Denoises under one prompt. It has a scheduler of its own, because stepping changes a scheduler."""

    def __init__(self, pipeline: Pipeline, texts: Any, guidance: float, generator: Any, steps: int) -> None:
        self.unet, self.texts, self.guidance, self.generator = pipeline.unet, texts, guidance, generator
        self.scheduler = type(pipeline.scheduler).from_config(pipeline.scheduler.config)
        self.scheduler.set_timesteps(steps, device=texts.device)
        # a scheduler that takes no generator draws nothing, or from global state
        takes_generator = "generator" in signature(self.scheduler.step).parameters
        self.step_options = {"generator": generator} if takes_generator else {}

    def mix(self, layout: Any, *, lowest: float, highest: float, weight: float) -> Any:
        """Return the latent: noised to `highest`, mixed down to `lowest`, then denoised freely."""
        import torch

        times = self.scheduler.timesteps
        noise = torch.randn(layout.shape, generator=self.generator, dtype=torch.float32).to(layout)
        noised = [self.scheduler.add_noise(layout, noise, time[None]) for time in times] + [layout]
        # whole steps, rounded down, as diffusers counts the strength of image-to-image; .3 * 10 must be 3
        start, free = (len(times) - int(fraction * len(times) + 1e-9) for fraction in (highest, lowest))
        latent = noised[start]
        for index in range(start, len(times)):
            latent = self._step(latent, times[index])
            if index < free:
                latent = weight * latent + (1 - weight) * noised[index + 1]
        return latent

    def _step(self, latent: Any, time: Any) -> Any:
        """Take one step of the scheduler, with classifier-free guidance if there is a negative prompt."""
        import torch

        batch = self.scheduler.scale_model_input(torch.cat([latent] * len(self.texts)), time)
        predicted = self.unet(batch, time, encoder_hidden_states=self.texts).sample
        if len(self.texts) == 2:
            unconditional, conditional = predicted.chunk(2)
            predicted = unconditional + self.guidance * (conditional - unconditional)
        return self.scheduler.step(predicted, time, latent, **self.step_options).prev_sample
