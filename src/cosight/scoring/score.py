"""`cosight score`: how accurate, how certain and how close to people is each observer?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from cosight.arrays import fraction
from cosight.benchmarks import benchmarks
from cosight.errors import InvalidInput
from cosight.measures import measures, pair_forms
from cosight.progress import Progress, report_progress
from cosight.registry import split_names
from cosight.scoring.arguments import ScoreSource, check_numbers, grouping_of, trial_sources
from cosight.scoring.compare import compare
from cosight.statistics.blocks import Block, empty_block, join_blocks, nested_means, rows_of
from cosight.statistics.gold_labels import (
    CATEGORY,
    category_groups,
    gold_of,
    read_manifests,
    with_people,
)
from cosight.statistics.outputs import Outputs
from cosight.statistics.pair_scores import PairKind
from cosight.statistics.resampling import Draw, draw_resamples
from cosight.statistics.rows import Row, Scores, check_names, group_text, make_scores
from cosight.statistics.score_forms import ScoreData, score_form, scored_measures
from cosight.statistics.seeds import with_seed_means
from cosight.trials.clusters import with_clusters
from cosight.trials.confusion_tables import is_confusion_table
from cosight.trials.formats import TrialSource, read
from cosight.trials.join import GROUPS, align, check_grouping, stimulus_groups, with_manifest
from cosight.trials.manifest import is_stimulus_set
from cosight.trials.spaces import LabelSpace, label_space
from cosight.trials.summary import explain_mismatch, overlap_notices, shared_with_models
from cosight.trials.table import SCHEMA, Trials

__all__ = ["score"]

_RECIPE = ("file", "kind", "parameters", "seed")  # columns of a manifest about how stimuli were made


def score(
    *sources: ScoreSource,
    humans: ScoreSource | None = None,
    on: str | None = None,
    measure: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    pairs: PairKind | None = None,
    preset: str | None = None,
    families: str | Sequence[str] | None = None,
    cluster_by: str | Sequence[str] | None = None,
    labels: str | LabelSpace | None = None,
    role: str | Sequence[str] = ("test",),
    gamma: float = 0.5,
    lam: float = 0.5,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Scores:
    """Score each observer alone and against people's label distributions. Every number has an interval.

    People are the human observers among the trials and in `humans`. Without `humans`, the gold labels in a run's
    manifest stand for people too. Without `measure`, all of these that the trials allow: accuracy and response
    entropy; shape bias on cue-conflict images; people's agreement (Fleiss) and the Hellinger distance to them where
    they saw the same stimuli; entropy of the labels where there are probabilities; reliability and risk where there is
    abstention. Observers that differ only in their seed also get rows of their mean and standard deviation. Agreement
    within people always uses their repeated showings too.

    Args:
        *sources: Trial files, folders of trial files, runs, or samples (sample:NAME); a stimulus set adds its manifest.
            In Python also trials, the run that `evaluate` returned, and DataFrames.
        humans: Human reference: trials of people, or a stimulus set with gold labels.
        on: Make the table of this benchmark instead (`cosight list benchmarks`: those that support score).
        measure: Comma-separated measure names or aliases (`cosight list measures`).
        by: Comma-separated columns to group by: experiment, condition, level, truth, category; none pools all trials.
        pairs: With `on` error-alignment: which pairs of observers to compare (default: all).
        preset: With `on` error-alignment: a published way of scoring (`cosight list presets`).
        families: Groups of models, as comma-separated PATTERN=FAMILY pairs or a TOML file. With `on` error-alignment:
            their families (default: by their names). With `on` representation: one table of the file per factor of
            training, such as loss (default: what checkpoints say).
        cluster_by: Column of the trials or the manifest whose values are clusters of stimuli, drawn together for the
            intervals; two comma-separated columns are crossed; none draws each stimulus by itself (default: the source
            photo, `parent` in the manifest of a run or set; the shape and texture pictures of cue-conflict images).
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names.
        role: Comma-separated roles of the trials to use: test, repeat, distractor, gold, check, warmup or all
            (default: first showings of test stimuli).
        gamma: An observer whose abstention exceeds this has abstained.
        lam: An Uncertain image counts as Must-Act if more than this fraction of people gave its original label.
        resamples: Number of bootstrap resamples behind each interval.
        confidence: Confidence level of the intervals.
        seed: Seed of everything random.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with groups done, groups in all, and the group's name.

    Returns:
        Score rows, one per number.

    Raises:
        InvalidInput: An argument is wrong, or the trials do not have what a measure needs.
        UnknownName: A measure, preset or label space does not exist.

    >>> scores = score("sample:edges", measure="accuracy", resamples=10)
    >>> {row.measure for row in scores.rows}
    {'accuracy'}
    """
    check_numbers(resamples=resamples, confidence=confidence, gamma=gamma, seed=seed)
    fraction(lam, name="--lam")
    grouping, roles = grouping_of(by), split_names(role) or ()
    check_grouping(grouping, (*GROUPS, CATEGORY))
    if CATEGORY in grouping and len(grouping) > 1:
        raise InvalidInput(f"--by {CATEGORY} stands alone, got {', '.join(grouping)}")
    wanted = None if measure is None else [measures.name_of(name) for name in split_names(measure) or ()]
    comparison = None if on is None else benchmarks[on].comparison
    if comparison is not None:
        if any(map(is_confusion_table, trial_sources(sources))):
            raise InvalidInput(f"--on {on} needs trials, got a confusion matrix; use `cosight compare FILE...`")
        scores = compare(
            *sources, *([] if humans is None else [humans]), measure=measure, by=by, pairs=pairs or "all",
            preset=preset or comparison.preset, correlate=True, standardise=True, families=families,
            cluster_by=cluster_by, labels=labels, role=role, gamma=gamma, resamples=resamples, confidence=confidence,
            seed=seed, progress=progress,
        )  # fmt: skip
        return replace(scores, settings={**scores.settings, "command": "score", "on": on})
    layout = None if on is None else benchmarks[on].table
    with_families = layout is not None and layout.takes_families
    for option, value in (("pairs", pairs), ("preset", preset), ("families", None if with_families else families)):
        if value is not None:
            able = ", ".join(
                name
                for name, benchmark in benchmarks.items()
                if benchmark.comparison or (option == "families" and benchmark.table and benchmark.table.takes_families)
            )
            raise InvalidInput(f"--{option} is for --on {able}, and for compare, got --on {on}; leave it out")
    if on is not None and layout is None:
        able = ", ".join(name for name, benchmark in benchmarks.items() if "score" in benchmark.supports)
        raise InvalidInput(f"--on must be a benchmark with a table of its own ({able}), got {on}; score without --on")
    if layout is not None and (wanted or grouping):
        raise InvalidInput(f"--on {on} brings its own measures and groups; leave --measure and --by out")
    paths = trial_sources(sources)
    people = None if humans is None else trial_sources([humans])[0]
    clusters = split_names(cluster_by)
    shared = layout is None or layout.shared
    answers_only = layout is not None and layout.answers_only
    reading = partial(
        _read_data, shared=shared, answers_only=answers_only, cluster_by=clusters, labels=labels, role=roles,
        gamma=gamma, lam=lam,
    )  # fmt: skip
    others: list[ScoreData] = []
    if on is not None and layout is not None and layout.takes_others and labels is None and len(paths) > 1:
        space = label_space(benchmarks[on].labels)
        own = layout.is_own or (lambda trials: trials.space is None or set(trials.space.classes) == set(space.classes))
        paths, apart = _split_sources(paths, own)
        if not paths:
            raise InvalidInput(
                f"some trials must be in the label space {space.name}, got none; evaluate with its classes"
            )
        others = [reading(part, None) for part in apart]
    data = reading(paths, people)
    table = data.table.with_notices(*(notice for other in others for notice in other.table.notices))
    if on is not None and layout is not None:
        names, grouping = list(layout.measures), tuple(layout.by)
        more: dict[str, Any] = {"others": others} if layout.takes_others else {}
        more |= {"families": split_names(families) or []} if with_families else {}
        rows = layout.rows(data, resamples=resamples, confidence=confidence, seed=seed, **more)
        table = table.with_notices(*_benchmark_notices(data, rows, on))
    else:
        names = _default_measures(data) if wanted is None else _checked_measures(data, wanted)
        with report_progress(progress) as report:
            rows = _rows(
                data, names, grouping, resamples=resamples, confidence=confidence, seed=seed, progress=report
            )  # fmt: skip
    return make_scores(
        rows, table, command="score", on=on, measure=names, by=list(grouping), role=roles, gamma=gamma, lam=lam,
        resamples=resamples, confidence=confidence, seed=seed,
        **({"families": split_names(families)} if with_families and families else {}),
    )  # fmt: skip


def _read_data(
    sources: Sequence[TrialSource],
    humans: TrialSource | None,
    *,
    shared: bool,
    answers_only: bool,
    cluster_by: Sequence[str] | None,
    labels: str | LabelSpace | None,
    role: Sequence[str],
    gamma: float,
    lam: float,
) -> ScoreData:
    """Read and align trials, manifests and gold labels; if `shared`, people's only on stimuli that models answered."""
    people = None if humans is None or is_stimulus_set(humans) else read(humans, labels=labels)
    observers = [source for source in sources if not is_stimulus_set(source)]
    trials = read(*observers, *([] if people is None else [people]), labels=labels)
    notices: list[str] = []
    unused = [name for name in _RECIPE if answers_only and name not in (cluster_by or ())]
    manifest = read_manifests([*sources, humans], trials.space, notices, without=unused)
    if manifest is not None:
        trials = with_manifest(trials, manifest)
    table = align(trials, gamma=gamma, roles=role).with_notices(*notices)
    if answers_only:
        used = ("observer", "kind", "response", "role", *(cluster_by or ()))  # the table has the rest
        nothing = [pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name not in used]
        trials = replace(trials, frame=trials.frame.with_columns(nothing))
    check_names(table.observers)
    if shared:
        table = shared_with_models(table.with_notices(*overlap_notices(table)))
    gold = gold_of(table, manifest)
    if shared and manifest is not None and not gold.listed.any():
        reason = explain_mismatch(table.columns, manifest)
        table = table.with_notices(f"the stimulus set has none of these stimuli: {reason}")
    table = with_clusters(table, trials, manifest, cluster_by)
    outputs = Outputs.of(table, trials)
    if gold.known.any() and trials.space is None:
        raise InvalidInput("gold labels need a label space that names their classes, got none; name it with --labels")
    if people is not None:
        gold = with_people(gold, table, people)
    gold_as_people = people is None and bool(gold.known.any())
    return ScoreData(table, trials, manifest, outputs, gold, gold_as_people, gamma, lam)


def _split_sources(
    sources: Sequence[TrialSource], is_own: Callable[[Trials], bool]
) -> tuple[list[TrialSource], list[list[TrialSource]]]:
    """Return a benchmark's own sources and stimulus sets, and the others, together where they share a label space."""
    own: list[TrialSource] = []
    apart: dict[tuple[str, ...], list[TrialSource]] = {}
    for source in sources:
        trials = None if is_stimulus_set(source) else read(source)
        if trials is None or is_own(trials):
            own.append(source)
        else:
            apart.setdefault(trials.space.answers if trials.space else (), []).append(source)
    return own, list(apart.values())


def _benchmark_notices(data: ScoreData, rows: Sequence[Row], on: str) -> list[str]:
    """Report the models that a benchmark's table leaves out, and answers in another label space."""
    scored = {row.observer for row in rows}
    judges = {name for name, kind in zip(data.table.observers, data.table.kinds, strict=True) if kind == "judge"}
    left_out = [name for name in data.table.models if name not in {*scored, *judges}]  # judges are not scored
    notices = []
    if left_out:
        names = ", ".join(left_out[:3]) + (f" and {len(left_out) - 3} more" if len(left_out) > 3 else "")
        notices.append(f"{names}: no stimulus with a category and a gold label was answered, so not in the table")
    space = data.trials.space
    if space is None or benchmarks[on].any_labels:
        return notices
    if set(space.classes) != set(label_space(benchmarks[on].labels).classes):
        notices.append(f"answers are in the label space {space.name}, the benchmark's is {benchmarks[on].labels}")
    return notices


def _default_measures(data: ScoreData) -> list[str]:
    """Return the default measures that the data allow."""
    names = []
    for name in scored_measures():
        form = score_form(name)
        if form is not None and form.default and not form.lacks(data):
            names.append(name)
    if names and (data.table.answers.shown.any() or data.several_people):
        return names
    advice = "add trials or a stimulus set that has it"
    if data.manifest is not None:
        known = int(data.gold.listed.sum())
        advice = f"the stimulus set has other stimuli: {explain_mismatch(data.table.columns, data.manifest)}"
        if known:
            advice = (
                f"the stimulus set has no labels of these {known} images; "
                "name the folder that `build --closed` wrote them to with --humans"
            )
    raise InvalidInput(f"scoring needs the truth of some stimulus, got none; {advice}")


def _checked_measures(data: ScoreData, measure: Sequence[str]) -> list[str]:
    """Return the measures, each once; raise for those that cannot be computed from the data."""
    names = list(dict.fromkeys(measure))
    for name in names:
        form = score_form(name)
        if form is None:
            advice = "try `cosight compare`" if name in pair_forms else f"in Python: cosight.measures.{name}"
            raise InvalidInput(f"score takes {', '.join(scored_measures())}, got {name}; {advice}")
        if lacking := form.lacks(data):
            raise InvalidInput(f"{name} needs {lacking}")
    return names


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
    """Return the rows of every group, and of their means."""
    groups = category_groups(data.table, data.gold) if CATEGORY in by else stimulus_groups(data.table, by)
    forms = {name: form for name in names if (form := score_form(name)) is not None}
    together: dict[Callable[[ScoreData, Draw, Sequence[str]], list[Block]], list[str]] = {}  # one computation each
    for name, form in forms.items():
        together.setdefault(form.blocks, []).append(name)
    blocks, rows = [], []
    for index, group in enumerate(groups):
        if progress:
            progress(index, len(groups), group_text(group.group) or "all trials")
        draw = draw_resamples(data.table, group, resamples=resamples, seed=seed, merge=False)
        parts = [block for compute, of_form in together.items() for block in compute(data, draw, of_form)]
        block = with_seed_means(join_blocks(parts) if parts else empty_block(group.group, resamples))
        blocks.append(block)
        rows += rows_of(block, confidence=confidence, seed=seed)
        for form in forms.values():
            rows += form.rows(data, draw) if form.rows else []  # numbers without an interval
    for block in nested_means(blocks, by):
        rows += rows_of(block, confidence=confidence, seed=seed)
    if progress:
        progress(len(groups), len(groups), "")
    return rows
