import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.models.abstention import AdjustedSoftmax, asp_strangeness


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
def test_settings_it_refuses(settings, message):
    with pytest.raises(InvalidInput, match=message):
        AdjustedSoftmax(**settings)


def test_a_batch_that_is_not_prepared_is_refused(dropping, batch):
    with pytest.raises(InvalidInput, match="stack what prepare gives"):
        asp_strangeness(dropping, batch.astype(np.float64))
