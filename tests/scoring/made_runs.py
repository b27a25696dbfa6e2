"""Run folders made up for the tests of scoring against gold labels: run.json, stimuli.parquet and trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosight.trials import LabelSpace, label_spaces, write
from cosight.trials.manifest import manifest_frame, write_manifest
from tests.scoring.made import REFUSING, trials

VISALIGN = label_spaces["visalign-11"]
GROUPS = {**dict.fromkeys((1, 2, 3), "must-act"), **dict.fromkeys((4, 5, 6, 7), "must-abstain"), 8: "uncertain"}

Answer = tuple[Sequence[float] | None, float | None]  # probabilities and abstention; None refuses outright


def shares(space: LabelSpace, **given: float) -> list[float]:
    """Gold shares by the name of the answer."""
    return [given.get(answer, 0.0) for answer in space.answers]


def stimulus(category: int, number: int, space: LabelSpace = REFUSING, **more: Any) -> dict[str, Any]:
    """One image of a category, its gold label as the builder writes it; an Uncertain one is seen by two thirds."""
    group, original = GROUPS[category], space.classes[number % len(space.classes)]
    truth = "abstain" if group == "must-abstain" else original
    sure = {"abstain": 1.0} if group == "must-abstain" else {original: 1.0}
    gold = shares(space, **(sure if category != 8 else {original: 2 / 3, "abstain": 1 / 3}))
    return {
        "stimulus": f"{category:02d}{number:062d}",
        "file": f"images/test/category-{category}/{number:04d}.png",
        "image": f"test-category-{category}-{number:04d}",
        "experiment": "made",
        "truth": truth,
        "original": original,
        "category": category,
        "group": group,
        "split": "test",
        "gold": gold,
        **more,
    }


def stimuli(counts: Mapping[int, int], space: LabelSpace = REFUSING) -> list[dict[str, Any]]:
    """So many images of each category."""
    return [stimulus(category, number, space) for category, count in counts.items() for number in range(count)]


def answers(
    rows: Sequence[dict[str, Any]],
    observer: str,
    answer: Callable[[dict[str, Any]], Answer],
    space: LabelSpace = REFUSING,
) -> list[dict[str, Any]]:
    """Trials of a model that answers each stimulus by a function of its manifest row."""
    out = []
    for row in rows:
        p, a = answer(row)
        said = "abstain" if p is None else space.classes[int(np.argmax(p))]
        kept = {name: row[name] for name in ("stimulus", "image", "experiment", "truth")}
        told = {"response": said, "probabilities": None if p is None else list(p), "abstention": a}
        out.append({"observer": observer, "kind": "model", **kept, **told})
    return out


def random_answers(seed: int, space: LabelSpace = REFUSING) -> Callable[[dict[str, Any]], Answer]:
    """A model that knows little: more of the original than of other classes, any abstention."""
    rng = np.random.default_rng(seed)

    def answer(row: dict[str, Any]) -> Answer:
        weight = 1.0 + 2.0 * np.array([name == row["original"] for name in space.classes])
        return rng.dirichlet(weight).astype(np.float32).tolist(), float(rng.random())

    return answer


def write_set(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A stimulus set's manifest; scoring needs no images."""
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, manifest_frame(rows), {"settings": {}})
    return folder


def write_run(
    folder: Path, rows: Sequence[dict[str, Any]], said: Sequence[dict[str, Any]], space: LabelSpace = REFUSING
) -> Path:
    """A run folder with these stimuli and trials."""
    write_set(folder, rows)
    (folder / "run.json").write_text("{}", encoding="utf-8")
    write(trials(said, space), folder / "trials" / "models.parquet")
    return folder
