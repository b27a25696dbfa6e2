"""Where models in torch run (`--device`) and in which numbers they compute (`--precision`).

Half precision is torch's autocast: weights stay float32, matrix products and convolutions run in bfloat16 or float16,
and operations that need the range (softmax, normalisation) stay float32. Weights that are cast would need no copy, but
change their digest and fail in modules that make float32 tensors themselves.

Importing this module does not import torch; spelling is checked without it.
"""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, get_args

from cosight.errors import InvalidInput, first_line

__all__ = [
    "Precision",
    "autocast",
    "check_device_name",
    "check_placement",
    "check_precision",
    "choose_device",
    "is_out_of_memory",
    "out_of_memory",
    "release_memory",
]

Precision = Literal["float32", "bfloat16", "float16"]

# Names in torch.cpu.get_capabilities of the instructions that multiply such numbers: Intel, AMD and ARM.
_INSTRUCTIONS = {
    "bfloat16": ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"),
    "float16": ("avx512_fp16", "amx_fp16", "fp16_arith"),
}
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?|mps", re.ASCII)
# Only CUDA has an exception of its own. These are parts of the messages of MPS, of torch on the CPU, of the libraries
# below CUDA and of onnxruntime.
_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "_ALLOC_FAILED", "Failed to allocate memory")


def check_device_name(device: str) -> str:
    """Return the name of a device if it is one, whether or not this machine has it; raise otherwise."""
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        raise InvalidInput(f"--device must be auto, cpu, cuda, cuda:N or mps, got {device!r}")
    return device


def choose_device(device: str) -> str:
    """Return the torch device that `device` names.

    Args:
        device: cpu, cuda, cuda:N, mps, or auto: CUDA if there is a card, else MPS if there is one, else the CPU.

    Returns:
        The name for torch.

    Raises:
        InvalidInput: There is no such device, or this torch cannot use it.

    >>> choose_device("cpu")
    'cpu'
    """
    check_device_name(device)
    if device == "cpu":
        return device
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if device == "mps":
        if not torch.backends.mps.is_available():
            reason = "this machine or its system has none" if torch.backends.mps.is_built() else _built_without("MPS")
            raise InvalidInput(f"--device mps is not available: {reason}; use --device cpu")
        return device
    if not torch.cuda.is_available():
        has_cuda = torch.version.cuda or torch.version.hip
        reason = "torch finds no card or driver" if has_cuda else _built_without("CUDA")
        raise InvalidInput(f"--device {device} is not available: {reason}; use --device cpu")
    count = torch.cuda.device_count()
    number = int(device.partition(":")[2] or 0)
    if number >= count:
        raise InvalidInput(
            f"--device {device} is not available: torch finds {count} "
            f"card{'s, cuda:0 to' if count > 1 else ','} cuda:{count - 1}"
        )
    return device


def _built_without(library: str) -> str:
    import torch

    return f"torch {torch.__version__} was built without {library}"


def check_precision(precision: str, device: str) -> Precision:
    """Return the precision if torch computes in it on a device.

    Args:
        precision: float32, bfloat16 or float16.
        device: A device that `choose_device` returned. One convolution and one matrix product are tried on it.

    Raises:
        InvalidInput: There is no such precision, or the device does not compute in it.
    """
    if precision not in get_args(Precision):
        raise InvalidInput(f"--precision must be {', '.join(get_args(Precision)[:-1])} or float16, got {precision!r}")
    if precision == "float32":
        return "float32"
    import torch

    kind = torch.device(device).type
    try:
        with warnings.catch_warnings(action="ignore"), torch.inference_mode(), autocast(device, precision):  # type: ignore[arg-type]
            image = torch.ones(1, 3, 8, 8, device=device)
            maps = torch.nn.functional.conv2d(image, torch.ones(4, 3, 3, 3, device=device))
            product = maps.flatten(1) @ torch.ones(144, 2, device=device)
            is_used = product.dtype == getattr(torch, precision) and bool(product.isfinite().all())
        reason = "" if is_used else f"torch {torch.__version__} computes in another precision there"
    except (RuntimeError, TypeError) as error:
        reason = first_line(error)
    if reason:
        raise InvalidInput(f"--precision {precision} does not work on {kind}: {reason}; use float32")
    return precision  # type: ignore[return-value]


def check_placement(device: str, precision: Precision) -> None:
    """Raise if models should not be started on a device in a precision; torch is imported if needed.

    Args:
        device: auto, cpu, cuda, cuda:N or mps.
        precision: float32, bfloat16 or float16.

    Raises:
        InvalidInput: There is no such device, it does not compute in this precision, or it is a CPU without
            instructions for it, which would need many times as long as in float32.
    """
    if device in ("auto", "cpu") and precision == "float32":
        return
    chosen = choose_device(device)
    check_precision(precision, chosen)
    import torch

    if chosen != "cpu" or not hasattr(torch.cpu, "get_capabilities"):  # older versions of torch do not tell
        return
    capabilities = torch.cpu.get_capabilities()
    if not any(capabilities.get(name, False) for name in _INSTRUCTIONS[precision]):
        raise InvalidInput(
            f"--precision {precision} is slower than float32 on this CPU, which has no instructions for it; "
            "use float32, or a GPU"
        )


def autocast(device: str, precision: Precision) -> AbstractContextManager[Any]:
    """Return the context in which a module on a device computes in a precision."""
    if precision == "float32":
        return nullcontext()
    import torch

    return torch.autocast(torch.device(device).type, dtype=getattr(torch, precision))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of torch, onnxruntime or Python says that memory ran out.

    >>> is_out_of_memory(RuntimeError("MPS backend out of memory")), is_out_of_memory(RuntimeError("shape mismatch"))
    (True, False)
    """
    torch = sys.modules.get("torch")  # without it there is no error of torch
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)):
        return True
    return not isinstance(error, InvalidInput) and any(text in str(error) for text in _MEMORY_MESSAGES)


def out_of_memory(name: str, device: str | None, images: int) -> InvalidInput:
    """Return the error about a model that does not fit into memory."""
    count = "one image" if images == 1 else f"{images} images"
    where = f"the memory of {device}" if device else "memory"
    return InvalidInput(
        f"{name} does not fit into {where} with {count} at a time; use a smaller model, --precision bfloat16 or "
        "another --device"
    )


def release_memory() -> None:
    """Give memory that torch keeps for later back to the device, so that a smaller batch can use it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
