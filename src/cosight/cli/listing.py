"""`cosight list`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cosight.cli.options import AsJson
from cosight.errors import UnknownName, did_you_mean

__all__ = ["LISTS", "list_names", "steps_in_words"]

LISTS = (
    "models",
    "model-lists",
    "measures",
    "label-spaces",
    "formats",
    "samples",
    "presets",
    "benchmarks",
    "abstentions",
    "corruptions",
    "distortions",
    "manipulations",
    "attacks",
    "figures",
    "judges",
)

_ALWAYS = ("name", "summary", "answers", "models", "experiment")  # columns that a narrow terminal has too
_JSON_ONLY = {"benchmarks": ("labels", "measures", "source")}  # columns left out of the table, so that it fits


def list_names(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(LISTS)}.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """List what can be named: model sources, measures, label spaces, presets, corruptions and more.

    Examples:
        cosight list measures
        cosight list samples
        cosight list corruptions --json
    """
    rows = _rows(what)
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    from cosight.cli.tables import print_table

    left_out = _JSON_ONLY.get(what, ())
    shown = [{name: value for name, value in row.items() if name not in left_out} for row in rows]
    print_table(shown, optional=[name for name in reversed(shown[0]) if name not in _ALWAYS])


def steps_in_words(steps: tuple[str, ...]) -> str:
    """Return steps as they are typed: a range where they are numbers from 1.

    >>> steps_in_words(("1", "2", "3")), steps_in_words(("cr", "bw"))
    ('1-3', 'cr, bw')
    """
    numbers = [str(number) for number in range(1, len(steps) + 1)]
    return f"1-{len(steps)}" if list(steps) == numbers and len(steps) > 1 else ", ".join(steps)


def _rows(what: str) -> list[dict[str, str]]:
    if what == "models":
        from cosight.models.loading import sources

        return [
            {"name": f"{s.name}:NAME", "options": ", ".join(s.keys), "summary": s.summary} for s in sources.values()
        ]
    if what == "model-lists":
        from cosight.models.loading import model_lists

        return [
            {"name": entry.name, "models": " ".join(entry.models), "source": entry.source}
            for entry in model_lists.values()
        ]
    if what == "abstentions":
        from cosight.models.abstention import abstentions

        return [
            {
                "name": a.name,
                "aliases": ", ".join(a.aliases),
                "needs": ", ".join(a.needs),
                "settings": ", ".join(f"{key} {value}" for key, value in a.settings.items()),
                "summary": a.summary,
                "source": a.citation,
            }
            for a in abstentions.values()
        ]
    if what == "benchmarks":
        from cosight.benchmarks import benchmarks

        return [
            {
                "name": b.name,
                "supports": ", ".join(b.supports),
                "needs": b.needs,
                "humans": b.humans,
                "summary": b.summary,
                "labels": b.labels,
                "measures": ", ".join(b.measures),
                "source": b.source,
            }
            for b in benchmarks.values()
        ]
    if what == "measures":
        from cosight.measures import measures

        return [
            {
                "name": m.name,
                "aliases": ", ".join(m.aliases),
                "range": f"[{m.low:.3g}, {m.high:.3g}]",
                "better": m.direction,
                "of": "one observer" if m.symmetric is None else "two observers",
                "needs": ", ".join(m.needs),
                "summary": m.summary,
                "source": m.citation,
            }
            for m in measures.values()
        ]
    if what == "label-spaces":
        from cosight.trials import label_spaces

        return [{"name": s.name, "answers": s.in_words, "source": s.source} for s in label_spaces.values()]
    if what == "formats":
        from cosight.trials import formats

        return [{"name": f.name, "written as": f.suffix or "a folder", "summary": f.summary} for f in formats.values()]
    if what == "samples":
        from cosight.trials import sample_counts, samples

        return [
            {
                "name": s.reference,
                **{name: str(count) for name, count in sample_counts(s).items()},
                "experiment": s.experiment,
                "licence": s.licence,
                "source": s.source,
            }
            for s in samples.values()
        ]
    if what == "presets":
        from cosight.scoring.presets import presets

        return [
            {
                "name": p.name,
                "by": ", ".join(p.by),
                "measures": ", ".join(p.measures),
                "summary": p.summary,
                "source": p.citation,
            }
            for p in presets.values()
        ]
    if what in ("corruptions", "distortions", "manipulations"):
        from cosight.stimuli.alterations import FAMILIES

        family = next(f for f in FAMILIES.values() if f"{f.kinds.kind}s" == what)
        return [
            {
                "name": kind.name,
                family.step_name: steps_in_words(kind.steps),
                "random": "yes" if kind.random else "no",
                "summary": kind.summary,
                "source": kind.citation,
            }
            for kind in family.kinds.values()
        ]
    if what == "attacks":
        from cosight.stimuli.attacks import attacks

        return [{"name": a.name, "norm": a.norm, "summary": a.summary, "source": a.citation} for a in attacks.values()]
    if what == "figures":
        from cosight.reports.figures import figures

        return [{"name": f.name, "summary": f.summary, "rows": f.rows, "source": f.source} for f in figures.values()]
    if what == "judges":
        from cosight.models.judges import judges

        return [
            {"name": j.name, "options": ", ".join(j.keys), "summary": j.summary, "source": j.citation}
            for j in judges.values()
        ]
    hint = did_you_mean(what, LISTS, most=1, otherwise="choose one of these")
    raise UnknownName(f"cosight lists {', '.join(LISTS)}, got {what!r}; {hint}")
