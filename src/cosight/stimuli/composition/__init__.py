"""Composed images: photos cut out, pasted and joined, or images from a text-to-image model."""

from cosight.stimuli.composition.compositing import PLAIN_BACKGROUNDS, crop_to_cover, paste, plain_background
from cosight.stimuli.composition.diffusion import generate, load_pipeline, mix, pipeline_identity, text_to_image
from cosight.stimuli.composition.hybrids import SPLITS, hybrid
from cosight.stimuli.composition.masks import Foreground, foreground_mask, read_mask

__all__ = [
    "PLAIN_BACKGROUNDS",
    "SPLITS",
    "Foreground",
    "crop_to_cover",
    "foreground_mask",
    "generate",
    "hybrid",
    "load_pipeline",
    "mix",
    "paste",
    "pipeline_identity",
    "plain_background",
    "read_mask",
    "text_to_image",
]
