"""A report has the rows of scores.parquet and the answers of the trials, whatever these are called."""

import json
import re
import shutil
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow

from cosight import report
from cosight.benchmarks import benchmarks
from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.reports.site.method import bibliography, cited_entries
from cosight.scoring.presets import presets
from cosight.statistics.rows import group_text, read_scores
from cosight.stimuli.corruptions import corruptions
from cosight.stimuli.distortions import distortions
from cosight.stimuli.manipulations import manipulations
from cosight.trials import read
from cosight.trials.samples import samples
from cosight.trials.table import make_trials
from tests.reports.site_data import numbers, rows, shard
from tests.runs.conftest import CLASSES, draw_images

FEW = {"resamples": 20, "progress": False}
HOSTILE = ("<script>alert(1)</script>", "\"'`;--", "x" * 300, "\u202eevil\u2067", "a/../b?c#d%20", "${1}\u2028")


@pytest.fixture(scope="module")
def few():
    trials = read("sample:edges")
    names = [f"human:subject-0{number}" for number in range(1, 5)]
    return trials.only(*names, "model:resnet50", "model:alexnet", "model:vgg16")


@pytest.fixture(scope="module")
def site(few, tmp_path_factory):
    return report(few, out=tmp_path_factory.mktemp("reports") / "site", **FEW).folder


def test_every_row_of_the_site_is_a_row_of_the_file(site):
    stored = pl.read_parquet(site / "scores.parquet").to_dicts()
    shown = [*rows(site, "rows"), *rows(site, "pairs")]
    assert sorted(row["id"] for row in shown) == list(range(len(stored)))
    for row in shown:
        expected = stored[row["id"]]
        assert row["flags"].split() == expected["flags"]
        assert all(row[name] == expected[name] for name in row if name not in ("id", "flags"))
    parts = shard(site, "site")["parts"]
    assert sum(part["count"] for part in parts) == len(stored)


def test_answers_equal_a_recount_with_polars(few, site):
    facts = shard(site, "site")["sets"][0]
    frame, labels = few.frame, facts["labels"]
    truth = numbers(shard(site, "0/stimuli")["truth"], "truth")
    assert facts["stimuli"] == frame["image"].n_unique() == len(truth)
    for index, observer in enumerate(facts["observers"]):
        response = numbers(shard(site, f"0/answers/{index}")["response"], "response")
        if observer["kind"] == "pool":
            continue
        own = frame.filter(pl.col("observer") == observer["name"])
        assert observer["trials"] == own.height
        right = own.filter(pl.col("response") == pl.col("truth")).height
        assert int((response == truth).sum()) == right
        confusion = own.group_by("truth", "response").len().rows()
        for true, given, count in confusion:
            if given is not None:
                assert ((truth == labels.index(true)) & (response == labels.index(given))).sum() == count


def test_people_pooled_are_their_commonest_answer(few, site):
    facts = shard(site, "site")["sets"][0]
    index = next(i for i, one in enumerate(facts["observers"]) if one["name"] == "people")
    pooled = numbers(shard(site, f"0/answers/{index}")["response"], "response")
    group = shard(site, "0/group/0")
    people = few.frame.filter(pl.col("kind") == "human")
    for at, image in enumerate(group["image"]):
        counts = people.filter(pl.col("image") == image)["response"].drop_nulls().value_counts()
        best = counts.filter(pl.col("count") == counts["count"].max())["response"].to_list()
        assert pooled[at] == (facts["labels"].index(best[0]) if len(best) == 1 else -3)
        shares = group["given"][str(index)][at]
        shown = {facts["labels"][int(code)]: count for code, count in zip(shares[::2], shares[1::2], strict=True)}
        assert shown == dict(counts.rows())


def test_the_method_page_says_how_it_was_made(site):
    method = shard(site, "site")["method"]
    assert method["passed"]["resamples"] == 20
    assert method["defaulted"]["gamma"] == 0.5
    assert "@inproceedings{geirhos2020," in method["bibtex"]
    versions = [part["settings"]["versions"]["cosight"] for part in shard(site, "site")["parts"]]
    assert set(versions) == {method["versions"]["cosight"]}


def test_every_table_has_three_files_with_the_same_lines(few, site):
    facts = shard(site, "site")
    stored = read_scores(site)
    assert list(stored.settings["parts"]) == [part["name"] for part in facts["parts"]]
    assert stored.settings["confidence"] == 0.95
    names = {table["name"] for table in facts["tables"]}
    assert {"scores", "observers", "participants", "people", "answers", "score-leaderboard"} <= names
    for table in facts["tables"]:
        frame = pl.read_parquet(site / table["parquet"])
        content = json.loads((site / table["json"]).read_text(encoding="utf-8"))
        lines = content["rows"] if isinstance(content, dict) else content
        assert frame.height == table["rows"] == len(lines) == pl.read_csv(site / table["csv"]).height > 0, table["name"]
        if isinstance(content, dict):  # score rows: a part of scores.parquet
            for file in (table["parquet"], table["json"], table["csv"]):
                assert set(read_scores(site / file).rows) <= set(stored.rows)
    answers = next(table for table in facts["tables"] if table["name"] == "answers")
    assert pl.read_parquet(site / answers["parquet"]).height == few.frame.height


def test_the_leaderboard_has_the_rows_of_the_verdict(site):
    stored = read_scores(site).rows
    for part in shard(site, "site")["parts"]:
        rows = [stored[index] for index in part["leaderboard"]]
        assert all(part["first"] <= index < part["first"] + part["count"] for index in part["leaderboard"])
        assert {group_text(row.group) for row in rows} == {part["group"]}
        if "measure" in part:
            ranks = [row for row in rows if row.statistic == "rank"]
            assert {(row.measure, row.against) for row in ranks} <= {(part["measure"], part["people"])}
            assert ranks or part["name"] == "score"  # `score` does not rank


def test_everything_that_is_cited_has_an_entry():
    texts = [entry.citation for entry in (*measures.values(), *presets.values())]
    texts += [entry.source for entry in (*benchmarks.values(), *samples.values())]
    texts += [kind.citation for kinds in (corruptions, distortions, manipulations) for kind in kinds.values()]
    assert [text for text in texts if not cited_entries(text)] == []
    used = {key for text in texts for key in cited_entries(text)} | {"cosight"}
    assert used == set(bibliography())


def test_entries_have_what_a_bibliography_needs():
    for key, entry in bibliography().items():
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.MULTILINE))
        assert {"title", "author", "year"} <= set(fields), key
        assert key == "cosight" or key.endswith(fields["year"]), key
        assert entry.count("{") == entry.count("}"), key
        kind = entry[1 : entry.index("{")]
        needed = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle", "book": "publisher"}
        assert needed.get(kind, "title") in fields, key
        first = fields["author"].split(" and ")[0].partition(",")[0].lower()
        assert key == "cosight" or re.sub(r"\W", "", first) == key[:-4], key


def test_alterations_are_cited(tmp_path):
    frame = pl.DataFrame([{"observer": who, "kind": "model", "experiment": "e", "condition": "fog", "image": f"{i}.png",
                           "truth": "cat", "response": "cat"} for who in "ab" for i in (1, 2)])  # fmt: skip
    made = report(make_trials(frame, source="made"), out=tmp_path / "site", **FEW)
    assert "{hendrycks2019," in shard(made.folder, "site")["method"]["bibtex"]


def test_charts_of_benchmarks_are_about_registered_measures():
    for entry in benchmarks.values():
        for chart in (chart for section in entry.sections.values() for chart in section.charts):
            named = [chart.measure, *([chart.x, chart.y] if "scatter" in chart.kind else [])]
            assert all(name in measures for name in named if name), (entry.name, chart)
            assert chart.kind in ("pictures", "sheet") or any(named)
            assert bool(chart.x) == (chart.kind not in ("pictures", "sheet", "pairs"))


def hostile_trials(*, people=2, models=1, images=4):
    kinds = ["human"] * people + ["model"] * models
    names = [f"{kind}:{HOSTILE[i % len(HOSTILE)]}{i}" for i, kind in enumerate(kinds)]
    classes = HOSTILE[:3]
    frame = pl.DataFrame(
        [
            {
                "observer": name, "kind": name.split(":")[0], "experiment": HOSTILE[0], "condition": HOSTILE[3],
                "image": f"{HOSTILE[image % 6]}{image}", "truth": classes[image % 3],
                "response": classes[(image + at) % 3], "extra": json.dumps({"reason": HOSTILE[0]}),
            }
            for at, name in enumerate(names)
            for image in range(images)
        ]
    )  # fmt: skip
    return make_trials(frame, source="made")


def test_hostile_names_stay_texts(tmp_path):
    made = report(hostile_trials(), out=tmp_path / "site", title=HOSTILE[0], **FEW)
    facts = shard(made.folder, "site")
    assert facts["title"] == HOSTILE[0]
    assert f"human:{HOSTILE[0]}0" in [one["name"] for one in facts["sets"][0]["observers"]]
    assert set(shard(made.folder, "0/group/0")["image"]) == {f"{HOSTILE[i]}{i}" for i in range(4)}
    everything = list((made.folder / "data").rglob("*.js"))
    assert everything
    assert all(b"<" not in path.read_bytes() for path in everything)


@pytest.mark.parametrize(("people", "models"), [(0, 2), (0, 1), (2, 0), (1, 1)])
def test_few_observers_give_a_report(tmp_path, people, models):
    made = report(hostile_trials(people=people, models=models), out=tmp_path / "site", **FEW)
    facts = shard(made.folder, "site")
    assert len([one for one in facts["sets"][0]["observers"] if one["kind"] != "pool"]) == people + models
    assert facts["sets"][0]["pictures"] == 0
    assert made.scores.rows


def test_pictures_are_thumbnails_with_the_original(tmp_path):
    images = tmp_path / "set" / "images"
    images.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        Pillow.fromarray(rng.integers(0, 255, (300, 200, 3), dtype=np.uint8)).save(images / f"{name}.png")
    (images / "bird.png").write_bytes(b"broken")
    from cosight.trials.manifest import manifest_frame, write_manifest

    shown = [{"file": f"images/{name}.png", "image": f"{name}.png", "experiment": "e", "truth": name}
             for name in ("bird", "cat", "dog")]  # fmt: skip
    write_manifest(tmp_path / "set", manifest_frame(shown), {})
    frame = pl.DataFrame(
        [{"observer": who, "kind": "model", "experiment": "e", "image": f"{name}.png", "truth": name, "response": name}
         for who in ("a", "b") for name in ("bird", "cat", "dog", "fish")]
    )  # fmt: skip
    out = tmp_path / "site"
    made = report(make_trials(frame, source="made"), tmp_path / "set", out=out, **FEW)
    facts = shard(out, "site")
    assert facts["sets"][0]["pictures"] == 2
    assert any("cannot be decoded" in notice for notice in made.notices)
    group = shard(out, "0/group/0")
    ((thumbnail, original, _),) = group["pictures"][group["image"].index("cat.png")]
    with Pillow.open(out / thumbnail) as small:
        assert max(small.size) == 128
    assert (out / original).read_bytes() == (images / "cat.png").read_bytes()
    assert group["pictures"][group["image"].index("fish.png")] == []
    report(make_trials(frame, source="made"), tmp_path / "set", out=out, images="none", force=True, **FEW)
    assert not [path for path in out.rglob("*") if path.suffix in (".webp", ".png")]


def make_tasks(folder):
    """A set with two inversions per model, and what a judge chose for each."""
    from cosight.trials.manifest import manifest_frame, write_manifest

    stimuli, trials = [], []

    def add(name, kind, **about):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        grey = int.from_bytes(name.encode(), "big") % 251
        Pillow.fromarray(np.full((8, 8, 3), grey, dtype=np.uint8)).save(folder / "images" / f"{name}.png")
        stimuli.append({"stimulus": name, "file": f"images/{name}.png", "image": f"{name}.png", "kind": kind,
                        "experiment": "representation", **about})  # fmt: skip

    for target in ("t1", "t2"):
        add(target, "target")
        add(f"{target}s", "seed-image")
        for model in ("near", "far"):
            query = f"{model}-{target}"
            facts = {"model": model, "start": "image", "targets": "photos", "distance": 0.01}
            parameters = json.dumps({**facts, "seed_stimulus": f"{target}s"})
            add(query, "inversion", parent=target, condition=f"{model} image", parameters=parameters)
            extra = json.dumps({"query": query, "options": [target, f"{target}s"], **facts})
            trials.append({"observer": "lpips", "kind": "judge", "experiment": "2afc", "condition": f"{model} image",
                           "stimulus": f"2afc-{query}", "truth": target, "extra": extra,
                           "response": target if model == "near" else f"{target}s"})  # fmt: skip
    write_manifest(folder, manifest_frame(stimuli), {})
    return make_trials(pl.DataFrame(trials), source="made")


def test_tasks_show_their_pictures_panels_and_table(tmp_path):
    folder = tmp_path / "set"
    trials = make_tasks(folder)
    made = report(trials, folder, out=tmp_path / "site", **FEW)
    facts = shard(made.folder, "site")
    part = next(part for part in facts["parts"] if part["benchmark"] == "representation")
    assert part["headline"].startswith("Best in 2AFC image, by lpips: near 1.000 [")
    stored = pl.read_parquet(made.folder / "scores.parquet").to_dicts()
    cells = {line["model"]: stored[line["cells"][0][0]] for line in part["table"]["lines"]}
    assert {name: (row["observer"], row["value"]) for name, row in cells.items()} == {
        "near": ("near", 1.0),
        "far": ("far", 0.0),
    }
    with Pillow.open(made.folder / part["sheet"]) as sheet:
        assert sheet.width > 2 * 96
    group = shard(made.folder, "0/group/0")
    at = group["stimulus"].index("2afc-near-t1")
    assert [name for _, _, name in group["pictures"][at]] == ["query", "target", "other 1"]
    query = folder / "images" / "near-t1.png"
    assert (made.folder / group["pictures"][at][0][1]).read_bytes() == query.read_bytes()


def test_reasons_are_shown_with_the_answers(tmp_path):
    frame = pl.DataFrame(
        [{"observer": who, "kind": "vlm", "experiment": "e", "image": f"{image}.png", "truth": "cat", "response": "cat",
          "extra": json.dumps({"reason": f"whiskers {image}"} if who == "vlm:b" and image == 1 else {})}
         for who in ("vlm:a", "vlm:b") for image in (1, 2)]
    )  # fmt: skip
    made = report(make_trials(frame, source="made"), out=tmp_path / "site", **FEW)
    group = shard(made.folder, "0/group/0")
    names = [one["name"] for one in shard(made.folder, "site")["sets"][0]["observers"]]
    reasons = dict(zip(group["image"], group["reasons"][str(names.index("vlm:b"))], strict=True))
    assert reasons == {"1.png": "whiskers 1", "2.png": None}
    assert list(group["reasons"]) == [str(names.index("vlm:b"))]


def test_stimuli_that_nobody_saw_are_not_shown_to_people(tmp_path):
    frame = pl.DataFrame(
        [{"observer": who, "kind": who.split(":")[0], "experiment": "e", "image": f"{image}.png", "truth": "cat",
          "response": None if image == 2 and who != "model:m" else "cat"}
         for who in ("human:a", "human:b", "model:m") for image in (1, 2, 3) if who == "model:m" or image < 3]
    )  # fmt: skip
    made = report(make_trials(frame, source="made"), out=tmp_path / "site", **FEW)
    people = next(one for one in shard(made.folder, "site")["sets"][0]["observers"] if one["name"] == "people")
    assert (people["trials"], people["answered"]) == (2, 1)
    pooled = numbers(shard(made.folder, "0/answers/3")["response"], "response")
    images = shard(made.folder, "0/group/0")["image"]
    assert {name: int(code) for name, code in zip(images, pooled, strict=True)} == {
        "1.png": 0,
        "2.png": -1,
        "3.png": -2,
    }


def test_versions_of_one_source_are_a_series(tmp_path):
    frame = pl.DataFrame(
        [{"observer": who, "kind": "model", "experiment": "e", "condition": condition, "level": level,
          "image": f"{image}.png", "truth": "cat", "response": "cat"}
         for who in ("a", "b") for condition in ("blur", "noise") for level in (1, 2) for image in (1, 2)]
    )  # fmt: skip
    made = report(make_trials(frame, source="made"), out=tmp_path / "site", **FEW)
    series = numbers(shard(made.folder, "0/stimuli")["series"], "series")
    assert sorted(np.unique(series, return_counts=True)[1].tolist()) == [2, 2, 2, 2]


def test_a_folder_with_other_files_is_refused(few, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="has other files"):
        report(few, out=tmp_path, **FEW)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_report_is_replaced_only_with_force(few, site):
    with pytest.raises(InvalidInput, match="--force"):
        report(few, out=site, **FEW)


def test_nothing_is_written_for_wrong_sources(tmp_path):
    with pytest.raises(InvalidInput):
        report(tmp_path / "missing.csv", out=tmp_path / "site")
    with pytest.raises(InvalidInput, match="needs trials"):
        report(out=tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_participants_who_were_excluded_from_a_study_are_named(few, tmp_path):
    from cosight.trials import write

    write(few, tmp_path / "people.parquet")
    excluded = [{"participant": "human:s/p0003", "reasons": ["2 wrong on clear distractors"]}]
    facts = {"participants": 5, "written_all_the_same": False, "excluded": excluded, "rules": {"distractors": 1}}
    (tmp_path / "people-excluded.json").write_text(json.dumps(facts))
    made = report(tmp_path / "people.parquet", out=tmp_path / "site", **FEW)
    assert shard(made.folder, "site")["method"]["exclusions"] == [{"source": "people.parquet", **facts}]
    (tmp_path / "people-excluded.json").write_text('{"participants": 5}')  # a file of something else
    made = report(tmp_path / "people.parquet", out=tmp_path / "site", force=True, **FEW)
    assert shard(made.folder, "site")["method"]["exclusions"] == []


def test_the_command_writes_a_report(cosight, tmp_path, few):
    from cosight.trials import write

    write(few, tmp_path / "few.parquet")
    done = cosight("report", tmp_path / "few.parquet", "--out", tmp_path / "site", "--resamples", "20")
    assert done.code == 0, done.err
    assert f"report: {tmp_path / 'site' / 'index.html'}".split("/")[-1] in done.out
    assert Path(tmp_path / "site" / "index.html").is_file()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two models on small images, and the folder of its images."""
    from cosight import evaluate
    from cosight.models import Preprocessing, as_model

    root = tmp_path_factory.mktemp("run")
    draw_images(root / "images", 20)

    def model(seed):
        weights = np.random.default_rng(seed).normal(size=(3, 10))
        small = Preprocessing(size=16, mean=0, std=1)
        return as_model(
            lambda images: images.mean(axis=(2, 3)) @ weights,
            name=f"model{seed}",
            preprocessing=small,
            class_names=CLASSES,
        )

    evaluate(model(0), model(1), on=root / "images", labels="cifar-10", out=root / "run", progress=False)
    return root / "run"


def test_a_run_brings_its_pictures_and_how_it_was_made(run, tmp_path):
    out = report(run, out=tmp_path / "site", **FEW).folder
    facts = shard(out, "site")
    assert facts["sets"][0]["pictures"] == facts["sets"][0]["stimuli"] == 20
    (about,) = facts["method"]["runs"]
    assert about["state"] == "finished"
    assert about["command"].startswith("cosight evaluate ")
    assert about["command"].endswith(f"--on {run.parent / 'images'} --out {run} --labels cifar-10")
    assert about["sessions"][0]["versions"]
    assert all(one["probabilities"] for one in facts["sets"][0]["observers"])
    assert not any(one["kind"] == "human" for one in facts["sets"][0]["observers"])


def test_a_run_that_is_half_finished_gives_a_report(run, tmp_path):
    half = tmp_path / "half"
    shutil.copytree(run, half)
    next((half / "trials").glob("*model1*")).unlink()
    record = json.loads((half / "run.json").read_text())
    record["state"] = record["observers"][1]["state"] = "going"
    (half / "run.json").write_text(json.dumps(record))
    out = report(half, out=tmp_path / "site", **FEW).folder
    facts = shard(out, "site")
    assert [one["name"] for one in facts["sets"][0]["observers"]] == ["model0"]
    assert facts["method"]["runs"][0]["state"] == "stopped"
    assert [line[1] for line in facts["method"]["runs"][0]["answered"]] == [20, 0]


def test_a_report_is_written_again_while_a_run_is_in_progress(tmp_path, monkeypatch):
    """A real run in another thread; its second model waits until the report has been written twice."""
    from cosight import evaluate
    from cosight.models import Preprocessing, as_model

    draw_images(tmp_path / "images", 12)
    written, seen, going = threading.Event(), [], threading.Event()

    def slow(images):
        if any((tmp_path / "run" / "trials").glob("fast*")):  # not while the run tries the models
            going.set()
            assert written.wait(60)
        return images.mean(axis=(2, 3)) @ np.ones((3, 10))

    def fast(images):
        return images.mean(axis=(2, 3)) @ np.eye(3, 10)

    small = Preprocessing(size=16, mean=0, std=1)
    models = [as_model(forward, name=forward.__name__, preprocessing=small, class_names=CLASSES)
              for forward in (fast, slow)]  # fmt: skip
    arguments = {"on": tmp_path / "images", "labels": "cifar-10", "out": tmp_path / "run", "progress": False}
    run = threading.Thread(target=lambda: evaluate(*models, **arguments))

    watcher, sleep = threading.current_thread(), time.sleep

    def wait(seconds):
        site = tmp_path / "site"
        if threading.current_thread() is not watcher:  # the run's own
            sleep(seconds)
        elif (site / "index.html").is_file():
            facts = shard(site, "site")
            seen.append((facts["watched"], facts["stamp"], shard(site, "stamp"), facts["method"]["runs"][0]["state"]))
            if len(seen) > 1:
                written.set()
                run.join(60)
        else:
            going.wait(60)

    monkeypatch.setattr(sys.modules["cosight.reports.site.report"].time, "sleep", wait)
    run.start()
    going.wait(60)
    try:
        report(tmp_path / "run", out=tmp_path / "site", watch=True, **FEW)
    finally:
        written.set()
        run.join(60)
    assert [(watched, state) for watched, _, _, state in seen] == [(True, "going")] * 2
    assert all(stamp == own for _, stamp, own, _ in seen)
    assert seen[0][1] != seen[1][1]
    facts = shard(tmp_path / "site", "site")
    assert (facts["watched"], facts["method"]["runs"][0]["state"]) == (False, "finished")
    assert [one["trials"] for one in facts["sets"][0]["observers"]] == [12, 12]


def test_disagree_opens_the_view_of_the_first_line(cosight, few, tmp_path, monkeypatch):
    from cosight.trials import write

    write(few, tmp_path / "few.parquet")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr("cosight.reports.site.report", partial(report, resamples=20))
    done = cosight("disagree", tmp_path / "few.parquet", "--only", "model:vgg16", "--open")
    assert done.code == 0, done.err
    assert opened == [(tmp_path / "report" / "index.html").as_uri() + "#/disagree?a=model%3Avgg16&b=people&cell=01"]
