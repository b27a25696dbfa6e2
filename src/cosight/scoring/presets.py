"""Published ways of scoring by name: grouping, measures, exclusions, missing answers and undefined values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import polars as pl

from cosight.arrays import FloatArray
from cosight.benchmarks.error_alignment import ERROR_ALIGNMENT
from cosight.measures.answers import Answers, common_trials
from cosight.measures.arithmetic import Pairs, Weights
from cosight.measures.declarations import PairForm
from cosight.registry import Registry
from cosight.trials.join import canonical_condition

__all__ = ["MISSING", "Missing", "Preset", "presets"]

Missing = Literal["leave-out", "random"]
MISSING: tuple[str, ...] = get_args(Missing)


@dataclass(frozen=True, slots=True)
class Preset:
    """A published way of scoring trials.

    Attributes:
        name: Name in the registry.
        summary: What it does.
        by: Columns to group by.
        measures: Measures. Those that the trials cannot have, without probabilities or features, are left out.
        citation: Where it was published.
        left_out: Conditions that are not scored, by experiment.
        missing: What happens to missing answers.
        undefined: Value of a measure of pairs where it is undefined although the two share stimuli, by measure.
        all_classes: Whether classes that do not occur count as possible answers, so that a label space is needed.
    """

    name: str
    summary: str
    by: tuple[str, ...]
    measures: tuple[str, ...]
    citation: str
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Missing = "leave-out"
    undefined: Mapping[str, float] = field(default_factory=dict)
    all_classes: bool = False

    def keeps(self) -> pl.Expr:
        """Return an expression for the stimuli (rows with `experiment` and `condition`) that the preset scores."""
        condition = canonical_condition(pl.col("condition")).fill_null("")
        excluded = pl.lit(False)
        for experiment, conditions in self.left_out.items():
            names = pl.select(canonical_condition(pl.lit(pl.Series(conditions)))).to_series().to_list()
            excluded = excluded | ((pl.col("experiment") == experiment) & condition.is_in(names))
        return ~excluded

    def form(self, measure: str, form: PairForm) -> PairForm:
        """Return the form of a measure of pairs with the preset's value where it is undefined."""
        return _fill_undefined(form, self.undefined[measure]) if measure in self.undefined else form


def _fill_undefined(form: PairForm, fill: float) -> PairForm:
    """Return a form whose value is `fill` where it would be undefined, for pairs that share stimuli."""

    def all_pairs(answers: Answers) -> Pairs:
        return np.indices((answers.observers, answers.observers)).reshape(2, -1).T

    def filled(answers: Answers, pairs: Pairs, values: FloatArray) -> FloatArray:
        share = common_trials(answers, pairs) > 0
        return np.where(np.isnan(values) & share.reshape(share.shape + (1,) * (values.ndim - 1)), fill, values)

    def matrix(answers: Answers) -> FloatArray:
        values = form.matrix(answers)
        return filled(answers, all_pairs(answers), values.reshape(-1)).reshape(values.shape)

    def resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
        return filled(answers, pairs, form.resampled(answers, weights, pairs))

    def min_high(answers: Answers, pairs: Pairs, confidence: float) -> FloatArray:
        assert form.min_high is not None
        return filled(answers, pairs, form.min_high(answers, pairs, confidence))

    def remarks(answers: Answers, pairs: Pairs) -> list[str]:
        own = form.remarks(answers, pairs) if form.remarks else [""] * len(pairs)
        undefined = np.isnan(form.matrix(answers)[pairs[:, 0], pairs[:, 1]])
        taken = f"undefined ({form.undefined}), taken as {fill:g}"
        return [taken if missing else remark for missing, remark in zip(undefined, own, strict=True)]

    return replace(
        form, matrix=matrix, resampled=resampled, min_high=min_high if form.min_high else None, remarks=remarks
    )


presets: Registry[Preset] = Registry("preset")


def _eidolon(coherence: str, *reaches: int) -> tuple[str, ...]:
    return tuple(f"{reach}-{coherence}-10" for reach in reaches)


presets.add(
    "model-vs-human",
    Preset(
        "model-vs-human",
        "each condition on its own, then equal weights; without undistorted and unrecognisable conditions",
        by=("experiment", "condition"),
        measures=("accuracy", "observed_consistency", "error_consistency", "shape_bias"),
        # undistorted conditions and those with a mean human accuracy below .2
        left_out={
            "colour": ("cr",),
            "contrast": ("c100", "c03", "c01"),
            "high-pass": ("inf", "0.55", "0.45", "0.4"),
            "low-pass": ("0", "15", "40"),
            "phase-scrambling": ("0", "150", "180"),
            "power-equalisation": ("0",),
            "false-colour": ("true",),
            "rotation": ("0",),
            "eidolonI": _eidolon("10", 1, 64, 128),
            "eidolonII": _eidolon("3", 1, 32, 64, 128),
            "eidolonIII": _eidolon("0", 1, 16, 32, 64, 128),
            "uniform-noise": ("0.0", "0.6", "0.9"),
        },
        citation="Geirhos et al. 2021, arXiv:2106.07411",
    ),
)
presets.add(
    "error-alignment",
    Preset(
        "error-alignment",
        "each experiment on its own, conditions pooled; errors, confidence and representation",
        by=("experiment",),
        measures=ERROR_ALIGNMENT.measures,
        citation="Xu et al. 2024, AAAI-25",
    ),
)
presets.add(
    "error-alignment-paper",
    Preset(
        "error-alignment-paper",
        "each experiment on its own, conditions pooled; conventions of the released numbers of Xu et al.",
        by=("experiment",),
        measures=(
            "accuracy",
            "error_consistency",
            "misclassification_agreement",
            "class_level_error_similarity_pooled",
            "linear_cka_plain",
            "softmax_output_consistency",
            "softmax_output_consistency_on_errors",
        ),
        missing="random",
        undefined={"misclassification_agreement": 1.0},
        all_classes=True,
        citation="Xu et al. 2024, AAAI-25",
    ),
)
