"""Coordinates in which a covariance is the identity, so that the Mahalanobis distance is the Euclidean one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput

__all__ = ["Whitening", "checked_ridge", "checked_spread", "whitening"]


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """`inverse` (D, D) is the inverse of the covariance's lower Cholesky factor, in Fortran order."""

    inverse: FloatArray

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Rows (n, D), centred -> whitened rows (n, D); centred rows in C order are overwritten."""
        # triangular: half the work of a matrix product. C-ordered rows are Fortran-ordered columns, nothing is copied
        columns: FloatArray = dtrmm(1.0, self.inverse, rows.T, lower=1, overwrite_b=1)
        return columns.T

    def lengths(self, rows: FloatArray) -> FloatArray:
        """Squared Mahalanobis lengths (n,) of centred rows, which are overwritten."""
        white = self(rows)
        found: FloatArray = np.einsum("nd,nd->n", white, white)
        return found

    @property
    def log_determinant(self) -> float:
        """Half the logarithm of the determinant of the inverse covariance."""
        return float(np.log(np.diagonal(self.inverse)).sum())


def whitening(covariance: FloatArray, *, who: str) -> Whitening:
    """Of a symmetric covariance (D, D), which must be invertible."""
    singular = f"{who} needs an invertible covariance of {len(covariance)} dimensions, got a singular one; raise ridge"
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError as error:
        raise InvalidInput(singular) from error
    # the share of a dimension's variance that the dimensions before it leave open; rounding leaves about D eps
    left = np.diagonal(factor) ** 2 / np.diagonal(covariance)
    if left.min() <= len(covariance) * np.finfo(np.float64).eps:
        raise InvalidInput(singular)
    inverse, _ = dtrtri(factor, lower=1)  # in Fortran order; it cannot fail where the diagonal is positive
    return Whitening(inverse)


def checked_spread(variance: float, rows: FloatArray, *, who: str) -> float:
    """The mean variance of the rows, if it is more than rounding leaves of rows that are all the same."""
    rounding = 8 * np.finfo(np.float64).eps * max(rows.max(initial=0), -rows.min(initial=0))
    if not variance > rounding**2:
        raise InvalidInput(f"{who} needs training features that vary, got the same in every row; check the layer")
    return variance


def checked_ridge(ridge: float) -> None:
    """Refuse what is no share of a variance."""
    if not 0 <= ridge < np.inf:
        raise InvalidInput(f"ridge must be 0 or more, a share of the mean variance, got {ridge}; 1e-6 is the usual one")
