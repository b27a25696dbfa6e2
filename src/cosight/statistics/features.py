"""Features that runs store of their models, over the stimuli of a table, and measures of pairs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import Pairs, Weights, divide
from cosight.measures.declarations import PairForm
from cosight.measures.representation import linear_cka_influence, linear_cka_matrix
from cosight.registry import Registry
from cosight.trials.join import AlignedTrials, manifest_rows
from cosight.trials.manifest import manifest_folders, read_manifest
from cosight.trials.run_arrays import arrays_file, read_arrays

__all__ = ["FeatureMeasure", "Features", "feature_form", "feature_measures"]

_NAMED = 3  # models without features that a notice names


@dataclass(frozen=True, slots=True)
class FeatureMeasure:
    """A measure of two models' features of the same stimuli."""

    matrix: Callable[[Sequence[FloatArray]], FloatArray]  # feature sets -> (sets, sets)
    influence: Callable[[Sequence[FloatArray], Pairs], FloatArray]  # sets, pairs -> (pairs, stimuli), with mean 0


feature_measures: Registry[FeatureMeasure] = Registry("feature-measure", listed=False)
for _name, _unbiased in (("linear_cka", True), ("linear_cka_plain", False)):
    feature_measures.add(
        _name,
        FeatureMeasure(
            partial(linear_cka_matrix, unbiased=_unbiased), partial(linear_cka_influence, unbiased=_unbiased)
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Where the features of each observer of a table are stored; they are read when they are needed."""

    table: AlignedTrials
    # per observer: the files that have its features, each with the file's row for every column, -1 where it has none
    files: tuple[tuple[tuple[Path, NDArray[np.int64]], ...], ...]
    _read: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: AlignedTrials, sources: Iterable[object]) -> Features:
        """Find the features of the observers of a table in the runs among the sources of its trials.

        Args:
            table: Everyone's answers side by side.
            sources: Run folders, folders of runs, and anything else, which has no features.
        """
        runs = []
        for folder in manifest_folders(sources):
            if (folder / "features").is_dir():
                rows = manifest_rows(read_manifest(folder)[0], table.columns).cast(int).fill_null(-1).to_numpy()
                runs.append((folder, rows))
        files = []
        for observer in table.observers:
            stored = ((arrays_file(folder, observer), rows) for folder, rows in runs)
            files.append(tuple((path, rows) for path, rows in stored if path.is_file()))
        return cls(table, tuple(files))

    def vectors(self, observer: int) -> NDArray[np.float32]:
        """Return an observer's features of every column, (columns, width); nan rows where there are none.

        Raises:
            InvalidInput: Two runs have features of different widths, or a file does not fit its run.
        """
        if observer not in self._read:
            self._read[observer] = self._load(observer)
        return self._read[observer]

    def _load(self, observer: int) -> NDArray[np.float32]:
        columns = len(self.table.columns)
        out: NDArray[np.float32] = np.full((columns, 0), np.nan, dtype=np.float32)
        for path, rows in self.files[observer]:
            arrays: dict[str, NDArray[Any]] = read_arrays(path)
            if "features" not in arrays:
                continue
            features = arrays["features"].reshape(len(arrays["features"]), -1)
            if out.shape[1] not in (0, features.shape[1]):
                raise InvalidInput(
                    f"features of {self.table.observers[observer]} have {out.shape[1]} numbers in one run and "
                    f"{features.shape[1]} in {path}; compare these runs one by one"
                )
            if rows.max(initial=-1) >= len(features):
                raise InvalidInput(
                    f"{path} has features of {len(features)} stimuli, its run has more; run the model again"
                )
            if not out.shape[1]:
                out = np.full((columns, features.shape[1]), np.nan, dtype=np.float32)
            out[rows >= 0] = features[rows[rows >= 0]]
        return out

    def lacks(self, observer: int) -> str:
        """Return why an observer has no features, in words; an empty text where it has some."""
        if self.table.people[observer]:
            return "people have no features"
        if not self.files[observer]:
            return "no stored features (evaluate --features stores those of models that have some)"
        return "" if self.vectors(observer).shape[1] else "the model outputs logits only"

    def notices(self) -> list[str]:
        """Return one notice about all models without features; none where every model has some."""
        models = [i for i in range(len(self.table.observers)) if not self.table.people[i]]
        lacking = [self.table.observers[i] for i in models if self.lacks(i)]
        if not lacking:
            return []
        names = ", ".join(lacking[:_NAMED]) + (f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else "")
        return [f"{len(lacking)} of {len(models)} models have no features ({names}): CKA of their pairs is undefined"]


def feature_form(name: str, features: Features, observers: NDArray[np.int64], columns: NDArray[np.int64]) -> PairForm:
    """Return the pair form of a measure of features.

    Two models are compared on the stimuli of which both have features. Resamples are a first-order approximation, from
    the influence of each stimulus.

    Args:
        name: A measure of `feature_measures`.
        features: The observers' features.
        observers: The observers that pairs index, as rows of the table.
        columns: The columns of the table to compare on.
    """
    measure = feature_measures[name]
    reasons = [features.lacks(int(i)) for i in observers]
    known: dict[tuple[int, int], tuple[float, NDArray[np.float32]]] = {}  # value and influence of every column
    shown: dict[int, BoolArray] = {}

    def has_features(row: int) -> BoolArray:
        """Return of which columns an observer has features."""
        if row not in shown:
            lacking = bool(reasons[row])
            mask = np.zeros(len(columns), dtype=np.bool_) if lacking else ~np.isnan(vectors(row)[:, 0])
            shown[row] = mask
        return shown[row]

    def vectors(row: int) -> NDArray[np.float32]:
        return features.vectors(int(observers[row]))[columns]

    def compute(pairs: Pairs) -> None:
        """Compute the pairs that are not known yet, together those with features of the same columns."""
        by_columns: dict[bytes, list[tuple[int, int]]] = {}
        for i, j in np.sort(pairs, axis=1).tolist():
            common = has_features(i) & has_features(j)
            if i != j and (i, j) not in known and common.any():
                by_columns.setdefault(common.tobytes(), []).append((i, j))
        for of_columns in by_columns.values():
            rows = sorted({row for pair in of_columns for row in pair})
            common = has_features(of_columns[0][0]) & has_features(of_columns[0][1])
            sets = [vectors(row)[common].astype(np.float64) for row in rows]
            local = np.searchsorted(rows, np.array(of_columns))
            values = measure.matrix(sets)[local[:, 0], local[:, 1]]
            influences = np.zeros((len(local), len(columns)), dtype=np.float32)
            influences[:, common] = measure.influence(sets, local)
            for pair, value, influence in zip(of_columns, values.tolist(), influences, strict=True):
                known[pair] = value, influence

    def matrix(answers: Answers) -> FloatArray:
        out = np.full((answers.observers, answers.observers), np.nan)
        pairs = np.stack(np.triu_indices(answers.observers, 1), axis=1)
        compute(pairs)
        for (i, j), (value, _) in known.items():
            out[i, j] = out[j, i] = value
        return out

    def resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
        compute(pairs)
        out = np.full((len(pairs), len(weights)), np.nan)
        for index, (i, j) in enumerate(np.sort(pairs, axis=1).tolist()):
            if (i, j) in known:
                value, influence = known[i, j]
                drawn = weights @ (has_features(i) & has_features(j)).astype(weights.dtype)
                out[index] = value + divide((weights @ influence).astype(np.float64), drawn.astype(np.float64))
        return out

    def count(answers: Answers, pairs: Pairs) -> FloatArray:
        return np.array([np.count_nonzero(has_features(i) & has_features(j)) for i, j in pairs.tolist()], np.float64)

    def why_undefined(answers: Answers, pairs: Pairs) -> list[str]:
        texts = []
        for pair in pairs.tolist():
            by_reason: dict[str, list[str]] = {}
            for row in pair:
                if reasons[row]:
                    by_reason.setdefault(reasons[row], []).append(features.table.observers[observers[row]])
            texts.append("; ".join(f"{' and '.join(names)}: {reason}" for reason, names in by_reason.items()))
        return texts

    undefined = "fewer than four stimuli of which both have features, or features without spread"
    return PairForm(matrix, resampled, count, undefined, answers_only=False, why_undefined=why_undefined)
