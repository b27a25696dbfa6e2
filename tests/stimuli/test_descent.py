"""Gradient descent on images: the best iterate is kept, converged images leave the batch, images do not interact."""

from __future__ import annotations

import pytest
import torch

from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli.descent import DescentSettings, descend, optimisers

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def to_grey(images, rows):
    """Distance of each image to mid grey."""
    return (images - 0.5).flatten(1).norm(dim=1)


@pytest.fixture
def starts():
    return torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", list(optimisers))
def test_every_optimiser_descends(name, starts):
    done = descend(to_grey, starts, DescentSettings(steps=60, optimiser=name, tolerance=0.0))
    assert (done.loss < 0.5 * done.start).all()
    assert torch.equal(done.start, to_grey(starts, None))
    assert torch.allclose(done.loss, to_grey(done.images, None), atol=1e-6)
    assert done.images.min() >= 0
    assert done.images.max() <= 1


def test_a_normalised_step_has_the_length_of_the_step_size(starts):
    done = descend(to_grey, starts, DescentSettings(steps=1, step_size=0.25, tolerance=None))
    assert torch.allclose((done.images - starts).flatten(1).norm(dim=1), torch.full((4,), 0.25), atol=1e-5)


def test_the_best_iterate_is_kept_where_steps_are_too_long(starts):
    losses = []

    def recorded(images, rows):
        losses.append(to_grey(images, rows).detach())
        return to_grey(images, rows)

    done = descend(recorded, starts, DescentSettings(steps=9, step_size=30.0, tolerance=None))
    assert torch.equal(done.loss, torch.stack(losses).amin(dim=0))
    assert len(losses) == 10  # the start and nine steps


def test_a_converged_image_stops_and_leaves_the_batch(starts):
    sizes = []

    def counted(images, rows):
        sizes.append(len(images))
        return to_grey(images, rows)

    near = torch.cat([torch.full((1, 3, 8, 8), 0.51), starts[1:]])
    done = descend(counted, near, DescentSettings(steps=40, step_size=0.2, tolerance=0.2))
    assert done.steps[0] == 0
    assert torch.equal(done.images[0], near[0])
    assert (done.loss <= 0.2).all()
    assert (done.steps[1:] > 5).all()
    assert sizes[0] == 4
    assert sizes[1] == 3


@pytest.mark.parametrize("name", list(optimisers))
def test_an_image_does_not_depend_on_the_others(name, starts):
    settings = DescentSettings(steps=7, optimiser=name, tolerance=3.8)  # some leave earlier than others
    together = descend(to_grey, starts, settings)
    for row in range(len(starts)):
        alone = descend(to_grey, starts[row : row + 1], settings)
        assert torch.allclose(alone.images[0], together.images[row], atol=1e-6)
        assert alone.steps[0] == together.steps[row]


def test_an_image_without_gradient_stays_as_it_is():
    grey = torch.full((1, 3, 8, 8), 0.5)
    done = descend(to_grey, grey, DescentSettings(steps=3, tolerance=None))
    assert torch.equal(done.images, grey)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 0}, "--steps must be a whole number, 1 to 1,000,000, got 0"),
        ({"step_size": 0.0}, "--step-size must be a positive number, got 0.0"),
        ({"step_size": float("nan")}, "--step-size must be a positive number"),
        ({"tolerance": -1.0}, "--tolerance must be a number from 0 up, got -1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, words):
    with pytest.raises(InvalidInput, match=words):
        DescentSettings(**settings)


def test_unknown_optimisers_are_refused():
    with pytest.raises(UnknownName, match="did you mean adam"):
        DescentSettings(optimiser="adams")


def test_a_loss_without_gradient_is_refused(starts):
    with pytest.raises(InvalidInput, match="needs a gradient"):
        descend(lambda images, rows: to_grey(images.detach(), rows), starts, DescentSettings(steps=1))
    with pytest.raises(InvalidInput, match="gradients must be finite, got nan or infinity for image 0"):
        descend(lambda images, rows: to_grey(images, rows) * float("inf"), starts, DescentSettings(steps=1))
