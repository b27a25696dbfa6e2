"""Classifiers in torch: images in [0, 1] in, logits out, with gradients or as arrays; their features and weights.

Features come from one of three places:

* timm models, and others with the same two methods: `forward_head(forward_features(x), pre_logits=True)`
* any other module: the input of the nn.Linear that returns the logits
* `layer=PATH`: the output of that submodule, flattened

Each is tried on two images when it is chosen, so that errors come at once. torch is imported on use.
"""

from __future__ import annotations

import hashlib
import inspect
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np

from cosight.devices import (
    Precision,
    autocast,
    check_precision,
    choose_device,
    is_out_of_memory,
    out_of_memory,
)
from cosight.errors import InvalidInput, UnknownName, did_you_mean, first_line
from cosight.models.model import (
    ModelOutputs,
    Outputs,
    check_batch,
    check_class_names,
    check_file,
    check_outputs,
    explain_errors,
    probe_images,
)
from cosight.models.preprocessing import Preprocessing, preprocess, resize_and_crop
from cosight.stimuli.images import Bytes, Floats

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = [
    "Tap",
    "TorchModel",
    "explain_download_errors",
    "hub_url",
    "load_weights",
    "read_weights",
    "weights_digest",
    "wrap_module",
]

_WRAPPERS = ("state_dict", "model")
_PARALLEL = "module."
_ATTACKER, _ATTACKED = "attacker.", "model."  # of the `robustness` library: a second copy of the network, the network
_UNUSED = "num_batches_tracked"  # batch norm's count of training steps: does not change outputs, missing in old files
_MOST_LAYERS, _MOST_KEYS = 4, 3  # named in a message
_CONNECT_SECONDS = 4.0  # in which a server must accept a connection


@dataclass(frozen=True, slots=True, eq=False)
class TorchModel:
    """A classifier in eval mode. It takes images (N, 3, height, width) in [0, 1], normalises them and returns logits.

    Args:
        name: Observer name.
        module: The network.
        preprocessing: How photos are prepared.
        classes: Number of outputs.
        weights_digest: SHA-256 of names, shapes and values of the weights, whichever file they came from.
        class_names: Names of the outputs, if known.
        outputs: What the module returns; the model returns logits.
        tap: Where features are taken; None for no features.
        channels_last: Memory layout of the pixels; faster where the module supports it.
        precision: With bfloat16 or float16 the module runs under torch's autocast; set it with `on`.
        training_facts: How it was trained, by which figures group models: `architecture`, `loss`, `augmentation`,
            `paradigm`, as far as its checkpoint says.
    """

    name: str
    module: nn.Module
    preprocessing: Preprocessing
    classes: int
    weights_digest: str
    class_names: tuple[str, ...] | None = None
    outputs: Outputs = "logits"
    tap: Tap | None = None
    channels_last: bool = False
    precision: Precision = "float32"
    training_facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """What changes the answers besides weights and preprocessing, for run records."""
        layer = self.tap.facts if self.tap else None
        return {"precision": self.precision, "outputs": self.outputs, "layer": layer}

    @property
    def device(self) -> str:
        """The torch device that the weights are on."""
        device = _device_of(self.module)
        return device.type if device.type == "mps" else str(device)  # there is one MPS, which torch calls mps:0

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the input images."""
        return self.preprocessing.size

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean subtracted from each channel, in units of pixels in [0, 1]."""
        return self.preprocessing.mean

    @property
    def std(self) -> tuple[float, ...]:
        """Divisor of each channel after that."""
        return self.preprocessing.std

    def __call__(self, images: Tensor) -> Tensor:
        """Compute logits (N, classes) of images (N, 3, height, width) in [0, 1] on its device, with gradients."""
        self._check_images(images)
        pixels = _normalise(self.module, images, self.preprocessing)
        with autocast(self.device, self.precision):
            outputs = self.module(pixels)
        return _to_logits(outputs, self.outputs)

    def features(self, images: Tensor) -> Tensor:
        """Compute features (N, dimensions) of images (N, 3, height, width) in [0, 1] on its device, with gradients.

        Args:
            images: Images in [0, 1].

        Returns:
            Features of the layer that `with_features` chose.

        Raises:
            InvalidInput: The images have another size, or no layer was chosen.
        """
        import torch

        self._check_images(images)
        if self.tap is None:
            raise InvalidInput(f"{self.name} was loaded without features; call with_features first")
        if self.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        with autocast(self.device, self.precision):
            return self.tap(self.module, _normalise(self.module, images, self.preprocessing))[1].float()

    def _check_images(self, images: Tensor) -> None:
        if images.ndim != 4 or tuple(images.shape[1:]) != (len(self.mean), *self.size):
            wanted = f"(N, {len(self.mean)}, {self.size[0]}, {self.size[1]})"
            raise InvalidInput(f"{self.name} takes images {wanted}, got {tuple(images.shape)}; prepare or resize them")

    def answer(self, batch: Floats) -> ModelOutputs:
        """Compute logits (and features, with a tap) of prepared photos (N, 3, height, width), without gradients."""
        import torch

        check_batch(batch, name=self.name, size=self.size)
        with torch.inference_mode():
            pixels = _to_pixels(self.module, batch, self.preprocessing, channels_last=self.channels_last)
            with autocast(self.device, self.precision):
                outputs, features = self.tap(self.module, pixels) if self.tap else (self.module(pixels), None)
            logits = _to_array(_to_logits(outputs, self.outputs))
        return ModelOutputs(logits, None if features is None else _to_array(features))

    def resize_and_crop(self, image: Bytes) -> Bytes:
        """Return the uint8 RGB image of the input size that the model sees of a photo."""
        return resize_and_crop(image, self.preprocessing)

    def prepare(self, image: Bytes) -> Floats:
        """Return the model's input for a photo: float32 (3, height, width) in [0, 1]."""
        return preprocess(image, self.preprocessing)

    def with_features(self, layer: str | None = None) -> TorchModel:
        """Return the same model with features of the penultimate layer, or of the submodule at this path."""
        import torch

        with torch.no_grad():
            images = probe_images(self.size)
            pixels = _to_pixels(self.module, images, self.preprocessing, channels_last=self.channels_last)
            if layer is None:
                tap = _penultimate_tap(self.module, pixels, self.name)
            else:
                tap = _layer_tap(self.module, layer, pixels, self.name)
        return replace(self, tap=tap)

    def on(self, device: str, *, precision: Precision | None = None) -> TorchModel:
        """Move the module to a device and return the model there, tried on two images.

        Args:
            device: auto, cpu, cuda, cuda:N or mps.
            precision: Precision to compute in (default: that of this model).

        Raises:
            InvalidInput: The device is not there, does not compute in this precision, or the model does not fit into
                its memory.
        """
        import torch

        chosen = choose_device(device)
        precision = check_precision(precision or self.precision, chosen)
        if chosen == _device_of(self.module).type and precision == self.precision:
            return self
        channels_last = self.channels_last and not chosen.startswith("mps")  # MPS has kernels without that layout
        if self.channels_last and not channels_last:
            self.module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        try:
            placed = replace(self, module=self.module.to(chosen), channels_last=channels_last, precision=precision)
            with explain_errors(self.name, self.size):
                logits = placed.answer(probe_images(self.size)).logits
        except Exception as error:
            if is_out_of_memory(error):
                raise out_of_memory(self.name, chosen, 2) from error
            raise
        if not np.isfinite(logits).all():
            raise InvalidInput(
                f"{self.name} returns nan or inf for a noise image in {precision} on {chosen}; "
                f"use --precision {'bfloat16 or ' if precision == 'float16' else ''}float32"
            )
        return placed


def wrap_module(
    module: nn.Module,
    *,
    name: str,
    preprocessing: Preprocessing,
    outputs: Outputs | None = None,
    class_names: tuple[str, ...] | None = None,
) -> TorchModel:
    """Wrap a module as a model.

    The module is put into eval mode and its weights are frozen, which makes gradients cheaper. It is tried on two
    images, and its convolutions get channels-last weights if its outputs stay the same.

    Args:
        module: Classifier of normalised images (N, 3, height, width).
        name: Observer name.
        preprocessing: How photos are prepared.
        outputs: What the module returns; needed if it returns probabilities.
        class_names: Names of the outputs.

    Returns:
        The model.

    Raises:
        InvalidInput: The module does not return logits for two images, or the number of names is wrong.

    >>> from torch import nn
    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 2))
    >>> model = wrap_module(module, name="mine:linear", preprocessing=Preprocessing((8, 8)), class_names=("cat", "dog"))
    >>> model.classes, module.training
    (2, False)
    """
    import torch

    module.eval().requires_grad_(False)
    images = probe_images(preprocessing.size)
    with torch.no_grad():
        with explain_errors(name, preprocessing.size):
            values = module(_to_pixels(module, images, preprocessing, channels_last=False))
        array = _to_array(values) if isinstance(values, torch.Tensor) else values
        outputs = check_outputs(array, outputs, name=name, images=len(images))
        digest = weights_digest(module)
        channels_last = _use_channels_last(module, images, preprocessing, values)
    classes = array.shape[1]
    names = check_class_names(class_names, classes, name=name)
    return TorchModel(name, module, preprocessing, classes, digest, names, outputs, channels_last=channels_last)


def _use_channels_last(module: nn.Module, images: Floats, preprocessing: Preprocessing, expected: Tensor) -> bool:
    """Change the weights to channels last if the outputs stay the same; modules that call `view` on pixels may fail."""
    import torch

    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        outputs = module(_to_pixels(module, images, preprocessing, channels_last=True))
        if torch.allclose(outputs, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())):
            return True
    except RuntimeError:
        pass
    module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return False


def _device_of(module: nn.Module) -> torch.device:
    """Return the device of the weights, or of the buffers where there are none; the CPU where there are neither."""
    import torch

    tensor = next(chain(module.parameters(), module.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def _to_array(tensor: Tensor) -> Floats:
    return tensor.float().cpu().contiguous().numpy()


def _to_logits(values: Tensor, outputs: Outputs) -> Tensor:
    """Return logits as float32 or better; probabilities become their logarithms."""
    import torch

    values = values.to(torch.promote_types(values.dtype, torch.float32))
    return values if outputs == "logits" else values.clamp_min(torch.finfo(values.dtype).tiny).log()


def _normalise(module: nn.Module, images: Tensor, preprocessing: Preprocessing) -> Tensor:
    device = _device_of(module)
    if device.type == "cuda" and images.device.type == "cpu" and not images.requires_grad:
        images = images.pin_memory().to(device, non_blocking=True)  # pinned, so the CPU need not wait for the copy
    pixels = images.to(device=device, dtype=next(module.parameters(), images).dtype)
    mean, std = (pixels.new_tensor(values).reshape(1, -1, 1, 1) for values in (preprocessing.mean, preprocessing.std))
    return (pixels - mean) / std


def _to_pixels(module: nn.Module, batch: Floats, preprocessing: Preprocessing, *, channels_last: bool) -> Tensor:
    """Return a batch as a normalised tensor in the memory layout of the module."""
    import torch

    images = torch.from_numpy(batch if batch.flags.writeable else batch.copy())
    if channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return _normalise(module, images, preprocessing)


# --- features


@dataclass(frozen=True, slots=True, eq=False)
class Tap:
    """Where features are taken: the output or input of the submodule at `path`, or timm's two methods (no path)."""

    side: Literal["output", "input", "timm"]
    path: str = ""
    _lock: Any = field(default_factory=Lock, repr=False)  # hooks of two threads must not mix

    def __call__(self, module: nn.Module, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the module's outputs for normalised images, and features (N, dimensions)."""
        if self.side == "timm":
            return _timm_forward(module, pixels)
        with self._lock, _record_calls({self.path: module.get_submodule(self.path)}) as calls:
            outputs = module(pixels)
        value = calls[-1].output if self.side == "output" else calls[-1].input
        return outputs, value.flatten(1)

    @property
    def facts(self) -> dict[str, Any]:
        """Side and layer, for run records."""
        return {"side": self.side, "layer": self.path or None}


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """The first input and the output of one call of a submodule."""

    path: str
    input: Any
    output: Any


@contextmanager
def _record_calls(parts: Mapping[str, nn.Module]) -> Iterator[list[_Call]]:
    """Record every call of these submodules, in order."""
    calls: list[_Call] = []

    def hook_for(path: str) -> Any:
        return lambda _, inputs, output: calls.append(_Call(path, inputs[0] if inputs else None, output))

    handles = [part.register_forward_hook(hook_for(path)) for path, part in parts.items()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _timm_forward(module: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    body = module.forward_features(pixels)
    features = module.forward_head(body, pre_logits=True)
    return module.forward_head(body), features.flatten(1)


def _layer_tap(module: nn.Module, path: str, pixels: Tensor, name: str) -> Tap:
    """Return the tap of the submodule at `path`, after trying it on `pixels`."""
    import torch

    parts = {part: submodule for part, submodule in module.named_modules() if part}
    if path not in parts:
        last = ", ".join(list(parts)[-_MOST_LAYERS:])
        hint = did_you_mean(path, parts, otherwise=f"its last layers are {last}")
        raise UnknownName(f"{name} has no layer {path!r}; {hint}")
    with _record_calls({path: parts[path]}) as calls:
        module(pixels)
    if not calls:
        raise InvalidInput(f"layer={path} of {name} does not run in its forward pass; name another layer")
    output = calls[-1].output
    if not isinstance(output, torch.Tensor) or output.shape[:1] != pixels.shape[:1]:
        got = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise InvalidInput(f"a layer must return one tensor with a row per image, layer={path} of {name} returns {got}")
    return Tap("output", path)


def _penultimate_tap(module: nn.Module, pixels: Tensor, name: str) -> Tap:
    """Return the tap of the layer before the logits, after trying it on `pixels`."""
    import torch

    if hasattr(module, "forward_features") and "pre_logits" in _parameters(getattr(module, "forward_head", None)):
        logits, features = _timm_forward(module, pixels)
        if torch.allclose(logits, module(pixels), rtol=1e-4, atol=1e-4) and len(features) == len(pixels):
            return Tap("timm")
    linear: dict[str, nn.Module] = {
        path: part for path, part in module.named_modules() if isinstance(part, torch.nn.Linear)
    }
    with _record_calls(linear) as calls:
        logits = module(pixels)
    same_shape = [call for call in calls if call.output.shape == logits.shape]
    exact = {call.path for call in same_shape if torch.equal(call.output, logits)}
    paths = exact or {call.path for call in same_shape}
    if len(paths) == 1:
        return Tap("input", paths.pop())
    heads = f"there are {', '.join(sorted(paths))}" if paths else "there is none"
    last = [path for path, _ in module.named_modules() if path][-_MOST_LAYERS:]
    raise InvalidInput(
        f"features are the input of the one nn.Linear that returns the logits, in {name} {heads}; "
        f"name a layer with layer=PATH{', for example ' + ' or '.join(last) if last else ''}"
    )


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    return {} if function is None else inspect.signature(function).parameters


# --- weights


def weights_digest(module: nn.Module) -> str:
    """Compute the SHA-256 of all weights of a module, sorted by name.

    Args:
        module: Module in torch.

    Returns:
        The digest in hexadecimal; the device and the file that the weights came from do not change it.

    >>> from torch import nn
    >>> module = nn.Linear(2, 3)
    >>> before = weights_digest(module)
    >>> _ = nn.init.zeros_(module.weight)
    >>> weights_digest(module) == before
    False
    """
    import torch

    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if not name.endswith(_UNUSED):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a checkpoint.

    A training script's `{"state_dict": ...}` (or "model") is unwrapped, and DataParallel's `module.` is removed from
    the names. Of the checkpoints of the `robustness` library (adversarially trained ImageNet models), which wrap the
    network in an attack, only the network is used.

    Args:
        path: A safetensors file, by its suffix, or any file that `torch.load(weights_only=True)` reads.

    Returns:
        Weights by name.

    Raises:
        InvalidInput: The file does not exist or has no weights.

    >>> from safetensors.torch import save_file
    >>> from torch import nn
    >>> save_file(nn.Linear(2, 3).state_dict(), "linear.safetensors")
    >>> sorted(read_weights(Path("linear.safetensors")))
    ['bias', 'weight']
    """
    check_file(path, "a checkpoint")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content: Any = load_file(path)
        else:
            import torch

            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling a file of any kind raises anything
        raise InvalidInput(
            f"{path} is not a checkpoint that can be read safely: {first_line(error)}; save it as safetensors"
        ) from error
    content = next((content[key] for key in _WRAPPERS if isinstance(content, dict) and key in content), content)
    is_mapping = isinstance(content, Mapping) and content
    if not is_mapping or not all(hasattr(value, "shape") for value in content.values()):
        raise InvalidInput(
            f"a checkpoint must have weights by name, {path} has {type(content).__name__}; save state_dict()"
        )
    parallel = all(name.startswith(_PARALLEL) for name in content)
    weights = {name.removeprefix(_PARALLEL) if parallel else name: value for name, value in content.items()}
    if any(name.startswith(_ATTACKER) for name in weights):
        return {name.removeprefix(_ATTACKED): value for name, value in weights.items() if name.startswith(_ATTACKED)}
    return weights


def load_weights(weights: Mapping[str, Tensor], module: nn.Module, *, model: str, path: Path) -> None:
    """Load weights into a module.

    Args:
        weights: Weights by name.
        module: Module to load them into.
        model: Name of the model, for messages.
        path: File of the weights, for messages.

    Raises:
        InvalidInput: Names or shapes differ; the message lists them.

    >>> from torch import nn
    >>> trained, fresh = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> load_weights(trained.state_dict(), fresh, model="mine:linear", path=Path("linear.safetensors"))
    >>> weights_digest(fresh) == weights_digest(trained)
    True
    """
    expected = {name: value for name, value in module.state_dict().items() if not name.endswith(_UNUSED)}
    loaded = {name: value for name, value in weights.items() if not name.endswith(_UNUSED)}
    problems = {
        "missing": [name for name in expected if name not in loaded],
        "unexpected": [name for name in loaded if name not in expected],
        "of another shape": [
            f"{name} {tuple(loaded[name].shape)} for {tuple(expected[name].shape)}"
            for name in expected
            if name in loaded and loaded[name].shape != expected[name].shape
        ],
    }
    if any(problems.values()):
        texts = [
            f"{len(names)} {kind} ({', '.join(names[:_MOST_KEYS])}{', ...' if len(names) > _MOST_KEYS else ''})"
            for kind, names in problems.items()
            if names
        ]
        raise InvalidInput(
            f"the weights in {path} do not fit {model}: {'; '.join(texts)}; name the architecture they come from"
        )
    module.load_state_dict(loaded, strict=False)  # strict except for batch norm's counters, as checked above


@contextmanager
def explain_download_errors(
    what: str, hint: str = "connect, or add checkpoint=FILE", *, url: str | None = None
) -> Iterator[None]:
    """Turn whatever a library raises while it downloads `what` into an error of one line.

    `url` is what the library would fetch, None where it need not; its server must accept a connection first, because
    hub clients retry for a minute.
    """
    problem = url and _why_unreachable(url)
    if problem:
        raise InvalidInput(f"cannot download {what}: {problem}; {hint}")
    try:
        yield
    except Exception as error:  # hub clients and the layers below them raise anything
        raise InvalidInput(f"cannot download {what}: {first_line(error)}; {hint}") from error


def hub_url(repository: str) -> str | None:
    """Return the address of the Hugging Face hub; None where a repository is cached or the hub is switched off."""
    from huggingface_hub import constants

    snapshots = Path(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}", "snapshots")
    is_cached = snapshots.is_dir() and any(snapshots.iterdir())
    return None if constants.HF_HUB_OFFLINE or is_cached else constants.ENDPOINT


def _why_unreachable(url: str) -> str | None:
    """Return why no connection to the server of a URL, or to the proxy in front of it, can be made; None if one can."""
    parts = urlsplit(url)
    if not proxy_bypass(parts.netloc):
        proxy = getproxies().get(parts.scheme)
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else parts
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    problem = [f"{host} does not answer"]

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
            problem.clear()
        except OSError as error:
            problem[:] = [f"no connection to {host} ({error.strerror or first_line(error)})"]

    thread = Thread(target=connect, daemon=True)  # a name server that does not answer has no timeout of ours
    thread.start()
    thread.join(_CONNECT_SECONDS)
    return problem[0] if problem else None
