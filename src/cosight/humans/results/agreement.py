"""Do a study's participants agree with each other, and with themselves? Every coefficient with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cosight.arrays import FloatArray, IntArray
from cosight.humans.results.records import TARGET, asked_once
from cosight.measures.agreement import (
    fleiss_kappa,
    fleiss_kappa_resampled,
    intra_annotator_kappa,
    krippendorff_alpha,
    krippendorff_alpha_resampled,
)
from cosight.measures.gold import label_counts
from cosight.measures.survey import cronbach_alpha, cronbach_alpha_resampled
from cosight.measures.uncertainty import draw_people, draw_stimuli, percentile_interval
from cosight.trials.spaces import ABSTAIN

__all__ = ["Agreement", "agreement_of"]

_ENOUGH_PEOPLE = 4  # fewer cannot be resampled: in every ninth resample three are the same person thrice
_NO_FORMS = "undefined: alpha needs complete forms, everybody's answer to the same images; forms = true in the design"


@dataclass(frozen=True, slots=True)
class Agreement:
    """One coefficient of a group of participants; None where it is undefined, and `note` says why."""

    measure: str
    group: str  # people, or simulated people; of one form `people;form=2`
    value: float | None
    low: float | None
    high: float | None
    n: int  # items; pairs of showings for the intra-annotator kappa
    note: str


@dataclass(frozen=True, slots=True)
class _Found:
    value: float
    samples: FloatArray  # (resamples,)
    n: int
    note: str
    resampled: int | None = None  # people or pairs, where they are drawn instead of the `n` items

    def row(self, measure: str, group: str) -> Agreement:
        drawn = float(self.n if self.resampled is None else self.resampled)
        ends = percentile_interval(self.samples[None], np.array([self.value]), n=np.array([drawn]))
        value, low, high = (None if math.isnan(x) else float(x) for x in (self.value, ends.low[0], ends.high[0]))
        return Agreement(measure, group, value, low, high, self.n, self.note)


def agreement_of(
    records: pl.DataFrame, group: str, *, resamples: int, seed: int, refusing: bool
) -> tuple[Agreement, ...]:
    """Fleiss' kappa between people and within them, Krippendorff's and Cronbach's alpha of one group's records.

    Each has its own stream of random numbers. `refusing` says whether `abstain` is an answer.
    """
    table = asked_once(records)
    makers: dict[str, Callable[[np.random.Generator], _Found]] = {
        "fleiss_kappa": lambda rng: _fleiss(table, resamples, rng),
        "intra_annotator_kappa": lambda rng: _intra(records, resamples, rng),
        "krippendorff_alpha": lambda rng: _krippendorff(table, resamples, rng),
    }
    rows = [make(np.random.default_rng(seed)).row(name, group) for name, make in makers.items()]
    forms = _forms(table, refusing=refusing)
    return (*rows, *_cronbach(forms, group, resamples, seed))


def _coded(values: pl.Series) -> tuple[IntArray, int]:
    """Codes in alphabetical order, -1 for null, and how many there are."""
    names = {name: code for code, name in enumerate(values.drop_nulls().unique().sort())}
    return np.array([names.get(value, -1) for value in values], np.int64), len(names)


def _counts(table: pl.DataFrame) -> IntArray:
    """How many people gave each answer to each item, (items, answers)."""
    (items, many), (answers, classes) = _coded(table["item"]), _coded(table["answer"])
    return label_counts(items, answers, max(classes, 1), items=many).counts


def _shared(counts: IntArray) -> IntArray:
    return np.asarray(counts[counts.sum(axis=1) >= 2])


def _people(table: pl.DataFrame) -> str:
    return f"{table['participant'].n_unique()} participants"


def _undefined(value: float, n: int) -> str:
    """Why a coefficient has no value; empty where it has one."""
    if not math.isnan(value):
        return ""
    return "undefined: all answers are the same" if n else "undefined: no image has two answers"


def _fleiss(table: pl.DataFrame, resamples: int, rng: np.random.Generator) -> _Found:
    counts = _counts(table)
    found, shared = fleiss_kappa(counts), _shared(counts)
    left = f", {found.left_out} with fewer than two answers left out" if found.left_out else ""
    samples = fleiss_kappa_resampled(shared, draw_stimuli(np.ones(len(shared)), resamples, rng))
    note = _undefined(found.value, found.n) or f"{_people(table)}; interval over images{left}"
    return _Found(found.value, samples, found.n, note)


def _krippendorff(table: pl.DataFrame, resamples: int, rng: np.random.Generator) -> _Found:
    (items, many), (people, raters) = _coded(table["item"]), _coded(table["participant"])
    answers, _ = _coded(table["answer"])
    ratings = np.full((raters, many), np.nan)
    ratings[people, items] = np.where(answers >= 0, answers, np.nan)
    found = krippendorff_alpha(ratings)
    shared = ratings[:, (~np.isnan(ratings)).sum(axis=0) >= 2]
    samples = krippendorff_alpha_resampled(shared, draw_stimuli(np.ones(shared.shape[1]), resamples, rng))
    note = _undefined(found.value, found.n) or f"nominal; {_people(table)}; interval over images"
    return _Found(found.value, samples, found.n, note)


def _intra(records: pl.DataFrame, resamples: int, rng: np.random.Generator) -> _Found:
    """Repeated images with both their showings; a person is drawn with all their pairs."""
    again = records.filter(role="repeat").select("participant", "item").unique()
    shown = records.filter(pl.col("role").is_in(["test", "repeat"]) & pl.col("answer").is_not_null())
    shown = shown.join(again, ["participant", "item"], "semi", maintain_order="left")
    found = intra_annotator_kappa(*(shown[name].to_list() for name in ("participant", "item", "answer")))
    if not found.n:
        return _Found(math.nan, np.full(resamples, np.nan), 0, "undefined: nobody answered an image twice")
    pair = pl.concat_str(["participant", "item"], separator=" ")
    counts = _counts(shown.with_columns(item=pair))
    owners = shown.with_columns(item=pair).unique("item").sort("item")["participant"].to_numpy()
    twice = counts.sum(axis=1) >= 2
    weights = draw_stimuli(np.ones(twice.sum()), resamples, rng, clusters=owners[twice])
    people = len(set(owners[twice]))
    note = _undefined(found.value, found.n) or f"{found.n} pairs of {people} participants; interval over participants"
    return _Found(found.value, fleiss_kappa_resampled(counts[twice], weights), found.n, note, resampled=people)


def _forms(table: pl.DataFrame, *, refusing: bool) -> dict[str, tuple[FloatArray, int]]:
    """Right and wrong of those who answered a form whole, (people, items), and how many did not; by form.

    Where no forms were fixed, everything is one, if everybody answered all of it.
    """
    formed = table.filter(pl.col("form").is_not_null())
    if formed.height:
        parts = {str(form): part for (form,), part in formed.group_by("form", maintain_order=True)}
        return {form: _scores(parts[form], refusing=refusing) for form in sorted(parts, key=int)}
    scores, partly = _scores(table, refusing=refusing)
    return {} if partly else {"": (scores, 0)}


def _scores(table: pl.DataFrame, *, refusing: bool) -> tuple[FloatArray, int]:
    """Complete rows of 1 where an answer is the image's gold, else 0 (a missed one too); how many were not complete."""
    items = table["item"].n_unique()
    sizes = table.group_by("participant", maintain_order=True).len()
    whole = sizes.filter(len=items)
    complete = table.join(whole, "participant", "semi", maintain_order="left").sort("participant", "item")
    gold = {item: _gold(part, refusing=refusing) for (item,), part in table.group_by("item")}
    pairs = complete.select("item", "answer").iter_rows()
    right = np.array([answer == gold[item] for item, answer in pairs], np.float64)
    return right.reshape(whole.height, items), sizes.height - whole.height


def _gold(part: pl.DataFrame, *, refusing: bool) -> str | None:
    """What an image is said to show (Lee et al. 2023, D.1): its label if more than half chose it, else `abstain`.

    Where nobody can refuse it is the commonest answer; the first by name of several.
    """
    given = part["answer"].drop_nulls().to_list()
    if not given:
        return None
    label, common = _label(part.row(0, named=True)), max(sorted(set(given)), key=given.count)
    candidate = common if label is None else label
    if given.count(candidate) * 2 > len(given):
        return candidate
    return ABSTAIN if refusing else common


def _label(row: Mapping[str, Any]) -> str | None:
    """An image's own label, as answers are called."""
    if row["choices"] is None or row["truth"] is None:
        return None if row["truth"] is None else str(row["truth"])
    return TARGET


def _cronbach(forms: Mapping[str, tuple[FloatArray, int]], group: str, resamples: int, seed: int) -> list[Agreement]:
    """Alpha of each form, and their mean."""
    nothing = np.full(resamples, np.nan)
    if not forms:
        return [_Found(math.nan, nothing, 0, _NO_FORMS).row("cronbach_alpha", group)]
    streams = np.random.default_rng(seed).spawn(len(forms))
    found = [_alpha(*form, resamples, rng) for form, rng in zip(forms.values(), streams, strict=True)]
    if len(found) == 1:
        return [found[0].row("cronbach_alpha", group)]
    defined = [one for one in found if not math.isnan(one.value)]
    value = float(np.mean([one.value for one in defined])) if defined else math.nan
    samples = np.mean([one.samples for one in defined], axis=0) if defined else nothing
    note = f"mean of {len(defined)} forms; interval over participants, drawn within each form"
    people = min((one.resampled or 0 for one in defined), default=0)
    mean = _Found(value, samples, sum(one.n for one in defined), note, resampled=people)
    rows = [one.row("cronbach_alpha", f"{group};form={name}") for name, one in zip(forms, found, strict=True)]
    return [mean.row("cronbach_alpha", group), *rows]


def _alpha(scores: FloatArray, partly: int, resamples: int, rng: np.random.Generator) -> _Found:
    people, items = scores.shape
    left = f", {partly} who did not finish it left out" if partly else ""
    if people < 2 or items < 2:
        return _Found(math.nan, np.full(resamples, np.nan), items, f"undefined: {people} complete forms{left}", people)
    enough = people >= _ENOUGH_PEOPLE
    samples = cronbach_alpha_resampled(scores, draw_people(people, resamples, rng)) if enough else None
    note = f"right and wrong of {people} participants; interval over participants{left}"
    samples = np.full(resamples, np.nan) if samples is None else samples
    return _Found(cronbach_alpha(scores).value, samples, items, note, resampled=people)
