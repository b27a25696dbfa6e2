"""Figures for papers, drawn from score rows with matplotlib; no score is computed here.

`cosight figure NAME SCORES --out FILE` and `cosight.figure` draw a figure as SVG, PDF or PNG. The same rows give the
same bytes. Another package adds a figure through the entry point group `cosight.figures`.

* `entry`   what a figure declares
* the others have the figures of one kind of scores each, listed in `FIGURES`
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.measures import measures
from cosight.registry import Registry, split_names
from cosight.reports.figures import confusions, curves, error_alignment, laion_c, observers, representation
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.statistics.rows import Scores, read_score_rows
from cosight.trials.clusters import with_clusters
from cosight.trials.formats import read
from cosight.trials.join import AlignedTrials, align, with_manifest
from cosight.trials.manifest import collect_manifests
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
    """Draw a figure from score rows; confusion-difference is counted from trials.

    Args:
        name: Name of the figure (`cosight list figures`).
        *scores: Files of score rows that --out wrote (.json, .csv, .parquet), or runs with scores.parquet; for
            confusion-difference trials, runs, or samples (sample:NAME). In Python also what `compare` and `score`
            return, and trials.
        out: File to write: .svg, .pdf or .png.
        measure: Measure to draw, by name or alias (default: the figure's own choice).
        only: For confusion-difference: the two observers to compare, A,B; people stands for all people.
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
    what = "trials" if kind.from_trials else "score rows"
    if not scores:
        raise InvalidInput(f"{kind.name} is drawn from {what}; name a file that `{kind.rows}` wrote")
    for option, unused in (("measure", measure and kind.from_trials), ("only", only and not kind.from_trials)):
        if unused:
            raise InvalidInput(f"{kind.name} is drawn from {what} and has no --{option}; leave it out")
    rows = [source for source in scores if not isinstance(source, Trials)]
    trials = [source for source in scores if not isinstance(source, Scores)]
    if len(trials if kind.from_trials else rows) < len(scores):
        raise InvalidInput(
            f"{kind.name} is drawn from {what}, got something else; name a file that `{kind.rows}` wrote"
        )
    if kind.from_trials:
        request = FigureRequest((), table=_aligned(trials), only=tuple(split_names(only) or ()))
    else:
        found = tuple(row for source in rows for row in read_score_rows(source))
        request = FigureRequest(found, None if measure is None else measures.name_of(measure))
    _draw(kind, request, path)
    return path


def _aligned(sources: Sequence[str | Path | Trials]) -> AlignedTrials:
    """Return trials with the clusters that their stimuli belong to."""
    trials, manifest = read(*sources), collect_manifests(sources)
    if manifest is not None:
        trials = with_manifest(trials, manifest)
    return with_clusters(align(trials), trials, manifest)


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
