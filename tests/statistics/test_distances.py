from __future__ import annotations

import numpy as np
import pytest

from cosight.statistics.distances import RESPONSE_AGREEMENT, _mean_distances, _mean_distances_of_answers, _PeopleSample

PEOPLE, STIMULI, LABELS, ROWS = 6, 30, 5, 40


def people_sample():
    """People of whom some did not answer, and resamples in which the people left may be none."""
    rng = np.random.default_rng(0)
    answers = np.eye(LABELS, dtype=np.float32)[rng.integers(0, LABELS, (PEOPLE, STIMULI))]
    answers[rng.random((PEOPLE, STIMULI)) < 0.4] = 0
    weights = rng.multinomial(PEOPLE, [1 / PEOPLE] * PEOPLE, ROWS).astype(np.float32)
    return _PeopleSample(answers, weights, rng.multinomial(STIMULI, [1 / STIMULI] * STIMULI, ROWS).astype(np.float32))


@pytest.mark.parametrize(
    "name", ["hellinger", "total_variation", "jensen_shannon", "kullback_leibler", RESPONSE_AGREEMENT]
)
def test_distances_of_answers_are_those_of_their_distributions(name):
    sample, rng = people_sample(), np.random.default_rng(1)
    model = np.eye(LABELS)[rng.integers(0, LABELS, STIMULI)]
    model[:3] = np.nan
    person = np.where(sample.answers[2].any(axis=1, keepdims=True), sample.answers[2], np.nan).astype(float)
    fast = _mean_distances_of_answers(sample, {"model": model, "person": person}, [name], {"person": 2})
    without = sample.people_weights.copy()
    without[:, 2] = 0
    others = _PeopleSample(sample.answers, without, sample.stimulus_weights)
    for key, plain in (
        (("model", name), _mean_distances(sample, {"model": model}, [name])),
        (("person", name), _mean_distances(others, {"person": person}, [name])),
    ):
        np.testing.assert_allclose(fast[key][0], plain[key][0], atol=1e-12)
        assert fast[key][1] == plain[key][1]


def test_probabilities_and_measures_of_every_label_take_the_long_way():
    sample = people_sample()
    answers, soft = np.eye(LABELS)[np.zeros(STIMULI, dtype=int)], np.full((STIMULI, LABELS), 1 / LABELS)
    assert set(_mean_distances_of_answers(sample, {"a": answers, "b": soft}, ["hellinger"], {})) == {("a", "hellinger")}
    assert _mean_distances_of_answers(sample, {"a": answers}, ["hellinger", "hellinger_printed"], {}) == {}
