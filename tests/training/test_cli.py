"""`cosight train`."""

import pytest

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def test_trains_and_says_what_there_is(cosight, digits, tmp_path):
    file, out = tmp_path / "a.toml", tmp_path / "out"
    file.write_text(f'architecture = "mixer-small"\ndata = "{digits}"\nepochs = 2\nrate = 1e-3\nseeds = [45]\n')
    done = cosight("train", file, "--out", out)
    assert done.code == 0, done.err
    header, row = done.out.splitlines()
    assert header.split()[:2] == ["network", "validation"]
    assert row.split()[0] == "mixer-small@45"
    assert row.split()[-1] == f"cosight:mixer-small,checkpoint={out / 'mixer-small@45.safetensors'}"
    again = cosight("train", file, "--out", out, "--seed", "45,46")
    assert "(before)" in again.out.splitlines()[1]
    assert "mixer-small@46" in again.out.splitlines()[2]


def test_memory_that_runs_out_is_one_line(cosight, digits, tmp_path, monkeypatch):
    import torch

    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has ...")

    file = tmp_path / "a.toml"
    file.write_text(f'architecture = "mixer-small"\ndata = "{digits}"\nseeds = [45]\n')
    monkeypatch.setattr("cosight.training.trainer._train_epoch", fail)
    done = cosight("train", file, "--out", tmp_path / "out")
    assert done.code == 2
    assert done.err == (
        "cosight: not enough memory (CUDA out of memory. Tried to allocate 2.00 GiB.); use a smaller batch or model, "
        "or another --device\n"
    )


def test_a_mistake_in_the_recipe_is_one_line(cosight, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('architecure = "mixer-small"\ndata = "x"\n')
    done = cosight("train", file, "--out", tmp_path / "out")
    assert done.code == 2
    assert "did you mean architecture?" in done.err


def test_a_full_disk_is_one_line_and_training_goes_on(refused_when_full, cosight, digits, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'architecture = "mixer-small"\ndata = "{digits}"\nepochs = 2\nrate = 1e-3\nseeds = [45]\n')
    out = tmp_path / "networks"
    files = refused_when_full([1000, 100_000], "train", recipe, "--out", out, folder=out)
    assert files == ["mixer-small@45.training/state.safetensors"] * 2
    assert cosight("train", recipe, "--out", out).code == 0
    state = next(out.glob("*.safetensors")).stat().st_size
    again = tmp_path / "again"
    assert refused_when_full([state // 2], "train", recipe, "--out", again, folder=again)
    assert cosight("train", recipe, "--out", again).code == 0
    assert next(again.glob("*.safetensors")).read_bytes() == next(out.glob("*.safetensors")).read_bytes()
