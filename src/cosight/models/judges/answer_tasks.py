"""`judge`: ask judges the tasks of a stimulus set and store their answers as trials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import file_name
from cosight.measures.choice import pairwise_distance
from cosight.models.judges.distance_judge import DistanceJudge
from cosight.models.judges.questions import Judge, PixelsOf, Question
from cosight.models.judges.registry import check_judge, load_judge
from cosight.models.vlm.journal import Budget, Spending, check_budget, parse_budget
from cosight.models.vlm.judge import VlmJudge
from cosight.progress import Progress, report_progress
from cosight.stimuli.sets import StimulusSet, read_set, read_source
from cosight.stimuli.tasks import CONTROVERSIAL, Neighbours, Task, read_tasks
from cosight.trials.formats import read
from cosight.trials.parquet import read_sources, write_table
from cosight.trials.table import SCHEMA, Trials, make_trials

__all__ = ["TRIALS", "JudgedTasks", "judge", "near_neighbours"]

TRIALS = "trials"  # the folder of a set that has its judges' answers
_AT_ONCE = 256  # questions after whose answers the file is written


@dataclass(frozen=True, slots=True)
class JudgedTasks:
    """The answers of judges to the tasks of a set.

    Attributes:
        trials: All answers, one row per query.
        files: One trial file per judge.
        new: Number of answers given now.
        ties: Number of questions, of all judges, without an answer: a tie, or a refusal.
        by_model: Whether all tasks are about images that were made with models, so that answers are scored by model.
    """

    trials: Trials
    files: tuple[Path, ...]
    new: int
    ties: int
    by_model: bool


def judge(
    stimuli: str | Path,
    *,
    judge: str | list[str],
    device: str = "auto",
    force: bool = False,
    budget: str | None = None,
    progress: Progress | bool | None = None,
) -> JudgedTasks:
    """Ask judges the tasks of a stimulus set; answers that a judge's file already has are kept.

    Args:
        stimuli: A stimulus set with tasks (`cosight stimuli tasks`).
        judge: A judge (`cosight list judges`) or a model, whose features are compared; may be repeated.
        device: Where judges run: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).
        force: Ask everything again.
        budget: Limits of the requests to vision-language models, over all sessions, such as
            requests=1000,tokens=2e6,cost=5.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with questions answered, questions in all, and the judge.

    Returns:
        The trials, and the files in the folder `trials` of the set.

    Raises:
        BudgetReached: The budget is used up; answers so far are kept.
        InvalidInput: The set has no tasks, a judge has no weights, or a judge's file comes from other weights or
            settings.
        UnknownName: There is no such judge.

    >>> judge("faces", judge="lpips")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: there is no folder faces; check the path
    """
    references = [judge] if isinstance(judge, str) else list(dict.fromkeys(judge))
    if not references:
        raise InvalidInput("name at least one judge, got none; for example lpips")
    for reference in references:
        check_judge(reference)
    spending = Spending(Budget() if budget is None else parse_budget(budget))
    source = read_set(stimuli)
    rows = list(_task_rows(source, read_tasks(source.root)))
    answered, files, new = list[Trials](), list[Path](), 0
    with report_progress(progress) as report:
        for reference in references:
            loaded = load_judge(reference, device=device)
            if isinstance(loaded, VlmJudge):  # answers that are paid for are kept at once
                check_budget(spending.budget, loaded.settings)
                loaded = replace(loaded, folder=source.root, spending=spending, afresh=force)
            path = source.root / TRIALS / f"{file_name(loaded.name)}.parquet"
            if path in files:
                raise InvalidInput(f"judges must differ, got {loaded.name} twice; leave one out")
            trials, given = _ask(loaded, rows, source, path, force=force, report=report)
            answered.append(trials)
            files.append(path)
            new += given
    frame = pl.concat([trials.frame for trials in answered])
    everything = make_trials(frame, sources=[entry for trials in answered for entry in trials.sources])
    by_model = all({"model", "contest"} & row["extra"].keys() for row in rows)
    return JudgedTasks(everything, tuple(files), new, frame["response"].null_count(), by_model)


def near_neighbours(stimuli: str | Path, judge: str, *, device: str = "auto") -> Neighbours:
    """Return the neighbours of stimuli of a set as a judge sees them, for panels of similar targets.

    Args:
        stimuli: A stimulus set.
        judge: A judge that computes distances, or a model whose features are compared.
        device: Where the judge runs.

    Raises:
        InvalidInput: The judge has no distances, or no weights.
        UnknownName: There is no such judge.
    """
    loaded = load_judge(judge, device=device)
    if not isinstance(loaded, DistanceJudge):
        raise InvalidInput(f"neighbours need a judge that computes distances, got {loaded.name}; use lpips or a model")
    pixels_of = _pixel_reader(read_set(stimuli))
    return Neighbours(loaded.name, lambda targets: loaded.distance_matrix(targets, pixels_of))


def _pixel_reader(stimuli: StimulusSet) -> PixelsOf:
    """Return the function that reads an image of a set by its digest."""
    files = dict(stimuli.frame.select("stimulus", "file").iter_rows())
    return lambda stimulus: read_source(stimuli, files[stimulus], expected=stimulus).pixels


def _task_rows(stimuli: StimulusSet, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """Yield what is known about each question before it is answered: one row of the trial table per query.

    Names of questions are those of a study's trials, so that answers of judges and people join.
    """
    condition = dict(stimuli.frame.select("stimulus", "condition").iter_rows())
    for task in tasks:
        panel = {} if task.kind == "2afc" else {"panel": task.task}
        for number, (query, target) in enumerate(zip(task.queries, task.targets, strict=True)):
            yield {
                "kind": "judge",
                "experiment": task.kind,
                "stimulus": task.task if task.kind == "2afc" else f"{task.task}/{query}",
                "condition": condition.get(query),
                "truth": target,
                "role": "test",
                "extra": {"options": list(task.options), "query": query, **panel, **task.query_facts(number)},
            }


def _ask(
    judge: Judge,
    rows: Sequence[Mapping[str, Any]],
    stimuli: StimulusSet,
    path: Path,
    *,
    force: bool,
    report: Progress | None,
) -> tuple[Trials, int]:
    """Return the answers of a judge to all questions, and the number of those that its file did not have."""
    facts = {"judge": judge.name, **judge.facts}
    known = dict[str, dict[str, Any]]()
    if path.exists() and not force:
        if [entry.get("judge") for entry in read_sources(path)] != [facts]:
            raise InvalidInput(f"{path} has answers of {judge.name} with other weights or settings; --force asks again")
        known = {row["stimulus"]: row for row in read(path).frame.iter_rows(named=True)}
    pending = [row for row in rows if row["stimulus"] not in known]
    pixels_of = _pixel_reader(stimuli)

    def write() -> Trials:
        table = pl.DataFrame([known[r["stimulus"]] for r in rows if r["stimulus"] in known], schema=SCHEMA)
        trials = make_trials(table, source=judge.name, sources=[{"judge": facts, "set": stimuli.root.name}])
        path.parent.mkdir(exist_ok=True)
        write_table(trials, path)
        return trials

    pairwise = _pairwise_distances(judge, stimuli, pending, pixels_of)
    for first in range(0, len(pending), _AT_ONCE):
        part = pending[first : first + _AT_ONCE]
        questions = [Question(row["extra"]["query"], tuple(row["extra"]["options"])) for row in part]
        for number, (row, choice) in enumerate(zip(part, judge.choose(questions, pixels_of), strict=True), start=1):
            extra = row["extra"]
            response = None if choice.option is None else extra["options"][choice.option]
            more = {"pairwise": pairwise[row["stimulus"]]} if row["stimulus"] in pairwise else {}
            text = json.dumps({**extra, **choice.facts, **more}, ensure_ascii=False)
            known[row["stimulus"]] = {**row, "observer": judge.name, "response": response, "extra": text}
            if report:
                report(first + number, len(pending), judge.name)
        write()
    return write(), len(pending)


def _pairwise_distances(
    judge: Judge, stimuli: StimulusSet, rows: Sequence[Mapping[str, Any]], pixels_of: PixelsOf
) -> dict[str, list[float]]:
    """Return the mean distance between the controversial stimuli of a target, for the two models of each question.

    There is one only where the judge computes distances and several starts have led to a stimulus.
    """
    made = stimuli.frame.filter(pl.col("kind") == CONTROVERSIAL)
    if not isinstance(judge, DistanceJudge) or not made.height:
        return {}
    results: dict[tuple[str, ...], list[str]] = {}
    for stimulus, target, text in made.select("stimulus", "parent", "parameters").iter_rows():
        facts = json.loads(text)
        results.setdefault((target, facts["similar"], facts["distinct"]), []).append(stimulus)
    means: dict[tuple[str, ...], float] = {}
    for key, of_target in results.items():
        pairs = list(combinations(of_target, 2))
        if pairs:
            means[key] = float(pairwise_distance([list(judge.distances(pairs, pixels_of))]).value)
    found = {}
    for row in rows:
        if "contest" in row["extra"]:
            first, second = row["extra"]["contest"].split(" / ")
            keys = [(row["extra"]["query"], *models) for models in ((first, second), (second, first))]
            if all(key in means for key in keys):
                found[row["stimulus"]] = [means[key] for key in keys]
    return found
