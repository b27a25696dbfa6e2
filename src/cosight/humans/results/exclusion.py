"""Who did not do the task: rules, each with its source or reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosight.arrays import FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.humans.results.chance import at_least, at_most, longest_run, mean_bound, run_bound
from cosight.measures.gold_distributions import label_counts

__all__ = ["Crowd", "ParticipantSummary", "Rules", "reasons_alone", "reasons_among_others"]


@dataclass(frozen=True, slots=True)
class Rules:
    """When a participant is left out, whole. Stored with every result."""

    distractors: int = 1  # wrong answers to clear distractors; one is enough in Lee et al. 2023 (VisAlign), F.2
    checks: int = 1  # failed attention checks; in Nanda et al. 2021, A.1 all workers passed all of theirs
    # Median seconds an answer takes. To see what a photo shows takes .15 s, however well trained (Thorpe, Fize & Marlot
    # 1996, Nature 381; Fabre-Thorpe et al. 2001, J. Cognitive Neuroscience 13), and then a hand has to move.
    seconds: float = 0.2
    # How often each of the rules about chance may drop somebody who did the task: one in a thousand, so that most
    # studies lose nobody to them.
    error: float = 0.001
    # Somebody who looks may yet slip this often: the upper end that lapses are given when psychometric functions are
    # fitted (Wichmann & Hill 2001, Perception & Psychophysics 63).
    slips: float = 0.06
    # Somebody who looks may yet have given up on this share of the images, and said the same or anything there. Without
    # it the rules about chance would drop the timid and those with a favourite guess, who are people too.
    given_up: float = 0.5

    def __post_init__(self) -> None:
        if min(self.distractors, self.checks) < 1:
            raise InvalidInput(f"a rule counts from 1, got distractors {self.distractors} and checks {self.checks}")
        shares = {"error": self.error, "slips": self.slips, "given_up": self.given_up}
        for name, share in shares.items():
            if not 0 <= share < 1:
                raise InvalidInput(f"{name} is a share in [0, 1), got {share:g}")
        if not self.seconds >= 0:
            raise InvalidInput(f"seconds must be 0 or more, got {self.seconds:g}")


@dataclass(frozen=True, slots=True)
class ParticipantSummary:
    """One participant's records (rows of `records_of`), warm-up left out; `given` are those with an answer."""

    name: str
    records: tuple[Mapping[str, Any], ...]

    @property
    def given(self) -> tuple[Mapping[str, Any], ...]:
        """Answered in time."""
        return tuple(row for row in self.records if row["answer"] is not None)

    @property
    def first_answers(self) -> list[tuple[str, str]]:
        """Item and answer, without second showings."""
        return [(row["item"], row["answer"]) for row in self.given if row["role"] != "repeat"]

    @property
    def places(self) -> list[str]:
        """What was pressed each time: the answer, or the option's place."""
        return [_place(row) for row in self.given]

    @property
    def median_rt(self) -> float | None:
        """Seconds; None without times."""
        times = [row["rt"] for row in self.given if row["rt"] is not None]
        return float(np.median(times)) if times else None

    @property
    def pairs(self) -> list[tuple[str, bool]]:
        """Each item answered twice, and whether alike."""
        first = {(row["trial"], row["item"]): row["answer"] for row in self.given}
        again = [(row, (row["repeat_of"], row["item"])) for row in self.given if row["role"] == "repeat"]
        return [(row["item"], row["answer"] == first[before]) for row, before in again if before in first]

    def tested(self, role: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """Trials of a role that were passed and failed; without an answer, or where any will do, neither."""
        asked = [row for row in self.records if row["role"] == role and None not in (row["response"], row["expected"])]
        passed = [row for row in asked if row["response"] == row["expected"]]
        return passed, [row for row in asked if row["response"] != row["expected"]]


def _place(row: Mapping[str, Any]) -> str:
    return str(row["answer"]) if row["choices"] is None else f"option {row['choices'].index(row['answer']) + 1}"


def reasons_alone(own: ParticipantSummary, rules: Rules) -> list[str]:
    """Why a participant is out by their own trials: distractors, attention checks, times."""
    clear, checks = [row for row in own.tested("distractor")[1] if row["clear"]], own.tested("check")[1]
    reasons = []
    if len(clear) >= rules.distractors:
        reasons.append(f"{len(clear)} wrong on clear distractors ({_first(clear)})")
    if len(checks) >= rules.checks:
        reasons.append(f"{len(checks)} attention checks failed ({_first(checks)})")
    if own.median_rt is not None and own.median_rt < rules.seconds:
        reasons.append(f"a median of {own.median_rt:.3f} s an answer, too fast to have looked ({rules.seconds:g} s)")
    return reasons


def _first(failed: Sequence[Mapping[str, Any]]) -> str:
    row = failed[0]
    return f"trial {row['trial']}: {row['response'][:12]} instead of {row['expected'][:12]}"


@dataclass(frozen=True, slots=True)
class Crowd:
    """First answers of many participants, counted: (items, answers)."""

    items: Mapping[str, int]
    answers: Mapping[str, int]
    counts: IntArray

    @classmethod
    def of(cls, people: Sequence[ParticipantSummary]) -> Crowd:
        """The answers of these participants."""
        pairs = [pair for one in people for pair in one.first_answers]
        if not pairs:
            return cls({}, {}, np.zeros((0, 0), np.int64))
        items = {name: place for place, name in enumerate(dict.fromkeys(item for item, _ in pairs))}
        answers = {name: place for place, name in enumerate(sorted({answer for _, answer in pairs}))}
        codes = np.array([(items[item], answers[answer]) for item, answer in pairs])
        return cls(items, answers, label_counts(codes[:, 0], codes[:, 1], len(answers)).counts)

    def without(self, own: ParticipantSummary) -> Crowd:
        """The others, where `own` is one of them."""
        counts = self.counts.copy()
        for item, answer in own.first_answers:
            counts[self.items[item], self.answers[answer]] -= 1
        return Crowd(self.items, self.answers, counts)

    def at(self, items: Sequence[str]) -> IntArray:
        """The counts of these items, zeros where nobody answered."""
        none = np.zeros(len(self.answers), np.int64)
        rows = [self.counts[self.items[item]] if item in self.items else none for item in items]
        return np.array(rows, np.int64).reshape(-1, len(self.answers))

    def shares(self, items: Sequence[str]) -> FloatArray:
        """How likely each answer to these items is, (items, answers).

        An item's own answers, and one more that is divided as all answers are: an item that few have answered is
        thought to be like the rest.
        """
        totals, rows = self.counts.sum(axis=0), self.at(items)
        return np.asarray((rows + totals / totals.sum()) / (rows.sum(axis=1, keepdims=True) + 1))

    def share_of(self, items: Sequence[str], answers: Sequence[str]) -> FloatArray:
        """How likely one answer to each item is; 0 for an answer that nobody ever gave."""
        shares = np.column_stack([self.shares(items), np.zeros(len(items))])
        return np.asarray(shares[np.arange(len(items)), [self.answers.get(answer, -1) for answer in answers]])


def reasons_among_others(own: ParticipantSummary, others: Crowd, rules: Rules) -> list[str]:
    """Why a participant is out by what others answered to the same items: five rules about chance."""
    if not others.counts.any() or not own.given:
        return []
    tests: tuple[Callable[[ParticipantSummary, Crowd, Rules], tuple[float, str]], ...]
    tests = (_gold, _repeats, _constant, _on_end, _random)
    found = (test(own, others, rules) for test in tests)
    return [f"{words} (p < {max(chance, 1e-9):.1g})" for chance, words in found if chance < rules.error]


def _gold(own: ParticipantSummary, others: Crowd, rules: Rules) -> tuple[float, str]:
    """More mistakes on images that everybody should see than slips and the others' mistakes there explain."""
    passed, failed = own.tested("gold")
    asked = passed + failed
    right = others.share_of([row["item"] for row in asked], [row["expected"] for row in asked])
    return at_least(1 - (1 - rules.slips) * right, len(failed)), f"{len(failed)} of {len(asked)} gold images wrong"


def _repeats(own: ParticipantSummary, others: Crowd, rules: Rules) -> tuple[float, str]:
    """Fewer equal answers to repeated images than two strangers would give.

    Two strangers agree about an image with probability sum_c p_c^2. Who looks agrees with themself at least as often:
    the mean of squares over people is at least the square of the mean. Neither showing may be a slip.
    """
    pairs = own.pairs
    strangers = (others.shares([item for item, _ in pairs]) ** 2).sum(axis=1) * (1 - rules.slips) ** 2
    same = sum(alike for _, alike in pairs)
    return at_most(strangers, same), f"{same} of {len(pairs)} repeated images answered alike, fewer than by strangers"


def _constant(own: ParticipantSummary, others: Crowd, rules: Rules) -> tuple[float, str]:
    """One answer (or place) more often than giving up on some of the images explains."""
    places = own.places
    place = max(sorted(set(places)), key=places.count)
    chance = at_least(_pressing(own, others, place, rules), places.count(place))
    return chance * len(
        others.answers
    ), f"{place!r} {places.count(place)} times of {len(places)}"  # any would have done


def _on_end(own: ParticipantSummary, others: Crowd, rules: Rules) -> tuple[float, str]:
    """One answer (or place) more times on end than giving up on some of the images explains."""
    length, start = longest_run(own.places)
    place = own.places[start]
    chance = run_bound(_pressing(own, others, place, rules), length)
    return chance * len(others.answers), f"{place!r} {length} times on end"


def _pressing(own: ParticipantSummary, others: Crowd, place: str, rules: Rules) -> FloatArray:
    """How likely `place` is at each trial of somebody who gives up on some images, and presses it there."""
    behind = [_answer_at(row, place) for row in own.given]
    return rules.given_up + (1 - rules.given_up) * others.share_of([row["item"] for row in own.given], behind)


def _answer_at(row: Mapping[str, Any], place: str) -> str:
    """The answer that pressing a place gives at a trial."""
    places = {f"option {number}": answer for number, answer in enumerate(row["choices"] or (), start=1)}
    return place if row["choices"] is None else places.get(place, "")


def _random(own: ParticipantSummary, others: Crowd, rules: Rules) -> tuple[float, str]:
    """Less agreement with the others than somebody has who gives up on some of the images and says anything there.

    Each answer scores the share of others who gave it. Who looks scores what two of the others do on average,
    sum_c n_c (n_c - 1) / (n (n - 1)); anything scores one over the number of answers.
    """
    answers = own.first_answers
    counts = others.at([item for item, _ in answers])
    n = counts.sum(axis=1)
    known = n >= 2
    if not known.any():
        return 1.0, ""
    score = counts[np.arange(len(n)), [others.answers.get(answer, -1) for _, answer in answers]]
    score = np.where([answer in others.answers for _, answer in answers], score, 0)[known] / n[known]
    agree = (counts * (counts - 1)).sum(axis=1)[known] / (n * (n - 1))[known]
    looked = (1 - rules.given_up) * agree.mean() + rules.given_up / len(others.answers)
    words = f"agreement of {score.mean():.2f} with the others, who have {agree.mean():.2f} among themselves"
    return mean_bound(float(score.mean()), float(looked), int(known.sum())), words
