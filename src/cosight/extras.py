"""Optional packages: which extra installs which modules, and which commands need some.

`pip install cosight` brings no torch and no OpenCV. A command or call that needs more says so before it does anything
else, and names one extra that brings everything it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

from cosight.errors import CosightError

__all__ = ["EXTRAS", "NEEDS", "MissingExtra", "Need", "extra_of", "modules_of", "require", "require_for"]

# extra -> the modules that it installs, and the extras that it includes; smaller ones first
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "stimuli": ("cv2", "numba"),
    "models": ("stimuli", "torch", "torchvision", "timm", "safetensors", "onnxruntime"),
    "ood": ("models", "pytorch_ood", "sklearn"),
    "train": ("models", "lightly"),
    "clip": ("models", "open_clip"),
    "attacks": ("models", "pyautoattack"),
    "judges": ("models", "torchmetrics", "dreamsim"),
    "diffusion": ("models", "diffusers", "transformers"),
    "vlm": ("stimuli", "openai"),
    "ray": ("ray",),
    "postgres": ("psycopg",),
    "browser": ("playwright",),
    "figures": ("matplotlib",),
    "demo": ("models", "figures"),
}


class Need(NamedTuple):
    """What a command always needs: some modules, and the extra to install where one is missing."""

    extra: str
    modules: tuple[str, ...]


# Command, group of commands, call of the same name, or source of models (with its colon) -> its needs. Options that
# need more check that themselves.
NEEDS: Mapping[str, Need] = {
    "build": Need("stimuli", ("cv2", "numba")),
    "build digits": Need("demo", ("cv2", "numba", "matplotlib")),
    "evaluate": Need("models", ("cv2", "numba")),
    "figure": Need("figures", ("matplotlib",)),
    "preview": Need("models", ("cv2", "numba")),
    "resume": Need("models", ("cv2", "numba")),
    "run resume": Need("models", ("cv2", "numba")),
    "shift": Need("models", ("cv2", "numba", "safetensors")),
    "stimuli corrupt": Need("stimuli", ("cv2", "numba")),
    "stimuli distort": Need("stimuli", ("cv2", "numba")),
    "stimuli manipulate": Need("stimuli", ("cv2", "numba")),
    "stimuli attack": Need("models", ("cv2", "numba", "torch")),
    "stimuli invert": Need("models", ("cv2", "numba", "torch")),
    "stimuli contest": Need("models", ("cv2", "numba", "torch")),
    "stimuli compose": Need("stimuli", ("cv2", "numba")),
    "stimuli prompts": Need("stimuli", ("cv2", "numba")),
    "train": Need("models", ("cv2", "numba", "torch", "safetensors")),
    "judge": Need("models", ("cv2", "numba", "torch")),
    "cosight:": Need("models", ("torch", "safetensors")),
    "onnx:": Need("models", ("onnxruntime",)),
    "openclip:": Need("clip", ("torch", "torchvision", "open_clip")),
    "timm:": Need("models", ("torch", "timm")),
    "torchvision:": Need("models", ("torch", "torchvision")),
    "vlm:": Need("vlm", ("openai",)),
}


class MissingExtra(CosightError, ImportError):
    """An optional package is not installed."""


def modules_of(extra: str) -> tuple[str, ...]:
    """Return the modules that an extra installs, those of the extras that it includes first.

    >>> modules_of("train")[-1]
    'lightly'
    """
    nested = [modules_of(name) if name in EXTRAS and name != extra else (name,) for name in EXTRAS[extra]]
    return tuple(module for modules in nested for module in modules)


def extra_of(*modules: str) -> str | None:
    """Return the smallest extra that installs all these modules; None where no extra does.

    >>> extra_of("torch"), extra_of("torch", "open_clip"), extra_of("numpy")
    ('models', 'clip', None)
    """
    return next((extra for extra in EXTRAS if set(modules) <= set(modules_of(extra))), None)


def require(*modules: str, by: str, extra: str | None = None) -> None:
    """Raise unless these modules are installed. Nothing is imported.

    Args:
        modules: Names of modules.
        by: What needs them, as the message says it.
        extra: The extra to install (default: the smallest that brings what is missing).

    Raises:
        MissingExtra: Some module is not installed; the message names the extra.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        chosen = extra or extra_of(*missing)
        raise MissingExtra(f"{by} needs {', '.join(missing)}, not installed here; pip install 'cosight[{chosen}]'")


def require_for(command: str) -> None:
    """Raise unless the modules that a command or a source of models always needs are installed.

    Args:
        command: The command without `cosight`, such as `stimuli corrupt`, or the source, such as `timm:`.

    Raises:
        MissingExtra: They are not; the message names the extra.
    """
    need = NEEDS.get(command) or NEEDS.get(command.split(" ")[0])
    if need is not None:
        by = f"a model of {command}" if command.endswith(":") else f"cosight {command}"
        require(*need.modules, by=by, extra=need.extra)
