"""`cosight data`: list public data sets, and get one."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict

import typer

from cosight.cli.commands import Command, Group
from cosight.cli.options import AsJson, notify, progress_bar
from cosight.cli.signatures import Call, add_command

__all__ = ["app"]

app = typer.Typer(
    cls=Group,
    help="Public data sets: list them, download one or copy it from a mirror.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", cls=Command)
def list_data(as_json: AsJson = False) -> None:
    """List the public data sets that cosight knows: size, licence, and how to get them.

    Examples:
        cosight data list
        cosight data list --json
    """
    from cosight.data import data_sets

    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in data_sets.values()], indent=1))
        return
    from cosight.cli.tables import print_table

    print_table(
        [
            {
                "name": entry.name,
                "size": _megabytes(entry.size) if entry.size else "",
                "get": "download" if entry.is_downloadable else "by hand",
                "licence": entry.licence,
                "what": entry.summary,
            }
            for entry in data_sets.values()
        ]
    )


def get(call: Call) -> None:
    """Get a public data set: copied from a mirror folder where there is one, else downloaded.

    An interrupted download is resumed by the same command. Checksums are verified where they are known.

    Examples:
        cosight data get model-vs-human
        cosight data get texture-vs-shape --out data
    """
    with progress_bar() as progress:
        fetched = call(
            progress=None
            if progress is None
            else lambda done, total, what: progress(done >> 10, max(total, done) >> 10, f"{what} (KB)")
        )
    notify(fetched.notices)
    entry = fetched.data_set
    checked = "checksum verified" if fetched.verified else "unverified"
    present = ", already there" if fetched.source == "present" else ""
    typer.echo(
        f"{entry.name}: {fetched.files} files, {_megabytes(fetched.size)} in {fetched.folder} ({checked}{present})"
    )
    if fetched.sha256 is not None and not fetched.verified:
        typer.echo(f"sha256 of names and contents, for --sha256: {fetched.sha256}")
    typer.echo(f"licence: {entry.licence}")
    typer.echo(f"cite: {entry.citation}; {entry.page}")
    if entry.use:
        typer.echo(f"use: {entry.use.format(folder=shlex.quote(str(fetched.folder)))}")


add_command(app, "get", get, function="cosight.data:get")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
