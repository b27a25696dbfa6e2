"""A dry run: what a call of `evaluate` would ask, what it would cost, and the prompts. Nothing is asked or written."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from cosight.arrays import whole_number
from cosight.errors import InvalidInput
from cosight.models.model_spec import parse
from cosight.models.vlm.journal import Budget, Journal, parse_budget
from cosight.models.vlm.prompts import Prompt, class_prompt, large_prompt_note
from cosight.models.vlm.settings import read_settings
from cosight.runs.evaluate import check_models, check_vlms, evaluate
from cosight.runs.folder import RunFolder
from cosight.runs.run_plan import RunPlan, check_request, plan_run
from cosight.runs.stimulus_sources import StoredStimuli
from cosight.runs.vlm_observers import expected_tokens

__all__ = ["ModelPreview", "Preview", "preview"]

_MEASURED = 50  # images whose sizes are read
_REQUEST = ("source", "labels", "how", "precision", "probe", "tiles", "format", "abstain", "geometry")
_PLAN = (
    *("source", "labels", "how", "features", "limit", "per_class", "seed", "tiles", "format", "batch", "precision"),
    *("abstain", "geometry"),
)


@dataclass(frozen=True, slots=True)
class ModelPreview:
    """What one model would do.

    Attributes:
        observer: Name of the observer.
        images: Number of images.
        answered: Images whose answers are in the run folder already.
        tokens_in: Estimated tokens of the questions that remain; None for models that are not asked by request.
        tokens_out: Estimated tokens of their answers.
        cost: Estimated price; None where the price of tokens is not known.
        measured: Number of answers in the run folder that the estimate is the mean of; 0: a rule of thumb.
        prompt: The question, with the options in the order of seed 0.
    """

    observer: str
    images: int
    answered: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    measured: int = 0
    prompt: Prompt | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """A dry run: one entry per model, and what the user should know."""

    models: tuple[ModelPreview, ...]
    labels: str
    notices: tuple[str, ...]


def preview(*models: str, on: str | Path, out: str | Path, **options: Any) -> Preview:
    """Return what `evaluate` would do with the same arguments, without asking a model or writing a file.

    Args:
        *models: Models by name.
        on: Stimulus set, folder of images, or a benchmark that alters the photos of `source`.
        out: The run folder; answers that it has are not asked again.
        **options: Further options of `evaluate`.

    Returns:
        Images, estimated tokens and cost, and the prompt of each model.

    Raises:
        InvalidInput: An argument is wrong.
        UnknownName: A model, benchmark or label space does not exist.

    >>> import numpy as np
    >>> from cosight.stimuli import encode
    >>> Path("beasts", "cat").mkdir(parents=True)
    >>> _ = Path("beasts", "cat", "1.png").write_bytes(encode(np.zeros((224, 224), np.uint8), "png"))
    >>> made = preview("vlm:gpt-4o,price=2.5/10", on="beasts", out="run", labels="cat,dog")
    >>> made.models[0].images, made.models[0].tokens_in, f"{made.models[0].cost:.5f}"
    (1, 368, '0.00104')
    """
    bound = signature(evaluate).bind(*models, on=on, out=out, **options)
    bound.apply_defaults()
    arguments = bound.arguments
    for name in ("limit", "per_class"):
        if arguments[name] is not None:
            whole_number(arguments[name], name=f"--{name.replace('_', '-')}", least=1)
    limits = Budget() if arguments["budget"] is None else parse_budget(arguments["budget"])
    check_vlms(
        check_models(models), limits, **{name: arguments[name] for name in ("engine", "features", "probe", "abstain")}
    )
    check_request(on, **{name: arguments[name] for name in _REQUEST})
    folder = RunFolder(Path(out))
    with tempfile.TemporaryDirectory(prefix="cosight-preview-") as temporary:  # tiles of altered photos go there
        plan = plan_run(on, Path(temporary), **{name: arguments[name] for name in _PLAN})
        return Preview(
            tuple(_preview_model(model, plan, folder) for model in models),
            plan.space.name,
            (*plan.notices, *filter(None, [large_prompt_note(plan.space, plan.stimuli.frame.height)])),
        )


def _preview_model(model: str, plan: RunPlan, folder: RunFolder) -> ModelPreview:
    spec, images = parse(model), plan.stimuli.frame.height
    if spec.source != "vlm":
        return ModelPreview(spec.label, images)
    settings = read_settings(spec)
    replies = Journal(folder.requests_file(settings.name)).replies()
    if replies:
        tokens = [float(np.mean([getattr(reply, name) for reply in replies])) for name in ("tokens_in", "tokens_out")]
    else:
        width, height = _mean_size(plan)
        tokens = [float(count) for count in expected_tokens(settings, plan.space, width=width, height=height)]
    remaining = max(images - len(replies), 0)
    return ModelPreview(
        settings.name,
        images,
        images - remaining,
        round(tokens[0] * remaining),
        round(tokens[1] * remaining),
        settings.cost(tokens[0] * remaining, tokens[1] * remaining),
        len(replies),
        class_prompt(plan.space, reason=settings.reason),
    )


def _mean_size(plan: RunPlan) -> tuple[float, float]:
    """Return the mean width and height of some images, evenly spaced."""
    count = plan.stimuli.frame.height
    rows = sorted(set(np.linspace(0, count - 1, min(count, _MEASURED)).round().astype(int).tolist()))
    sizes = []
    for row in rows if isinstance(plan.stimuli, StoredStimuli) else rows[:1]:  # altered photos have one size
        if isinstance(plan.stimuli, StoredStimuli):
            path = plan.stimuli.stimuli.path(plan.stimuli.frame["file"][row])
            try:
                with Pillow.open(path) as picture:
                    sizes.append(picture.size)
            except (OSError, Pillow.DecompressionBombError) as error:
                raise InvalidInput(f"cannot read {path}: {error}; restore the file") from error
        else:
            sizes += [
                one.pixels.shape[1::-1] for one in plan.stimuli.load(range(row, row + 1)) if one.pixels is not None
            ]
    width, height = np.mean(sizes, axis=0).tolist() if sizes else (224.0, 224.0)
    return width, height
