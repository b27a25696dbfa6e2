"""Draw the pictures of the concepts: `python docs/diagrams.py` writes images/concept-*.svg and tutorial-ec-dots.svg.

The curves and bars are computed with cosight from its samples and from simulated observers; nothing is drawn by hand.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyBboxPatch

import cosight
from cosight.measures import (
    class_level_error_similarity,
    error_consistency,
    hellinger,
    misclassification_agreement,
    simulated_pairs,
)

IMAGES = Path(__file__).parent / "images"
PEOPLE, MODEL, GREY = "#d55e00", "#0072b2", "#666666"
plt.rcParams.update({"svg.hashsalt": "cosight", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(IMAGES / name, metadata={"Date": None})
    plt.close(figure)


def box(
    axis: plt.Axes, x: float, y: float, text: str, colour: str, *, width: float = 1.7, height: float = 0.62
) -> None:
    axis.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0.04", facecolor="white", edgecolor=colour, linewidth=1.5
        )
    )
    axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", color="black")


def arrow(axis: plt.Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": GREY, "linewidth": 1.3})


def draw_flow() -> None:
    """From stimuli to reports: people and models give trials, measures turn trials into rows."""
    figure, axis = plt.subplots(figsize=(7.4, 2.3), layout="constrained")
    axis.set(xlim=(-0.1, 10.3), ylim=(-0.1, 2.5))
    axis.axis("off")
    box(axis, 0, 0.85, "stimuli\nimage, truth,\ncondition", GREY, height=0.8)
    box(axis, 2.4, 1.6, "people\n(a study)", PEOPLE)
    box(axis, 2.4, 0.2, "models\n(a run)", MODEL)
    box(axis, 4.9, 0.85, "trials\none row per\nanswer", GREY, height=0.8)
    box(axis, 7.0, 0.85, "measures\nEC, MA, CLES,\ndistances", GREY, width=1.5, height=0.8)
    box(axis, 8.9, 0.85, "rows\nvalue and\ninterval", GREY, width=1.3, height=0.8)
    for start, end in (
        ((1.8, 1.4), (2.3, 1.8)),
        ((1.8, 1.1), (2.3, 0.6)),
        ((4.2, 1.8), (4.8, 1.4)),
        ((4.2, 0.6), (4.8, 1.1)),
        ((6.7, 1.25), (6.9, 1.25)),
        ((8.6, 1.25), (8.8, 1.25)),
    ):
        arrow(axis, start, end)
    save(figure, "concept-flow.svg")


def draw_label_space() -> None:
    """A network's own classes are mapped to those that people choose among."""
    figure, axis = plt.subplots(figsize=(7.4, 2.6), layout="constrained")
    axis.set(xlim=(-0.2, 9.2), ylim=(-0.2, 3.4))
    axis.axis("off")
    fine = [("tabby", 0.31), ("Persian cat", 0.17), ("beagle", 0.12), ("pug", 0.04), ("wall clock", 0.02)]
    for row, (name, probability) in enumerate(fine):
        y = 2.8 - 0.68 * row
        axis.barh(y, 4 * probability, height=0.36, left=1.7, color=MODEL)
        axis.text(1.6, y, name, ha="right", va="center")
        axis.text(1.75 + 4 * probability, y, f"{probability:.2f}", va="center", color=GREY)
    for row, (name, value, members) in enumerate((("cat", 0.24, (0, 1)), ("dog", 0.08, (2, 3)), ("clock", 0.02, (4,)))):
        y = 2.4 - 1.05 * row
        axis.barh(y, 4 * value, height=0.36, left=6.9, color=MODEL)
        axis.text(6.8, y, name, ha="right", va="center")
        axis.text(6.95 + 4 * value, y, f"{value:.2f}", va="center", color=GREY)
        for member in members:
            arrow(axis, (3.7, 2.8 - 0.68 * member), (6.05, y))
    axis.text(1.7, 3.2, "outputs of the network (some of 1,000)", va="bottom")
    axis.text(6.9, 3.2, "label space: mean of the members", va="bottom")
    save(figure, "concept-label-space.svg")


def draw_ceiling() -> None:
    """A model's value, people's agreement with each other, and the value in percent of it."""
    scores = cosight.compare("sample:cue-conflict", measure="ec", resamples=1000)
    people = next(r for r in scores.rows if (r.observer, r.against, r.statistic) == ("people", "people", "value"))
    figure, axis = plt.subplots(figsize=(6.4, 2.1), layout="constrained")
    axis.axvspan(people.low, people.high, color="0.9")
    axis.axvline(people.value, color=GREY, linestyle="--")
    axis.text(people.value + 0.004, 2.5, "ceiling: people\nwith each other", va="center", color=GREY, fontsize=8)
    names = ("model:resnet50-trained-on-SIN", "model:inception-v3", "model:resnet50")
    for y, name in enumerate(reversed(names)):
        value, share = (
            next(r for r in scores.rows if (r.observer, r.against, r.statistic) == (name, "people", statistic))
            for statistic in ("value", "normalised")
        )
        axis.plot([value.low, value.high], [y, y], color=MODEL)
        axis.plot(value.value, y, "o", color=MODEL)
        axis.text(value.high + 0.006, y, f"{share.value:.0%} of the ceiling", va="center", color=GREY, fontsize=8)
    axis.set(xlim=(0, 0.45), ylim=(-0.6, 2.9), xlabel="error consistency (EC)", yticks=range(3))
    axis.set_yticklabels([name.removeprefix("model:") for name in reversed(names)])
    save(figure, "concept-ceiling.svg")


def draw_measures() -> None:
    """Two observers' answers to twelve images: who errs where, and what the wrong answers are."""
    pairs = simulated_pairs()
    names = ("same errors", "same images, other errors", "same classes, other images")
    figure, axes = plt.subplots(3, 1, figsize=(7.4, 4.2), layout="constrained")
    for axis, name in zip(axes, names, strict=True):
        (a, b), truth = pairs[name].answers.response, pairs[name].answers.truth
        chosen = np.flatnonzero((a != truth) | (b != truth))[:9]
        chosen = np.sort(np.concatenate([chosen, np.flatnonzero((a == truth) & (b == truth))[:3]]))
        for row, answers in enumerate((a, b)):
            for column, index in enumerate(chosen):
                right = answers[index] == truth[index]
                axis.text(
                    column,
                    1 - row,
                    "abcdefghij"[answers[index]],
                    ha="center",
                    va="center",
                    color="black" if right else "white",
                    bbox={"boxstyle": "round,pad=0.28", "facecolor": "0.93" if right else PEOPLE, "edgecolor": "none"},
                )
        values = (
            error_consistency(a == truth, b == truth).value,
            misclassification_agreement(a, b, truth).value,
            class_level_error_similarity(a, b, truth).value,
        )
        axis.text(12.1, 0.5, "EC {:.2f}\nMA {:.2f}\nCLES {:.2f}".format(*values), va="center", family="monospace")
        for row, label in enumerate(("first", "second")):
            axis.text(-0.8, 1 - row, label, ha="right", va="center")
        axis.set(xlim=(-2.4, 14), ylim=(-0.6, 1.7))
        axis.set_title(name, loc="left", fontsize=9, fontweight="bold")
        axis.axis("off")
    save(figure, "concept-measures.svg")


def draw_intervals() -> None:
    """The resamples behind two intervals, and those of the paired difference."""
    trials = cosight.trials.read("sample:cue-conflict")
    table = cosight.trials.align(trials)
    correct = table.answers.correct
    people = [i for i, kind in enumerate(table.kinds) if kind == "human"]
    models = [table.observers.index(name) for name in ("model:alexnet", "model:vgg19")]
    rng = np.random.default_rng(0)
    values = np.empty((2, 1000))
    for draw in range(1000):
        images = rng.integers(0, correct.shape[1], correct.shape[1])
        persons = rng.choice(people, len(people))
        for row, model in enumerate(models):
            a, b = correct[model, images], correct[persons][:, images]
            pa, pb = a.mean(), b.mean(axis=1)
            expected = pa * pb + (1 - pa) * (1 - pb)
            values[row, draw] = np.mean(((a == b).mean(axis=1) - expected) / (1 - expected))
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 2.3), layout="constrained", sharey=True)
    for row, (name, colour) in enumerate((("alexnet", MODEL), ("vgg19", "#009e73"))):
        left.hist(values[row], bins=40, color=colour, alpha=0.6, label=name)
    left.set(xlabel="EC with people", ylabel="resamples", title="two models: the values overlap")
    left.legend(frameon=False)
    right.hist(values[0] - values[1], bins=40, color=GREY)
    right.axvline(0, color="black", linewidth=1)
    right.set(xlabel="difference of EC", title="their difference: clearly above 0")
    for axis in (left, right):
        axis.title.set_fontsize(9)
    save(figure, "concept-intervals.svg")


def draw_abstention() -> None:
    """A model that names a class and one that abstains, beside people who are unsure."""
    labels = ["cat", "dog", "abstain"]
    people = np.array([0.3, 0.2, 0.5])
    observers = {
        "people": people,
        "sure of cat": np.array([0.9, 0.1, 0.0]),
        "abstains, a = .5": np.array([0.45, 0.05, 0.5]),
        "always abstains": np.array([0.0, 0.0, 1.0]),
    }
    figure, axes = plt.subplots(1, 4, figsize=(7.4, 2.1), layout="constrained", sharey=True)
    for axis, (name, distribution) in zip(axes, observers.items(), strict=True):
        axis.bar(labels, distribution, color=PEOPLE if name == "people" else MODEL)
        far = "" if name == "people" else f"\ndistance {hellinger(people, distribution).value:.2f}"
        axis.set_title(f"{name}{far}", fontsize=9)
    axes[0].set(ylabel="share", ylim=(0, 1))
    save(figure, "concept-abstention.svg")


def draw_dots() -> None:
    scores = cosight.compare("sample:cue-conflict", measure="ec")
    cosight.figure("ec-dots", scores, out=IMAGES / "tutorial-ec-dots.svg", force=True)


if __name__ == "__main__":
    for draw in (draw_flow, draw_label_space, draw_ceiling, draw_measures, draw_intervals, draw_abstention, draw_dots):
        draw()
