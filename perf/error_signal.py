"""What an alignment loss changes, for docs/explanation/error-signal.md.

`python perf/error_signal.py OUT [--cifar FOLDER]`.

With --cifar (the folder of `cosight data get cifar-10h`) the target observer are people: of 10,000 images with their
answers, 6,000 train networks from scratch and 4,000 test them. Without it, the images are scikit-learn's digits (300
train, 1,497 test), and the target is a simulated person who takes 30 % of each digit for the next one. OUT gets the
sets and the networks; a second call resumes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from scipy import stats

from cosight import build, train
from cosight.arrays import FloatArray, IntArray
from cosight.models import load_model
from cosight.stimuli.images import digest, encode
from cosight.stimuli.sets import StimulusSet, read_set
from cosight.training import Recipe
from cosight.training.alignment import soft_class_level_error_similarity, soft_misclassification_agreement
from cosight.trials.manifest import manifest_frame, read_manifest, write_manifest
from cosight.trials.spaces import label_spaces

ARMS: Mapping[str, Mapping[str, Any]] = {
    "cross-entropy": {},
    "+ CLES, weight 1": {"alignment": "cles", "alignment_weight": 1.0},
    "+ MA, weight 1": {"alignment": "ma", "alignment_weight": 1.0},
    "cross-entropy with people's distributions": {"targets": "gold"},
    "+ CLES, weight 10": {"alignment": "cles", "alignment_weight": 10.0},
    "+ MA, weight 10": {"alignment": "ma", "alignment_weight": 10.0},
}
MEASURES = ("accuracy", "CLES", "MA")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "cifar-10": {"architecture": "densenet-small", "rate": 3e-3, "batch": 128, "epochs": 10, "clip": 5.0},
    "digits": {"architecture": "mixer-small", "rate": 3e-3, "batch": 64, "epochs": 40, "clip": 5.0, "flip": False},
}
CIFAR_TRAINED, DIGITS_TRAINED = 6000, 300
CONFUSED = 0.3  # of a digit's images, by the simulated person


def cifar_set(source: Path, root: Path) -> StimulusSet:
    """Build CIFAR-10H and mark the first images for training."""
    if not root.exists():
        build("cifar-10h", source, root)
        frame, facts = read_manifest(root)
        is_trained = pl.col("image").str.slice(0, 5).cast(pl.Int64) < CIFAR_TRAINED
        frame = frame.with_columns(split=pl.when(is_trained).then(pl.lit("train")).otherwise(pl.lit("test")))
        write_manifest(root, frame, facts)
    return read_set(root)


def digits_set(root: Path) -> StimulusSet:
    """Write handwritten digits, 32 x 32, with the simulated person's answers as gold labels (counts of 10)."""
    from sklearn.datasets import load_digits

    if not root.exists():
        (root / "images").mkdir(parents=True)
        digits, rows = load_digits(), []
        for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
            pixels = np.kron((image * (255 / 16)).astype(np.uint8), np.ones((4, 4), np.uint8))
            file = f"images/{number:04}.png"
            (root / file).write_bytes(encode(pixels, "png"))
            counts = np.zeros(10, dtype=int)
            counts[[label, (label + 1) % 10]] = 10 - round(10 * CONFUSED), round(10 * CONFUSED)
            split = "train" if number < DIGITS_TRAINED else "test"
            row = {"stimulus": digest(pixels), "file": file, "image": f"{number:04}.png", "split": split}
            rows.append({**row, "truth": str(label), "gold_counts": counts.tolist()})
        write_manifest(root, manifest_frame(rows), {"labels": "digits"})
    return read_set(root)


def against_people(answers: FloatArray, people: FloatArray, truth: IntArray) -> list[float]:
    """Compute accuracy, CLES and MA of single answers (one-hot) with a person drawn from people's distributions."""
    tensors = (torch.from_numpy(answers), torch.from_numpy(people), torch.from_numpy(truth))
    accuracy = float(answers[np.arange(len(truth)), truth].mean())
    similarity, agreement = soft_class_level_error_similarity(*tensors), soft_misclassification_agreement(*tensors)
    return [accuracy, float(similarity), float(agreement)]


def interval(values: FloatArray) -> tuple[float, float]:
    """Return the mean over seeds and half the width of its 95 % interval (Student's t)."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(half)


def main() -> None:
    """Train the networks of all arms and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cifar", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    space = "digits" if arguments.cifar is None else "cifar-10"
    root = arguments.out / "set"
    stimuli = digits_set(root) if arguments.cifar is None else cifar_set(arguments.cifar, root)
    test = stimuli.frame.filter(pl.col("split") == "test")
    classes = label_spaces[space].classes
    truth = np.array([classes.index(name) for name in test["truth"]])
    people = np.array(test["gold_counts"].to_list(), dtype=np.float64)
    people /= people.sum(axis=1, keepdims=True)
    images = [stimuli.pixels(file) for file in test["file"]]
    base = Recipe(data=str(root), stop=SETTINGS[space]["epochs"], **SETTINGS[space])
    results: dict[str, FloatArray] = {}
    for number, (name, changes) in enumerate(ARMS.items()):
        rows = []
        for network in train(
            replace(base, **changes), out=arguments.out / f"arm{number}", device="cpu", progress=False
        ):
            model = load_model(network.line)
            parts = [images[start : start + 200] for start in range(0, len(images), 200)]
            logits = np.concatenate([model.answer(np.stack([*map(model.prepare, part)])).logits for part in parts])
            rows.append(against_people(np.eye(len(classes))[logits.argmax(axis=1)], people, truth))
            print(name, network.seed, *(f"{value:.4f}" for value in rows[-1]), flush=True)
        results[name] = np.array(rows)
    print("\n| training |", " | ".join(MEASURES), "|", " | ".join(f"change of {name}" for name in MEASURES), "|")
    for name, values in results.items():
        own = [interval(column) for column in values.T]
        paired = [interval(column) for column in (values - results["cross-entropy"]).T]
        cells = [f"{mean:.3f} ± {half:.3f}" for mean, half in own]
        cells += [f"{mean:+.3f} ± {half:.3f}" if ARMS[name] else "" for mean, half in paired]
        print("|", name, "|", " | ".join(cells), "|")
    rng = np.random.default_rng(0)
    drawn = np.array([rng.choice(len(classes), p=row) for row in people])
    person = against_people(np.eye(len(classes))[drawn], people, truth)
    print("| one answer per image drawn from people's |", " | ".join(f"{value:.3f}" for value in person), "| | | |")


if __name__ == "__main__":
    main()
