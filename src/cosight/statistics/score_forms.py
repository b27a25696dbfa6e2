"""How measures of single observers are computed from aligned trials: one registered form per measure.

`cosight score` knows no measure by name. A form says what it lacks in some data, and computes its numbers, with their
resamples, for a cell. A measure of another package joins by adding a form (or a `SoloForm`, for a measure that is a
function of sums over trials) to the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from cosight.measures import measures, solo_forms
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
from cosight.statistics.blocks import Block
from cosight.statistics.distances import RESPONSE_AGREEMENT, distance_block
from cosight.statistics.gold_distances import gold_block
from cosight.statistics.gold_labels import Gold
from cosight.statistics.observer_scores import item_means, solo_block
from cosight.statistics.outputs import Outputs
from cosight.statistics.rater_agreement import AGREEMENT, INTRA, agreement_blocks, align_repeats, repeats_of
from cosight.statistics.resampling import Draw
from cosight.statistics.rows import Row
from cosight.trials.cues import texture_codes
from cosight.trials.join import AlignedTrials
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import Trials

__all__ = ["ABSTENTION", "ScoreData", "ScoreForm", "score_form", "score_forms", "scored_measures"]

ABSTENTION, _ENTROPY = "mean_abstention", "label_entropy"


@dataclass(frozen=True, eq=False)
class ScoreData:
    """Aligned trials and everything that measures of single observers read."""

    table: AlignedTrials
    trials: Trials  # behind the table
    manifest: pl.DataFrame | None  # of the stimulus sets behind the trials
    outputs: Outputs
    gold: Gold
    gold_as_people: bool  # whether gold labels stand for people, whose own answers are not given
    gamma: float  # an observer abstains where its abstention exceeds this
    lam: float  # an Uncertain image counts as Must-Act if more than this share of people gave its original label

    @cached_property
    def repeats(self) -> AlignedTrials:
        """The table of all showings, for agreement within people."""
        return align_repeats(self.trials, gamma=self.gamma)

    @cached_property
    def texture(self) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
        """The texture class of each column, -1 where it is no cue-conflict image."""
        return texture_codes(self.table.columns, self.table.labels)

    @property
    def several_people(self) -> bool:
        """Whether some stimulus has the answers of several people."""
        return bool(((self.table.answers.response >= 0)[self.table.people].sum(axis=0) > 1).any())


@dataclass(frozen=True, slots=True)
class ScoreForm:
    """One way to compute measures of single observers; several measures may share a form."""

    lacks: Callable[[ScoreData], str]  # what is missing, in words; "" for nothing
    blocks: Callable[[ScoreData, Draw, Sequence[str]], list[Block]]  # the numbers of some of its measures, for a cell
    rows: Callable[[ScoreData, Draw], list[Row]] | None = None  # numbers without an interval
    default: bool = False  # computed unless other measures are asked for


score_forms: Registry[ScoreForm] = Registry("score-form", listed=False)


def score_form(name: str) -> ScoreForm | None:
    """The form of a measure; every measure with a `SoloForm` shares one. None where there is none."""
    if name in score_forms:
        return score_forms[name]
    if name in solo_forms:
        return _CUES if solo_forms[name].choices is not None else _SOLO
    return None


def scored_measures() -> list[str]:
    """The registered measures that have a form, those of sums over trials first."""
    known = set(measures)  # reads the measures of other packages, which add their forms
    return [name for name in dict.fromkeys([*solo_forms, *score_forms]) if name in known]


def _no_truth(data: ScoreData) -> str:
    return "" if data.table.answers.shown.any() else "the truth of some stimulus; add trials or a set that has it"


def _no_cues(data: ScoreData) -> str:
    return "" if (data.texture >= 0).any() else "the cue-conflict experiment, images named SHAPEn-TEXTUREm.png"


def _no_people(data: ScoreData) -> str:
    people, seen = data.table.people, data.table.answers.response >= 0
    common = seen[people].any(axis=0) & (seen[~people].any(axis=0) | (seen[people].sum(axis=0) > 1))
    if common.any() or data.gold_as_people:
        return ""
    return "people who saw the same stimuli; give their trials, or a set with gold labels, with --humans"


def _one_person(data: ScoreData) -> str:
    return "" if data.several_people else "several people's answers to the same stimuli"


def _no_repeats(data: ScoreData) -> str:
    repeated = data.several_people or bool((data.repeats.columns["presentation"] > 0).any())
    return "" if repeated else "several answers of a person to the same stimulus"


def _gives_probabilities(data: ScoreData) -> bool:
    return any(data.outputs.has_probabilities(i) for i in range(len(data.table.observers)))


def _gives_abstention(data: ScoreData) -> bool:
    return bool((~np.isnan(data.outputs.abstention)).any())


def _no_doubt(data: ScoreData) -> str:
    return _no_truth(data) or (
        "" if _gives_probabilities(data) or _gives_abstention(data) else "probabilities or abstention"
    )


def _solos(data: ScoreData, drawn: Draw, names: Sequence[str]) -> list[Block]:
    texture = data.texture[drawn.cell.columns]
    blocks = [solo_block(drawn, name, texture) for name in names]
    return [block for block in blocks if block is not None]


def _distances(data: ScoreData, drawn: Draw, names: Sequence[str]) -> list[Block]:
    blocks = [distance_block(drawn, data.outputs, names, crowd) for crowd in drawn.crowds]
    return [*blocks, gold_block(drawn, data.outputs, data.gold, names)] if data.gold_as_people else blocks


def _no_answers_of_people(data: ScoreData) -> str:
    lacking = _no_people(data)
    if not lacking and not data.table.people.any():
        return "people's own answers, not only gold labels; give their trials with --humans"
    return lacking


def _answers_alike(data: ScoreData, drawn: Draw, names: Sequence[str]) -> list[Block]:
    return [distance_block(drawn, data.outputs, names, crowd) for crowd in drawn.crowds]


def _agreement(data: ScoreData, drawn: Draw, names: Sequence[str]) -> list[Block]:
    repeats = repeats_of(data.repeats, data.table, drawn) if INTRA in names else None
    refusing = ABSTAIN in data.table.labels
    return [
        block for crowd in drawn.crowds for block in agreement_blocks(drawn, crowd, names, repeats, refusing=refusing)
    ]


def _entropies(data: ScoreData, drawn: Draw, names: Sequence[str]) -> list[Block]:
    """Mean entropy of each observer's label distributions, for those that give probabilities."""
    items = {
        observer: entropy(data.outputs.distributions(i, drawn.cell.columns))
        for observer, i in zip(drawn.names, drawn.observers.tolist(), strict=True)
        if data.outputs.has_probabilities(i)
    }
    return [item_means(drawn, name, items) for name in names] if items else []


def _abstentions(data: ScoreData, drawn: Draw, names: Sequence[str]) -> list[Block]:
    """How ready each observer is to abstain."""
    pairs = zip(drawn.names, drawn.observers.tolist(), strict=True)
    items = {observer: data.outputs.abstentions(i, drawn.cell.columns) for observer, i in pairs}
    known = {observer: values for observer, values in items.items() if not np.isnan(values).all()}
    return [item_means(drawn, name, known) for name in names] if known else []


def _reliability(data: ScoreData, drawn: Draw, names: Sequence[str]) -> list[Block]:
    blocks = reliability_blocks(drawn, data.outputs, data.gold, gamma=data.gamma, lam=data.lam)
    return [block.at([i for i, key in enumerate(block.keys) if key.measure in names]) for block in blocks]


_SOLO = ScoreForm(_no_truth, _solos, default=True)
_CUES = ScoreForm(_no_cues, _solos, default=True)

for _name in AGREEMENT:
    score_forms.add(
        _name, ScoreForm(_no_repeats if _name == INTRA else _one_person, _agreement, default=_name == "fleiss_kappa")
    )
for _name in distance_items:
    score_forms.add(_name, ScoreForm(_no_people, _distances, default=_name == "hellinger"))
score_forms.add(RESPONSE_AGREEMENT, ScoreForm(_no_answers_of_people, _answers_alike))
score_forms.add(
    _ENTROPY,
    ScoreForm(lambda data: "" if _gives_probabilities(data) else "probabilities", _entropies, default=True),
)
score_forms.add(
    ABSTENTION,
    ScoreForm(lambda data: "" if _gives_abstention(data) else "abstention; evaluate with --abstain", _abstentions),
)
score_forms.add(RISK, ScoreForm(_no_doubt, lambda data, drawn, _: risk_blocks(drawn, data.outputs), default=True))
_RELIABILITY = ScoreForm(
    lambda data: reliability_lacks(data.outputs, data.gold),
    _reliability,
    lambda data, drawn: sweep_rows(drawn, data.outputs, data.gold, lam=data.lam),
    default=True,
)
score_forms.add(RELIABILITY, _RELIABILITY)
score_forms.add(ACTION_SHARE, replace(_RELIABILITY, rows=None, default=False))
