"""Studies with people: the calls behind `cosight study`.

    import cosight

    cosight.study.new("survey", type="classify", stimuli="photos", labels="cat,dog")
    cosight.study.simulate("survey", participants=3)
    cosight.study.quality("survey").flagged
    cosight.study.export("survey", "answers.parquet")

`new` writes a design, `show` returns it in words, `serve` serves it, `simulate` lets simulated people take part,
`status` counts, `quality` tells whom to exclude, `export` writes the answers. `db` is the study's database, as
postgresql://USER@HOST/NAME; by default `answers.sqlite` in the study's folder.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from cosight.devices import Precision
from cosight.errors import InvalidInput
from cosight.extras import require
from cosight.humans.database.progress import Progress as StudyProgress
from cosight.humans.database.progress import read_progress, read_roster
from cosight.humans.database.schema import report_database_errors
from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import study_trials
from cosight.humans.results.export import Export, export_format, export_results
from cosight.humans.results.quality import Quality, assess
from cosight.humans.simulated.respondents import (
    SimulatedObserver,
    StudyPictures,
    classifier_observer,
    panel_observer,
    read_pictures,
    similarity_observer,
)
from cosight.humans.simulated.simulate import SimulationResult
from cosight.humans.study.design import Study, read_study
from cosight.humans.study.new import new_study as new
from cosight.humans.study.pool import Pool, load_pool
from cosight.humans.study.protocol_text import StudyProtocol, study_protocol
from cosight.humans.study.trial_types import Respondent
from cosight.progress import Progress, report_progress
from cosight.trials.manifest import manifest_frame, write_manifest
from cosight.trials.spaces import LabelSpace, label_spaces
from cosight.trials.table import Trials

__all__ = ["PANEL", "export", "new", "quality", "read_study", "read_trials", "serve", "show", "simulate", "status"]

PANEL = "panel"  # the observer that stands for simulated people


def show(study: str | Path) -> StudyProtocol:
    """Return the protocol of a study: its numbers, the instructions, and the words on the buttons.

    Args:
        study: The study's folder.

    Returns:
        The protocol.

    Raises:
        InvalidInput: The study cannot be read.

    >>> import numpy as np
    >>> from cosight.stimuli import encode
    >>> for name in ("cat", "dog"):
    ...     Path("pictured", name).mkdir(parents=True)
    ...     _ = Path("pictured", name, "1.png").write_bytes(encode(np.full((32, 32), len(name), np.uint8), "png"))
    >>> _ = new("inquiry", type="classify", stimuli="pictured", labels="laion-c-16")
    >>> show("inquiry").buttons["timekeeping"]
    'clock or watch'
    """
    return study_protocol(read_study(Path(study)))


def serve(
    study: str | Path,
    *,
    db: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    processes: int = 1,
    announce: Callable[[str, str], None] | None = None,
) -> None:
    """Serve a study until Ctrl-C. An answer is stored on the disk before it is acknowledged.

    Args:
        study: The study's folder.
        db: The database.
        host: The address to listen on; 0.0.0.0 is every address of this machine.
        port: The port; 0 takes a free one.
        processes: Number of server processes; several need PostgreSQL.
        announce: Called with the participants' and the experimenter's address once the port is bound (default: they
            are printed).

    Raises:
        InvalidInput: The study, its database or the port cannot be used.
    """
    from cosight.humans.web.server import Addresses
    from cosight.humans.web.server import serve as serve_study

    def tell(addresses: Addresses) -> None:
        if announce is not None:
            announce(addresses.participants, addresses.experimenter)
        else:
            sys.stdout.write(f"participants: {addresses.participants}\nexperimenter: {addresses.experimenter}\n")
            sys.stdout.flush()

    serve_study(Path(study), url=db, host=host, port=port, processes=processes, announce=tell)


def simulate(
    study: str | Path,
    *,
    participants: int,
    observer: str = PANEL,
    url: str | None = None,
    db: str | None = None,
    device: str = "auto",
    precision: Precision = "float32",
    seed: int = 0,
    browser: bool = False,
    progress: Progress | bool | None = None,
) -> SimulationResult:
    """Let simulated people, or a model, take part in a study over HTTP. Their answers are marked as simulated.

    They recognise pictures by their pixels. On a new study the same seed gives the same answers.

    Args:
        study: The study's folder.
        participants: Maximum number of participants; fewer if the study is full before.
        observer: panel: simulated people; a model, such as timm:resnet50.a1_in1k; or, in 2afc and cluster studies, a
            judge: lpips.
        url: Address of the served study (default: a server is started).
        db: The database of the server that is started.
        device: Where a model runs: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).
        precision: Numbers that a model in torch computes in.
        seed: Seed of everything random.
        browser: Use the real page in Chromium, one participant after the other.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with participants finished, participants in all, and a description.

    Returns:
        Numbers of participants and answers, and whether the study is full.

    Raises:
        InvalidInput: An argument is wrong, or the server does not answer.
        MissingExtra: `browser` needs a package that is not installed.
    """
    from cosight.humans.simulated.browser import simulate_in_browser
    from cosight.humans.simulated.simulate import simulate as simulate_over_http

    if url is not None and db is not None:
        raise InvalidInput("the server at --url has its own database, got --db too; leave one out")
    if browser:
        require("playwright", by="--browser")
    pictures = read_pictures(read_study(Path(study)))
    run = simulate_in_browser if browser else simulate_over_http
    with report_progress(progress) as report:
        simulated = _load_observer(pictures, observer, report, device=device, precision=precision)
        with _served(Path(study), url, db) as address:
            result = run(pictures, address, simulated, participants=participants, seed=seed, progress=report)
    return replace(result, observer=simulated.name)


def status(study: str | Path, *, db: str | None = None) -> StudyProgress:
    """Return the progress of a study, also while it is served: participants and answers.

    Args:
        study: The study's folder.
        db: The database.

    Raises:
        InvalidInput: The study or its database cannot be used.
    """
    with _open_study(study, db) as (design, pool, store):
        return store.read(lambda connection: read_progress(connection, design, pool))


def read_trials(study: str | Path, *, db: str | None = None) -> Trials:
    """Read the trials of all participants of a study.

    Args:
        study: The study's folder.
        db: The database.

    Raises:
        InvalidInput: The study or its database cannot be used.
    """
    with _open_study(study, db) as (design, pool, store):
        return study_trials(design, pool, store)


def quality(study: str | Path, *, db: str | None = None) -> Quality:
    """Decide which participants are excluded and why, and compute how far the others agree, with intervals.

    Args:
        study: The study's folder.
        db: The database.

    Raises:
        InvalidInput: There are no answers, or the study or its database cannot be used.
    """
    return assess(read_trials(study, db=db))


def export(
    study: str | Path,
    out: str | Path,
    *,
    to: str | None = None,
    everyone: bool = False,
    gold: bool = False,
    curated: bool = False,
    participants: bool = False,
    force: bool = False,
    db: str | None = None,
) -> Export:
    """Write the answers of a study without excluded participants, and a file that lists those with the reasons.

    Args:
        study: The study's folder.
        out: The file or folder to write.
        to: Format of the trials: parquet, csv, model-vs-human or psych-ds (default: that of the suffix of `out`).
        everyone: Include excluded participants.
        gold: Also write gold labels, and add them to the stimulus set.
        curated: Also write the list of kept and rejected images.
        participants: Also write the participants: platform ids, bonuses, demographics.
        force: Overwrite existing files.
        db: The database.

    Returns:
        The trials that were written, the other files, and notices.

    Raises:
        InvalidInput: A file exists already, or the answers do not allow what was asked for.
    """
    export_format(Path(out), to)  # before the study is read
    with _open_study(study, db) as (design, pool, store):
        trials = study_trials(design, pool, store)
        roster = read_roster(design, pool, store) if participants else None
    assessment = assess(trials, resamples=None)
    slots = [slot for item in pool.items.values() for slot in item.slots if slot.file.is_relative_to(design.set)]
    names = {slot.stimulus: slot.file.relative_to(design.set).as_posix() for slot in slots}
    done = export_results(
        trials,
        assessment,
        Path(out),
        to=to,
        everyone=everyone,
        gold=design.set if gold else None,
        curated=names if curated else None,
        roster=roster,
        force=force,
    )
    return Export(done.trials, done.paths, (*assessment.notices, *done.notices))


@contextmanager
def _open_study(folder: str | Path, db: str | None) -> Iterator[tuple[Study, Pool, Store]]:
    """Yield the study in `folder`, its items and its database. Raises InvalidInput where the database fails."""
    study = read_study(Path(folder))
    pool = load_pool(study)
    with report_database_errors(study.root), closing(Store.open(study, db, register=False)) as store:
        yield study, pool, store


@contextmanager
def _served(study: Path, url: str | None, db: str | None) -> Iterator[str]:
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
    if name == PANEL:
        return panel_observer(pictures)
    if "curate" in pictures.study.kind.options:
        raise InvalidInput(f"models cannot take part in curate studies, got --observer {name}; leave it out")
    if name.startswith("vlm:"):  # its answers are paid for, and would be lost with the temporary run
        raise InvalidInput(f"a vision-language model answers in `cosight evaluate`, got --observer {name}; use that")
    if pictures.study.space is None:
        from cosight.models.judges import judges

        if name.partition(",")[0] in judges:
            return _load_judge(pictures, name, device)
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
    from cosight.runs.evaluate import evaluate

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


def _load_judge(pictures: StudyPictures, name: str, device: str) -> SimulatedObserver:
    """Return participants who compare pictures as a judge does."""
    from cosight.models.judges import DistanceJudge, load_judge
    from cosight.stimuli.images import read_image

    loaded = load_judge(name, device=device)
    if not isinstance(loaded, DistanceJudge):
        raise InvalidInput(f"simulated participants need a judge that computes distances, got {name}; use lpips")

    @cache
    def compare(a: str, b: str) -> float:
        return next(loaded.distances([(a, b)], lambda stimulus: read_image(pictures.files[stimulus])))

    respondent = Respondent(distance=lambda a, b: compare(a.stimulus, b.stimulus))
    return SimulatedObserver(loaded.name, lambda rng: respondent)


def _load_similarity_model(pictures: StudyPictures, name: str, device: str, precision: Precision) -> SimulatedObserver:
    """Compute a model's features of everything that the study can show; its classes do not matter."""
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
