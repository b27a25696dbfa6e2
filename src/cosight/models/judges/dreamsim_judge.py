"""DreamSim (Fu et al. 2023), from its own package, which downloads the weights to its folder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosight.devices import choose_device
from cosight.extras import require
from cosight.models.judges.distance_judge import DistanceJudge, cosine
from cosight.models.model_spec import ModelSpec
from cosight.models.torch_models import explain_download_errors
from cosight.stimuli.images import Bytes, Floats, as_floats, to_rgb
from cosight.torchvision_ops import import_torchvision

__all__ = ["DREAMSIM_KEYS", "load_dreamsim"]

DREAMSIM_KEYS = ("folder",)
_SIDE = 224  # pixels of its input
_FOLDER = "./models"  # where the package looks for weights and downloads them to


def load_dreamsim(spec: ModelSpec, device: str) -> DistanceJudge:
    """Load DreamSim: an ensemble of three vision transformers, compared by the cosine of their features.

    Args:
        spec: The judge; the option `folder` is the folder of its weights.
        device: Where it runs.

    Returns:
        The judge.

    Raises:
        InvalidInput: The weights are neither in the folder nor can they be downloaded.
        MissingExtra: The package is not installed.
    """
    require("dreamsim", by="the judge dreamsim", extra="judges")
    import torch

    import_torchvision()
    place = choose_device(device)
    folder = spec.get("folder") or _FOLDER
    with explain_download_errors("DreamSim's weights", f"connect, or put them into {folder} (dreamsim,folder=DIR)"):
        from dreamsim import dreamsim  # type: ignore[import-not-found, import-untyped, unused-ignore]

        model, _ = dreamsim(pretrained=True, cache_dir=folder, device=place)

    @torch.inference_mode()
    def embed(images: Sequence[Bytes]) -> Floats:
        stacked = np.stack([as_floats(to_rgb(image)) for image in images])
        pixels = torch.from_numpy(stacked).permute(0, 3, 1, 2).to(place)
        pixels = torch.nn.functional.interpolate(pixels, (_SIDE, _SIDE), mode="bicubic", antialias=True).clamp(0, 1)
        vectors: Floats = model.embed(pixels).reshape(len(images), -1).float().cpu().numpy()
        return vectors

    return DistanceJudge("dreamsim", embed, cosine, {"type": "ensemble", "size": _SIDE})
