"""A process with everything imported, which forks children that train: killing them costs no second import.

Run as a script: one JSON job a line in (recipe, out, dies_in, copies); the children's pids and then their exit codes
out, each as one line of JSON. It never uses polars itself, whose threads would not survive a fork.
"""

import json
import os
import signal
import sys
from pathlib import Path

import safetensors.torch
import torch

from cosight.torchvision_ops import import_torchvision

import_torchvision()

import timm  # noqa: E402, F401

from cosight.training import Recipe, train  # noqa: E402


def die_in_write(number, real=safetensors.torch.save_file):
    """Let the process be killed when it has written half of its `number`th file."""
    calls = []

    def half(tensors, path, metadata):
        real(tensors, path, metadata)
        calls.append(path)
        if len(calls) == number:
            data = Path(path).read_bytes()
            Path(path).write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

    safetensors.torch.save_file = half


def child(job, rank):
    if job["dies_in"]:
        die_in_write(job["dies_in"])
    os.environ.update({**job["variables"], "RANK": str(rank)})
    train(Recipe(**job["recipe"]), out=job["out"])


def forked(job, rank):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        child(job, rank)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in sys.stdin:
        job = json.loads(line)
        pids = [forked(job, rank) for rank in range(job["copies"])]
        print(json.dumps(pids), flush=True)  # noqa: T201
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(json.dumps(codes), flush=True)  # noqa: T201
