"""Estimates of tokens, for dry runs and budgets. Endpoints count differently; answers report what they took."""

from __future__ import annotations

from math import ceil
from typing import Literal

__all__ = ["answer_tokens", "estimate_tokens", "image_tokens"]

_CHARACTERS_PER_TOKEN = 4  # of English text, on average
_IMAGE, _TILE, _TILE_SIDE = 85, 170, 512  # tokens of GPT-4o per image and per tile of 512 pixels
_FIT, _SHORT = 2048, 768  # images are shrunk to fit a square of 2048 pixels, then to a shorter side of 768
_WORD, _REASON = 12, 60  # tokens of an answer: the word as JSON, a sentence


def estimate_tokens(*texts: str) -> int:
    """Return the estimated number of tokens of English texts.

    >>> estimate_tokens("Which category does the image show?")
    9
    """
    return ceil(sum(map(len, texts)) / _CHARACTERS_PER_TOKEN)


def image_tokens(width: int, height: int, detail: Literal["auto", "low", "high"] = "auto") -> int:
    """Return the tokens of an image by the rule that OpenAI publishes for GPT-4o.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        detail: Image detail; `auto` is counted as `high`.

    Returns:
        85 tokens, and with high detail 170 more per tile of 512 pixels.

    >>> image_tokens(224, 224), image_tokens(1024, 1024), image_tokens(1024, 1024, "low")
    (255, 765, 85)
    """
    if detail == "low":
        return _IMAGE
    scale = min(1.0, _FIT / max(width, height))
    scale = min(scale, _SHORT / min(width, height))
    tiles = ceil(width * scale / _TILE_SIDE) * ceil(height * scale / _TILE_SIDE)
    return _IMAGE + _TILE * tiles


def answer_tokens(*, reason: bool) -> int:
    """Return the estimated number of tokens of an answer.

    >>> answer_tokens(reason=False)
    12
    """
    return _WORD + _REASON * reason
