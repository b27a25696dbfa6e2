import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax as scipy_softmax
from scipy.stats import entropy as scipy_entropy

from cosight.errors import InvalidInput
from cosight.models.abstention import (
    AdjustedSoftmax,
    DeepEnsemble,
    McDropout,
    SoftmaxProbability,
    asp_strangeness,
    dropout_logits,
    member_entropy,
    member_prediction,
)

LOGITS = arrays(np.float64, (4, 3), elements=st.floats(-50, 50))
MEMBERS = arrays(np.float64, (3, 4, 5), elements=st.floats(-50, 50))


def sp(logits):
    return SoftmaxProbability().fit(None, None, None).strangeness(None, logits)


@given(LOGITS)
def test_sp_is_scipys_entropy_of_scipys_softmax(logits):
    assert sp(logits) == pytest.approx(scipy_entropy(scipy_softmax(logits, axis=1), axis=1), abs=1e-12)


@given(LOGITS, st.floats(-1e3, 1e3))
def test_sp_does_not_see_what_all_logits_share(logits, shift):
    assert sp(logits + shift) == pytest.approx(sp(logits), abs=1e-9)


def test_sp_runs_from_nothing_to_log_classes_without_overflow():
    assert sp([[1e4, 0.0, -1e4], [7.0, 7.0, 7.0]]) == pytest.approx([0, np.log(3)], abs=1e-15)


@given(MEMBERS)
def test_members_are_averaged_after_the_entropy_and_predictions_after_the_softmax(logits):
    each = scipy_softmax(logits, axis=2)
    assert DeepEnsemble().strangeness(None, logits) == pytest.approx(scipy_entropy(each, axis=2).mean(0), abs=1e-12)
    assert member_prediction(logits) == pytest.approx(each.mean(0), abs=1e-12)
    assert member_prediction(logits).sum(axis=1) == pytest.approx(1)


def test_members_that_are_sure_of_different_classes_are_not_strange():
    apart = [[[40.0, 0.0]], [[0.0, 40.0]]]
    assert member_entropy(apart, who="x") == pytest.approx([0], abs=1e-12)
    assert member_prediction(apart) == pytest.approx(np.array([[0.5, 0.5]]))


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (None, "sp needs logits, got none"),
        ([[1.0], [2.0]], r"two or more classes, got shape \(2, 1\)"),
        ([[np.nan, 0.0]], "logits must be finite, got nan"),
        ([1.0, 2.0], r"2 axes, got shape \(2,\)"),
    ],
)
def test_sp_refuses(logits, message):
    with pytest.raises(InvalidInput, match=message):
        sp(logits)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (None, "logits of each member, got none"),
        (np.zeros((0, 2, 3)), "at least one member"),
        (np.zeros((1, 2, 3)), "at least two members, got 1; use sp"),
        (np.zeros((2, 3)), "3 axes"),
    ],
)
def test_an_ensemble_refuses(logits, message):
    with pytest.raises(InvalidInput, match=message):
        DeepEnsemble().strangeness(None, logits)


def written_out(model, batch, step):
    """The step in normalised space, divided by the channels' standard deviations; everything in float64."""
    import copy

    import torch

    module = copy.deepcopy(model.module).double()
    mean, std = (torch.tensor(x, dtype=torch.float64).reshape(1, 3, 1, 1) for x in (model.mean, model.std))
    pixels = ((torch.tensor(batch, dtype=torch.float64) - mean) / std).requires_grad_()
    logits = module(pixels) / 1000
    loss = -logits.log_softmax(dim=1).max(dim=1).values.mean()
    loss.backward()
    with torch.no_grad():
        shares = (module(pixels - step / std * pixels.grad.sign()) / 1000).softmax(dim=1)
    return -(shares * shares.log()).sum(dim=1).numpy()


def test_the_formula_written_out(dropping, batch):
    found = asp_strangeness(dropping, batch)
    assert found.dtype == np.float64
    assert found == pytest.approx(written_out(dropping, batch, 0.0014), abs=1e-14)
    lower = asp_strangeness(dropping, batch, settings=AdjustedSoftmax(direction="lower"))
    assert lower == pytest.approx(written_out(dropping, batch, -0.0014), abs=1e-14)
    assert np.ptp(found) < 1e-5  # at temperature 1000 float32 would see no difference
    assert (lower > found).all()


def test_pytorch_oods_step(dropping, batch, pytorch_ood):
    import copy

    import torch
    from pytorch_ood.detector import odin_preprocessing

    module = copy.deepcopy(dropping.module).double()
    mean, std = (torch.tensor(x, dtype=torch.float64).reshape(1, 3, 1, 1) for x in (dropping.mean, dropping.std))
    pixels = (torch.tensor(batch, dtype=torch.float64) - mean) / std
    stepped = odin_preprocessing(module, pixels, norm_std=list(dropping.std))
    with torch.no_grad():
        theirs = module(stepped).numpy()
    assert AdjustedSoftmax().logits(dropping, batch) == pytest.approx(theirs, abs=1e-12)


def test_without_a_step_at_temperature_one_it_is_sp(dropping, batch):
    from cosight.models.abstention import SoftmaxProbability

    sp = SoftmaxProbability().strangeness(None, dropping.answer(batch).logits)
    plain = AdjustedSoftmax(temperature=1, step=0)
    assert asp_strangeness(dropping, batch, settings=plain) == pytest.approx(sp, abs=1e-6)


def test_the_model_stays_as_it_is_and_images_do_not_meet(dropping, batch):
    import torch

    before, kept = dropping.answer(batch).logits, batch.copy()
    whole = asp_strangeness(dropping, batch)
    assert (dropping.answer(batch).logits == before).all()
    assert (batch == kept).all()
    assert {weight.dtype for weight in dropping.module.parameters()} == {torch.float32}
    alone = np.concatenate([asp_strangeness(dropping, batch[index : index + 1]) for index in range(5)])
    assert alone == pytest.approx(whole, abs=1e-14)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0}, "temperature must be positive and step not negative, got 0 and 0.0014"),
        ({"step": -1}, "step not negative"),
        ({"direction": "up"}, "direction must be raise or lower, got 'up'"),
    ],
)
def test_settings_asp_refuses(settings, message):
    with pytest.raises(InvalidInput, match=message):
        AdjustedSoftmax(**settings)


def test_a_batch_that_is_not_prepared_is_refused(dropping, batch):
    with pytest.raises(InvalidInput, match="stack the arrays that prepare returns"):
        asp_strangeness(dropping, batch.astype(np.float64))


def state(model):
    return [part.training for part in model.module.modules()]


def test_an_images_passes_depend_on_its_pixels_and_the_seed_alone(dropping, batch):
    whole = dropout_logits(dropping, batch, passes=4, seed=1)
    assert (whole.shape, whole.dtype) == ((4, 5, 3), np.float32)
    backwards = dropout_logits(dropping, batch[::-1], passes=4, seed=1)
    alone = np.concatenate([dropout_logits(dropping, batch[i : i + 1], passes=4, seed=1) for i in range(5)], axis=1)
    assert (backwards[:, ::-1] == whole).all()
    assert (alone == whole).all()
    assert not (dropout_logits(dropping, batch, passes=4, seed=2) == whole).any()


def test_passes_and_images_get_different_networks(dropping, batch):
    whole = dropout_logits(dropping, np.stack([batch[0], batch[0] * np.float32(0.999)]), passes=6, seed=0)
    assert len(np.unique(whole[:, 0], axis=0)) == 6
    assert np.abs(whole[:, 0] - whole[:, 1]).max() > 0.01  # nearly the same image, other units dropped


def test_only_dropout_is_switched_on_and_all_is_left_as_it_was(dropping, batch):
    import torch

    seen = []
    handle = dropping.module[1].register_forward_hook(lambda part, got, given: seen.append(part.training))
    norm = dropping.module[1].running_mean.clone()
    before, drawn, logits = state(dropping), torch.get_rng_state(), dropping.answer(batch).logits
    dropout_logits(dropping, batch, passes=3, seed=0)
    handle.remove()
    assert not any(seen)
    assert torch.equal(dropping.module[1].running_mean, norm)
    assert state(dropping) == before
    assert torch.equal(torch.get_rng_state(), drawn)
    assert (dropping.answer(batch).logits == logits).all()


def test_after_an_error_too(dropping, batch):
    before = state(dropping)

    def fail(*_):
        raise RuntimeError("no")

    dropping.module[0].register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="no"):
        dropout_logits(dropping, batch, passes=3, seed=0)
    assert state(dropping) == before


def test_many_passes_average_to_what_dropout_before_a_linear_layer_must(dropping, batch):
    """With dropout before linear layers only, the mean logits are those without dropout."""
    many = dropout_logits(dropping, batch[:1], passes=4000, seed=0)[:, 0]
    wide = many.std(axis=0) / np.sqrt(4000)
    assert (np.abs(many.mean(axis=0) - dropping.answer(batch[:1]).logits[0]) < 5 * wide).all()
    assert (many.std(axis=0) > 0.05).all()


def test_strangeness_is_the_mean_entropy_of_the_passes(dropping, batch):
    function = McDropout(passes=7, seed=3)
    logits = function.logits(dropping, batch)
    assert (logits == dropout_logits(dropping, batch, passes=7, seed=3)).all()
    assert (function.fit(None, None, None).strangeness(None, logits) == member_entropy(logits, who="x")).all()


def test_a_module_without_dropout_is_refused_in_one_line(dropping, batch):
    for part in dropping.module.modules():
        if hasattr(part, "p"):
            part.p = 0.0
    with pytest.raises(InvalidInput, match="needs dropout modules with p > 0, python:tiny has none; train it with"):
        dropout_logits(dropping, batch, passes=2, seed=0)


def test_no_passes_are_refused(dropping, batch):
    with pytest.raises(InvalidInput, match="passes must be 1 or more, got 0"):
        McDropout(passes=0)
    with pytest.raises(InvalidInput, match="passes must be 1 or more, got 0"):
        dropout_logits(dropping, batch, passes=0, seed=0)
