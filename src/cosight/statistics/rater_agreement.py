"""Agreement of people with each other and with themselves: Fleiss, Krippendorff, Cronbach.

`cosight score`, `cosight study quality` and the experimenter's page all call these functions, so a coefficient has one
definition and, for one seed, one interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import FloatArray, IntArray
from cosight.measures.agreement import (
    cronbach_alpha,
    cronbach_alpha_resampled,
    fleiss_kappa,
    fleiss_kappa_resampled,
    krippendorff_alpha,
    krippendorff_alpha_resampled,
)
from cosight.measures.answers import NOT_SHOWN, Answers
from cosight.measures.arithmetic import BLOCK
from cosight.measures.draws import draw_people
from cosight.statistics.blocks import Block, Flags, Key, make_block, rows_of
from cosight.statistics.resampling import ENOUGH_PEOPLE, Draw, ObserverGroup, draw_resamples, random_stream
from cosight.statistics.rows import Row
from cosight.trials.clusters import with_clusters
from cosight.trials.join import AlignedTrials, StimulusGroup, align
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import Trials, has_role

__all__ = ["AGREEMENT", "INTRA", "agreement_blocks", "agreement_rows", "align_repeats", "repeats_of"]

INTRA = "intra_annotator_kappa"
AGREEMENT = ("fleiss_kappa", INTRA, "krippendorff_alpha", "cronbach_alpha")
_NO_GOLD = NOT_SHOWN - 1  # a code that nobody's answer has


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A coefficient with its resamples, before it becomes a block."""

    value: float
    resampled: FloatArray  # (resamples,)
    n: int
    note: str
    clusters: int | None = None  # units that are resampled; None for the n items
    over_people: bool = False  # whether these are people
    flags: Flags = ()


def agreement_rows(trials: Trials, *, resamples: int, seed: int, confidence: float = 0.95) -> list[Row]:
    """Compute every coefficient of people's agreement on the first showings of test stimuli, all stimuli pooled.

    Args:
        trials: Trials of people; others are ignored. Real and simulated people have rows of their own.
        resamples: The number of resamples behind each interval.
        seed: Of the resamples.
        confidence: Of the intervals.

    Returns:
        One row per coefficient and group of people; none where there is no test trial.
    """
    if not trials.frame.filter(has_role(("test",))).height:
        return []
    table, all_showings = with_clusters(align(trials), trials, None), align_repeats(trials)
    all_stimuli = StimulusGroup((), np.arange(table.columns.height))
    draw = draw_resamples(table, all_stimuli, resamples=resamples, seed=seed, merge=False)
    repeats = repeats_of(all_showings, table, draw)
    blocks = [
        block
        for people in draw.people_groups
        for block in agreement_blocks(draw, people, AGREEMENT, repeats, can_abstain=ABSTAIN in table.labels)
    ]
    return [row for block in blocks for row in rows_of(block, confidence=confidence, seed=seed)]


def align_repeats(trials: Trials, *, gamma: float = 0.5) -> AlignedTrials:
    """Align all showings of test stimuli, which agreement within people needs."""
    return align(trials, gamma=gamma, roles=("test", "repeat"))


def repeats_of(all_showings: AlignedTrials, table: AlignedTrials, draw: Draw) -> Draw:
    """Draw resamples of all showings of the stimuli of a draw.

    Args:
        all_showings: The table of `align_repeats`.
        table: The table that `draw` was made from.
        draw: First showings of a group of stimuli.
    """
    keys = table.columns["key"].gather(draw.columns)
    columns = np.flatnonzero(all_showings.columns["key"].is_in(keys.implode()).to_numpy())
    clusters = table.clusters
    if clusters is not None:  # of the same stimuli, which have further presentations here
        first = table.columns.select("key", column=pl.int_range(pl.len())).unique("key", keep="first")
        index = all_showings.columns.join(first, on="key", how="left", maintain_order="left")["column"]
        known = index.fill_null(-1).to_numpy()
        all_showings = replace(all_showings, clusters=np.where(known >= 0, clusters[:, known], -1))
    group = StimulusGroup(draw.group, columns.astype(np.int64), draw.pools)
    return draw_resamples(all_showings, group, resamples=draw.resamples, seed=draw.seed, merge=False)


def agreement_blocks(
    draw: Draw, people: ObserverGroup, names: Sequence[str], repeats: Draw | None, *, can_abstain: bool
) -> list[Block]:
    """Compute coefficients of agreement of one group of people.

    Args:
        draw: The first showings of a group of stimuli and their resamples.
        people: One of `draw.people_groups`.
        names: Coefficients, of `AGREEMENT`.
        repeats: All showings of the same stimuli, from `repeats_of`; only `intra_annotator_kappa` needs them.
        can_abstain: Whether `abstain` is an answer.

    Returns:
        One block of one number per coefficient.
    """
    answers = draw.answers.of(people.members)
    compute = {
        "fleiss_kappa": lambda: _fleiss(answers, draw, people.name),
        "krippendorff_alpha": lambda: _krippendorff(answers, draw, people.name),
        INTRA: lambda: _intra(repeats or draw, people.name),
        "cronbach_alpha": lambda: _cronbach(answers, draw, people, can_abstain=can_abstain),
    }
    blocks = []
    for name in names:
        estimate = compute[name]()
        block = make_block(
            draw.group,
            [Key(people.name, None, name)],
            np.array([estimate.value]),
            estimate.resampled[None],
            np.array([estimate.n]),
            notes=[estimate.note],
            flags=[("undefined",) if np.isnan(estimate.value) else estimate.flags],
            clusters=np.array([estimate.n if estimate.clusters is None else estimate.clusters]),
            over_people=estimate.over_people,
        )
        blocks.append(draw.with_stimulus_clusters(block))
    return blocks


def _answer_counts(answers: Answers) -> IntArray:
    """Return how many people gave each answer to each column, (columns, classes)."""
    return np.stack([(answers.response == code).sum(axis=0) for code in range(answers.classes)], axis=1)


def _why_undefined(value: float, n: int) -> str:
    if not np.isnan(value):
        return ""
    return "undefined: all answers are the same" if n else "undefined: no stimulus has two answers"


def _fleiss(answers: Answers, draw: Draw, people: str) -> _Estimate:
    counts = _answer_counts(answers)
    kappa = fleiss_kappa(counts)
    left_out = f", {kappa.left_out} with fewer than two answers left out" if kappa.left_out else ""
    note = _why_undefined(kappa.value, kappa.n) or f"{answers.observers} {people}; interval over stimuli{left_out}"
    resampled = draw.resample([lambda _, weights: fleiss_kappa_resampled(counts, weights)])[0]
    return _Estimate(kappa.value, resampled, kappa.n, note)


def _krippendorff(answers: Answers, draw: Draw, people: str) -> _Estimate:
    ratings = np.where(answers.response >= 0, answers.response.astype(np.float64), np.nan)
    alpha = krippendorff_alpha(ratings)
    note = _why_undefined(alpha.value, alpha.n) or f"nominal, {answers.observers} {people}; interval over stimuli"
    resampled = draw.resample([lambda _, weights: krippendorff_alpha_resampled(ratings, weights)])[0]
    return _Estimate(alpha.value, resampled, alpha.n, note)


def _intra(repeats: Draw, people: str) -> _Estimate:
    """Compute Fleiss' kappa of each person's answers to the same stimulus: an item is a person and a stimulus.

    A person is resampled with all their items. Where people are too few for that, stimuli are resampled.
    """
    members = next((group.members for group in repeats.people_groups if group.name == people), np.empty(0, np.int64))
    answers = repeats.answers.of(members)
    undefined = _Estimate(
        float("nan"), np.full(repeats.resamples, np.nan), 0, "undefined: nobody answered a stimulus twice"
    )
    keys, first_column, stimulus_of = np.unique(repeats.stimuli, return_index=True, return_inverse=True)
    showings = np.zeros((len(keys), answers.observers), dtype=np.int16)  # answers of each person to each stimulus
    np.add.at(showings, stimulus_of, (answers.response >= 0).T)
    stimulus, person = np.nonzero(showings >= 2)  # of each item
    if not len(person):
        return undefined
    item_of = np.full(showings.shape, -1)
    item_of[stimulus, person] = np.arange(len(person))
    rows, columns = np.nonzero(answers.response >= 0)
    items = item_of[stimulus_of[columns], rows]
    counts = np.zeros((len(person), answers.classes), dtype=np.int64)
    np.add.at(counts, (items[items >= 0], answers.response[rows, columns][items >= 0]), 1)
    kappa, persons = fleiss_kappa(counts), len(set(person.tolist()))
    over_people = persons >= ENOUGH_PEOPLE
    interval = f"interval over {people if over_people else 'stimuli'}"
    note = _why_undefined(kappa.value, kappa.n) or f"{kappa.n} pairs of {persons} {people}; {interval}"
    if not over_people:
        resampled = repeats.resample(
            [lambda _, weights: fleiss_kappa_resampled(counts, weights[:, first_column[stimulus]])]
        )[0]
        clusters = len(set(stimulus.tolist()))
        return _Estimate(kappa.value, resampled, kappa.n, note, clusters=clusters, flags=("few_people",))
    weights = repeats.observer_weights[:, members]
    step = max(1, BLOCK // len(person))
    parts = [weights[start : start + step, person] for start in range(0, len(weights), step)]
    resampled = np.concatenate([fleiss_kappa_resampled(counts, part) for part in parts])
    return _Estimate(kappa.value, resampled, kappa.n, note, clusters=persons, over_people=True)


def _cronbach(answers: Answers, draw: Draw, people: ObserverGroup, *, can_abstain: bool) -> _Estimate:
    """Compute Cronbach's alpha of complete forms, averaged where there are several.

    A complete form is a set of stimuli that several people were shown. The right answer is the gold answer of Lee et
    al. (2023, D.1): the stimulus' own label if more than half chose it, else `abstain`; where nobody can abstain, the
    commonest answer. A missing answer is wrong.
    """
    undefined = np.full(draw.resamples, np.nan)
    forms = _complete_forms(answers)
    if not forms:
        reason = "undefined: alpha needs complete forms, several people shown the same two or more stimuli"
        return _Estimate(float("nan"), undefined, 0, f"{reason} (forms = true in a study)")
    correct = (answers.response == _gold_answers(answers, can_abstain=can_abstain)).astype(np.float64)
    values, resampled = [], []
    for persons, columns in forms:
        scores = correct[np.ix_(persons, columns)]
        values.append(cronbach_alpha(scores).value)
        names = [draw.names[row] for row in people.members[persons]]  # the same resamples in every group of stimuli
        weights = draw_people(len(persons), draw.resamples, random_stream(draw.seed, "people of a form", *names))
        enough = len(persons) >= ENOUGH_PEOPLE
        resampled.append(cronbach_alpha_resampled(scores, weights) if enough else undefined)
    defined = [i for i, value in enumerate(values) if not np.isnan(value)]
    shown = int((answers.response != NOT_SHOWN).any(axis=1).sum())
    complete = sum(len(persons) for persons, _ in forms)
    left_out = f", {shown - complete} without a complete form left out" if shown > complete else ""
    if not defined:
        return _Estimate(float("nan"), undefined, 0, f"undefined: everybody has the same number right{left_out}")
    each = ", ".join(f"{values[i]:.3f}" for i in defined)
    several = f"mean of {len(defined)} forms ({each}), " if len(forms) > 1 else ""
    clusters = min(len(forms[i][0]) for i in defined)
    too_few = clusters < ENOUGH_PEOPLE
    interval = f"interval over {people.name}"
    if too_few:
        interval = f"no interval, fewer than {ENOUGH_PEOPLE} {people.name} on a form are too few to resample"
    return _Estimate(
        float(np.mean([values[i] for i in defined])),
        np.mean([resampled[i] for i in defined], axis=0),
        sum(len(forms[i][1]) for i in defined),
        f"{several}right and wrong of {complete} {people.name}; {interval}{left_out}",
        clusters=clusters,
        over_people=True,
        flags=("few_people",) if too_few else (),
    )


def _complete_forms(answers: Answers) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Find the complete forms: two or more people shown the same two or more stimuli, not a part of a larger set.

    Returns:
        The people and the stimuli of each form, in order of the first person.
    """
    shown = answers.response != NOT_SHOWN
    sets, set_of, people = np.unique(shown, axis=0, return_inverse=True, return_counts=True)
    set_of, size = set_of.ravel(), sets.sum(axis=1)
    candidates = np.flatnonzero((people >= 2) & (size >= 2))
    common = sets[candidates].astype(np.float32) @ sets.T.astype(np.float32)
    inside_larger = (common == size[candidates, None]) & (size > size[candidates, None])
    forms = candidates[~inside_larger.any(axis=1)].tolist()
    forms.sort(key=lambda form: np.flatnonzero(set_of == form)[0])
    return [(np.flatnonzero(set_of == form), np.flatnonzero(sets[form])) for form in forms]


def _gold_answers(answers: Answers, *, can_abstain: bool) -> NDArray[np.int64]:
    """Return the gold answer of each column as a code; `_NO_GOLD` where nobody answered."""
    counts = _answer_counts(answers)
    total, commonest = counts.sum(axis=1), counts.argmax(axis=1)
    label = np.where(answers.truth >= 0, answers.truth, commonest)
    majority = 2 * counts[np.arange(len(counts)), label] > total
    otherwise = np.full(len(counts), answers.classes - 1) if can_abstain else commonest  # abstain is the last class
    return np.where(total > 0, np.where(majority, label, otherwise), _NO_GOLD)
