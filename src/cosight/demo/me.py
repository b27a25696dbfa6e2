"""`cosight demo --me`: the person at the keyboard labels digits, and sees how far each network is from them."""

from __future__ import annotations

import shutil
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep

import numpy as np
import polars as pl

from cosight.benchmarks.visalign.results_table import AVERAGE, HELLINGER
from cosight.demo.pipeline import STIMULI, demo
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import study_trials
from cosight.humans.results.records import study_records
from cosight.humans.study.design import STUDY, Study, read_study
from cosight.humans.study.pool import load_pool
from cosight.humans.study.texts import TEXTS, new_texts
from cosight.humans.web.server import serve_in_background
from cosight.reports.grids import made_how, score_grid
from cosight.reports.page import Page, PageTable, Section, write_page
from cosight.scoring.score import score
from cosight.statistics.rows import Scores, read_rows
from cosight.statistics.seeds import observer_name
from cosight.stimuli.sets import read_set
from cosight.trials import Trials, read, write
from cosight.trials.manifest import write_manifest
from cosight.trials.table import select_roles

__all__ = ["AGREEMENT", "MeResult", "me"]

Progress = Callable[[int, int, str], None]
AGREEMENT = "response_agreement"  # share of the images to which the network gives the person's answer
_UNCERTAIN, _OTHERS = 25, 10  # Uncertain images, and others: 35 in all, as in VisAlign's survey
_LOOK = 0.5  # seconds between two looks at how far the person is
_STUDY = """# The digits that whoever sits at the keyboard is asked about, by `cosight demo --me`.
name = "me"
type = "classify"
set = "digits"
labels = "digits-11"
seed = {seed}

[design]
images = {images}
answers = 1000 # whoever comes next may answer too

[participants]
consent = false # nobody but oneself looks at the answers
"""


@dataclass(frozen=True, slots=True)
class MeResult:
    """How far each network is from one person, and where that is written."""

    scores: Scores  # hellinger and agreement, a row each for every architecture
    trials: Path
    page: Path


def me(
    folder: str | Path,
    *,
    seed: int = 0,
    port: int = 0,
    open_browser: bool = True,
    progress: Progress | None = None,
    announce: Callable[[str], None] = lambda address: None,
) -> MeResult:
    """Ask the person at the keyboard about digits of the demo in `folder`, and hold the networks against them.

    A demo that is not there or not finished is run first. The digits are shown in a browser, at an address of this
    machine that `announce` is told. It ends when somebody has answered them all; Ctrl-C ends it before, without a
    result. `seed` is that of the demo; whoever comes later is asked about the digits that were drawn first.
    """
    folder = Path(folder)
    if not (folder / "benchmark.json").is_file():
        demo(folder, seed=seed, progress=progress)
    study = _study(folder, seed=seed)
    with serve_in_background(study.root, port=port) as address:
        announce(address)
        if open_browser:
            webbrowser.open(address)
        given = _waited_for(study, progress)
    write(given, study.root / "trials.parquet")
    scores = _scores(folder, select_roles(given), seed=seed)
    with atomic_write(study.root / "scores.json") as draft:
        draft.write_text(scores.to_json(), encoding="utf-8")
    page = write_page(_page(scores, given), study.root)
    return MeResult(scores, study.root / "trials.parquet", page)


def _study(folder: Path, *, seed: int) -> Study:
    """The study in FOLDER/me, written where there is none; who comes later is asked about the same digits."""
    root = folder / "me"
    if not (root / STUDY).is_file():
        images = _write_set(folder / STIMULI, root / "digits", seed)
        for name, text in (
            (TEXTS, new_texts("classify", abstain=True)),
            (STUDY, _STUDY.format(images=images, seed=seed)),
        ):
            with atomic_write(root / name) as draft:
                draft.write_text(text, encoding="utf-8")
    return read_study(root)


def _write_set(source: Path, out: Path, seed: int) -> int:
    """A set of the digits that are asked about; how many they are."""
    stimuli = read_set(source)
    chosen = _chosen(stimuli.frame.filter(pl.col("split") == "test"), np.random.default_rng(seed))
    (out / "images").mkdir(parents=True, exist_ok=True)
    names = {file: f"images/{stimulus}.png" for file, stimulus in chosen.select("file", "stimulus").iter_rows()}
    for file, name in names.items():
        shutil.copyfile(stimuli.path(file), out / name)
    frame = chosen.with_columns(pl.col("file").replace_strict(names, return_dtype=pl.String))
    write_manifest(out, frame, stimuli.facts)
    return chosen.height


def _chosen(tested: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Digits nobody is sure about, and some of every other category in turn; fewer where there are fewer."""
    mixed = tested[rng.permutation(tested.height)]
    uncertain = mixed.filter(pl.col("group") == "uncertain").head(_UNCERTAIN)
    turn = pl.int_range(pl.len()).over("category")
    others = mixed.filter(pl.col("group") != "uncertain").sort(turn, "category").head(_OTHERS)
    return pl.concat([uncertain, others])


def _waited_for(study: Study, progress: Progress | None) -> Trials:
    """The trials of the first who finishes from now on."""
    pool = load_pool(study)
    with closing(Store.open(study)) as store:
        before = _finished(study_trials(study, pool, store))
        while True:
            trials = study_trials(study, pool, store)
            for name in sorted(_finished(trials) - before):
                return trials.only(name)
            if progress:
                progress(_furthest(trials, before), len(pool.items), "digits named")
            sleep(_LOOK)


def _finished(trials: Trials) -> set[str]:
    return set(study_records(trials).filter("finished")["participant"])


def _furthest(trials: Trials, before: set[str]) -> int:
    """How many answers the one who is at it has given; of several, who has given most."""
    at_it = trials.frame.filter(~pl.col("observer").is_in(list(before)))
    return max(at_it["observer"].value_counts()["count"], default=0)


def _scores(folder: Path, given: Trials, *, seed: int) -> Scores:
    """Distance and agreement of each architecture, with the abstention function that was nearest to the gold labels.

    The functions were chosen before this person was asked: choosing them by their answers would flatter the networks.
    """
    lines = _best_lines(folder / "benchmark.json")
    networks = read(*sorted((folder / "runs").iterdir()))
    chosen = [name for name in networks.frame["observer"].unique() if observer_name(name).line in lines]
    networks = replace(networks, frame=networks.frame.filter(pl.col("observer").is_in(chosen)))
    scores = score(networks, given, measure=[HELLINGER, AGREEMENT], seed=seed)
    names = {line if len(_seeds(chosen, line)) > 1 else _seeds(chosen, line)[0]: line for line in lines}
    rows = [
        replace(row, observer=names[row.observer])
        for row in scores.rows
        if row.observer in names and row.statistic == "value"
    ]
    distance = {row.observer: row.value or 0.0 for row in rows if row.measure == HELLINGER}
    return replace(scores, rows=tuple(sorted(rows, key=lambda row: distance[row.observer])))


def _seeds(observers: Sequence[str], line: str) -> list[str]:
    """The observers that differ from a line of the table only in their seed."""
    return [name for name in observers if observer_name(name).line == line]


def _best_lines(benchmark: Path) -> list[str]:
    """Of each architecture, all seeds taken together, the line with the least mean distance to the gold labels."""
    best: dict[str, tuple[float, str]] = {}
    try:
        rows = read_rows(benchmark.read_text(encoding="utf-8"))
    except InvalidInput as error:
        raise InvalidInput(f"cannot read {benchmark}: {error}; delete it and run the demo again") from error
    averages = [row for row in rows if (row.measure, row.statistic, row.group) == (HELLINGER, "value", AVERAGE)]
    lines = {row.observer for row in averages if observer_name(row.observer).seed is None}
    for row in averages:
        name = observer_name(row.observer)
        alone = name.seed is None or name.line not in lines  # a demo with one seed has no means over seeds
        if alone and name.members == 1 and row.value is not None:
            best[name.model] = min(best.get(name.model, (np.inf, "")), (row.value, name.line))
    if not best:
        raise InvalidInput(f"{benchmark} has no average distance of any network; delete it and run the demo again")
    return [line for _, line in best.values()]


def _page(scores: Scores, given: Trials) -> Page:
    simulated = given.frame["kind"][0] != "human"
    nearest = scores.rows[0].observer
    lead = f"Of these networks {nearest} is nearest to {'a simulated person' if simulated else 'you'}."
    words = (
        f"{given.frame.height} digits were shown to one {'simulated person' if simulated else 'person'}. Distance: "
        "Hellinger distance of a network's distribution to the one answer given, 0 the same, 1 as far as can be. "
        "Agreement: share of the digits to which the network's own answer is the same, to refuse among them.",
        "The intervals are about the digits: others would have given other numbers. They say nothing of other people.",
    )
    remarks = ("the abstention function of each is the one nearest to the gold labels, whoever answers here",)
    table = PageTable(score_grid(scores), made_how(scores), remarks)
    return Page("Which network sees digits as you do?", lead, (Section("Near and far", words, (table,)),))
