"""How long a report takes to write, and its first page to open: many observers, many stimuli with images.

The scores are computed before, since a report only shows them. The goals are for an idle machine with two cores.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image as Pillow

from cosight import compare
from cosight.reports.site.answers import read_answers
from cosight.reports.site.method import method_facts
from cosight.reports.site.parts import ReportPart
from cosight.reports.site.report import write_site
from cosight.trials.manifest import manifest_frame, write_manifest
from cosight.trials.spaces import label_space
from cosight.trials.table import Trials, make_trials
from perf.lines import Line
from tests.browser.visits import browsing, missing

__all__ = ["FULL", "Size", "lines", "study"]

_SECONDS, _FIRST_PAGE, _MEGABYTES = 60, 2, 150  # goals
_PEOPLE = 10
_SIDE = 224  # pixels
_PICTURES = 100  # different image files; all stimuli have one of their own


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of work."""

    observers: int
    stimuli: int
    resamples: int


FULL = Size(60, 10_000, 100)


def lines(size: Size) -> Iterator[Line]:
    """Time the writing of a report and the opening of its first page; yield nothing where pages are not built."""
    if missing():
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trials = study(size, root / "set")
        scores = compare(trials, resamples=size.resamples, progress=False)
        started = time.perf_counter()
        answers = read_answers([trials, root / "set"], labels=None, role=("test",), gamma=0.5)
        parts = [ReportPart("compare", "Answers and errors", "", scores, 0)]
        method = method_facts(parts, [root / "set"], command="", passed={}, defaulted={})
        made = write_site(root / "site", parts, answers, title="perf", method=method)
        seconds = time.perf_counter() - started
        what = f"report of {size.observers} observers x {size.stimuli:,} stimuli with images"
        yield Line(f"{what}, without scoring", "the goal on a quiet machine", seconds, _SECONDS, None, faster=False)
        yield Line(f"{what}: size", "the goal", made.size / 1e6, _MEGABYTES, 1.0, faster=False, unit="MB")
        opening = _open_first_page(made.page)
        yield Line(f"{what}: first page", "the goal on a quiet machine", opening, _FIRST_PAGE, None, faster=False)


def study(size: Size, root: Path) -> Trials:
    """Write a stimulus set, and return answers of some people and of models with probabilities."""
    rng, space = np.random.default_rng(0), label_space("model-vs-human-16")
    classes, count = len(space.classes), size.stimuli
    (root / "images").mkdir(parents=True)
    ramp = np.linspace(0, 255, _SIDE)
    pictures = []
    for number in range(min(_PICTURES, count)):
        turned = np.add.outer(np.roll(ramp, 7 * number), ramp)[..., None] * rng.random(3)
        Pillow.fromarray((turned / 2).astype(np.uint8)).save(root / "made.jpg", quality=90)
        pictures.append((root / "made.jpg").read_bytes())
    truth, hard = rng.integers(0, classes, count), rng.random(count)
    about = pl.DataFrame({
        "experiment": ["perf"] * count, "condition": [f"c{i % 6}" for i in range(count)],
        "level": [i // 6 % 5 for i in range(count)], "image": [f"{i:05d}.jpg" for i in range(count)],
        "truth": [space.classes[code] for code in truth],
    })  # fmt: skip
    for index, name in enumerate(about["image"]):
        (root / "images" / name).write_bytes(pictures[index % len(pictures)])
    manifest = manifest_frame(about.with_columns(file=pl.lit("images/") + pl.col("image")).iter_rows(named=True))
    write_manifest(root, manifest, {})
    frames = []
    for number in range(size.observers):
        kind = "human" if number < _PEOPLE else "model"
        right = rng.random(count) > hard * (0.3 + 0.5 * number / size.observers)
        codes = np.where(right, truth, rng.integers(0, classes, count))
        shares = np.full((count, classes), 0.1 / classes, dtype=np.float32)
        shares[np.arange(count), codes] += 0.6
        shares[np.arange(count), rng.integers(0, classes, count)] += 0.3
        frames.append(about.with_columns(
            observer=pl.lit(f"{kind}:{number:02d}"), kind=pl.lit(kind),
            response=pl.Series([space.classes[code] for code in codes]),
            probabilities=pl.Series(shares if kind == "model" else [None] * count, dtype=pl.List(pl.Float32)),
        ))  # fmt: skip
    return make_trials(pl.concat(frames), source="perf", space=space)


def _open_first_page(page: Path) -> float:
    """Return the seconds until the first page of a report has its leaderboard and sorts it."""
    with browsing() as browser:
        context = browser.new_context()
        tab = context.new_page()
        started = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready] tbody tr")
        tab.click("thead button")
        tab.wait_for_selector("th[aria-sort]")
        seconds = time.perf_counter() - started
        context.close()
    return seconds
