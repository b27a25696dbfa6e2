"""Text-to-image with a tiny untrained Stable Diffusion, saved to a folder and loaded again: the real code path."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from cosight.benchmarks.visalign.prompts import prompt_table
from cosight.errors import InvalidInput
from cosight.stimuli.composition.diffusion import (
    generate,
    load_pipeline,
    mix,
    pipeline_identity,
    seed_generator,
    text_to_image,
)
from cosight.stimuli.sets import read_set
from cosight.torchvision_ops import import_torchvision

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.slow,  # diffusers takes as long to import as most files take to run
    pytest.mark.usefixtures("one_torch_thread"),
    # not importorskip: every test process would import it to collect the tests
    pytest.mark.skipif(find_spec("diffusers") is None, reason="pip install 'cosight[diffusion]'"),
]

SIZE, STEPS = 64, 10
PARTS = ("vae", "unet", "text_encoder", "tokenizer", "scheduler")


def tokenizer(folder):
    from transformers import CLIPTokenizer

    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789',-"]
    words = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: index for index, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer.from_pretrained(folder, model_max_length=77)


def parts(folder):
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    words = tokenizer(folder)
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.eos_token_id,
    )
    unet = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=2,
        norm_num_groups=4,
    )
    vae = AutoencoderKL(
        block_out_channels=(8, 8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=64,
    )
    return {"tokenizer": words, "text_encoder": CLIPTextModel(text), "unet": unet, "vae": vae}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import_torchvision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other people's imports warn of is not ours
        from diffusers import DDIMScheduler, StableDiffusionPipeline

        made = parts(tmp_path_factory.mktemp("words"))
        scheduler = DDIMScheduler(beta_schedule="scaled_linear", steps_offset=1, clip_sample=False)
        pipeline = StableDiffusionPipeline(
            **made, scheduler=scheduler, safety_checker=None, feature_extractor=None, requires_safety_checker=False
        )
        path = tmp_path_factory.mktemp("pipeline")
        pipeline.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def pipeline(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_pipeline(folder)


@pytest.fixture(scope="module")
def rows():
    return {row["route"]: row for row in prompt_table(5, count=20, seed=3).iter_rows(named=True)}


@pytest.fixture
def image(squares):
    return squares[1][:SIZE, :SIZE]


def make(pipeline, row, **other):
    return generate(pipeline, row | other, size=SIZE, steps=3)


@pytest.mark.parametrize("route", ["text", "mix"])
def test_a_row_gives_the_same_bytes_whatever_was_made_before(pipeline, rows, route):
    first = make(pipeline, rows[route])
    assert first.shape == (SIZE, SIZE, 3)
    assert first.dtype == np.uint8
    assert first.std() > 1
    other = make(pipeline, rows[route], seed=rows[route]["seed"] + 1)
    assert (other != first).mean() > 0.5
    np.testing.assert_array_equal(make(pipeline, rows[route]), first)


@pytest.mark.parametrize("field", ["prompt", "negative_prompt"])
def test_words_reach_the_image(pipeline, rows, field):
    assert (make(pipeline, rows["text"], **{field: "zebra"}) != make(pipeline, rows["text"])).any()


def test_the_mix_differs_from_its_layout_and_follows_its_target(pipeline, rows):
    mixed = make(pipeline, rows["mix"])
    assert (mixed != make(pipeline, rows["mix"], route="text")).any()
    assert (mixed != make(pipeline, rows["mix"], target="zzz 999")).any()


def test_text_to_image_is_the_pipeline_called_with_these_words(pipeline):
    made = text_to_image(pipeline, "zebra", seed=5, negative_prompt="ugly", size=SIZE, steps=3, guidance=4)
    own = pipeline(
        prompt="zebra",
        negative_prompt="ugly",
        height=SIZE,
        width=SIZE,
        num_inference_steps=3,
        guidance_scale=4,
        generator=torch.Generator().manual_seed(5),
    ).images[0]
    np.testing.assert_array_equal(made, np.array(own))


def rendered(pipeline, image):
    """The image as the autoencoder gives it back."""
    with torch.no_grad():
        batch = torch.from_numpy(image.astype(np.float32) / 255 * 2 - 1).permute(2, 0, 1)[None]
        back = pipeline.vae.decode(pipeline.vae.encode(batch).latent_dist.mode()).sample
    return np.clip((back[0].permute(1, 2, 0).numpy() + 1) * 127.5, 0, 255)


def image_to_image(pipeline, image, prompt, *, strength, seed, scheduler=None):
    """diffusers' own image-to-image, from the same latent."""
    from diffusers import StableDiffusionImg2ImgPipeline

    names = PARTS[:-1]
    made = StableDiffusionImg2ImgPipeline(
        **{name: getattr(pipeline, name) for name in names},
        scheduler=scheduler or pipeline.scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    with torch.no_grad():
        batch = torch.from_numpy(image.astype(np.float32) / 255 * 2 - 1).permute(2, 0, 1)[None]
        latent = made.vae.encode(batch).latent_dist.mode() * made.vae.config.scaling_factor
    called = {
        "strength": strength,
        "num_inference_steps": STEPS,
        "guidance_scale": 7.5,
        "generator": seed_generator(seed),
    }
    return np.array(made(prompt=prompt, image=latent, **called).images[0])


def test_weight_0_down_to_0_gives_the_image_back(pipeline, image):
    back = mix(pipeline, image, "zebra", seed=1, lowest=0, weight=0, steps=STEPS)
    np.testing.assert_allclose(back, rendered(pipeline, image), atol=0.51)


@pytest.mark.parametrize(("weight", "strength"), [(1, 0.6), (0, 0.3)])
def test_the_extreme_weights_are_image_to_image(pipeline, image, weight, strength):
    ours = mix(pipeline, image, "zebra", seed=1, weight=weight, steps=STEPS)
    theirs = image_to_image(pipeline, image, "zebra", strength=strength, seed=1)
    np.testing.assert_allclose(ours.astype(int), theirs, atol=1)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # torch tensors in diffusers' code
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("PNDMScheduler", marks=pytest.mark.slow),
        pytest.param("EulerDiscreteScheduler", marks=pytest.mark.slow),
        "EulerAncestralDiscreteScheduler",
    ],
)
def test_other_schedulers_mix_too(pipeline, image, name):
    import diffusers

    scheduler = getattr(diffusers, name).from_config(pipeline.scheduler.config)
    other = type(pipeline)(**{**pipeline.components, "scheduler": scheduler}, requires_safety_checker=False)
    first = mix(other, image, "zebra", seed=1, steps=STEPS)
    np.testing.assert_array_equal(mix(other, image, "zebra", seed=1, steps=STEPS), first)
    assert (mix(other, image, "zebra", seed=2, steps=STEPS) != first).any()
    if name == "EulerDiscreteScheduler":  # one step a level and no draws of its own: comparable
        ours = mix(other, image, "zebra", seed=1, weight=1, steps=STEPS)
        theirs = image_to_image(pipeline, image, "zebra", strength=0.6, seed=1, scheduler=scheduler)
        np.testing.assert_allclose(ours.astype(int), theirs, atol=1)


def test_between_the_extremes_the_layout_fades_as_the_weight_grows(pipeline, image):
    truth = rendered(pipeline, image)
    far = [
        np.abs(mix(pipeline, image, "zebra", seed=1, lowest=0, weight=weight, steps=STEPS) - truth).mean()
        for weight in (0, 0.3, 0.6, 0.9)
    ]
    assert far == sorted(far)
    assert far[-1] > far[0] + 1


def test_a_grey_float_image_mixes_and_the_negative_prompt_counts(pipeline, image):
    grey = (image.mean(axis=2) / 255).astype(np.float32)
    plain = mix(pipeline, grey, "zebra", seed=1, steps=3)
    assert plain.shape == (SIZE, SIZE, 3)
    assert (mix(pipeline, grey, "zebra", seed=1, steps=3, negative_prompt="ugly, fish") != plain).any()
    assert (mix(pipeline, grey, "zebra", seed=1, steps=3, guidance=1) != plain).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 1.5}, "weight must lie in [0, 1], got 1.5"),
        ({"lowest": 0.7}, "got lowest 0.7 and highest 0.6"),
        ({"highest": 1.2}, "highest 1.2"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
    ],
)
def test_mixing_names_bad_options(pipeline, image, options, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        mix(pipeline, image, "zebra", seed=1, **options)


def test_mixing_refuses_odd_sizes_and_other_pipelines(pipeline, image):
    with pytest.raises(InvalidInput, match="multiples of 8, got 61 x 64; resize"):
        mix(pipeline, image[:, :61], "zebra", seed=1)
    with pytest.raises(InvalidInput, match=r"got object without vae, unet, .*use the text route"):
        mix(object(), image, "zebra", seed=1)
    larger = type("StableDiffusionXLPipeline", (), dict.fromkeys([*PARTS, "text_encoder_2"], "a part"))()
    with pytest.raises(InvalidInput, match="got StableDiffusionXLPipeline with two text encoders"):
        mix(larger, image, "zebra", seed=1)


class Stub:
    """A pipeline that returns one colour and records its arguments."""

    def __init__(self, value):
        self.value = value

    def __call__(self, **arguments):
        self.asked = arguments
        return type("Made", (), {"images": [np.full((arguments["height"], arguments["width"], 3), self.value)]})


def test_the_safety_checkers_black_image_is_refused():
    with pytest.raises(InvalidInput, match=r"must not be all black, got one for 'zebra'.*another seed"):
        text_to_image(Stub(0.0), "zebra", seed=1)
    assert (text_to_image(Stub(0.2), "zebra", seed=1) == 51).all()


@pytest.mark.parametrize(("options", "message"), [({"size": 60}, "multiple of 8.*got 60"), ({"steps": 0}, "steps")])
def test_bad_sizes_and_steps_are_named(options, message):
    with pytest.raises(InvalidInput, match=message):
        text_to_image(Stub(0.5), "zebra", seed=1, **options)


def test_a_composite_row_is_not_for_a_pipeline(rows):
    with pytest.raises(InvalidInput, match="route text or mix, got 'composite'"):
        generate(Stub(0.5), rows["text"] | {"route": "composite"})


def test_what_cannot_be_loaded_is_one_line_with_a_way_out(folder, tmp_path):
    with pytest.raises(InvalidInput, match="cannot load the pipeline") as caught:
        load_pipeline(tmp_path)
    assert "model_index.json and safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pickled_weights_are_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "unet" / "diffusion_pytorch_model.safetensors").unlink()
    torch.save({}, copy / "unet" / "diffusion_pytorch_model.bin")
    with pytest.raises(InvalidInput, match="safetensors"):
        load_pipeline(copy)


def test_a_pipeline_is_what_its_files_hold_wherever_they_are(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "deep" / "copy")
    identity = pipeline_identity(folder)
    assert re.fullmatch(r"[0-9a-f]{64}", identity)
    (copy / "README.md").write_text("says nothing")
    (copy / ".cache").mkdir()
    (copy / ".cache" / "x.json").write_text("{}")
    assert pipeline_identity(copy) == identity
    weights = copy / "unet" / "diffusion_pytorch_model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert pipeline_identity(copy) != identity
    shutil.copy(folder / "unet" / weights.name, weights)
    assert pipeline_identity(copy) == identity
    (copy / "scheduler" / "scheduler_config.json").write_text("{}")
    assert pipeline_identity(copy) != identity


def test_a_pipeline_of_the_hub_is_its_name_and_commit(folder, tmp_path, monkeypatch):
    """The cache of the hub's client, without a network."""
    import huggingface_hub.constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "models--someone--tiny-sd"
    shutil.copytree(folder, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert pipeline_identity("someone/tiny-sd") == f"someone/tiny-sd@{commit}"
        with pytest.raises(InvalidInput, match="cannot load the pipeline"):
            pipeline_identity("someone/else")


def test_a_folder_without_an_index_is_no_pipeline(tmp_path):
    with pytest.raises(InvalidInput, match=r"has model_index.json, .* does not"):
        pipeline_identity(tmp_path)


def test_a_set_does_not_go_on_with_other_weights_in_the_same_folder(folder, tmp_path, cosight):
    place, out = shutil.copytree(folder, tmp_path / "tiny"), tmp_path / "out"
    arguments = ("stimuli", "compose", f"diffusers:{place}", out, "--category", 2, "--size", SIZE, "--steps", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cosight(*arguments, "--count", 1).code == 0
    settings = read_set(out).facts["settings"]
    assert (settings["pipeline"], settings["weights"]) == ("tiny", pipeline_identity(folder))
    weights = place / "vae" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    done = cosight(*arguments, "--count", 2)
    assert done.code == 2
    assert "was made with weights" in done.err


def test_the_command_makes_a_set_of_generated_images(folder, tmp_path, cosight):
    out = tmp_path / "out"
    arguments = ("stimuli", "compose", f"diffusers:{folder}", out, "--category", 5, "--size", SIZE, "--steps", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cosight(*arguments, "--count", 3).out == f"3 stimuli made: {out}\n"
        before = {path: path.read_bytes() for path in out.rglob("*.png")}
        assert cosight(*arguments, "--count", 12).out == f"9 stimuli made, 3 existed: {out}\n"
    assert {path: path.read_bytes() for path in before} == before
    frame = read_set(out).frame
    assert set(frame["condition"]) == {"text", "mix"}
    assert frame["truth"].unique().to_list() == ["abstain"]
    assert frame["group"].unique().to_list() == ["must-abstain"]
    row = frame.row(0, named=True)
    assert json.loads(row["parameters"])["prompt"]
    assert row["seed"] is not None


def test_a_pipeline_that_is_not_there_is_one_line(tmp_path, cosight):
    done = cosight("stimuli", "compose", f"diffusers:{tmp_path / 'none'}", tmp_path / "out", "--category", 2)
    assert done.code == 2
    assert "cannot load the pipeline" in done.err
    assert done.err.count("\n") == 1
