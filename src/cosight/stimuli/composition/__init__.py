"""Composed images: photos cut out, pasted and joined, or images from a text-to-image model."""

from cosight.stimuli.composition.backgrounds import GROUNDS, covering, plain_ground
from cosight.stimuli.composition.compositing import paste
from cosight.stimuli.composition.diffusion import generate
from cosight.stimuli.composition.hybrids import SPLITS, hybrid
from cosight.stimuli.composition.magicmix import mix
from cosight.stimuli.composition.masks import Foreground, foreground_mask, mask_beside
from cosight.stimuli.composition.pipelines import load_pipeline, pipeline_identity, text_to_image

__all__ = [
    "GROUNDS",
    "SPLITS",
    "Foreground",
    "covering",
    "foreground_mask",
    "generate",
    "hybrid",
    "load_pipeline",
    "mask_beside",
    "mix",
    "paste",
    "pipeline_identity",
    "plain_ground",
    "text_to_image",
]
