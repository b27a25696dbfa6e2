"""Stimuli: turn images into what observers see, each with an identity.

`corrupt`, `distort` and `manipulate` change one image; `alteration`, `alter_batch` and `Altered` change many;
`generate_set` writes a stimulus set, `read_set` reads one, `verify` checks it. Needs the extra `stimuli`, attacks
also `models`, text-to-image `diffusion`. Parts are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosight.stimuli.alterations import Alteration, Alterations, Altered, alter_batch, alteration
    from cosight.stimuli.corruptions import corrupt
    from cosight.stimuli.distortions import distort
    from cosight.stimuli.generate import generate_set
    from cosight.stimuli.images import decode, digest, encode, preparation, read_image
    from cosight.stimuli.manipulations import manipulate
    from cosight.stimuli.sets import StimulusSet, read_set, verify
    from cosight.stimuli.tasks import make_tasks, read_tasks
    from cosight.stimuli.tiles import build_tiles, open_tiles

_EXPORTS = {
    "alterations": ("Alteration", "Alterations", "Altered", "alter_batch", "alteration"),
    "corruptions": ("corrupt",),
    "distortions": ("distort",),
    "images": ("decode", "digest", "encode", "preparation", "read_image"),
    "generate": ("generate_set",),
    "manipulations": ("manipulate",),
    "sets": ("StimulusSet", "read_set", "verify"),
    "tasks": ("make_tasks", "read_tasks"),
    "tiles": ("build_tiles", "open_tiles"),
}
_MODULES = {name: module for module, members in _EXPORTS.items() for name in members}

__all__ = [
    "Alteration",
    "Alterations",
    "Altered",
    "StimulusSet",
    "alter_batch",
    "alteration",
    "build_tiles",
    "corrupt",
    "decode",
    "digest",
    "distort",
    "encode",
    "generate_set",
    "make_tasks",
    "manipulate",
    "open_tiles",
    "preparation",
    "read_image",
    "read_set",
    "read_tasks",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
