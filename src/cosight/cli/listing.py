"""`cosight list`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cosight.cli.options import AsJson
from cosight.errors import UnknownName

__all__ = ["LISTS", "list_names"]

LISTS = ("measures", "label-spaces", "formats", "presets")


def list_names(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(LISTS)}.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """What there is by name: measures, label spaces, trial formats, presets."""
    rows = _rows(what)
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    from rich.table import Table

    from cosight.cli.tables import console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console().print(table)


def _rows(what: str) -> list[dict[str, str]]:
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

        return [{"name": s.name, "answers": " ".join(s.answers), "source": s.source} for s in label_spaces.values()]
    if what == "formats":
        from cosight.trials import formats

        return [{"name": f.name, "written as": f.suffix or "a folder", "summary": f.summary} for f in formats.values()]
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
    raise UnknownName(f"cosight lists {', '.join(LISTS)}, got {what!r}")
