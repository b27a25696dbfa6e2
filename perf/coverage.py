"""Measured coverage of 95 % intervals, as the tables of docs/uncertainty.md: `python perf/coverage.py [--studies N]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.measures.simulated import (
    DISTANCES,
    Case,
    cles_case,
    coverage,
    crossed_case,
    ec_case,
    hellinger_case,
    ma_case,
)

_HEAD = "| studies of | truth | n | holds the truth | lies below | lies above | width, 1 = normal |"
_PEOPLE = (4, 6, 10, 20, 40)
_STUDIES_OF_PEOPLE = (("ec", 0.75, 200), ("ec", 0.75, 1000), ("ma", 0.6, 200), ("ma", 0.75, 1000))


def main() -> None:
    """Print one table after the other, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies for each number")
    studies = parser.parse_args().studies
    _table("Two observers", _pairs(), studies)
    _table("Mean Hellinger distance", (hellinger_case(kind, n) for kind in DISTANCES for n in (200, 1000)), studies)
    _table("Class-level error similarity", _cles(), studies)
    _people(studies)
    _few(studies)


def _pairs() -> Iterator[Case]:
    for accuracy in ((0.8, 0.7), (0.9, 0.6), (0.55, 0.5), (0.95, 0.9)):
        for shared in (0.2, 0.8):
            yield from (ec_case(accuracy, shared, stimuli) for stimuli in (200, 1000))
    for accuracy, stimuli in (((0.8, 0.7), 300), ((0.5, 0.4), 200), ((0.8, 0.7), 1000)):
        yield from (ma_case(accuracy, follow, stimuli) for follow in (0.0, 0.3, 0.9))


def _cles() -> Iterator[Case]:
    for accuracy, stimuli in (((0.8, 0.7), 200), ((0.8, 0.7), 1000), ((0.5, 0.4), 1000)):
        yield from (cles_case(accuracy, follow, stimuli) for follow in (0.1, 0.6))


def _table(title: str, cases: Iterator[Case], studies: int) -> None:
    print(f"\n{title}, {studies} studies a line\n\n{_HEAD}\n|---|---|---|---|---|---|---|")
    for case in cases:
        found = coverage(case, studies=studies)
        shares = " | ".join(f"{share:.3f}" for share in (found.share, found.below, found.above))
        print(f"| {case.name} | {found.truth:.3f} | {found.n:.0f} | {shares} | {found.wideness:.2f} |", flush=True)


def _people(studies: int) -> None:
    """Share of intervals that hold the population's value, by how many people took part."""
    print(
        f"\nCrossed over people and stimuli, {studies} studies a cell; in brackets with the percentiles widened for few"
    )
    print(
        f"people\n\n| mean over pairs | {' | '.join(f'{m} people' for m in _PEOPLE)} |\n|{'---|' * (len(_PEOPLE) + 1)}"
    )
    for with_model in (False, True):
        for measure, accuracy, stimuli in _STUDIES_OF_PEOPLE:
            cells = []
            for people in _PEOPLE:
                plain, widened = (
                    coverage(
                        crossed_case(measure, accuracy, people, stimuli, with_model=with_model, widened=w),
                        studies=studies,
                    )
                    for w in (False, True)
                )
                cells.append(f"{plain.share:.3f} ({widened.share:.3f})")
            who = "people and a model" if with_model else "people"
            print(
                f"| {measure.upper()}, {who}, accuracy {accuracy:g}, {stimuli} stimuli | {' | '.join(cells)} |",
                flush=True,
            )


def _few(studies: int) -> None:
    """What an interval over stimuli alone says about the population when only few people took part."""
    print(f"\nStimuli only resampled, {studies} studies a cell\n\n| mean over pairs | 2 people | 3 people | 4 people |")
    print("|---|---|---|---|")
    for measure, accuracy, stimuli in _STUDIES_OF_PEOPLE:
        found = [
            coverage(crossed_case(measure, accuracy, people, stimuli, draw_again=False), studies=studies).share
            for people in (2, 3, 4)
        ]
        cells = " | ".join(f"{share:.3f}" for share in found)
        print(f"| {measure.upper()}, people, accuracy {accuracy:g}, {stimuli} stimuli | {cells} |", flush=True)


if __name__ == "__main__":
    main()
