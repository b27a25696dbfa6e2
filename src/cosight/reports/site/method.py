"""How a report was made: commands, settings, versions, digests, runs, exclusions, citations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any

from cosight.errors import InvalidInput
from cosight.files import file_stamp, package_versions
from cosight.humans.results.export import read_exclusions
from cosight.measures import measures
from cosight.reports.site.answers import AnswerSet
from cosight.reports.site.parts import ReportPart
from cosight.runs.folder import RUN
from cosight.runs.run_record import read_record, status
from cosight.scoring.presets import presets
from cosight.trials.formats import TrialSource
from cosight.trials.manifest import manifest_folders
from cosight.trials.samples import is_sample, samples, trial_path

__all__ = ["bibliography", "cited_entries", "command_text", "method_facts", "run_folders"]

_PACKAGES = ("cosight", "numpy", "polars", "scipy", "pillow")
_SELF = "cosight"  # key of the entry of cosight itself


def bibliography() -> dict[str, str]:
    """Return the BibTeX entries of everything that cosight cites, by key.

    >>> bibliography()["geirhos2020"].splitlines()[0]
    '@inproceedings{geirhos2020,'
    """
    text = (files("cosight.reports.site") / "citations.bib").read_text(encoding="utf-8")
    return {match[1]: match[0].strip() for match in re.finditer(r"^@\w+\{([^,]+),\n(?:.*\n)*?\}$", text, re.MULTILINE)}


def cited_entries(citation: str) -> list[str]:
    """Return the keys of the works that a citation names as AUTHOR YEAR.

    Args:
        citation: Such as `Geirhos et al. 2021, arXiv:2106.07411`.

    >>> cited_entries("Nikulin 2001, Hellinger distance; Lee et al. 2023, VisAlign, section 4.1")
    ['nikulin2001', 'lee2023']
    """
    known = bibliography()
    author = r"\b([A-Z][\w'-]+)(?:(?:, [A-Z][\w-]+)*,? (?:&|and) [A-Z][\w-]+| et al\.)?,? (\d{4})\b"
    keys = [re.sub(r"\W", "", name).lower() + year for name, year in re.findall(author, citation)]
    return [key for key in dict.fromkeys(keys) if key in known]


def run_folders(sources: Iterable[TrialSource]) -> list[Path]:
    """Return the folders of the runs among the sources of a report."""
    return [folder for folder in manifest_folders(sources) if (folder / RUN).is_file()]


def command_text(name: str, arguments: Iterable[Any], passed: Mapping[str, Any]) -> str:
    """Return a command line.

    Args:
        name: The command.
        arguments: Its arguments.
        passed: Its options and their values. Objects that a command line cannot have are written as their type.

    >>> command_text("report", ["my run"], {"out": "site", "on": ["a", "b"], "force": True})
    "cosight report 'my run' --out site --on a,b --force"
    """

    def word(value: Any) -> str:
        if isinstance(value, str | Path | int | float):
            return str(value)
        return ",".join(map(word, value)) if isinstance(value, list | tuple) else f"<{type(value).__name__}>"

    words = [word(one) for one in arguments]
    for option, value in passed.items():
        words += [f"--{option.replace('_', '-')}", *([] if value is True else [word(value)])]
    return " ".join([f"cosight {name}", *map(quote, words)])


def method_facts(
    parts: Sequence[ReportPart],
    sources: Sequence[TrialSource],
    *,
    command: str,
    passed: Mapping[str, Any],
    defaulted: Mapping[str, Any],
    answers: Sequence[AnswerSet] = (),
) -> dict[str, Any]:
    """Return what the method page shows.

    Args:
        parts: The parts of the report.
        sources: What it was made from.
        command: The command that makes it.
        passed: Options that the user gave.
        defaulted: All other options.
        answers: The sets of answers, whose conditions may be alterations that have a citation.
    """
    citations: list[str] = [_SELF]
    for part in parts:
        texts = [measures[name].citation for name in dict.fromkeys(row.measure for row in part.scores.rows)]
        texts += [part.benchmark.source] if part.benchmark is not None else []
        preset = part.scores.settings.get("preset")
        texts += [presets[preset].citation] if preset else []
        citations += [key for text in texts for key in cited_entries(text)]
    named = [samples[str(source).partition(":")[2]] for source in sources if is_sample(source)]
    citations += [key for sample in named for key in cited_entries(sample.source)]
    citations += [key for text in _alteration_citations(answers) for key in cited_entries(text)]
    entries = bibliography()
    return {
        "command": command,
        "passed": {name: _plain(value) for name, value in passed.items()},
        "defaulted": {name: _plain(value) for name, value in defaulted.items()},
        "versions": package_versions(_PACKAGES),
        "sources": [_source_facts(source) for source in sources],
        "exclusions": _exclusions(sources),
        "runs": [_run_facts(folder) for folder in run_folders(sources)],
        "bibtex": "\n\n".join(entries[key] for key in dict.fromkeys(citations)),
        "cited": len(dict.fromkeys(citations)),
    }


def _alteration_citations(answers: Sequence[AnswerSet]) -> list[str]:
    """Return the citations of corruptions, distortions and manipulations among the conditions.

    There are none where the packages that alter images are not installed; without conditions they are not imported.
    """
    conditions = {name for group in answers for name in group.table.columns["condition"].unique()}
    if not conditions - {None}:
        return []
    try:
        from cosight.stimuli.corruptions import corruptions
        from cosight.stimuli.distortions import distortions
        from cosight.stimuli.manipulations import manipulations
    except ImportError:
        return []
    kinds = [*corruptions.items(), *distortions.items(), *manipulations.items()]
    return [kind.citation for name, kind in kinds if name in conditions]


def _source_facts(source: TrialSource) -> dict[str, Any]:
    """Return the name of a source and, of a file, its digest."""
    if not isinstance(source, str | Path):
        return {"name": type(source).__name__, "digest": None, "licence": None}
    path = trial_path(source)
    licence = samples[str(source).partition(":")[2]].licence if is_sample(source) else None
    return {"name": str(source), "digest": file_stamp(path) if path.is_file() else None, "licence": licence}


def _exclusions(sources: Iterable[TrialSource]) -> list[dict[str, Any]]:
    """Return who was excluded from the studies among the sources, and by which rules."""
    paths = [Path(source) for source in sources if isinstance(source, str | Path)]
    found = [(path.name, read_exclusions(path)) for path in paths]
    return [{"source": name, **facts} for name, facts in found if facts is not None]


def _run_facts(folder: Path) -> dict[str, Any]:
    """Return what the record of a run says; its name alone where the record cannot be read."""
    try:
        record, progress = read_record(folder), status(folder)
    except InvalidInput as error:
        return {"name": folder.name, "problem": str(error)}
    return {
        "name": folder.name,
        "command": command_text("evaluate", record.models, record.arguments.get("passed", {})),
        "state": progress.state,
        "answered": [[one.observer, one.answered, one.skipped, one.state] for one in progress.observers],
        "stimuli": progress.stimuli,
        "plan": _plain(record.plan),
        "passed": _plain(record.arguments.get("passed", {})),
        "defaulted": _plain(record.arguments.get("defaulted", {})),
        "sessions": [
            {name: _plain(session.get(name)) for name in ("started", "ended", "outcome", "versions", "git")}
            for session in record.sessions
        ],
        "digests": {name: _plain(facts.get("files")) for name, facts in record.observers.items()},
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; paths and others as text, numbers that are not finite too."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return str(value)
