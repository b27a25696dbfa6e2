"""`cosight evaluate`: show stimuli to models, keep their answers as trials, go on where an earlier attempt ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import chdir
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.models.abstention import abstentions
from cosight.models.loading import check_model_spec
from cosight.models.model_spec import parse
from cosight.runs.engines import engines
from cosight.runs.execution import ExecutionOptions, OnError
from cosight.runs.folder import RUN, RunFolder
from cosight.runs.model_references import ModelReference
from cosight.runs.planning import plan_for, training_plan
from cosight.runs.run_job import Progress, Run, RunJob
from cosight.runs.run_plan import RunPlan, digest_of
from cosight.runs.run_record import RunRecord, read_record
from cosight.stimuli.images import FileFormat
from cosight.trials.mapping import How
from cosight.trials.spaces import LabelSpace, label_spaces

__all__ = ["Run", "evaluate", "resume"]

_RESOURCES = ("tiles", "resources.json")  # of stimuli made on the way, as in a stored set


def evaluate(
    *models: Any,
    on: str | Path,
    out: str | Path,
    source: str | Path | None = None,
    labels: str | LabelSpace | None = None,
    how: How = "mean",
    features: bool = False,
    probe: str | Path | None = None,
    abstain: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    tiles: str | Path | None = None,
    format: FileFormat = "png",  # noqa: A002 (the option's name)
    thumbnails: bool = False,
    engine: str = "local",
    batch: int = 32,
    threads: int | None = None,
    workers: int | None = None,
    on_error: OnError = "stop",
    progress: Progress | None = None,
) -> Run:
    """Show stimuli to models and store their answers as trials. Calling it again resumes an interrupted run.

    Models can be added to a run later. Anything else that would change its answers is refused.

    Args:
        *models: Models by name: timm:NAME, onnx:FILE, trials:FILE ... In Python also models, nn.Modules and functions
            of arrays (see `as_model`).
        on: Stimulus set, folder of images, or a benchmark that alters the photos of `source`.
        out: Output folder. An unfinished run there is resumed.
        source: Folder of photos that the benchmark alters while models are evaluated.
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names (default: that of the
            set).
        how: How a model's own classes are combined into one class of the label space.
        features: Also store logits and features.
        probe: Train a linear probe on the features of this stimulus set; the probe answers in the model's place.
        abstain: Comma-separated abstention functions, or all (`cosight list abstentions`). They learn from the set's
            training split and add observers MODEL#FUNCTION.
        limit: Use only this many images, selected by a hash of their names.
        seed: Seed of everything random.
        tiles: Folder of images that mosaic and stickers draw from (default: `source`).
        format: File format that altered photos are encoded in before models see them.
        thumbnails: Store a thumbnail of each stimulus.
        engine: Where models run: local, or ray (the cluster at RAY_ADDRESS).
        batch: Batch size.
        threads: Number of threads per model (default: the library's).
        workers: Number of threads that read images (local) or of actors (ray); default: one per core.
        on_error: What to do about an image or a model that cannot be read: stop, or skip it and report it.
        progress: Called with images answered, images in all, and a description.

    Returns:
        The finished run.

    Raises:
        InvalidInput: An argument is wrong, an image cannot be read, or `out` has other content.
        UnknownName: A model, benchmark, label space or abstention function does not exist.

    >>> evaluate(on="photos", out="run")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: name at least one model, got none; for example timm:resnet50.a1_in1k
    """
    if list(abstain) == ["all"]:
        abstain = tuple(abstentions)
    arguments = _arguments(locals())
    lines = _checked_lines(models)
    _check_way(engine, threads, workers, seed, on_error)
    folder = RunFolder(Path(out))
    _check_output(folder, on, source)
    with folder.claimed():
        made = plan_for(
            on, folder.path, source=source, labels=labels, how=how, features=features, limit=limit, seed=seed,
            tiles=tiles, format=format, batch=batch, abstain=abstain, on_error=on_error,
        )  # fmt: skip
        trained_on = None if probe is None else training_plan(probe, made.plan)
        record = _begun(folder, made.plan, {**made.settings, "probe": _told(trained_on)}, arguments)
        way = ExecutionOptions(threads, workers, on_error, folder.path / "thumbnails" if thumbnails else None)
        job = RunJob(folder, made.plan, way, engines[engine](), record, progress, list(made.notices))
        return job.carry_out(lines, trained_on, engine=engine, threads=threads, workers=workers)


def resume(run: str | Path, *, progress: Progress | None = None) -> Run:
    """Go on with a run: all models it was ever asked for, with the arguments that it was last given."""
    path = Path(run).resolve()
    record = read_record(path)
    given = {**record.arguments.get("defaulted", {}), **record.arguments.get("passed", {}), "out": path}
    where = Path(record.arguments.get("folder", "."))
    for line in record.models:
        if not _is_line(line):
            raise InvalidInput(f"{run} has a model that was given in Python, {line}; call evaluate again with it")
    if not where.is_dir():
        raise InvalidInput(f"{run} was begun in {where}, which is not there; run `cosight evaluate` again with --out")
    with chdir(where):  # the paths in the arguments are relative to it
        return evaluate(*record.models, **given, progress=progress)


def _is_line(text: str) -> bool:
    try:
        parse(text)
    except CosightError:
        return False
    return True


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, apart from what is so by default, and where: paths may be relative to it."""
    known = signature(evaluate).parameters
    options = {name: value for name, value in given.items() if known[name].kind is Parameter.KEYWORD_ONLY}
    del options["progress"]
    passed = {name: _plain(value) for name, value in options.items() if value != known[name].default}
    return {
        "passed": passed,
        "defaulted": {name: _plain(value) for name, value in options.items() if name not in passed},
        "folder": str(Path.cwd()),
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it; a label space by its name, or by its classes where it has none that is known."""
    if isinstance(value, LabelSpace):
        known = value.name in label_spaces and label_spaces[value.name] == value
        return value.name if known else ",".join(value.answers)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _checked_lines(models: Sequence[Any]) -> list[ModelReference]:
    """Slips of the keyboard are told before the first model is asked, not after hours."""
    if not models:
        raise InvalidInput("name at least one model, got none; for example timm:resnet50.a1_in1k")
    lines = [model for model in models if isinstance(model, str)]
    for line in lines:
        check_model_spec(line)
        if lines.count(line) > 1:
            raise InvalidInput(f"each model is asked once, got {line} {lines.count(line)} times; name it once")
    return [ModelReference(model) for model in models]


def _check_way(engine: str, threads: int | None, workers: int | None, seed: int, on_error: str) -> None:
    engines.name_of(engine)
    for option, value in (("--threads", threads), ("--workers", workers)):
        if value is not None and value < 1:
            raise InvalidInput(f"{option} must be 1 or more, got {value}")
    if seed < 0:
        raise InvalidInput(f"--seed must be 0 or more, got {seed}")
    if on_error not in ("stop", "skip"):
        raise InvalidInput(f"--on-error must be stop or skip, got {on_error!r}")


def _check_output(folder: RunFolder, on: str | Path, source: str | Path | None) -> None:
    """A new or empty folder, or a run of the same kind; tiles may be there, which are made before anything else."""
    out, images = folder.path, Path(on if source is None else source)
    if images.is_dir() and out.resolve().is_relative_to(images.resolve()):
        raise InvalidInput(f"--out must lie outside {images}, whose images are shown, got {out}; name another")
    if (out / RUN).exists():
        stored = "verb" not in read_record(out).plan["stimuli"]
        if folder.has_answers() and stored is not (source is None):
            raise InvalidInput(f"{out} holds a run on other stimuli than {on}; ask for the same, or name another --out")
    elif out.exists() and (not out.is_dir() or any(_is_strange(path) for path in out.iterdir())):
        raise InvalidInput(f"--out must be a new or empty folder, or an unfinished run, got {out}; choose another")


def _is_strange(path: Path) -> bool:
    return not path.name.startswith(".") and path.name not in _RESOURCES


def _told(trained_on: RunPlan | None) -> str | None:
    """The images that a probe is trained on, in a word: where they are called the same, a digest tells them apart."""
    if trained_on is None:
        return None
    content = digest_of([trained_on.settings["stimuli"], list(trained_on.shown.stamps)])
    return f"{trained_on.shown.folder.resolve().name} {content[:16]}"


def _begun(folder: RunFolder, plan: RunPlan, more: dict[str, Any], arguments: dict[str, Any]) -> RunRecord:
    """The record to resume; answers that an earlier attempt left must be of the same plan."""
    settings = {**plan.settings, **more}
    if not (folder.path / RUN).exists():
        return RunRecord(settings, arguments)
    record = read_record(folder.path)
    if not folder.has_answers():  # a model that could not be loaded, say: nothing holds us to that plan
        return RunRecord(settings, arguments, sessions=record.sessions)
    record.check_same(settings, folder.path)
    record.arguments = arguments
    return record
