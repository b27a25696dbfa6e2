"""`cosight train` as a function, as the command line calls it."""

import pytest
import typer
from typer.testing import CliRunner

from cosight.cli.train import train
from cosight.errors import UnknownName

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def invoke():
    app = typer.Typer()
    app.command()(train)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


def test_trains_and_says_what_there_is(invoke, digits, tmp_path):
    file, out = tmp_path / "a.toml", tmp_path / "out"
    file.write_text(f'architecture = "mixer-small"\ndata = "{digits}"\nepochs = 2\nrate = 1e-3\nseeds = [45]\n')
    done = invoke(file, "--out", out)
    assert done.exit_code == 0, done.output
    header, row = done.output.splitlines()
    assert header.split()[:2] == ["network", "validation"]
    assert row.split()[0] == "mixer-small@45"
    assert row.split()[-1] == f"cosight:mixer-small,checkpoint={out / 'mixer-small@45.safetensors'}"
    again = invoke(file, "--out", out, "--seed", "45", "--seed", "46")
    assert "(before)" in again.output.splitlines()[1]
    assert "mixer-small@46" in again.output.splitlines()[2]


def test_a_mistake_in_the_recipe_is_ours_to_tell(invoke, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('architecure = "mixer-small"\ndata = "x"\n')
    done = invoke(file, "--out", tmp_path / "out")
    assert isinstance(done.exception, UnknownName)
    assert "did you mean architecture?" in str(done.exception)
