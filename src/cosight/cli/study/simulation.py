"""`cosight study simulate`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import Device, ModelPrecision, Seed, progress_bar
from cosight.cli.study.lifecycle import Database, StudyFolder
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.devices import Precision
    from cosight.humans.simulated.respondents import SimulatedObserver, StudyPictures
    from cosight.humans.simulated.simulate import Progress
    from cosight.trials.spaces import LabelSpace

__all__ = ["simulate"]

_PANEL = "panel"


def simulate(
    study: StudyFolder,
    participants: Annotated[
        int, typer.Option(min=1, help="Maximum number of participants; fewer if the study is full before.")
    ],
    observer: Annotated[
        str, typer.Option(help="panel: simulated people; or a model, such as timm:resnet50.a1_in1k.")
    ] = _PANEL,
    url: Annotated[str | None, typer.Option(help="Address of the served study (default: a server is started).")] = None,
    db: Database = None,
    device: Device = "auto",
    precision: ModelPrecision = "float32",
    seed: Seed = 0,
    browser: Annotated[
        bool, typer.Option("--browser", help="Use the real page in Chromium, one participant after the other.")
    ] = False,
) -> None:
    """Let simulated people, or a model, take part in the study over HTTP. Their answers are marked as simulated.

    They recognise pictures by their pixels. On a new study the same seed gives the same answers.
    """
    from cosight.humans.simulated.browser import simulate_in_browser
    from cosight.humans.simulated.respondents import read_pictures
    from cosight.humans.simulated.simulate import simulate as simulate_over_http
    from cosight.humans.study.design import read_study

    if url is not None and db is not None:
        raise InvalidInput("the server at --url has its own database, got --db too; leave one out")
    pictures = read_pictures(read_study(study))
    run = simulate_in_browser if browser else simulate_over_http
    with progress_bar() as progress:
        simulated = _load_observer(pictures, observer, progress, device=device, precision=precision)
        with _serve(study, url, db) as address:
            result = run(pictures, address, simulated, participants=participants, seed=seed, progress=progress)
    full = "; the study takes no more now" if result.full else ""
    typer.echo(
        f"{result.participants} simulated participants ({simulated.name}) answered {result.answers} trials{full}"
    )
    typer.echo(f"next: cosight study quality {study}")


@contextmanager
def _serve(study: Path, url: str | None, db: str | None) -> Iterator[str]:
    """Yield the address of the study, served here unless it has one."""
    from cosight.humans.web.server import serve_in_background

    if url is not None:
        yield url.rstrip("/") + "/"
        return
    with serve_in_background(study, url=db) as address:
        yield address


def _load_observer(
    pictures: StudyPictures, name: str, progress: Progress | None, *, device: str, precision: Precision
) -> SimulatedObserver:
    from cosight.humans.simulated.respondents import panel_observer

    if name == _PANEL:
        return panel_observer(pictures)
    if "curate" in pictures.study.kind.options:
        raise InvalidInput(f"models cannot take part in curate studies, got --observer {name}; leave it out")
    if pictures.study.space is None:
        return _load_similarity_model(pictures, name, device, precision)
    return _evaluate_classifier(pictures, pictures.study.space, name, progress, device, precision)


def _evaluate_classifier(
    pictures: StudyPictures,
    space: LabelSpace,
    name: str,
    progress: Progress | None,
    device: str,
    precision: Precision,
) -> SimulatedObserver:
    """Evaluate a model on everything that the study can show."""
    from cosight.humans.simulated.respondents import classifier_observer
    from cosight.runs.evaluate import evaluate
    from cosight.trials.manifest import manifest_frame, write_manifest
    from cosight.trials.spaces import label_spaces

    with tempfile.TemporaryDirectory(prefix="cosight-simulate-") as temporary:
        folder, out = Path(temporary) / "set", Path(temporary) / "run"
        (folder / "images").mkdir(parents=True)
        rows = []  # the pictures may come from several sets: copy them to one
        for stimulus, file in pictures.files.items():
            copy = f"images/{stimulus}{file.suffix}"
            shutil.copyfile(file, folder / copy)
            rows.append({"stimulus": stimulus, "file": copy, "image": stimulus})
        write_manifest(folder, manifest_frame(rows), {})
        labels = space.name if space.name in label_spaces else ",".join(space.answers)
        run = evaluate(name, on=folder, out=out, labels=labels, device=device, precision=precision, progress=progress)
        if len(run.observers) > 1:
            raise InvalidInput(f"--observer must be one model, {name} is {len(run.observers)}; name one of them")
        responses = run.responses().frame.select("stimulus", "response")
    return classifier_observer(run.observers[0], space, dict(responses.iter_rows()))


def _load_similarity_model(pictures: StudyPictures, name: str, device: str, precision: Precision) -> SimulatedObserver:
    """Compute a model's features of everything that the study can show; its classes do not matter."""
    from cosight.humans.simulated.respondents import similarity_observer
    from cosight.models.loading import load_model
    from cosight.stimuli.images import read_image

    model = load_model(name, device=device, precision=precision, features=True)
    features = {}
    for stimulus, file in pictures.files.items():
        vector = model.answer(model.prepare(read_image(file))[None]).features
        if vector is None:
            raise InvalidInput(f"pictures are compared by a model's features, but {name} has none; name another")
        features[stimulus] = vector[0].astype("float64")
    return similarity_observer(model.name, features)
