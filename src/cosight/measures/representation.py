"""Features of the same stimuli in two models: centred kernel alignment (CKA) and the Frechet distance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, finite, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import blocks, centred
from cosight.measures.declarations import declare

__all__ = [
    "CKA",
    "FrechetDistance",
    "frechet_distance",
    "linear_cka",
    "linear_cka_influence",
    "linear_cka_matrix",
    "linear_cka_plain",
    "minibatch_cka",
]

_BLOCK = 1 << 20  # numbers in one intermediate array: 8 MB
_TILES = 1 << 22  # numbers in one tile of all Gram matrices: 32 MB
_FEWEST = {True: 4, False: 2}  # stimuli below which HSIC is undefined, by `unbiased`
_ROUNDING = 1e-12  # an HSIC this small relative to the terms that it is the difference of is zero


@dataclass(frozen=True, slots=True)
class CKA:
    """Centred kernel alignment of two feature sets."""

    value: float
    n: int  # stimuli
    unbiased: bool
    batches: int = 1


@dataclass(frozen=True, slots=True)
class FrechetDistance:
    """Squared Frechet distance of two Gaussians, as a sum of two parts."""

    mean_part: float
    covariance_part: float

    @property
    def value(self) -> float:
        """The sum of both parts."""
        return self.mean_part + self.covariance_part


@declare(
    "linear_cka",
    summary="Linear centred kernel alignment of two feature sets, unbiased.",
    low=-1.0,
    high=1.0,
    direction="higher",
    symmetric=True,
    needs=("features",),
    citation="Kornblith et al. 2019; unbiased HSIC: Song et al. 2012, Nguyen et al. 2021",
    aliases=("cka",),
)
def linear_cka(x: ArrayLike, y: ArrayLike, *, unbiased: bool = True) -> CKA:
    """Compute how similarly two models arrange the same stimuli.

    CKA = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)), K = X X', L = Y Y'. With K0, L0 their diagonals set to zero, the
    unbiased HSIC (Song et al. 2012; in CKA: Nguyen et al. 2021) is [tr(K0 L0) + 1'K0 1 1'L0 1 / ((n - 1)(n - 2))
    - 2 / (n - 2) 1'K0 L0 1] / (n (n - 3)). `unbiased=False` gives ||Y'X||^2 / (||X'X|| ||Y'Y||) of the centred
    features (Kornblith et al. 2019), which approaches 1 for unrelated features when d is large compared with n.

    Args:
        x: Features of the first model, (n, d1).
        y: Features of the second, (n, d2); row i is the same stimulus.
        unbiased: Whether to use the unbiased HSIC.

    Returns:
        The alignment, at most 1; the biased one is never negative, the unbiased one may be. `value` is nan with fewer
        than 4 stimuli (biased: 2), when a feature set is constant, and, unbiased, when all its rows are equally far
        apart.

    Raises:
        InvalidInput: If a feature is not finite, or the numbers of rows differ.

    >>> x = [[0, 1], [1, 3], [2, 0], [4, 1], [3, 3]]
    >>> round(linear_cka(x, [[2 * b, 2 * a] for a, b in x]).value, 6)
    1.0
    """
    sets = _check_features(x=x, y=y)
    return CKA(float(_cka(sets, unbiased=unbiased)[0, 1]), len(sets[0]), unbiased)


@declare(
    "linear_cka_plain",
    summary="Linear centred kernel alignment of two feature sets, as first published: biased for few stimuli.",
    low=0.0,
    high=1.0,
    direction="higher",
    symmetric=True,
    needs=("features",),
    citation="Kornblith et al. 2019",
    aliases=("cka_plain",),
)
def linear_cka_plain(x: ArrayLike, y: ArrayLike) -> CKA:
    """Compute `linear_cka` with the biased HSIC: ||Y'X||^2 / (||X'X|| ||Y'Y||) of the centred features.

    This is the form of Kornblith et al. 2019. It approaches 1 for unrelated features when their width is large compared
    with the number of stimuli.

    Args:
        x: Features of the first model, (n, d1).
        y: Features of the second, (n, d2); row i is the same stimulus.

    Returns:
        The alignment, 0 to 1; nan with fewer than 2 stimuli or when a feature set is constant.

    Raises:
        InvalidInput: If a feature is not finite, or the numbers of rows differ.

    >>> x = [[0, 1], [1, 3], [2, 0], [4, 1], [3, 3]]
    >>> round(linear_cka_plain(x, [[2 * b, 2 * a] for a, b in x]).value, 6)
    1.0
    """
    return linear_cka(x, y, unbiased=False)


def linear_cka_matrix(features: Sequence[ArrayLike], *, unbiased: bool = True) -> FloatArray:
    """Compute `linear_cka` of every two of m feature sets.

    Args:
        features: The features of each model, (n, d); row i is the same stimulus in all of them.
        unbiased: Whether to use the unbiased HSIC.

    Returns:
        A matrix (m, m), nan as in `linear_cka`.

    Raises:
        InvalidInput: If there is no feature set, a feature is not finite, or the numbers of rows differ.

    >>> linear_cka_matrix([[[0], [1], [2], [4]], [[0], [1], [2], [4]], [[1], [1], [1], [1]]]).round(6).tolist()
    [[1.0, 1.0, nan], [1.0, 1.0, nan], [nan, nan, nan]]
    """
    if not len(features):
        raise InvalidInput("features must hold at least one feature set, got none")
    return _cka(_check_features(**{f"features[{i}]": x for i, x in enumerate(features)}), unbiased=unbiased)


def linear_cka_influence(features: Sequence[ArrayLike], pairs: ArrayLike, *, unbiased: bool = True) -> FloatArray:
    """Compute how much each stimulus moves the CKA of two feature sets, for some pairs of m sets.

    The influence of stimulus a is (n - 1) (mean - CKA without a), with the mean over all stimuli (the jackknife). If
    stimulus a is drawn w_a times, CKA is about CKA + sum_a w_a influence_a / n, to first order. Drawing stimuli with
    replacement instead would compare copies of a stimulus with each other, on which all models agree.

    Args:
        features: The features of each model, (n, d); row i is the same stimulus in all of them.
        pairs: Two indices of sets per row, (pairs, 2).
        unbiased: Whether to use the unbiased HSIC.

    Returns:
        The influences, (pairs, n), with mean 0; nan where CKA without one of the stimuli is undefined.

    Raises:
        InvalidInput: If there is no feature set, a feature is not finite, or the numbers of rows differ.

    >>> x = [[0], [1], [2], [4], [3], [9]]
    >>> linear_cka_influence([x, x, [[1], [0], [2], [3], [3], [2]]], [[0, 1], [0, 2]]).round(2).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [2.58, 3.05, -0.25, -1.16, -1.33, -2.89]]
    """
    if not len(features):
        raise InvalidInput("features must hold at least one feature set, got none")
    sets = _check_features(**{f"features[{i}]": x for i, x in enumerate(features)})
    chosen, n = np.asarray(pairs, dtype=np.int64).reshape(-1, 2), len(sets[0])
    if n <= _FEWEST[unbiased]:
        return np.full((len(chosen), n), np.nan)
    narrow = [_narrow(x) for x in _scaled(sets)]
    diagonals = [np.square(x).sum(axis=1) for x in narrow]

    def without_each(i: int, j: int) -> FloatArray:
        """Return HSIC without each stimulus in turn, up to a factor that cancels in CKA, (n,)."""
        x, y = narrow[i], narrow[j]
        own = diagonals[i] * diagonals[j]  # of each stimulus with itself
        shared = ((x @ (x.T @ y)) * y).sum(axis=1)  # of each with all, itself included
        if not unbiased:
            ratio = n / (n - 1)  # the means move as well: the cross-covariance loses n / (n - 1) x_a y_a'
            return np.asarray(shared.sum() - 2 * ratio * shared + ratio**2 * own)
        # the sums of `linear_cka` without row and column a; centred features have K0 1 = -diag(K)
        pairwise = shared - own
        trace = pairwise.sum() - 2 * pairwise
        sums = [2 * d - d.sum() for d in (diagonals[i], diagonals[j])]
        crossed = [own - z @ (z.T @ d) for z, d in ((x, diagonals[j]), (y, diagonals[i]))]
        chained = own.sum() - own - crossed[0] - crossed[1] + pairwise
        left = n - 1
        return np.asarray(trace + sums[0] * sums[1] / ((left - 1) * (left - 2)) - 2 / (left - 2) * chained)

    alone = {i: without_each(i, i) for i in sorted(set(chosen.ravel().tolist()))}
    out = np.empty((len(chosen), n))
    for row, (i, j) in enumerate(chosen.tolist()):
        scale = alone[i] * alone[j]
        values = np.divide(without_each(i, j), np.sqrt(np.maximum(scale, 0)), out=np.full(n, np.nan), where=scale > 0)
        out[row] = (n - 1) * (values.mean() - values)
    return out


def minibatch_cka(batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> CKA:
    """Compute linear CKA from batches, each in memory only once (Nguyen et al. 2021, Eq. 3).

    The three unbiased HSICs are averaged over the batches, each with the same weight, before their ratio is taken.
    One batch gives `linear_cka`.

    Args:
        batches: Pairs of features (x, y) of the same stimuli.

    Returns:
        The alignment; nan without batches, or when one side has no spread within any batch.

    Raises:
        InvalidInput: If a batch has fewer than 4 stimuli, or its features are not finite.

    >>> x = [[0, 1], [1, 3], [2, 0], [4, 1]]
    >>> minibatch_cka([(x, x), (x, x)])
    CKA(value=1.0, n=8, unbiased=True, batches=2)
    """
    total, n, count = np.zeros((2, 2)), 0, 0
    for x, y in batches:
        sets = _check_features(x=x, y=y)
        if len(sets[0]) < _FEWEST[True]:
            raise InvalidInput(f"a batch must hold at least 4 stimuli, got {len(sets[0])}; drop it or enlarge batches")
        total += _hsic([centred(one) for one in sets], unbiased=True)
        n, count = n + len(sets[0]), count + 1
    return CKA(float(_normalise(total)[0, 1]), n, True, count)


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
    """Compute the squared Frechet distance between Gaussians fitted to two sets of features.

    ||mu1 - mu2||^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), covariances with divisor n - 1 (Dowson & Landau 1982). It is FID
    (Heusel et al. 2017) if the features are that Inception network's. Biased upwards for few rows: compare sets of
    equal size.

    Args:
        x: The first set of features, (n1, d).
        y: The second set, (n2, d); the rows need not correspond.

    Returns:
        The distance and its two parts. `covariance_part` and `value` are nan when a set has fewer than 2 rows; both
        parts when one has none.

    Raises:
        InvalidInput: If a feature is not finite, or the widths differ.

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
    if min(len(a), len(b)) < 2:
        return FrechetDistance(mean_part, math.nan)
    # tr(S1 + S2 - 2 (S1 S2)^(1/2)) is the minimum over rotations U of ||A - U B||^2, where S1 = A'A and S2 = B'B: the
    # trace of the root is the sum of the singular values of A B' (the Bures distance as a Procrustes problem). A sum
    # of squares is real and not negative, which the formula evaluated literally often is not.
    rows = max(min(a.shape), min(b.shape))
    root_a, root_b = _covariance_root(a, rows), _covariance_root(b, rows)
    left, _, right = np.linalg.svd(root_a @ root_b.T)
    return FrechetDistance(mean_part, float(np.square(root_a - left @ right @ root_b).sum()))


def _check_features(**features: ArrayLike) -> list[FloatArray]:
    sets = {name: finite(one, name=name, ndim=2) for name, one in features.items()}
    same_length(**sets)
    return list(sets.values())


def _cka(sets: list[FloatArray], *, unbiased: bool) -> FloatArray:
    """Compute CKA of every two sets."""
    if len(sets[0]) < _FEWEST[unbiased]:
        return np.full((len(sets), len(sets)), np.nan)
    return _normalise(_hsic(_scaled(sets), unbiased=unbiased))


def _scaled(sets: list[FloatArray]) -> list[FloatArray]:
    """Centre each set and divide it by its largest number: CKA has no unit, and fourth powers could overflow.

    The list is overwritten, because many sets may not fit into memory twice.
    """
    for index, x in enumerate(sets):
        sets[index] = centred(x)
        sets[index] /= np.abs(sets[index]).max(initial=0.0) or 1.0
    return sets


def _narrow(x: FloatArray) -> FloatArray:
    """Return features with the same products of rows and no more columns than rows."""
    if x.shape[1] <= len(x):
        return x
    root = np.asarray(np.linalg.qr(x.T, mode="r"), dtype=np.float64)
    return np.ascontiguousarray(root.T)


def _normalise(hsic: FloatArray) -> FloatArray:
    own = np.diag(hsic)
    scale = np.sqrt(np.outer(own, own))
    return np.divide(hsic, scale, out=np.full_like(hsic, np.nan), where=scale > 0)


def _hsic(sets: list[FloatArray], *, unbiased: bool) -> FloatArray:
    """Compute HSIC of every two centred sets; the biased form without its 1 / (n - 1)^2, which cancels in CKA.

    HSIC does not change when features are centred, and centred features have 1'K = 0, so K0 1 = -diag(K):
    the unbiased form needs no Gram matrix but its diagonal.
    """
    n, widths = len(sets[0]), np.array([x.shape[1] for x in sets], dtype=np.float64)
    by_columns = (widths.sum() ** 2 + np.square(widths).sum()) / 2  # multiplications
    by_rows = n * (widths.sum() + len(sets) ** 2) / 2
    cross = _crosses_by_columns(sets) if by_columns <= by_rows else _crosses_by_rows(sets)
    if not unbiased:
        return cross
    diagonals = np.stack([np.square(x).sum(axis=1) for x in sets])  # (m, n)
    traces = diagonals.sum(axis=1)
    hsic = cross - n / (n - 2) * diagonals @ diagonals.T + np.outer(traces, traces) / ((n - 1) * (n - 2))
    none = np.diag(hsic) <= _ROUNDING * np.diag(cross)
    hsic[none, none] = 0.0
    return np.asarray(hsic / (n * (n - 3)))


def _crosses_by_columns(sets: list[FloatArray]) -> FloatArray:
    """Compute ||X_i' X_j||^2 = tr(K_i K_j) of every two sets through products of columns."""
    cross = np.zeros((len(sets), len(sets)))
    for i, x in enumerate(sets):
        for j, y in enumerate(sets[: i + 1]):
            parts = (x[:, block].T @ y for block in blocks(x.shape[1], y.shape[1], most=_BLOCK))
            cross[i, j] = cross[j, i] = sum(float(np.vdot(part, part)) for part in parts)
    return cross


def _crosses_by_rows(sets: list[FloatArray]) -> FloatArray:
    """Compute the same through Gram matrices, a tile of each at a time, without the tiles below the diagonal."""
    m, n = len(sets), len(sets[0])
    side = max(1, math.isqrt(_TILES // m))
    cross = np.zeros((m, m))
    for rows in range(0, n, side):
        for columns in range(rows, n, side):
            tiles = np.stack([x[rows : rows + side] @ x[columns : columns + side].T for x in sets]).reshape(m, -1)
            cross += (1 if rows == columns else 2) * (tiles @ tiles.T)
    return cross


def _covariance_root(x: FloatArray, rows: int) -> FloatArray:
    """Return A with A'A the covariance of x, padded with zeros to `rows` rows."""
    root = centred(x) / math.sqrt(len(x) - 1)
    if len(root) > root.shape[1]:
        root = np.asarray(np.linalg.qr(root, mode="r"), dtype=np.float64)
    return np.pad(root, ((0, rows - len(root)), (0, 0)))
