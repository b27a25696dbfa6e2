"""Published ways of scoring by name: which conditions are left out, how trials are grouped, which measures."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from cosight.registry import Registry
from cosight.trials.join import canonical_condition

__all__ = ["Preset", "presets"]


@dataclass(frozen=True, slots=True)
class Preset:
    """A published way of scoring trials."""

    name: str
    summary: str
    by: tuple[str, ...]
    measures: tuple[str, ...]
    left_out: dict[str, tuple[str, ...]]  # experiment -> conditions
    citation: str

    def keeps(self) -> pl.Expr:
        """Return an expression for the stimuli (rows with `experiment` and `condition`) that the preset scores."""
        condition = canonical_condition(pl.col("condition")).fill_null("")
        excluded = pl.lit(False)
        for experiment, conditions in self.left_out.items():
            names = pl.select(canonical_condition(pl.lit(pl.Series(conditions)))).to_series().to_list()
            excluded = excluded | ((pl.col("experiment") == experiment) & condition.is_in(names))
        return ~excluded


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
