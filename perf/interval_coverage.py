"""Coverage of 95 % intervals for docs/explanation/uncertainty.md: `python perf/interval_coverage.py [TABLE...]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cosight import compare
from cosight.arrays import FloatArray
from cosight.measures import class_level_error_similarity_from_confusions
from cosight.scoring.plan import plan
from cosight.statistics.rows import Row
from cosight.trials import read
from tests.measures.simulated import (
    DISTANCES,
    SHARES,
    Case,
    CueConflict,
    accuracy_difference_case,
    class_similarity,
    cles_case,
    clustered_case,
    clustered_share_case,
    coverage,
    crossed_case,
    ec_case,
    hellinger_case,
    hellinger_difference_case,
    ma_case,
    share_coverage,
)
from tests.scoring.planned import deliver, simulate, true_difference
from tests.scoring.simulated import ALIKE, UNEQUAL, UNLIKE, contrasts, cue_conflict_case


@dataclass(frozen=True, slots=True)
class Runs:
    """How many studies are simulated, and from which seed."""

    studies: int
    seed: int


def main() -> None:
    """Print one table after the other, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(_TABLES)} (default: all)")
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies for each number")
    parser.add_argument("--run", type=Path, help="a run of `evaluate --on laion-c`: quarters of its photos")
    parser.add_argument("--seed", type=int, default=0, help="other simulated studies (default: 0)")
    options = parser.parse_args()
    runs = Runs(options.studies, options.seed)
    if options.run:
        print(f"\nquarters of the photos of a run, {options.studies} quarters\n")
        _photo_quarters(options.run, runs)
        return
    for name in options.tables or _TABLES:
        print(f"\n{name}, {options.studies} studies for each number\n")
        _TABLES[name](runs)


def _shares(_: Runs) -> None:
    """Shares of independent trials over true shares from .01 to .99, computed exactly."""
    print("| trials | mean | least | at | most | at | above .98 |\n|---|---|---|---|---|---|---|")
    for n in (10, 15, 20, 30, 50, 100, 200, 500, 1000):
        found = share_coverage(n)
        least, most, wide = found.argmin(), found.argmax(), SHARES[found > 0.98]
        ends = f"up to {wide[wide < 0.5].max():.2f}, from {wide[wide > 0.5].min():.2f}" if len(wide) else ""
        print(
            f"| {n} | {found.mean():.3f} | {found[least]:.3f} | {SHARES[least]:.2f} "
            f"| {found[most]:.3f} | {SHARES[most]:.2f} | {len(wide)} of 99 {ends and f'({ends})'} |"
        )


def _clustered_shares(runs: Runs) -> None:
    """Shares of trials that come in clusters."""
    _print_head()
    for share, clusters, size in product((0.5, 0.9, 0.97), (20, 40, 160), (8, 30)):
        _print(clustered_share_case(share, clusters, size), runs)


def _pairs(runs: Runs) -> None:
    """Two observers, resampled stimuli."""
    _print_head()
    for accuracy in ((0.8, 0.7), (0.9, 0.6), (0.55, 0.5), (0.95, 0.9)):
        for shared, stimuli in product((0.2, 0.8), (200, 1000)):
            _print(ec_case(accuracy, shared, stimuli), runs)
    for accuracy, stimuli in (((0.8, 0.7), 300), ((0.5, 0.4), 200), ((0.8, 0.7), 1000)):
        for follow in (0.0, 0.3, 0.9):
            _print(ma_case(accuracy, follow, stimuli), runs)


def _hellinger(runs: Runs) -> None:
    """The mean of a distance an image, resampled images."""
    _print_head()
    for kind, stimuli in product(DISTANCES, (200, 1000)):
        _print(hellinger_case(kind, stimuli), runs)


def _cles(runs: Runs) -> None:
    """Class-level error similarity, beside the value expected at this size."""
    _print_head()
    for accuracy, stimuli in (((0.8, 0.7), 200), ((0.8, 0.7), 1000), ((0.5, 0.4), 1000)):
        for follow in (0.1, 0.6):
            _print(cles_case(accuracy, follow, stimuli), runs)


def _confusions(runs: Runs) -> None:
    """Class-level error similarity from two confusion matrices, beside the value expected at this size."""
    _print_head()
    for classes, answers, alike in product((5, 10), (40, 100), (True, False)):
        rng = np.random.default_rng(classes)
        habits = [class_similarity(classes, rng) for _ in range(1 if alike else 2)]
        _print(_confusion_case((habits[0], habits[-1]), answers, "alike" if alike else "unlike"), runs)


def _confusion_case(habits: tuple[FloatArray, FloatArray], answers: int, kind: str) -> Case:
    """Two observers, accuracies .7 and .5, give so many answers to each class."""
    classes = len(habits[0])
    shares = [a * np.eye(classes) + (1 - a) * habit for a, habit in zip((0.7, 0.5), habits, strict=True)]

    def draw(rng: np.random.Generator) -> list[FloatArray]:
        return [rng.multinomial(answers, share) for share in shares]

    def study(rng: np.random.Generator) -> Row:
        names = ",".join(f"c{index}" for index in range(classes))
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{name}.csv" for name in ("first", "second")]
            for path, counts in zip(paths, draw(rng), strict=True):
                rows = (f"c{index}," + ",".join(map(str, row)) for index, row in enumerate(counts.tolist()))
                path.write_text("\n".join([f"truth,{names}", *rows, ""]))
            return compare(*paths, measure="cles", resamples=400, seed=int(rng.integers(1 << 30))).rows[0]

    def truth() -> float:
        seeds = (np.random.default_rng([1, s]) for s in range(2000))
        return float(np.mean([class_level_error_similarity_from_confusions(*draw(rng)).value for rng in seeds]))

    return Case(f"CLES, {classes} classes, {answers} answers per class, {kind}", study, truth)


def _differences(runs: Runs) -> None:
    """Differences of two models with the same people, and their ranks."""
    print(
        "| models | people, stimuli | measure | true difference | holds it | p < .05 | width | certain rank "
        "| holds the rank |\n|---|---|---|---|---|---|---|---|---|"
    )
    for name, models, people, stimuli in (
        ("alike", ALIKE, 10, 1000),
        ("same confusions, accuracies .73 and .31", UNEQUAL, 10, 1280),
        ("unlike", UNLIKE, 10, 300),
        ("unlike", UNLIKE, 10, 1000),
        ("unlike", UNLIKE, 20, 300),
    ):
        cles_truth = None if models is UNLIKE else 0.0
        found = contrasts(
            models, ("ec", "ma", "cles"), people=people, stimuli=stimuli, studies=runs.studies, cles_truth=cles_truth,
            seed=runs.seed,
        )  # fmt: skip
        for measure, contrast in found.items():
            shares = f"{contrast.share:.3f} | {contrast.positive:.3f} | {contrast.wideness:.2f}"
            ranks = f"{contrast.certain:.3f} | {contrast.rank:.3f}"
            print(
                f"| {name} | {people}, {stimuli} | {measure.upper()} | {contrast.truth:.3f} | {shares} | {ranks} |",
                flush=True,
            )


def _item_differences(runs: Runs) -> None:
    """Differences of two models' accuracies and of their mean distances, on the same stimuli."""
    _print_head()
    for accuracy, stimuli in product(((0.8, 0.7), (0.95, 0.9)), (200, 1000)):
        _print(accuracy_difference_case(accuracy, stimuli), runs)
    for kinds, stimuli in product((("even", "sure"), ("a tenth off", "few far off")), (200, 1000)):
        _print(hellinger_difference_case(kinds, stimuli), runs)


def _print_head() -> None:
    print(
        "| studies of | truth | n | holds the truth | lies below | lies above | width |\n|---|---|---|---|---|---|---|"
    )


def _print(case: Case, runs: Runs) -> None:
    found = coverage(case, studies=runs.studies, seed=runs.seed)
    shares = " | ".join(f"{share:.3f}" for share in (found.share, found.below, found.above))
    print(f"| {case.name} | {found.truth:.3f} | {found.n:.0f} | {shares} | {found.wideness:.2f} |", flush=True)


def _people(runs: Runs, **options: bool) -> None:
    """The share of intervals that hold the population's mean over pairs, by how many people took part."""
    people = (2, 3, 4) if options.get("draw_again") is False else (4, 6, 10, 20, 40)
    print(f"| mean over pairs | {' | '.join(f'{m} people' for m in people)} |\n|{'---|' * (len(people) + 1)}")
    for measure, accuracy, stimuli in (("ec", 0.75, 200), ("ec", 0.75, 1000), ("ma", 0.6, 200), ("ma", 0.75, 1000)):
        cases = (crossed_case(measure, accuracy, m, stimuli, **options) for m in people)
        shares = " | ".join(f"{coverage(case, studies=runs.studies, seed=runs.seed).share:.3f}" for case in cases)
        print(f"| {measure.upper()}, accuracy {accuracy:g}, {stimuli} stimuli | {shares} |", flush=True)


def _plans(runs: Runs) -> None:
    """What `plan` promises from a large pilot, and what `compare` delivers in studies of the planned size."""
    print("| measure | people | difference | trials | power promised | delivered | trials for width .1 | delivered |")
    print(f"|{'---|' * 8}")
    pilot = simulate(200, 10_000, np.random.default_rng(99))
    for measure, people in (("ec", 10), ("ec", 20), ("ma", 10)):
        difference = true_difference(measure)
        plans = [
            {row.name: row.value for row in plan(measure=measure, pilot=pilot, people=people, **goal).rows}
            for goal in ({"difference": difference}, {"width": 0.1})
        ]
        trials, wide = int(plans[0]["trials"] or 0), int(plans[1]["trials, mean over pairs"] or 0)
        power = deliver(measure, people=people, stimuli=trials, studies=runs.studies, seed=runs.seed).power
        width = deliver(measure, people=people, stimuli=wide, studies=max(runs.studies // 10, 10), seed=runs.seed).width
        print(
            f"| {measure.upper()} | {people} | {difference:.3f} | {trials} | {plans[0]['power']:.3f} | {power:.3f} "
            f"| {wide} | {width:.4f} |",
            flush=True,
        )


def _clusters(runs: Runs) -> None:
    """Two observers and photos that were each altered many times; photos resampled, and stimuli for comparison."""
    _print_head()
    for measure, cluster, by_cluster in product(("ec", "ma"), (8, 30), (True, False)):
        _print(clustered_case(measure, 60, cluster, by_cluster=by_cluster), runs)


def _people_and_clusters(runs: Runs) -> None:
    """The share of intervals that hold the population's mean over pairs: independent stimuli and clusters."""
    sizes = {1: 480, 8: 480, 30: 1800}
    heads = [f"{people} people{model}" for people in (10, 20) for model in ("", " and a model")]
    print(f"| mean over pairs | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for (measure, accuracy), cluster in product((("ec", 0.75), ("ma", 0.6)), sizes):
        cases = (
            crossed_case(measure, accuracy, people, sizes[cluster], with_model=model, cluster=cluster)
            for people, model in product((10, 20), (False, True))
        )
        shares = " | ".join(f"{coverage(case, studies=runs.studies, seed=runs.seed).share:.3f}" for case in cases)
        of = "independent stimuli" if cluster == 1 else f"60 photos x {cluster}"
        print(f"| {measure.upper()}, accuracy {accuracy:g}, {of} | {shares} |", flush=True)


def _crossed(runs: Runs) -> None:
    """Two models and images of shape and texture pictures, as in cue-conflict data; both pictures resampled."""
    _print_head()
    for accuracy, follow, pictures in (
        ((0.2, 0.15), 0.6, CueConflict(10, 3, 5)),
        ((0.8, 0.7), 0.3, CueConflict(10, 3, 5)),
        ((0.2, 0.15), 0.6, CueConflict(4, 2, 2)),
        ((0.6, 0.5), 0.3, CueConflict(4, 2, 2)),
    ):
        _print(cue_conflict_case("cles", accuracy, follow, pictures), runs)


def _quarters(runs: Runs) -> None:
    """Real data: how often the interval from a quarter of the cue-conflict sample holds the value of the whole.

    A quarter is every image of 40 of the 160 shape pictures, or of 80 of them with 24 of the 48 texture pictures. A
    part of a whole should hold its value a little more often than 95 %.
    """
    trials = read("sample:cue-conflict")
    pictures = trials.frame["image"].str.extract_groups(r"^(?<shape>[a-z]+\d+)-(?<texture>[a-z]+\d+)").struct.unnest()
    shapes, textures = (pictures[cue].unique().sort().to_list() for cue in ("shape", "texture"))
    names = ("accuracy", "shape_bias", "error_consistency", "misclassification_agreement")
    whole = compare(trials, measure=names, resamples=1)
    value_of = {(row.observer, row.against, row.measure): row.value for row in whole.rows if row.statistic == "value"}
    print(f"| quarter | drawn | {' | '.join(names)} |\n|{'---|' * (len(names) + 2)}")
    for quarter, cluster_by in product(("40 shapes", "80 shapes, 24 textures"), (None, ["none"])):
        held: dict[str, list[bool]] = {name: [] for name in names}
        for study in range(runs.studies):
            rng = np.random.default_rng([runs.seed, study])
            chosen = rng.choice(shapes, 40 if quarter == "40 shapes" else 80, replace=False)
            with_texture = textures if quarter == "40 shapes" else rng.choice(textures, 24, replace=False)
            part = pictures["shape"].is_in(chosen.tolist()) & pictures["texture"].is_in(list(with_texture))
            scores = compare(
                replace(trials, frame=trials.frame.filter(part)),
                measure=names, cluster_by=cluster_by, resamples=300, seed=study,
            )  # fmt: skip
            for row in scores.rows:
                value = value_of.get((row.observer, row.against, row.measure))
                about_group = row.against in (None, "people")  # not every single pair
                if row.statistic == "value" and about_group and value is not None and row.low is not None:
                    held[row.measure].append(row.low <= value <= row.high)
        shares = " | ".join(f"{np.mean(held[name]):.3f}" for name in names)
        print(f"| {quarter} | {'pictures' if cluster_by is None else 'images'} | {shares} |", flush=True)


def _photo_quarters(run: Path, runs: Runs) -> None:
    """Real data: how often the interval from a quarter of the photos of a run holds the value of all of them."""
    trials, manifest = read(run), run / "stimuli.parquet"
    photos = trials.frame["image"].unique().sort().to_list()
    names = ("accuracy", "error_consistency") if len(trials.observers) > 1 else ("accuracy",)
    whole = compare(trials, manifest, measure=names, by=["condition"], resamples=1)
    value_of = {(row.observer, row.against, row.measure, row.group): row.value for row in whole.rows}
    cells = [(name, which) for name in names for which in ("one condition", "mean over conditions")]
    heads = " | ".join(f"{name}, {which}" for name, which in cells)
    print(f"| {len(photos) // 4} of {len(photos)} photos | {heads} |\n|{'---|' * (len(cells) + 1)}")
    for cluster_by in (None, ["none"]):
        held: dict[tuple[str, str], list[bool]] = {cell: [] for cell in cells}
        for study in range(runs.studies):
            chosen = np.random.default_rng([runs.seed, study]).choice(photos, len(photos) // 4, replace=False).tolist()
            part = trials.keep(pl.col("image").is_in(chosen))
            scores = compare(
                part, manifest, measure=names, by=["condition"], cluster_by=cluster_by, resamples=300, seed=study
            )
            for row in scores.rows:
                value = value_of[row.observer, row.against, row.measure, row.group]
                which = "mean over conditions" if row.group == (("condition", "*"),) else "one condition"
                if row.statistic == "value" and row.low is not None:
                    held[row.measure, which].append(row.low <= value <= row.high)
        shares = " | ".join(f"{np.mean(held[cell]):.3f}" for cell in cells)
        print(f"| {'photos' if cluster_by is None else 'images'} drawn | {shares} |", flush=True)


_TABLES: dict[str, Callable[[Runs], None]] = {
    "shares": _shares,
    "clustered-shares": _clustered_shares,
    "pairs": _pairs,
    "hellinger": _hellinger,
    "cles": _cles,
    "confusions": _confusions,
    "differences": _differences,
    "item-differences": _item_differences,
    "people": _people,
    "people-and-model": partial(_people, with_model=True),
    "clusters": _clusters,
    "people-and-clusters": _people_and_clusters,
    "crossed": _crossed,
    "quarters": _quarters,
    "stimuli-only": partial(_people, draw_again=False),
    "plans": _plans,
}


if __name__ == "__main__":
    main()
