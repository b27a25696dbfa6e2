"""`cosight stimuli tasks`: forced choices from a manifest or a CSV file, and a study of them from end to end."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow

from cosight.stimuli.images import digest
from cosight.stimuli.sets import read_set
from cosight.stimuli.tasks import TASKS, read_tasks
from cosight.trials import read
from cosight.trials.manifest import MANIFEST, manifest_frame, write_manifest

NAMES = [f"{kind}{i}" for i in range(7) for kind in ("target", "seed", "query")]


def draw(name):
    """A coarse pattern; a query is its target with a little noise."""
    number = NAMES.index(name.replace("query", "target"))
    coarse = np.random.default_rng(number).integers(0, 240, (4, 4, 3))
    noise = np.random.default_rng(99).integers(0, 15, (32, 32, 3)) if name.startswith("query") else 0
    return (np.kron(coarse, np.ones((8, 8, 1))) + noise).astype(np.uint8)


@pytest.fixture
def photos(tmp_path):
    """A plain folder of images: seven targets, their seeds and their queries."""
    (tmp_path / "photos").mkdir()
    for name in NAMES:
        Pillow.fromarray(draw(name)).save(tmp_path / "photos" / f"{name}.png")
    return tmp_path / "photos"


@pytest.fixture
def inverted(photos):
    """The same as a set whose manifest names the target and the seed of each query."""
    digests = {name: digest(draw(name)) for name in NAMES}
    rows = []
    for name in NAMES:
        row = {"stimulus": digests[name], "file": f"{name}.png", "image": f"{name}.png"}
        if name.startswith("query"):
            row["parent"] = digests[name.replace("query", "target")]
            row["parameters"] = json.dumps({"seed_stimulus": digests[name.replace("query", "seed")]})
        rows.append(row)
    write_manifest(photos, manifest_frame(rows), {})
    return photos


@pytest.fixture
def listed(tmp_path):
    """A CSV file with a row per query."""
    lines = [f"query{i}.png,target{i}.png,seed{i}.png" for i in range(7)]
    (tmp_path / "choices.csv").write_text("\n".join(["query,target,seed", *lines]) + "\n")
    return tmp_path / "choices.csv"


# ---- from the set to the trials, by command line


@pytest.mark.parametrize(
    ("source", "kind", "options", "made", "unused", "answers"),
    [
        ("manifest", "2afc", (), 7, 0, 7),
        pytest.param("csv", "2afc", (), 7, 0, 7, marks=pytest.mark.slow),
        # two panels of three; the seeds, one target and its query are left
        pytest.param("manifest", "cluster", (), 2, 9, 6, marks=pytest.mark.slow),
        pytest.param("csv", "cluster", ("--panels-of", 2, "--seed", 3), 3, 9, 6, marks=pytest.mark.slow),
    ],
)
def test_a_study_of_forced_choices(
    cosight, tmp_path, monkeypatch, request, kind, options, made, unused, answers, source
):
    monkeypatch.chdir(tmp_path)
    request.getfixturevalue("inverted" if source == "manifest" else "photos")
    table = () if source == "manifest" else ("--from", request.getfixturevalue("listed"))
    done = cosight("stimuli", "tasks", "photos", "--type", kind, *options, *table)
    assert done.code == 0, done.err
    assert done.out == (
        f"{made} {kind} tasks written to photos/tasks.parquet; {unused} stimuli in no task\n"
        f"next: cosight study new STUDY --type {kind} --set photos\n"
    )
    wrote = "note: photos had no manifest; wrote stimuli.parquet with 21 images\n"
    assert done.err == ("" if source == "manifest" else wrote)
    assert cosight("stimuli", "verify", "photos").out == "21 of 21 stimuli match the manifest\n"
    for line in (
        f"study new survey --type {kind} --set photos",
        "study simulate survey --participants 3 --observer panel",
        "study export survey answers.parquet --all",
        "trials show answers.parquet",
    ):
        done = cosight(*line.split())
        assert done.code == 0, f"{line}\n{done.err}"
    trials = read("answers.parquet").frame
    noted = pl.col("extra").str.json_path_match("$.role")
    role = pl.col("role") if "role" in trials.columns else noted.fill_null("test")
    tested = trials.filter(role == "test")
    assert tested.height == 3 * answers
    assert (tested["response"] == tested["truth"]).mean() > 0.9  # a query differs from its target by faint noise only


def test_both_types_share_one_file_and_a_study_takes_its_own(cosight, inverted, tmp_path):
    assert cosight("stimuli", "tasks", inverted, "--type", "cluster").code == 0
    panels = read_tasks(inverted)
    done = cosight("stimuli", "tasks", inverted, "--type", "2afc")
    assert "7 2afc tasks written to" in done.out
    assert ", 2 tasks of the other type kept; 0 stimuli in no task" in done.out
    assert read_tasks(inverted)[:2] == panels
    for kind, images in (("2afc", 7), ("cluster", 2)):
        assert cosight("study", "new", tmp_path / kind, "--type", kind, "--set", inverted).code == 0
        assert f"images = {images} " in (tmp_path / kind / "study.toml").read_text()


# ---- existing tasks


def test_tasks_are_replaced_only_with_force(cosight, inverted):
    line = ("stimuli", "tasks", inverted, "--type", "cluster")
    assert cosight(*line).code == 0
    before = (inverted / TASKS).read_bytes()
    done = cosight(*line, "--seed", 1)
    assert done.code == 2
    words = f"{inverted / TASKS} has 2 cluster tasks already and is not overwritten; --force replaces them"
    assert done.err == f"cosight: {words}\n"
    assert (inverted / TASKS).read_bytes() == before
    assert cosight(*line, "--seed", 1, "--force").code == 0
    assert (inverted / TASKS).read_bytes() != before
    assert cosight(*line, "--force").code == 0
    assert (inverted / TASKS).read_bytes() == before  # the seed decides


def test_a_file_that_cannot_be_read_is_replaced_only_with_force(cosight, inverted):
    (inverted / TASKS).write_bytes(b"no parquet")
    done = cosight("stimuli", "tasks", inverted, "--type", "2afc")
    assert done.code == 2
    assert done.err.endswith("; --force replaces it\n")
    assert done.err.count("\n") == 1
    assert cosight("stimuli", "tasks", inverted, "--type", "2afc", "--force").code == 0
    assert len(read_tasks(inverted)) == 7


# ---- what is refused


def test_a_set_without_targets_and_seeds_says_what_is_missing(cosight, photos):
    done = cosight("stimuli", "tasks", photos, "--type", "2afc")
    assert done.code == 2
    assert "0 of 21 have their target (`parent`) in it, 0 their seed (`seed_stimulus` in `parameters`)" in done.err
    assert "list the tasks in a CSV file: --from FILE with the columns query,target,seed" in done.err
    done = cosight("stimuli", "tasks", photos, "--type", "cluster")
    assert "a panel of 3 needs 3 targets" in done.err
    assert "--from FILE with the columns query,target\n" in done.err
    assert not (photos / TASKS).exists()
    assert not (photos / MANIFEST).exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--type", "3afc"), "--type must be 2afc or cluster, got '3afc'"),
        (
            ("--type", "2afc", "--panels-of", 3),
            "--panels-of, --seed and --near are for --type cluster, got --type 2afc",
        ),
        (("--type", "2afc", "--seed", 0), "--panels-of, --seed and --near are for --type cluster, got --type 2afc"),
        (("--type", "cluster", "--panels-of", 8), "a panel of 8 needs 8 targets, "),
    ],
)
def test_options_that_do_not_fit(cosight, inverted, options, words):
    done = cosight("stimuli", "tasks", inverted, *options)
    assert done.code == 2
    assert words in done.err
    assert not (inverted / TASKS).exists()


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("2afc", "", "2afc needs the columns query,target,seed, CSV has none; add query,target,seed"),
        ("2afc", "query,target\nquery0.png,target0.png\n", "CSV has query,target; add seed"),
        ("2afc", "query;target;seed\na;b;c\n", "CSV has query;target;seed; add query,target,seed"),
        ("2afc", "query,target,seed\n", "CSV has a header only; add one row per query"),
        ("2afc", "query,target,seed\nquery0.png,target0.png,\n", "CSV, row 1, column seed: the cell is empty"),
        ("2afc", "query,target,seed\nquery0.png,target0.png\n", "CSV, row 1, column seed: the cell is empty"),
        (
            "2afc",
            "query,target,seed\nquery0.png,target0.pgn,seed0.png\n",
            "CSV, row 1, column target: SET has no image called 'target0.pgn'; did you mean target0.png?",
        ),
        (
            "2afc",
            "query,target,seed\nquery0.png,target0.png,target0.png\n",
            "CSV, row 1: target and seed are the same image; name two different ones",
        ),
        (
            "2afc",
            "query,target,seed\n" + "query0.png,target0.png,seed0.png\n" * 2,
            "CSV, row 2: repeats row 1; remove it",
        ),
        ("cluster", "query,target\n" + "query0.png,target0.png\n" * 2, "CSV, row 2: repeats row 1; remove it"),
        (
            "cluster",
            "query,target\nquery0.png,target0.png\nquery0.png,target1.png\n",
            "CSV, row 2: the query of row 1 has another target; keep one of them",
        ),
        ("cluster", "query,target\nquery0.png,target0.png\n", "a panel of 3 needs 3 targets, CSV has 1; add targets"),
    ],
)
def test_a_csv_file_that_breaks_a_rule_is_refused_in_one_line(cosight, photos, tmp_path, kind, text, words):
    file = tmp_path / "choices.csv"
    file.write_text(text)
    done = cosight("stimuli", "tasks", photos, "--type", kind, "--from", file)
    assert done.code == 2
    assert words.replace("CSV", str(file)).replace("SET", str(photos)) in done.err
    assert done.err.count("\n") == 1
    assert sorted(path.suffix for path in photos.iterdir()) == [".png"] * len(NAMES)  # nothing was written


def test_a_csv_file_that_is_not_there_or_no_text(cosight, photos, tmp_path):
    done = cosight("stimuli", "tasks", photos, "--type", "2afc", "--from", tmp_path / "none.csv")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "cannot read" in done.err
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    done = cosight("stimuli", "tasks", photos, "--type", "2afc", "--from", tmp_path / "binary.csv")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "cannot read" in done.err


# ---- how a CSV file names images


def test_images_are_named_by_digest_path_or_file_name(cosight, tmp_path):
    for folder, names in (("cat", ("a", "b")), ("dog", ("a", "c"))):
        (tmp_path / "set" / folder).mkdir(parents=True)
        for place, name in enumerate(names):
            image = Pillow.fromarray(draw(NAMES[place + 3 * (folder == "dog")]))
            image.save(tmp_path / "set" / folder / f"{name}.png")
    file = tmp_path / "choices.csv"
    dog_c = digest(draw(NAMES[4]))
    file.write_text(f"\ufeffquery,target,seed,note\nb.png,cat/a.png,{dog_c},a note\n", encoding="utf-8")
    done = cosight("stimuli", "tasks", tmp_path / "set", "--type", "2afc", "--from", file)
    assert done.code == 0, done.err
    assert "1 2afc tasks" in done.out
    assert "; 1 stimuli in no task" in done.out
    found = dict(read_set(tmp_path / "set").frame.select("stimulus", "file").iter_rows())
    (task,) = read_tasks(tmp_path / "set")
    assert [found[name] for name in (*task.queries, *task.options)] == ["cat/b.png", "cat/a.png", "dog/c.png"]
    file.write_text("query,target,seed\na.png,b.png,c.png\n")
    done = cosight("stimuli", "tasks", tmp_path / "set", "--type", "2afc", "--from", file, "--force")
    assert done.code == 2
    assert "'a.png' is the name of 2 images (cat/a.png, dog/a.png); give the path inside" in done.err
    assert len(read_tasks(tmp_path / "set")) == 1


def test_made_sets_are_named_without_their_images_folder(cosight, tmp_path, photos):
    out = tmp_path / "blurred"
    assert (
        cosight("stimuli", "corrupt", photos, out, "--kind", "gaussian_blur", "--severity", 1, "--workers", 1).code == 0
    )
    files = [file.removeprefix("images/") for file in read_set(out).frame["file"][:3]]
    (tmp_path / "choices.csv").write_text(f"query,target,seed\n{','.join(files)}\n")
    done = cosight("stimuli", "tasks", out, "--type", "2afc", "--from", tmp_path / "choices.csv")
    assert done.code == 0, done.err
    assert done.err == ""  # its manifest stays
