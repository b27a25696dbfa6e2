"""Protocols: the numbers of published studies, for a study of one's own to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cosight.registry import Registry

__all__ = ["Number", "Protocol", "protocols"]

Number = int | float | bool


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a published study did. `images` None: everybody is asked about everything. `notes` go into the design."""

    name: str
    type: str
    summary: str
    citation: str
    images: int | None
    design: Mapping[str, Number]
    show: Mapping[str, str] = field(default_factory=dict)  # where the set has such columns
    warmup: tuple[int, ...] = ()  # images of each block; their sets are one's own
    participants: int = 0
    notes: tuple[str, ...] = ()


protocols: Registry[Protocol] = Registry("protocol", listed=False)

protocols.add(
    "visalign",
    Protocol(
        name="visalign",
        type="classify",
        summary="the crowd survey behind VisAlign's Uncertain images",
        citation="Lee et al. 2023, 3.3 and F",
        images=23,
        design={"answers": 134, "distractors": 10, "repeats": 2},
        show={"split": "test", "group": "uncertain"},
        notes=(
            "35 showings a person, 10 of them distractors. The paper asks two images twice and does not say whether",
            "the second showings are among the 35: here they are, 23 images + 2 second showings + 10 distractors.",
            "134 are valid answers: whoever fails a clear distractor is dropped, so ask for some more.",
        ),
    ),
)
protocols.add(
    "laion-c",
    Protocol(
        name="laion-c",
        type="timed",
        summary="the laboratory experiment behind LAION-C's human curves",
        citation="Li et al. 2025, 2.3 and A.2",
        images=600,
        design={"answers": 1, "blocks": 10, "conditions": 2},
        warmup=(45, 45),
        participants=19,
        notes=(
            "Two conditions a person, five blocks of 60 each; everybody sees images that nobody else saw, so no",
            "ceiling can be had: overlap = 60, say, lets some images be seen by everybody.",
            "Warm-up: one block of clean images, one with distortions that are not among those of the study.",
        ),
    ),
)
protocols.add(
    "2afc",
    Protocol(
        name="2afc",
        type="2afc",
        summary="is an inverted representation closer to its target than to its seed",
        citation="Nanda et al. 2021, 2.2, 2.4 and A.1",
        images=None,
        design={"answers": 3, "checks": 5},
        notes=("Three people answer every query. How many attention checks there were is not told; five are ours.",),
    ),
)
protocols.add(
    "clustering",
    Protocol(
        name="clustering",
        type="cluster",
        summary="match inverted representations with their targets, three at a time",
        citation="Nanda et al. 2021, 2.2, 2.4 and A.1",
        images=None,
        design={"answers": 3, "checks": 3},
        notes=("Three people answer every panel. How many attention checks there were is not told; three are ours.",),
    ),
)
