"""The registry of LAION-C's distortions, and what all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosight.registry import Registry
from cosight.stimuli.kinds import Kind, steps_up_to

__all__ = ["FACTS", "distortions"]

distortions: Registry[Kind] = Registry("distortion")
FACTS: Mapping[str, Any] = {"steps": steps_up_to(5), "citation": "Li et al. 2025 (LAION-C)", "eight_bit": True}
