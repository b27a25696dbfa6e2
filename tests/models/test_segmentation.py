"""Masks from segmentation models: a tiny one in ONNX, torchvision's with random weights."""

import numpy as np
import pytest

from cosight.benchmarks.visalign.class_facts import read_class_facts
from cosight.benchmarks.visalign.cutouts import Cutter, RejectedObject
from cosight.errors import CosightError
from cosight.models.segmentation import load_segmentation, object_of_instances, object_of_maps
from cosight.stimuli.images import encode
from cosight.stimuli.sets import read_set
from cosight.torchvision_ops import import_torchvision

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


def test_u2net_needs_only_its_normalisation(u2net_onnx):
    """The options are those of docs/guides/visalign.md."""
    model = load_segmentation(f"onnx:{u2net_onnx},mean=.485/.456/.406,std=.229/.224/.225")
    mask = model.find(photo(), {"square"})
    assert (mask & TRUTH).sum() / (mask | TRUTH).sum() > 0.95
    side = load_segmentation(f"onnx:{u2net_onnx},mean=.485/.456/.406,std=.229/.224/.225,output=1965")
    assert not (side.find(photo(), {"square"}) & TRUTH).any()


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


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("lraspp_mobilenet_v3_large", "classifier.low_classifier"),
        pytest.param("deeplabv3_mobilenet_v3_large", "classifier.4", marks=pytest.mark.slow),
        pytest.param("deeplabv3_resnet50", "classifier.4", marks=pytest.mark.slow),
    ],
)
def test_a_semantic_network_is_loaded_from_a_file_and_asked_by_name(name, head, tmp_path):
    """With random weights for three classes, and a classifier for which each of them is the best one somewhere."""
    import cv2
    import torch

    import_torchvision()
    from torchvision import models

    torch.manual_seed(0)
    module = models.get_model(name, weights=None, weights_backbone=None, num_classes=3).eval()
    pixels = (photo().transpose(2, 0, 1).astype(np.float32) / 255 - np.array([0.485, 0.456, 0.406])[:, None, None]) / (
        np.array([0.229, 0.224, 0.225])[:, None, None]
    )
    batch = torch.from_numpy(pixels.astype(np.float32))[None]
    classifier = module.get_submodule(head)
    torch.nn.init.normal_(classifier.weight)
    with torch.inference_mode():
        classifier.bias -= module(batch)["out"][0].mean(dim=(1, 2))
        best = module(batch)["out"][0].argmax(0).numpy()
    assert len(np.unique(best)) > 1
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    (tmp_path / "names.txt").write_text("background\nred square\ncat\n")
    options = f"checkpoint={tmp_path / 'weights.pt'},size=60,classes={tmp_path / 'names.txt'}"
    model = load_segmentation(f"torchvision:{name},{options}")
    for words, wanted in (({"red_square"}, best == 1), ({"cat"}, best == 2), ({"dog"}, best != 0)):
        mask = model.find(photo(), words)
        if not wanted.any():
            assert mask is None
            continue
        _, labels, stats, _ = cv2.connectedComponentsWithStats(wanted.astype(np.uint8), connectivity=4)
        np.testing.assert_array_equal(mask, labels == 1 + stats[1:, cv2.CC_STAT_AREA].argmax())


@pytest.mark.slow
def test_a_network_with_its_own_number_of_classes_and_an_auxiliary_head(tmp_path):
    import torch

    import_torchvision()
    from torchvision import models

    module = models.get_model("deeplabv3_mobilenet_v3_large", weights=None, weights_backbone=None, aux_loss=True)
    torch.save(module.state_dict(), tmp_path / "deeplab.pt")
    model = load_segmentation(f"torchvision:deeplabv3_mobilenet_v3_large,checkpoint={tmp_path / 'deeplab.pt'}")
    assert model.categories[:2] == ("__background__", "aeroplane")


@pytest.fixture(scope="module")
def red_rcnn(tmp_path_factory):
    """Mask R-CNN with weights set by hand: the first channel of its feature map is the redness of the photo.

    A box scores by the redness of its middle less that of its border; a mask is where the redness is above a limit.
    """
    import torch

    import_torchvision()
    from torchvision import models

    torch.manual_seed(0)
    module = models.get_model("maskrcnn_resnet50_fpn", weights=None, weights_backbone=None, num_classes=3).eval()

    def set_first(weight, values):
        """Pass on the first channel only, with this kernel."""
        weight.zero_()
        weight[0, 0] = torch.as_tensor(values)

    with torch.no_grad():
        body, centre = module.backbone.body, torch.zeros(7, 7)
        centre[3, 3] = 1
        body.conv1.weight.zero_()
        body.conv1.weight[0, 0], body.conv1.weight[0, 2] = centre, -centre
        for layer in (body.layer1, body.layer2, body.layer3, body.layer4):
            set_first(layer[0].downsample[0].weight, 1.0)
            for block in layer:
                block.bn3.weight.zero_()  # only the shortcuts are left
        heads = module.roi_heads
        for block in (*module.backbone.fpn.inner_blocks, *module.backbone.fpn.layer_blocks, *heads.mask_head):
            set_first(block[0].weight, centre[2:5, 2:5] if block[0].kernel_size == (3, 3) else 1.0)
            block[0].bias.zero_()
        for block in module.backbone.fpn.inner_blocks[1:]:  # coarser maps would blur the finest one
            block[0].weight.zero_()
        for head in (module.rpn.head.cls_logits, module.rpn.head.bbox_pred):  # every anchor is proposed as it is
            head.weight.zero_()
            head.bias.zero_()
        inside = torch.full((7, 7), -1.0)
        inside[1:6, 1:6] = 1
        heads.box_head.fc6.weight.zero_()
        heads.box_head.fc6.weight[0, :49] = inside.flatten()
        set_first(heads.box_head.fc7.weight, 1.0)
        predictor = heads.box_predictor
        for linear in (heads.box_head.fc6, heads.box_head.fc7, predictor.cls_score, predictor.bbox_pred):
            linear.bias.zero_()
        predictor.bbox_pred.weight.zero_()
        predictor.cls_score.weight.zero_()
        predictor.cls_score.weight[1, 0] = 1
        predictor.cls_score.bias[:] = torch.tensor([0.0, -3, -9])
        set_first(heads.mask_predictor.conv5_mask.weight, 1.0)
        heads.mask_predictor.conv5_mask.bias.zero_()
        set_first(heads.mask_predictor.mask_fcn_logits.weight, 1.0)
        heads.mask_predictor.mask_fcn_logits.weight[1, 0] = 5
        heads.mask_predictor.mask_fcn_logits.bias[:] = -8
    path = tmp_path_factory.mktemp("rcnn") / "red.pt"
    torch.save(module.state_dict(), path)
    return path


@pytest.mark.slow
def test_mask_rcnn_finds_the_object(red_rcnn, tmp_path):
    (tmp_path / "names.txt").write_text("background\nsquare\ndisc\n")
    name = f"torchvision:maskrcnn_resnet50_fpn,checkpoint={red_rcnn},size=64"
    model = load_segmentation(f"{name},classes={tmp_path / 'names.txt'}")
    mask = model.find(photo(), {"square"})
    assert mask.shape == (60, 90)
    assert (mask & TRUTH).sum() / (mask | TRUTH).sum() > 0.6
    assert model.find(photo(), {"disc"}) is None
    assert model.find(np.full((60, 90, 3), (0, 0, 200), np.uint8), {"square"}) is None
    assert model.module.transform.min_size == (64,)
    assert load_segmentation(name.removesuffix(",size=64")).module.transform.min_size == (800,)


@pytest.mark.slow
def test_a_set_is_built_with_the_masks_of_mask_rcnn(red_rcnn, tmp_path, cosight):
    rng = np.random.default_rng(0)
    for name in ("square", "disc"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            image = np.clip(photo() + rng.normal(0, 3, (60, 90, 3)), 0, 255).astype(np.uint8)
            (tmp_path / "photos" / name / f"{number}.png").write_bytes(encode(image, "png"))
    counts = "1=0,2=2,3=0,4=0,5=0,6=0,7=0,8=0,train=0,distractors=0"
    masks = f"torchvision:maskrcnn_resnet50_fpn,checkpoint={red_rcnn},size=64"
    options = ("--masks", masks, "--counts", counts, "--size", 64, "--workers", 1)
    ended = cosight("build", "visalign", tmp_path / "set", "--photos", tmp_path / "photos", *options)
    assert ended.code == 0, ended.err
    stimuli = read_set(tmp_path / "set")
    assert stimuli.frame["category"].to_list() == [2] * 4
    for file in stimuli.frame["file"]:
        red, green, blue = np.moveaxis(stimuli.pixels(file).astype(int), 2, 0)
        assert 0.08 < ((red - blue > 120) & (green < 110)).mean() < 0.4  # the square is there, and not the whole photo
    assert stimuli.facts["settings"]["masks"]["name"].startswith("torchvision:maskrcnn_resnet50_fpn")
    assert "maskrcnn_resnet50_fpn" in (tmp_path / "set" / "DATASHEET.md").read_text()


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
