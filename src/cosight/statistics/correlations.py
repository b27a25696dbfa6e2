"""Correlations between measures over pairs of observers, and values of pairs in standard deviations.

Every observer takes part in many pairs, so pairs are not independent. Intervals of correlations are computed from
resampled observers, people and models alike: a pair counts as often as the product of its two observers' numbers, and
an observer is never paired with itself. Measures for which lower is more alike are negated, so that a positive r means
that two measures order pairs alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cosight.arrays import FloatArray
from cosight.measures import measures
from cosight.measures.arithmetic import divide
from cosight.measures.correlation import (
    rank_correlation,
    rank_correlation_resampled,
    rank_correlation_weighted,
    z_scores,
)
from cosight.statistics.blocks import Block, Flags, Key, single_block
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, GroupKey, Row, number

__all__ = ["CORRELATION", "FAMILIES", "KIND_OF_DOMAIN", "Domain", "correlation_block", "correlations", "z_score_rows"]

CORRELATION = "rank_correlation"
KIND_OF_DOMAIN = "domains"  # in the group of a correlation over some of the domains: synthetic, naturalistic
FAMILIES = ("family", "other_family")  # in the group of a z-score: the families of observer and against


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The numbers of one domain, and how often each of its observers is drawn."""

    block: Block
    weights: Mapping[str, FloatArray]  # observer -> (resamples,); others are not resampled and count once
    kind: str | None = None  # such as synthetic or naturalistic


@dataclass(frozen=True, slots=True, eq=False)
class _SharedPairs:
    """Values of two measures over the pairs of single observers that have both, higher for more alike."""

    x: FloatArray
    y: FloatArray
    weights: FloatArray  # (resamples, pairs)
    observers: frozenset[str]  # that are drawn, of the pairs in which both values are defined

    @classmethod
    def of(cls, domain: Domain, a: str, b: str) -> _SharedPairs:
        """Return the pairs of one domain."""
        index_of = {key: i for i, key in enumerate(domain.block.keys)}
        both = [
            (i, other)
            for i in _single_pairs(domain.block, a)
            if (other := index_of.get(domain.block.keys[i]._replace(measure=b))) is not None
        ]
        i, j = np.array(both, dtype=np.int64).reshape(-1, 2).T
        x, y = _towards_alike(a, domain.block.values[i]), _towards_alike(b, domain.block.values[j])
        keys = [domain.block.keys[k] for k in i]
        weights = np.ones((domain.block.resampled.shape[1], len(keys)))
        for column, key in enumerate(keys):
            for name in (key.observer, key.against or ""):
                weights[:, column] *= domain.weights.get(name, 1.0)
        defined = ~(np.isnan(x) | np.isnan(y))
        pairs = [key for key, is_defined in zip(keys, defined, strict=True) if is_defined]
        observers = {name for key in pairs for name in (key.observer, key.against) if name in domain.weights}
        return cls(x, y, weights, frozenset(observers))

    @classmethod
    def pooled(cls, parts: Sequence[_SharedPairs]) -> _SharedPairs:
        """Return the pairs of several domains."""
        x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
        weights = np.concatenate([part.weights for part in parts], axis=1)
        return cls(x, y, weights, frozenset(name for part in parts for name in part.observers))


def correlations(domains: Sequence[Domain], names: Sequence[str]) -> list[Block]:
    """Compute Spearman's r between measures over pairs of observers (Xu et al. 2024, Table 1 and Figure 5).

    Args:
        domains: The numbers of each domain and the draws of its observers.
        names: Measures of pairs; every two of them are correlated.

    Returns:
        For every two measures, which are a row's observer and against: r in each domain; where there are several
        domains, also r of the pairs of all domains pooled, which has no group, and the mean r over domains, whose group
        has `*`; and these two for each kind of domain, where there are several kinds.
    """
    kinds = list(dict.fromkeys(domain.kind for domain in domains if domain.kind is not None))
    correlated: list[Block] = []
    for a, b in combinations(names, 2):
        shared = [_SharedPairs.of(domain, a, b) for domain in domains]
        inside = [_correlation(d.block.group, a, b, pairs) for d, pairs in zip(domains, shared, strict=True)]
        correlated += inside
        if len(domains) < 2:
            continue
        averaged = tuple((key, "*") for key, _ in domains[0].block.group)
        correlated.append(_correlation((), a, b, _SharedPairs.pooled(shared), "pairs of all groups pooled"))
        correlated.append(_mean_correlation(inside, averaged))
        for kind in kinds if len(kinds) > 1 else []:
            chosen = [index for index, domain in enumerate(domains) if domain.kind == kind]
            group = ((KIND_OF_DOMAIN, kind),)
            pooled = _SharedPairs.pooled([shared[index] for index in chosen])
            correlated.append(_correlation(group, a, b, pooled, f"pairs of {len(chosen)} {kind} groups pooled"))
            correlated.append(_mean_correlation([inside[index] for index in chosen], (*averaged, *group)))
    return correlated


def _single_pairs(block: Block, measure: str) -> list[int]:
    """Return the indices of a measure's values of two single observers."""
    groups = {PEOPLE, SIMULATED, MODELS}
    return [
        index
        for index, key in enumerate(block.keys)
        if key.measure == measure
        and key.statistic == "value"
        and key.against is not None
        and not {key.observer, key.against} & groups
    ]


def _towards_alike(measure: str, values: FloatArray) -> FloatArray:
    """Return values that are higher for pairs that are more alike."""
    return -values if measure in measures and measures[measure].direction == "lower" else values


def _correlation(group: GroupKey, a: str, b: str, pairs: _SharedPairs, note: str = "") -> Block:
    """Compute Spearman's r over pairs, resampled over observers."""
    correlation = rank_correlation(pairs.x, pairs.y)
    resampled = rank_correlation_weighted(pairs.x, pairs.y, pairs.weights)
    observers = len(pairs.observers)
    notes, flags = [note, f"interval over {observers} observers"], list[str]()
    if correlation.left_out:
        notes.append(f"{correlation.left_out} pairs undefined left out")
        flags.append("undefined_parts")
    if not observers:
        resampled = np.full_like(resampled, np.nan)
        notes[1] = "no interval: too few observers to resample"
        flags.append("few_people")
    return single_block(
        group,
        Key(a, b, CORRELATION),
        correlation.value,
        resampled,
        float(correlation.n),
        "; ".join(part for part in notes if part),
        tuple(flags),
        float(observers),
    )


def _mean_correlation(in_domains: Sequence[Block], group: GroupKey) -> Block:
    """Average correlations over domains; undefined ones are left out."""
    values = np.array([block.values[0] for block in in_domains])
    defined = ~np.isnan(values)
    resampled = np.stack([block.resampled[0] for block in in_domains])[defined]
    count, left_out = int(defined.sum()), int((~defined).sum())
    note = f"mean r of {count} groups" + (f", {left_out} undefined left out" if left_out else "")
    return single_block(
        group,
        in_domains[0].keys[0],
        values[defined].mean() if count else float("nan"),
        divide(np.nansum(resampled, axis=0), (~np.isnan(resampled)).sum(axis=0).astype(np.float64)),
        float(sum(block.n[0] for block in in_domains)),
        note,
        ("undefined_parts",) if left_out else (),
        max(block.clusters[0] for block in in_domains),  # models take part in several domains
    )


def correlation_block(
    group: GroupKey,
    a: str,
    b: str,
    x: FloatArray,
    y: FloatArray,
    x_resampled: FloatArray,
    y_resampled: FloatArray,
    note: str = "",
    flags: Flags = (),
) -> Block:
    """Compute Spearman's r of two measures' values, with its resamples over stimuli.

    Args:
        group: The group of the result.
        a: The first measure, which becomes the observer.
        b: The second measure, which becomes against.
        x: Values of the first measure, (n,).
        y: Values of the second measure, (n,).
        x_resampled: Resamples of x, (n, resamples).
        y_resampled: Resamples of y, (n, resamples).
        note: Of the result; it is completed where undefined values are left out.
        flags: Of the result; likewise.
    """
    correlation = rank_correlation(x, y)
    resampled = rank_correlation_resampled(x_resampled.T, y_resampled.T)
    if correlation.left_out:
        left_out = f"{correlation.left_out} pairs undefined left out"
        note, flags = f"{note}; {left_out}" if note else left_out, (*flags, "undefined_parts")
    return single_block(group, Key(a, b, CORRELATION), correlation.value, resampled, float(correlation.n), note, flags)


def z_score_rows(block: Block, names: Sequence[str], families: Mapping[str, str]) -> list[Row]:
    """Express every pair's value in standard deviations from the mean over pairs (Xu et al. 2024, Figure 6).

    A row's group has the families of its two observers, in the order of FAMILIES. z is higher for pairs that are more
    alike, also for measures for which lower is more alike. There are no intervals: z describes these pairs.

    Args:
        block: The numbers of one domain.
        names: Measures of pairs.
        families: The family of each observer.

    Returns:
        One row per pair and measure with the statistic `z`.
    """
    rows = []
    for name in names:
        index = _single_pairs(block, name)
        values = z_scores(_towards_alike(name, block.values[index]))
        n = int(np.count_nonzero(~np.isnan(values)))
        for i, value in zip(index, values.tolist(), strict=True):
            key = block.keys[i]
            of_pair = tuple(zip(FAMILIES, (families[key.observer], families[key.against or ""]), strict=True))
            rows.append(
                Row(
                    observer=key.observer,
                    against=key.against,
                    measure=name,
                    statistic="z",
                    group=(*block.group, *of_pair),
                    value=number(value),
                    n=int(block.n[i]),
                    flags=() if np.isfinite(value) else ("undefined",),
                    note=f"among {n} pairs" if np.isfinite(value) else block.notes[i] or "undefined",
                )
            )
    return rows
