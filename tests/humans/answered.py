"""Trials as a study leaves them, made by hand and by simulated crowds with planted bad workers."""

import json

import numpy as np
import polars as pl

from cosight.humans.simulated.panel import Panel
from cosight.trials.spaces import label_spaces
from cosight.trials.table import make_trials

DIGITS = label_spaces["digits-11"]


def row(who, item, response, *, trial=1, truth=None, rt=1.0, kind="human", image=None, **extra):
    """One trial; `extra` is what a study says besides."""
    facts = {"observer": f"{kind}:{who}", "kind": kind, "experiment": "study", "stimulus": item, "image": image or item}
    given = {"truth": truth, "response": response, "rt": rt, "session": who, "trial": trial}
    return {**facts, **given, "extra": json.dumps({"role": "test", **extra})}


def trials_of(rows, space=DIGITS):
    return make_trials(pl.DataFrame(list(rows), infer_schema_length=None), space=space)


def sheet(answers, *, kind="human", form=None):
    """Rows of everybody's answers to items `i0`, `i1`, ..., truth "0"; `answers` is one text a person, - a miss."""
    return [
        row(f"p{p}", f"i{i}", None if a == "-" else a, trial=i + 1, truth="0", kind=kind, **form_of(form))
        for p, text in enumerate(answers)
        for i, a in enumerate(text)
    ]


def form_of(form):
    return {} if form is None else {"form": form}


class Crowd:
    """A VisAlign-like survey on corrupted digits: 25 of 60 images a person, distractors, gold images and repeats.

    Good people are the simulated panel's: they see less with severity, differ in their eyes, and slip in 2 % of the
    trials, on distractors and gold images too.
    """

    def __init__(self, *, seed, images=60, shown=25, distractors=10, clear=3, gold=0, repeats=2, kind="human"):
        self.rng, self.panel, self.kind = np.random.default_rng(seed), Panel(), kind
        kinds = list(self.panel.midpoints)
        levels, ease = self.rng.integers(1, 11, images), 0.5 * self.rng.normal(size=images)
        self.images = [(f"t{i:03d}", kinds[i % 16], int(levels[i]), str(i % 10), ease[i]) for i in range(images)]
        self.shown, self.repeats = shown, repeats
        self.checks = [(f"d{i}", "distractor", "abstain", i < clear) for i in range(distractors)]
        self.checks += [(f"g{i}", "gold", str(i % 10), None) for i in range(gold)]
        self.rows = []

    def take_part(self, who, worker):
        """One participant; `worker(own, expected)` turns what a good person would say into an answer."""
        eyes, shown = 0.7 * self.rng.normal(), self.rng.choice(len(self.images), self.shown, replace=False)
        plan = [("test", *self.images[i]) for i in shown] + [check[1::-1] + check[2:] for check in self.checks]
        plan = [plan[i] for i in self.rng.permutation(len(plan))]
        first = {item[1]: number for number, item in enumerate(plan, start=1)}
        plan += [("repeat", *self.images[i]) for i in shown[: self.repeats]]
        for number, (role, item, *facts) in enumerate(plan, start=1):
            asked = role in ("test", "repeat")
            own = self._seen(eyes, *facts) if asked else self._slipping(facts[0])
            extra = {"repeat_of": first[item]} if role == "repeat" else {}
            extra |= {} if asked else {"expected": facts[0], "clear": facts[1]}
            truth, rt = facts[2] if asked else facts[0], 0.3 + self.rng.gamma(4, 0.3)
            said = worker(own, extra)
            self.rows.append(
                row(
                    who, item, said, trial=number, truth=truth, rt=rt, kind=self.kind, role=role, finished=True, **extra
                )
            )

    def _seen(self, eyes, kind, level, digit, ease):
        return DIGITS.answers[self.rng.choice(11, p=self.panel.distribution(kind, level, digit, eyes + ease))]

    def _slipping(self, expected):
        return expected if self.rng.random() > self.panel.lapse else self.anything()

    def anything(self):
        return DIGITS.answers[self.rng.integers(11)]

    def fill(self, **counts):
        """Participants called after what they do: good, clicker, presser, distracted."""
        for what, count in counts.items():
            for number in range(count):
                key = self.anything()
                workers = {
                    "good": lambda own, extra: own,
                    "clicker": lambda own, extra: self.anything(),
                    "presser": lambda own, extra, key=key: key,
                    "distracted": lambda own, extra: str(self.rng.integers(10)) if extra.get("clear") else own,
                }
                self.take_part(f"{what}-{number}", workers[what])
        return trials_of(self.rows)


def crowd(counts, **design):
    return Crowd(**design).fill(**counts)
