"""Scoring: trials and measures to score rows. Torch-free; a number never needs its model again."""

from cosight.scoring.compare import compare
from cosight.scoring.presets import Preset, presets
from cosight.scoring.score import score
from cosight.statistics.rows import Row, Scores

__all__ = ["Preset", "Row", "Scores", "compare", "presets", "score"]
