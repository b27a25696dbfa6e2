"""Training: one network per seed; an interrupted run resumes.

The order, crops and dropout of each epoch follow from (seed, epoch, image), and the state is written after each epoch,
so a resumed run gives the same weights as an uninterrupted one (same machine, same number of threads).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from cosight.devices import check_device_name, check_placement, choose_device
from cosight.errors import InvalidInput
from cosight.extras import require
from cosight.models.architectures import TIMM, architectures
from cosight.models.model import check_file
from cosight.models.model_spec import checkpoint_of, parse
from cosight.models.preprocessing import preprocess
from cosight.models.torch_models import weights_digest
from cosight.processes import core_count
from cosight.progress import Progress, report_progress
from cosight.training.alignment import alignment_loss, expected_errors
from cosight.training.augment import crop_and_flip, crop_draws, image_order
from cosight.training.checkpoint import CheckpointFiles, Epoch, Schedule, TrainingState
from cosight.training.context import (
    TrainingContext,
    check_loss,
    cross_entropies,
    make_optimiser,
    process_group,
    split_batches,
    take_step,
    to_channels_first,
)
from cosight.training.data import TrainingImages, load_training_data
from cosight.training.networks import network_factory, seeded, set_training
from cosight.training.recipe import GOLD, Recipe, read_recipe
from cosight.training.robust import Adversary
from cosight.training.ssl import pretrain

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

__all__ = ["TrainedNetwork", "train"]

TrainingPrecision = Literal["float32", "bfloat16"]  # float16 would need losses that are scaled


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """A finished network.

    Args:
        name: NAME@SEED.
        seed: Its seed.
        path: Its checkpoint.
        line: Its name as a model.
        best_epoch: Epoch of the weights, from 0.
        validation_accuracy: Validation accuracy after that epoch.
        robust_accuracy: The same under the attack of adversarial training; None without it.
        history: All epochs.
        new: Whether this call trained it.
    """

    name: str
    seed: int
    path: Path
    line: str
    best_epoch: int
    validation_accuracy: float
    robust_accuracy: float | None
    history: tuple[Epoch, ...]
    new: bool


def train(
    recipe: Recipe | str | Path,
    *,
    out: str | Path,
    seed: int | Sequence[int] = (),
    device: str = "auto",
    precision: TrainingPrecision = "float32",
    progress: Progress | bool | None = None,
) -> list[TrainedNetwork]:
    """Train a recipe's networks, one per seed. Calling it again resumes interrupted training.

    Args:
        recipe: TOML file with architecture, data and settings.
        out: Output folder. Unfinished training there is resumed.
        seed: Comma-separated seeds to train instead of the recipe's.
        device: Where to train: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one). Under torchrun each process
            takes a card of its own.
        precision: Numbers that the network computes in; weights stay float32.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with batches done, batches in all, and a description.

    Returns:
        The trained networks, in the order of their seeds.

    Raises:
        InvalidInput: If the recipe or its data cannot be used, or the device is not available.

    >>> from cosight.stimuli import encode
    >>> for grey, name in enumerate(("dark", "light")):
    ...     Path("photos", name).mkdir(parents=True)
    ...     for number in range(4):
    ...         image = np.full((32, 32), 200 * grey + number, np.uint8)
    ...         _ = Path("photos", name, f"{number}.png").write_bytes(encode(image, "png"))
    >>> recipe = Recipe(data="photos", architecture="mixer-small", validation=0.25, epochs=1, seeds=(1,))
    >>> train(recipe, out="networks")[0].name
    'mixer-small@1'
    """
    settings = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if settings.ssl is not None:
        require("lightly", by=f"ssl = {settings.ssl}")
    seeds = (seed,) if isinstance(seed, int) else tuple(seed)
    if seeds:
        settings = replace(settings, seeds=seeds)
    _check_request(settings, Path(out), device, precision)
    check_placement(device, precision)
    device = choose_device(device)
    with (
        report_progress(progress) as report,
        process_group() as group,
        ThreadPoolExecutor(core_count()) as pool,
        _deterministic_algorithms(),
    ):
        if device == "cuda" and group.world > 1:  # one card per process
            device = f"cuda:{os.environ.get('LOCAL_RANK', group.rank)}"
        network, data = network_factory(settings), load_training_data(settings)
        images = TrainingImages(data.stimuli, network.resize, network.preprocessing.interpolation)
        context = TrainingContext(settings, network, data, images, group, device, precision, pool, report)
        return [_train_seed(context, Path(out), number) for number in settings.seeds]


def _check_request(recipe: Recipe, out: Path, device: str, precision: TrainingPrecision) -> None:
    """Raise where an option is wrong or a path does not exist, before torch is imported."""
    check_device_name(device)
    if precision not in get_args(TrainingPrecision):
        raise InvalidInput(f"--precision must be {' or '.join(get_args(TrainingPrecision))} here, got {precision!r}")
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"--out must be a folder, {out} is a file; choose another")
    if not Path(recipe.data).exists():
        raise InvalidInput(f"data must be a stimulus set or a folder of images, {recipe.data} does not exist")
    if recipe.alignment_to != GOLD and not Path(recipe.alignment_to).exists():
        raise InvalidInput(f"alignment_to must be `{GOLD}` or a file of trials, {recipe.alignment_to} does not exist")
    pretrained = recipe.pretrained
    if pretrained is not None:
        path = checkpoint_of(parse(pretrained)) if pretrained.startswith(TIMM) else Path(pretrained)
        if path is not None:
            check_file(path, "pretrained weights")
    elif recipe.architecture is not None and not recipe.architecture.startswith(TIMM):
        architectures.name_of(recipe.architecture)


def _train_seed(context: TrainingContext, out: Path, seed: int) -> TrainedNetwork:
    """Train the network of one seed unless it is finished."""
    recipe, network, group = context.recipe, context.network, context.group
    trunk = network.trunk
    # the same on every machine, so files are named without their folders
    portable = {"data": Path(recipe.data).name, "pretrained": trunk.name if trunk else None}
    if recipe.alignment is not None:
        portable["alignment_to"] = Path(recipe.alignment_to).name
    identity: dict[str, Any] = {
        "architecture": network.architecture,
        "classes": list(context.data.classes),
        "preprocessing": network.preprocessing.facts,
        "recipe": {**recipe.facts, **portable},
        "seed": seed,
        "data_digest": context.data.digest,
        "trunk_digest": weights_digest(trunk.module) if trunk else None,
        "precision": context.precision,
    }
    name = f"{recipe.name or network.architecture.replace(':', '-')}@{seed}"
    files = CheckpointFiles(out, name, identity)
    facts = files.read_finished()
    is_new = facts is None
    group.barrier()  # all processes have looked before the first one writes
    if is_new:
        _run_phases(context, files, seed)
        facts = files.read_finished()
    elif group.is_first:
        files.remove_state()  # in case a process was killed after it had finished the network
    if facts is None:
        raise InvalidInput(f"{files.path} was removed while it was in use; run it again")
    return TrainedNetwork(
        name=name,
        seed=seed,
        path=files.path,
        line=f"cosight:{network.architecture},checkpoint={files.path}",
        best_epoch=facts["best_epoch"],
        validation_accuracy=facts["validation_accuracy"],
        robust_accuracy=facts.get("robust_accuracy"),
        history=tuple(Epoch(**epoch) for epoch in facts["history"]),
        new=is_new,
    )


def _run_phases(context: TrainingContext, files: CheckpointFiles, seed: int) -> None:
    """Pretrain and train one network from its last state, and write it."""
    group = context.group
    module = context.network.make(len(context.data.classes), seed).to(context.device)
    stored = files.read_state()
    group.barrier()
    first_phase = "ssl" if context.recipe.ssl else "train"
    state, resumed = stored or TrainingState(first_phase, Schedule(context.recipe.rate)), stored is not None
    if state.phase == "ssl":
        pretrain(context, files, module, state, seed, resumed=resumed)
        state, resumed = replace(state, phase="train"), False
    _train_epochs(context, files, module, state, seed, resumed=resumed)
    if group.is_first:
        versions = {name: version(name) for name in ("cosight", "torch", "timm", "numpy", "pillow")}
        files.write_finished(state, {"versions": versions})
    group.barrier()


def _train_epochs(
    context: TrainingContext,
    files: CheckpointFiles,
    module: nn.Module,
    state: TrainingState,
    seed: int,
    *,
    resumed: bool,
) -> None:
    """Train until the schedule ends."""
    recipe = context.recipe
    optimiser = make_optimiser(module, recipe)
    if resumed:
        files.restore(module, optimiser)
    parallel = context.group.parallel(module)
    while not state.schedule.ends(state.epochs, recipe):
        epoch, rate = state.epochs, state.schedule.rate
        set_training(module, frozen=context.network.frozen)
        adversary = Adversary(context, module, (seed, epoch)) if recipe.adversarial else None
        with seeded(seed, "train", epoch, context.group.rank):
            loss = _train_epoch(context, files, parallel, optimiser, state, seed, adversary)
        validation_loss, accuracy = _validate(context, module)
        result = Epoch("train", epoch, rate, loss, validation_loss, accuracy)
        if recipe.adversarial:  # the robust loss and accuracy decide about the rate and the best epoch
            validation_loss, accuracy = _validate(
                context, module, Adversary(context, module, (recipe.validation_seed,))
            )
            result = replace(result, robust_accuracy=accuracy)
        state.schedule = state.schedule.after(epoch, loss=validation_loss, accuracy=accuracy, recipe=recipe)
        state.history.append(result)
        if state.schedule.best_epoch == epoch:
            state.best = {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}
        context.save_state(files, module, optimiser, state)


def _train_epoch(
    context: TrainingContext,
    files: CheckpointFiles,
    parallel: nn.Module,
    optimiser: Optimizer,
    state: TrainingState,
    seed: int,
    adversary: Adversary | None,
) -> float:
    """Train on all training images once and return the mean loss."""
    recipe, group, examples, epoch = context.recipe, context.group, context.data.training, state.epochs
    draws, total = crop_draws(seed, epoch, len(examples)), 0.0
    size, padding, flip = context.network.preprocessing.size, recipe.padding, recipe.flip
    batches = split_batches(image_order(seed, epoch, len(examples)), recipe.batch)
    everything = np.arange(len(examples))
    errors = None if recipe.alignment is None else expected_errors(*context.observer(examples, everything))
    repeats = adversary.repeats if adversary else 1
    for done, batch in enumerate(batches):
        own = group.part_of(batch)
        used = own if len(own) else batch[:1]  # a process without an image takes part with one of weight zero
        images = [
            to_channels_first(crop_and_flip(image, draws[index], size=size, padding=padding, flip=flip))
            for image, index in zip(context.read_images(examples, used), used, strict=True)
        ]
        pixels, targets = context.pixels(images), context.targets(examples, used)
        rate = state.schedule.rate_at(epoch + done / len(batches), recipe)
        for _ in range(repeats):
            if adversary:
                losses = adversary.losses(parallel, pixels, targets, used) * bool(len(own))
            else:
                with context.autocast():
                    logits = parallel(context.normalise(pixels))
                losses = cross_entropies(logits.float(), targets) * bool(len(own))
            # Gradients are averaged over processes; this gives the mean over the batch, however it is divided.
            loss = losses.sum() * (group.world / len(batch))
            total += float(losses.detach().sum()) / repeats
            if recipe.alignment is not None and errors is not None:
                observer, truth = context.observer(examples, used)
                observer = observer * bool(len(own))
                aligned = alignment_loss(recipe.alignment, logits.float(), observer, truth, errors, group)
                aligned = recipe.alignment_weight * aligned
                loss = loss + aligned
                total += float(aligned.detach()) * len(own)
            take_step(loss, parallel, optimiser, rate=rate, clip=recipe.clip)
            if adversary:
                adversary.after_step()
        context.report(done + 1, len(batches), files, state)
    return check_loss(group.sum(total)[0] / len(examples), epoch)


def _validate(context: TrainingContext, module: nn.Module, adversary: Adversary | None = None) -> tuple[float, float]:
    """Return mean loss and accuracy on the validation images, prepared as the finished model prepares images.

    With an adversary the images are attacked.
    """
    import torch

    examples, loss, correct = context.data.validation, 0.0, 0.0
    module.eval()
    for batch in split_batches(context.group.part_of(np.arange(len(examples))), context.recipe.batch):
        images = context.read_images(examples, batch)
        pixels = context.pixels([preprocess(image, context.network.preprocessing) for image in images])
        labels = torch.from_numpy(examples.labels[batch]).to(context.device)
        if adversary:
            pixels = adversary.attack(pixels, labels, batch)
        with torch.no_grad(), context.autocast():
            logits = module(context.normalise(pixels)).float()
        loss += float(cross_entropies(logits, context.targets(examples, batch)).sum())
        correct += int((logits.argmax(dim=1) == labels).sum())
    loss, correct = context.group.sum(loss, correct)
    return loss / len(examples), correct / len(examples)


@contextmanager
def _deterministic_algorithms() -> Iterator[None]:
    """Make torch sum in a fixed order, so that an epoch gives the same weights with several threads too."""
    import torch

    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
