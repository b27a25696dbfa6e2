"""The rate's falls against torch's own scheduler, the end against a direct transcription."""

import warnings
from math import inf

import torch
from hypothesis import given
from hypothesis import strategies as st

from cosight.training import Recipe
from cosight.training.checkpoint import Schedule

values = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), min_size=1, max_size=60)


def recipe(**changes):
    return Recipe(data="a", architecture="b", **{"rate": 1e-5, **changes})


def rates(losses, wanted):
    schedule, found = Schedule(wanted.rate), []
    for epoch, loss in enumerate(losses):
        schedule = schedule.after(epoch, loss=loss, accuracy=0, recipe=wanted)
        found.append(schedule.rate)
    return found


@given(values, st.integers(1, 4), st.sampled_from([0.5, 0.1]))
def test_rates_are_those_of_torch(losses, patience, factor):
    wanted = recipe(patience=patience, factor=factor)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=wanted.rate)
    # torch counts the epochs that are forgiven: one less than those after which the rate falls
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=factor, patience=patience - 1, threshold=0, min_lr=wanted.least_rate, eps=0
    )
    expected = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for loss in losses:
            theirs.step(loss)
            expected.append(optimiser.param_groups[0]["lr"])
    assert rates(losses, wanted) == expected


def test_the_papers_plateau():
    falls = rates([1.0] + [1.0] * 45, recipe())
    assert falls[9:11] == [1e-5, 5e-6]  # ten epochs that are no better than the first
    assert falls[20] == 2.5e-6
    assert falls[30] == 1.25e-6
    assert falls[40] == falls[45] == 1e-6  # the least


@given(values, st.integers(1, 5))
def test_training_ends_as_written_out(accuracies, stop):
    wanted = recipe(stop=stop, epochs=40)
    schedule, ended = Schedule(wanted.rate), None
    for epoch, accuracy in enumerate(accuracies):
        schedule = schedule.after(epoch, loss=1.0, accuracy=accuracy, recipe=wanted)
        if schedule.ends(epoch + 1, wanted):
            ended = epoch
            break
    expected = None
    for epoch in range(len(accuracies)):
        best = accuracies.index(max(accuracies[: epoch + 1]))
        if epoch - best >= stop or epoch + 1 == 40:
            expected = epoch
            break
    assert ended == expected
    shown = accuracies[: (ended if ended is not None else len(accuracies)) + 1]
    assert schedule.best_epoch == shown.index(max(shown))


def test_facts_are_json_and_come_back():
    fresh = Schedule(1e-5)
    assert inf not in fresh.facts.values()
    assert Schedule.from_facts(fresh.facts) == fresh
    later = fresh.after(0, loss=0.5, accuracy=0.25, recipe=recipe())
    assert Schedule.from_facts(later.facts) == later
