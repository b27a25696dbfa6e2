"""torchvision imported where its compiled operators cannot be loaded.

A CPU-only torch beside a torchvision built for CUDA has no `torchvision::nms`, and torchvision then fails to import.
Nothing here calls the two operators it misses; knowing their signatures is enough.
"""

from __future__ import annotations

from typing import Any

__all__ = ["import_torchvision"]

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_kept: list[Any] = []  # an operator lives as long as the library object that defined it


def import_torchvision() -> None:
    """Import torchvision, after defining its missing operators where it needs that. Call it before `import timm`."""
    try:
        import torchvision  # type: ignore[import-untyped]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        _define_operators()
        import torchvision  # noqa: F401


def _define_operators() -> None:
    from torch.library import Library

    library = Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):
        library.define(name + _SIGNATURE)  # type: ignore[no-untyped-call]
    _kept.append(library)
