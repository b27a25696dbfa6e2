"""The phase without labels: a fixed number of epochs of SimCLR or BYOL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes
from cosight.training.augment import order, two_views
from cosight.training.blueprint import head_of, seeded
from cosight.training.checkpoint import Place, State
from cosight.training.schedule import Epoch
from cosight.training.session import Numbers, Session, adamw, batches, channels_first, descend, finite
from cosight.training.ssl import two_view_learner

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = ["pretrain"]

_PHASE = "ssl"


def pretrain(session: Session, place: Place, module: nn.Module, state: State, seed: int, *, resumed: bool) -> None:
    """Train the trunk; the network's own head is left as it is."""
    recipe, group = session.recipe, session.group
    _check(session)
    head_of(module).requires_grad_(False)
    with seeded(seed, _PHASE):
        learner = two_view_learner(recipe.ssl or "simclr", module, gathered=group.world > 1).to(session.device)
    optimiser = adamw(learner, recipe)
    if resumed:
        place.restore(learner, optimiser)
    joined = group.joined(learner)
    while (epoch := state.epochs) < recipe.ssl_epochs:
        learner.train()
        with seeded(seed, _PHASE, epoch, group.rank):
            loss = _pass(session, place, learner, joined, optimiser, state, seed)
        state.history.append(Epoch(_PHASE, epoch, recipe.rate, loss))
        session.keep(place, learner, optimiser, state)
    head_of(module).requires_grad_(True)


def _pass(
    session: Session, place: Place, learner: Any, joined: nn.Module, optimiser: Optimizer, state: State, seed: int
) -> float:
    """One epoch over two views of each image; an incomplete last batch is left out, as it has fewer negatives."""
    recipe, group, epoch = session.recipe, session.group, state.epochs
    images = len(session.data.training)
    whole = batches(order(seed, epoch, images), recipe.batch)[: images // recipe.batch]
    total = 0.0
    for done, batch in enumerate(whole, start=1):
        loss = joined(*_views(session, group.share(batch), epoch, seed))
        descend(loss, joined, optimiser, rate=recipe.rate, clip=recipe.clip)
        learner.after_step(epoch * len(whole) + done, recipe.ssl_epochs * len(whole))
        total += float(loss.detach())
        session.say(done, len(whole), place, state)
    return finite(group.total(total)[0] / group.world / len(whole), epoch)


def _views(session: Session, numbers: Numbers, epoch: int, seed: int) -> tuple[Tensor, Tensor]:
    """The two views of these images (n, 3, height, width) each."""
    size, flip = session.plan.preprocessing.size, session.recipe.flip

    def both(photo: Bytes, number: int) -> tuple[Bytes, Bytes]:
        return two_views(photo, seed=seed, epoch=epoch, number=number, size=size, flip=flip)

    photos = session.photos(session.data.training, numbers)
    pairs = list(session.pool.map(both, photos, numbers.tolist()))
    first, second = (session.normalised([channels_first(pair[k]) for pair in pairs]) for k in (0, 1))
    return first, second


def _check(session: Session) -> None:
    batch, world, images = session.recipe.batch, session.group.world, len(session.data.training)
    if batch % world or batch // world < 2:
        raise InvalidInput(f"ssl shares a batch out evenly, two images a process or more, got {batch} for {world}")
    if images < batch:
        raise InvalidInput(f"ssl needs at least one whole batch of {batch} images, got {images}; lower batch")
