import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.models.abstention import McDropout, dropout_logits, member_entropy


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
