"""Measures of single observers: one registered `ScoreForm` per measure, read by `cosight score`.

A form says what it lacks in some data and computes its numbers, with their resamples, for a group of stimuli. A measure
of another package joins by adding a form to `score_forms`, or a `SoloForm` to `measures.solo_forms` if it is a function
of sums over trials. No command knows a measure by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures import measures, solo_forms
from cosight.measures.answers import NOT_SHOWN, Answers, CodeArray
from cosight.measures.arithmetic import Weights, divide
from cosight.measures.distance import distance_items, entropy
from cosight.registry import Registry
from cosight.statistics.abstention_scores import (
    ACTION_SHARE,
    RELIABILITY,
    RISK,
    reliability_blocks,
    reliability_lacks,
    risk_blocks,
    sweep_rows,
)
from cosight.statistics.answer_shares import ANSWER_SHARE, MOST_LABELS, answer_share_blocks
from cosight.statistics.blocks import Block, Flags, Key, make_block
from cosight.statistics.distances import RESPONSE_AGREEMENT, distance_block, gold_block
from cosight.statistics.gold_labels import Gold
from cosight.statistics.outputs import Outputs
from cosight.statistics.rater_agreement import AGREEMENT, INTRA, agreement_blocks, align_repeats, repeats_of
from cosight.statistics.resampling import Draw
from cosight.statistics.rows import Row
from cosight.statistics.selective_scores import COVERAGE, SELECTIVE_RISK, selective_blocks
from cosight.trials.join import AlignedTrials, texture_codes
from cosight.trials.requests import read_requests
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import Trials

__all__ = [
    "ABSTENTION",
    "ScoreData",
    "ScoreForm",
    "item_means",
    "score_form",
    "score_forms",
    "scored_measures",
    "solo_block",
]

ABSTENTION, _ENTROPY = "mean_abstention", "label_entropy"
_REQUESTS: Mapping[str, pl.Expr] = {  # of vision-language models -> the value of a trial
    "refusal_rate": (pl.col("outcome") == "refused").cast(pl.Float64),
    "unparsed_rate": (pl.col("outcome") == "unparsed").cast(pl.Float64),
    "tokens_per_answer": (pl.col("tokens_in") + pl.col("tokens_out")).cast(pl.Float64),
    "cost_per_answer": pl.col("cost"),
}
_CHOICES = {"two_alternative_share": "2afc", "clustering_share": "cluster"}  # measure -> what is asked


@dataclass(frozen=True, eq=False)
class ScoreData:
    """Aligned trials and everything else that measures of single observers read."""

    table: AlignedTrials
    trials: Trials  # behind the table
    manifest: pl.DataFrame | None  # of the stimulus sets behind the trials
    outputs: Outputs
    gold: Gold
    gold_as_people: bool  # whether gold labels stand for people, whose own answers are not given
    gamma: float  # an observer abstains where its abstention exceeds this
    lam: float  # an Uncertain image counts as Must-Act if more than this fraction of people gave its original label

    @cached_property
    def repeats(self) -> AlignedTrials:
        """The table of all presentations, for agreement within people."""
        return align_repeats(self.trials, gamma=self.gamma)

    @cached_property
    def requests(self) -> Mapping[str, FloatArray]:
        """What the requests behind each trial took, for each of `_REQUESTS`; nan where there were none."""
        table = read_requests(self.trials.frame["extra"]).select(**_REQUESTS).cast(pl.Float64).fill_null(float("nan"))
        return {name: table[name].to_numpy() for name in _REQUESTS}

    @cached_property
    def texture(self) -> CodeArray:
        """The texture class of each column, -1 where it is no cue-conflict image."""
        return texture_codes(self.table.columns, self.table.labels)

    @cached_property
    def tasks(self) -> NDArray[np.str_]:
        """What each column asks: `2afc`, `cluster` (a query of a panel), or an empty text for no forced choice."""
        extra = self.trials.frame["extra"]
        kinds = [
            "" if text is None or '"query"' not in text else "cluster" if '"panel"' in text else "2afc"
            for text in extra.gather(self.table.rows.max(axis=0)).to_list()
        ]
        return np.array(kinds, dtype=np.str_)

    @property
    def several_people(self) -> bool:
        """Whether some stimulus has the answers of several people."""
        return bool(((self.table.answers.response >= 0)[self.table.people].sum(axis=0) > 1).any())

    @property
    def has_probabilities(self) -> bool:
        """Whether any observer gave probabilities."""
        return any(self.outputs.has_probabilities(i) for i in range(len(self.table.observers)))

    @property
    def has_abstention(self) -> bool:
        """Whether any observer gave its abstention."""
        return bool((~np.isnan(self.outputs.abstention)).any())


@dataclass(frozen=True, slots=True)
class ScoreForm:
    """How measures of single observers are computed; measures with the same `blocks` are computed together."""

    lacks: Callable[[ScoreData], str]  # what is missing, in words; an empty text for nothing
    blocks: Callable[[ScoreData, Draw, Sequence[str]], list[Block]]  # the numbers of the measures named
    rows: Callable[[ScoreData, Draw], list[Row]] | None = None  # numbers without an interval
    default: bool = False  # computed unless the user names measures


score_forms: Registry[ScoreForm] = Registry("score-form", listed=False)


def score_form(name: str) -> ScoreForm | None:
    """Return the form of a measure, None where it has none. All measures with a `SoloForm` share one form."""
    if name in score_forms:
        return score_forms[name]
    if name in solo_forms:
        return _CUE_CONFLICT if solo_forms[name].choices is not None else _SOLO
    return None


def scored_measures() -> list[str]:
    """Return the registered measures that have a form, those with a `SoloForm` first."""
    known = set(measures)  # loads the measures of other packages, which add their forms
    return [name for name in dict.fromkeys([*solo_forms, *score_forms]) if name in known]


# ---- two ways to compute blocks that any form can use


def solo_block(draw: Draw, name: str, texture: CodeArray | None) -> Block | None:
    """Compute a measure of each observer, and of each group of people with their trials pooled.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        name: A measure that has a `SoloForm`.
        texture: The texture class of each column, for measures of cue-conflict images; None where there are none.

    Returns:
        The block, or None where the measure does not apply to these stimuli.
    """
    form = solo_forms[name]

    def used_answers(answers: Answers) -> Answers:
        observed = draw.observed(answers)
        return observed if form.choices is None or texture is None else form.choices(observed, texture)

    def totals(answers: Answers, weights: Weights) -> FloatArray:
        return np.moveaxis(form.totals(used_answers(answers), weights), 1, 2)  # (observers, sums, resamples)

    answers = used_answers(draw.answers)
    if (form.choices is not None and texture is None) or not answers.shown.any():
        return None
    trials = form.count(answers)
    shown = answers.response != NOT_SHOWN
    observed = totals(draw.answers, np.ones((1, draw.answers.stimuli), dtype=np.float32))[:, :, 0]
    resampled = draw.resample([totals])[0]
    keys, values, resampled_values, n, clusters = [], [], [], [], []
    notes: list[str] = []
    flags: list[Flags] = []

    def add(observer: str, members: list[int], weights: FloatArray) -> None:
        """Add the measure of some rows of the answers, pooled with weights (resamples, members)."""
        met = shown[members].any(axis=0)
        keys.append(Key(observer, None, name))
        values.append(form.finish(observed[members].sum(axis=0)))
        resampled_values.append(form.finish(np.einsum("osr,ro->rs", resampled[members], weights)))
        n.append(trials[members].sum())
        clusters.append(min(n[-1], draw.cluster_counts(met[None])[0]))

    for row, observer in enumerate(draw.names):
        add(observer, [row], np.ones((draw.resamples, 1)))
        notes.append("")
        flags.append(())
    for group in draw.people_groups:
        if len(group.members) > 1:
            add(group.name, group.members.tolist(), draw.observer_weights[:, group.members])
            pooled = f"pooled over {len(group.members)} {group.name}"
            notes.append(f"{pooled}; {group.too_few_note}" if group.too_few else pooled)
            flags.append(("few_people",) if group.too_few else ())
    block = make_block(
        draw.group,
        keys,
        np.array(values),
        np.stack(resampled_values),
        np.array(n),
        notes=notes,
        flags=flags,
        clusters=np.array(clusters),
    )
    return draw.flag_few_clusters(block)


def item_means(draw: Draw, measure: str, items: Mapping[str, FloatArray]) -> Block:
    """Compute means of values per stimulus, resampled over stimuli.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        measure: The measure that the values belong to.
        items: One value per column of the draw, for each observer; nan values are left out of the mean.
    """
    values = np.stack(list(items.values()))
    defined = ~np.isnan(values)
    filled = np.where(defined, values, 0.0)

    def weighted_means(_: Answers, weights: Weights) -> FloatArray:
        return divide(filled @ weights.T.astype(np.float64), (defined @ weights.T).astype(np.float64))

    n = defined.sum(axis=1).astype(np.float64)
    block = make_block(
        draw.group,
        [Key(observer, None, measure) for observer in items],
        divide(filled.sum(axis=1), n),
        draw.resample([weighted_means])[0],
        n,
    )
    return draw.with_stimulus_clusters(block)


# ---- the forms of the package's own measures: what each lacks in some data, then how each is computed


def _lacks_truth(data: ScoreData) -> str:
    return "" if data.table.answers.shown.any() else "the truth of some stimulus; add trials or a set that has it"


def _lacks_cues(data: ScoreData) -> str:
    return "" if (data.texture >= 0).any() else "the cue-conflict experiment, images named SHAPEn-TEXTUREm.png"


def _lacks_people(data: ScoreData) -> str:
    people, answered = data.table.people, data.table.answers.response >= 0
    common = answered[people].any(axis=0) & (answered[~people].any(axis=0) | (answered[people].sum(axis=0) > 1))
    if common.any() or data.gold_as_people:
        return ""
    return "people who saw the same stimuli; give their trials, or a set with gold labels, with --humans"


def _lacks_answers_of_people(data: ScoreData) -> str:
    lacking = _lacks_people(data)
    if not lacking and not data.table.people.any():
        return "people's own answers, not only gold labels; give their trials with --humans"
    return lacking


def _lacks_several_people(data: ScoreData) -> str:
    return "" if data.several_people else "several people's answers to the same stimuli"


def _lacks_repeats(data: ScoreData) -> str:
    repeated = data.several_people or bool((data.repeats.columns["presentation"] > 0).any())
    return "" if repeated else "several answers of a person to the same stimulus"


def _lacks_probabilities(data: ScoreData) -> str:
    return "" if data.has_probabilities else "probabilities"


def _lacks_abstention(data: ScoreData) -> str:
    return "" if data.has_abstention else "abstention; evaluate with --abstain"


def _lacks_requests(name: str, data: ScoreData) -> str:
    if not np.isnan(data.requests[name]).all():
        return ""
    return "answers of a vision-language model" + (" with a price" if name == "cost_per_answer" else "")


def _lacks_confidence(data: ScoreData) -> str:
    confidence = data.has_probabilities or data.has_abstention
    return _lacks_truth(data) or ("" if confidence else "probabilities or abstention")


def _solo_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    blocks = [solo_block(draw, name, data.texture[draw.columns]) for name in names]
    return [block for block in blocks if block is not None]


def _agreement_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    repeats = repeats_of(data.repeats, data.table, draw) if INTRA in names else None
    can_abstain = ABSTAIN in data.table.labels
    return [
        block
        for people in draw.people_groups
        for block in agreement_blocks(draw, people, names, repeats, can_abstain=can_abstain)
    ]


def _people_distance_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    return [distance_block(draw, data.outputs, names, people) for people in draw.people_groups]


def _distance_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    gold = [gold_block(draw, data.outputs, data.gold, names)] if data.gold_as_people else []
    return [*_people_distance_blocks(data, draw, names), *gold]


def _entropy_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    items = {
        observer: entropy(data.outputs.distributions(i, draw.columns))
        for observer, i in zip(draw.names, draw.observer_index.tolist(), strict=True)
        if data.outputs.has_probabilities(i)
    }
    return [item_means(draw, name, items) for name in names] if items else []


def _abstention_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    items = {}
    for observer, i in zip(draw.names, draw.observer_index.tolist(), strict=True):
        abstention = data.outputs.abstentions(i, draw.columns)
        if not np.isnan(abstention).all():
            items[observer] = abstention
    return [item_means(draw, name, items) for name in names] if items else []


def _request_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    blocks = []
    for name in names:
        items = {}
        for observer, i in zip(draw.names, draw.observer_index.tolist(), strict=True):
            rows = data.table.rows[i, draw.columns]
            values = np.where(rows >= 0, data.requests[name][rows], np.nan)
            if not np.isnan(values).all():
                items[observer] = values
        blocks += [item_means(draw, name, items)] if items else []
    return blocks


def _reliability_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    blocks = reliability_blocks(draw, data.outputs, data.gold, gamma=data.gamma, lam=data.lam)
    return [block.at([i for i, key in enumerate(block.keys) if key.measure in names]) for block in blocks]


def _selective_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    blocks = selective_blocks(draw, data.outputs, gamma=data.gamma)
    blocks = [block.at([i for i, key in enumerate(block.keys) if key.measure in names]) for block in blocks]
    return [block for block in blocks if block.keys]


def _lacks_choices(kind: str) -> Callable[[ScoreData], str]:
    return lambda data: (
        "" if (data.tasks == kind).any() else f"answers to {kind} tasks; judge or study a set with tasks"
    )


def _choice_blocks(data: ScoreData, draw: Draw, names: Sequence[str]) -> list[Block]:
    """Compute shares of right choices; a question without an answer (a tie, a refusal) is left out."""
    response, blocks = draw.answers.response, []
    right = np.where(response >= 0, response == draw.answers.truth, np.nan)
    for name in names:
        asked = data.tasks[draw.columns] == _CHOICES[name]
        items = {observer: np.where(asked, row, np.nan) for observer, row in zip(draw.names, right, strict=True)}
        if asked.any():
            blocks.append(item_means(draw, name, items))
    return blocks


def _lacks_few_labels(data: ScoreData) -> str:
    labels = len(data.table.labels)
    return _lacks_truth(data) or (f"at most {MOST_LABELS} labels, there are {labels}" if labels > MOST_LABELS else "")


_SOLO = ScoreForm(_lacks_truth, _solo_blocks, default=True)
_CUE_CONFLICT = ScoreForm(_lacks_cues, _solo_blocks, default=True)

for _name in AGREEMENT:
    _lacks = _lacks_repeats if _name == INTRA else _lacks_several_people
    score_forms.add(_name, ScoreForm(_lacks, _agreement_blocks, default=_name == "fleiss_kappa"))
for _name in distance_items:
    score_forms.add(_name, ScoreForm(_lacks_people, _distance_blocks, default=_name == "hellinger"))
score_forms.add(RESPONSE_AGREEMENT, ScoreForm(_lacks_answers_of_people, _people_distance_blocks))
score_forms.add(_ENTROPY, ScoreForm(_lacks_probabilities, _entropy_blocks, default=True))
score_forms.add(ABSTENTION, ScoreForm(_lacks_abstention, _abstention_blocks))
for _name in _REQUESTS:
    score_forms.add(_name, ScoreForm(partial(_lacks_requests, _name), _request_blocks, default=True))
score_forms.add(RISK, ScoreForm(_lacks_confidence, lambda data, draw, _: risk_blocks(draw, data.outputs), default=True))
for _name in (COVERAGE, SELECTIVE_RISK):
    score_forms.add(_name, ScoreForm(_lacks_truth, _selective_blocks))
_RELIABILITY = ScoreForm(
    lambda data: reliability_lacks(data.outputs, data.gold),
    _reliability_blocks,
    lambda data, draw: sweep_rows(draw, data.outputs, data.gold, lam=data.lam),
    default=True,
)
score_forms.add(RELIABILITY, _RELIABILITY)
score_forms.add(
    ANSWER_SHARE,
    ScoreForm(_lacks_few_labels, lambda data, draw, _: answer_share_blocks(draw, data.table.labels)),
)
for _name, _kind in _CHOICES.items():
    score_forms.add(_name, ScoreForm(_lacks_choices(_kind), _choice_blocks))
score_forms.add(ACTION_SHARE, replace(_RELIABILITY, rows=None, default=False))
