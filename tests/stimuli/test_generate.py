"""Generating sets: what is made, resumed and refused."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.files import lock_folder
from cosight.stimuli.generate import Outcome, StimulusJob, Unit, generate_set
from cosight.stimuli.images import digest, read_image
from cosight.stimuli.sets import read_set, verify
from cosight.trials.manifest import manifest_frame, write_manifest


@dataclass
class Squares:
    """A recipe of plain squares: unit u has jobs u/0 .. u/2 of brightness 10 u + job."""

    count: int = 4
    seed: int = 0
    stamp: str = "s"
    parameters: str = "{}"
    broken: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()
    stop_after: int | None = None
    refused: tuple[str, ...] = ()
    retry: str = ""
    packages: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    calls: list[str] = field(default_factory=list)

    @property
    def settings(self):
        return {"verb": "squares", "seed": self.seed}

    def units(self):
        facts = {"kind": "square", "parameters": self.parameters}
        return [
            Unit(f"source{u}", self.stamp, tuple(StimulusJob(f"{u}/{j}", facts) for j in range(3)), u, self.retry)
            for u in range(self.count)
        ]

    def make(self, unit, jobs):
        if unit.payload in self.broken:
            raise InvalidInput(f"{unit.name} is broken")
        for job in jobs:
            if self.stop_after is not None and len(self.calls) >= self.stop_after:
                raise KeyboardInterrupt
            self.calls.append(job.file)
            if job.file in self.refused:
                yield Outcome(job, None, error=InvalidInput(f"{job.file} is refused"))
            elif job.file in self.dropped:
                yield Outcome(job, None, reason="too dull")
            else:
                value = 10 * unit.payload + int(job.file[-1])
                yield Outcome(job, np.full((32, 32, 3), value, np.uint8), {"seed": value})


def tree(folder: Path):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def complete(tmp_path):
    generate_set(Squares(), tmp_path / "whole", workers=1)
    return tree(tmp_path / "whole")


def test_a_set_is_made(tmp_path):
    result = generate_set(Squares(), tmp_path / "out", workers=1)
    assert (result.new, result.present, result.dropped, result.skipped) == (12, 0, {}, {})
    assert verify(result.stimuli).intact
    frame = result.stimuli.frame
    assert frame["file"].to_list() == [f"images/{u}/{j}.png" for u in range(4) for j in range(3)]
    assert frame["seed"].to_list() == [10 * u + j for u in range(4) for j in range(3)]
    assert result.stimuli.facts["settings"] == {"verb": "squares", "seed": 0, "format": "png"}
    [versions] = result.stimuli.facts["versions"]
    assert set(versions) >= {"scipy", "cosight", "numpy", "opencv-python-headless", "pillow", "numba"}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        ".lock",
        "images",
        "jobs.parquet",
        "stimuli.parquet",
    ]


def test_a_second_run_does_nothing(tmp_path, complete):
    recipe = Squares()
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "whole").rglob("*") if p.is_file()}
    result = generate_set(recipe, tmp_path / "whole", workers=1)
    assert (result.new, result.present) == (0, 12)
    assert recipe.calls == []
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


@pytest.mark.parametrize("after", [0, 1, 4, 11])
def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path, complete, after):
    out = tmp_path / "out"
    first = Squares(stop_after=after)
    with pytest.raises(KeyboardInterrupt):
        generate_set(first, out, workers=1)
    second = Squares()
    result = generate_set(second, out, workers=1)
    assert tree(out) == complete
    whole_units = after // 3 * 3  # a unit is noted when it is done
    assert result.present == whole_units
    assert len(second.calls) == 12 - whole_units


def test_half_a_line_and_a_truncated_file_are_repeated(tmp_path, complete):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        generate_set(Squares(stop_after=6), out, workers=1)
    journal = out / "journal.jsonl"
    text = journal.read_text()
    journal.write_text(text[: len(text) - 30])  # cuts the last line
    (out / "images/0/1.png").write_bytes(b"\x89PNG")
    (out / "images/0/.2.png.abc.cosight-draft").write_bytes(b"draft of a killed process")
    again = Squares()
    generate_set(again, out, workers=1)
    assert sorted(again.calls) == sorted(["0/1", "1/2", *(f"{u}/{j}" for u in (2, 3) for j in range(3))])
    assert tree(out) == complete


def test_an_image_that_was_deleted_is_made_again(tmp_path, complete):
    (tmp_path / "whole/images/2/1.png").unlink()
    recipe = Squares()
    generate_set(recipe, tmp_path / "whole", workers=1)
    assert recipe.calls == ["2/1"]
    assert tree(tmp_path / "whole") == complete


def test_a_set_can_grow(tmp_path, complete):
    out = tmp_path / "out"
    generate_set(Squares(count=2), out, workers=1)
    result = generate_set(Squares(), out, workers=1)
    assert (result.new, result.present) == (6, 6)
    assert tree(out) == complete


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "made with seed 0, got 1"),
        ({"stamp": "t"}, "source0 has changed since 0/0 was made"),
        ({"parameters": '{"x": 1}'}, "0/0 exists with parameters"),
    ],
)
def test_other_settings_or_sources_are_refused_and_change_nothing(tmp_path, complete, change, message):
    with pytest.raises(InvalidInput, match=message):
        generate_set(replace(Squares(), **change), tmp_path / "whole", workers=1)
    assert tree(tmp_path / "whole") == complete


def test_other_formats_are_refused_too_while_a_run_is_unfinished(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        generate_set(Squares(stop_after=4), tmp_path / "out", workers=1)
    with pytest.raises(InvalidInput, match="made with format 'png', got 'jpeg'"):
        generate_set(Squares(), tmp_path / "out", workers=1, format="jpeg")


def test_a_folder_that_is_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("ten years")
    with pytest.raises(InvalidInput, match="new, empty or an unfinished set"):
        generate_set(Squares(), tmp_path, workers=1)
    with pytest.raises(InvalidInput, match="output is a folder"):
        generate_set(Squares(), tmp_path / "thesis.tex", workers=1)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_broken_source_stops_or_is_skipped(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InvalidInput, match="source1 is broken"):
        generate_set(Squares(broken=(1,)), out, workers=1)
    result = generate_set(Squares(broken=(1,)), out, workers=1, on_error="skip")
    assert (result.new, result.present, result.skipped) == (6, 3, {"source1": "source1 is broken"})
    recipe = Squares(broken=(1,))
    assert generate_set(recipe, out, workers=1, on_error="skip").skipped == {"source1": "source1 is broken"}
    assert recipe.calls == []
    assert generate_set(Squares(), out, workers=1).new == 3  # repaired; with on_error=stop it is tried again


def test_jobs_not_kept_are_remembered(tmp_path):
    recipe = Squares(dropped=("1/2",))
    result = generate_set(recipe, tmp_path / "out", workers=1)
    assert result.dropped == {"1/2": "too dull"}
    assert result.new == 11
    again = Squares(dropped=("1/2",))
    assert generate_set(again, tmp_path / "out", workers=1).dropped == {"1/2": "too dull"}
    assert again.calls == []
    other = Squares(dropped=("1/2",), retry="in another light")
    generate_set(other, tmp_path / "out", workers=1)
    assert other.calls == ["1/2"]


def test_jpeg_stimuli_are_known_by_what_is_shown(tmp_path):
    result = generate_set(Squares(count=1), tmp_path / "out", workers=1, format="jpeg")
    for row in result.stimuli.frame.iter_rows(named=True):
        assert row["file"].endswith(".jpeg")
        assert row["stimulus"] == digest(read_image(tmp_path / "out" / row["file"]))


def test_two_runs_do_not_write_to_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("cosight.files._LOCK_SECONDS", 0.05)
    out = tmp_path / "out"
    with lock_folder(out), pytest.raises(InvalidInput, match="another process is writing"):
        generate_set(Squares(), out, workers=1)


def test_progress_counts_jobs(tmp_path):
    seen = []
    generate_set(Squares(), tmp_path / "out", workers=1, progress=lambda *args: seen.append(args))
    assert seen == [(3, 12, "generating"), (6, 12, "generating"), (9, 12, "generating"), (12, 12, "generating")]


def test_workers_below_one_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="workers must be a whole number, 1 to 1,024"):
        generate_set(Squares(), tmp_path / "out", workers=0)


def test_the_journal_is_readable_while_it_grows(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        generate_set(Squares(stop_after=5), tmp_path / "out", workers=1)
    lines = [json.loads(line) for line in (tmp_path / "out/journal.jsonl").read_text().splitlines()]
    assert lines[0]["settings"]["verb"] == "squares"
    assert lines[0]["versions"]["numpy"] == np.__version__
    assert [line["job"] for line in lines[1:]] == ["0/0", "0/1", "0/2"]


def test_one_refused_job_leaves_the_others_of_its_source_alone(tmp_path):
    recipe = Squares(refused=("1/1",))
    with pytest.raises(InvalidInput, match="1/1 is refused"):
        generate_set(recipe, tmp_path / "stop", workers=1)
    result = generate_set(recipe, tmp_path / "skip", workers=1, on_error="skip")
    assert result.new == 11
    assert result.skipped == {"source1": "1/1 is refused"}
    assert not verify(result.stimuli).unlisted
    assert generate_set(Squares(), tmp_path / "skip", workers=1).new == 1


def test_hidden_files_that_are_not_ours_stay(tmp_path):
    """A set may be under git, even before its first run."""
    (tmp_path / "out/.git/objects").mkdir(parents=True)
    (tmp_path / "out/.git/HEAD").write_text("ref: refs/heads/main")
    (tmp_path / "out/.gitattributes").write_text("*.png filter=lfs")
    generate_set(Squares(count=1), tmp_path / "out", workers=1)
    (tmp_path / "out/images/.gitkeep").touch()
    generate_set(Squares(count=2), tmp_path / "out", workers=1)
    for name in (".git/HEAD", ".gitattributes", "images/.gitkeep"):
        assert (tmp_path / "out" / name).exists()


def test_a_set_that_was_not_generated_is_not_overwritten(tmp_path):
    frame = manifest_frame([{"stimulus": "0" * 64, "file": "images/x.png", "gold": [1.0]}])
    write_manifest(tmp_path / "out", frame, {})
    before = tree(tmp_path / "out")
    with pytest.raises(InvalidInput, match="belongs to another set"):
        generate_set(Squares(), tmp_path / "out", workers=1)
    assert tree(tmp_path / "out") == before


def test_a_set_copied_without_its_jobs_is_not_resumed(tmp_path, complete):
    (tmp_path / "whole/jobs.parquet").unlink()
    with pytest.raises(InvalidInput, match="belongs to another set"):
        generate_set(Squares(count=5), tmp_path / "whole", workers=1)
    assert (tmp_path / "whole/stimuli.parquet").read_bytes() == complete["stimuli.parquet"]


@pytest.mark.parametrize("after", [0, 3, 6])
def test_a_killed_extension_is_resumed_after_a_smaller_run(tmp_path, complete, after):
    out = tmp_path / "out"
    generate_set(Squares(count=2), out, workers=1)

    def kill(done, total, what):  # 6 of 6: when all is done but the manifest
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_set(Squares(stop_after=after if after < 6 else None), out, workers=1, progress=kill)
    assert read_set(out).frame.height == 6
    generate_set(Squares(count=1), out, workers=1)
    again = Squares()
    generate_set(again, out, workers=1)
    assert len(again.calls) == 6 - after
    assert tree(out) == complete


def test_rows_of_images_that_are_away_stay_in_the_manifest(tmp_path, complete):
    out = tmp_path / "whole"
    (out / "images/2").rename(tmp_path / "away")
    generate_set(Squares(count=2), out, workers=1)
    assert verify(read_set(out)).missing == ("images/2/0.png", "images/2/1.png", "images/2/2.png")
    (tmp_path / "away").rename(out / "images/2")
    assert tree(out) == complete


def test_journal_lines_without_a_header_are_ignored(tmp_path, complete):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        generate_set(Squares(stop_after=6), out, workers=1)
    lines = (out / "journal.jsonl").read_text().splitlines()
    (out / "journal.jsonl").write_text("\n".join([lines[0][:20], *lines[1:]]))
    again = Squares()
    generate_set(again, out, workers=1)
    assert len(again.calls) == 12
    assert tree(out) == complete


def test_each_stimulus_keeps_the_versions_that_made_it(tmp_path, monkeypatch):
    out = tmp_path / "out"
    generate_set(Squares(count=1), out, workers=1)
    newer = {"numpy": "9", "torch": "2"}
    monkeypatch.setattr(
        "cosight.stimuli.generate.package_versions", lambda packages: {name: newer.get(name, "1") for name in packages}
    )
    result = generate_set(Squares(count=2, packages=("torch",)), out, workers=1)
    old, new = sorted(result.stimuli.facts["versions"], key=lambda v: v["numpy"] == "9")
    assert old["numpy"] == np.__version__
    assert (new["numpy"], new["torch"]) == ("9", "2")
    jobs = dict(pl.read_parquet(out / "jobs.parquet").select("job", "versions").iter_rows())
    assert {json.loads(jobs[f"0/{j}"])["numpy"] for j in range(3)} == {np.__version__}
    assert {json.loads(jobs[f"1/{j}"])["numpy"] for j in range(3)} == {"9"}


def test_a_run_killed_between_jobs_and_manifest_resumes(tmp_path, monkeypatch, complete):
    out = tmp_path / "out"
    generate_set(Squares(count=2), out, workers=1)
    with monkeypatch.context() as patch:
        patch.setattr("cosight.stimuli.journal.write_manifest", interrupt)
        patch.setattr("cosight.stimuli.generate.package_versions", lambda packages: {"numpy": "9"})
        with pytest.raises(KeyboardInterrupt):
            generate_set(Squares(), out, workers=1)
    again = Squares()
    result = generate_set(again, out, workers=1)
    assert again.calls == []
    assert (result.new, result.present) == (0, 12)
    assert len(result.stimuli.facts["versions"]) == 2
    assert {name: data for name, data in tree(out).items() if name.startswith("images/")} == {
        name: data for name, data in complete.items() if name.startswith("images/")
    }


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize("inside", [".", "deeper/still"])
def test_neither_of_output_and_source_lies_in_the_other(tmp_path, inside):
    with pytest.raises(InvalidInput, match="outside the source"):
        generate_set(Squares(folders=(tmp_path,)), tmp_path / inside, workers=1)
    with pytest.raises(InvalidInput, match="outside the source"):
        generate_set(Squares(folders=(tmp_path / inside,)), tmp_path, workers=1)
