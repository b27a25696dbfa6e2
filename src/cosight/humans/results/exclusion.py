"""Exclusion of participants who did not do the task: rules, each with its source or reason, and their statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from cosight.arrays import FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.measures.gold_distributions import label_counts

__all__ = [
    "AnswerCounts",
    "ParticipantRecords",
    "Rules",
    "check_against_others",
    "check_own_trials",
    "longest_run",
    "mean_bound",
    "probability_at_least",
    "probability_at_most",
    "run_bound",
]


@dataclass(frozen=True, slots=True)
class Rules:
    """When a participant is excluded, with all their trials. Stored with every result."""

    distractors: int = 1  # wrong answers to clear distractors; one is enough in Lee et al. 2023 (VisAlign), F.2
    checks: int = 1  # failed attention checks; in Nanda et al. 2021, A.1 all workers passed all of theirs
    # Median seconds per answer. To see what a photo shows takes .15 s, however well trained (Thorpe, Fize & Marlot
    # 1996, Nature 381; Fabre-Thorpe et al. 2001, J. Cognitive Neuroscience 13), and then a hand has to move.
    seconds: float = 0.2
    # The probability with which each statistical rule may exclude somebody who did the task: one in a thousand, so that
    # most studies lose nobody to them.
    error: float = 0.001
    # Lapse rate of somebody who does the task: the upper end that lapses are given when psychometric functions are
    # fitted (Wichmann & Hill 2001, Perception & Psychophysics 63).
    slips: float = 0.06
    # Fraction of the images on which somebody who does the task may give up, and answer the same or at random. Without
    # it the statistical rules would exclude cautious people and those with a favourite guess.
    given_up: float = 0.5

    def __post_init__(self) -> None:
        if min(self.distractors, self.checks) < 1:
            raise InvalidInput(f"distractors and checks must be 1 or more, got {self.distractors} and {self.checks}")
        for name, value in {"error": self.error, "slips": self.slips, "given_up": self.given_up}.items():
            if not 0 <= value < 1:
                raise InvalidInput(f"{name} must be in [0, 1), got {value:g}")
        if not self.seconds >= 0:
            raise InvalidInput(f"seconds must be 0 or more, got {self.seconds:g}")


@dataclass(frozen=True, slots=True)
class ParticipantRecords:
    """The records of one participant (rows of `study_records`) without warm-up trials."""

    name: str
    records: tuple[Mapping[str, Any], ...]

    @property
    def answered(self) -> tuple[Mapping[str, Any], ...]:
        """Return the records with an answer."""
        return tuple(row for row in self.records if row["answer"] is not None)

    @property
    def first_answers(self) -> list[tuple[str, str]]:
        """Return item and answer of each first showing."""
        return [(row["item"], row["answer"]) for row in self.answered if row["role"] != "repeat"]

    @property
    def keys(self) -> list[str]:
        """Return what was pressed in each trial: the answer, or the position of the option."""
        return [
            str(row["answer"]) if row["choices"] is None else f"option {row['choices'].index(row['answer']) + 1}"
            for row in self.answered
        ]

    @property
    def median_rt(self) -> float | None:
        """Return the median response time in seconds; None without times."""
        times = [row["rt"] for row in self.answered if row["rt"] is not None]
        return float(np.median(times)) if times else None

    @property
    def repeated_answers(self) -> list[tuple[str, bool]]:
        """Return each item that was answered twice, and whether the answers are equal."""
        first = {(row["trial"], row["item"]): row["answer"] for row in self.answered}
        repeats = [(row, (row["repeat_of"], row["item"])) for row in self.answered if row["role"] == "repeat"]
        return [(row["item"], row["answer"] == first[key]) for row, key in repeats if key in first]

    def passed_and_failed(self, role: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """Return the trials of a role that were passed and failed; unanswered and unchecked trials are neither."""
        checked = [
            row for row in self.records if row["role"] == role and None not in (row["response"], row["expected"])
        ]
        passed = [row for row in checked if row["response"] == row["expected"]]
        return passed, [row for row in checked if row["response"] != row["expected"]]


def check_own_trials(participant: ParticipantRecords, rules: Rules) -> list[str]:
    """Return reasons to exclude a participant by their own trials: distractors, attention checks, times."""
    distractors = [row for row in participant.passed_and_failed("distractor")[1] if row["clear"]]
    checks = participant.passed_and_failed("check")[1]
    reasons = []
    for failed, limit, what in (
        (distractors, rules.distractors, "wrong on clear distractors"),
        (checks, rules.checks, "attention checks failed"),
    ):
        if len(failed) >= limit:
            first = failed[0]
            example = f"trial {first['trial']}: {first['response'][:12]} instead of {first['expected'][:12]}"
            reasons.append(f"{len(failed)} {what} ({example})")
    median = participant.median_rt
    if median is not None and median < rules.seconds:
        reasons.append(f"a median of {median:.3f} s per answer, too fast to have looked ({rules.seconds:g} s)")
    return reasons


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """Counts of many participants' first answers, (items, answers)."""

    items: Mapping[str, int]
    answers: Mapping[str, int]
    counts: IntArray

    @classmethod
    def of(cls, participants: Sequence[ParticipantRecords]) -> AnswerCounts:
        """Count the answers of these participants."""
        pairs = [pair for one in participants for pair in one.first_answers]
        if not pairs:
            return cls({}, {}, np.zeros((0, 0), np.int64))
        items = {name: index for index, name in enumerate(dict.fromkeys(item for item, _ in pairs))}
        answers = {name: index for index, name in enumerate(sorted({answer for _, answer in pairs}))}
        codes = np.array([(items[item], answers[answer]) for item, answer in pairs])
        return cls(items, answers, label_counts(codes[:, 0], codes[:, 1], len(answers)).counts)

    def without(self, participant: ParticipantRecords) -> AnswerCounts:
        """Return the counts of the others, where `participant` is among those counted."""
        counts = self.counts.copy()
        for item, answer in participant.first_answers:
            counts[self.items[item], self.answers[answer]] -= 1
        return AnswerCounts(self.items, self.answers, counts)

    def select(self, items: Sequence[str]) -> IntArray:
        """Return the counts of these items, zeros where nobody answered."""
        none = np.zeros(len(self.answers), np.int64)
        rows = [self.counts[self.items[item]] if item in self.items else none for item in items]
        return np.array(rows, np.int64).reshape(-1, len(self.answers))

    def probabilities(self, items: Sequence[str]) -> FloatArray:
        """Estimate the probability of each answer to these items, (items, answers).

        An item's own counts, plus one answer distributed like all answers together: an item that few have answered is
        assumed to be like the rest.
        """
        totals, rows = self.counts.sum(axis=0), self.select(items)
        return np.asarray((rows + totals / totals.sum()) / (rows.sum(axis=1, keepdims=True) + 1))

    def probability(self, items: Sequence[str], answers: Sequence[str]) -> FloatArray:
        """Estimate the probability of one answer to each item; 0 for an answer that nobody ever gave."""
        padded = np.column_stack([self.probabilities(items), np.zeros(len(items))])
        return np.asarray(padded[np.arange(len(items)), [self.answers.get(answer, -1) for answer in answers]])


def check_against_others(participant: ParticipantRecords, others: AnswerCounts, rules: Rules) -> list[str]:
    """Return reasons to exclude a participant by others' answers to the same items: five statistical tests."""
    if not others.counts.any() or not participant.answered:
        return []
    tests = (_test_gold, _test_repeats, _test_constant_key, _test_run, _test_random_answers)
    results = (test(participant, others, rules) for test in tests)
    return [f"{words} (p < {max(p, 1e-9):.1g})" for p, words in results if p < rules.error]


def _test_gold(participant: ParticipantRecords, others: AnswerCounts, rules: Rules) -> tuple[float, str]:
    """More mistakes on images that everybody should see right than lapses and the others' mistakes explain."""
    passed, failed = participant.passed_and_failed("gold")
    gold = passed + failed
    right = others.probability([row["item"] for row in gold], [row["expected"] for row in gold])
    p = probability_at_least(1 - (1 - rules.slips) * right, len(failed))
    return p, f"{len(failed)} of {len(gold)} gold images wrong"


def _test_repeats(participant: ParticipantRecords, others: AnswerCounts, rules: Rules) -> tuple[float, str]:
    """Fewer equal answers to repeated images than two different people would give.

    Two people agree about an image with probability sum_c p_c^2. Somebody who does the task agrees with themself at
    least as often: the mean of squares over people is at least the square of the mean. Neither showing may be a lapse.
    """
    pairs = participant.repeated_answers
    agreement = (others.probabilities([item for item, _ in pairs]) ** 2).sum(axis=1) * (1 - rules.slips) ** 2
    same = sum(is_equal for _, is_equal in pairs)
    words = f"{same} of {len(pairs)} repeated images answered alike, fewer than by two different people"
    return probability_at_most(agreement, same), words


def _test_constant_key(participant: ParticipantRecords, others: AnswerCounts, rules: Rules) -> tuple[float, str]:
    """One answer (or position) more often than giving up on some of the images explains."""
    keys = participant.keys
    key = max(sorted(set(keys)), key=keys.count)
    p = probability_at_least(_key_probabilities(participant, others, key, rules), keys.count(key))
    return p * len(others.answers), f"{key!r} {keys.count(key)} times of {len(keys)}"  # any key could have been it


def _test_run(participant: ParticipantRecords, others: AnswerCounts, rules: Rules) -> tuple[float, str]:
    """A longer run of one answer (or position) than giving up on some of the images explains."""
    length, start = longest_run(participant.keys)
    key = participant.keys[start]
    p = run_bound(_key_probabilities(participant, others, key, rules), length)
    return p * len(others.answers), f"{key!r} {length} times in a row"


def _key_probabilities(participant: ParticipantRecords, others: AnswerCounts, key: str, rules: Rules) -> FloatArray:
    """Return the probability of `key` in each trial of somebody who gives up on some images, and presses it there."""
    answers = []
    for row in participant.answered:
        options = {f"option {number}": answer for number, answer in enumerate(row["choices"] or (), start=1)}
        answers.append(key if row["choices"] is None else options.get(key, ""))
    probability = others.probability([row["item"] for row in participant.answered], answers)
    return rules.given_up + (1 - rules.given_up) * probability


def _test_random_answers(participant: ParticipantRecords, others: AnswerCounts, rules: Rules) -> tuple[float, str]:
    """Less agreement with the others than somebody has who gives up on some of the images and answers at random there.

    Each answer scores the fraction of others who gave it. Somebody who does the task scores what two of the others do
    on average, sum_c n_c (n_c - 1) / (n (n - 1)); a random answer scores one over the number of answers.
    """
    answers = participant.first_answers
    counts = others.select([item for item, _ in answers])
    n = counts.sum(axis=1)
    known = n >= 2
    if not known.any():
        return 1.0, ""
    score = counts[np.arange(len(n)), [others.answers.get(answer, -1) for _, answer in answers]]
    score = np.where([answer in others.answers for _, answer in answers], score, 0)[known] / n[known]
    agreement = (counts * (counts - 1)).sum(axis=1)[known] / (n * (n - 1))[known]
    expected = (1 - rules.given_up) * agreement.mean() + rules.given_up / len(others.answers)
    words = f"agreement of {score.mean():.2f} with the others, who have {agreement.mean():.2f} among themselves"
    return mean_bound(float(score.mean()), float(expected), int(known.sum())), words


def probability_at_least(probabilities: FloatArray, count: int) -> float:
    """Compute the probability that `count` or more of independent events happen (Poisson binomial).

    >>> probability_at_least(np.array([0.5, 0.5]), 1)
    0.75
    """
    return float(_poisson_binomial(probabilities)[count:].sum())


def probability_at_most(probabilities: FloatArray, count: int) -> float:
    """Compute the probability that `count` or fewer of independent events happen (Poisson binomial)."""
    return float(_poisson_binomial(probabilities)[: count + 1].sum())


def _poisson_binomial(probabilities: FloatArray) -> FloatArray:
    """Compute the probabilities of 0, 1, ... events, one event at a time; without subtraction, tails are exact."""
    mass = np.zeros(len(probabilities) + 1)
    mass[0] = 1.0
    for n, p in enumerate(probabilities, start=1):
        mass[1 : n + 1] = mass[1 : n + 1] * (1 - p) + mass[:n] * p
        mass[0] *= 1 - p
    return mass


def mean_bound(mean: float, expected: float, n: int) -> float:
    """Bound the probability that the mean of `n` independent numbers in [0, 1] with this expectation is this low.

    exp(-n KL(mean, expected)), KL the divergence of two coins (Hoeffding 1963, theorem 1); 1 where it is not low.

    >>> round(mean_bound(0.1, 0.5, 20), 5)
    0.00064
    """
    if mean >= expected:
        return 1.0
    divergence = special.rel_entr(mean, expected) + special.rel_entr(1 - mean, 1 - expected)
    return float(np.exp(-n * divergence))


def longest_run(values: Sequence[str]) -> tuple[int, int]:
    """Return length and start of the longest run of one value; (0, 0) without values.

    >>> longest_run(["a", "b", "b", "b", "a"])
    (3, 1)
    """
    best, start = (0, 0), 0
    for index, value in enumerate(values):
        if value != values[start]:
            start = index
        best = max(best, (index - start + 1, start), key=lambda run: run[0])
    return best


def run_bound(probabilities: FloatArray, length: int) -> float:
    """Bound the probability of a run of `length` events anywhere: the sum over all positions where it could begin.

    >>> run_bound(np.array([0.5, 0.5, 0.5]), 2)
    0.5
    """
    windows = np.lib.stride_tricks.sliding_window_view(probabilities, length)
    return float(windows.prod(axis=1).sum())
