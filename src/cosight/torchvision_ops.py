"""Import torchvision where its compiled operators cannot be loaded.

A CPU-only torch with a torchvision built for CUDA has no `torchvision::nms`, and importing torchvision fails. cosight
does not call the two missing operators, so defining their signatures is enough.
"""

from __future__ import annotations

from typing import Any

__all__ = ["import_torchvision"]

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_libraries: list[Any] = []  # an operator exists as long as the library object that defined it


def import_torchvision() -> None:
    """Import torchvision; define its missing operators first if it needs them. Call it before `import timm`."""
    try:
        import torchvision  # type: ignore[import-untyped]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        from torch.library import Library

        library = Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            library.define(name + _SIGNATURE)  # type: ignore[no-untyped-call]
        _libraries.append(library)
        import torchvision  # noqa: F401
