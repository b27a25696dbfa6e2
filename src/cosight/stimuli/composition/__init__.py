"""VisAlign's categories 2 (strange backgrounds) and 5 (mixed creatures): prompts for a text-to-image model, or photos
cut out, pasted and joined. Each way is a table first (`prompt_table`, `plan_composites`) and then an image a row
(`generate`, `make_composite`).
"""

from cosight.stimuli.composition.backgrounds import GROUNDS, covering, plain_ground
from cosight.stimuli.composition.compositing import paste
from cosight.stimuli.composition.diffusion import generate
from cosight.stimuli.composition.hybrids import SPLITS, hybrid
from cosight.stimuli.composition.magicmix import mix
from cosight.stimuli.composition.masks import Foreground, foreground_mask, mask_beside
from cosight.stimuli.composition.pipelines import load_pipeline, pipeline_identity, text_to_image
from cosight.stimuli.composition.plans import COMPOSITE_SCHEMA, DoubtfulMask, make_composite, plan_composites
from cosight.stimuli.composition.prompts import PROMPT_SCHEMA, PromptFacts, prompt_facts, prompt_table

__all__ = [
    "COMPOSITE_SCHEMA",
    "GROUNDS",
    "PROMPT_SCHEMA",
    "SPLITS",
    "DoubtfulMask",
    "Foreground",
    "PromptFacts",
    "covering",
    "foreground_mask",
    "generate",
    "hybrid",
    "load_pipeline",
    "make_composite",
    "mask_beside",
    "mix",
    "paste",
    "pipeline_identity",
    "plain_ground",
    "plan_composites",
    "prompt_facts",
    "prompt_table",
    "text_to_image",
]
