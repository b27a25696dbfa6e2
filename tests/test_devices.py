"""Devices and precisions. No GPU is needed: what torch says of one is replaced, what the CPU computes is real."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from cosight.devices import (
    autocast,
    check_device_name,
    check_placement,
    check_precision,
    choose_device,
    is_out_of_memory,
    release_memory,
)
from cosight.errors import InvalidInput


@pytest.fixture
def machine(monkeypatch):
    """`machine(cards=2, mps=False)`: what torch says of this machine."""

    def has(*, cards=0, mps=False, capabilities=()):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cards > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(capabilities, True))

    return has


@pytest.mark.parametrize(
    ("cards", "mps", "expected"), [(0, False, "cpu"), (0, True, "mps"), (1, False, "cuda"), (2, True, "cuda")]
)
def test_auto_is_a_gpu_if_there_is_one(machine, cards, mps, expected):
    machine(cards=cards, mps=mps)
    assert choose_device("auto") == expected
    assert choose_device("cpu") == "cpu"


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1"])
def test_cards_that_are_there(machine, device):
    machine(cards=2)
    assert choose_device(device) == device


def test_devices_that_are_not_there(machine, monkeypatch):
    machine()
    with pytest.raises(InvalidInput, match=r"--device cuda is not available: torch .* was built without CUDA; use --"):
        choose_device("cuda")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    with pytest.raises(InvalidInput, match="--device cuda:0 is not available: torch finds no card or driver; use --d"):
        choose_device("cuda:0")
    with pytest.raises(InvalidInput, match=r"--device mps is not available: torch .* was built without MPS; use --"):
        choose_device("mps")
    machine(cards=2)
    with pytest.raises(InvalidInput, match=r"--device cuda:2 is not available: torch finds 2 cards, cuda:0 to cuda:1$"):
        choose_device("cuda:2")
    machine(cards=1)
    with pytest.raises(InvalidInput, match=r"torch finds 1 card, cuda:0$"):
        choose_device("cuda:7")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "", "mps:0", "meta", None, 0])
def test_words_that_are_no_device(device):
    with pytest.raises(InvalidInput, match="--device must be auto, cpu, cuda, cuda:N or mps, got"):
        check_device_name(device)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_the_cpu_computes_in_every_precision(precision):
    assert check_precision(precision, "cpu") == precision
    with autocast("cpu", precision):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == getattr(torch, precision)


def test_a_device_that_computes_in_another_precision_is_refused(monkeypatch):
    monkeypatch.setattr("cosight.devices.autocast", lambda device, precision: torch.inference_mode())
    with pytest.raises(InvalidInput, match=r"--precision bfloat16 does not work on cpu: torch .* another precision"):
        check_precision("bfloat16", "cpu")

    def refuse(device, precision):
        raise RuntimeError("BFloat16 is not supported\non this system")

    monkeypatch.setattr("cosight.devices.autocast", refuse)
    with pytest.raises(InvalidInput, match="does not work on cpu: BFloat16 is not supported; use float32"):
        check_precision("bfloat16", "cpu")


@pytest.mark.parametrize(
    ("precision", "instruction"),
    [("bfloat16", name) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")]
    + [("float16", name) for name in ("avx512_fp16", "amx_fp16", "fp16_arith")],
)
def test_a_cpu_needs_instructions_for_half_precision(machine, precision, instruction):
    machine(capabilities=[instruction])
    check_placement("auto", precision)
    machine(capabilities=["avx2"])
    with pytest.raises(InvalidInput, match=f"--precision {precision} is slower than float32 on this CPU"):
        check_placement("cpu", precision)
    check_placement("cpu", "float32")


def test_float32_on_the_cpu_is_checked_without_torch():
    code = "import sys; from cosight.devices import check_placement as c; c('auto', 'float32'); c('cpu', 'float32'); "
    done = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules)"], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:119] . DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_errors_about_memory(error):
    assert is_out_of_memory(error)
    release_memory()


def test_a_real_tensor_that_does_not_fit():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize("error", [ValueError("out of range"), InvalidInput("x ran out of memory"), RuntimeError("no")])
def test_other_errors(error):
    assert not is_out_of_memory(error)
