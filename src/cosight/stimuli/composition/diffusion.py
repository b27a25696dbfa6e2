"""Text-to-image pipelines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from inspect import signature
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, as_floats, check_image, to_rgb
from cosight.torchvision_ops import import_torchvision

__all__ = ["Pipeline", "generate", "load_pipeline", "mix", "pipeline_identity", "seeded", "text_to_image"]

Pipeline = Any  # any diffusers text-to-image pipeline: pipeline(prompt=, negative_prompt=, generator=, ...).images

_INDEX = "model_index.json"
_MADE_OF = (".json", ".model", ".safetensors", ".txt")  # settings, tokenizers and weights; no pictures, no pickles
_EXTRA = "pip install 'cosight[diffusion]', with a torchvision made for this torch"


def load_pipeline(name: str | Path, *, device: str = "cpu") -> Pipeline:
    """A text-to-image pipeline by its hub name or from a folder; weights as safetensors only, progress bars off."""
    folder = Path(name).expanduser()
    pipeline = _asked("from_pretrained", str(folder if folder.is_dir() else name))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)


def pipeline_identity(name: str | Path) -> str:
    """What a pipeline is: sha256 of a folder's settings and weights, or a hub name with its commit (NAME@COMMIT).

    A pipeline of the hub is fetched if it is not there yet.
    """
    folder = Path(name).expanduser()
    if (folder / _INDEX).is_file():
        return _folder_digest(folder)
    if folder.is_dir():
        raise InvalidInput(f"a folder with a pipeline holds {_INDEX}, {name} does not; name the folder it was saved to")
    fetched = Path(_asked("download", str(name)))
    return f"{name}@{fetched.name}"  # the hub's client keeps each commit in a folder of that name


def _folder_digest(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.suffix in _MADE_OF and path.is_file())
    names = sorted((path.relative_to(folder).as_posix(), path) for path in files)
    seen = [(name, path, path.stat()) for name, path in names if not any(p.startswith(".") for p in name.split("/"))]
    lines = [f"{name} {_file_digest(path, stat.st_size, stat.st_mtime_ns)}\n" for name, path, stat in seen]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@lru_cache(maxsize=256)
def _file_digest(path: Path, size: int, changed: int) -> str:
    """Weights are gigabytes: read in pieces, and again only when the file has changed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _asked(what: str, name: str) -> Any:
    """The answer of one of diffusers' class methods about the pipeline of this name."""
    try:
        import_torchvision()  # which transformers may import
        from diffusers import DiffusionPipeline
    except (ImportError, RuntimeError) as error:
        raise InvalidInput(f"making images from text needs diffusers, got: {_one_line(error)}; {_EXTRA}") from error
    try:
        return getattr(DiffusionPipeline, what)(name, use_safetensors=True)
    except (OSError, ValueError, RuntimeError, ImportError, AttributeError, KeyError, TypeError) as error:
        way_out = f"give a folder with {_INDEX} and safetensors weights, or go online once with a hub name"
        raise InvalidInput(f"{name} is no pipeline that can be loaded: {_one_line(error)}; {way_out}") from error


def _one_line(error: BaseException) -> str:
    """The first line of what first went wrong, short."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return shorten(lines[0], 160, placeholder=" ...").rstrip(".:")


def seeded(seed: int) -> Any:
    """A torch generator on the CPU, so that the same seed starts from the same noise on every device."""
    import torch

    return torch.Generator("cpu").manual_seed(seed)


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
    """The pipeline's image of `prompt`, (size, size, 3); a black one, as safety checkers put it, is refused."""
    if size < 32 or size % 8:
        raise InvalidInput(f"size must be a multiple of 8 from 32 up (the pipelines' grid), got {size}")
    if steps < 1:
        raise InvalidInput(f"steps must be at least 1, got {steps}")
    made = pipeline(
        prompt=prompt,
        negative_prompt=negative_prompt,
        height=size,
        width=size,
        num_inference_steps=steps,
        guidance_scale=guidance,
        generator=seeded(seed),
        output_type="np",
    )
    return _not_black(as_bytes(check_image(np.asarray(made.images[0]))), prompt)


def _not_black(image: Bytes, prompt: str) -> Bytes:
    """The same image, unless every pixel is black."""
    if not image.any():
        raise InvalidInput(
            f"an image must not be all black, got one for {prompt!r}: the pipeline's safety checker refused it;"
            " try another seed or load the pipeline without a checker"
        )
    return image


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
    pixels = _pixels(check_image(image))
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
    return as_floats(to_rgb(image))


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
