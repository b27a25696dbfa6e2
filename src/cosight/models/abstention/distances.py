"""Abstention functions that use a distance in feature space: MD (nearest class; two forms), KNN (K-th nearest image).

`Whitening` maps features to coordinates in which a covariance is the identity, so that the Mahalanobis distance is the
Euclidean one. TAPUDD uses it too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

from cosight.arrays import FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.models.abstention.base import check_features, check_labels, check_logits

__all__ = [
    "ClassMahalanobis",
    "FittedClassMahalanobis",
    "FittedMahalanobis",
    "FittedNeighbours",
    "Mahalanobis",
    "NearestNeighbours",
    "Whitening",
    "check_ridge",
    "check_variance",
    "class_means",
    "whitening",
]

_SIMILARITIES = 16_000_000  # computed at once by KNN, 64 MB
_FOLD = 16  # columns represented by their maximum; of 8, 16 and 32 the fastest for 12,500 rows and K = 50


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """`inverse` (D, D) is the inverse of the covariance's lower Cholesky factor, in Fortran order."""

    inverse: FloatArray

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Whiten centred rows (n, D); rows in C order are overwritten."""
        # triangular: half the work of a matrix product. C-ordered rows are Fortran-ordered columns, nothing is copied
        columns: FloatArray = dtrmm(1.0, self.inverse, rows.T, lower=1, overwrite_b=1)
        return columns.T

    def squared_lengths(self, rows: FloatArray) -> FloatArray:
        """Compute the squared Mahalanobis lengths (n,) of centred rows, which are overwritten."""
        white = self(rows)
        lengths: FloatArray = np.einsum("nd,nd->n", white, white)
        return lengths

    @property
    def log_determinant(self) -> float:
        """Half the logarithm of the determinant of the inverse covariance."""
        return float(np.log(np.diagonal(self.inverse)).sum())


def whitening(covariance: FloatArray, *, who: str) -> Whitening:
    """Return the whitening of a symmetric covariance (D, D), which must be invertible."""
    singular = f"{who} needs an invertible covariance of {len(covariance)} dimensions, got a singular one; raise ridge"
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError as error:
        raise InvalidInput(singular) from error
    # the fraction of a dimension's variance that the dimensions before it do not explain; rounding leaves about D eps
    unexplained = np.diagonal(factor) ** 2 / np.diagonal(covariance)
    if unexplained.min() <= len(covariance) * np.finfo(np.float64).eps:
        raise InvalidInput(singular)
    inverse, _ = dtrtri(factor, lower=1)  # in Fortran order; it cannot fail because the diagonal is positive
    return Whitening(inverse)


def check_variance(variance: float, rows: FloatArray, *, who: str) -> float:
    """Return the mean variance of the rows, if it exceeds what rounding leaves of identical rows."""
    rounding = 8 * np.finfo(np.float64).eps * max(rows.max(initial=0), -rows.min(initial=0))
    if not variance > rounding**2:
        raise InvalidInput(f"{who} needs training features that vary, all rows are equal; check the layer")
    return variance


def check_ridge(ridge: float) -> None:
    """Raise if `ridge` cannot be a fraction of a variance."""
    if not 0 <= ridge < np.inf:
        raise InvalidInput(f"ridge must be 0 or more, a fraction of the mean variance, got {ridge}; 1e-6 is usual")


def class_means(rows: FloatArray, truth: IntArray) -> FloatArray:
    """Compute the mean (classes, D) of the rows (N, D) of each class; every class up to the highest must have rows.

    >>> class_means(np.array([[1.0], [5.0], [3.0]]), np.array([0, 1, 0]))
    array([[2.],
           [5.]])
    """
    return np.stack([rows[truth == index].mean(axis=0) for index in range(truth.max() + 1)])


@dataclass(frozen=True, slots=True, eq=False)
class FittedMahalanobis:
    """Class means in whitened coordinates whose origin is the mean of all features."""

    centre: FloatArray  # (D,)
    white: Whitening
    means: FloatArray  # (classes, D), whitened

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the Mahalanobis distance (n,) from features (n, D) to the nearest class."""
        table = check_features(features, who="md", dimensions=len(self.centre))
        rows = self.white(table - self.centre)
        # |row - mean|^2 minus |row|^2, which is the same for every class
        order = np.einsum("cd,cd->c", self.means, self.means) - 2 * rows @ self.means.T
        nearest = order.argmin(axis=1)
        distances: FloatArray = np.linalg.norm(rows - self.means[nearest], axis=1)
        return distances


@dataclass(frozen=True, slots=True)
class Mahalanobis:
    """MD: the least Mahalanobis distance to a class mean, with one covariance for all classes.

    The covariance is that of the features minus their class mean, divided by their number (Lee et al. 2018, Eq. 1),
    plus `ridge` times its mean variance on the diagonal. Without a ridge the distance is invariant to invertible affine
    maps of the features; with it, to rotation, shift and common scale. In directions without variance in the training
    images (fewer images than dimensions, dead units) only the ridge remains, so an image that departs in one of them is
    very strange; without a ridge such features are refused.

    Args:
        ridge: Fraction of the mean variance that is added to every variance.

    Raises:
        InvalidInput: `ridge` is negative or not finite.

    >>> fitted = Mahalanobis(ridge=0).fit([[-1.0], [1.0]], None, [0, 0])
    >>> fitted.strangeness([[3.0]], None)
    array([3.])
    """

    ridge: float = 1e-6

    def __post_init__(self) -> None:
        check_ridge(self.ridge)

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedMahalanobis:
        """Fit to features (N, D) and labels (N,), at least two images per class.

        The number of classes is that of the logits or, without logits, the highest label plus one.
        """
        table, truth = _check_classes(features, logits, labels, who="md")
        means, centre = class_means(table, truth), table.mean(axis=0)
        covariance, ridge = _shared_covariance(table, truth, means, self.ridge, who="md")
        covariance.flat[:: len(covariance) + 1] += ridge
        white = whitening(covariance, who="md")
        return FittedMahalanobis(centre, white, white(means - centre))


@dataclass(frozen=True, slots=True, eq=False)
class FittedClassMahalanobis:
    """Class means, and the whitening of each class."""

    means: FloatArray  # (classes, D)
    whites: tuple[Whitening, ...]

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the Mahalanobis distance (n,) from features (n, D) to the nearest class, by its own covariance."""
        table = check_features(features, who="md-class", dimensions=self.means.shape[1])
        pairs = zip(self.whites, self.means, strict=True)
        nearest = np.min([white.squared_lengths(table - mean) for white, mean in pairs], axis=0)
        distances: FloatArray = np.sqrt(nearest)
        return distances


@dataclass(frozen=True, slots=True)
class ClassMahalanobis:
    """MD with a covariance for each class: the least Mahalanobis distance to a class, by the class's own covariance.

    Lee et al. 2023 describe MD by "each class distribution's mean and variance"; Lee et al. 2018, whom they cite, share
    one covariance (`Mahalanobis`). The covariance of a class with n images in D dimensions is

        (1 - s) S_class + s S_shared,   s = D / (n + D)

    plus `ridge` times the mean shared variance on the diagonal. Without the shared part a class with no more images
    than dimensions would have no invertible covariance; with many images it vanishes (Friedman 1989, Regularized
    discriminant analysis).

    Args:
        ridge: Fraction of the mean shared variance that is added to every variance.
        shrinkage: s, from 0 (only the class) to 1 (only the shared covariance, as in `Mahalanobis`); None for the
            formula.

    Raises:
        InvalidInput: A setting is out of range.

    >>> fitted = ClassMahalanobis(ridge=0, shrinkage=0).fit([[-1.0], [1.0], [6.0], [10.0]], None, [0, 0, 1, 1])
    >>> fitted.strangeness([[3.0], [12.0]], None)
    array([2.5, 2. ])
    """

    ridge: float = 1e-6
    shrinkage: float | None = None

    def __post_init__(self) -> None:
        check_ridge(self.ridge)
        if self.shrinkage is not None and not 0 <= self.shrinkage <= 1:
            raise InvalidInput(
                f"shrinkage must be from 0 to 1, got {self.shrinkage}; None follows the numbers of images"
            )

    def fit(
        self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None
    ) -> FittedClassMahalanobis:
        """Fit to features (N, D) and labels (N,), at least two images per class.

        The number of classes is that of the logits or, without logits, the highest label plus one.
        """
        table, truth = _check_classes(features, logits, labels, who="md-class")
        means, dimensions = class_means(table, truth), table.shape[1]
        shared, ridge = _shared_covariance(table, truth, means, self.ridge, who="md-class")
        whites = []
        for index, mean in enumerate(means):
            centred = table[truth == index] - mean
            share = dimensions / (len(centred) + dimensions) if self.shrinkage is None else self.shrinkage
            covariance = (1 - share) * (centred.T @ centred) / len(centred) + share * shared
            covariance.flat[:: dimensions + 1] += ridge
            whites.append(whitening(covariance, who="md-class"))
        return FittedClassMahalanobis(means, tuple(whites))


def _check_classes(
    features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None, *, who: str
) -> tuple[FloatArray, IntArray]:
    """Return training features (N, D) and their classes (N,), at least two images of each."""
    table, truth = check_features(features, who=who), np.asarray(labels)
    if logits is not None:
        classes = check_logits(logits, who=who).shape[1]
    else:
        classes = int(truth.max(initial=0)) + 1 if np.issubdtype(truth.dtype, np.integer) else 0
    return table, check_labels(labels, rows=len(table), classes=classes, who=who, least=2)


def _shared_covariance(
    table: FloatArray, truth: IntArray, means: FloatArray, ridge: float, *, who: str
) -> tuple[FloatArray, float]:
    """Compute the covariance (D, D) of rows minus their class mean, and `ridge` times its mean variance."""
    products = np.zeros((table.shape[1], table.shape[1]))
    for index, mean in enumerate(means):  # one class at a time, to save memory
        centred = table[truth == index] - mean
        products += centred.T @ centred
    covariance = products / len(table)
    return covariance, ridge * check_variance(float(np.trace(covariance)) / len(covariance), table, who=who)


@dataclass(frozen=True, slots=True, eq=False)
class FittedNeighbours:
    """Training features of unit length, (N, D), and the number of neighbours."""

    rows: NDArray[np.float32]
    neighbours: int

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the distance (n,) to the K-th nearest row.

        The row is searched in float32 (rows whose squared distances differ by less than 1e-6 may be confused); its
        distance is computed in float64.
        """
        table = check_features(features, who="knn", dimensions=self.rows.shape[1])
        units = table / _lengths(table)
        distances, step = np.empty(len(units)), max(1, _SIMILARITIES // len(self.rows))
        for start in range(0, len(units), step):
            part = units[start : start + step]
            kth = _kth_highest(part.astype(np.float32) @ self.rows.T, self.neighbours)
            distances[start : start + step] = np.linalg.norm(part - self.rows[kth], axis=1)
        return distances


@dataclass(frozen=True, slots=True)
class NearestNeighbours:
    """KNN: the Euclidean distance to the K-th nearest training image, with all features scaled to unit length.

    From 0 (K training images in the same direction) to 2. Source: Sun et al. 2022; K = 50 as in Lee et al. 2023.

    Args:
        neighbours: K.

    Raises:
        InvalidInput: `neighbours` is less than 1.

    >>> NearestNeighbours(1).fit([[1.0, 0.0]], None, None).strangeness([[-2.0, 0.0]], None)
    array([2.])
    """

    neighbours: int = 50

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise InvalidInput(f"neighbours must be 1 or more, got {self.neighbours}; 50 is the default")

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedNeighbours:
        """Store the directions of features (N, D), N >= K, as float32."""
        table = check_features(features, who="knn")
        if len(table) < self.neighbours:
            raise InvalidInput(
                f"knn needs at least as many training features as neighbours, got {len(table)} for "
                f"{self.neighbours}; add images or set fewer neighbours"
            )
        rows = np.empty(table.shape, np.float32)
        np.divide(table, _lengths(table), out=rows, casting="same_kind")  # no second float64 table
        return FittedNeighbours(rows, self.neighbours)


def _lengths(table: FloatArray) -> FloatArray:
    """Compute the lengths (n, 1) of the rows and raise if one is zero."""
    lengths: FloatArray = np.sqrt(np.einsum("nd,nd->n", table, table))[:, None]
    if not lengths.all():
        raise InvalidInput(f"knn needs features with a direction, row {int(lengths.argmin())} is all zeros")
    return lengths


def _kth_highest(table: NDArray[np.float32], k: int) -> IntArray:
    """Return the column (n,) of each row's k-th highest value.

    The k-th highest maximum of disjoint groups of columns is a lower bound of it, so only values that reach the bound
    are sorted.
    """
    groups = table.shape[1] // _FOLD
    if groups < k:
        return np.argpartition(table, -k, axis=1)[:, -k]
    maxima = table[:, : groups * _FOLD].reshape(len(table), _FOLD, groups).max(axis=1)
    maxima.partition(groups - k, axis=1)
    kth = np.empty(len(table), np.int64)
    for index, (row, bound) in enumerate(zip(table, maxima[:, groups - k], strict=True)):
        columns = np.flatnonzero(row >= bound)
        kth[index] = columns[np.argpartition(row[columns], -k)[-k]]
    return kth
