"""Colours and markers that all figures share."""

from __future__ import annotations

__all__ = ["COLOURS", "MARKERS"]

# Okabe & Ito 2008: distinguishable with every kind of colour vision
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")
MARKERS = "osD^vP*X"
