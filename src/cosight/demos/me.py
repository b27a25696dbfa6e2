"""`cosight demo --me`: the user labels digits in a browser and sees how far each network is from them."""

from __future__ import annotations

import shutil
import webbrowser
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep

import numpy as np
import polars as pl

from cosight.benchmarks.visalign.results_table import AVERAGE, HELLINGER
from cosight.demos.run import demo
from cosight.demos.size import REPORT, STIMULI
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import study_trials
from cosight.humans.results.records import study_records
from cosight.humans.study.design import STUDY, Study, read_study
from cosight.humans.study.pool import load_pool
from cosight.humans.study.texts import TEXTS, new_texts
from cosight.humans.web.server import serve_in_background
from cosight.reports.site.answers import read_answers
from cosight.reports.site.method import method_facts
from cosight.reports.site.parts import ReportPart
from cosight.reports.site.report import write_site
from cosight.scoring.score import score
from cosight.statistics.row_text import number_text
from cosight.statistics.rows import Scores, read_rows
from cosight.statistics.seeds import observer_name
from cosight.stimuli.sets import read_set
from cosight.trials import Trials, read, write
from cosight.trials.manifest import write_manifest
from cosight.trials.table import select_roles

__all__ = ["AGREEMENT", "MeResult", "me"]

Progress = Callable[[int, int, str], None]
AGREEMENT = "response_agreement"  # fraction of images to which the network gives the person's answer
_UNCERTAIN, _OTHERS = 25, 10  # numbers of Uncertain and other images: 35 in all, as in VisAlign's survey
_POLL_SECONDS = 0.5  # between two looks at the person's progress
_STUDY = """# The digits that the user labels in `cosight demo --me`.
name = "me"
type = "classify"
set = "digits"
labels = "digits-11"
seed = {seed}

[design]
images = {images}
answers = 1000 # the next user may answer too

[participants]
consent = false # nobody else sees the answers
"""


@dataclass(frozen=True, slots=True)
class MeResult:
    """How far each network is from one person: Hellinger distance and agreement, and the files they are written to."""

    scores: Scores
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
    """Let the user label digits of a demo, and compare the networks with them.

    The digits are shown in a browser. It ends when somebody has answered all of them; Ctrl-C stops it without a result.
    Later users are shown the same digits.

    Args:
        folder: Folder of the demo. Its digits part is run first if it is not finished.
        seed: Seed of the demo and of the selection of digits.
        port: Port of the server; 0 for a free one.
        open_browser: Open the page in a browser.
        progress: Called with answers given, answers in all, and a description.
        announce: Called with the address of the page.

    Returns:
        The scores and where they are written.

    Raises:
        InvalidInput: The demo's scores cannot be read.
    """
    folder = Path(folder)
    if not (folder / "benchmark.json").is_file():
        demo("digits", out=folder, seed=seed, progress=progress)
    study = _open_study(folder, seed=seed)
    with serve_in_background(study.root, port=port) as address:
        announce(address)
        if open_browser:
            webbrowser.open(address)
        answers = _wait_for_participant(study, progress)
    write(answers, study.root / "trials.parquet", force=True)
    scores, networks = _score_networks(folder, select_roles(answers), seed=seed)
    with atomic_write(study.root / "scores.json") as draft:
        draft.write_text(scores.to_json(), encoding="utf-8")
    page = _write_report(scores, answers, networks, study)
    return MeResult(scores, study.root / "trials.parquet", page)


def _open_study(folder: Path, *, seed: int) -> Study:
    """Return the study in FOLDER/me; write it and its digits if there is none."""
    root = folder / "me"
    if not (root / STUDY).is_file():
        images = _write_set(folder / STIMULI, root / "digits", np.random.default_rng(seed))
        texts = {TEXTS: new_texts("classify", abstain=True), STUDY: _STUDY.format(images=images, seed=seed)}
        for name, text in texts.items():
            with atomic_write(root / name) as draft:
                draft.write_text(text, encoding="utf-8")
    return read_study(root)


def _write_set(source: Path, out: Path, rng: np.random.Generator) -> int:
    """Write a set of Uncertain digits and of all other categories in turn; return their number."""
    stimuli = read_set(source)
    test = stimuli.frame.filter(pl.col("split") == "test")
    shuffled = test[rng.permutation(test.height)]
    uncertain = shuffled.filter(pl.col("group") == "uncertain").head(_UNCERTAIN)
    rank_in_category = pl.int_range(pl.len()).over("category")
    others = shuffled.filter(pl.col("group") != "uncertain").sort(rank_in_category, "category").head(_OTHERS)
    selected = pl.concat([uncertain, others])
    (out / "images").mkdir(parents=True, exist_ok=True)
    names = {file: f"images/{stimulus}.png" for file, stimulus in selected.select("file", "stimulus").iter_rows()}
    for file, name in names.items():
        shutil.copyfile(stimuli.path(file), out / name)
    frame = selected.with_columns(pl.col("file").replace_strict(names, return_dtype=pl.String))
    write_manifest(out, frame, stimuli.facts)
    return selected.height


def _wait_for_participant(study: Study, progress: Progress | None) -> Trials:
    """Return the trials of the first participant who finishes from now on."""
    pool = load_pool(study)
    with closing(Store.open(study)) as store:
        earlier = _finished_participants(study_trials(study, pool, store))
        while True:
            trials = study_trials(study, pool, store)
            for name in sorted(_finished_participants(trials) - earlier):
                return trials.only(name)
            if progress:
                current = trials.frame.filter(~pl.col("observer").is_in(list(earlier)))
                answers = max(current["observer"].value_counts()["count"], default=0)
                progress(answers, len(pool.items), "digits named")
            sleep(_POLL_SECONDS)


def _finished_participants(trials: Trials) -> set[str]:
    return set(study_records(trials).filter("finished")["participant"])


def _score_networks(folder: Path, answers: Trials, *, seed: int) -> tuple[Scores, Trials]:
    """Return distance and agreement of each architecture with its abstention function nearest to the gold labels.

    Also return the trials of these networks on the digits that were answered.

    The functions do not depend on this person's answers: choosing them by the answers would favour the networks.
    """
    lines = _best_lines(folder / "benchmark.json")
    networks = read(*sorted((folder / "runs").iterdir()))
    by_line: dict[str, list[str]] = {line: [] for line in lines}
    for name in networks.frame["observer"].unique():
        if (line := observer_name(name).line) in by_line:
            by_line[line].append(name)
    selected = [name for names in by_line.values() for name in names]
    networks = networks.keep(pl.col("observer").is_in(selected))
    scores = score(networks, answers, measure=[HELLINGER, AGREEMENT], seed=seed)
    names = {line if len(seeds) > 1 else seeds[0]: line for line, seeds in by_line.items()}
    rows = [
        replace(row, observer=names[row.observer])
        for row in scores.rows
        if row.observer in names and row.statistic == "value"
    ]
    distance = {row.observer: row.value or 0.0 for row in rows if row.measure == HELLINGER}
    shown = networks.keep(pl.col("stimulus").is_in(answers.frame["stimulus"].to_list()))
    return replace(scores, rows=tuple(sorted(rows, key=lambda row: distance[row.observer]))), shown


def _best_lines(benchmark: Path) -> list[str]:
    """Return, of each architecture over all seeds, the line with the smallest mean distance to the gold labels."""
    best: dict[str, tuple[float, str]] = {}
    try:
        rows = read_rows(benchmark.read_text(encoding="utf-8"))
    except InvalidInput as error:
        raise InvalidInput(f"cannot read {benchmark}: {error}; delete it and run the demo again") from error
    averages = [row for row in rows if (row.measure, row.statistic, row.group) == (HELLINGER, "value", AVERAGE)]
    seed_means = {row.observer for row in averages if observer_name(row.observer).seed is None}
    for row in averages:
        name = observer_name(row.observer)
        has_mean = name.seed is not None and name.line in seed_means  # a demo with one seed has no means over seeds
        if not has_mean and name.members == 1 and row.value is not None:
            best[name.model] = min(best.get(name.model, (np.inf, "")), (row.value, name.line))
    if not best:
        raise InvalidInput(f"{benchmark} has no average distance of any network; delete it and run the demo again")
    return [line for _, line in best.values()]


def _write_report(scores: Scores, answers: Trials, networks: Trials, study: Study) -> Path:
    simulated = answers.frame["kind"][0] != "human"
    person = "a simulated person" if simulated else "you"
    distances = [row for row in scores.rows if row.measure == HELLINGER]
    texts = [f"{row.observer} {number_text(row)}" for row in distances]
    verdict = f"Of these networks {distances[0].observer} is closest to {person}: its Hellinger distance is "
    verdict += f"{number_text(distances[0])}. " + (f"Then {', '.join(texts[1:])}." if texts[1:] else "")
    text = (
        f"{answers.frame.height} digits were shown to one {'simulated person' if simulated else 'person'}. Distance: "
        "Hellinger distance of a network's distribution to the one answer given, 0 the same, 1 as far as can be; where "
        "intervals overlap, the order may be chance. Agreement: fraction of the digits to which the network gives the "
        "same answer, refusals included. The abstention function of each network is the one nearest to the gold "
        "labels, whoever answers here. The intervals are about the digits: others would have given other numbers. "
        "They say nothing of other people."
    )
    part = ReportPart("me", "Near and far", text, scores, 0, verdict=verdict)
    shown = read_answers([answers, networks, study.root / "digits"], labels=None, role=("test",), gamma=0.5)
    method = method_facts([part], [study.root / "trials.parquet"], command="cosight demo --me", passed={}, defaulted={})
    title = "Which network sees digits as you do?"
    return write_site(study.root / REPORT, [part], shown, title=title, method=method).page
