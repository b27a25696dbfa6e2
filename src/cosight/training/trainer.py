"""Training: one network a seed, killed and resumed at will.

Each epoch's order, crops and dropout follow from (seed, epoch, image), and the state is kept after each epoch: to go on
is to run again, and gives the weights that would have come without the break (same machine, same number of threads).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.models.preprocessing import preprocess
from cosight.models.torch_models import weights_digest
from cosight.processes import core_count
from cosight.stimuli.images import Floats
from cosight.training.augment import crop_and_flip, draws, order
from cosight.training.blueprint import blueprint, seeded, set_training
from cosight.training.checkpoint import Place, State
from cosight.training.data import TrainingImages, material
from cosight.training.distributed import Processes, processes
from cosight.training.pretraining import pretrain
from cosight.training.recipe import Recipe, read_recipe
from cosight.training.schedule import Epoch, Schedule
from cosight.training.session import (
    Numbers,
    Progress,
    Session,
    adamw,
    batches,
    channels_first,
    descend,
    finite,
    losses,
)

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

__all__ = ["TrainedNetwork", "train"]


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """A finished network; `new` says whether this call trained it. `line` names it as a model."""

    name: str
    seed: int
    path: Path
    line: str
    best_epoch: int
    validation_accuracy: float
    history: tuple[Epoch, ...]
    new: bool


def train(
    recipe: Recipe | str | Path,
    *,
    out: str | Path,
    seed: Sequence[int] = (),
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[TrainedNetwork]:
    """Train a recipe's networks, one per seed. Calling it again resumes interrupted training.

    Args:
        recipe: TOML file with architecture, data and settings.
        out: Output folder. Unfinished training there is resumed.
        seed: Comma-separated seeds to train instead of the recipe's.
        device: Device to train on: cpu or cuda.
        progress: Called with batches done, batches in all, and a description.

    Returns:
        The trained networks, in the order of their seeds.

    Raises:
        InvalidInput: The recipe or its data cannot be used.
    """
    wanted = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if seed:
        wanted = replace(wanted, seeds=tuple(seed))
    with processes() as group, ThreadPoolExecutor(core_count()) as pool, _deterministic():
        plan, data = blueprint(wanted), material(wanted)
        pictures = TrainingImages(data.stimuli, plan.resize, plan.preprocessing.interpolation)
        session = Session(wanted, plan, data, pictures, group, _device(device, group), pool, progress)
        return [_trained(session, Path(out), seed) for seed in wanted.seeds]


def _trained(session: Session, out: Path, seed: int) -> TrainedNetwork:
    name = f"{session.recipe.name or session.plan.architecture.replace(':', '-')}@{seed}"
    place = Place(out, name, _identity(session, seed))
    facts = place.finished()
    new = facts is None
    session.group.wait()  # until all have looked, before one may write it
    if facts is None:
        _run(session, place, seed)
    elif session.group.first:
        place.clear()  # where a process was killed after it had finished the network
    done = facts or place.finished()
    if done is None:
        raise InvalidInput(f"{place.path} was removed as soon as it was there; run it again")
    history = tuple(Epoch(**epoch) for epoch in done["history"])
    line = f"cosight:{session.plan.architecture},checkpoint={place.path}"
    return TrainedNetwork(name, seed, place.path, line, done["best_epoch"], done["validation_accuracy"], history, new)


def _identity(session: Session, seed: int) -> dict[str, Any]:
    """What a network is made from: the same on every machine, so files are named without their folders."""
    recipe, trunk = session.recipe, session.plan.trunk
    facts = {**recipe.facts, "data": Path(recipe.data).name, "pretrained": trunk.name if trunk else None}
    return {
        "architecture": session.plan.architecture,
        "classes": list(session.data.classes),
        "preprocessing": session.plan.preprocessing.facts,
        "recipe": facts,
        "seed": seed,
        "data_digest": session.data.digest,
        "trunk_digest": weights_digest(trunk.module) if trunk else None,
    }


def _run(session: Session, place: Place, seed: int) -> None:
    """Train one network to its end, from wherever it is."""
    module = session.plan.make(len(session.data.classes), seed).to(session.device)
    found = place.read_state()
    session.group.wait()
    first = "ssl" if session.recipe.ssl else "train"
    state = found or State(first, Schedule(session.recipe.rate))
    if state.phase == "ssl":
        pretrain(session, place, module, state, seed, resumed=found is not None)
        state, found = replace(state, phase="train"), None
    _learn(session, place, module, state, seed, resumed=found is not None)
    if session.group.first:
        versions = {name: version(name) for name in ("cosight", "torch", "timm", "numpy", "pillow")}
        place.write_finished(state, {"versions": versions})
    session.group.wait()


def _learn(session: Session, place: Place, module: nn.Module, state: State, seed: int, *, resumed: bool) -> None:
    """Epochs until the schedule ends."""
    recipe = session.recipe
    optimiser = adamw(module, recipe)
    if resumed:
        place.restore(module, optimiser)
    joined = session.group.joined(module)
    while not state.schedule.ends(state.epochs, recipe):
        epoch, rate = state.epochs, state.schedule.rate
        set_training(module, frozen=session.plan.frozen)
        with seeded(seed, "train", epoch, session.group.rank):
            loss = _pass(session, place, joined, optimiser, state, seed)
        missed, accuracy = _validated(session, module)
        state.schedule = state.schedule.after(epoch, loss=missed, accuracy=accuracy, recipe=recipe)
        state.history.append(Epoch("train", epoch, rate, loss, missed, accuracy))
        if state.schedule.best_epoch == epoch:
            state.best = {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}
        session.keep(place, module, optimiser, state)


def _pass(session: Session, place: Place, joined: nn.Module, optimiser: Optimizer, state: State, seed: int) -> float:
    """One epoch over the training images; the mean loss."""
    recipe, group, examples, epoch = session.recipe, session.group, session.data.training, state.epochs
    crops, total = draws(seed, epoch, len(examples)), 0.0
    every = batches(order(seed, epoch, len(examples)), recipe.batch)
    for done, batch in enumerate(every, start=1):
        mine = group.share(batch)
        used = mine if len(mine) else batch[:1]  # without an image, a process still takes part, with one of no weight
        logits = joined(session.normalised(_cropped(session, used, crops)))
        found = losses(logits, session.targets(examples, used)) * bool(len(mine))
        # Processes' gradients are averaged: this way to the mean over the batch, however it is shared out.
        loss = found.sum() * (group.world / len(batch))
        descend(loss, joined, optimiser, rate=state.schedule.rate, clip=recipe.clip)
        total += float(found.detach().sum())
        session.say(done, len(every), place, state)
    return finite(group.total(total)[0] / len(examples), epoch)


def _cropped(session: Session, numbers: Numbers, crops: Any) -> list[Floats]:
    size, recipe = session.plan.preprocessing.size, session.recipe
    photos = session.photos(session.data.training, numbers)
    return [
        channels_first(crop_and_flip(photo, crops[i], size=size, padding=recipe.padding, flip=recipe.flip))
        for photo, i in zip(photos, numbers, strict=True)
    ]


def _validated(session: Session, module: nn.Module) -> tuple[float, float]:
    """Mean loss and accuracy on the validation images, seen as the finished model will see images."""
    import torch

    examples, loss, right = session.data.validation, 0.0, 0.0
    module.eval()
    with torch.no_grad():
        for batch in batches(session.group.share(np.arange(len(examples))), session.recipe.batch):
            photos = session.photos(examples, batch)
            logits = module(session.normalised([preprocess(photo, session.plan.preprocessing) for photo in photos]))
            loss += float(losses(logits, session.targets(examples, batch)).sum())
            right += int((logits.argmax(dim=1).cpu().numpy() == examples.labels[batch]).sum())
    loss, right = session.group.total(loss, right)
    return loss / len(examples), right / len(examples)


def _device(device: str, group: Processes) -> str:
    """A card a process, where there are several."""
    return f"cuda:{os.environ.get('LOCAL_RANK', group.rank)}" if device == "cuda" and group.world > 1 else device


@contextmanager
def _deterministic() -> Iterator[None]:
    """torch adds up in a fixed order, so that the same epoch gives the same weights with several threads too."""
    import torch

    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
