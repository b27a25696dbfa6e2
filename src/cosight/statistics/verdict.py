"""Verdicts: which model is closest to people, by how much, and whether that may be chance.

`closest_model` collects the facts from score rows, `verdict_text` puts them into words. Nothing is computed here:
values, paired differences, ranks and shares of people's agreement are rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cosight.measures import measures
from cosight.statistics.row_text import decimals, group_name, number_text, p_text, short_name
from cosight.statistics.rows import GOLD, MODELS, PEOPLE, SIMULATED, SIMULATED_GOLD, GroupKey, Row, Scores
from cosight.statistics.seeds import display_name
from cosight.trials.table import PEOPLE as KINDS_OF_PEOPLE

__all__ = ["Verdict", "closest_model", "ranked_measures", "ranked_models", "verdict_sentences", "verdict_text"]

# what a model can be close to, in order of preference, and what texts call it
_REFERENCES = {
    PEOPLE: "people",
    SIMULATED: "simulated people",
    GOLD: "the gold labels",
    SIMULATED_GOLD: "the gold labels of simulated people",
}
_NAMED = 3  # models that are equally close, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which model is closest to people by one measure.

    Attributes:
        measure: Registered name of the measure.
        people: The reference: people, simulated people, or gold labels; None where there is none.
        group: The group of stimuli: all of them, or the mean over groups.
        confidence: Confidence level of the intervals.
        ranked: Values of the models, the closest first. Undefined values are left out.
        undefined: Undefined values of models.
        agreement: People's agreement with each other; None where it is unknown.
        share: The value of the closest model as a share of people's agreement; None where it is unknown.
        difference: Value of the closest model less that of the next one; None where it was not computed.
        rank: Rank of the closest model; None where it was not computed.
    """

    measure: str
    people: str | None
    group: GroupKey
    confidence: float
    ranked: tuple[Row, ...]
    undefined: tuple[Row, ...]
    agreement: Row | None
    share: Row | None
    difference: Row | None
    rank: Row | None

    @property
    def tied(self) -> tuple[Row, ...]:
        """The models that share the first rank with the closest one, itself included."""
        if self.rank is not None and self.rank.value is not None:
            return self.ranked[: round(2 * self.rank.value) - 1]  # those who do not differ share their mean rank
        return tuple(row for row in self.ranked if row.value == self.ranked[0].value)

    @property
    def certain(self) -> bool | None:
        """Whether chance is an unlikely reason that the closest model is ahead of the next; None where unknown."""
        if len(self.ranked) < 2:
            return None
        if len(self.tied) > 1:
            return False
        if self.difference is not None and self.difference.p is not None:
            return self.difference.p < 1 - self.confidence
        if self.rank is not None and self.rank.high is not None:
            return self.rank.high < 2
        return None


def ranked_measures(scores: Scores) -> list[str]:
    """Return the measures of pairs among the scores that have a better end, so that models can be ranked by them."""
    of_pairs = {row.measure for row in scores.rows if row.against is not None and row.statistic == "value"}
    asked = scores.settings.get("measure", sorted(of_pairs))
    return [name for name in asked if name in of_pairs and measures[name].direction != "neither"]


def ranked_models(scores: Scores, measure: str, group: GroupKey) -> list[Row]:
    """Return the values of the models with people by one measure in one group, the closest first, undefined ones last.

    Models are ordered by their ranks where there are any, which for some measures are those at equal numbers of
    errors; else by their values. Models with equal values are ordered by name.

    Args:
        scores: Scores of `compare`, or of `score` on a benchmark.
        measure: Registered name of the measure.
        group: The group of stimuli.
    """
    of_group = [
        row
        for row in scores.rows
        if (row.measure, row.group) == (measure, group)
        and row.against in _REFERENCES
        and _is_model(scores, row.observer)
    ]
    values = [row for row in of_group if row.statistic == "value"]
    against = next((name for name in _REFERENCES if any(row.against == name for row in values)), None)
    ranks = {row.observer: row.value for row in of_group if (row.statistic, row.against) == ("rank", against)}
    sign = -1 if measures[measure].direction == "higher" else 1

    def position(row: Row) -> tuple[bool, float, float, str]:
        rank = ranks.get(row.observer)
        return row.value is None, 0.0 if rank is None else rank, sign * (row.value or 0.0), row.observer

    # a benchmark ranks means over seeds, not the single observers behind them
    listed = [row for row in values if row.against == against and (not ranks or row.observer in ranks)]
    return sorted(listed, key=position)


def closest_model(scores: Scores, measure: str | None = None) -> Verdict | None:
    """Return which model is closest to people, how far ahead of the next it is, and how certain that is.

    Args:
        scores: Scores of `compare`, or of `score` on a benchmark.
        measure: Registered name of a measure of two observers (default: the first one that was computed).

    Returns:
        The facts, of all stimuli or of the mean over groups; None where no such measure was computed.

    >>> from cosight.scoring.compare import compare
    >>> scores = compare("sample:edges", measure=["ec"], resamples=20)
    >>> closest_model(scores).ranked[0].observer
    'model:resnet50-trained-on-SIN'
    """
    able = ranked_measures(scores)
    measure = next(iter(able), None) if measure is None else measure
    if measure is None:
        return None
    rows = [row for row in scores.rows if row.measure == measure]
    groups = dict.fromkeys(row.group for row in rows if row.statistic == "value")
    overall = (group for group in reversed(groups) if all(value == "*" for _, value in group))
    group = next(overall, next(reversed(groups), ()))
    listed = ranked_models(scores, measure, group)
    ranked = tuple(row for row in listed if row.value is not None)
    people = ranked[0].against if ranked else _reference(scores, listed)
    index = {(row.observer, row.against, row.statistic): row for row in rows if row.group == group}
    first, second = (ranked[i].observer if i < len(ranked) else "" for i in (0, 1))
    agreement = index.get((people or "", people, "value"))
    return Verdict(
        measure=measure,
        people=people,
        group=group,
        confidence=scores.settings.get("confidence", 0.95),
        ranked=ranked,
        undefined=tuple(row for row in listed if row.value is None),
        agreement=agreement if agreement is not None and agreement.value is not None else None,
        share=index.get((first, people, "normalised")),
        difference=_first_less_second(
            index.get((first, second, "difference")), index.get((second, first, "difference"))
        ),
        rank=index.get((first, people, "rank")),
    )


def verdict_text(scores: Scores, measure: str | None = None) -> str:
    """Return in plain words which model is closest to people, by how much, and whether that may be chance.

    Args:
        scores: Scores of `compare`, or of `score` on a benchmark.
        measure: Registered name of the measure to decide by (default: the first one of two observers).

    Returns:
        Some sentences; an empty text where no measure of two observers was computed.

    >>> from cosight.scoring.compare import compare
    >>> scores = compare("sample:edges", measure=["ec"], resamples=20)
    >>> verdict_text(scores).partition(": EC")[0]
    'model:resnet50-trained-on-SIN is closest to people'
    """
    return " ".join(verdict_sentences(scores, measure))


def verdict_sentences(scores: Scores, measure: str | None = None) -> list[str]:
    """Return the sentences of `verdict_text`; the first one says which model is closest, or why that is unknown.

    Args:
        scores: Scores of `compare`, or of `score` on a benchmark.
        measure: Registered name of the measure to decide by (default: the first one of two observers).
    """
    verdict = closest_model(scores, measure)
    if verdict is None:
        return []
    others = [closest_model(scores, name) for name in ranked_measures(scores) if name != verdict.measure]
    sentences = [*_sentences(verdict), *_other_measures(verdict, [other for other in others if other and other.ranked])]
    if verdict.group:
        name = group_name(verdict.group)
        sentences[0] = f"{_upper(name) if name.startswith('mean over') else name}: {sentences[0]}"
    return sentences


def _is_model(scores: Scores, observer: str) -> bool:
    return observer not in (*_REFERENCES, MODELS) and scores.kinds.get(observer) not in KINDS_OF_PEOPLE


def _reference(scores: Scores, values: Iterable[Row]) -> str | None:
    """Return what the models of `values` are compared with; without any, the people among the observers."""
    known = {row.against for row in values}
    known |= {PEOPLE if kind == "human" else SIMULATED for kind in scores.kinds.values() if kind in KINDS_OF_PEOPLE}
    return next((name for name in _REFERENCES if name in known), None)


def _first_less_second(difference: Row | None, reverse: Row | None) -> Row | None:
    """Return the difference of two models in this order; `reverse` is the row of the other order."""
    return difference if difference is not None or reverse is None else reverse.reversed()


def _sentences(verdict: Verdict) -> list[str]:
    name, people = short_name(verdict.measure), _REFERENCES.get(verdict.people or "", "people")
    if verdict.people is None:
        return ["There are no people among these observers, so no model can be close to them; add trials of people."]
    if not verdict.ranked and verdict.undefined:
        return [f"{name} of every model with {people} is {verdict.undefined[0].note or 'undefined'}."]
    if not verdict.ranked:
        agreement = (
            f" {_upper(people)} agree with each other: {name} {number_text(verdict.agreement)}."
            if (verdict.agreement)
            else ""
        )
        return [f"There are no models among these observers.{agreement}"]
    first, tied = verdict.ranked[0], verdict.tied
    value = f"{name} {number_text(first)}{_share_text(verdict, people)}"
    if len(verdict.ranked) == 1:
        return [f"{display_name(first.observer)} is the only model with a value: {value}.", *_remarks(verdict)]
    if len(tied) > 1:
        more = f" and {len(tied) - _NAMED} more" if len(tied) > _NAMED else ""
        names = ", ".join(display_name(row.observer) for row in tied[:_NAMED])
        return [f"{len(tied)} models are equally close to {people} ({names}{more}): {value}.", *_remarks(verdict)]
    return [f"{display_name(first.observer)} is closest to {people}: {value}.", _lead_text(verdict), *_remarks(verdict)]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _share_text(verdict: Verdict, people: str) -> str:
    """Return the closest model's value as a share of people's agreement; only the agreement where it may be 0."""
    share, agreement = verdict.share, verdict.agreement
    if share is None or share.value is None or agreement is None or agreement.value is None:
        return ""
    if min(agreement.value, agreement.value if agreement.low is None else agreement.low) <= 0:
        return f"; {people} agree with each other by {number_text(agreement)}"
    interval = "" if share.low is None or share.high is None else f" [{share.low:.0%}, {share.high:.0%}]"
    return f", {share.value:.0%}{interval} of {people}'s agreement with each other ({number_text(agreement)})"


def _lead_text(verdict: Verdict) -> str:
    """Return by how much the closest model is ahead of the next one, and whether that may be chance."""
    second, difference = verdict.ranked[1], verdict.difference
    text = f"The next, {display_name(second.observer)} ({decimals(second.value or 0.0)}), is behind"
    if difference is not None and difference.value is not None:
        if measures[verdict.measure].direction == "lower":  # how much closer, whatever the direction
            difference = difference.reversed()
        text += f" by {number_text(difference)}"
        text += " at equal numbers of errors" if "rarefied" in difference.flags else ""
        text += f" ({p_text(difference)})" if difference.p is not None else ""
    elif second.value is not None and verdict.ranked[0].value is not None:
        text += f" by {decimals(abs(second.value - verdict.ranked[0].value))}"
    if verdict.certain is None:
        return f"{text}; it is unknown whether that is chance."
    if verdict.certain:
        return f"{text}: unlikely to be chance."
    rank = verdict.rank
    if rank is None or rank.high is None or rank.high < 2 or len(verdict.ranked) == 2:
        return f"{text}: that may be chance."
    count, first = len(verdict.ranked) + len(verdict.undefined), display_name(verdict.ranked[0].observer)
    return f"{text}: that may be chance. Rank 1 to {rank.high:.0f} of {count} fits {first}."


def _remarks(verdict: Verdict) -> list[str]:
    """Return what limits the verdict: models on different stimuli, undefined values."""
    remarks, shared = [], [row.n for row in verdict.ranked]
    if min(shared) < max(shared):
        remarks.append(
            f"Models share {min(shared)} to {max(shared)} stimuli with {_REFERENCES[verdict.people or PEOPLE]}, "
            "so they are not compared on the same stimuli."
        )
    if verdict.undefined:
        names = ", ".join(display_name(row.observer) for row in verdict.undefined[:_NAMED])
        more = f" and {len(verdict.undefined) - _NAMED} more" if len(verdict.undefined) > _NAMED else ""
        remarks.append(f"{short_name(verdict.measure)} of {names}{more} is undefined.")
    return remarks


def _other_measures(verdict: Verdict, others: Iterable[Verdict]) -> list[str]:
    """Return which model is closest by the other measures."""
    if len(verdict.ranked) < 2 or len(verdict.tied) > 1:
        return []
    first = verdict.ranked[0].observer
    texts = []
    for other in others:
        closest, doubt = other.ranked[0].observer, "" if other.certain else ", which may be chance"
        too = " too" if closest == first else ""
        texts.append((short_name(other.measure), f"{display_name(closest)}{too}{doubt}"))
    grouped = {text: [name for name, same in texts if same == text] for _, text in texts}
    return [f"By {' and '.join(names)} the closest is {text}." for text, names in grouped.items()]
