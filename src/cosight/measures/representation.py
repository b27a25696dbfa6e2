"""Do two models end in the same softmax outputs, and do two sets of features lie in the same place?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import BoolArray, FloatArray, correctness, distributions, finite, same_length
from cosight.errors import InvalidInput
from cosight.measures.distance import jensen_shannon_divergence
from cosight.measures.facts import declare
from cosight.measures.sums import blocks, centred

__all__ = [
    "FrechetDistance",
    "OutputConsistency",
    "frechet_distance",
    "soc_matrix",
    "softmax_output_consistency",
    "softmax_output_consistency_on_errors",
]

_BLOCK = 1 << 20  # numbers in one intermediate array: 8 MB


@dataclass(frozen=True, slots=True, eq=False)
class OutputConsistency:
    """Jensen-Shannon divergence of each trial in nats, nan where the trial does not count."""

    items: FloatArray

    @property
    def value(self) -> float:
        """Mean over the trials that count; nan without any."""
        return float(np.nanmean(self.items)) if self.n else math.nan

    @property
    def n(self) -> int:
        """Trials that count."""
        return int(np.count_nonzero(~np.isnan(self.items)))


@dataclass(frozen=True, slots=True)
class FrechetDistance:
    """Squared Frechet distance of two Gaussians, and the two parts it is the sum of."""

    mean_part: float
    covariance_part: float

    @property
    def value(self) -> float:
        """Both parts together."""
        return self.mean_part + self.covariance_part


@declare(
    "softmax_output_consistency",
    summary="Mean Jensen-Shannon divergence of two models' softmax outputs, in nats.",
    low=0.0,
    high=math.log(2),
    direction="lower",
    symmetric=True,
    needs=("distributions",),
    citation="Xu et al. 2024, section 3.1",
    aliases=("soc",),
)
def softmax_output_consistency(p: ArrayLike, q: ArrayLike) -> OutputConsistency:
    """SOC: mean over trials of JSD(p_i, q_i) in nats; p and q of shape (trials, classes) (Xu et al. 2024).

    0 for equal outputs, ln 2 for outputs that share no class: lower is more alike. Undefined (nan) without trials.

    >>> round(softmax_output_consistency([[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]).value, 4)
    0.3466
    """
    return OutputConsistency(jensen_shannon_divergence(*_outputs(p, q)))


@declare(
    "softmax_output_consistency_on_errors",
    summary="Mean Jensen-Shannon divergence of two models' softmax outputs where both are wrong, in nats.",
    low=0.0,
    high=math.log(2),
    direction="lower",
    symmetric=True,
    needs=("distributions", "correctness"),
    citation="Xu et al. 2024, section 3.1",
    aliases=("soce",),
)
def softmax_output_consistency_on_errors(
    p: ArrayLike, q: ArrayLike, a_correct: ArrayLike, b_correct: ArrayLike
) -> OutputConsistency:
    """SOCE: `softmax_output_consistency` over the trials both got wrong (Xu et al. 2024).

    `items` keeps one entry a trial, nan where either was right. Undefined (`value` is nan) without joint errors.

    >>> p, q = [[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]
    >>> softmax_output_consistency_on_errors(p, q, [1, 0], [0, 0]).items.tolist()
    [nan, 0.0]
    """
    one, other = _outputs(p, q)
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    same_length(p=one, a_correct=a, b_correct=b)
    items = np.full(len(one), np.nan)
    wrong = ~(a | b)
    items[wrong] = jensen_shannon_divergence(one[wrong], other[wrong])
    return OutputConsistency(items)


def soc_matrix(probabilities: ArrayLike, correct: ArrayLike | None = None) -> FloatArray:
    """SOC of every two of m models, or SOCE where `correct` (m, n) is given: (m, n, k) to (m, m).

    Trials are read a block at a time, so that a memory-mapped array or one of float32 is never copied whole.
    Undefined (nan) without trials, or for two models without joint errors; a model against itself is 0.

    >>> soc_matrix([[[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]]).round(4).tolist()
    [[0.0, 0.3466], [0.3466, 0.0]]
    """
    outputs = np.asanyarray(probabilities)
    if outputs.ndim != 3:
        raise InvalidInput(f"probabilities must have shape (models, trials, classes), got {outputs.shape}")
    m, n, classes = outputs.shape
    counts = _counted(correct, m, n)
    total = np.zeros((m, m))
    for block in blocks(n, m * classes, most=_BLOCK):
        total += _soc_sums(distributions(outputs[:, block]), counts[:, block])
    trials = counts.astype(np.float64) @ counts.T
    means: FloatArray = np.divide(total, trials, out=np.full((m, m), np.nan), where=trials > 0)
    return means


@declare(
    "frechet_distance",
    summary="Squared Frechet distance between Gaussians fitted to two feature sets.",
    low=0.0,
    high=math.inf,
    direction="lower",
    symmetric=True,
    needs=("features",),
    citation="Dowson & Landau 1982; of Inception features (FID): Heusel et al. 2017",
    aliases=("frechet",),
)
def frechet_distance(x: ArrayLike, y: ArrayLike) -> FrechetDistance:
    """How far apart two sets of features lie, as Gaussians: (n1, d) and (n2, d); the rows need not correspond.

    ||mu1 - mu2||^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), covariances with divisor n - 1 (Dowson & Landau 1982). It is FID
    (Heusel et al. 2017) if the features are that Inception network's. Biased upwards for few rows: compare sets of
    equal size.

    Undefined (`covariance_part` and `value` are nan) when a set has fewer than 2 rows; both parts when one has none.

    >>> result = frechet_distance([[0.0], [2.0]], [[3.0], [7.0]])
    >>> result.mean_part, round(result.covariance_part, 6)
    (16.0, 2.0)
    """
    a, b = finite(x, name="x", ndim=2), finite(y, name="y", ndim=2)
    if a.shape[1] != b.shape[1]:
        raise InvalidInput(f"feature sets must have one width, got {a.shape[1]} and {b.shape[1]}; use the same layer")
    if not (len(a) and len(b)):
        return FrechetDistance(math.nan, math.nan)
    mean_part = float(np.square(a.mean(axis=0) - b.mean(axis=0)).sum())
    enough = min(len(a), len(b)) >= 2
    return FrechetDistance(mean_part, _covariance_part(a, b) if enough else math.nan)


def _outputs(p: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    one, other = distributions(p, name="p"), distributions(q, name="q")
    if one.ndim != 2 or one.shape != other.shape:
        raise InvalidInput(f"p and q must have one shape (trials, classes), got {one.shape} and {other.shape}")
    return one, other


def _counted(correct: ArrayLike | None, m: int, n: int) -> BoolArray:
    """Which trials count for each model, (m, n): all, or those it got wrong."""
    if correct is None:
        return np.ones((m, n), dtype=np.bool_)
    array = np.asarray(correct)
    if array.shape != (m, n):
        raise InvalidInput(f"correct must have shape (models, trials) = ({m}, {n}), got {array.shape}")
    return ~correctness(array.ravel(), name="correct").reshape(m, n)


def _soc_sums(outputs: FloatArray, counts: BoolArray) -> FloatArray:
    """Sum over the trials both models count of their divergence: (m, b, k) and (m, b) to (m, m)."""
    sums = np.zeros((len(outputs), len(outputs)))
    for i, mine in enumerate(counts):
        items = jensen_shannon_divergence(outputs[i, mine], outputs[i:, mine])  # (m - i, trials i counts)
        sums[i, i:] = sums[i:, i] = np.where(counts[i:, mine], items, 0.0).sum(axis=1)
    return sums


def _covariance_part(x: FloatArray, y: FloatArray) -> float:
    """tr(S1 + S2 - 2 (S1 S2)^(1/2)) as min over rotations U of ||A - U B||^2, where S1 = A'A and S2 = B'B.

    The trace of the root is the sum of the singular values of A B' (the Bures distance as a Procrustes problem).
    A sum of squares is real and not negative, which the formula evaluated to the letter often is.
    """
    rows = max(min(x.shape), min(y.shape))
    a, b = _root(x, rows), _root(y, rows)
    left, _, right = np.linalg.svd(a @ b.T)
    return float(np.square(a - left @ right @ b).sum())


def _root(x: FloatArray, rows: int) -> FloatArray:
    """A with A'A the covariance of x, padded with zeros to `rows` rows."""
    root = centred(x) / math.sqrt(len(x) - 1)
    if len(root) > root.shape[1]:
        root = np.asarray(np.linalg.qr(root, mode="r"), dtype=np.float64)
    return np.pad(root, ((0, rows - len(root)), (0, 0)))
