"""Models on a device. Without a GPU: what is asked of torch, with the CPU in the GPU's place."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cosight.errors import InvalidInput
from cosight.models import Preprocessing, as_model, ensemble, load_model
from cosight.models.cifar_resnet import CifarResNet

pytestmark = pytest.mark.usefixtures("one_torch_thread")

PLAIN = Preprocessing(size=32, mean=0, std=1)
BATCH = np.random.default_rng(1).random((4, 3, 32, 32), dtype=np.float32)


class Network(CifarResNet):
    """A network that notes where it is moved to and stays where it is; its memory may be too small."""

    def __init__(self, *, fits=True):
        super().__init__(3, 5)
        self.moves, self.fits = [], fits

    def to(self, *places, **options):
        if options:  # the memory format
            return super().to(*places, **options)
        if not self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        self.moves += places
        return self


@pytest.fixture
def gpu(monkeypatch):
    """`gpu("mps")`: this machine has such a device, and it is what auto means."""

    def has(device):
        monkeypatch.setattr(
            "cosight.models.torch_models.choose_device", lambda name: device if name == "auto" else name
        )

    return has


def means(batch):
    return 8 * batch.mean(axis=(2, 3))


def test_a_module_goes_to_the_gpu_by_default_and_elsewhere_on_request(gpu):
    gpu("cuda")
    network = Network()
    model = as_model(network, preprocessing=PLAIN)
    assert network.moves == ["cuda"]
    np.testing.assert_allclose(model.answer(BATCH).logits, as_model(network, preprocessing=PLAIN).answer(BATCH).logits)
    as_model(Network(), preprocessing=PLAIN, device="cpu")
    placed = Network()
    as_model(placed, preprocessing=PLAIN, device="cuda:1")
    assert placed.moves == ["cuda:1"]


def test_a_model_stays_where_it_was_placed(gpu):
    gpu("cuda")
    network = Network()
    model = as_model(network, preprocessing=PLAIN, device="cpu")
    assert as_model(model) is model
    assert network.moves == []
    as_model(model, device="cuda")
    assert network.moves == ["cuda"]


def test_mps_gets_its_own_memory_layout(gpu):
    gpu("mps")
    network = Network()
    model = as_model(network, preprocessing=PLAIN)
    assert not model.channels_last
    assert network.conv1.weight.is_contiguous()
    assert as_model(Network(), preprocessing=PLAIN, device="cpu").channels_last


def test_a_model_that_does_not_fit_is_one_line(gpu):
    gpu("cuda")
    with pytest.raises(
        InvalidInput, match=r"python:Network does not fit into the memory of cuda with 2 images at a time"
    ):
        as_model(Network(fits=False), preprocessing=PLAIN)


def test_what_chooses_its_device_itself():
    function = as_model(means, preprocessing=PLAIN)
    assert as_model(function, device="cpu") is function
    with pytest.raises(
        InvalidInput, match=r"python:means is no model in torch and chooses .* itself, got --device cuda"
    ):
        as_model(means, preprocessing=PLAIN, device="cuda")
    with pytest.raises(InvalidInput, match="python:means is no model in torch"):
        ensemble([function, function], name="both").on("cuda")


def test_every_member_of_an_ensemble_is_placed(gpu):
    gpu("cuda")
    networks = [Network(), Network()]
    members = [as_model(network, preprocessing=PLAIN, device="cpu") for network in networks]
    both = ensemble(members, name="both").on("auto")
    assert [network.moves for network in networks] == [["cuda"], ["cuda"]]
    assert both.device == "cpu"  # where the weights are: these networks do not really move


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there(device):
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("there is one")
    with pytest.raises(InvalidInput, match=f"--device {device} is not available: "):
        as_model(CifarResNet(3), preprocessing=PLAIN, device=device)


def test_models_by_name_take_a_device(tmp_path):
    with pytest.raises(InvalidInput, match="--device must be auto, cpu, cuda, cuda:N or mps, got 'gpu'"):
        load_model(f"cosight:resnet20,checkpoint={tmp_path}/no.pt", device="gpu")  # before the file is looked for
