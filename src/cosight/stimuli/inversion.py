"""Representation inversion: images that a model cannot tell from a target (Nanda et al. 2021, section 2.1).

From a seed, the pixels are changed until the model's features are those of the target: the relative distance
||g(x) - g(t)|| / ||g(t)|| is minimised. The set has the targets, the seeds and the results, each as 8-bit images; the
distance that is recorded is that of the stored image. An inversion that has not converged says nothing about
perception.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import polars as pl

from cosight.arrays import whole_number
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.attack_recipe import ModelIdentity, to_tensor
from cosight.stimuli.descent import DescentSettings, Loss, descend
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, Preparation, as_bytes, digest, preparation, to_rgb
from cosight.stimuli.kinds import stimulus_rng
from cosight.stimuli.sets import StimulusSet, read_set, read_source, sample
from cosight.trials.choices import PHOTOS

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FeatureModel",
    "InversionRecipe",
    "NormalNoise",
    "Start",
    "TargetImage",
    "TargetImages",
    "converged_counts",
    "feature_distance",
    "load_feature_models",
    "model_facts",
    "normal_noise",
    "read_targets",
    "to_images",
]

Start = Literal["noise", "image"]
_NOISE_TARGETS = 100  # of each distribution, unless limited
_NORMAL = "normal:"


class FeatureModel(Protocol):
    """A model with features: `features` maps images (N, 3, height, width) in [0, 1] to (N, dimensions)."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def size(self) -> tuple[int, int]: ...  # noqa: D102

    @property
    def device(self) -> str: ...  # noqa: D102

    def features(self, images: Tensor) -> Tensor: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class NormalNoise:
    """Targets of independent normal pixels, clipped to [0, 1]."""

    mean: float
    sd: float

    def __str__(self) -> str:
        """Return the text that `normal_noise` parses."""
        return f"normal:{self.mean:g}/{self.sd:g}"


def normal_noise(text: str) -> NormalNoise | None:
    """Parse `normal:MEAN/SD`; None for a text that does not begin with `normal:`.

    Raises:
        InvalidInput: Mean and standard deviation are not two numbers, or the latter is not positive.

    >>> normal_noise("normal:.5/2"), normal_noise("photos")
    (NormalNoise(mean=0.5, sd=2.0), None)
    """
    if not text.startswith(_NORMAL):
        return None
    mean, _, sd = text.removeprefix(_NORMAL).partition("/")
    try:
        noise = NormalNoise(float(mean), float(sd))
    except ValueError:
        noise = NormalNoise(nan, nan)
    if not (isfinite(noise.mean) and isfinite(noise.sd) and noise.sd > 0):
        raise InvalidInput(
            f"noise targets are normal:MEAN/SD with a positive standard deviation, got {text!r}; for example normal:0/1"
        )
    return noise


@dataclass(frozen=True, slots=True)
class TargetImage:
    """One target: a photo of a set, or noise.

    Attributes:
        name: Its name in the new set, without a suffix.
        row: Manifest columns of the photo.
        noise: Distribution of the noise; None for a photo.
        seed: The photo that image seeds start from, as (file, digest or None) of the set of seed images.
    """

    name: str
    row: Mapping[str, Any] = field(default_factory=dict)
    noise: NormalNoise | None = None
    seed: tuple[str, str | None] | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Manifest columns that stimuli made from it inherit."""
        return {name: self.row.get(name) for name in ("image", "truth", "original", "split")}

    @property
    def kind(self) -> str:
        """`photos`, or the distribution of the noise as text."""
        return PHOTOS if self.noise is None else str(self.noise)


@dataclass(frozen=True, slots=True)
class TargetImages:
    """The targets of a set, and the photos that seeds are drawn from.

    Attributes:
        photos: Targets from a set; None for noise only.
        noise: Distributions of noise targets.
        limit: Number of targets of each kind (default: all photos, 100 of each noise).
        seed_images: Photos for image seeds (default: photos of the targets' set that are not targets).
        prepare: How photos are resized.
        seed: Seed of everything random.
    """

    photos: StimulusSet | None
    noise: tuple[NormalNoise, ...] = ()
    limit: int | None = None
    seed_images: StimulusSet | None = None
    prepare: Preparation | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the number of targets."""
        if self.limit is not None:
            whole_number(self.limit, name="--limit", least=1)
        if self.photos is None and not self.noise:
            raise InvalidInput("an inversion needs targets, got none; name a stimulus set with --targets")

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides which targets and seeds there are, besides the folders, as JSON."""
        return {
            "targets": [*([PHOTOS] if self.photos else []), *map(str, self.noise)],
            "limit": self.limit,
            "seed": self.seed,
            "prepare": str(self.prepare or "none"),
        }

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that images are read from."""
        return tuple(stimuli.root for stimuli in (self.photos, self.seed_images) if stimuli is not None)

    def _require_seed_set(self) -> StimulusSet:
        source = self.seed_images or self.photos
        if source is None:
            raise InvalidInput("image seeds need photos, the targets are noise; name a set with --seed-images")
        return source

    def choose(self, *, with_seeds: bool) -> list[TargetImage]:
        """Return the targets, each with a photo of its own to start from if `with_seeds`."""
        targets = []
        if self.photos is not None:
            chosen = self.photos if self.limit is None else sample(self.photos, self.limit, seed=self.seed)
            for number, row in enumerate(chosen.frame.iter_rows(named=True), start=1):
                targets.append(TargetImage(f"{number:04d}-{PurePosixPath(row['file']).stem}", row))
        for noise in self.noise:
            folder = str(noise).replace(":", "-").replace("/", "-")
            for number in range(1, (self.limit or _NOISE_TARGETS) + 1):
                targets.append(TargetImage(f"{folder}/{number:04d}", noise=noise))
        if not with_seeds:
            return targets
        seeds = self._draw_seeds(len(targets), {target.row["file"] for target in targets if target.row})
        return [replace(target, seed=seed) for target, seed in zip(targets, seeds, strict=True)]

    def _draw_seeds(self, count: int, targets: set[str]) -> list[tuple[str, str | None]]:
        """Draw a different photo for each target, none of them a target."""
        source = self._require_seed_set()
        is_same = self.photos is not None and source.root.resolve() == self.photos.root.resolve()
        pool = [
            (file, stimulus)
            for file, stimulus in source.frame.select("file", "stimulus").iter_rows()
            if not (is_same and file in targets)
        ]
        if len(pool) < count:
            raise InvalidInput(
                f"each of the {count} targets starts from a photo of its own that is no target, {source.root} has "
                f"{len(pool)}; use fewer targets (--limit), other photos (--seed-images), or --seeds noise"
            )
        order = np.random.default_rng([self.seed, len(pool)]).permutation(len(pool))[:count]
        return [pool[index] for index in order]

    def stamp(self, target: TargetImage) -> str:
        """Return a digest of the files that the images of a target are made from."""
        files = []
        if self.photos is not None and target.row:
            files.append(file_stamp(self.photos.path(target.row["file"])))
        if target.seed is not None:
            files.append(file_stamp(self._require_seed_set().path(target.seed[0])))
        return hashlib.sha256(" ".join(files).encode()).hexdigest()

    def batches(self, targets: Sequence[TargetImage], size: int) -> Iterator[tuple[str, str, tuple[TargetImage, ...]]]:
        """Yield name, stamp and targets of each batch of so many targets."""
        for first in range(0, len(targets), size):
            part = tuple(targets[first : first + size])
            stamp = hashlib.sha256(" ".join(map(self.stamp, part)).encode()).hexdigest()
            yield f"targets {first + 1} to {first + len(part)}", stamp, part

    def target_pixels(self, target: TargetImage, size: tuple[int, int]) -> Bytes:
        """Return the pixels of a target: RGB of this height and width."""
        if target.noise is not None:
            rng = stimulus_rng(target.name, "target", target.kind, self.seed)
            values = rng.normal(target.noise.mean, target.noise.sd, (*size, 3))
            return as_bytes(np.clip(values, 0, 1).astype(np.float32))
        return self._photo(self.photos, target.row["file"], target.row["stimulus"], size)

    def seed_pixels(self, target: TargetImage, start: Start, size: tuple[int, int]) -> Bytes:
        """Return the seed of a target: uniform random pixels, or its photo."""
        if start == "noise":
            rng = stimulus_rng(target.name, "seed", start, self.seed)
            return rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        file, expected = target.seed or ("", None)
        return self._photo(self._require_seed_set(), file, expected, size)

    def _photo(self, stimuli: StimulusSet | None, file: str, expected: str | None, size: tuple[int, int]) -> Bytes:
        if stimuli is None:
            raise InvalidInput("targets that are photos need a stimulus set, got none; name it with --targets")
        pixels = as_bytes(to_rgb(read_source(stimuli, file, self.prepare, expected=expected).ready))
        if pixels.shape[:2] != size:
            height, width = pixels.shape[:2]
            raise InvalidInput(
                f"targets and seeds must be {size[1]} x {size[0]}, the models' input, {stimuli.path(file)} is "
                f"{width} x {height}; use --prepare {size[1]}x{size[0]}"
            )
        return pixels


def read_targets(
    texts: Sequence[str],
    *,
    limit: int | None = None,
    seed_images: str | Path | None = None,
    prepare: str | None = None,
    seed: int = 0,
) -> TargetImages:
    """Return the targets that are named: at most one stimulus set, and distributions of noise.

    Args:
        texts: Folders and `normal:MEAN/SD`.
        limit: Number of targets of each kind.
        seed_images: Folder of photos that image seeds are drawn from.
        prepare: How photos are resized.
        seed: Seed of everything random.

    Raises:
        InvalidInput: A folder is no stimulus set, several are named, or an option does not fit.
    """
    noise = {text: normal_noise(text) for text in dict.fromkeys(texts)}
    folders = [text for text, parsed in noise.items() if parsed is None]
    if len(folders) > 1:
        raise InvalidInput(f"targets are one stimulus set, and noise (normal:0/1), got {', '.join(folders)}")
    return TargetImages(
        read_set(folders[0]) if folders else None,
        tuple(parsed for parsed in noise.values() if parsed is not None),
        limit,
        None if seed_images is None else read_set(seed_images),
        preparation(prepare or "none"),
        whole_number(seed, name="--seed"),
    )


def feature_distance(model: FeatureModel, targets: Tensor) -> Loss:
    """Return the loss of an inversion: the distance of the features to those of the targets, relative to their length.

    Args:
        model: The model.
        targets: Images in [0, 1], (N, 3, height, width).

    Returns:
        A function of images and their rows among the targets.

    Raises:
        InvalidInput: The features of a target are all zero, so that no distance is relative to them.
    """
    import torch

    with torch.no_grad():
        goals = model.features(targets).detach()
    lengths: Tensor = torch.linalg.vector_norm(goals, dim=1)
    if not bool((lengths > 0).all()):
        raise InvalidInput(f"features of a target must not all be zero, those of {model.name} are; name another layer")

    def loss(images: Tensor, rows: Tensor) -> Tensor:
        distances: Tensor = torch.linalg.vector_norm(model.features(images) - goals[rows], dim=1)
        return distances / lengths[rows]

    return loss


def to_images(pixels: Tensor) -> list[Bytes]:
    """Return images in [0, 1], (N, 3, height, width), as they are stored."""
    return [as_bytes(image) for image in pixels.permute(0, 2, 3, 1).float().cpu().numpy()]


def load_feature_models(
    references: Sequence[str], load: Callable[[str], FeatureModel]
) -> tuple[list[ModelIdentity], tuple[int, int]]:
    """Load models once; return what identifies them and the size of their images.

    Raises:
        InvalidInput: Two models have one name, or take images of different sizes.
    """
    identities: list[ModelIdentity] = []
    sizes: dict[tuple[int, int], str] = {}
    for reference in references:
        model = load(reference)
        identity = ModelIdentity.of(model, reference)
        if identity.name in {other.name for other in identities}:
            raise InvalidInput(f"models must have different names, got {identity.name} twice; add name=NAME to one")
        identities.append(identity)
        sizes.setdefault(model.size, identity.name)
    if len(sizes) > 1:
        listed = ", ".join(f"{name} {width} x {height}" for (height, width), name in sizes.items())
        raise InvalidInput(f"models of one set must take images of one size, got {listed}; make a set for each")
    return identities, next(iter(sizes))


def model_facts(identity: ModelIdentity) -> dict[str, Any]:
    """Return what `parameters` has about a model."""
    precision = {} if identity.precision == "float32" else {"precision": identity.precision}
    return {"model": identity.name, "weights": identity.weights, **precision}


@dataclass(frozen=True, slots=True)
class InversionRecipe:
    """Recipe for `generate_set`: every target inverted for every model from every kind of seed.

    The images of a batch are optimised together. All models start from the same seeds.

    Attributes:
        targets: Targets and seeds.
        models: References that `load` turns into models with features.
        load: Loads a model; called in each worker process.
        starts: Kinds of seeds.
        descent: How images are optimised.
        batch: Targets per batch.
    """

    targets: TargetImages
    models: tuple[str, ...]
    load: Callable[[str], FeatureModel]
    starts: tuple[Start, ...] = ("noise", "image")
    descent: DescentSettings = field(default_factory=DescentSettings)
    batch: int = 16

    def __post_init__(self) -> None:
        """Check the options before a model is loaded, which may take long."""
        whole_number(self.batch, name="--batch", least=1)
        unknown = [start for start in self.starts if start not in get_args(Start)]
        if unknown or not self.starts or len(set(self.starts)) < len(self.starts):
            raise InvalidInput(f"--seeds must be noise, image or both, got {','.join(self.starts) or 'none'}")
        if not self.models:
            raise InvalidInput("an inversion needs at least one model, got none")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, targets, seeds and optimisation. Models are not among them: more can be added to a set."""
        return {
            "verb": "invert",
            **self.targets.settings,
            "starts": list(self.starts),
            **self.descent.facts,
            "batch": self.batch,  # convolutions round differently in other batches
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that compute gradients."""
        return ("torch", "timm")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of targets and seeds."""
        return self.targets.folders

    def units(self) -> list[Unit]:
        """Per batch: one unit for targets and seeds, and one for each model. All images are read once to check them."""
        identities, size = load_feature_models(self.models, self.load)
        chosen = self.targets.choose(with_seeds="image" in self.starts)
        for target in chosen:
            self.targets.target_pixels(target, size)
            for start in self.starts:
                self.targets.seed_pixels(target, start, size)
        units = []
        for name, stamp, part in self.targets.batches(chosen, self.batch):
            jobs = []
            for target in part:
                columns = {"experiment": "representation", "parameters": json.dumps({"targets": target.kind})}
                columns |= target.columns
                jobs.append(StimulusJob(f"target/{target.name}", {**columns, "condition": "target", "kind": "target"}))
                for start in self.starts:
                    facts = {"experiment": "representation", "condition": f"seed {start}", "kind": f"seed-{start}"}
                    jobs.append(StimulusJob(f"seed-{start}/{target.name}", facts))
            units.append(Unit(name, stamp, tuple(jobs), payload=(None, size, part), together=True))
            for reference, identity in zip(self.models, identities, strict=True):
                jobs = [
                    StimulusJob(
                        f"inverted/{identity.folder}/{start}/{target.name}",
                        {
                            **target.columns,
                            "experiment": "representation",
                            "condition": f"{identity.name} {start}",
                            "kind": "inversion",
                        },
                    )
                    for target in part
                    for start in self.starts
                ]
                payload = (reference, size, part)
                units.append(Unit(f"{identity.name}, {name}", stamp, tuple(jobs), payload=payload, together=True))
        return units

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Yield targets and seeds as they are, or the inversions of a batch; a batch is always computed as a whole."""
        reference, size, chosen = unit.payload
        pending = {job.file for job in jobs}
        targets = [self.targets.target_pixels(target, size) for target in chosen]
        seeds = [[self.targets.seed_pixels(target, start, size) for start in self.starts] for target in chosen]
        if reference is None:
            pixels = [image for own, of_target in zip(targets, seeds, strict=True) for image in (own, *of_target)]
            yield from (
                Outcome(job, image) for job, image in zip(unit.jobs, pixels, strict=True) if job.file in pending
            )
            return
        parents = [(image, target) for image, target in zip(targets, chosen, strict=True) for _ in self.starts]
        starts = [(image, start) for of_target in seeds for image, start in zip(of_target, self.starts, strict=True)]
        facts = self._invert(reference, [image for image, _ in parents], [image for image, _ in starts])
        for job, (parent, target), (seed, start), (image, reached) in zip(
            unit.jobs, parents, starts, facts, strict=True
        ):
            if job.file in pending:
                parameters = {"start": start, "seed_stimulus": digest(seed), "targets": target.kind, **reached}
                columns = {"parameters": json.dumps(parameters, sort_keys=True), "parent": digest(parent)}
                yield Outcome(job, image, columns)

    def _invert(
        self, reference: str, targets: Sequence[Bytes], seeds: Sequence[Bytes]
    ) -> list[tuple[Bytes, dict[str, Any]]]:
        """Return the 8-bit result for each pair of target and seed, and what `parameters` says about it."""
        import torch

        model = self.load(reference)
        loss = feature_distance(model, to_tensor(targets).to(model.device))
        done = descend(loss, to_tensor(seeds).to(model.device), self.descent)
        images = to_images(done.images)
        with torch.no_grad():
            stored = loss(to_tensor(images).to(model.device), torch.arange(len(images), device=model.device))
        identity = model_facts(ModelIdentity.of(model, reference))
        if training := getattr(model, "training_facts", {}):
            identity["training"] = dict(training)
        settings = {name: value for name, value in self.descent.facts.items() if name != "steps"}
        return [
            (
                image,
                {
                    **identity,
                    **settings,
                    "layer": getattr(model, "settings", {}).get("layer"),
                    "distance": float(stored[row]),
                    "distance_before_rounding": float(done.loss[row]),
                    "start_distance": float(done.start[row]),
                    "steps": int(done.steps[row]),
                },
            )
            for row, image in enumerate(images)
        ]


def converged_counts(stimuli: StimulusSet, threshold: float) -> dict[str, tuple[int, int, float]]:
    """Return how many inversions of each condition (model and seeds) have converged.

    Args:
        stimuli: A set of inversions.
        threshold: Relative distance up to which an inversion has converged.

    Returns:
        Condition -> (number converged, number of all, largest relative distance).
    """
    distances: dict[str, list[float]] = {}
    for row in stimuli.frame.filter(pl.col("kind") == "inversion").iter_rows(named=True):
        distances.setdefault(row["condition"], []).append(json.loads(row["parameters"])["distance"])
    return {
        condition: (sum(value <= threshold for value in values), len(values), max(values))
        for condition, values in distances.items()
    }
