"""The `cosight:` models: architectures to train, and checkpoints that training wrote.

The five architectures of Lee et al. 2023 (VisAlign) at their sizes, small versions for CPUs, the CIFAR ResNets
(`cifar_resnet`) and CIFAR forms of larger networks (`cifar_forms`). All have dropout before the head, so that
MC-Dropout applies. `timm:NAME` is any architecture of timm. A checkpoint that training wrote has its classes and
preprocessing in its metadata, so `cosight:vit-small,checkpoint=FILE` is a complete model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model import check_file
from cosight.models.model_spec import ModelSpec, checkpoint_of, class_names_of, head_size, preprocessing_of
from cosight.models.preprocessing import Preprocessing
from cosight.models.timm_models import check_timm, timm_preprocessing
from cosight.models.torch_models import TorchModel, load_weights, read_weights, wrap_module
from cosight.registry import Registry

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "BETA",
    "METADATA",
    "TIMM",
    "Architecture",
    "architecture_named",
    "architectures",
    "build",
    "checkpoint_facts",
    "load_cosight",
    "training_facts",
]

METADATA = "cosight"  # the key of our JSON in a safetensors file's metadata
TIMM = "timm:"
BETA = 6.0  # of TRADES and MART, unless a recipe has another (Zhang et al. 2019, section 5)

# Resize(256), crop 224, ImageNet's mean and std: the released code of Lee et al. 2023.
_PHOTOS = Preprocessing(size=(224, 224), interpolation="bilinear", crop=224 / 256)
_SMALL = Preprocessing(size=(32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bilinear")
_CIFAR = Preprocessing(size=(32, 32), interpolation="bilinear")


@dataclass(frozen=True, slots=True)
class Architecture:
    """Registry entry: `make(classes, dropout)` returns the network with new weights.

    `head` is the last layer's name in weights of other projects; None: only networks that were trained here are loaded.
    """

    name: str
    make: Callable[[int, float], nn.Module]
    preprocessing: Preprocessing
    summary: str
    head: str | None = None


architectures: Registry[Architecture] = Registry("architecture", listed=False)


def architecture_named(name: str) -> Architecture:
    """Return a registered architecture, or any of timm's as `timm:NAME`."""
    if not name.startswith(TIMM):
        return architectures[name]
    bare = name.removeprefix(TIMM)
    check_timm(ModelSpec("timm", bare))
    import torch

    make = _TimmModel(bare)
    with torch.device("meta"):  # without values, enough to read the configuration
        preprocessing = timm_preprocessing(make(2, 0.0))
    return Architecture(name, make, preprocessing, f"{bare} of timm.")


def build(name: str, *, classes: int, dropout: float = 0.1, k_wta: float | None = None) -> nn.Module:
    """Return a network of this architecture with new weights, drawn from torch's generator.

    With `k_wta` its activations are replaced by k-winners-take-all, which keep that fraction of each layer's units.
    """
    if classes < 2:
        raise InvalidInput(f"a classifier needs at least two classes, got {classes}")
    if not 0 <= dropout < 1:
        raise InvalidInput(f"dropout must be in [0, 1), the fraction of features dropped, got {dropout:g}")
    module = architecture_named(name).make(classes, dropout)
    if k_wta is not None:
        from cosight.models.k_wta import use_k_wta

        use_k_wta(module, k_wta)
    return module


def load_cosight(spec: ModelSpec) -> TorchModel:
    """Load `cosight:NAME,checkpoint=FILE`: a network that training wrote, or the weights of a CIFAR network."""
    if spec.name not in architectures and not spec.name.startswith(TIMM):
        there_are = f"there are {', '.join(architectures)}, and timm:NAME if trained here"
        nearest = did_you_mean(spec.name, architectures, otherwise=there_are)
        raise UnknownName(f"no cosight model is called {spec.name!r}; {nearest}")
    architecture = architecture_named(spec.name)  # reports an unknown name of timm before a missing file
    path = checkpoint_of(spec)
    import_module("torch")  # so that a missing extra is reported before a missing file
    if path is None:
        raise InvalidInput(f"cosight:{spec.name} has no published weights; add checkpoint=FILE")
    weights, names, default = read_weights(path), class_names_of(spec), architecture.preprocessing
    recipe_facts: dict[str, str] = {}
    if architecture.head and not _is_trained_here(path):
        module = build(spec.name, classes=head_size(weights, architecture.head) or 10, dropout=0.0)
    else:
        facts = checkpoint_facts(path)
        if facts["architecture"] != spec.name:
            raise InvalidInput(
                f"{path} is a network of cosight:{facts['architecture']}, got cosight:{spec.name}; use its own name"
            )
        recipe = facts["recipe"]
        module = build(spec.name, classes=len(facts["classes"]), dropout=recipe["dropout"], k_wta=recipe.get("k_wta"))
        settings: dict[str, Any] = {  # the inverse of `Preprocessing.facts`
            key: tuple(value) if isinstance(value, list) else value for key, value in facts["preprocessing"].items()
        }
        default = Preprocessing(**settings)
        names = names or tuple(facts["classes"])
        recipe_facts = training_facts(recipe)
    load_weights(weights, module, model=f"cosight:{spec.name}", path=path)
    preprocessing = preprocessing_of(spec, default)
    model = wrap_module(module, name=spec.label, preprocessing=preprocessing, outputs="logits", class_names=names)
    return replace(model, training_facts={"architecture": spec.name, **recipe_facts})


def training_facts(recipe: Mapping[str, Any]) -> dict[str, str]:
    """Return what the recipe in a checkpoint says about training, in the words by which figures group models.

    Args:
        recipe: Settings of `cosight train`, as the checkpoint's metadata have them.

    Returns:
        `loss`, `augmentation` and `paradigm`.

    >>> training_facts({"flip": True, "padding": 4, "ssl": None})
    {'loss': 'standard', 'augmentation': 'with', 'paradigm': 'supervised'}
    >>> training_facts({"adversarial": "trades", "k_wta": 0.2})["loss"]
    'TRADES beta 6 + k-WTA 0.2'
    """
    method, beta = recipe.get("adversarial"), recipe.get("beta", BETA)
    loss = {None: "standard", "pgd": "adversarial", "free": "free adversarial"}.get(method)
    loss = loss or f"{str(method).upper()} beta {beta:g}"  # TRADES or MART
    added = [recipe["alignment"]] if recipe.get("alignment") else []
    if recipe.get("k_wta"):
        added.append(f"k-WTA {recipe['k_wta']:g}")
    attacked_views = recipe.get("ssl_views") == "adversarial"
    return {
        "loss": " + ".join([loss, *added]),
        "augmentation": "with" if recipe.get("flip") or recipe.get("padding") else "without",
        "paradigm": f"self-supervised{', adversarial views' * attacked_views}" if recipe.get("ssl") else "supervised",
    }


def checkpoint_facts(path: Path) -> dict[str, Any]:
    """Read the metadata of a checkpoint that training wrote: architecture, classes, preprocessing, recipe, history."""
    from safetensors import SafetensorError, safe_open

    check_file(path, "a checkpoint")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(METADATA)
    except SafetensorError as error:
        raise InvalidInput(f"cannot read {path} as safetensors: {error}; train it again") from error
    if text is None:
        raise InvalidInput(
            f"{path} has no classes and preprocessing in its metadata; use a checkpoint that `cosight train` wrote"
        )
    facts: dict[str, Any] = json.loads(text)
    return facts


def _is_trained_here(path: Path) -> bool:
    """Whether a file of weights that can be read has the metadata of `checkpoint_facts`."""
    from safetensors import safe_open

    if path.suffix != ".safetensors":
        return False
    with safe_open(path, framework="pt") as file:
        return METADATA in (file.metadata() or {})


@dataclass(frozen=True, slots=True)
class _CifarResNet:
    """A CIFAR ResNet with this number of blocks per stage."""

    blocks: int

    def __call__(self, classes: int, dropout: float) -> nn.Module:
        from cosight.models.cifar_resnet import CifarResNet

        return CifarResNet(self.blocks, classes, dropout)


@dataclass(frozen=True, slots=True)
class _CifarForm:
    """A network of `cifar_forms`, by name."""

    name: str

    def __call__(self, classes: int, dropout: float) -> nn.Module:
        network: nn.Module = getattr(import_module("cosight.models.cifar_forms"), self.name)(classes, dropout)
        return network


@dataclass(frozen=True, slots=True)
class _TimmModel:
    """An architecture by timm's name."""

    name: str

    def __call__(self, classes: int, dropout: float) -> nn.Module:
        import timm

        module: nn.Module = timm.create_model(self.name, num_classes=classes, drop_rate=dropout)
        return module


@dataclass(frozen=True, slots=True)
class _TimmClass:
    """A class of timm, by module and name, with its arguments."""

    module: str
    name: str
    arguments: Mapping[str, Any]

    def __call__(self, classes: int, dropout: float) -> nn.Module:
        from cosight.torchvision_ops import import_torchvision

        import_torchvision()
        network_class = getattr(import_module(f"timm.models.{self.module}"), self.name)
        network: nn.Module = network_class(num_classes=classes, drop_rate=dropout, **self.arguments)
        return network


def _vit(**arguments: Any) -> _TimmClass:
    return _TimmClass("vision_transformer", "VisionTransformer", arguments)


def _swin(**arguments: Any) -> _TimmClass:
    return _TimmClass("swin_transformer", "SwinTransformer", {"drop_path_rate": 0.0, **arguments})


def _densenet(**arguments: Any) -> _TimmClass:
    return _TimmClass("densenet", "DenseNet", arguments)


def _convnext(**arguments: Any) -> _TimmClass:
    return _TimmClass("convnext", "ConvNeXt", arguments)


def _mixer(*, embed_dim: int, tokens: int, channels: int, **arguments: Any) -> _TimmClass:
    """`tokens` and `channels` are the hidden widths of the two MLPs, which timm gives as multiples of the embedding."""
    ratios = (tokens / embed_dim, channels / embed_dim)
    return _TimmClass("mlp_mixer", "MlpMixer", {"embed_dim": embed_dim, "mlp_ratio": ratios, **arguments})


def _add(
    name: str,
    make: Callable[[int, float], nn.Module],
    preprocessing: Preprocessing,
    summary: str,
    head: str | None = None,
) -> None:
    architectures.add(name, Architecture(name, make, preprocessing, summary, head))


# Sizes: Lee et al. 2023, appendix B (about 300 million weights each). The rest is as usual: patches of 16 (Swin,
# ConvNeXt 4), windows of 7, MLPs four times as wide. Their Mixer is that of mlp-mixer-pytorch: MLPs four times
# as wide as there are patches (196) and half as wide as there are channels: 272 million weights; the usual four times
# the channels would give 2 billion.
_add(
    "vit-visalign",
    _vit(img_size=224, patch_size=16, embed_dim=1024, depth=30, num_heads=16),
    _PHOTOS,
    "ViT, 30 layers of 1,024, 16 heads.",
)
_add(
    "swin-visalign",
    _swin(img_size=224, patch_size=4, window_size=7, embed_dim=256, depths=(2, 2, 15, 2), num_heads=(4, 8, 16, 32)),
    _PHOTOS,
    "Swin Transformer, width 256, 2 2 15 2 layers.",
)
_add(
    "densenet-visalign",
    _densenet(growth_rate=64, block_config=(24, 48, 84, 64)),
    _PHOTOS,
    "DenseNet, growth 64, blocks of 24 48 84 64.",
)
_add(
    "convnext-visalign",
    _convnext(depths=(3, 3, 50, 3), dims=(192, 384, 768, 1536)),
    _PHOTOS,
    "ConvNeXt large, 3 3 50 3 blocks.",
)
_add(
    "mixer-visalign",
    _mixer(img_size=224, patch_size=16, num_blocks=60, embed_dim=2048, tokens=4 * 196, channels=1024),
    _PHOTOS,
    "MLP-Mixer, 60 layers of 2,048.",
)

# For about 1,000 images of 32 x 32 and two CPU cores: narrow, shallow, with coarse patches. The transformers start from
# the wider weights of timm's "jax" scheme: with a standard deviation of .02 everywhere, narrow networks learn slowly.
_add(
    "vit-small",
    _vit(
        **{"img_size": 32, "patch_size": 16, "embed_dim": 64, "depth": 3, "num_heads": 4, "mlp_ratio": 2.0},
        **{"class_token": False, "global_pool": "avg", "weight_init": "jax"},
    ),
    _SMALL,
    "ViT, 3 layers of 64, 4 heads, patches of 16.",
)
_add(
    "swin-small",
    _swin(
        **{"img_size": 32, "patch_size": 8, "window_size": 2, "embed_dim": 48, "depths": (2, 2), "num_heads": (2, 4)},
        **{"mlp_ratio": 2.0, "weight_init": "jax"},
    ),
    _SMALL,
    "Swin Transformer, width 48, 2 2 layers, patches of 8.",
)
_add(
    "densenet-small",
    _densenet(growth_rate=8, block_config=(2, 2, 2)),
    _SMALL,
    "DenseNet, growth 8, blocks of 2 2 2.",
)
_add(
    "convnext-small",
    _convnext(depths=(1, 1, 1, 1), dims=(16, 32, 64, 64), ls_init_value=None),
    _SMALL,
    "ConvNeXt, widths 16 to 64, one block each.",
)
_add(
    "mixer-small",
    _mixer(img_size=32, patch_size=8, num_blocks=2, embed_dim=64, tokens=32, channels=128),
    _SMALL,
    "MLP-Mixer, 2 layers of 64, patches of 8.",
)

# For images of 32 x 32: the ResNets of He et al. 2016, section 4.2, and what Nanda et al. 2021 train on CIFAR-10.
_add("resnet20", _CifarResNet(3), _CIFAR, "CIFAR ResNet, 20 layers, widths 16 32 64.", "linear")
_add("resnet32", _CifarResNet(5), _CIFAR, "CIFAR ResNet, 32 layers, widths 16 32 64.", "linear")
_add("resnet44", _CifarResNet(7), _CIFAR, "CIFAR ResNet, 44 layers, widths 16 32 64.", "linear")
_add("resnet18-cifar", _CifarForm("resnet18"), _CIFAR, "ResNet-18 without its first stride and pooling.")
_add("vgg16-cifar", _CifarForm("CifarVgg16"), _CIFAR, "VGG-16 with batch norm and one linear layer.")
_add("densenet121-cifar", _CifarForm("densenet121"), _CIFAR, "DenseNet-121 without its first stride and pooling.")
_add("inception-v3-cifar", _CifarForm("inception_v3"), _CIFAR, "Inception v3 whose stem is one convolution.")
