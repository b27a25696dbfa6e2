"""A benchmark of another package, added by an entry point: it is listed, built, evaluated and scored."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

_MODULE = '''
    """Stripes: which way do they run? `7` stands for upright ones, `0` for others."""

    from __future__ import annotations

    from dataclasses import dataclass
    from pathlib import Path
    from typing import Annotated

    from cosight.benchmarks import Benchmark, BuildResult, benchmarks


    def build(
        out: Annotated[Path, "Output folder."],
        *,
        images: Annotated[int, "Images per class."] = 4,
        bright: Annotated[bool, "White stripes."] = False,
        progress=None,
    ) -> BuildResult:
        """Draw stripes."""
        from cosight.stimuli.generate import generate_set

        generated = generate_set(Stripes(images, bright), Path(out), progress=progress)
        return BuildResult(generated, notices=("look at them",))


    @dataclass(frozen=True)
    class Stripes:
        images: int
        bright: bool
        packages = ()
        folders = ()

        @property
        def settings(self):
            return {"verb": "build", "benchmark": "stripes", "labels": "digits", "images": self.images}

        def units(self):
            from cosight.stimuli.generate import StimulusJob, Unit

            facts = {"experiment": "stripes", "split": "test", "condition": "stripes"}
            return [
                Unit(name, str(n), (StimulusJob(f"{truth}/{n}", {**facts, "image": name, "truth": truth}),))
                for truth in ("0", "7") for n in range(self.images) for name in [f"{truth}-{n}"]
            ]

        def make(self, unit, jobs):
            import numpy as np

            from cosight.stimuli.generate import Outcome

            truth, number = jobs[0].file.split("/")
            rows = (np.arange(32) // 4 % 2 * (255 if self.bright else 200) - int(number)).clip(0, 255)
            picture = np.broadcast_to(rows if truth == "7" else rows[:, None], (32, 32))
            gold = [0.0] * 10
            gold[int(truth)] = 0.75
            gold[1] = 0.25
            yield Outcome(jobs[0], np.stack([picture.astype(np.uint8)] * 3, axis=2), {"gold": gold, "kind": "stripes"})


    benchmarks.add("stripes", Benchmark(
        name="stripes", summary="Upright or lying stripes.", source="nobody", labels="digits", experiment="stripes",
        humans="made up", needs="nothing", measures=("accuracy", "hellinger"), build=build,
    ))


    def model():
        """Sees upright stripes as 7 and takes all others for 1."""
        import numpy as np

        def answer(images):
            upright = images.mean(axis=(1, 2)).std(axis=1) > 0.01
            return np.eye(10)[np.where(upright, 7, 1)] * 100

        return answer
'''


_DRIVER = """
import contextlib, io, json, sys

from cosight.cli.app import main

ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv, code = ["cosight", *arguments], 0
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as exit:
            code = exit.code or 0
    ended.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(ended))
"""


@pytest.fixture
def run_commands(tmp_path):
    """Run `cosight` commands in one process with another package installed; return code, stdout and stderr of each."""
    (tmp_path / "stripes_benchmark.py").write_text(textwrap.dedent(_MODULE), encoding="utf-8")
    info = tmp_path / "stripes_benchmark-1.0.dist-info"  # as pip installs it
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stripes-benchmark\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[cosight.benchmarks]\nstripes = stripes_benchmark\n", encoding="utf-8")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(*commands):
        line = [sys.executable, "-c", _DRIVER, json.dumps(commands)]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_it_is_listed_built_evaluated_and_scored(run_commands, tmp_path):
    model = "python:stripes_benchmark:model,size=32,mean=0,std=1"
    listed, built, evaluated, scored = run_commands(
        ("list", "benchmarks", "--json"),
        ("build", "stripes", "set", "--images", "3", "--bright", "--sheet", "sheet.png"),
        ("evaluate", model, "--on", "set", "--out", "run"),
        ("score", "run", "--measure", "accuracy,hellinger", "--resamples", "10", "--json"),
    )
    entries = {row["name"]: row for row in json.loads(listed[1])}
    assert entries["stripes"]["supports"] == "build"
    assert entries["stripes"]["humans"] == "made up"
    assert "visalign" in entries

    assert built == [0, "6 stimuli made: set\n", "note: look at them\n"]
    assert (tmp_path / "sheet.png").is_file()

    assert evaluated[0] == 0, evaluated[2]
    rows = {row["measure"]: row["value"] for row in json.loads(scored[1])}
    assert rows["accuracy"] == 0.5
    near, far = 1 - 0.75**0.5, 1 - 0.25**0.5
    assert rows["hellinger"] == pytest.approx((near**0.5 + far**0.5) / 2)
