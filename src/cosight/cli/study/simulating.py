"""`cosight study simulate`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import Seed, progress_bar
from cosight.cli.study.running import Database, StudyFolder
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.humans.simulated.respondents import SimulatedObserver
    from cosight.humans.simulated.sight import Sight
    from cosight.humans.simulated.simulate import Progress
    from cosight.trials.spaces import LabelSpace

__all__ = ["simulate"]

_PANEL = "panel"


def simulate(
    study: StudyFolder,
    participants: Annotated[int, typer.Option(min=1, help="At most this many; fewer where the study is full before.")],
    observer: Annotated[
        str, typer.Option(help="panel: simulated people; or a model, such as timm:resnet50.a1_in1k.")
    ] = _PANEL,
    url: Annotated[str | None, typer.Option(help="Where it is served; otherwise a server is started for it.")] = None,
    db: Database = None,
    seed: Seed = 0,
    browser: Annotated[
        bool, typer.Option("--browser", help="Through the real page, in Chromium, one after the other.")
    ] = False,
) -> None:
    """Let simulated people, or a model, sit the study over HTTP. They say so, and their answers are kept apart.

    They know pictures by their pixels alone, as people do. On a new study the same seed gives the same answers.
    """
    from cosight.humans.simulated.browser import simulate_in_browser
    from cosight.humans.simulated.sight import sight_of
    from cosight.humans.simulated.simulate import simulate as run
    from cosight.humans.study.design import read_study

    if url is not None and db is not None:
        raise InvalidInput("the server at --url has a database of its own, got --db too; leave one out")
    sight = sight_of(read_study(study))
    sits = simulate_in_browser if browser else run
    with progress_bar() as progress:
        who = _observer(sight, observer, progress)
        with _served(study, url, db) as address:
            sat = sits(sight, address, who, participants=participants, seed=seed, progress=progress)
    full = "; the study takes no more now" if sat.full else ""
    typer.echo(f"{sat.participants} simulated participants ({who.name}) answered {sat.answers} trials{full}")
    typer.echo(f"next: cosight study quality {study}")


@contextmanager
def _served(study: Path, url: str | None, db: str | None) -> Iterator[str]:
    from cosight.humans.web.hosting import hosted

    if url is not None:
        yield url.rstrip("/") + "/"
        return
    with hosted(study, url=db) as address:
        yield address


def _observer(sight: Sight, name: str, progress: Progress | None) -> SimulatedObserver:
    from cosight.humans.simulated.respondents import panel_observer

    if name == _PANEL:
        return panel_observer(sight)
    if "curate" in sight.study.kind.options:
        raise InvalidInput(f"which pictures are good models do not say, got --observer {name}; leave it out")
    return (
        _comparing(sight, name) if sight.study.space is None else _answering(sight, sight.study.space, name, progress)
    )


def _answering(sight: Sight, space: LabelSpace, name: str, progress: Progress | None) -> SimulatedObserver:
    """A model that has been asked about everything that the study can show."""
    from cosight.humans.simulated.respondents import answering_model
    from cosight.runs.evaluate import evaluate
    from cosight.trials.spaces import label_spaces

    with tempfile.TemporaryDirectory(prefix="cosight-sitting-") as folder:
        shown, out = Path(folder) / "shown", Path(folder) / "run"
        _write_set(sight, shown)
        labels = space.name if space.name in label_spaces else ",".join(space.answers)
        run = evaluate(name, on=shown, out=out, labels=labels, progress=progress)
        if len(run.observers) > 1:
            raise InvalidInput(f"one model sits the study, {name} is {len(run.observers)}; name one of them")
        said = run.responses().frame.select("stimulus", "response")
    return answering_model(run.observers[0], space, dict(said.iter_rows()))


def _write_set(sight: Sight, folder: Path) -> None:
    """All that the study can show as one set; it may come from several."""
    from cosight.trials.manifest import manifest_frame, write_manifest

    (folder / "images").mkdir(parents=True)
    rows = []
    for stimulus, file in sight.files.items():
        name = f"images/{stimulus}{file.suffix}"
        shutil.copyfile(file, folder / name)
        rows.append({"stimulus": stimulus, "file": name, "image": stimulus})
    write_manifest(folder, manifest_frame(rows), {})


def _comparing(sight: Sight, name: str) -> SimulatedObserver:
    """A model that has seen everything that the study can show; what classes it knows does not matter."""
    from cosight.humans.simulated.respondents import comparing_model
    from cosight.models.loading import load_model
    from cosight.stimuli.images import read_image

    model = load_model(name, features=True)
    features = {}
    for stimulus, file in sight.files.items():
        found = model.answer(model.prepare(read_image(file))[None]).features
        if found is None:
            raise InvalidInput(f"pictures are compared by a model's features, {name} has none; name another")
        features[stimulus] = found[0].astype("float64")
    return comparing_model(model.name, features)
