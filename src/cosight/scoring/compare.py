"""`cosight compare`: how alike do these observers see?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from cosight.errors import InvalidInput
from cosight.measures import measures, pair_forms, solo_forms
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, CodeArray, common_trials
from cosight.measures.declarations import PairForm
from cosight.scoring.presets import Preset, presets
from cosight.statistics.blocks import Block, empty_block, join_blocks, nested_means, rows_of
from cosight.statistics.contrasts import (
    correlations,
    difference_rows,
    models_against_people,
    normalise_by_ceiling,
    rank_rows,
)
from cosight.statistics.outputs import Outputs, output_form, output_measures
from cosight.statistics.pair_scores import (
    PAIR_KINDS,
    PAIRED,
    PairKind,
    ceiling_blocks,
    model_ceiling_blocks,
    pair_blocks,
    pairs_of,
)
from cosight.statistics.resampling import Draw, draw_resamples, random_stream
from cosight.statistics.rows import Row, Scores, check_names, make_scores
from cosight.statistics.score_forms import solo_block
from cosight.trials.formats import read
from cosight.trials.join import AlignedTrials, StimulusGroup, align, stimulus_groups, texture_codes
from cosight.trials.spaces import ABSTAIN, LabelSpace
from cosight.trials.summary import mismatch, overlap_notices, shared_with_models
from cosight.trials.table import Trials

__all__ = ["DEFAULT_MEASURES", "MISSING", "Missing", "Progress", "compare"]

DEFAULT_MEASURES = (
    "accuracy",
    "error_consistency",
    "misclassification_agreement",
    "class_level_error_similarity",
)
Missing = Literal["leave-out", "random"]
MISSING: tuple[str, ...] = get_args(Missing)


@dataclass(frozen=True, slots=True)
class _Options:
    """What is asked of every cell."""

    solos: tuple[str, ...]
    duos: tuple[str, ...]
    pairs: str
    resamples: int
    confidence: float
    seed: int


Progress = Callable[[int, int, str], None]  # cells done, cells in all, what is next


def compare(
    *sources: str | Path | Trials,
    measure: Sequence[str] | None = None,
    by: Sequence[str] | None = None,
    pairs: PairKind = "all",
    preset: str | None = None,
    missing: Missing = "leave-out",
    correlate: bool = False,
    labels: str | LabelSpace | None = None,
    role: Sequence[str] = ("test",),
    gamma: float = 0.5,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Scores:
    """Compare observers: how alike are their answers and errors? Every number has an interval.

    Rows for each observer, each pair, each mean over a group (people, models), people's ceilings, each model's value
    normalised by the ceiling, its rank, and the paired difference of every two models against the same people. With
    `by`, one row per group and the mean over groups with equal weights.

    People and models are compared on the stimuli they share: stimuli that no model answered are left out, and the
    ceiling beside a model that answered only some of the rest is computed on those.

    Args:
        *sources: Trial files, folders of trial files, runs, or samples (sample:NAME).
        measure: Comma-separated measure names or aliases (`cosight list measures`).
        by: Comma-separated columns to group by: experiment, condition, level, truth.
        pairs: Which pairs of observers to compare.
        preset: Published way of scoring: exclusions, grouping and measures (`cosight list presets`).
        missing: Missing answers: left out (wrong for error consistency), or replaced by random classes as in Xu et al.
            2024.
        correlate: Also compute rank correlations between the measures, over pairs of observers.
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names.
        role: Comma-separated roles of the trials to use: test, repeat, distractor, gold, check, warmup or all
            (default: first showings of test stimuli).
        gamma: An observer whose abstention exceeds this has abstained.
        resamples: Number of bootstrap resamples behind each interval.
        confidence: Confidence level of the intervals.
        seed: Seed of everything random.
        progress: Called with groups done, groups in all, and the group's name.

    Returns:
        Score rows, one per number.

    Raises:
        InvalidInput: An argument is wrong, or the trials do not have what a measure needs.
        UnknownName: A measure, preset or label space does not exist.

    >>> scores = compare("sample:edges", measure=["error_consistency"], resamples=10)
    >>> scores.rows[0].measure
    'error_consistency'
    """
    chosen = None if preset is None else presets[preset]
    names = _names(measure, chosen)
    if resamples < 1:
        raise InvalidInput(f"--resamples must be 1 or more, got {resamples}; 1000 is usual")
    if missing not in MISSING:
        raise InvalidInput(f"--missing must be one of {', '.join(MISSING)}, got {missing!r}")
    grouping = tuple(by if by is not None else (chosen.by if chosen else ()))
    trials = read(*sources, labels=labels)
    table = _table(trials, chosen, gamma, role)
    check_names(table.observers)
    if not table.answers.shown.any():
        raise InvalidInput("comparing needs the truth of some stimulus, got none; add trials that have it")
    table = replace(table, notices=(*table.notices, *overlap_notices(table)))
    if pairs in ("all", "human-model"):
        table = shared_with_models(table)
    if missing == "random":
        table = _guessed(table, seed)
    options = _Options(
        tuple(n for n in names if n in solo_forms),
        tuple(n for n in names if n not in solo_forms),
        pairs,
        resamples,
        confidence,
        seed,
    )
    outputs = Outputs.of(table, trials) if set(names) & set(output_measures) else None
    _check(table, options)
    blocks = _blocks(table, stimulus_groups(table, grouping), options, outputs, progress)
    if "experiment" not in grouping:
        table = replace(table, notices=(*table.notices, *_namesakes(table)))
    models = {name for name, person in zip(table.observers, table.people, strict=True) if not person}
    rows = _rows(blocks, grouping, options, models, correlate)
    for name in options.solos:
        if preset is None and solo_forms[name].choices is not None and not any(row.measure == name for row in rows):
            raise InvalidInput(
                f"{name} needs trials of the cue-conflict experiment with images named SHAPEn-TEXTUREm.png"
            )
    return make_scores(
        rows, table, command="compare", measure=list(names), by=list(grouping), pairs=pairs, preset=preset,
        missing=missing, role=list(role), gamma=gamma, resamples=resamples, confidence=confidence, seed=seed,
    )  # fmt: skip


def _names(asked: Sequence[str] | None, preset: Preset | None) -> tuple[str, ...]:
    names = tuple(
        dict.fromkeys(measures.name_of(n) for n in (asked or (preset.measures if preset else DEFAULT_MEASURES)))
    )
    for name in names:
        if name not in pair_forms and name not in solo_forms and name not in output_measures:
            able = ", ".join([*solo_forms, *pair_forms, *output_measures])
            raise InvalidInput(f"compare takes measures of answers and outputs ({able}), got {name}")
    return names


def _table(trials: Trials, preset: Preset | None, gamma: float, role: Sequence[str]) -> AlignedTrials:
    table = align(trials, gamma=gamma, roles=role)
    if preset is None:
        return table
    kept = table.columns.select(preset.keeps()).to_series().to_numpy()
    if not kept.any():
        raise InvalidInput(f"preset {preset.name} leaves out every condition of these trials; compare without --preset")
    notice = f"preset {preset.name}: {int((~kept).sum())} of {len(kept)} stimuli left out"
    return replace(
        table,
        answers=table.answers.at(kept),
        columns=table.columns.filter(kept),
        rows=table.rows[:, kept],
        notices=(*table.notices, notice),
    )


def _namesakes(table: AlignedTrials) -> list[str]:
    """A notice where people of one name took part in several experiments and are taken for one."""
    experiments = table.columns["experiment"].to_numpy()
    shown = table.answers.shown[table.people]
    often = sum(len(set(experiments[row])) > 1 for row in shown)
    if not often:
        return []
    return [
        f"{often} people's names occur in several experiments: each is taken for one person; --by experiment if not"
    ]


def _guessed(table: AlignedTrials, seed: int) -> AlignedTrials:
    """Missing answers replaced by classes drawn at random."""
    response = table.answers.response.copy()
    classes = table.answers.classes - (ABSTAIN in table.labels)  # nobody guesses by refusing
    blank = response == NO_ANSWER
    for row, name in enumerate(table.observers):  # a stream each: one observer more changes no other's answers
        rng = random_stream(seed, "missing answers", name)
        response[row, blank[row]] = rng.integers(0, classes, int(blank[row].sum()))
    notice = f"{int(blank.sum())} missing answers were drawn at random"
    return replace(table, answers=replace(table.answers, response=response), notices=(*table.notices, notice))


def _check(table: AlignedTrials, options: _Options) -> None:
    """Refuse tables in which nothing can be compared."""
    if not options.duos:
        return
    pairs = pairs_of(table.people, options.pairs)
    if not len(pairs):
        people, others = int(table.people.sum()), int((~table.people).sum())
        raise InvalidInput(
            f"--pairs {options.pairs} needs such a pair (all: two observers), got {people} people and {others} models; "
            f"choose among {', '.join(PAIR_KINDS)} or add trials"
        )
    joint = [n for n in options.duos if n not in pair_forms or pair_forms[n].shared]
    if joint and not common_trials(table.answers, pairs).any():
        one, two = (table.observers[i] for i in pairs[0])
        mine, theirs = (table.columns.filter(table.answers.response[i] != NOT_SHOWN) for i in pairs[0])
        raise InvalidInput(
            f"observers must share stimuli to be compared ({', '.join(joint)}), got none common to any pair; of {one} "
            f"and {two}: {mismatch(mine, theirs)}"
        )


def _blocks(
    table: AlignedTrials,
    parts: Sequence[StimulusGroup],
    options: _Options,
    outputs: Outputs | None,
    progress: Progress | None,
) -> list[Block]:
    cue_measures = [name for name in options.solos if solo_forms[name].choices is not None]
    texture = texture_codes(table.columns, table.labels) if cue_measures else None
    blocks = []
    for index, cell in enumerate(parts):
        if progress:
            progress(index, len(parts), "; ".join(value for _, value in cell.group) or "all trials")
        cues = None if texture is None or not (texture[cell.columns] >= 0).any() else texture[cell.columns]
        blocks.append(_block(table, cell, options, cues, outputs))
    if progress:
        progress(len(parts), len(parts), "")
    return blocks


def _block(
    table: AlignedTrials, cell: StimulusGroup, options: _Options, texture: CodeArray | None, outputs: Outputs | None
) -> Block:
    """All numbers of a cell with their resamples."""
    whole = (table.answers.at(cell.columns).response != NOT_SHOWN).all()  # else ceilings are taken on some columns
    only_answers = texture is None and outputs is None and bool(whole)
    draw = draw_resamples(table, cell, resamples=options.resamples, seed=options.seed, merge=only_answers)
    blocks = [block for name in options.solos if (block := solo_block(draw, name, texture)) is not None]
    pairs = pairs_of(table.people[draw.observer_index], options.pairs)
    if len(pairs):
        forms = {name: _form(name, draw, outputs) for name in options.duos}
        blocks += pair_blocks(draw, pairs, forms, options.confidence)
        if options.pairs != "model-model":
            blocks += ceiling_blocks(draw, forms)
        if options.pairs == "all":
            blocks += model_ceiling_blocks(draw, forms, blocks, options.confidence)
    return join_blocks(blocks) if blocks else empty_block(cell.group, options.resamples)


def _form(name: str, draw: Draw, outputs: Outputs | None) -> PairForm:
    if outputs is None or name in pair_forms:
        return pair_forms[name]
    return output_form(name, outputs, draw.observer_index, draw.columns)


def _rows(blocks: list[Block], by: tuple[str, ...], options: _Options, models: set[str], correlate: bool) -> list[Row]:
    means = nested_means(blocks, by)
    rows: list[Row] = []
    for block in [*blocks, *means]:
        shares = normalise_by_ceiling(block, models)
        shown = block.at([i for i, key in enumerate(block.keys) if key.statistic != PAIRED])
        rows += rows_of(join_blocks([shown, *shares]), confidence=options.confidence, seed=options.seed)
        for name in options.duos:
            ranked = models_against_people(block, name, models)
            rows += rank_rows(block, ranked, of="models", confidence=options.confidence, seed=options.seed)
    top = means[-1] if means else blocks[0]
    for name in options.duos:
        rows += difference_rows(top, name, models, confidence=options.confidence, seed=options.seed)
    if correlate:
        domains = _domains(blocks, means, by)
        for block in correlations(domains, options.duos):
            rows += rows_of(block, confidence=options.confidence, seed=options.seed)
    return rows


def _domains(blocks: list[Block], means: list[Block], by: tuple[str, ...]) -> list[Block]:
    """The domains over which measures are correlated: the values of the first key of the grouping."""
    if len(by) < 2:
        return blocks
    return [block for block in means if block.group[0][1] != "*" and block.group[1][1] == "*"]
