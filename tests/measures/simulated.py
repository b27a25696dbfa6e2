"""Simulated observers whose true error consistency and misclassification agreement are known.

An image has a class, a difficulty that all observers share in part, and a lure: the wrong class it looks like. An
observer errs where own noise plus shared difficulty pass a cut set by its accuracy, and then answers the lure or, out
of habit, something else. A case draws images, and people, again and again; `coverage` counts how often the interval
holds the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import beta, binom

from cosight.arrays import FloatArray, IntArray
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import Pairs, share_interval
from cosight.measures.declarations import PairForm, measures, pair_forms
from cosight.measures.distance import hellinger
from cosight.measures.draws import draw_people, draw_stimuli, effective_clusters
from cosight.measures.uncertainty import (
    Estimate,
    mean_with_interval,
    pair_estimate,
    percentile_interval,
    resample_mean_over_pairs,
    share_intervals,
)

__all__ = [
    "DISTANCES",
    "LURES",
    "SHARES",
    "Case",
    "Coverage",
    "Crowd",
    "CueConflict",
    "Population",
    "accuracy_difference_case",
    "answer",
    "class_similarity",
    "cles_case",
    "clustered_case",
    "clustered_share_case",
    "coverage",
    "crossed_case",
    "ec_case",
    "hellinger_case",
    "hellinger_difference_case",
    "ma_case",
    "observers",
    "pairs_of",
    "population_mean",
    "share_coverage",
    "true_agreement",
    "true_consistency",
]

Study = Callable[[np.random.Generator], Estimate]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Observers, by what makes them err."""

    accuracy: FloatArray  # (observers,)
    shared: FloatArray  # (observers,): share of the variance of difficulty that is everyone's
    follow: FloatArray  # (observers,): how often an error is the image's lure
    habit: FloatArray  # (observers, classes, classes): what an error is otherwise; rows sum to 1, diagonal 0

    def of(self, index: IntArray) -> Crowd:
        """Only these observers."""
        return Crowd(self.accuracy[index], self.shared[index], self.follow[index], self.habit[index])

    def with_(self, other: Crowd) -> Crowd:
        """These observers and then those."""
        both = zip(
            (self.accuracy, self.shared, self.follow, self.habit),
            (other.accuracy, other.shared, other.follow, other.habit),
            strict=True,
        )
        return Crowd(*(np.concatenate(pair) for pair in both))


def class_similarity(classes: int, rng: np.random.Generator, *, concentration: float = 0.3) -> FloatArray:
    """Which classes look like which, (classes, classes): uneven rows that sum to 1, diagonal 0."""
    table = rng.gamma(concentration, size=(classes, classes)) + 1e-3
    np.fill_diagonal(table, 0.0)
    return table / table.sum(axis=1, keepdims=True)


LURES = class_similarity(16, np.random.default_rng(20))  # how often an image of one class looks like another


def observers(accuracy: Sequence[float], *, shared: float, follow: float, seed: int = 0) -> Crowd:
    """Observers of given accuracies, each with habits of its own."""
    m, rng = len(accuracy), np.random.default_rng(seed)
    habit = np.stack([class_similarity(len(LURES), rng) for _ in range(m)])
    return Crowd(np.array(accuracy), np.full(m, shared), np.full(m, follow), habit)


@dataclass(frozen=True, slots=True)
class Population:
    """People to draw from, all different; habits are half everyone's (the lures) and half one's own."""

    accuracy: float  # of the median person
    spread: float = 0.4  # sd of ability, in units of the sd of difficulty
    shared: float = 0.5  # mean of a Beta distribution, as is
    follow: float = 0.3
    sameness: float = 10.0  # how narrow those two are

    def draw(self, people: int, rng: np.random.Generator, *, evenly: bool = False) -> Crowd:
        """So many people, at random or (for a mean over the population) evenly spread over each trait's quantiles."""
        u = rng.random((3, people))
        if evenly:
            u = (np.stack([rng.permutation(people) for _ in range(3)]) + u) / people
        shared, follow = (
            betaincinv(self.sameness * mean, self.sameness * (1 - mean), share)
            for mean, share in zip((self.shared, self.follow), u[1:], strict=True)
        )
        own = np.stack([class_similarity(len(LURES), rng) for _ in range(people)])
        return Crowd(ndtr(ndtri(self.accuracy) + self.spread * ndtri(u[0])), shared, follow, (own + LURES) / 2)


def answer(crowd: Crowd, stimuli: int, rng: np.random.Generator, *, cluster: int = 1) -> Answers:
    """The answers of all of them to the same new stimuli.

    In clusters, `cluster` stimuli in a row are made from one photo: they have its class and its lure, and nine
    tenths of the variance of their difficulty are the photo's. True measures are as for independent stimuli.
    """
    photos = -(-stimuli // cluster)
    truth = rng.integers(0, len(LURES), photos)
    lure, difficulty = _pick(LURES[truth], rng), rng.normal(size=photos)
    if cluster > 1:
        truth, lure, difficulty = (np.repeat(of_photo, cluster)[:stimuli] for of_photo in (truth, lure, difficulty))
        difficulty = np.sqrt(0.9) * difficulty + np.sqrt(0.1) * rng.normal(size=stimuli)
    return _answer_images(crowd, truth, lure, difficulty, rng)


def _answer_images(
    crowd: Crowd, truth: IntArray, lure: IntArray, difficulty: FloatArray, rng: np.random.Generator
) -> Answers:
    stimuli, rows = len(truth), []
    for accuracy, shared, follow, habit in zip(crowd.accuracy, crowd.shared, crowd.follow, crowd.habit, strict=True):
        strain = np.sqrt(shared) * difficulty + np.sqrt(1 - shared) * rng.normal(size=stimuli)
        error = np.where(rng.random(stimuli) < follow, lure, _pick(habit[truth], rng))
        rows.append(np.where(strain > ndtri(accuracy), error, truth))
    return Answers(np.array(rows, dtype=np.int16), truth.astype(np.int16), len(LURES))


@dataclass(frozen=True, slots=True)
class CueConflict:
    """Images of a shape picture and a texture picture: as many of every two classes, no two of the same pictures."""

    shapes: int  # pictures per class
    textures: int
    images: int  # per shape class and texture class

    def answer(self, crowd: Crowd, rng: np.random.Generator) -> tuple[Answers, IntArray, IntArray]:
        """The answers to images of new pictures, and the shape picture and the texture picture of each image.

        Of the variance of difficulty, .45 is the shape picture's and .45 the texture picture's. The lure of half the
        images is the class of the texture, that of the others a class that the shape picture looks like.
        """
        k = len(LURES)
        shape_lure = _pick(LURES[np.repeat(np.arange(k), self.shapes)], rng)
        shape_difficulty, texture_difficulty = rng.normal(size=k * self.shapes), rng.normal(size=k * self.textures)
        truth, texture_class = np.repeat(np.indices((k, k)).reshape(2, -1), self.images, axis=1)
        every = np.tile(np.arange(self.shapes * self.textures), (k * k, 1))
        pictures = np.divmod(rng.permuted(every, axis=1)[:, : self.images].ravel(), self.textures)
        shape, texture = truth * self.shapes + pictures[0], texture_class * self.textures + pictures[1]
        of_texture = (rng.random(len(truth)) < 0.5) & (truth != texture_class)
        lure = np.where(of_texture, texture_class, shape_lure[shape])
        of_pictures = np.sqrt(0.45) * (shape_difficulty[shape] + texture_difficulty[texture])
        difficulty = of_pictures + np.sqrt(0.1) * rng.normal(size=len(truth))
        return _answer_images(crowd, truth, lure, difficulty, rng), shape, texture


def _pick(shares: FloatArray, rng: np.random.Generator) -> IntArray:
    """One class for each row of shares; the last gap of a sum of shares, 1 - 1e-16, goes to the last class."""
    below = rng.random((len(shares), 1)) >= shares.cumsum(axis=1)[:, :-1]
    return np.asarray(below.sum(axis=1))


def true_consistency(crowd: Crowd) -> FloatArray:
    """Error consistency of all pairs on endless stimuli, (observers, observers); numerically exact.

    Given the shared difficulty z, errors are independent: P(wrong | z) = Phi((sqrt(s) z - cut) / sqrt(1 - s)), so
    P(both wrong) is an integral over z, here a sum over a grid.
    """
    z = np.linspace(-8, 8, 801)
    density = np.exp(-(z**2) / 2)
    cut, shared = ndtri(crowd.accuracy)[:, None], crowd.shared[:, None]
    wrong = ndtr((np.sqrt(shared) * z - cut) / np.sqrt(1 - shared))  # (observers, grid)
    both = (wrong * density / density.sum()) @ wrong.T
    a, b = 1 - crowd.accuracy[:, None], 1 - crowd.accuracy[None]
    expected = a * b + (1 - a) * (1 - b)
    return (1 - a - b + 2 * both - expected) / (1 - expected)


def true_agreement(crowd: Crowd) -> FloatArray:
    """Misclassification agreement of all pairs on endless stimuli, (observers, observers).

    Two errors agree when both are the lure, when one's habit hits the other's lure, or when two habits meet; whether
    an image is hard does not depend on its class, so how many errors are joint does not matter.
    """
    m, k = len(crowd.follow), len(LURES)
    follow, rest = crowd.follow[:, None], (1 - crowd.follow)[:, None] * crowd.habit.reshape(m, k * k)
    to_lure = rest @ LURES.reshape(k * k, 1) / k
    agree = follow * follow.T + follow * to_lure.T + to_lure * follow.T + rest @ rest.T / k
    said = follow * LURES.mean(axis=0) + rest.reshape(m, k, k).mean(axis=1)  # (observers, classes)
    chance = said @ said.T
    return (agree - chance) / (1 - chance)


def pairs_of(people: int) -> Pairs:
    """Every pair of people once."""
    return np.stack(np.triu_indices(people, 1), axis=1)


def population_mean(measure: str, population: Population, *, model: Crowd | None = None, people: int = 2000) -> float:
    """The true mean over pairs of different people of a population, or over people with the model."""
    crowd = population.draw(people, np.random.default_rng(7), evenly=True)
    if model is not None:
        return float(_TRUE[measure](crowd.with_(model))[-1, :-1].mean())
    return float(_TRUE[measure](crowd)[tuple(pairs_of(people).T)].mean())


_TRUE: dict[str, Callable[[Crowd], FloatArray]] = {"ec": true_consistency, "ma": true_agreement}


@dataclass(frozen=True, slots=True)
class Case:
    """Studies that can be run again and again, and the truth their intervals should hold."""

    name: str
    study: Study
    truth: Callable[[], float]  # a call: some take a while


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the intervals of many studies did."""

    share: float  # of the intervals that hold the truth
    below: float  # of the intervals that lie wholly below the truth
    above: float
    wideness: float  # mean width over that of a normal interval made from the spread of the studies' own values
    truth: float
    bias: float  # mean value less truth
    n: float  # mean trials a value rests on
    studies: int


def coverage(case: Case, *, studies: int, seed: int = 0) -> Coverage:
    """Run a study many times, each with its own random numbers; an undefined interval holds nothing."""
    truth = case.truth()
    found = [case.study(np.random.default_rng([seed, s])) for s in range(studies)]
    low, high, value, n = (np.array([getattr(f, name) for f in found]) for name in ("low", "high", "value", "n"))
    usual = 2 * ndtri(0.975) * np.nanstd(value, ddof=1)
    return Coverage(
        share=float(((low <= truth) & (truth <= high)).mean()),
        below=float((high < truth).mean()),
        above=float((low > truth).mean()),
        wideness=float(np.nanmean(high - low) / usual),
        truth=truth,
        bias=float(np.nanmean(value)) - truth,
        n=float(n.mean()),
        studies=studies,
    )


def ec_case(accuracy: tuple[float, float], shared: float, stimuli: int) -> Case:
    """Two observers meet new stimuli: error consistency, the more alike the more of the difficulty they share."""
    crowd = observers(accuracy, shared=shared, follow=0.3)
    name = f"EC, accuracies {accuracy[0]:g} and {accuracy[1]:g}, {stimuli} stimuli"
    return Case(name, _pair_study("ec", crowd, stimuli), lambda: float(true_consistency(crowd)[0, 1]))


def ma_case(accuracy: tuple[float, float], follow: float, stimuli: int) -> Case:
    """Misclassification agreement of two observers, the more alike the more often they follow the lure."""
    crowd = observers(accuracy, shared=0.5, follow=follow)
    name = f"MA, accuracies {accuracy[0]:g} and {accuracy[1]:g}, {stimuli} stimuli"
    return Case(name, _pair_study("ma", crowd, stimuli), lambda: float(true_agreement(crowd)[0, 1]))


def accuracy_difference_case(accuracy: tuple[float, float], stimuli: int) -> Case:
    """Two observers meet new stimuli: the difference of their accuracies."""
    crowd = observers(accuracy, shared=0.5, follow=0.3)
    name = f"difference of accuracies {accuracy[0]:g} and {accuracy[1]:g}, {stimuli} stimuli"
    return Case(name, _pair_study("accuracy_difference", crowd, stimuli), lambda: accuracy[0] - accuracy[1])


def cles_case(accuracy: tuple[float, float], follow: float, stimuli: int, *, studies: int = 4000) -> Case:
    """Class-level error similarity, whose truth is its mean over `studies` studies of this size (it is biased)."""
    crowd = observers(accuracy, shared=0.5, follow=follow)
    matrix = pair_forms["class_level_error_similarity"].matrix

    def truth() -> float:
        seeds = ([1, s] for s in range(studies))
        return float(np.mean([matrix(answer(crowd, stimuli, np.random.default_rng(s)))[0, 1] for s in seeds]))

    name = f"CLES, accuracies {accuracy[0]:g} and {accuracy[1]:g}, {stimuli} stimuli"
    return Case(name, _pair_study("cles", crowd, stimuli), truth)


def _pair_study(measure: str, crowd: Crowd, stimuli: int) -> Study:
    return lambda rng: pair_estimate(measure, answer(crowd, stimuli, rng), resamples=_RESAMPLES, rng=rng)


def clustered_case(measure: str, photos: int, cluster: int, *, by_cluster: bool = True) -> Case:
    """Two observers meet new photos, each altered `cluster` times; photos are resampled, or single stimuli."""
    crowd, stimuli = observers((0.6, 0.5), shared=0.8, follow=0.3), photos * cluster
    form, pair = pair_forms[measures.name_of(measure)], pairs_of(2)

    def study(rng: np.random.Generator) -> Estimate:
        table = answer(crowd, stimuli, rng, cluster=cluster)
        photo = np.arange(stimuli) // cluster if by_cluster else None
        weights = draw_stimuli(np.ones(stimuli, dtype=np.int64), _RESAMPLES, rng, clusters=photo)
        value, n = form.matrix(table)[:1, 1], form.count(table, pair)
        rests_on = np.minimum(n, _worth(form, table, pair, photo)) if by_cluster else n
        samples, biased = form.resampled(table, weights, pair), np.array([form.biased])
        interval = percentile_interval(samples, value, n=rests_on, biased=biased)
        return Estimate(value.item(), interval.low.item(), interval.high.item(), int(n[0]), 0.95, _RESAMPLES)

    name = f"{measure.upper()}, {photos} photos x {cluster}, {'photos' if by_cluster else 'stimuli'} drawn"
    return Case(name, study, lambda: float(_TRUE[measure](crowd)[0, 1]))


def _worth(form: PairForm, table: Answers, pairs: Pairs, photo: IntArray) -> FloatArray:
    """How many photos of equally many trials these photos are worth to each pair."""
    return effective_clusters(lambda stimuli: form.count(table.at(stimuli), pairs), photo)


_RESAMPLES = 400

# A model's share for the class all people chose: how often an image is of this kind, and the two numbers of a Beta
DISTANCES: dict[str, tuple[tuple[float, float, float], ...]] = {
    "even": ((1.0, 2.0, 2.0),),  # skewness of the distance -.1
    "sure": ((1.0, 8.0, 0.5),),  # .9
    "a tenth off": ((0.9, 40.0, 0.4), (0.1, 0.5, 0.5)),  # 3.4
    "few far off": ((0.97, 40.0, 0.4), (0.03, 0.5, 2.0)),  # 4.9
}


def hellinger_case(kind: str, stimuli: int) -> Case:
    """Mean Hellinger distance of a model from people who agree: sqrt(1 - sqrt(share)) an image."""

    def study(rng: np.random.Generator) -> Estimate:
        return mean_with_interval(_distances(kind, stimuli, rng), bounds=(0, 1), resamples=_RESAMPLES, rng=rng)

    return Case(f"mean Hellinger, {kind}, {stimuli} stimuli", study, lambda: _mean_distance(kind))


def hellinger_difference_case(kinds: tuple[str, str], stimuli: int) -> Case:
    """The difference of two models' mean Hellinger distances on the same images."""

    def study(rng: np.random.Generator) -> Estimate:
        items = _distances(kinds[0], stimuli, rng) - _distances(kinds[1], stimuli, rng)
        return mean_with_interval(items, bounds=(-1, 1), resamples=_RESAMPLES, rng=rng)

    name = f"difference of mean Hellinger, {kinds[0]} and {kinds[1]}, {stimuli} stimuli"
    return Case(name, study, lambda: _mean_distance(kinds[0]) - _mean_distance(kinds[1]))


def _distances(kind: str, stimuli: int, rng: np.random.Generator) -> FloatArray:
    often, a, b = np.array(DISTANCES[kind]).T
    drawn = rng.choice(len(often), size=stimuli, p=often)
    share = rng.beta(a[drawn], b[drawn])
    model = np.stack([share, 1 - share], axis=1)
    return hellinger(np.broadcast_to([1.0, 0.0], model.shape), model).items


def _mean_distance(kind: str) -> float:
    often, a, b = np.array(DISTANCES[kind]).T
    parts = [beta(*ab).expect(lambda share: np.sqrt(1 - np.sqrt(share))) for ab in zip(a, b, strict=True)]
    return float(often @ parts)


SHARES = np.arange(1, 100) / 100  # true shares at which coverage is computed


def share_coverage(n: int, *, confidence: float = 0.95) -> FloatArray:
    """How often the interval of a share of n independent trials holds each of `SHARES`; exact, without simulation."""
    successes = np.arange(n + 1.0)
    low, high = share_interval(successes, np.full(n + 1, float(n)), confidence)
    holds = (low <= SHARES[:, None]) & (SHARES[:, None] <= high)
    return (binom.pmf(successes, n, SHARES[:, None]) * holds).sum(axis=1)


def clustered_share_case(share: float, clusters: int, size: int, *, likeness: float = 0.3) -> Case:
    """The share of trials that come in clusters, whose own shares have a Beta distribution; clusters are drawn."""
    a, b = share * (1 / likeness - 1), (1 - share) * (1 / likeness - 1)

    def study(rng: np.random.Generator) -> Estimate:
        yes = rng.binomial(size, rng.beta(a, b, clusters))
        weights = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=_RESAMPLES)
        n, value = clusters * size, yes.sum() / (clusters * size)
        interval = share_intervals(
            (weights @ yes)[None] / n, np.array([value]), n=np.array([float(n)]), clusters=np.array([float(clusters)])
        )
        return Estimate(value, interval.low.item(), interval.high.item(), n, 0.95, _RESAMPLES)

    return Case(f"share {share:g}, {clusters} clusters of {size}", study, lambda: share)


_MODEL = Crowd(np.array([0.7]), np.array([0.3]), np.array([0.2]), class_similarity(16, np.random.default_rng(5))[None])


def crossed_case(
    measure: str,
    accuracy: float,
    people: int,
    stimuli: int,
    *,
    with_model: bool = False,
    draw_again: bool = True,
    cluster: int = 1,
    by_cluster: bool = True,
) -> Case:
    """New people meet new stimuli; the mean over pairs of people, or of each with one model.

    `draw_again=False` resamples the stimuli only; `cluster` stimuli are made from one photo, and `by_cluster=False`
    resamples them as if they were independent.
    """
    population, model = Population(accuracy), _MODEL if with_model else None
    pairs = np.stack([np.arange(people), np.full(people, people)], axis=1) if with_model else pairs_of(people)
    form = pair_forms[measures.name_of(measure)]

    def study(rng: np.random.Generator) -> Estimate:
        crowd = population.draw(people, rng)
        table = answer(crowd.with_(model) if model else crowd, stimuli, rng, cluster=cluster)
        times = np.ones((_RESAMPLES, table.observers))
        times[:, :people] = draw_people(people, _RESAMPLES, rng)
        photo = np.arange(stimuli) // cluster if by_cluster and cluster > 1 else None
        weights = draw_stimuli(np.ones(stimuli, dtype=np.int64), _RESAMPLES, rng, clusters=photo)
        values, n = form.matrix(table)[tuple(pairs.T)], form.count(table, pairs)
        clusters = np.mean(n if photo is None else np.minimum(n, _worth(form, table, pairs, photo)))
        drawn = (np.arange(len(times.T)) < people) & draw_again
        resampled = resample_mean_over_pairs(
            values, form.resampled(table, weights, pairs), pairs, times, drawn, clusters=float(clusters)
        )
        value, units = np.nanmean(values, keepdims=True), np.array([min(resampled.units, clusters)])
        interval = percentile_interval(resampled.values[None], value, n=units, biased=np.array([form.biased]))
        return Estimate(value.item(), interval.low.item(), interval.high.item(), int(n.mean()), 0.95, _RESAMPLES)

    of = f" in clusters of {cluster}" if cluster > 1 else ""
    name = (
        f"{measure.upper()}, {people} people{' and a model' if model else ''}, accuracy {accuracy:g}, "
        f"{stimuli} stimuli{of}"
    )
    return Case(name, study, lambda: population_mean(measure, population, model=model))
