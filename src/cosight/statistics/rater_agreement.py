"""How far people agree with each other and with themselves: Fleiss, Krippendorff, Cronbach.

`cosight score`, `cosight study quality` and the experimenter's page all call these functions, so a coefficient has one
definition and, for one seed, one interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
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
from cosight.measures.uncertainty import draw_people
from cosight.statistics.blocks import Block, Key, block_of, rows_of
from cosight.statistics.groups import Group
from cosight.statistics.resampling import ENOUGH_PEOPLE, Draw, draw, stream
from cosight.statistics.rows import Row
from cosight.trials.join import AlignedTrials, StimulusGroup, align
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import Trials, of_roles

__all__ = ["AGREEMENT", "INTRA", "agreement_blocks", "agreement_rows", "align_repeats", "repeats_of"]

INTRA = "intra_annotator_kappa"
_NO_GOLD = NOT_SHOWN - 1  # a code that nobody's answer has
AGREEMENT = ("fleiss_kappa", INTRA, "krippendorff_alpha", "cronbach_alpha")


@dataclass(frozen=True, slots=True)
class _Estimate:
    value: float
    samples: FloatArray  # (resamples,)
    n: int
    note: str
    clusters: int | None = None  # units that are resampled; None for the n items
    over_people: bool = False  # whether these are people
    flags: tuple[str, ...] = ()


def agreement_rows(trials: Trials, *, resamples: int, seed: int, confidence: float = 0.95) -> list[Row]:
    """Every coefficient of people's agreement on the first showings of test stimuli, all stimuli pooled.

    Real and simulated people have rows of their own. Without a test trial there are no rows.
    """
    if not trials.frame.filter(of_roles(("test",))).height:
        return []
    table, again = align(trials), align_repeats(trials)
    everything = StimulusGroup((), np.arange(table.columns.height))
    drawn = draw(table, everything, resamples=resamples, seed=seed, merge=False)
    repeats = repeats_of(again, table, drawn)
    blocks = [
        block
        for crowd in drawn.crowds
        for block in agreement_blocks(drawn, crowd, AGREEMENT, repeats, refusing=ABSTAIN in table.labels)
    ]
    return [row for block in blocks for row in rows_of(block, confidence=confidence, seed=seed)]


def align_repeats(trials: Trials, *, gamma: float = 0.5) -> AlignedTrials:
    """The table of all showings of test stimuli, which agreement within people needs."""
    return align(trials, gamma=gamma, roles=("test", "repeat"))


def repeats_of(again: AlignedTrials, table: AlignedTrials, drawn: Draw) -> Draw:
    """All showings of the stimuli of a draw, drawn likewise."""
    keys = table.columns["key"].gather(drawn.cell.columns)
    columns = np.flatnonzero(again.columns["key"].is_in(keys.implode()).to_numpy())
    cell = StimulusGroup(drawn.cell.group, columns.astype(np.int64))
    return draw(again, cell, resamples=len(drawn.times), seed=drawn.seed, merge=False)


def agreement_blocks(
    drawn: Draw, people: Group, names: Sequence[str], repeats: Draw | None, *, refusing: bool
) -> list[Block]:
    """Agreement of one group of people.

    Args:
        drawn: The first showings of some stimuli, and how stimuli and people are drawn again.
        people: The group, of the draw.
        names: Coefficients, of `AGREEMENT`.
        repeats: All showings of the same stimuli, from `repeats_of`; only `intra_annotator_kappa` needs them.
        refusing: Whether `abstain` is an answer.
    """
    answers = drawn.answers.of(people.members)
    makers = {
        "fleiss_kappa": lambda: _fleiss(answers, drawn, people.name),
        "krippendorff_alpha": lambda: _krippendorff(answers, drawn, people.name),
        INTRA: lambda: _intra(repeats or drawn, people.name),
        "cronbach_alpha": lambda: _cronbach(answers, drawn, people, refusing=refusing),
    }
    estimates = [makers[name]() for name in names]
    blocks = [
        block_of(
            drawn.cell.group,
            [Key(people.name, None, name)],
            np.array([estimate.value]),
            estimate.samples[None],
            np.array([estimate.n]),
            notes=[estimate.note],
            flags=[("undefined",) if np.isnan(estimate.value) else estimate.flags],
            clusters=np.array([estimate.n if estimate.clusters is None else estimate.clusters]),
            over_people=estimate.over_people,
        )
        for name, estimate in zip(names, estimates, strict=True)
    ]
    return [drawn.of_stimuli(block) for block in blocks]


def _counts(answers: Answers) -> IntArray:
    """How many people gave each answer to each column, (columns, classes)."""
    return np.stack([(answers.response == code).sum(axis=0) for code in range(answers.classes)], axis=1)


def _why_undefined(value: float, n: int) -> str:
    if not np.isnan(value):
        return ""
    return "undefined: all answers are the same" if n else "undefined: no stimulus has two answers"


def _fleiss(answers: Answers, drawn: Draw, who: str) -> _Estimate:
    counts = _counts(answers)
    found = fleiss_kappa(counts)
    left = f", {found.left_out} with fewer than two answers left out" if found.left_out else ""
    note = _why_undefined(found.value, found.n) or f"{answers.observers} {who}; interval over stimuli{left}"
    samples = drawn.sample([lambda _, w: fleiss_kappa_resampled(counts, w)])[0]
    return _Estimate(found.value, samples, found.n, note)


def _krippendorff(answers: Answers, drawn: Draw, who: str) -> _Estimate:
    ratings = np.where(answers.response >= 0, answers.response.astype(np.float64), np.nan)
    found = krippendorff_alpha(ratings)
    note = _why_undefined(found.value, found.n) or f"nominal, {answers.observers} {who}; interval over stimuli"
    samples = drawn.sample([lambda _, w: krippendorff_alpha_resampled(ratings, w)])[0]
    return _Estimate(found.value, samples, found.n, note)


def _intra(repeats: Draw, who: str) -> _Estimate:
    """Fleiss' kappa of each person's answers to the same stimulus: an item is a person and a stimulus.

    A person is drawn with all their items. Fewer than four people cannot be drawn; then stimuli are.
    """
    members = next((group.members for group in repeats.crowds if group.name == who), np.empty(0, np.int64))
    answers = repeats.answers.of(members)
    nothing = _Estimate(
        float("nan"), np.full(len(repeats.times), np.nan), 0, "undefined: nobody answered a stimulus twice"
    )
    if repeats.clusters is None:
        return nothing
    keys, first, stimulus_of = np.unique(repeats.clusters, return_index=True, return_inverse=True)
    showings = np.zeros((len(keys), answers.observers), dtype=np.int16)  # answers of each person to each stimulus
    np.add.at(showings, stimulus_of, (answers.response >= 0).T)
    stimulus, person = np.nonzero(showings >= 2)
    if not len(person):
        return nothing
    item_of = np.full(showings.shape, -1)
    item_of[stimulus, person] = np.arange(len(person))
    rows, columns = np.nonzero(answers.response >= 0)
    items = item_of[stimulus_of[columns], rows]
    counts = np.zeros((len(person), answers.classes), dtype=np.int64)
    np.add.at(counts, (items[items >= 0], answers.response[rows, columns][items >= 0]), 1)
    found, people = fleiss_kappa(counts), len(set(person.tolist()))
    text = f"{found.n} pairs of {people} {who}"
    if people >= ENOUGH_PEOPLE:
        times = repeats.times[:, members]
        step = max(1, BLOCK // len(person))
        parts = [times[start : start + step, person] for start in range(0, len(times), step)]
        samples = np.concatenate([fleiss_kappa_resampled(counts, part) for part in parts])
        note = _why_undefined(found.value, found.n) or f"{text}; interval over {who}"
        return _Estimate(found.value, samples, found.n, note, clusters=people, over_people=True)
    samples = repeats.sample([lambda _, w: fleiss_kappa_resampled(counts, w[:, first[stimulus]])])[0]
    note = _why_undefined(found.value, found.n) or f"{text}; interval over stimuli"
    shown = len(set(stimulus.tolist()))
    return _Estimate(found.value, samples, found.n, note, clusters=shown, flags=("few_people",))


def _cronbach(answers: Answers, drawn: Draw, people_of: Group, *, refusing: bool) -> _Estimate:
    """Cronbach's alpha of complete forms: people who were shown the same stimuli. The mean, where there are several.

    Right is the gold answer of Lee et al. (2023, D.1): the stimulus' own label if more than half chose it, else
    `abstain`; where nobody can abstain, the commonest answer. A missed answer is wrong.
    """
    who, members = people_of.name, people_of.members
    nothing = np.full(len(drawn.times), np.nan)
    forms = _complete_forms(answers)
    if not forms:
        reason = "undefined: alpha needs complete forms, several people shown the same two or more stimuli"
        return _Estimate(float("nan"), nothing, 0, f"{reason} (forms = true in a study)")
    right = (answers.response == _majority_labels(answers, refusing=refusing)).astype(np.float64)
    values, samples = [], []
    for people, columns in forms:
        scores = right[np.ix_(people, columns)]
        values.append(cronbach_alpha(scores).value)
        names = [drawn.names[row] for row in members[people]]  # the same people are drawn alike in every cell
        times = draw_people(len(people), len(drawn.times), stream(drawn.seed, "people of a form", *names))
        samples.append(cronbach_alpha_resampled(scores, times) if len(people) >= ENOUGH_PEOPLE else nothing)
    defined = [number for number, value in enumerate(values) if not np.isnan(value)]
    shown = np.flatnonzero((answers.response != NOT_SHOWN).any(axis=1))
    complete = sum(len(people) for people, _ in forms)
    left = f", {len(shown) - complete} without a complete form left out" if len(shown) > complete else ""
    if not defined:
        return _Estimate(float("nan"), nothing, 0, f"undefined: everybody has the same number right{left}")
    several = (
        f"mean of {len(defined)} forms ({', '.join(f'{values[i]:.3f}' for i in defined)}), " if len(forms) > 1 else ""
    )
    clusters = min(len(forms[number][0]) for number in defined)
    few = f"no interval, fewer than {ENOUGH_PEOPLE} {who} on a form are too few to resample"
    how = f"interval over {who}" if clusters >= ENOUGH_PEOPLE else few
    note = f"{several}right and wrong of {complete} {who}; {how}{left}"
    value = float(np.mean([values[number] for number in defined]))
    n = sum(len(forms[number][1]) for number in defined)
    mean = np.mean([samples[number] for number in defined], axis=0)
    flags = ("few_people",) if clusters < ENOUGH_PEOPLE else ()
    return _Estimate(value, mean, n, note, clusters=clusters, over_people=True, flags=flags)


def _complete_forms(answers: Answers) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Find the complete forms: two or more people shown the same two or more stimuli, not a part of a larger set.

    Returns:
        The people and the stimuli of each form, in order of the first person.
    """
    shown = answers.response != NOT_SHOWN
    sets, member, sizes = np.unique(shown, axis=0, return_inverse=True, return_counts=True)
    candidates = np.flatnonzero((sizes >= 2) & (sets.sum(axis=1) >= 2))
    width = sets.sum(axis=1)
    common = sets[candidates].astype(np.float32) @ sets.T.astype(np.float32)
    inside = (common == width[candidates, None]) & (width > width[candidates, None])  # a part of somebody's larger set
    whole = candidates[~inside.any(axis=1)]
    whole = whole[np.argsort([np.flatnonzero(member.ravel() == form)[0] for form in whole])] if len(whole) else whole
    return [(np.flatnonzero(member.ravel() == form), np.flatnonzero(sets[form])) for form in whole]


def _majority_labels(answers: Answers, *, refusing: bool) -> NDArray[np.int64]:
    """The gold answer of each column, as a code; `_NO_GOLD` where nobody answered."""
    counts = _counts(answers)
    total, common = counts.sum(axis=1), counts.argmax(axis=1)
    candidate = np.where(answers.truth >= 0, answers.truth, common)
    clear = 2 * counts[np.arange(len(counts)), candidate] > total
    otherwise = np.full(len(counts), answers.classes - 1) if refusing else common  # abstain is the last class
    return np.where(total > 0, np.where(clear, candidate, otherwise), _NO_GOLD)
