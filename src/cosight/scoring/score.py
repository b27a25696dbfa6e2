"""`cosight score`: how accurate, how certain and how close to people is each observer?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cosight.benchmarks import benchmarks
from cosight.errors import InvalidInput
from cosight.measures import measures, pair_forms
from cosight.scoring.compare import Progress
from cosight.statistics.blocks import Block, empty_block, join_blocks, nested_means, rows_of
from cosight.statistics.gold_labels import (
    CATEGORY,
    category_groups,
    gold_of,
    is_stimulus_set,
    read_manifests,
    with_people,
)
from cosight.statistics.outputs import Outputs
from cosight.statistics.resampling import Draw, draw_resamples
from cosight.statistics.rows import Row, Scores, check_names, group_text, make_scores
from cosight.statistics.score_forms import ScoreData, ScoreForm, score_form, scored_measures
from cosight.statistics.seeds import with_seed_means
from cosight.trials.formats import read
from cosight.trials.join import align, manifest_rows, stimulus_groups, with_manifest
from cosight.trials.spaces import LabelSpace, label_space
from cosight.trials.summary import mismatch, overlap_notices, shared_with_models
from cosight.trials.table import Trials

__all__ = ["score"]


def score(
    *sources: str | Path | Trials,
    humans: str | Path | Trials | None = None,
    on: str | None = None,
    measure: Sequence[str] | None = None,
    by: Sequence[str] = (),
    labels: str | LabelSpace | None = None,
    role: Sequence[str] = ("test",),
    gamma: float = 0.5,
    lam: float = 0.5,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Scores:
    """Score each observer alone and against people's label distributions. Every number has an interval.

    People are the human observers among the trials and in `humans`. Without `humans`, the gold labels in a run's
    manifest stand for people too. Without `measure`, all of these that the trials allow: accuracy and response
    entropy; shape bias on cue-conflict images; people's agreement (Fleiss) and the Hellinger distance to them where
    they saw the same stimuli; entropy of the labels where there are probabilities; reliability and risk where there is
    abstention. Observers that differ only in their seed also get rows of their mean and standard deviation. Agreement
    within people always uses their repeated showings too.

    Args:
        *sources: Trial files, folders of trial files, runs, or samples (sample:NAME).
        humans: Human reference: trials of people, or a stimulus set with gold labels.
        on: Make the table of this benchmark instead (`cosight list benchmarks`: those that support score).
        measure: Comma-separated measure names or aliases (`cosight list measures`).
        by: Comma-separated columns to group by: experiment, condition, level, truth, category.
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names.
        role: Comma-separated roles of the trials to use: test, repeat, distractor, gold, check, warmup or all
            (default: first showings of test stimuli).
        gamma: An observer whose abstention exceeds this has abstained.
        lam: An Uncertain image counts as Must-Act if more than this fraction of people gave its original label.
        resamples: Number of bootstrap resamples behind each interval.
        confidence: Confidence level of the intervals.
        seed: Seed of everything random.
        progress: Called with groups done, groups in all, and the group's name.

    Returns:
        Score rows, one per number.

    Raises:
        InvalidInput: An argument is wrong, or the trials do not have what a measure needs.
        UnknownName: A measure, preset or label space does not exist.

    >>> scores = score("sample:edges", measure=["accuracy"], resamples=10)
    >>> {row.measure for row in scores.rows}
    {'accuracy'}
    """
    if resamples < 1:
        raise InvalidInput(f"--resamples must be 1 or more, got {resamples}; 1000 is usual")
    if not 0 <= lam <= 1:
        raise InvalidInput(f"--lam must be 0 to 1, got {lam}; .5 is VisAlign's")
    table = None if on is None else benchmarks[on].table
    if on is not None and table is None:
        able = ", ".join(name for name, benchmark in benchmarks.items() if benchmark.table is not None)
        raise InvalidInput(f"--on must be a benchmark with a table of its own ({able}), got {on}; score without --on")
    if table is not None and (measure or by):
        raise InvalidInput(f"--on {on} brings its own measures and groups; leave --measure and --by out")
    data = score_data(sources, humans, labels=labels, role=role, gamma=gamma, lam=lam)
    if on is not None and table is not None:
        names, by = list(table.measures), table.by
        rows = table.rows(data, resamples=resamples, confidence=confidence, seed=seed)
        data = replace(data, table=replace(data.table, notices=(*data.table.notices, *_table_notices(data, rows, on))))
    else:
        names = _names(data, measure)
        rows = _rows(data, names, tuple(by), resamples=resamples, confidence=confidence, seed=seed, progress=progress)
    return make_scores(
        rows, data.table, command="score", on=on, measure=names, by=list(by), role=list(role), gamma=gamma, lam=lam,
        resamples=resamples, confidence=confidence, seed=seed,
    )  # fmt: skip


def _table_notices(data: ScoreData, rows: Sequence[Row], on: str) -> list[str]:
    """What a benchmark's table leaves out, and whether the answers are those of the benchmark."""
    scored = {row.observer for row in rows}
    models = [name for name, person in zip(data.table.observers, data.table.people, strict=True) if not person]
    lost = [name for name in models if name not in scored]
    notices = []
    if lost:
        names = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        notices.append(f"{names}: no stimulus with a category and a gold label was answered, so not in the table")
    space = data.trials.space
    if space is not None and set(space.classes) != set(label_space(benchmarks[on].labels).classes):
        notices.append(f"answers are in the label space {space.name}, the benchmark's is {benchmarks[on].labels}")
    return notices


def score_data(
    sources: Sequence[str | Path | Trials],
    humans: str | Path | Trials | None,
    *,
    labels: str | LabelSpace | None,
    role: Sequence[str],
    gamma: float,
    lam: float,
) -> ScoreData:
    """Read and align trials, manifests and gold labels."""
    manifest = read_manifests([*sources, humans])
    people = None if humans is None or is_stimulus_set(humans) else read(humans, labels=labels)
    trials = read(*sources, *([] if people is None else [people]), labels=labels)
    if manifest is not None:
        trials = with_manifest(trials, manifest)
    table = align(trials, gamma=gamma, roles=role)
    check_names(table.observers)
    table = shared_with_models(replace(table, notices=(*table.notices, *overlap_notices(table))))
    if manifest is not None and manifest_rows(manifest, table.columns).null_count() == table.columns.height:
        reason = mismatch(table.columns, manifest)
        table = replace(table, notices=(*table.notices, f"the stimulus set has none of these stimuli: {reason}"))
    outputs, gold = Outputs.of(table, trials), gold_of(table, manifest)
    if gold.known.any() and trials.space is None:
        raise InvalidInput(
            "gold labels need a label space to say whose shares they are, got none; name it with --labels"
        )
    if people is not None:
        gold = with_people(gold, table, people)
    gold_as_people = people is None and bool(gold.known.any())
    return ScoreData(table, trials, manifest, outputs, gold, gold_as_people, gamma, lam)


def _names(data: ScoreData, asked: Sequence[str] | None) -> list[str]:
    """The measures asked for, or all usual ones that the data allow."""
    if asked is None:
        forms = {name: form for name in scored_measures() if (form := score_form(name)) is not None and form.default}
        names = [name for name, form in forms.items() if not form.lacks(data)]
        if not names or not (data.table.answers.shown.any() or data.several_people):
            raise InvalidInput(f"scoring needs the truth of some stimulus, got none; {_where_truth_is(data)}")
        return names
    names = list(dict.fromkeys(measures.name_of(name) for name in asked))
    for name in names:
        form = score_form(name)
        if form is None:
            way = "try `cosight compare`" if name in pair_forms else f"in Python: cosight.measures.{name}"
            raise InvalidInput(f"score takes {', '.join(scored_measures())}, got {name}; {way}")
        if lacking := form.lacks(data):
            raise InvalidInput(f"{name} needs {lacking}")
    return names


def _where_truth_is(data: ScoreData) -> str:
    """What to do when no stimulus has a truth."""
    if data.manifest is None:
        return "add trials or a stimulus set that has it"
    rows = manifest_rows(data.manifest, data.table.columns)
    if rows.null_count() == len(rows):
        return f"the stimulus set has other stimuli: {mismatch(data.table.columns, data.manifest)}"
    return (
        f"the stimulus set has no labels of these {len(rows) - rows.null_count()} images; "
        "name the folder that `build --closed` wrote them to with --humans"
    )


def _rows(
    data: ScoreData,
    names: Sequence[str],
    by: tuple[str, ...],
    *,
    resamples: int,
    confidence: float,
    seed: int,
    progress: Progress | None,
) -> list[Row]:
    """The rows of every cell, and of their means."""
    if CATEGORY in by and len(by) > 1:
        raise InvalidInput(f"--by {CATEGORY} stands alone, got {', '.join(by)}")
    parts = category_groups(data.gold) if CATEGORY in by else stimulus_groups(data.table, by)
    # measures that share a computation are computed together
    forms: dict[Callable[[ScoreData, Draw, Sequence[str]], list[Block]], list[tuple[str, ScoreForm]]] = {}
    for name in names:
        form = score_form(name)
        if form is not None:
            forms.setdefault(form.blocks, []).append((name, form))
    blocks, rows = [], []
    for index, cell in enumerate(parts):
        if progress:
            progress(index, len(parts), group_text(cell.group) or "all trials")
        draw = draw_resamples(data.table, cell, resamples=resamples, seed=seed, merge=False)
        numbers = [
            block for compute, members in forms.items() for block in compute(data, draw, [name for name, _ in members])
        ]
        blocks.append(with_seed_means(join_blocks(numbers) if numbers else empty_block(cell.group, resamples)))
        rows += rows_of(blocks[-1], confidence=confidence, seed=seed)
        rows += [row for members in forms.values() for _, form in members if form.rows for row in form.rows(data, draw)]
    for block in nested_means(blocks, by):
        rows += rows_of(block, confidence=confidence, seed=seed)
    if progress:
        progress(len(parts), len(parts), "")
    return rows
