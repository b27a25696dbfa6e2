"""`cosight report`: a static site about runs and trials."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from inspect import signature
from pathlib import Path
from typing import Any

from cosight.errors import InvalidInput
from cosight.files import atomic_write, is_locked
from cosight.progress import Progress, report_progress
from cosight.registry import split_names
from cosight.reports.site.answers import AnswerSet, read_answers, write_answers
from cosight.reports.site.method import command_text, method_facts, run_folders
from cosight.reports.site.parts import ReportPart, benchmarks_of, score_parts
from cosight.reports.site.pictures import Images, write_contact_sheet, write_pictures
from cosight.reports.site.rows_data import measure_facts, part_facts, people_rows, split_rows
from cosight.reports.site.shards import DATA, ShardWriter
from cosight.reports.site.tables import write_tables
from cosight.scoring.arguments import ScoreSource, check_numbers, trial_sources
from cosight.statistics.rows import Row, Scores
from cosight.statistics.seeds import display_name
from cosight.trials.spaces import LabelSpace

__all__ = ["Report", "report", "write_site"]

PAGE = "index.html"
_SHEETS = "sheets"  # folder of contact sheets
_APP = ("report.js", "report.css", "licences.txt")  # beside the page
_WATCH_SECONDS = 5.0  # between two versions of a report that is watched


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was written.

    Attributes:
        folder: The site.
        page: Its first page.
        scores: Every score row, as in `scores.parquet`.
        size: Bytes of all files.
        notices: For the reader.
    """

    folder: Path
    page: Path
    scores: Scores
    size: int
    notices: tuple[str, ...] = ()

    def view(self, route: str = "") -> str:
        """Return the address of a view, such as `disagree?a=people`, for a browser."""
        return f"{self.page.resolve().as_uri()}#/{route}"


def report(
    *sources: ScoreSource,
    out: str | Path,
    on: str | Sequence[str] | None = None,
    title: str | None = None,
    images: Images = "auto",
    labels: str | LabelSpace | None = None,
    role: str | Sequence[str] = ("test",),
    gamma: float = 0.5,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    watch: bool = False,
    force: bool = False,
    progress: Progress | bool | None = None,
) -> Report:
    """Write a report: a folder of pages that opens by double-click, can be mailed, or put on any web server.

    Trials are scored first: by `compare`, by `score`, and on the benchmarks that their experiments belong to. Every
    row goes to `scores.parquet` in the folder; the pages show rows and answers, and compute no score.

    Args:
        *sources: Runs, trial files, folders of trial files, or samples (sample:NAME); a stimulus set adds its images
            and gold labels. In Python also trials, the run that `evaluate` returned, and DataFrames.
        out: Output folder.
        on: Comma-separated benchmarks whose tables are made (default: those that the experiments belong to).
        title: Heading of the report (default: the experiments).
        images: Thumbnails with originals, thumbnails only, or none; auto copies originals up to 50 MB in all.
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names.
        role: Comma-separated roles of the trials to use: test, repeat, distractor, gold, check, warmup or all
            (default: first showings of test stimuli).
        gamma: An observer whose abstention exceeds this has abstained.
        resamples: Number of bootstrap resamples behind each interval.
        confidence: Confidence level of the intervals.
        seed: Seed of everything random.
        watch: Write the report again while a run among the sources is in progress; an open page reloads itself.
        force: Replace an existing report.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with steps done, steps in all, and a description.

    Returns:
        The report.

    Raises:
        InvalidInput: An argument is wrong, nothing can be scored, or `out` has other files.
        UnknownName: A benchmark or label space does not exist.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = report("sample:edges", out=Path(folder) / "site", on="error-alignment", resamples=10)
    ...     made.page.name, made.scores.rows[0].measure
    ('index.html', 'accuracy')
    """
    given = dict(locals())
    check_numbers(resamples=resamples, confidence=confidence, gamma=gamma, seed=seed)
    folder, paths = Path(out), trial_sources(sources)
    names, roles = split_names(on), split_names(role) or ()
    check_folder(folder, force=force)
    check_app()
    options: dict[str, Any] = {
        "labels": labels, "role": roles, "gamma": gamma, "resamples": resamples, "confidence": confidence, "seed": seed
    }  # fmt: skip
    passed, defaulted = _split_options(given)

    def make(watched: bool) -> Report:
        with report_progress(progress) as tell:
            answers = read_answers(paths, labels=labels, role=roles, gamma=gamma)
            parts, problems = score_parts(answers, on=names, options=options, progress=tell)
            method = method_facts(
                parts,
                paths,
                command=command_text("report", paths, passed),
                passed=passed,
                defaulted=defaulted,
                answers=answers,
            )
            heading = title or ", ".join(dict.fromkeys(_heading(group) for group in answers))
            return write_site(
                folder, parts, answers, title=heading, method=method, images=images, notices=problems, watched=watched,
                progress=tell,
            )  # fmt: skip

    def is_going() -> bool:  # also before a run has written its record
        folders = [Path(path) for path in paths if isinstance(path, str | Path)]
        return any(is_locked(folder) for folder in (*folders, *run_folders(paths)) if folder.is_dir())

    while watch and is_going():
        try:
            make(True)
        except InvalidInput:  # nothing to score yet
            if not is_going():
                raise
        time.sleep(_WATCH_SECONDS)
    return make(False)


def _heading(group: AnswerSet) -> str:
    """Return the benchmark that some answers are tasks of, else their experiments."""
    own = [entry.name for entry in benchmarks_of(group) if entry.table is not None and entry.table.is_own is not None]
    return own[0] if own else group.title


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise unless a report can be written to a folder."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InvalidInput(f"a report is a folder, got the file {folder}; choose another")
    if any(folder.iterdir()):
        if not (folder / DATA / "site.js").is_file():
            raise InvalidInput(f"{folder} has other files; choose a new or empty folder")
        if not force:
            raise InvalidInput(f"{folder} has a report; choose another folder, or --force to replace it")


def check_app() -> None:
    """Raise where the pages were not built from web/."""
    if not (_app_folder() / PAGE).is_file():
        raise InvalidInput("the pages of reports are not built; run `make page` in a checkout, or reinstall cosight")


def _app_folder() -> Path:
    return Path(str(files("cosight.reports.site"))) / "static"


def _split_options(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options that differ from their defaults, and the others."""
    passed: dict[str, Any] = {}
    defaulted: dict[str, Any] = {}
    for name, parameter in signature(report).parameters.items():
        if name not in ("sources", "progress", "watch", "force"):
            same = parameter.default is not parameter.empty and given[name] == parameter.default
            (defaulted if same else passed)[name] = given[name]
    return passed, defaulted


def write_site(
    folder: Path,
    parts: Sequence[ReportPart],
    answers: Sequence[AnswerSet],
    *,
    title: str,
    method: Mapping[str, Any],
    images: Images = "auto",
    notices: Sequence[str] = (),
    watched: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Write the files of a site. The page is written last, so that it exists only when everything else does.

    Args:
        folder: The site.
        parts: Scores.
        answers: Answers to browse.
        title: Heading.
        method: Facts of the method page.
        images: Which pictures to write.
        notices: Why something is missing.
        watched: Whether the report is written again soon.
        progress: Called with steps done, steps in all, and a description.

    Returns:
        The report.
    """
    check_app()
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    firsts = []
    for part in parts:
        firsts.append(len(rows))
        rows += part.scores.rows
    levels = {part.scores.settings.get("confidence") for part in parts}
    level = {"confidence": levels.pop()} if len(levels) == 1 else {}
    scores = Scores(
        tuple(rows),
        {"command": "report", **level, "parts": {part.name: part.scores.settings for part in parts}},
        tuple(notices),
        {name: kind for part in parts for name, kind in part.scores.kinds.items()},
    )
    tables = write_tables(folder, parts, answers, scores)
    writer = ShardWriter(folder)
    pictures, more = write_pictures(folder, list(answers), images=images, progress=progress)
    sets = []
    for index, (group, shown) in enumerate(zip(answers, pictures, strict=True)):
        if progress:
            progress(index, len(answers), "answers")
        sets.append(write_answers(writer, index, group, shown))
    sheets = [_write_sheet(folder, part, answers) if images != "none" else None for part in parts]
    labels = [sets[part.answers]["labels"] if part.answers is not None else part.scores.settings.get("labels", [])
              for part in parts]  # fmt: skip
    facts = [
        {**part_facts(part, first, names), "sheet": sheet}
        for part, first, names, sheet in zip(parts, firsts, labels, sheets, strict=True)
    ]
    main, pairs = split_rows(rows, facts)
    writer.write("rows", main)
    writer.write("pairs", pairs)
    notices = [*notices, *more]
    observers = dict.fromkeys(name for row in rows for name in (row.observer, row.against) if name is not None)
    browsed = {one["name"] for answer_set in sets for one in answer_set["observers"]}
    stamp = f"{time.time_ns():x}"
    site = {
        "title": title,
        "stamp": stamp,
        "watched": watched,
        "parts": facts,
        "sets": sets,
        "kinds": {name: kind for name, kind in scores.kinds.items() if name not in browsed},
        "titles": {name: text for name in observers if (text := display_name(name)) != name},
        "measures": measure_facts(dict.fromkeys(row.measure for row in rows)),
        "pairs": len(pairs["id"]),
        "people": people_rows(rows),
        "tables": tables,
        "method": dict(method),
        "notices": notices,
    }
    writer.write("site", site)
    writer.write("stamp", stamp)
    writer.remove_others()
    for name in (*_APP, PAGE):
        with atomic_write(folder / name) as draft:
            shutil.copyfile(_app_folder() / name, draft)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Report(folder, folder / PAGE, scores, size, tuple(notices))


def _write_sheet(folder: Path, part: ReportPart, answers: Sequence[AnswerSet]) -> str | None:
    """Write the contact sheet of a part whose benchmark shows it; return its file."""
    entry = part.benchmark
    if entry is None or entry.sheet is None or part.answers is None:
        return None
    if not any(chart.kind == "sheet" for section in entry.sections.values() for chart in section.charts):
        return None
    name = f"{_SHEETS}/{part.name}.png"
    return name if write_contact_sheet(folder / name, answers[part.answers], entry.sheet) else None
