"""Text-to-image pipelines of diffusers: loading one, what it is, asking it for an image."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, as_bytes, checked
from cosight.torchvision_ops import import_torchvision

__all__ = ["Pipeline", "load_pipeline", "pipeline_identity", "seeded", "text_to_image"]

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
    return _not_black(as_bytes(checked(np.asarray(made.images[0]))), prompt)


def _not_black(image: Bytes, prompt: str) -> Bytes:
    """The same image, unless every pixel is black."""
    if not image.any():
        raise InvalidInput(
            f"an image must not be all black, got one for {prompt!r}: the pipeline's safety checker refused it;"
            " try another seed or load the pipeline without a checker"
        )
    return image
