"""Judges that compare images by the distance of two vectors, and the judge that compares a model's features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.models.judges.questions import Choice, PixelsOf, Question
from cosight.models.loading import load_model
from cosight.models.model import Model
from cosight.models.model_spec import ModelSpec
from cosight.stimuli.images import Bytes, Floats

__all__ = ["DistanceJudge", "cosine", "euclidean", "feature_judge", "load_feature_judge", "squared_euclidean"]

BATCH = 32  # images per forward pass
_PAIRS = 128  # compared together: only their images are in memory, each embedded once

Distance = Callable[[Floats, Floats], FloatArray]
"""Compute distances (N,) of two arrays of vectors (N, dimensions)."""


def squared_euclidean(a: Floats, b: Floats) -> FloatArray:
    """Compute the squared Euclidean distance of each pair of rows."""
    difference = a - b
    return np.asarray(np.einsum("nd,nd->n", difference, difference), dtype=np.float64)


def euclidean(a: Floats, b: Floats) -> FloatArray:
    """Compute the Euclidean distance of each pair of rows."""
    return np.sqrt(squared_euclidean(a, b))


def cosine(a: Floats, b: Floats) -> FloatArray:
    """Compute one minus the cosine of each pair of rows."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray(1 - np.einsum("nd,nd->n", a, b) / lengths, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class DistanceJudge:
    """A judge that chooses the option nearest to the query. Equal distances are a tie, and a tie is no answer.

    Attributes:
        name: Observer name.
        embed: Maps images to vectors (N, dimensions). The images of one call have one size.
        distance: Compares vectors.
        facts: What the distances depend on: weights, enlargement, layer.
    """

    name: str
    embed: Callable[[Sequence[Bytes]], Floats]
    distance: Distance
    facts: Mapping[str, Any] = field(default_factory=dict)

    def choose(self, questions: Sequence[Question], pixels_of: PixelsOf) -> Iterator[Choice]:
        """Yield the nearest option of each question with the distances to all of its options."""
        pairs = [(question.query, option) for question in questions for option in question.options]
        distances = self.distances(pairs, pixels_of)
        for question in questions:
            own = [next(distances) for _ in question.options]
            nearest = [number for number, distance in enumerate(own) if distance == min(own)]
            yield Choice(nearest[0] if len(nearest) == 1 else None, {"distances": own})

    def distances(self, pairs: Sequence[tuple[str, str]], pixels_of: PixelsOf) -> Iterator[float]:
        """Yield the distance of each pair of stimuli, given by their digests.

        Args:
            pairs: Pairs of digests. Pairs that share images should be neighbours: an image is embedded once in each
                part of the list that is worked on.
            pixels_of: Returns an image by its digest.

        Raises:
            InvalidInput: A distance is not a finite number.
        """
        for first in range(0, len(pairs), _PAIRS):
            part = pairs[first : first + _PAIRS]
            stimuli = list(dict.fromkeys(stimulus for pair in part for stimulus in pair))
            vectors = dict(zip(stimuli, self._embed_all([pixels_of(name) for name in stimuli]), strict=True))
            for a, b in part:  # one pair at a time stays in the processor's cache
                value = float(self.distance(vectors[a][None], vectors[b][None])[0])
                if not isfinite(value):
                    raise InvalidInput(f"{self.name} has no finite distance between {a} and {b}")
                yield value

    def distance_matrix(self, stimuli: Sequence[str], pixels_of: PixelsOf) -> FloatArray:
        """Return the distance of every two stimuli, (N, N). All vectors are in memory.

        Args:
            stimuli: Digests.
            pixels_of: Returns an image by its digest.
        """
        vectors = np.stack(self._embed_all([pixels_of(stimulus) for stimulus in stimuli]))
        return np.stack([self.distance(np.broadcast_to(vector, vectors.shape), vectors) for vector in vectors])

    def _embed_all(self, images: Sequence[Bytes]) -> list[Floats]:
        """Return the vectors of images of any sizes, in order, `BATCH` images of one size at a time."""
        of_size: dict[tuple[int, ...], list[int]] = {}
        for index, image in enumerate(images):
            of_size.setdefault(image.shape[:2], []).append(index)
        vectors: dict[int, Floats] = {}
        for indices in of_size.values():
            for first in range(0, len(indices), BATCH):
                part = indices[first : first + BATCH]
                for index, vector in zip(part, self.embed([images[i] for i in part]), strict=True):
                    vectors[index] = vector
        if len({len(vector) for vector in vectors.values()}) > 1:
            sizes = ", ".join(f"{width} x {height}" for height, width, *_ in of_size)
            raise InvalidInput(f"{self.name} compares images of one size, got {sizes}; resize them first")
        return [vectors[index] for index in range(len(images))]


def feature_judge(model: Model) -> DistanceJudge:
    """Return the judge that compares the features of a model by their Euclidean distance.

    Args:
        model: A model loaded with features.

    Returns:
        The judge `features:MODEL`.
    """

    def embed(images: Sequence[Bytes]) -> Floats:
        features = model.answer(np.stack([model.prepare(image) for image in images])).features
        if features is None:
            raise InvalidInput(f"images are compared by a model's features, {model.name} has none; name another model")
        return features

    facts = {"weights": model.weights_digest, "preprocessing": model.preprocessing.facts}
    settings = getattr(model, "settings", None)
    return DistanceJudge(f"features:{model.name}", embed, euclidean, facts | ({"model": settings} if settings else {}))


def load_feature_judge(spec: ModelSpec, device: str) -> DistanceJudge:
    """Load a model and return the judge that compares its features."""
    return feature_judge(load_model(spec, device=device, features=True))
