"""Masks from segmentation models: a tiny one in ONNX, torchvision's with random weights."""

import numpy as np
import pytest

from cosight.benchmarks.visalign.class_facts import read_class_facts
from cosight.benchmarks.visalign.cutouts import Cutter, RejectedObject
from cosight.errors import CosightError, InvalidInput
from cosight.models.segmentation import load_segmentation, object_of_instances, object_of_maps

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def photo(height=60, width=90):
    """A red square left of the middle, on blue."""
    image = np.zeros((height, width, 3), np.uint8)
    image[:, :, 2] = 200
    image[20:40, 15:45] = (220, 10, 10)
    return image


TRUTH = photo()[:, :, 0] > 0


def test_a_salient_object_is_found_in_the_whole_photo(salient_onnx):
    model = load_segmentation(f"onnx:{salient_onnx},mean=0,std=1,threads=1")
    mask = model.find(photo(), {"square"})
    assert mask.shape == (60, 90)
    assert (mask & TRUTH).sum() / (mask | TRUTH).sum() > 0.85
    assert model.name == "onnx:redness.onnx,mean=0,std=1"
    assert len(model.weights_digest) == 64
    assert model.find(np.full((60, 90, 3), (0, 0, 200), np.uint8), {"square"}) is None
    assert load_segmentation(f"onnx:{salient_onnx},mean=0,std=1,output=side").find(photo(), set()) is None


def test_a_cutter_takes_its_masks_from_a_model(salient_onnx):
    cutter = Cutter(read_class_facts("square,disc").space, f"onnx:{salient_onnx},mean=0,std=1,threads=1")
    found = cutter.cut(photo(), "square")
    assert (found.mask & TRUTH).sum() / (found.mask | TRUTH).sum() > 0.85
    assert cutter.settings["masks"]["name"] == "onnx:redness.onnx,mean=0,std=1"
    assert "onnxruntime" in cutter.packages
    assert "redness.onnx" in cutter.verification[0]
    given = np.zeros((60, 90), np.uint8)
    given[5:9, 5:9] = 255
    assert cutter.cut(photo(), "square", given).mask.sum() == 16  # a mask beside the photo comes first
    tiny = photo()
    tiny[20:40, 17:45] = (0, 0, 200)
    for image, reason in ((np.full((60, 90, 3), (0, 0, 200), np.uint8), "no object found"), (tiny, "doubtful mask")):
        with pytest.raises(RejectedObject) as error:
            cutter.cut(image, "square")
        assert error.value.reason == reason


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("onnx:SALIENT", "the normalisation of .* is unknown"),
        ("onnx:SALIENT,mean=0,std=1,output=best", "has no output 'best'; there are map, side"),
        ("onnx:nowhere.onnx", "does not exist"),
        ("timm:resnet18", "masks come from torchvision or onnx models"),
        ("torchvision:deeplabv3_resnet5", "no torchvision segmentation model .* did you mean deeplabv3_resnet50"),
        ("torchvision:deeplabv3_resnet50.BEST", "has no weights 'BEST'"),
        ("torchvision:deeplabv3_resnet50,mean=0", "options of torchvision models are checkpoint, size, classes"),
    ],
)
def test_mistakes_are_one_line(salient_onnx, name, message):
    with pytest.raises(CosightError, match=message) as error:
        load_segmentation(name.replace("SALIENT", str(salient_onnx)))
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def lraspp(tmp_path_factory):
    """torchvision's smallest segmentation network, with random weights for three classes."""
    import torch

    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchvision import models

    torch.manual_seed(0)
    module = models.get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None, num_classes=3)
    module.eval()
    torch.nn.init.normal_(module.classifier.low_classifier.weight)
    with torch.inference_mode():  # every class is the best one somewhere
        maps = module(torch.rand(1, 3, 60, 90))["out"][0]
        module.classifier.low_classifier.bias -= maps.mean(dim=(1, 2))
    path = tmp_path_factory.mktemp("lraspp") / "lraspp.pt"
    torch.save(module.state_dict(), path)
    return path, module


def test_a_semantic_network_is_loaded_from_a_file_and_asked_by_name(lraspp, tmp_path):
    import cv2
    import torch

    path, module = lraspp
    names = tmp_path / "names.txt"
    names.write_text("background\nred square\ncat\n")
    model = load_segmentation(f"torchvision:lraspp_mobilenet_v3_large,checkpoint={path},size=60,classes={names}")
    pixels = (photo().transpose(2, 0, 1).astype(np.float32) / 255 - np.array([0.485, 0.456, 0.406])[:, None, None]) / (
        np.array([0.229, 0.224, 0.225])[:, None, None]
    )
    with torch.inference_mode():
        best = module(torch.from_numpy(pixels.astype(np.float32))[None])["out"][0].argmax(0).numpy()
    for words, wanted in (({"red_square"}, best == 1), ({"cat"}, best == 2), ({"dog"}, best != 0)):
        mask = model.find(photo(), words)
        if not wanted.any():
            assert mask is None
            continue
        _, labels, stats, _ = cv2.connectedComponentsWithStats(wanted.astype(np.uint8), connectivity=4)
        np.testing.assert_array_equal(mask, labels == 1 + stats[1:, cv2.CC_STAT_AREA].argmax())
    assert len(np.unique(best)) > 1


@pytest.mark.slow
def test_deeplab_is_loaded_from_a_file(tmp_path):
    import torch

    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchvision import models

    module = models.get_model("deeplabv3_mobilenet_v3_large", weights=None, weights_backbone=None, aux_loss=True)
    torch.save(module.state_dict(), tmp_path / "deeplab.pt")
    model = load_segmentation(f"torchvision:deeplabv3_mobilenet_v3_large,checkpoint={tmp_path / 'deeplab.pt'},size=64")
    assert model.categories[:2] == ("__background__", "aeroplane")
    mask = model.find(photo(), {"aeroplane"})
    assert mask is None or mask.shape == (60, 90)


def has_operators():
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchvision.extension import _has_ops

    return _has_ops()


def test_mask_rcnn_says_what_it_needs_where_it_cannot_run(monkeypatch):
    from torchvision.ops import boxes

    def absent():
        raise RuntimeError("Couldn't load custom C++ ops.")

    has_operators()  # imports torchvision
    monkeypatch.setattr(boxes, "_assert_has_ops", absent)
    with pytest.raises(InvalidInput, match=r"Mask R-CNN needs torchvision's compiled operators.*deeplabv3_resnet50"):
        load_segmentation("torchvision:maskrcnn_resnet50_fpn")


@pytest.mark.slow
def test_mask_rcnn_is_loaded_from_a_file(tmp_path, monkeypatch):
    """It is not run: without compiled operators that takes minutes. `object_of_instances` reads what it returns."""
    import torch

    has_operators()  # imports torchvision
    from torchvision import models
    from torchvision.ops import boxes

    monkeypatch.setattr(boxes, "_assert_has_ops", lambda: None)
    module = models.get_model("maskrcnn_resnet50_fpn", weights=None, weights_backbone=None, num_classes=3)
    torch.save(module.state_dict(), tmp_path / "rcnn.pt")
    model = load_segmentation(f"torchvision:maskrcnn_resnet50_fpn,checkpoint={tmp_path / 'rcnn.pt'}")
    assert model.short_side is None  # the network resizes photos itself
    weights = model.module.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())


def test_maps_of_several_categories_are_asked_by_name():
    maps = np.zeros((3, 2, 2))
    maps[1, 0] = 2  # cat above, dog below left
    maps[2, 1, 0] = 3
    maps[0, 1, 1] = 1
    names = ("background", "cat", "dog")
    assert object_of_maps(maps, names, {"cat"}).tolist() == [[True, True], [False, False]]
    assert object_of_maps(maps, names, {"Dog"}).tolist() == [[False, False], [True, False]]
    assert object_of_maps(maps, names, {"background"}).tolist() == [[True, True], [True, False]]
    assert object_of_maps(maps, (), {"cat"}).tolist() == [[True, True], [True, False]]
    assert object_of_maps(np.array([[0.4, 0.6]]), (), ()).tolist() == [[False, True]]


def test_the_largest_certain_instance_is_chosen_by_name():
    masks = np.zeros((3, 1, 4, 4))
    masks[0, 0, :1], masks[1, 0, :3], masks[2, 0] = 0.9, 0.9, 0.9
    scores, labels, names = [0.9, 0.8, 0.3], [1, 2, 1], ("background", "cat", "dog")
    assert object_of_instances(masks, labels, scores, names, {"cat"}).sum() == 4
    assert object_of_instances(masks, labels, scores, names, {"zebra"}).sum() == 12
    assert object_of_instances(masks, labels, [0.1] * 3, names, {"cat"}) is None
    assert object_of_instances(masks, [2, 2, 2], scores, names, {"cat"}) is None
