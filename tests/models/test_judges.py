"""Judges: LPIPS has the published values, every judge answers tasks as trials, agreement with people is scored."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image as Pillow

from cosight.errors import InvalidInput, UnknownName
from cosight.models.judges import DistanceJudge, Judge, Question, check_judge, judges, load_judge
from cosight.models.judges.answer_tasks import judge, near_neighbours
from cosight.models.judges.distance_judge import cosine, euclidean, feature_judge, squared_euclidean
from cosight.models.judges.lpips_judge import lpips_judge
from cosight.scoring.compare import compare
from cosight.scoring.score import score
from cosight.stimuli.sets import read_set
from cosight.stimuli.tasks import make_tasks
from cosight.trials import read
from cosight.trials.table import make_trials

pytestmark = pytest.mark.usefixtures("one_torch_thread")
NET = """
import torch

from cosight.models import Preprocessing, as_model


def mean():
    '''Its features are the mean colour.'''
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 4))
    return as_model(net.eval(), name="mean", preprocessing=Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3))
"""


TABLES = {
    "2afc": ("query,target,seed", "dark,black,white", "light,black,white", "black,red,green"),
    "cluster": ("query,target", "dark,black", "light,white", "grey,white"),
}


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """Plain pictures with 2AFC tasks and a panel; of the last 2AFC task, both options are at the same distance."""
    root = tmp_path_factory.mktemp("judges") / "colours"
    root.mkdir()
    values = {"black": 0, "white": 240, "dark": 40, "light": 200, "grey": 110, "red": (90, 0, 0), "green": (0, 90, 0)}
    for name, value in values.items():
        Pillow.fromarray(np.full((32, 32, 3), value, np.uint8)).save(root / f"{name}.png")
    for kind, (header, *rows) in TABLES.items():
        lines = [header, *(",".join(f"{name}.png" for name in row.split(",")) for row in rows)]
        (root.parent / f"{kind}.csv").write_text("\n".join(lines))
        make_tasks(root, kind, panels_of=2, table=root.parent / f"{kind}.csv")
    (root.parent / "colournet.py").write_text(NET)
    return root


@pytest.fixture
def by_colour(colours, monkeypatch):
    """The reference of a model that compares mean colours; trials of earlier tests are removed."""
    monkeypatch.syspath_prepend(colours.parent)
    for file in colours.glob("trials/*"):
        file.unlink()
    return "python:colournet:mean,name=mean"


# ---- distances


def test_distances_of_vectors():
    a, b = np.array([[3.0, 4.0]], np.float32), np.array([[0.0, 4.0]], np.float32)
    assert euclidean(a, b).tolist() == [3.0]
    assert squared_euclidean(a, b).tolist() == [9.0]
    assert cosine(a, b).tolist() == [pytest.approx(0.2)]


def test_the_nearest_option_is_chosen_and_a_tie_is_no_answer():
    pictures = {
        name: np.full((32, 32, 3), value, np.uint8) for name, value in zip("abcd", (0, 100, 200, 201), strict=True)
    }
    brightness = DistanceJudge(
        "brightness", lambda images: np.array([[i.mean()] for i in images], np.float32), euclidean
    )
    assert isinstance(brightness, Judge)
    questions = [Question("c", ("a", "d")), Question("b", ("a", "c")), Question("d", ("c", "b", "a"))]
    found = list(brightness.choose(questions, pictures.__getitem__))
    assert [choice.option for choice in found] == [1, None, 0]
    assert found[0].facts == {"distances": [200.0, 1.0]}
    matrix = brightness.distance_matrix("abcd", pictures.__getitem__)
    assert np.array_equal(matrix, matrix.T)
    assert matrix[0].tolist() == [0.0, 100.0, 200.0, 201.0]


def test_an_image_is_embedded_once_however_many_questions_it_is_in():
    embedded = []

    def embed(images):
        embedded.extend(images)
        return np.array([[image.mean()] for image in images], np.float32)

    pictures = {str(n): np.full((32, 32, 3), n, np.uint8) for n in range(30)}
    questions = [Question(str(n), ("0", "1")) for n in range(2, 30)]
    list(DistanceJudge("once", embed, euclidean).choose(questions, pictures.__getitem__))
    assert len(embedded) == 30


def test_images_of_different_sizes_are_refused_where_they_cannot_be_compared():
    sizes = {"a": np.zeros((32, 32, 3), np.uint8), "b": np.zeros((40, 40, 3), np.uint8)}
    raw = DistanceJudge("raw", lambda images: np.stack([i.ravel() for i in images]).astype(np.float32), euclidean)
    with pytest.raises(InvalidInput, match="compares images of one size, got 32 x 32, 40 x 40"):
        list(raw.distances([("a", "b")], sizes.__getitem__))
    broken = DistanceJudge("broken", lambda images: np.full((len(images), 1), np.nan, np.float32), euclidean)
    with pytest.raises(InvalidInput, match="broken has no finite distance between a and a"):
        list(broken.distances([("a", "a")], sizes.__getitem__))


# ---- LPIPS


@pytest.fixture(scope="module")
def lpips(mirror):
    return load_judge(f"lpips,checkpoint={mirror / 'weights/lpips/alexnet-lpips.safetensors'}", device="cpu")


NOISE = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)


def distances_of_noise(lpips):
    pictures = dict(zip("abc", NOISE, strict=True))
    return list(lpips.distances([("a", "b"), ("b", "c")], pictures.__getitem__))


def test_lpips_has_the_values_of_torchmetrics(lpips):
    """The values are those of the test below, which imports torchmetrics and takes some seconds."""
    assert distances_of_noise(lpips) == pytest.approx([0.106100, 0.120991], abs=1e-5)


@pytest.mark.slow
def test_lpips_agrees_with_torchmetrics(lpips, mirror):
    """The same weights in torchmetrics' network, whose definition is the reference implementation's."""
    from safetensors.torch import load_file

    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchmetrics.functional.image.lpips import _LPIPS

    theirs = _LPIPS(pretrained=False, net="alex", pnet_rand=True)
    state = theirs.state_dict()
    for name, value in load_file(mirror / "weights/lpips/alexnet-lpips.safetensors").items():
        layer, part = name.split(".")[-2:]
        if name.startswith("lin"):
            state[f"{layer}.model.1.weight"] = value.reshape(1, -1, 1, 1)
        else:
            slice_ = {"0": 1, "3": 2, "6": 3, "8": 4, "10": 5}[layer]
            state[f"net.slice{slice_}.{layer}.{part}"] = value
    theirs.load_state_dict(state)
    tensor = torch.from_numpy(NOISE).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        expected = theirs(tensor[:2], tensor[1:], normalize=True).flatten().tolist()
    assert distances_of_noise(lpips) == pytest.approx(expected, abs=1e-5)


def test_small_images_are_enlarged_to_64_pixels_and_it_is_recorded(lpips):
    small = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    tensor = torch.from_numpy(small).permute(0, 3, 1, 2) / 255
    large = torch.nn.functional.interpolate(tensor, (64, 64), mode="bilinear", align_corners=False)
    pictures = dict(zip("ab", small, strict=True))
    enlarged = dict(zip("ab", (large * 255).permute(0, 2, 3, 1).round().byte().numpy(), strict=True))
    direct = next(lpips.distances([("a", "b")], pictures.__getitem__))
    assert direct == pytest.approx(next(lpips.distances([("a", "b")], enlarged.__getitem__)), rel=0.01)
    assert lpips.facts["enlarged to"] == 64


def test_lpips_without_weights_says_where_to_put_them(monkeypatch, tmp_path):
    monkeypatch.setenv("COSIGHT_MIRROR", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing answers there
    with pytest.raises(
        InvalidInput, match=r"COSIGHT_MIRROR/weights/lpips/alexnet-lpips.safetensors or .*checkpoint=FILE"
    ):
        load_judge("lpips", device="cpu")


def test_weights_that_are_not_those_of_lpips_are_refused():
    with pytest.raises(
        InvalidInput, match=r"weights lacks features\.0\.weight; get the file with `cosight data get lpips"
    ):
        lpips_judge({"conv.weight": torch.zeros(1)})


# ---- references


@pytest.mark.parametrize(
    ("reference", "error", "words"),
    [
        ("lpip", UnknownName, "did you mean lpips"),
        ("people", InvalidInput, "people answer in a study"),
        ("features", InvalidInput, "name the model whose features are compared"),
        ("lpips,weights=a", InvalidInput, "options of judge models are checkpoint, got weights"),
        ("lpips,checkpoint=nowhere.safetensors", InvalidInput, "nowhere.safetensors does not exist"),
        ("timm:resnet18,checkpoint=nowhere.pt", InvalidInput, "nowhere.pt does not exist"),
    ],
)
def test_references_that_name_no_judge_are_refused(reference, error, words):
    with pytest.raises(error, match=words):
        check_judge(reference)


def test_every_judge_is_listed(cosight):
    listed = json.loads(cosight("list", "judges", "--json").out)
    assert [row["name"] for row in listed] == list(judges) == ["lpips", "dreamsim", "features", "vlm", "people"]


def test_a_model_without_features_cannot_judge():
    class Plain:
        name, weights_digest, preprocessing = "plain", "", type("P", (), {"facts": {}})()

        def prepare(self, image):
            return np.zeros((3, 2, 2), np.float32)

        def answer(self, batch):
            return type("Outputs", (), {"features": None})()

    with pytest.raises(InvalidInput, match="plain has none; name another model"):
        feature_judge(Plain()).embed([np.zeros((2, 2, 3), np.uint8)])


# ---- answering tasks


def test_answers_are_trials_of_kind_judge(colours, by_colour):
    done = judge(colours, judge=by_colour, device="cpu")
    frame = done.trials.frame
    assert done.files == (colours / "trials" / "features-mean.parquet",)
    assert set(frame["kind"]) == {"judge"}
    assert set(frame["observer"]) == {"features:mean"}
    assert (done.new, done.ties) == (6, 1)
    answers = [response == truth for response, truth in frame.select("response", "truth").iter_rows() if response]
    assert answers == [True, False, True, True, False]  # 2AFC of dark and light, then the panel
    extra = json.loads(frame["extra"][0])
    assert len(extra["options"]) == len(extra["distances"]) == 2
    assert frame["stimulus"][0].startswith("2afc-")
    assert (
        frame["stimulus"][-1] == f"{json.loads(frame['extra'][-1])['panel']}/{json.loads(frame['extra'][-1])['query']}"
    )


def test_answers_are_kept_and_only_new_tasks_are_asked(colours, by_colour):
    first = judge(colours, judge=by_colour, device="cpu")
    again = judge(colours, judge=by_colour, device="cpu")
    assert (first.new, again.new) == (6, 0)
    assert again.trials.frame.equals(first.trials.frame)
    assert judge(colours, judge=by_colour, device="cpu", force=True).new == 6
    assert read(first.files[0]).frame.equals(first.trials.frame)
    with pytest.raises(InvalidInput, match="with other weights or settings; --force asks again"):
        judge(colours, judge=f"{by_colour},layer=1", device="cpu")


def test_shares_and_agreement_with_people_are_scored(colours, by_colour):
    """Two people: one answers like the judge, the other always differently."""
    trials = judge(colours, judge=by_colour, device="cpu").trials
    same = trials.frame.with_columns(observer=pl.lit("human:same"), kind=pl.lit("human"))
    other = [
        next(option for option in json.loads(extra)["options"] if option != response)
        for extra, response in trials.frame.select("extra", "response").iter_rows()
    ]
    different = trials.frame.with_columns(
        observer=pl.lit("human:different"), kind=pl.lit("human"), response=pl.Series(other)
    )
    everyone = make_trials(pl.concat([trials.frame, same, different]))
    shares = {
        (row.observer, row.measure): (row.value, row.n)
        for row in score(everyone, measure="2afc,clustering_share", resamples=10).rows
    }
    for observer in ("features:mean", "human:same"):
        assert shares[observer, "two_alternative_share"] == (1 / 2, 2)  # the tie is no answer
        assert shares[observer, "clustering_share"] == (pytest.approx(2 / 3), 3)
    assert shares["human:different", "two_alternative_share"] == (pytest.approx(2 / 3), 3)
    pairs = {
        (row.observer, row.against): row.value
        for row in compare(everyone, measure="observed_consistency", pairs="all", resamples=10).rows
        if row.statistic == "value"
    }
    assert pairs["features:mean", "human:same"] > pairs["features:mean", "human:different"]


def test_neighbours_are_those_of_the_judge(colours, by_colour):
    near = near_neighbours(colours, by_colour, device="cpu")
    stimuli = dict(read_set(colours).frame.select("image", "stimulus").iter_rows())
    names = ("black.png", "dark.png", "white.png")
    distances = near.distances([stimuli[name] for name in names])
    assert distances[0, 1] < distances[0, 2]
    assert near.name == "features:mean"


def test_the_command_prints_shares_and_files(colours, by_colour, cosight):
    done = cosight("judge", colours, "--judge", by_colour, "--device", "cpu")
    assert done.code == 0, done.err
    assert "6 new of 6 answers, 1 without an answer (ties, refusals)" in done.out
    assert "features:mean" in done.out
    refused = cosight("judge", colours.parent, "--judge", by_colour)
    assert refused.code == 2
    assert "stimuli tasks" in refused.err or "no images" in refused.err or "tasks.parquet" in refused.err
