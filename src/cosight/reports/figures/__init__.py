"""Figures for papers, drawn from score rows with matplotlib; no score is computed here.

`cosight figure NAME SCORES --out FILE` and `cosight.figure` draw a figure as SVG, PDF or PNG. The same rows give the
same bytes. Another package adds a figure through the entry point group `cosight.figures`.

* `entry`   what a figure declares
* the others have the figures of one kind of scores each, listed in `FIGURES`
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.measures import measures
from cosight.registry import Registry, split_names
from cosight.reports.figures import confusions, curves, error_alignment, laion_c, observers, representation
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.scoring.score import score
from cosight.statistics.rows import Row, Scores, read_scores
from cosight.trials.formats import read
from cosight.trials.manifest import manifest_folders
from cosight.trials.table import PEOPLE as KINDS_OF_PEOPLE
from cosight.trials.table import Trials

__all__ = ["FigureKind", "FigureRequest", "figure", "figures"]

figures: Registry[FigureKind] = Registry("figure")
for _part in (observers, curves, confusions, error_alignment, laion_c, representation):
    for _kind in _part.FIGURES:
        figures.add(_kind.name, _kind)

_FORMATS = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}  # no date in the bytes
_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "cosight",
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


def figure(
    name: str,
    *scores: str | Path | Scores | Trials,
    out: str | Path,
    measure: str | None = None,
    only: str | Sequence[str] | None = None,
    force: bool = False,
) -> Path:
    """Draw a figure from score rows.

    Args:
        name: Name of the figure (`cosight list figures`).
        *scores: Files of score rows that --out wrote (.json, .csv, .parquet), or runs with scores.parquet; for
            confusion-difference also trials, runs, or samples (sample:NAME), which `score` scores first. In Python also
            what `compare` and `score` return, and trials.
        out: File to write: .svg, .pdf or .png.
        measure: Measure to draw, by name or alias (default: the figure's own choice).
        only: For confusion-difference of trials: the two observers to compare, A,B; people stands for all people.
        force: Overwrite an existing file.

    Returns:
        The file.

    Raises:
        InvalidInput: The rows do not have what the figure needs, or a file cannot be used.
        UnknownName: There is no such figure or measure.

    >>> figure("ec-dots", out="dots.svg")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: ec-dots is drawn from score rows; name a file that
    `cosight compare SOURCES --out scores.json` wrote
    """
    kind, path = figures[name], Path(out)
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput(f"a figure is an .svg, .pdf or .png file, got {path}")
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists; choose another file, or --force to overwrite it")
    if not scores:
        raise InvalidInput(f"{kind.name} is drawn from score rows; name a file that `{kind.rows}` wrote")
    for option, unused in (("measure", measure and kind.scored), ("only", only and not kind.scored)):
        if unused:
            raise InvalidInput(f"{kind.name} has no --{option}; leave it out")
    trials = [source for source in scores if isinstance(source, Trials) or (kind.scored and not _has_rows(source))]
    if trials and not kind.scored:
        raise InvalidInput(
            f"{kind.name} is drawn from score rows, got something else; name a file that `{kind.rows}` wrote"
        )
    if trials and len(trials) < len(scores):
        raise InvalidInput(f"{kind.name} is drawn from trials or from score rows, got both; name only one of them")
    rows = _score_trials(kind, trials, split_names(only)) if trials else _read_rows(scores)
    _draw(kind, FigureRequest(rows, None if measure is None else measures.name_of(measure)), path)
    return path


def _read_rows(scores: Sequence[str | Path | Scores | Trials]) -> tuple[Row, ...]:
    return tuple(row for source in scores if not isinstance(source, Trials) for row in read_scores(source).rows)


def _has_rows(source: str | Path | Scores | Trials) -> bool:
    """Return whether a source has score rows; anything else may have trials."""
    try:
        return not isinstance(source, Trials) and bool(read_scores(source).rows)
    except InvalidInput:
        return False


def _score_trials(
    kind: FigureKind, sources: Sequence[str | Path | Scores | Trials], only: Sequence[str] | None
) -> tuple[Row, ...]:
    """Return the rows of a figure's measures, of all observers or of two, of which `people` stands for all people."""
    trials = read(*(source for source in sources if not isinstance(source, Scores)))
    if only is not None:
        if len(only) != 2:
            raise InvalidInput(f"--only names two observers, got {', '.join(only)}; people stands for all of them")
        people = trials.frame.filter(pl.col("kind").is_in(KINDS_OF_PEOPLE))["observer"].unique().sort().to_list()
        names = [name for one in only for name in (people if one == "people" else [one])]
        trials = trials.only(*names)
    sets = [source for source in sources if isinstance(source, str | Path) and manifest_folders([source])]
    return score(trials, *sets, measure=kind.scored, progress=False).rows


def _draw(kind: FigureKind, request: FigureRequest, path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    suffix = path.suffix.lower()
    with rc_context(_STYLE):
        canvas = Figure(layout="constrained")
        FigureCanvasAgg(canvas)
        kind.draw(canvas, request)
        with atomic_write(path) as draft:
            canvas.savefig(draft, format=suffix[1:], metadata=_FORMATS[suffix])
