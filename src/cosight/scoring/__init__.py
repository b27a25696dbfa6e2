"""Scoring: trials and measures to score rows. Torch-free; a number never needs its model again."""

from cosight.scoring.compare import compare
from cosight.scoring.presets import Preset, presets
from cosight.scoring.rows import Row, Scores
from cosight.scoring.score import score
from cosight.scoring.visalign import visalign_table

__all__ = ["Preset", "Row", "Scores", "compare", "presets", "score", "visalign_table"]
