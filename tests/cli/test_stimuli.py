"""`cosight stimuli`: sets from folders, reproducible bytes, and messages about bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow
from sklearn.datasets import load_sample_images

from cosight.stimuli.images import encode, read_image
from cosight.stimuli.sets import read_set


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Twelve cut-outs of two photos in two class folders, 64 x 80."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(1)
    for index, photo in enumerate(load_sample_images().images * 6):
        top, left = rng.integers(0, 250, 2)
        path = folder / f"class{index % 2}" / f"{index:02d}.png"
        path.parent.mkdir(exist_ok=True)
        cut = cv2.resize(photo[top : top + 128, left : left + 160], (80, 64), interpolation=cv2.INTER_AREA)
        path.write_bytes(encode(cut, "png"))
    return folder


def tree(folder: Path):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_corrupt_then_again_then_more(source, tmp_path, cosight):
    out, sheet = tmp_path / "out", tmp_path / "sheet.png"
    arguments = ("stimuli", "corrupt", source, out, "--kind", "fog,contrast", "--workers", 1)
    done = cosight(*arguments, "--severity", "1-3", "--sheet", sheet)
    assert (done.code, done.out, done.err) == (0, f"72 stimuli made: {out}\n", "")
    assert read_image(sheet).shape[1] > 3 * 128
    before = tree(out)
    assert cosight(*arguments, "--severity", "1-3").out == f"0 stimuli made, 72 existed: {out}\n"
    assert tree(out) == before
    assert cosight(*arguments, "--severity", "3,10").out == f"24 stimuli made, 24 existed: {out}\n"
    assert cosight("stimuli", "verify", out).out == "96 of 96 stimuli match the manifest\n"


def test_all_kinds_take_the_severities_they_have(source, tmp_path, cosight):
    done = cosight("stimuli", "corrupt", source, tmp_path / "out", "--severity", "7", "--limit", 1, "--workers", 1)
    assert done.out.startswith("16 stimuli made")
    assert "not every severity of 7 exists" in done.err
    assert "spatter" in done.err
    frame = read_set(tmp_path / "out").frame
    assert frame["level"].unique().to_list() == [7]
    done = cosight(
        "stimuli", "corrupt", source, tmp_path / "c", "--variant", "imagenet-c", "--limit", 1, "--workers", 1
    )
    assert done.out.startswith("95 stimuli made")  # no cropping there
    assert read_set(tmp_path / "c").frame["experiment"].unique().to_list() == ["imagenet-c"]


def test_distort_makes_its_tiles_from_all_sources(source, tmp_path, cosight):
    arguments = ("stimuli", "distort", source, "--prepare", "64/64", "--workers", 1)
    assert cosight(*arguments, tmp_path / "all").out.startswith("360 stimuli made")
    assert cosight(*arguments, tmp_path / "some", "--limit", 2, "--kind", "mosaic,stickers").code == 0
    complete = dict(read_set(tmp_path / "all").frame.select("file", "stimulus").iter_rows())
    some = dict(read_set(tmp_path / "some").frame.select("file", "stimulus").iter_rows())
    assert len(some) == 20
    assert some.items() <= complete.items()
    again = cosight(*arguments, tmp_path / "other", "--tiles", tmp_path / "all/tiles", "--kind", "mosaic", "--limit", 1)
    assert again.code == 0
    assert not (tmp_path / "other/tiles").exists()


def test_other_tiles_are_not_mixed_in_and_left_over_ones_not_used(source, tmp_path, cosight):
    out = tmp_path / "out"
    arguments = ("stimuli", "distort", source / "class0", out, "--kind", "mosaic", "--prepare", "64/64", "--workers", 1)
    assert cosight(*arguments, "--level", 9).code == 2
    assert not out.exists()
    assert cosight(*arguments, "--level", 1, "--tiles", source / "class1").code == 0
    refused = cosight(*arguments, "--level", 2, "--tiles", source / "class0")
    assert refused.code == 2
    assert "has tiles of other images" in refused.err
    (out / "tiles/means.npy").write_bytes(b"broken")
    assert "cannot open the tile index" in cosight("stimuli", "verify", out).err


@pytest.mark.parametrize("verb", ["distort", "manipulate"])
def test_resources_of_a_run_killed_before_its_first_image_are_used_by_the_same_run_only(
    source, tmp_path, cosight, verb
):
    kind = ("--kind", "mosaic", "--level", 1) if verb == "distort" else ("--kind", "power-equalisation")
    arguments = (*kind, "--prepare", "64/64", "--workers", 1)
    complete, out = tmp_path / "whole", tmp_path / "out"
    cosight("stimuli", verb, source / "class0", complete, *arguments)
    resource = "tiles" if verb == "distort" else "spectrum.npy"
    out.mkdir()
    for name in (resource, "resources.json"):  # as if killed before the first image
        shutil.copytree(complete / name, out / name) if (complete / name).is_dir() else shutil.copy(
            complete / name, out / name
        )
    other = cosight("stimuli", verb, source / "class1", out, *arguments)
    assert other.code == 2
    assert "not built from" in other.err
    assert (out / resource).exists()
    assert cosight("stimuli", verb, source / "class0", out, *arguments).code == 0
    assert tree(out) == tree(complete)


def test_manipulate_keeps_its_spectrum(source, tmp_path, cosight):
    done = cosight(
        "stimuli", "manipulate", source, tmp_path / "out", "--prepare", "64/64", "--limit", 2, "--workers", 1
    )
    assert done.code == 0, done.err
    frame = read_set(tmp_path / "out").frame
    assert set(frame["experiment"]) == {
        "contrast", "uniform-noise", "low-pass", "high-pass", "rotation", "colour", "false-colour", "phase-scrambling",
        "power-equalisation",
    }  # fmt: skip
    assert (tmp_path / "out/spectrum.npy").exists()
    same = cosight(
        "stimuli", "manipulate", source, tmp_path / "three", "--condition", "0.9", "--limit", 1, "--workers", 1
    )
    assert same.out.startswith("1 stimuli made")  # uniform-noise, whose condition is spelled 0.90
    only = cosight(
        "stimuli",
        "manipulate",
        source,
        tmp_path / "two",
        "--kind",
        "contrast",
        "--condition",
        "c05,c10",
        "--workers",
        1,
    )
    assert only.out.startswith("24 stimuli made")


def test_verify_tells_by_text_json_and_exit(source, tmp_path, cosight):
    out = tmp_path / "out"
    cosight("stimuli", "corrupt", source, out, "--kind", "contrast", "--severity", "1", "--workers", 1)
    files = sorted((out / "images").rglob("*.png"))
    files[0].unlink()
    Pillow.new("RGB", (80, 64)).save(files[1])
    done = cosight("stimuli", "verify", out)
    assert done.code == 1
    assert "missing: images/contrast/1/class0/00.png" in done.out
    assert "changed: images/contrast/1/class0/02.png" in done.out
    assert json.loads(cosight("stimuli", "verify", out, "--json").out)["intact"] is False


def command(*arguments):
    return [sys.executable, "-m", "cosight", *map(str, arguments)]


@pytest.mark.slow
def test_one_and_more_workers_give_the_same_bytes(source, tmp_path, cosight):
    kinds = ("--kind", "snow,shot_noise,glass_blur,elastic_transform,frost", "--severity", "5", "--seed", 3)
    assert cosight("stimuli", "corrupt", source, tmp_path / "1", *kinds, "--workers", 1).code == 0
    assert cosight("stimuli", "corrupt", source, tmp_path / "2", *kinds, "--workers", 2).code == 0
    assert tree(tmp_path / "1") == tree(tmp_path / "2")
    assert len(tree(tmp_path / "1")) == 12 * 5 + 3  # images, manifest, jobs, lock file


def children(pid):
    listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(line) for line in listing.stdout.split()]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def killed_at(images, out, *arguments):
    """Run the command and kill it once this many images exist; its workers must end too."""
    started = subprocess.Popen(command(*arguments), start_new_session=True)
    deadline = time.monotonic() + 60
    while started.poll() is None and time.monotonic() < deadline:
        if len(list(out.glob("images/**/*.png"))) >= images:
            break
        time.sleep(0.005)
    workers = children(started.pid)
    started.send_signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL  # it was still at work
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))  # nobody is left waiting for work


@pytest.mark.slow
def test_a_killed_extension_with_tiles_goes_on(source, tmp_path, cosight):
    """Only the killed run needs its own processes; the others run here, with one worker."""
    complete, out = tmp_path / "whole", tmp_path / "out"
    arguments = ("--prepare", "64/64", "--workers")
    assert cosight("stimuli", "distort", source, complete, *arguments, 1).code == 0
    assert cosight("stimuli", "distort", source, out, "--kind", "glitched", *arguments, 1).code == 0
    killed_at(130, out, "stimuli", "distort", source, out, *arguments, 2)
    assert (out / "journal.jsonl").exists()
    assert cosight("stimuli", "distort", source, out, *arguments, 1).code == 0
    assert tree(out) == tree(complete)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.3,), (0.02, 0.3, 0.6)])
def test_killed_at_any_moment_it_goes_on_and_ends_in_the_same_bytes(source, tmp_path, cosight, shares):
    arguments = ("--kind", "snow,fog", "--severity", "1-10", "--workers")
    complete, out = tmp_path / "whole", tmp_path / "out"
    assert cosight("stimuli", "corrupt", source, complete, *arguments, 1).code == 0
    for share in shares:
        killed_at(share * 240, out, "stimuli", "corrupt", source, out, *arguments, 2)
    assert not (out / "stimuli.parquet").exists()
    assert cosight("stimuli", "corrupt", source, out, *arguments, 1).code == 0
    assert tree(out) == tree(complete)


def broken(folder, name):
    """One good image and a broken one."""
    good = np.random.default_rng(0).integers(0, 256, (48, 48, 3), np.uint8)
    (folder / "a").mkdir(parents=True)
    (folder / "a/good.png").write_bytes(encode(good, "png"))
    bad = folder / "a" / name
    if name == "truncated.jpg":
        bad.write_bytes(encode(good, "jpeg")[:-900])
    elif name == "one.png":
        Pillow.new("RGB", (1, 1)).save(bad)
    elif name == "deep.png":
        Pillow.fromarray(np.zeros((48, 48), np.uint16)).save(bad)
    elif name == "cmyk.jpg":
        Pillow.new("CMYK", (48, 48)).save(bad)
    elif name == "moving.gif":
        frames = [Pillow.fromarray(good), Pillow.fromarray(255 - good)]
        frames[0].save(bad, save_all=True, append_images=frames[1:])
    else:
        bad.write_text("this is no picture")
    return folder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("truncated.jpg", "broken"),
        ("one.png", "at least 32 x 32 pixels, got 1 x 1"),
        ("deep.png", "8 bits per channel"),
        ("cmyk.jpg", "CMYK"),
        ("moving.gif", "2 frames"),
        ("text.png", "not an image"),
    ],
)
def test_a_broken_image_is_named_and_stops_or_is_skipped(tmp_path, cosight, name, message):
    source = broken(tmp_path / "source", name)
    arguments = ("stimuli", "corrupt", source, tmp_path / "out", "--kind", "fog", "--severity", 1, "--workers", 1)
    done = cosight(*arguments)
    assert done.code == 2
    assert done.err.startswith("cosight: ")
    assert done.err.count("\n") == 1
    assert name in done.err
    assert message in done.err
    done = cosight(*arguments, "--on-error", "skip")
    assert done.code == 0
    assert f"{name}" in done.err
    assert read_set(tmp_path / "out").frame["image"].to_list() == ["good.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("corrupt", "nowhere", "out"), "there is no folder nowhere"),
        (("corrupt", "empty", "out"), "found none in empty"),
        (("corrupt", "photos", "out", "--kind", "fogg"), "no corruption is called 'fogg'; did you mean fog?"),
        (("corrupt", "photos", "out", "--kind", "fog", "--severity", "11"), "severity of fog must be 1 to 10, got 11"),
        (("corrupt", "photos", "out", "--kind", "spatter", "--severity", "6"), "must be 1 to 5, got 6"),
        (("corrupt", "photos", "out", "--severity", "40"), "no kind has severity '40'"),
        (("corrupt", "photos", "out", "--severity", "5-1"), "a range runs upwards, to 100 at most, got 5-1"),
        (("corrupt", "photos", "out", "--severity", "1-99999999999"), "to 100 at most"),
        (("corrupt", "photos", "out", "--severity", "1-²", "--kind", "fog"), "severity of fog must be"),
        (("corrupt", "photos", "out", "--kind", ""), "--kind must be names, or all alone"),
        (("corrupt", "photos", "out", "--kind", "all,fog"), "or all alone, got 'all,fog'"),
        (("corrupt", "photos", "out", "--kind", "cropping", "--variant", "imagenet-c"), "ImageNet-C has no cropping"),
        (("corrupt", "photos", "out", "--kind", "fog", "--region", "bogus"), "region must be centre or random"),
        (
            ("corrupt", "photos", "out", "--sheet", "photos/sheet.png"),
            "--sheet must be outside the image folder photos",
        ),
        (("corrupt", "photos", "out", "--sheet", "folder.png"), "--sheet must be a file"),
        (("compose", "photos", "out", "--category", "2", "--others", "photos"), "--others are for category 5"),
        (("corrupt", "photos", "out", "--variant", "mine"), "variant must be"),
        (("corrupt", "photos", "out", "--region", "left", "--kind", "cropping"), "region must be"),
        (("corrupt", "photos", "out", "--format", "bmp"), "'bmp' is not one of 'png', 'jpeg'"),
        (("corrupt", "photos", "out", "--on-error", "cry"), "'cry' is not one of 'stop', 'skip'"),
        (("corrupt", "photos", "out", "--prepare", "big"), "256x256"),
        (("corrupt", "photos", "out", "--workers", "0"), "--workers"),
        (("corrupt", "photos", "out", "--textures", "empty"), "empty"),
        (("corrupt", "photos", "out", "--kind", "fog", "--sheet", "sheet.bmp"), "a sheet is a .png or .jpg file"),
        (("distort", "photos", "out", "--level", "6", "--kind", "glitched"), "level of glitched must be 1 to 5, got 6"),
        (("distort", "photos", "out", "--geometry", "odd"), "geometry must be"),
        (("distort", "photos", "out", "--tiles", "alone"), "at least 2 tiles"),
        (("manipulate", "photos", "out", "--kind", "contrast", "--condition", "c07"), "condition of contrast must be"),
        (("manipulate", "photos", "out", "--kind", "rotation", "--condition", "90", "--workers", "1"), "square"),
        (("compose", "photos", "out", "--category", "3"), "category 2 or 5"),
        (("prompts", "--category", "4"), "category"),
        (("attack", "photos", "out", "--model", "cosight:resnet99"), "resnet99"),
        (
            ("attack", "photos", "out", "--model", "cosight:resnet20", "--eps", "a"),
            "--eps must be comma-separated numbers",
        ),
        (("attack", "photos", "out", "--model", "timm:resnet18", "--kind", "zzz"), "no attack is called 'zzz'"),
        (("attack", "photos", "out", "--model", "timm:resnet18", "--space", "zzz"), "space must be"),
        (("attack", "photos", "out", "--model", "timm:resnet18", "--eps", "-1"), "eps must be distinct positive"),
        (("attack", "photos", "out", "--model", "timm:resnet18", "--keep", "some"), "choose must be smallest or all"),
        (("verify", "photos"), "no stimuli.parquet"),
        (("corrupt", "photos", "photos"), "outside the source"),
        (("distort", "tiny", "out", "--kind", "glitched"), "at least 32 x 32 pixels, got 1 x 1"),
        (("distort", "photos", "thesis"), "new, empty or an unfinished set"),
        (("manipulate", "photos", "thesis"), "new, empty or an unfinished set"),
        (("distort", "photos", "thesis/ten.tex"), "output is a folder"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(source, tmp_path, monkeypatch, cosight, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("photos").symlink_to(source)
    Path("empty").mkdir()
    Path("alone").mkdir()
    Pillow.new("RGB", (40, 40)).save("alone/one.png")
    Path("thesis").mkdir()
    Path("folder.png").mkdir()
    Path("tiny").mkdir()
    Pillow.new("RGB", (1, 1)).save("tiny/one.png")
    Path("thesis/ten.tex").write_text("ten years")
    done = cosight("stimuli", *arguments)
    assert done.code == 2
    assert done.err.startswith("cosight: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not Path("out").exists() or not [path for path in Path("out").rglob("*") if path.is_file()]
    assert [path.name for path in Path("thesis").iterdir()] == ["ten.tex"]


@pytest.mark.slow
def test_an_interrupt_ends_it_soon_and_keeps_what_was_done(source, tmp_path):
    """Ctrl-C in a terminal reaches the workers too."""
    out = tmp_path / "out"
    arguments = command("stimuli", "corrupt", source, out, "--workers", 2)
    started = subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(out.glob("images/**/*.png"))) < 80 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGINT)
    since = time.monotonic()
    _, printed = started.communicate(timeout=60)
    assert started.returncode == 130
    assert time.monotonic() - since < 10
    assert "Traceback" not in printed
    noted = len((out / "journal.jsonl").read_text().splitlines()) - 1
    there = len(list(out.glob("images/**/*.png")))
    assert noted >= there - 4 * 20  # what was in hand
    assert noted > 0


def test_damaged_records_are_one_line(source, tmp_path, cosight):
    out = tmp_path / "out"
    arguments = ("stimuli", "corrupt", source, out, "--kind", "fog", "--severity", 1, "--workers", 1)
    cosight(*arguments)
    jobs = (out / "jobs.parquet").read_bytes()
    for damage in (b"junk", jobs[:50]):
        (out / "jobs.parquet").write_bytes(damage)
        done = cosight(*arguments)
        assert done.code == 2
        assert "cannot read the job table" in done.err
    (out / "jobs.parquet").write_bytes(jobs)
    (out / "journal.jsonl").write_text('{"settings": 3}\n{"job": "x"}\n[1]\n"half')
    done = cosight(*arguments)
    assert (done.code, done.out) == (0, f"0 stimuli made, 12 existed: {out}\n")


def test_links_are_followed_and_links_to_nothing_are_named(source, tmp_path, cosight):
    folder = tmp_path / "linked"
    folder.mkdir()
    (folder / "a").symlink_to(source / "class0")
    (folder / "up").symlink_to(folder)  # a loop
    arguments = ("stimuli", "corrupt", folder, tmp_path / "out", "--kind", "contrast", "--severity", 1, "--workers", 1)
    assert cosight(*arguments).out.startswith("6 stimuli made")
    (folder / "gone.png").symlink_to(tmp_path / "nothing.png")
    assert "gone.png does not exist or is a broken link" in cosight(*arguments).err
    done = cosight(*arguments, "--on-error", "skip")
    assert done.code == 0
    assert "gone.png" in done.err


def test_long_names_are_kept(tmp_path, cosight):
    folder = tmp_path / "in"
    folder.mkdir()
    image = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    (folder / f"{'x' * 240}.png").write_bytes(encode(image, "png"))
    done = cosight(
        "stimuli", "corrupt", folder, tmp_path / "out", "--kind", "contrast", "--severity", 1, "--workers", 1
    )
    assert done.code == 0, done.err


def test_attack_on_a_device_in_a_precision(source, tmp_path, cosight, monkeypatch):
    import torch
    from safetensors.torch import save_file

    from cosight.models.cifar_resnet import CifarResNet

    torch.manual_seed(0)
    save_file(CifarResNet(3).state_dict(), tmp_path / "net.safetensors")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    net = f"cosight:resnet20,checkpoint={tmp_path / 'net.safetensors'},name=net"
    attack = ("stimuli", "attack", source, tmp_path / "out", "--model", net, "--prepare", "32x32", "--limit", 4)
    options = ("--eps", "0.5", "--device", "cpu", "--precision", "bfloat16")
    done = cosight(*attack, *options)
    assert done.code == 0, done.err
    parameters = [json.loads(text) for text in read_set(tmp_path / "out").frame["parameters"]]
    assert parameters
    assert {(row["model"], row["precision"]) for row in parameters} == {("net", "bfloat16")}
    done = cosight(*attack, *options[:-2])
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "parameters" in done.err


def test_another_seed_or_variant_is_not_mixed_in(source, tmp_path, cosight):
    arguments = (
        "stimuli",
        "corrupt",
        source,
        tmp_path / "out",
        "--kind",
        "brightness",
        "--severity",
        1,
        "--workers",
        1,
    )
    assert cosight(*arguments).code == 0
    before = tree(tmp_path / "out")
    assert "made with seed 0, got 1" in cosight(*arguments, "--seed", 1).err
    assert "exists with" in cosight(*arguments, "--variant", "imagenet-c").err
    assert tree(tmp_path / "out") == before


def test_prompts_are_a_table(cosight):
    lines = cosight("stimuli", "prompts", "--category", 2, "--count", 3).out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("category,truth,original,subspecies")
    rows = json.loads(cosight("stimuli", "prompts", "--category", 5, "--count", 4, "--json").out)
    assert [row["truth"] for row in rows] == ["abstain"] * 4


@pytest.mark.parametrize("what", ["corruptions", "distortions", "manipulations", "attacks"])
def test_lists(cosight, what):
    rows = json.loads(cosight("list", what, "--json").out)
    assert len(rows) >= 3
    assert all(row["name"] and row["summary"] and row["source"] for row in rows)


def test_a_full_disk_is_one_line_and_the_set_is_finished_later(refused_when_full, source, tmp_path, cosight):
    """Images, the journal, the job table, the manifest."""
    arguments = ("--kind", "contrast", "--severity", "1-10", "--workers", 1)
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert cosight("stimuli", "corrupt", source, whole, *arguments).code == 0
    largest = sorted({path.stat().st_size for path in whole.rglob("*.png")})
    limits = [100, largest[len(largest) // 2], largest[-1] + 1]
    files = refused_when_full(limits, "stimuli", "corrupt", source, out, *arguments, folder=out)
    assert files[0] == files[2] == "journal.jsonl"
    assert files[1].endswith(".png")
    assert cosight("stimuli", "corrupt", source, out, *arguments).code == 0
    assert tree(out) == tree(whole)


def test_a_full_disk_while_tiles_are_indexed(refused_when_full, source, tmp_path, cosight):
    out, whole = tmp_path / "out", tmp_path / "whole"
    arguments = ("--kind", "mosaic", "--level", 1, "--limit", 1, "--prepare", "64/64", "--workers", 1)
    assert cosight("stimuli", "distort", source, whole, *arguments).code == 0
    limits = [path.stat().st_size - 1 for path in (whole / "tiles").glob("thumbnails_*.npy")]
    files = refused_when_full([100, *sorted(limits)], "stimuli", "distort", source, out, *arguments, folder=out)
    assert set(files) == {"tiles"}
    assert cosight("stimuli", "distort", source, out, *arguments).code == 0
    assert tree(out) == tree(whole)


def test_a_contact_sheet_is_not_overwritten(source, tmp_path, cosight):
    out, sheet = tmp_path / "out", tmp_path / "photo.png"
    sheet.write_bytes(b"a photo of mine")
    arguments = (
        "stimuli",
        "corrupt",
        source,
        out,
        "--kind",
        "contrast",
        "--severity",
        1,
        "--workers",
        1,
        "--sheet",
        sheet,
    )
    done = cosight(*arguments)
    assert (done.code, done.err) == (
        2,
        f"cosight: {sheet} exists and is not overwritten; --force replaces it, or choose another --sheet\n",
    )
    assert not out.exists()
    counts = "1=1,2=0,3=0,4=0,5=0,6=0,7=0,8=0,train=0,distractors=0"
    build = ("build", "digits", tmp_path / "digits", "--counts", counts, "--sheet", sheet)
    assert "--force replaces it" in cosight(*build).err
    assert sheet.read_bytes() == b"a photo of mine"
    assert cosight(*arguments, "--force").code == 0
    assert read_image(sheet).size
    assert cosight(*build, "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--workers", 10**6), "--workers must be a whole number, 1 to 1,024, got 1000000"),
        (("--severity", "9" * 5000 + "-5"), "a range runs upwards"),
        (("--prepare", "9" * 5000 + "x3"), "a preparation is none"),
        (("--prepare", "100000000x100000000"), "32 to 8192 pixels"),
        (("--limit", 0), "--limit must be a whole number, 1 or more"),
    ],
)
def test_absurd_counts(source, tmp_path, cosight, arguments, part):
    done = cosight("stimuli", "corrupt", source, tmp_path / "out", "--kind", "contrast", *arguments)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert part in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("counts", ["1=1000000000000", "1=" + "9" * 5000, "9" * 5000 + "=1"])
def test_absurd_counts_of_a_builder(tmp_path, cosight, counts):
    done = cosight("build", "digits", tmp_path / "out", "--counts", counts)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "counts " in done.err
    assert not (tmp_path / "out").exists()
