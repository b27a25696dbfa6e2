"""Observers' label distributions over the stimuli of a table, and measures of pairs of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers, CodeArray
from cosight.measures.arithmetic import Pairs, Weights, divide
from cosight.measures.declarations import PairForm, measures
from cosight.measures.distance import distance_items
from cosight.registry import Registry
from cosight.trials.join import AlignedTrials
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import Trials

__all__ = ["OutputMeasure", "Outputs", "output_form", "output_measures"]


@dataclass(frozen=True, slots=True)
class OutputMeasure:
    """A measure of two observers' label distributions: the mean of a distance per stimulus."""

    distance: Callable[[FloatArray, FloatArray], FloatArray]
    on_errors: bool = False  # only on stimuli that both got wrong


output_measures: Registry[OutputMeasure] = Registry("output-measure", listed=False)
for _name, _distance in distance_items.items():
    output_measures.add(_name, OutputMeasure(_distance))
output_measures.add("softmax_output_consistency", OutputMeasure(distance_items["jensen_shannon"]))
output_measures.add(
    "softmax_output_consistency_on_errors", OutputMeasure(distance_items["jensen_shannon"], on_errors=True)
)


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Probabilities and abstentions of every trial, looked up by observer and column of the table."""

    table: AlignedTrials
    probabilities: NDArray[np.float32]  # (trials, classes without abstain); nan where there are none
    abstention: FloatArray  # (trials,); nan where unknown
    response: CodeArray  # (trials,): the stored answer, before any abstention is applied

    @classmethod
    def of(cls, table: AlignedTrials, trials: Trials) -> Outputs:
        """Return the outputs behind an aligned table; `trials` are those it was made from."""
        classes = len(table.labels) - (ABSTAIN in table.labels)
        column = trials.frame["probabilities"]
        if column.null_count() == len(column):
            probabilities = np.full((len(column), 0), np.nan, dtype=np.float32)
        elif trials.space is None:
            raise InvalidInput(
                "probabilities need a label space that names their classes, got none; name it with --labels"
            )
        else:
            filled = column.fill_null(pl.lit([float("nan")] * classes, dtype=pl.List(pl.Float32)))
            probabilities = filled.list.to_array(classes).to_numpy()
        abstention = trials.frame["abstention"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        codes = {label: index for index, label in enumerate(table.labels)}
        response = trials.frame["response"].replace_strict(codes, default=NO_ANSWER, return_dtype=pl.Int16)
        return cls(table, probabilities, abstention, response.to_numpy())

    def has_probabilities(self, observer: int) -> bool:
        """Return whether an observer gave probabilities for any stimulus."""
        rows = self.table.rows[observer]
        return self.probabilities.shape[1] > 0 and bool((~np.isnan(self.probabilities[rows[rows >= 0], 0])).any())

    def abstentions(self, observer: int, columns: NDArray[np.int64]) -> FloatArray:
        """Return an observer's abstention for each column; nan where unknown."""
        rows = self.table.rows[observer, columns]
        return np.where(rows >= 0, self.abstention[rows], np.nan)

    def correct(self, observer: int, columns: NDArray[np.int64]) -> BoolArray:
        """Return where the stored answer is the truth, before any abstention is applied."""
        rows = self.table.rows[observer, columns]
        truth = self.table.answers.truth[columns]
        return np.asarray((rows >= 0) & (truth >= 0) & (self.response[rows] == truth))

    def class_probabilities(self, observer: int, columns: NDArray[np.int64]) -> FloatArray:
        """Return class probabilities without abstain, (columns, classes); nan rows where there are none."""
        rows = self.table.rows[observer, columns]
        if self.probabilities.shape[1] == 0:
            return np.full((len(columns), len(self.table.labels) - (ABSTAIN in self.table.labels)), np.nan)
        return np.where((rows >= 0)[:, None], self.probabilities[rows].astype(np.float64), np.nan)

    def one_hot_answers(self, observer: int, columns: NDArray[np.int64]) -> FloatArray:
        """Return the answers as 1 for the label given, else 0, (columns, labels); nan rows without an answer."""
        response = self.table.answers.response[observer, columns]
        out = np.full((len(columns), len(self.table.labels)), np.nan)
        answered = response >= 0
        out[answered] = 0.0
        out[answered, response[answered]] = 1.0
        return out

    def distributions(self, observer: int, columns: NDArray[np.int64]) -> FloatArray:
        """Return the label distribution of each column, (columns, labels); nan rows without an answer.

        It is p, or [p (1 - a), a] where the label space has abstain, for probabilities p and abstention a. Without
        probabilities, the label answered has probability 1.
        """
        out = self.one_hot_answers(observer, columns)
        p = self.class_probabilities(observer, columns)
        known = ~np.isnan(p).any(axis=1)
        if ABSTAIN in self.table.labels:
            a = np.nan_to_num(self.abstentions(observer, columns))
            p = np.concatenate([p * (1 - a[:, None]), a[:, None]], axis=1)
        out[known] = p[known] / p[known].sum(axis=1, keepdims=True)  # stored as float32: sums are off by 1e-7
        return out


def output_form(name: str, outputs: Outputs, observers: NDArray[np.int64], columns: NDArray[np.int64]) -> PairForm:
    """Return the pair form of a measure of label distributions.

    Both observers of a pair must have given probabilities; on-errors measures read only stimuli that both got wrong.
    The second of a pair is the one the first is compared with: its distributions are the p of an asymmetric distance.

    Args:
        name: A measure of `output_measures`.
        outputs: The observers' label distributions.
        observers: The observers that pairs index, as rows of the table.
        columns: The columns of the table to compare on.
    """
    distance, on_errors = output_measures[name].distance, output_measures[name].on_errors
    has_probabilities = [outputs.has_probabilities(int(i)) for i in observers]

    @cache
    def distributions(row: int) -> FloatArray:
        return outputs.distributions(int(observers[row]), columns)

    def items(answers: Answers, pair: NDArray[np.int64]) -> FloatArray:
        """Return the distance on each column; nan where it is undefined."""
        if not (has_probabilities[pair[0]] and has_probabilities[pair[1]]):
            return np.full(len(columns), np.nan)
        q, p = (distributions(int(i)) for i in pair)
        wanted = answers.wrong[pair].all(axis=0) if on_errors else (answers.response[pair] != NOT_SHOWN).all(axis=0)
        distances = distance(np.nan_to_num(p), np.nan_to_num(q))
        return np.where(wanted & ~np.isnan(p).any(axis=1) & ~np.isnan(q).any(axis=1), distances, np.nan)

    def resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
        out = np.empty((len(pairs), len(weights)))
        for index, pair in enumerate(pairs):
            each = items(answers, pair)
            defined = ~np.isnan(each)
            picked = weights[:, defined].astype(np.float64)
            distances = each[defined]
            infinite = np.isinf(distances)
            total = picked @ np.where(infinite, 0.0, distances)  # 0 times infinity is nan, not 0
            total[(picked[:, infinite] > 0).any(axis=1)] = np.inf
            out[index] = divide(total, picked.sum(axis=1))
        return out

    def matrix(answers: Answers) -> FloatArray:
        m = answers.observers
        pairs = np.stack(np.triu_indices(m), axis=1)
        if not measures[name].symmetric:
            pairs = np.concatenate([pairs, pairs[pairs[:, 0] < pairs[:, 1]][:, ::-1]])
        values = resampled(answers, np.ones((1, answers.stimuli), dtype=np.float32), pairs)[:, 0]
        out = np.full((m, m), np.nan)
        out[pairs[:, 0], pairs[:, 1]] = values
        return out if not measures[name].symmetric else np.where(np.isnan(out), out.T, out)

    def count(answers: Answers, pairs: Pairs) -> FloatArray:
        return np.array([np.count_nonzero(~np.isnan(items(answers, pair))) for pair in pairs], dtype=np.float64)

    where = "both gave probabilities and were wrong" if on_errors else "both gave probabilities"
    return PairForm(matrix, resampled, count, f"no stimulus for which {where}", answers_only=False)
