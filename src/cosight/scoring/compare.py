"""`cosight compare`: how alike are the answers and errors of several observers?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from cosight.benchmarks.error_alignment.families import families_of, read_families
from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.measures import measures, pair_forms, solo_forms
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, CodeArray, common_trials
from cosight.measures.declarations import PairForm
from cosight.progress import Progress, report_progress
from cosight.registry import split_names
from cosight.scoring.arguments import ScoreSource, check_numbers, grouping_of, trial_sources
from cosight.scoring.confusions import compare_confusions
from cosight.scoring.presets import MISSING, Missing, Preset, presets
from cosight.statistics.blocks import Block, empty_block, join_blocks, nested_means, rows_of
from cosight.statistics.contrasts import (
    difference_rows,
    models_against_people,
    normalise_by_ceiling,
    rank_rows,
)
from cosight.statistics.correlations import Domain, correlations, z_score_rows
from cosight.statistics.features import Features, feature_form, feature_measures
from cosight.statistics.outputs import Outputs, output_form, output_measures
from cosight.statistics.pair_scores import (
    INTERNAL,
    PAIR_KINDS,
    PairKind,
    ceiling_blocks,
    model_ceiling_blocks,
    pair_blocks,
    pairs_of,
)
from cosight.statistics.pooled_pairs import groups_to_pool, pairs_within, pooled_blocks
from cosight.statistics.resampling import draw_observers, draw_resamples, random_stream
from cosight.statistics.rows import GroupKey, Row, Scores, check_names, make_scores
from cosight.statistics.score_forms import solo_block
from cosight.trials.clusters import with_clusters
from cosight.trials.confusion_tables import is_confusion_table
from cosight.trials.formats import read
from cosight.trials.join import (
    AlignedTrials,
    StimulusGroup,
    align,
    check_grouping,
    stimulus_groups,
    texture_codes,
)
from cosight.trials.manifest import collect_manifests, is_stimulus_set
from cosight.trials.spaces import ABSTAIN, LabelSpace
from cosight.trials.summary import explain_mismatch, overlap_notices, shared_with_models
from cosight.trials.table import PEOPLE, Trials

__all__ = ["DEFAULT_MEASURES", "MISSING", "Missing", "compare", "only_models"]

DEFAULT_MEASURES = (
    "accuracy",
    "error_consistency",
    "misclassification_agreement",
    "class_level_error_similarity",
)
_MANY_MODELS = 50  # of more, every two are compared only with --all-pairs: their rows would outnumber all others


@dataclass(frozen=True, slots=True)
class _Options:
    """How every group of stimuli is compared."""

    solo_measures: tuple[str, ...]
    pair_measures: tuple[str, ...]
    pairs: str
    of_models: bool  # whether every two models are compared as well
    resamples: int
    confidence: float
    seed: int
    preset: Preset | None = None


def compare(
    *sources: ScoreSource,
    measure: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    only: str | Sequence[str] | None = None,
    cluster_by: str | Sequence[str] | None = None,
    pairs: PairKind = "all",
    all_pairs: bool = False,
    preset: str | None = None,
    missing: Missing | None = None,
    correlate: bool = False,
    standardise: bool = False,
    families: str | Sequence[str] | None = None,
    labels: str | LabelSpace | None = None,
    role: str | Sequence[str] = ("test",),
    gamma: float = 0.5,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Scores:
    """Compare observers: how alike are their answers and errors? Every number has an interval.

    Rows for each observer, each pair, each mean over a group (people, models), people's ceilings, each model's value
    normalised by the ceiling, its rank, and the paired difference of every two models against the same people. With
    `by`, one row per group and the mean over groups with equal weights.

    People and models are compared on the stimuli they share: stimuli that no model answered are left out, and the
    ceiling beside a model that answered only some of the rest is computed on those.

    Args:
        *sources: Trial files, folders of trial files, runs, or samples (sample:NAME); a stimulus set adds its manifest.
            In Python also trials, the run that `evaluate` returned, and DataFrames. Or only confusion matrices, one
            CSV file per observer: true classes in rows, answers in columns, both named.
        measure: Comma-separated measure names or aliases (`cosight list measures`).
        by: Comma-separated columns to group by: experiment, condition, level, truth; none pools all trials (default:
            none, or as the preset has it).
        only: Comma-separated names of the models to compare with people (default: all).
        cluster_by: Column of the trials or the manifest whose values are clusters of stimuli, drawn together for the
            intervals; two comma-separated columns are crossed; none draws each stimulus by itself (default: the source
            photo, `parent` in the manifest of a run or set; the shape and texture pictures of cue-conflict images).
        pairs: Which pairs of observers to compare.
        all_pairs: Compare every two models with each other, and list their differences, even if there are more than 50
            (default: of more than 50, only the difference of the two that are closest to people).
        preset: Published way of scoring: exclusions, grouping, measures, conventions (`cosight list presets`).
        missing: Missing answers: leave-out (wrong for error consistency), or random for randomly drawn classes
            (default: leave-out, or as the preset has it).
        correlate: Also compute rank correlations between the measures, over pairs of observers, in each group, on
            average and over the pairs of all groups; their intervals are over observers, models included.
        standardise: Also express the value of every pair in standard deviations (z-scores), with the families of both
            observers.
        families: Families of models: comma-separated PATTERN=FAMILY pairs, or a TOML file (default: by their names).
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names.
        role: Comma-separated roles of the trials to use: test, repeat, distractor, gold, check, warmup or all
            (default: first showings of test stimuli).
        gamma: An observer whose abstention exceeds this has abstained.
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

    >>> scores = compare("sample:edges", measure="ec", resamples=10)
    >>> scores.rows[0].measure
    'error_consistency'
    """
    chosen = None if preset is None else presets[preset]
    names = _measure_names(split_names(measure), chosen)
    check_numbers(resamples=resamples, confidence=confidence, gamma=gamma, seed=seed)
    missing_option = missing
    missing = missing or (chosen.missing if chosen else "leave-out")
    if missing not in MISSING:
        raise InvalidInput(f"--missing must be one of {', '.join(MISSING)}, got {missing!r}")
    grouping = grouping_of(by, chosen.by if chosen else ())
    check_grouping(grouping)
    patterns = read_families(split_names(families))
    roles = split_names(role) or ()
    paths = trial_sources(sources)
    if any(map(is_confusion_table, paths)):
        return compare_confusions(
            paths, measure=names if measure is not None else None, resamples=resamples, confidence=confidence,
            seed=seed, by=by, only=only, cluster_by=cluster_by, preset=preset, missing=missing_option, labels=labels,
            correlate=correlate, standardise=standardise, families=families, pairs=pairs != "all",
            role=roles != ["test"],
        )  # fmt: skip
    trials = only_models(read(*(source for source in paths if not is_stimulus_set(source)), labels=labels), only)
    if chosen is not None and chosen.all_classes and trials.space is None:
        raise InvalidInput(
            f"preset {preset} counts every class of the label space, got trials without one; give it with --labels"
        )
    table = align(trials, gamma=gamma, roles=roles)
    if chosen is not None:
        table = _apply_preset(table, chosen)
    check_names(table.observers)
    if not table.answers.shown.any():
        raise InvalidInput("comparing needs the truth of some stimulus, got none; add trials that have it")
    table = table.with_notices(*overlap_notices(table))
    if pairs in ("all", "human-model"):
        table = shared_with_models(table)
    table = with_clusters(table, trials, collect_manifests(paths), split_names(cluster_by))
    if missing == "random":
        table = _impute_randomly(table, seed)
    features = Features.of(table, paths) if set(names) & set(feature_measures) else None
    if measure is None:
        names, reasons = _possible_measures(names, trials, features)
        table = table.with_notices(*reasons)
    if features is not None and set(names) & set(feature_measures):
        table = table.with_notices(*features.notices())
    few_models = len(table.models) <= _MANY_MODELS or not table.people.any()
    options = _Options(
        solo_measures=tuple(name for name in names if name in solo_forms),
        pair_measures=tuple(name for name in names if name not in solo_forms),
        pairs=pairs,
        of_models=few_models or all_pairs or correlate or standardise or pairs != "all",
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        preset=chosen,
    )
    if options.pair_measures:
        _check_pairs(table, options)
        if not options.of_models:
            notice = "models are compared with people, not with each other; --all-pairs adds every two of them"
            table = table.with_notices(f"{len(table.models)} {notice}")
    outputs = Outputs.of(table, trials) if set(names) & set(output_measures) else None
    declared = dict(trials.observers.select("observer", "family").iter_rows())
    del trials  # a large table takes as much memory as all that follows
    groups = stimulus_groups(table, grouping)
    with report_progress(progress) as report:
        blocks = _group_blocks(table, groups, options, outputs, features, report)
    rows = _rows(blocks, grouping, options, set(table.models))
    blocks = _domain_blocks(blocks, grouping)
    if correlate:
        domains = []
        for block in blocks:
            inside = [group.columns for group in groups if group.group[:1] == block.group[:1]]
            weights = draw_observers(table, np.concatenate(inside), resamples=resamples, seed=seed)
            kind = patterns.kind_of_domain(block.group[0][1]) if grouping[:1] == ("experiment",) else None
            domains.append(Domain(block, weights, kind))
        for correlated in correlations(domains, options.pair_measures):
            rows += rows_of(correlated, confidence=confidence, seed=seed)
    if standardise:
        members = families_of(zip(table.observers, table.kinds, strict=True), declared, patterns, PEOPLE)
        rows += [row for block in blocks for row in z_score_rows(block, options.pair_measures, members)]
    for name in options.solo_measures:
        if preset is None and solo_forms[name].choices is not None and not any(row.measure == name for row in rows):
            raise InvalidInput(
                f"{name} needs trials of the cue-conflict experiment with images named SHAPEn-TEXTUREm.png"
            )
    if "experiment" not in grouping:
        table = table.with_notices(*_namesake_notices(table))
    return make_scores(
        rows, table, command="compare", measure=list(names), by=list(grouping), only=split_names(only) or [],
        pairs=pairs, all_pairs=all_pairs, preset=preset, missing=missing, families=split_names(families) or [],
        role=roles, gamma=gamma, resamples=resamples,
        confidence=confidence, seed=seed,
    )  # fmt: skip


def only_models(trials: Trials, names: str | Sequence[str] | None) -> Trials:
    """Return the trials of some models and of all people.

    Args:
        trials: Trials of any observers.
        names: Names of models, or one comma-separated text; None for all models.

    Raises:
        UnknownName: No model has one of these names.

    >>> only_models(read("sample:edges"), ["model:resnet50"]).observers.height
    11
    """
    chosen = split_names(names)
    if chosen is None:
        return trials
    is_person = pl.col("kind").is_in(PEOPLE)
    models = trials.observers.filter(~is_person)["observer"].to_list()
    for name in chosen:
        if name not in models:
            guess = did_you_mean(name, models, otherwise=f"there are {', '.join(models[:3])}")
            raise UnknownName(f"no model is called {name!r}; {guess}")
    return trials.keep(is_person | pl.col("observer").is_in(chosen))


def _measure_names(measure: Sequence[str] | None, preset: Preset | None) -> tuple[str, ...]:
    """Return the registered names of the measures that the user, the preset or the default asks for."""
    asked = measure or (preset.measures if preset else DEFAULT_MEASURES)
    names = tuple(dict.fromkeys(measures.name_of(name) for name in asked))
    able = [*solo_forms, *pair_forms, *output_measures, *feature_measures]
    for name in names:
        if name not in able:
            raise InvalidInput(
                f"compare takes measures of answers, outputs and features ({', '.join(able)}), got {name}"
            )
    return names


def _possible_measures(
    names: Sequence[str], trials: Trials, features: Features | None
) -> tuple[tuple[str, ...], list[str]]:
    """Leave out the measures of a preset that need what no observer has; also return a notice for each reason."""
    lacking = {}
    if trials.frame["probabilities"].null_count() == len(trials):
        lacking["no observer gave probabilities"] = set(output_measures)
    if features is None or not any(features.files):
        lacking["no model has stored features (evaluate --features)"] = set(feature_measures)
    left_out = {name for impossible in lacking.values() for name in impossible}
    notices = []
    for reason, impossible in lacking.items():
        if wanted := [name for name in names if name in impossible]:
            notices.append(f"{reason}: {', '.join(wanted)} left out")
    return tuple(name for name in names if name not in left_out), notices


def _apply_preset(table: AlignedTrials, preset: Preset) -> AlignedTrials:
    """Leave out the stimuli that a preset does not score."""
    scored = table.columns.select(preset.keeps()).to_series().to_numpy()
    if not scored.any():
        raise InvalidInput(f"preset {preset.name} leaves out every condition of these trials; compare without --preset")
    if scored.all():
        return table
    return table.keep(scored, f"preset {preset.name}: {int((~scored).sum())} of {len(scored)} stimuli left out")


def _impute_randomly(table: AlignedTrials, seed: int) -> AlignedTrials:
    """Replace missing answers by classes drawn at random, each observer's from a random stream of its own."""
    response = table.answers.response.copy()
    classes = table.answers.classes - (ABSTAIN in table.labels)  # a random answer is never `abstain`
    blank = response == NO_ANSWER
    for row, name in enumerate(table.observers):
        rng = random_stream(seed, "missing answers", name)
        response[row, blank[row]] = rng.integers(0, classes, int(blank[row].sum()))
    imputed = replace(table, answers=replace(table.answers, response=response))
    return imputed.with_notices(f"{int(blank.sum())} missing answers were drawn at random")


def _check_pairs(table: AlignedTrials, options: _Options) -> None:
    """Raise where there is no pair of the kind asked for, or no pair that shares stimuli."""
    pairs = pairs_of(table.people, options.pairs)
    if not len(pairs):
        people, others = int(table.people.sum()), int((~table.people).sum())
        raise InvalidInput(
            f"--pairs {options.pairs} needs such a pair (all: two observers), got {people} people and {others} models; "
            f"choose among {', '.join(PAIR_KINDS)} or add trials"
        )
    on_shared = [name for name in options.pair_measures if name not in pair_forms or pair_forms[name].shared]
    if on_shared and not common_trials(table.answers, pairs).any():
        one, two = (table.observers[i] for i in pairs[0])
        of_one, of_two = (table.columns.filter(table.answers.response[i] != NOT_SHOWN) for i in pairs[0])
        raise InvalidInput(
            f"observers must share stimuli to be compared ({', '.join(on_shared)}), got none common to any pair; of "
            f"{one} and {two}: {explain_mismatch(of_one, of_two)}"
        )


def _namesake_notices(table: AlignedTrials) -> list[str]:
    """Return a notice where people of one name took part in several experiments and count as one person."""
    experiments = table.columns["experiment"].to_numpy()
    several = sum(len(set(experiments[shown])) > 1 for shown in table.answers.shown[table.people])
    if not several:
        return []
    return [f"{several} people's names occur in several experiments: each counts as one person; --by experiment if not"]


def _group_blocks(
    table: AlignedTrials,
    groups: Sequence[StimulusGroup],
    options: _Options,
    outputs: Outputs | None,
    features: Features | None,
    progress: Progress | None,
) -> list[Block]:
    """Compute all numbers of every group with their resamples, one block per group."""
    cue_measures = [name for name in options.solo_measures if solo_forms[name].choices is not None]
    textures = texture_codes(table.columns, table.labels) if cue_measures else None
    blocks = []
    for index, group in enumerate(groups):
        if progress:
            progress(index, len(groups), "; ".join(value for _, value in group.group) or "all trials")
        texture = None if textures is None else textures[group.columns]
        texture = None if texture is None or not (texture >= 0).any() else texture
        blocks.append(_group_block(table, group, options, texture, outputs, features))
    if progress:
        progress(len(groups), len(groups), "")
    return blocks


def _group_block(
    table: AlignedTrials,
    group: StimulusGroup,
    options: _Options,
    texture: CodeArray | None,
    outputs: Outputs | None,
    features: Features | None,
) -> Block:
    # ceilings beside a model that has not met all stimuli are computed on some columns, which then must not be merged
    complete = bool((table.answers.at(group.columns).response != NOT_SHOWN).all())
    merge = texture is None and outputs is None and features is None and complete
    draw = draw_resamples(table, group, resamples=options.resamples, seed=options.seed, merge=merge)
    blocks = [block for name in options.solo_measures if (block := solo_block(draw, name, texture)) is not None]
    people = table.people[draw.observer_index]
    pairs = pairs_of(people, options.pairs)
    if not options.of_models:
        pairs = pairs[people[pairs].any(axis=1)]
    if len(pairs):
        forms = {}
        for name in options.pair_measures:
            if features is not None and name in feature_measures:
                forms[name] = feature_form(name, features, draw.observer_index, draw.columns)
            elif outputs is not None and name in output_measures:
                forms[name] = output_form(name, outputs, draw.observer_index, draw.columns)
            else:
                forms[name] = pair_forms[name]
        if options.preset is not None:
            forms = {name: options.preset.form(name, form) for name, form in forms.items()}
        pooled: dict[str, PairForm] = {}
        if options.preset is None and (groups := groups_to_pool(draw)):
            pooled = {name: form for name, form in forms.items() if form.pooled is not None}
            rest = pairs[~pairs_within(pairs, groups)]
            blocks += pooled_blocks(draw, groups, pooled) if len(rest) < len(pairs) else []
            blocks += pair_blocks(draw, rest, pooled, options.confidence) if len(rest) and pooled else []
        others = {name: form for name, form in forms.items() if name not in pooled}
        blocks += pair_blocks(draw, pairs, others, options.confidence) if others else []
        if options.pairs != "model-model":
            blocks += ceiling_blocks(draw, forms)
        if options.pairs == "all":
            blocks += model_ceiling_blocks(draw, others, blocks, options.confidence)
    return join_blocks(blocks) if blocks else empty_block(group.group, options.resamples)


def _two_closest(rows: Sequence[Row], measure: str, group: GroupKey) -> set[str]:
    """Return the names of the two models that are closest to people."""
    ranks = [row for row in rows if (row.measure, row.statistic, row.group) == (measure, "rank", group)]
    ordered = sorted((row.value, row.observer) for row in ranks if row.value is not None)
    return {name for _, name in ordered[:2]}


def _domain_blocks(blocks: list[Block], by: tuple[str, ...]) -> list[Block]:
    """Return the numbers of each domain: the groups or, with several keys, the means over all but the first key."""
    if len(by) < 2:
        return blocks
    return [block for block in nested_means(blocks, by) if block.group[0][1] != "*" and block.group[1][1] == "*"]


def _rows(blocks: list[Block], by: tuple[str, ...], options: _Options, models: set[str]) -> list[Row]:
    """Return the rows of every group and of their means, then differences between models."""
    confidence, seed = options.confidence, options.seed
    means = nested_means(blocks, by)
    rows: list[Row] = []
    for block in [*blocks, *means]:
        rows += rows_of(block, confidence=confidence, seed=seed, without=INTERNAL)
        if normalised := normalise_by_ceiling(block, models):
            rows += rows_of(join_blocks(normalised), confidence=confidence, seed=seed)
        for name in options.pair_measures:
            index = models_against_people(block, name, models)
            rows += rank_rows(block, index, of="models", confidence=confidence, seed=seed)
    overall = means[-1] if means else blocks[0]
    for name in options.pair_measures:
        compared = models if options.of_models else _two_closest(rows, name, overall.group)
        rows += difference_rows(overall, name, compared, confidence=confidence, seed=seed)
    return rows
