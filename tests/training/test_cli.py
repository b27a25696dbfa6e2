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


def test_a_mistake_in_the_recipe_is_one_line(cosight, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('architecure = "mixer-small"\ndata = "x"\n')
    done = cosight("train", file, "--out", tmp_path / "out")
    assert done.code == 2
    assert "did you mean architecture?" in done.err
