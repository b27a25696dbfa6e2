"""`evaluate`: show stimuli to models and store their answers as trials; `resume` continues an interrupted run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import chdir
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cosight.arrays import whole_number
from cosight.devices import Precision, check_device_name, check_placement
from cosight.errors import CosightError, InvalidInput
from cosight.extras import require
from cosight.models.loading import check_model_name, check_model_spec, sources
from cosight.models.model_spec import parse
from cosight.models.vlm.journal import Budget, Spending, check_budget, parse_budget
from cosight.models.vlm.settings import read_settings
from cosight.processes import MOST_WORKERS
from cosight.progress import Progress, report_progress
from cosight.registry import split_names
from cosight.runs.execution import ExecutionOptions, OnError, engines
from cosight.runs.folder import RUN, RunFolder
from cosight.runs.observers import ModelReference
from cosight.runs.run_job import Run, RunJob
from cosight.runs.run_plan import RunPlan, check_request, digest_of, plan_probe_training, plan_run
from cosight.runs.run_record import RunRecord, read_record
from cosight.stimuli.distortions import Geometry
from cosight.stimuli.images import FileFormat
from cosight.trials.mapping import How
from cosight.trials.spaces import LabelSpace, label_spaces

__all__ = ["Run", "check_models", "check_vlms", "evaluate", "resume"]

_RESOURCES = ("tiles", "resources.json")  # of generated stimuli; they exist before anything else


def evaluate(
    *models: Any,
    on: str | Path,
    out: str | Path,
    source: str | Path | None = None,
    labels: str | LabelSpace | None = None,
    how: How = "mean",
    features: bool = False,
    probe: str | Path | None = None,
    abstain: str | Sequence[str] = (),
    limit: int | None = None,
    per_class: int | None = None,
    seed: int = 0,
    tiles: str | Path | None = None,
    geometry: Geometry | None = None,
    format: FileFormat = "png",  # noqa: A002 (the option's name)
    thumbnails: bool = False,
    engine: str = "local",
    device: str = "auto",
    precision: Precision = "float32",
    batch: int = 32,
    threads: int | None = None,
    workers: int | None = None,
    on_error: OnError = "stop",
    budget: str | None = None,
    progress: Progress | bool | None = None,
) -> Run:
    """Show stimuli to models and store their answers as trials. Calling it again resumes an interrupted run.

    Models can be added to a run later. Anything else that would change its answers is refused.

    Args:
        *models: Models by name: timm:NAME, onnx:FILE, vlm:NAME, trials:FILE ... In Python also models, nn.Modules and
            functions of arrays (see `as_model`).
        on: Stimulus set, folder of images, or a benchmark that alters the photos of `source`.
        out: Output folder. An unfinished run there is resumed.
        source: Folder of photos that the benchmark alters while models are evaluated.
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names (default: that of the
            set).
        how: How a model's own classes are combined into one class of the label space.
        features: Also store logits and features.
        probe: Train a linear probe on the features of this stimulus set; the probe answers in the model's place.
        abstain: Comma-separated abstention functions, or all that are possible (`cosight list abstentions`). They
            learn from the set's training split and add observers MODEL#FUNCTION.
        limit: Use only this many images, selected by a hash of their names.
        per_class: Use only this many images of each class, selected by a hash of their names, with all their
            conditions and levels.
        seed: Seed of everything random.
        tiles: Folder of images that mosaic and stickers draw from (default: `source`).
        geometry: Bands of the distortion glitched: per-image (default), or published (the same bands in every image).
        format: File format that altered photos are encoded in before models see them.
        thumbnails: Store a thumbnail of each stimulus.
        engine: What runs the models: local (this process), or ray (the cluster at RAY_ADDRESS).
        device: Where models run: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).
        precision: Numbers that models in torch compute in. bfloat16 and float16 are faster on GPUs; answers change
            slightly.
        batch: Batch size. It is halved where the memory of the device is too small.
        threads: Number of threads per model (default: the library's).
        workers: Number of threads that read images (local) or of actors (ray); default: one per core.
        on_error: What to do about an image or a model that cannot be read: stop, or skip it and report it.
        budget: Limits of the requests to vision-language models, over all sessions of the run, such as
            requests=1000,tokens=2e6,cost=5. The run stops before a limit is exceeded and can be resumed with a larger
            one.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with images answered, images in all, and a description.

    Returns:
        The finished run.

    Raises:
        BudgetReached: The budget is used up; answers so far are kept.
        InvalidInput: An argument is wrong, an image cannot be read, or `out` has other content.
        UnknownName: A model, benchmark, label space or abstention function does not exist.

    >>> evaluate(on="photos", out="run")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: name at least one model, got none; for example timm:resnet50.a1_in1k
    """
    seed = whole_number(seed, name="--seed")
    batch = whole_number(batch, name="--batch", least=1)
    limit = None if limit is None else whole_number(limit, name="--limit", least=1)
    per_class = None if per_class is None else whole_number(per_class, name="--per-class", least=1)
    threads = None if threads is None else whole_number(threads, name="--threads", least=1, most=MOST_WORKERS)
    workers = None if workers is None else whole_number(workers, name="--workers", least=1, most=MOST_WORKERS)
    abstain = tuple(split_names(abstain) or ())
    arguments = _record_arguments(locals())
    limits = Budget() if budget is None else parse_budget(budget)
    if engines.name_of(engine) == "ray":
        require("ray", by="--engine ray")
    check_device_name(device)
    if on_error not in get_args(OnError):
        raise InvalidInput(f"--on-error must be stop or skip, got {on_error!r}")
    _check_order(models, on)
    references = check_models(models)
    check_vlms(references, limits, engine=engine, features=features, probe=probe, abstain=abstain)
    check_request(
        on, source=source, labels=labels, how=how, precision=precision, probe=probe, tiles=tiles, format=format,
        abstain=abstain, geometry=geometry,
    )  # fmt: skip
    folder = RunFolder(Path(out))
    _check_output(folder, on, source)
    here: tuple[str, Precision] = (device, precision) if engines[engine].in_this_process else ("cpu", "float32")
    _check_placement(references, *here)  # last: it imports the libraries of the models
    with folder.locked(), report_progress(progress) as report:
        plan = plan_run(
            on, folder.path, source=source, labels=labels, how=how, features=features, limit=limit, seed=seed,
            tiles=tiles, format=format, batch=batch, geometry=geometry, precision=precision, abstain=abstain,
            on_error=on_error, per_class=per_class,
        )  # fmt: skip
        probe_training = None if probe is None else plan_probe_training(probe, plan)
        record = _open_record(folder, plan, probe_training, arguments)
        record.is_own |= set(record.models) <= {reference.description for reference in references}
        shown = folder.path / "thumbnails" if thumbnails else None
        options = ExecutionOptions(threads, workers, on_error, shown, device)
        job = RunJob(
            folder, plan, options, engines[engine](), record, report, list(plan.notices), spending=Spending(limits)
        )  # fmt: skip
        return job.run(references, probe_training, engine=engine, threads=threads, workers=workers)


def resume(
    run: str | Path, *, trust: bool = False, device: str | None = None, progress: Progress | bool | None = None
) -> Run:
    """Resume a run: all its models, with the arguments of its last call.

    Args:
        run: Folder of a run.
        trust: Also resume a run that somebody else started, or that was started on another machine, or whose record
            was edited. Its models are executed: look at `models` and `arguments` in its run.json first.
        device: Where models run now (default: as in the last call).
        progress: As for `evaluate`.

    Returns:
        The finished run.

    Raises:
        InvalidInput: The folder is not a run, was not started by this user here, or has a model that was given in
            Python.

    >>> import numpy as np
    >>> from safetensors.torch import save_file
    >>> from cosight.models.cifar_resnet import CifarResNet
    >>> from cosight.stimuli import encode
    >>> for number, name in enumerate(("cat", "dog")):
    ...     Path("pets", name).mkdir(parents=True)
    ...     _ = Path("pets", name, "1.png").write_bytes(encode(np.full((32, 32), number, np.uint8), "png"))
    >>> save_file(CifarResNet(3, classes=2).state_dict(), "untrained.safetensors")
    >>> model = "cosight:resnet20,checkpoint=untrained.safetensors"
    >>> _ = evaluate(model, on="pets", labels="cat,dog", out="run")
    >>> resume("run").trials().frame.height  # nothing was missing
    2
    """
    path = Path(run).resolve()
    record = read_record(path)
    if not trust and not record.is_own:
        raise InvalidInput(
            f"{run} was started by somebody else or on another machine, or its record was edited, and resuming it "
            f"executes its models ({', '.join(record.models) or 'none'}); add --trust if you know them"
        )
    arguments = {**_recorded_options(record, path), "out": path}
    if device is not None:
        arguments["device"] = check_device_name(device)
    working_folder = Path(record.arguments["folder"])
    for model in record.models:
        try:
            parse(model)
        except CosightError as error:
            raise InvalidInput(
                f"{run} has a model that was given in Python, {model}; call evaluate again with it"
            ) from error
    if not working_folder.is_dir():
        raise InvalidInput(
            f"{run} was started in {working_folder}, which does not exist; run `cosight evaluate` again with --out"
        )
    with chdir(working_folder):  # paths in the arguments are relative to it
        return evaluate(*record.models, **arguments, progress=progress)


def _recorded_options(record: RunRecord, path: Path) -> dict[str, Any]:
    """Return the options of the last call; raise InvalidInput where the record was edited so that they are none."""
    known = get_type_hints(evaluate)
    options = {**record.arguments["defaulted"], **record.arguments["passed"]}
    for name, value in options.items():
        if name not in known or not _is_json_of(value, known[name]):
            raise InvalidInput(
                f"{path / RUN} has an argument {name} {value!r} that `evaluate` does not take; correct it"
            )
    return options


def _is_json_of(value: Any, hint: Any) -> bool:
    """Return whether a value read from JSON can be an argument of this type."""
    if get_origin(hint) in (Union, UnionType):
        return any(_is_json_of(value, member) for member in get_args(hint))
    if get_origin(hint) is Sequence:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return value in get_args(hint) if get_origin(hint) is Literal else type(value) is hint


def _record_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `evaluate` as JSON, those that differ from their defaults apart, and the current folder."""
    parameters = signature(evaluate).parameters
    options = {name: value for name, value in values.items() if parameters[name].kind is Parameter.KEYWORD_ONLY}
    del options["progress"]
    passed = {name: _to_json(value) for name, value in options.items() if value != parameters[name].default}
    return {
        "passed": passed,
        "defaulted": {name: _to_json(value) for name, value in options.items() if name not in passed},
        "folder": str(Path.cwd()),
    }


def _to_json(value: Any) -> Any:
    """Return a value as JSON; a label space by its name if it is registered, else by its classes."""
    if isinstance(value, LabelSpace):
        is_registered = value.name in label_spaces and label_spaces[value.name] == value
        return value.name if is_registered else ",".join(value.answers)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _check_order(models: Sequence[Any], on: str | Path) -> None:
    """Raise where images are given as the model, and the model as the images."""
    source, colon, _ = str(on).partition(":")
    if colon and source in sources and not Path(on).exists():
        folder = next((model for model in models if isinstance(model, str) and Path(model).is_dir()), "IMAGES")
        raise InvalidInput(
            f"--on must be what models are shown, got the model {on}; did you mean: cosight evaluate {on} --on {folder}"
        )


def check_models(models: Sequence[Any]) -> list[ModelReference]:
    """Return references to the models; raise for a wrong line now, not when its turn comes after hours."""
    if not models:
        raise InvalidInput("name at least one model, got none; for example timm:resnet50.a1_in1k")
    specs = [model for model in models if isinstance(model, str)]
    for spec in specs:
        check_model_spec(spec)
        if specs.count(spec) > 1:
            raise InvalidInput(f"each model answers once, got {spec} {specs.count(spec)} times; name it once")
    return [ModelReference(model) for model in models]


def check_vlms(
    references: Sequence[ModelReference],
    limits: Budget,
    *,
    engine: str,
    features: bool,
    probe: str | Path | None,
    abstain: Sequence[str],
) -> None:
    """Raise where an option does not apply to vision-language models, or their cost is limited but not known."""
    specs = [reference.spec for reference in references if reference.spec is not None and reference.is_vlm]
    if not specs:
        if limits != Budget():
            raise InvalidInput(
                f"--budget limits the requests to vlm: models, got {limits} without such a model; omit it"
            )
        return
    given = {"--features": features, "--probe": probe is not None, "--abstain": bool(abstain)}
    for option in (option for option, is_given in given.items() if is_given):
        raise InvalidInput(f"{specs[0]} has no logits or features, got {option}; evaluate it in a run of its own")
    if engines.name_of(engine) != "local":
        raise InvalidInput(f"{specs[0]} answers over HTTP, got --engine {engine}; use --engine local")
    for spec in specs:
        check_budget(limits, read_settings(parse(spec)))


def _check_placement(references: Sequence[ModelReference], device: str, precision: Precision) -> None:
    """Raise for a misspelled name of a model, and for a device or precision that it cannot have."""
    for reference in references:
        if reference.spec is None:
            check_placement(device, precision)
        else:
            check_model_name(reference.spec, device=device, precision=precision)


def _check_output(folder: RunFolder, on: str | Path, source: str | Path | None) -> None:
    """Raise unless the output is new, empty, or a run on the same kind of stimuli."""
    out, images = folder.path, Path(on if source is None else source)
    if images.is_dir() and out.resolve().is_relative_to(images.resolve()):
        raise InvalidInput(f"--out must be outside {images}, whose images are shown, got {out}; choose another folder")
    if (out / RUN).exists():
        is_stored = "verb" not in read_record(out).plan["stimuli"]
        if folder.has_answers() and is_stored is not (source is None):
            raise InvalidInput(f"{out} holds a run on other stimuli than {on}; use the same, or choose another --out")
        return
    is_usable = not out.exists() or (
        out.is_dir() and all(path.name.startswith(".") or path.name in _RESOURCES for path in out.iterdir())
    )
    if not is_usable:
        raise InvalidInput(f"--out must be a new or empty folder, or an unfinished run, got {out}; choose another")


def _open_record(
    folder: RunFolder, plan: RunPlan, probe_training: RunPlan | None, arguments: dict[str, Any]
) -> RunRecord:
    """Return the run's record; raise where earlier answers belong to another plan."""
    probe = None
    if probe_training is not None:
        images = probe_training.stimuli
        content = digest_of([probe_training.settings["stimuli"], list(images.stamps)])
        probe = f"{images.folder.resolve().name} {content[:16]}"
    settings = {
        **plan.settings,
        "limit": plan.limit,
        "seed": plan.limit_seed,
        "probe": probe,
        "per_class": plan.per_class,
    }
    if not (folder.path / RUN).exists():
        return RunRecord(settings, arguments)
    record = read_record(folder.path)
    if not folder.has_answers():  # for example because the model could not be loaded: another plan is fine
        return RunRecord(settings, arguments, sessions=record.sessions)
    record.check_same_plan(settings, folder.path)
    record.arguments = arguments
    return record
