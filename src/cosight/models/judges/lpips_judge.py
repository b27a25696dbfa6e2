"""LPIPS with AlexNet, version 0.1 (Zhang et al. 2018, The unreasonable effectiveness of deep features).

The activations of five convolutions are scaled to unit length at every position. The distance of two images is the mean
over positions of the squared differences, weighted per channel by the published heads and summed over the layers. With
activations multiplied by the root of their weight this is a squared Euclidean distance, so that every image passes
through the network once, however many others it is compared with.

Images whose sides have fewer than 64 pixels are enlarged to 64 (bilinear): AlexNet leaves one position of 32 pixels.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cosight.data import data_folder, data_sets
from cosight.data.entry import MIRROR_VARIABLE
from cosight.devices import choose_device
from cosight.errors import InvalidInput
from cosight.extras import require
from cosight.models.judges.distance_judge import DistanceJudge, squared_euclidean
from cosight.models.model_spec import ModelSpec, checkpoint_of
from cosight.models.torch_models import explain_download_errors, read_weights
from cosight.stimuli.images import Bytes, Floats, as_floats, to_rgb
from cosight.torchvision_ops import import_torchvision

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LPIPS_KEYS", "MIN_SIDE", "load_lpips", "lpips_judge"]

LPIPS_KEYS = ("checkpoint",)
MIN_SIDE = 64  # pixels; smaller images are enlarged
_DATA = data_sets["lpips-weights"]
_FILE = Path(_DATA.folder, _DATA.downloads[0].path)
# AlexNet: (number of the layer in torchvision, stride, padding, whether max pooling precedes it)
_LAYERS = ((0, 4, 2, False), (3, 1, 2, True), (6, 1, 1, True), (8, 1, 1, False), (10, 1, 1, False))
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # of pixels in [-1, 1]
_TINY = 1e-8  # added to squared lengths, as in torchmetrics: a position without activation stays zero
_TORCHVISION = "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"


def load_lpips(spec: ModelSpec, device: str) -> DistanceJudge:
    """Load LPIPS.

    Weights come from `checkpoint`, else from the folder of the mirror or the user's data folder
    (`cosight data get lpips-weights`), else from torchmetrics, which downloads AlexNet from torchvision.

    Args:
        spec: The judge with its options.
        device: Where it runs: auto, cpu, cuda, cuda:N or mps.

    Returns:
        The judge.

    Raises:
        InvalidInput: There are no weights; the message says where to put them.
    """
    given = checkpoint_of(spec)
    mirror = os.environ.get(MIRROR_VARIABLE)
    folders = [*([Path(mirror).expanduser()] if mirror else []), data_folder()]
    path = given or next((folder / _FILE for folder in folders if (folder / _FILE).is_file()), None)
    return lpips_judge(read_weights(path) if path else _download(), device=device, source=str(path or "torchmetrics"))


def lpips_judge(weights: Mapping[str, Tensor], *, device: str = "cpu", source: str = "weights") -> DistanceJudge:
    """Return LPIPS with these weights.

    Args:
        weights: AlexNet's convolutions under torchvision's names (`features.0.weight` ...), and the heads
            `lin0.weight` to `lin4.weight`.
        device: Where it runs.
        source: What messages call the weights.

    Returns:
        The judge `lpips`.

    Raises:
        InvalidInput: Weights are missing, or a head has a negative one.
    """
    import torch
    from torch.nn import functional

    names = [f"features.{layer}.{part}" for layer, *_ in _LAYERS for part in ("weight", "bias")]
    names += [f"lin{number}.weight" for number in range(len(_LAYERS))]
    missing = [name for name in names if name not in weights]
    if missing:
        raise InvalidInput(
            f"LPIPS needs AlexNet's convolutions and five heads, {source} lacks {missing[0]}; get the file with "
            f"`cosight data get {_DATA.name}`"
        )
    place = torch.device(choose_device(device))
    used = {name: weights[name].float().to(place) for name in names}
    heads = [used[f"lin{number}.weight"].reshape(1, -1, 1, 1) for number in range(len(_LAYERS))]
    if any(bool((head < 0).any()) for head in heads):
        raise InvalidInput(f"the heads of LPIPS have no negative weights, {source} has; get the file again")
    shift, scale = (torch.tensor(values, device=place).reshape(1, 3, 1, 1) for values in (_SHIFT, _SCALE))
    digest = hashlib.sha256(b"".join(used[name].cpu().contiguous().numpy().tobytes() for name in names)).hexdigest()

    @torch.inference_mode()
    def embed(images: Sequence[Bytes]) -> Floats:
        stacked = np.stack([as_floats(to_rgb(image)) for image in images])
        pixels = torch.from_numpy(stacked).permute(0, 3, 1, 2).to(place)
        if min(pixels.shape[2:]) < MIN_SIDE:
            factor = MIN_SIDE / min(pixels.shape[2:])
            size = [round(side * factor) for side in pixels.shape[2:]]
            pixels = functional.interpolate(pixels, size, mode="bilinear", align_corners=False)
        hidden = (2 * pixels - 1 - shift) / scale
        parts = []
        for (layer, stride, padding, pooled), head in zip(_LAYERS, heads, strict=True):
            hidden = functional.max_pool2d(hidden, 3, 2) if pooled else hidden
            kernel, bias = used[f"features.{layer}.weight"], used[f"features.{layer}.bias"]
            hidden = functional.conv2d(hidden, kernel, bias, stride=stride, padding=padding).relu_()
            lengths = (hidden.square().sum(dim=1, keepdim=True) + _TINY).sqrt_()
            positions = hidden.shape[2] * hidden.shape[3]
            parts.append((hidden * ((head / positions).sqrt() / lengths)).flatten(1))
        return torch.cat(parts, dim=1).cpu().numpy()

    facts = {"weights": digest, "network": "alexnet", "version": "0.1", "enlarged to": MIN_SIDE}
    return DistanceJudge("lpips", embed, squared_euclidean, facts)


def _download() -> dict[str, Tensor]:
    """Return the weights of torchmetrics: its heads, and AlexNet, which torchvision downloads."""
    where = f"{MIRROR_VARIABLE}/{_FILE} or {data_folder() / _FILE}, or name it with lpips,checkpoint=FILE"
    require("torchmetrics", by=f"LPIPS without the file {_FILE.name}", extra="judges")
    import_torchvision()
    from torch.hub import get_dir

    cached = Path(get_dir(), "checkpoints", Path(_TORCHVISION).name).is_file()
    hint = f"connect, or put the weights into {where}"
    with explain_download_errors("LPIPS's AlexNet", hint, url=None if cached else _TORCHVISION):
        from torchmetrics.image.lpip import LearnedPerceptualImagePatchSimilarity

        state = LearnedPerceptualImagePatchSimilarity(net_type="alex").net.state_dict()
    weights = {}
    for number, (layer, *_) in enumerate(_LAYERS):
        for part in ("weight", "bias"):
            weights[f"features.{layer}.{part}"] = state[f"net.slice{number + 1}.{layer}.{part}"]
        weights[f"lin{number}.weight"] = state[f"lin{number}.model.1.weight"]
    return weights
