"""Limits and checks that the plans share."""

from __future__ import annotations

import math

from scipy.special import ndtri

from cosight.errors import InvalidInput

__all__ = ["MOST_TRIALS", "ROUNDING", "check_width", "normal_z"]

MOST_TRIALS = 1 << 53  # whole numbers beyond have gaps in float64
ROUNDING = 1e-9  # a cell or an end of a range that is off by less is off by rounding


def normal_z(confidence: float) -> float:
    """How many standard errors an interval of this confidence reaches to either side."""
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}; .95 is usual")
    return float(ndtri((1 + confidence) / 2))


def check_width(width: float, most: float) -> None:
    """Refuse a width that is not above 0 and within the range."""
    if not (0 < width <= most and math.isfinite(width)):
        limit = f" and at most {most:g}, the range" if math.isfinite(most) else ""
        raise InvalidInput(f"width must be above 0{limit}, got {width}; it runs from end to end of the interval")
