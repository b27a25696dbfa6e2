"""Representation alignment: the table's numbers from known answers, and a small version of the real experiment."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow

import cosight.study
from cosight.benchmarks import build
from cosight.benchmarks.representation.panels import panel_rows, write_panels
from cosight.benchmarks.representation.results_table import ALL_SEEDS, TABLE, representation_table
from cosight.benchmarks.table_layout import best_line_text
from cosight.cli.tables import print_benchmark
from cosight.errors import InvalidInput
from cosight.models.judges.answer_tasks import judge
from cosight.reports.figures import figure
from cosight.scoring.score import score
from cosight.statistics.rows import PEOPLE, SIMULATED
from cosight.stimuli.images import read_image
from cosight.trials import label_spaces
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import make_trials

pytestmark = pytest.mark.usefixtures("one_torch_thread")
TARGETS = 24
# model -> share of noise and image seeds that the judge matches; every fourth inversion of `weak` has not converged
SHARES = {"strong": {"noise": 0.5, "image": 1.0}, "weak": {"noise": 0.0, "image": 0.25}}


def trial(observer, kind, stimulus, right, options, **extra):
    truth = options[0]
    response = None if right is None else truth if right else options[1]
    facts = {"options": options, **extra}
    row = {"observer": observer, "kind": kind, "experiment": "2afc", "stimulus": stimulus, "truth": truth}
    return {**row, "response": response, "role": "test", "extra": json.dumps(facts)}


def choices(observer="lpips", kind="judge", *, flip=()):
    """Answers to 2AFC and clustering tasks about 24 targets of two models; targets in `flip` are answered otherwise."""
    rows = []
    for model, shares in SHARES.items():
        for start, share in shares.items():
            for number in range(TARGETS):
                reached = 0.15 if model == "weak" and number % 4 == 0 else 0.04
                query = f"{model}-{start}-{number}"
                facts = {"query": query, "model": model, "start": start, "distance": reached, "targets": "photos"}
                right = (number < share * TARGETS) != (number in flip)
                options = [f"t{number}", f"seed-{start}-{number}"]
                rows.append(trial(observer, kind, f"2afc-{query}", right, options, **facts))
                panel = f"panel-{model}-{number // 3}"
                others = [f"t{n}" for n in range(number // 3 * 3, number // 3 * 3 + 3) if n != number]
                rows.append(
                    trial(observer, kind, f"{panel}/{query}", right, [f"t{number}", *others], panel=panel, **facts)
                )
    return rows


def scored(*tables, resamples=200):
    frame = pl.DataFrame([row for table in tables for row in table])
    return score(make_trials(frame), on="representation", resamples=resamples)


def value(scores, observer, measure="two_alternative_share", statistic="value", against=None, **group):
    (row,) = (
        row
        for row in scores.rows
        if (row.observer, row.measure, row.statistic, row.against) == (observer, measure, statistic, against)
        and all(row.in_group(name) == text for name, text in group.items())
    )
    return row


LPIPS = {"judge": "lpips", "distance": "0.1"}


def test_shares_by_model_and_seeds_with_intervals():
    scores = scored(choices())
    for model, shares in SHARES.items():
        for start, share in shares.items():
            row = value(scores, model, seeds=start, **{**LPIPS, "distance": "any"})
            assert (row.value, row.n, row.clusters) == (share, TARGETS, TARGETS)
            assert row.low <= share <= row.high
    mean = value(scores, "strong", seeds=ALL_SEEDS, **LPIPS)
    assert (mean.value, mean.n, mean.clusters) == (0.75, 48, TARGETS)
    assert mean.low < mean.value < mean.high
    panels = value(scores, "strong", "clustering_share", seeds="image", **LPIPS)
    assert (panels.value, panels.n, panels.clusters) == (1.0, TARGETS, TARGETS // 3)
    assert "few_clusters" in panels.flags


def test_unconverged_inversions_count_neither_way_unless_asked():
    scores = scored(choices())
    row = value(scores, "weak", seeds="image", **LPIPS)
    matched = [number for number in range(6) if number % 4]  # the first six are matched, every fourth is left out
    assert row.n == 18
    assert row.value == pytest.approx(len(matched) / 18)
    assert value(scores, "weak", seeds="image", judge="lpips", distance="0.2").n == TARGETS
    assert value(scores, "weak", seeds="image", judge="lpips", distance="0.05").n == 18
    converged = value(scores, "weak", "converged_share", seeds="image", distance="0.1")
    assert (converged.value, converged.n) == (0.75, TARGETS)
    assert "largest 0.150" in converged.note


def with_distances(rows, unconverged):
    """The same answers; inversions for which `unconverged(model, start, number)` is true are far from their target."""
    table = []
    for row in rows:
        facts = json.loads(row["extra"])
        number = int(facts["query"].rpartition("-")[2])
        distance = 0.3 if unconverged(facts["model"], facts["start"], number) else 0.04
        table.append({**row, "extra": json.dumps({**facts, "distance": distance})})
    return table


def test_the_mean_over_seeds_does_not_depend_on_how_many_of_each_kind_have_converged():
    few = with_distances(choices(), lambda model, start, number: model == "strong" and start == "noise" and number % 6)
    scores = scored(few)
    noise = value(scores, "strong", seeds="noise", **LPIPS)
    assert (noise.value, noise.n) == (0.5, 4)
    for measure in ("two_alternative_share", "clustering_share"):
        mean = value(scores, "strong", measure, seeds=ALL_SEEDS, **LPIPS)
        assert (mean.value, mean.n) == (0.75, 28)  # all 28 together: 26 / 28
    assert value(scores, "strong", seeds=ALL_SEEDS, **LPIPS).clusters == 4
    difference = value(scores, "strong", statistic="difference", against="weak", seeds=ALL_SEEDS, **LPIPS)
    assert difference.value == pytest.approx(0.75 - 0.125)


def test_there_is_no_mean_over_seeds_without_one_of_the_kinds(tmp_path, capsys):
    """A share from images is not compared with means over images and noise."""
    table = with_distances(choices(), lambda model, start, number: (model, start) == ("weak", "noise"))
    people = [with_distances(choices(f"human:{n}", "human"), lambda m, s, n: (m, s) == ("weak", "noise")) for n in "ab"]
    scores = scored(table, *people, resamples=20)
    for name in ("lpips", PEOPLE):
        row = value(scores, "weak", seeds=ALL_SEEDS, judge=name, distance="0.1")
        assert row.value is None
        assert "undefined" in row.flags
        assert row.note.endswith("undefined: nothing converged from noise seeds")
    assert value(scores, "weak", seeds="image", **LPIPS).value == 0.25
    assert value(scores, "weak", seeds=ALL_SEEDS, judge="lpips", distance="any").value == 0.125
    kinds = {row.in_group("seeds") for row in scores.rows if row.statistic in ("difference", "sd")}
    assert kinds == {"image", "noise", ALL_SEEDS}
    compared = [row for row in scores.rows if row.statistic == "difference" and row.in_group("distance") == "0.1"]
    assert {row.in_group("seeds") for row in compared} == {"image"}
    drawn = figure("representation-loss", with_losses(scores), out=tmp_path / "loss.svg").read_text()
    assert "not shown: weak (no converged inversion from noise seeds)" in drawn
    print_benchmark(TABLE, scores)
    assert "weak, photos, noise: 0 of 24 inversions converged" in " ".join(capsys.readouterr().out.split())


def with_losses(scores):
    """The same rows, as if a checkpoint had named the loss of each model."""
    return replace(scores, rows=tuple(replace(row, group=(*row.group, ("loss", row.observer))) for row in scores.rows))


def test_models_are_compared_on_the_same_targets():
    scores = scored(choices())
    row = value(scores, "strong", statistic="difference", against="weak", seeds="image", **LPIPS)
    assert row.value == pytest.approx(1 - 4 / 18)
    assert row.low > 0
    assert row.p < 0.05


def test_ties_are_no_answers():
    table = choices()
    for row in table:
        if row["stimulus"].startswith("2afc-strong-image") and row["stimulus"].endswith(("1", "2")):
            row["response"] = None
    row = value(scored(table), "strong", seeds="image", **LPIPS)
    assert (row.value, row.n) == (1.0, 18)


@pytest.mark.parametrize(("kind", "group"), [("human", PEOPLE), ("simulated", SIMULATED)])
def test_people_are_pooled_with_the_spread_over_annotators(kind, group):
    people = [choices(f"{kind}:{n}", kind, flip=range(n)) for n in range(4)]
    scores = scored(choices(), *people)
    row = value(scores, "strong", seeds="image", judge=group, distance="0.1")
    assert row.value == pytest.approx(np.mean([1, 23 / 24, 22 / 24, 21 / 24]))
    assert ("simulated" in row.flags) == (group == SIMULATED)
    spread = value(scores, "strong", statistic="sd", seeds="image", judge=group, distance="0.1")
    assert spread.value == pytest.approx(np.std([1, 23 / 24, 22 / 24, 21 / 24]))
    assert spread.note == "over 4 annotators"
    spread = value(scores, "strong", statistic="sd", seeds=ALL_SEEDS, judge=group, distance="0.1")
    assert spread.value == pytest.approx(np.std([(24 + 12 - 2 * n) / 48 for n in range(4)]))


def test_accuracy_and_sides_in_a_contest():
    classes = ["cat", "dog", "fox"]
    answers = [
        trial("strong", "model", f"{images}/{n}", n < right, classes, images=images, image=f"i{n}")
        for images, right in (("clean", 8), ("robust", 5))
        for n in range(10)
    ]
    sides = [
        trial(
            "lpips", "judge", f"contest-{n}-{start}", n < 20, [f"x{n}", f"y{n}"],
            query=f"t{n}", contest="strong / weak", start=start, pairwise=[0.1, 0.3],
        )
        for n in range(25)
        for start in range(2)
    ]  # fmt: skip
    scores = scored(choices(), answers, sides)
    assert value(scores, "strong", "accuracy", images="clean").value == 0.8
    assert value(scores, "strong", "accuracy", images="robust").value == 0.5
    side = value(scores, "strong", contest="strong / weak")
    assert (side.value, side.n, side.clusters) == (0.8, 50, 25)
    assert side.low > 0.5
    other = value(scores, "weak", contest="strong / weak")
    assert (other.value, other.low, other.high) == pytest.approx((0.2, 1 - side.high, 1 - side.low))
    assert value(scores, "weak", "pairwise_distance", contest="strong / weak").value == pytest.approx(0.3)
    difference = value(scores, "strong", "pairwise_distance", "difference", "weak", contest="strong / weak")
    assert difference.value == pytest.approx(-0.2)


def test_the_table_has_a_section_per_judge_and_a_line_per_model():
    table = representation_table(scored(choices(), *[choices(f"human:{n}", "human") for n in range(4)]))
    assert [(line.heading, line.model) for line in table.lines] == [
        ("lpips", "strong"),
        ("lpips", "weak"),
        (PEOPLE, "strong"),
        (PEOPLE, "weak"),
    ]
    titles = [column.title for column in table.columns]
    assert titles == ["2AFC", "2AFC image", "2AFC noise", "clustering", "clustering image", "clustering noise"]
    assert table.lines[0].cells[1].value == 1.0


def test_a_narrow_terminal_shows_no_empty_table(monkeypatch, capsys):
    """Without accuracies all columns are in the first tables."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_benchmark(TABLE, scored(choices(), resamples=20))
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert "model" not in lines


def test_more_than_two_models_meet_in_a_tournament():
    models = ("strong", "weak", "third")
    sides = [
        trial(
            "lpips", "judge", f"{first}-{second}-{n}", n < right, [f"x{n}", f"y{n}"],
            query=f"t{n}", contest=f"{first} / {second}", start=0,
        )
        for first, second, right in (("strong", "weak", 9), ("strong", "third", 6), ("third", "weak", 8))
        for n in range(10)
    ]  # fmt: skip
    found = scored(choices(), sides)
    table = representation_table(found)
    assert TABLE.headline(found) == ""
    assert best_line_text(table).startswith("Best in 2AFC, by lpips: strong ")
    assert TABLE.headline(scored(sides)) == (
        "lpips sides with strong against third 0.600 [0.291, 0.858], weak 0.900 [0.597, 0.995]."
    )
    assert TABLE.headline(scored(sides[12:20])) == "lpips sides with no model against all others."
    column = {column.title: index for index, column in enumerate(table.columns)}
    lines = {line.model: line for line in table.lines}
    assert set(lines) == set(models)
    shares = {(a, b): lines[a].cells[column[f"against {b}"]].value for a in models for b in models if a != b}
    assert shares["strong", "weak"] == 0.9
    assert shares["weak", "strong"] == pytest.approx(0.1)
    assert shares["weak", "third"] == pytest.approx(0.2)
    assert lines["weak"].cells[column["against weak"]].value is None
    assert lines["strong"].cells[column["against third"]].ends[0] < 0.6


def test_figures_show_models_by_seeds_and_against_robust_accuracy(tmp_path):
    answers = [
        trial(model, "model", f"robust/{n}", n < right, ["cat", "dog"], images="robust", image=f"i{n}")
        for model, right in (("strong", 6), ("weak", 1))
        for n in range(10)
    ]
    scores = scored(choices(), answers)
    bars = figure("representation-bars", scores, out=tmp_path / "bars.svg").read_text()
    dots = figure("representation-robustness", scores, out=tmp_path / "dots.svg").read_text()
    for text in ("strong", "weak", "noise seeds", "clustering, lpips"):
        assert text in bars
    assert "robust accuracy" in dots
    with pytest.raises(InvalidInput, match="no model with two_alternative_share and robust accuracy"):
        figure("representation-robustness", scored(choices()), out=tmp_path / "no.svg")
    with pytest.raises(InvalidInput, match="no shares of converged inversions"):
        figure("representation-bars", score("sample:edges", measure="accuracy", resamples=5), out=tmp_path / "no.svg")


FACTORS = """
[loss]
adversarial = ["STRONG"]
standard = ["weak"]
[architecture]
ResNet-20 = ["*"]
"""


def with_training(rows, **of_model):
    """The same answers about models whose checkpoints say how they were trained."""
    out = []
    for row in rows:
        facts = json.loads(row["extra"])
        training = of_model.get(facts["model"])
        out.append({**row, "extra": json.dumps({**facts, **({"training": training} if training else {})})})
    return out


def test_factors_of_training_come_from_checkpoints_and_from_a_file(tmp_path):
    (tmp_path / "networks.toml").write_text(FACTORS)
    table = with_training(choices(), strong={"loss": "TRADES", "paradigm": "supervised"})
    frame = make_trials(pl.DataFrame(table))
    declared = score(frame, on="representation", resamples=5)
    assert value(declared, "strong", seeds="image", **LPIPS).in_group("loss") == "TRADES"
    assert value(declared, "weak", seeds="image", **LPIPS).in_group("loss") is None
    given = score(frame, on="representation", families=str(tmp_path / "networks.toml"), resamples=5)
    assert value(given, "strong", seeds="image", loss="adversarial", paradigm="supervised", **LPIPS).value == 1.0
    assert value(given, "weak", "clustering_share", seeds="image", loss="standard", **LPIPS).n == 18
    plain = representation_table(scored(choices(), resamples=5))
    for scores in (declared, given):  # the table does not depend on them
        assert [column.title for column in representation_table(scores).columns] == [c.title for c in plain.columns]
    assert given.settings["families"] == [str(tmp_path / "networks.toml")]
    pairs = score(frame, on="representation", families="str*=mine", resamples=5)
    assert value(pairs, "strong", seeds="image", family="mine", **LPIPS).value == 1.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[seeds]\na = ["*"]', "'seeds' cannot be the name of a factor"),
        ('["a;b"]\na = ["*"]', "'a;b' cannot be the name of a factor"),
        ('loss = "standard"', "loss must be a table, got 'standard'"),
        ('[loss]\nstandard = "*"', r"loss.standard must be a list of texts, got '\*'"),
    ],
)
def test_files_of_factors_are_checked(tmp_path, text, said):
    (tmp_path / "networks.toml").write_text(text)
    with pytest.raises(InvalidInput, match=said):
        score(make_trials(pl.DataFrame(choices())), on="representation", families=str(tmp_path / "networks.toml"))


def test_figures_group_models_by_factors_of_training(tmp_path):
    (tmp_path / "networks.toml").write_text(FACTORS)
    frame = make_trials(pl.DataFrame(choices()))
    scores = score(frame, on="representation", families=str(tmp_path / "networks.toml"), resamples=5)
    drawn = figure("representation-loss", scores, out=tmp_path / "loss.svg").read_text()
    for text in ("adversarial", "standard", "ResNet-20", "2AFC, lpips", "clustering, lpips"):
        assert text in drawn
    assert "not shown" not in drawn
    with pytest.raises(InvalidInput, match="do not say the paradigm of a model with converged inversions; name it in"):
        figure("representation-paradigm", scores, out=tmp_path / "no.svg")
    half = with_training(choices(), strong={"augmentation": "with"})
    drawn = figure("representation-augmentation", scored(half, resamples=5), out=tmp_path / "half.svg").read_text()
    assert "not shown: weak (augmentation not known)" in drawn


def test_figures_say_which_models_they_leave_out(tmp_path):
    table = with_distances(choices(), lambda model, start, number: model == "weak")
    answers = [
        trial(model, "model", f"robust/{n}", n < 5, ["cat", "dog"], images="robust", image=f"i{n}")
        for model in ("strong", "weak")
        for n in range(10)
    ]
    scores = scored(table, answers, resamples=5)
    for name in ("representation-bars", "representation-robustness"):
        drawn = figure(name, scores, out=tmp_path / f"{name}.svg").read_text()
        assert "not shown: weak (no converged inversion)" in drawn
    alone = scored(choices(), answers[:10], resamples=5)
    drawn = figure("representation-robustness", alone, out=tmp_path / "alone.svg").read_text()
    assert "not shown: weak (no robust accuracy)" in drawn


def test_people_count_on_tasks_that_no_judge_answered():
    people = [row for n in range(4) for row in choices(f"human:{n}", "human")]
    judged = [row for row in choices() if "panel" not in json.loads(row["extra"])]
    accuracy = [trial("strong", "model", "clean/1", True, ["cat", "dog"], images="clean", image="i")]
    scores = scored(people, judged, accuracy, resamples=20)
    of_people = {"judge": PEOPLE, "distance": "0.1", "seeds": "image"}
    assert value(scores, "strong", "clustering_share", **of_people).value == 1.0
    assert not [text for text in scores.notices if "match people's" in text or "left out" in text]


def test_remarks_and_spread_are_worded_for_this_table():
    remarks = [text for text, _ in TABLE.remarks(scored(choices(), resamples=20))]
    assert any("2AFC at any distance: strong" in text for text in remarks)
    assert TABLE.spread == "people"


def test_a_contest_has_no_verdict_about_people(capsys):
    facts = {"query": "t", "contest": "strong / weak", "start": 0, "pairwise": [0.1, 0.3]}
    judges = [("lpips", "judge"), ("human:a", "human"), ("human:b", "human")]
    trials = [trial(name, kind, "contest-1", True, ["x", "y"], **facts) for name, kind in judges]
    print_benchmark(TABLE, scored(trials, resamples=20))
    shown = capsys.readouterr().out
    assert "lpips sides with strong against weak" in shown
    assert "people side with strong against weak" in shown
    assert "no people among these observers" not in shown


def on_other_sets(right, *, people=()):
    """Trials on 60 images with the label distributions of a model that is right on the first `right` of them."""
    rows = []
    for observer, kind, count in [*((name, "model", n) for name, n in right.items()), *people]:
        for number in range(60):
            answer = ["cat", "dog"][number >= count]
            row = {"observer": observer, "kind": kind, "experiment": "photos", "stimulus": f"p{number}"}
            probabilities = [0.9, 0.1] if answer == "cat" else [0.2, 0.8]
            rows.append({**row, "truth": "cat", "response": answer, "probabilities": probabilities, "role": "test"})
    return make_trials(pl.DataFrame(rows), space=LabelSpace("given", ("cat", "dog")))


def test_other_trials_of_the_models_join_the_table(capsys):
    """Hellinger distance and error consistency of the same models, with differences; judges are not mixed in."""
    people = [(f"human:{n}", "human", 50) for n in range(3)]
    others = on_other_sets({"strong": 48, "weak": 20}, people=people)
    alone = score(others, measure="hellinger", resamples=200)
    scores = score(make_trials(pl.DataFrame(choices())), others, on="representation", resamples=200)
    for model in SHARES:
        row = value(scores, model, "hellinger", against=PEOPLE, experiment="photos")
        assert row.value == pytest.approx(value(alone, model, "hellinger", against=PEOPLE).value)
        assert row.low < row.value < row.high
        assert value(scores, model, seeds="image", **LPIPS).n > 0
    strong, weak = (
        value(scores, model, "error_consistency", against=PEOPLE, experiment="photos") for model in ("strong", "weak")
    )
    assert strong.value > weak.value
    assert value(scores, "strong", "accuracy", experiment="photos").value == 0.8
    difference = value(scores, "strong", "hellinger", "difference", against="weak", experiment="photos")
    assert difference.high < 0
    table = representation_table(scores)
    titles = [column.title for column in table.columns]
    assert titles[-3:] == ["photos Hellinger", "photos EC", "photos accuracy"]
    assert all(cell.value is not None for line in table.lines for cell in line.cells[-3:])
    assert {line.model for line in table.lines} == set(SHARES)
    print_benchmark(TABLE, scores)
    shown = " ".join(capsys.readouterr().out.split())
    lead = f"{-difference.value:.3f} [{-difference.high:.3f}, {-difference.low:.3f}]"
    assert f"photos Hellinger: strong is closer to people than weak: {lead}" in shown  # less is closer
    assert "photos EC: strong is more consistent with people than weak: 0." in shown
    assert "photos accuracy: strong is more accurate than weak: 0.467" in shown


def test_models_that_do_not_differ_clearly_are_not_ranked():
    others = on_other_sets({"strong": 30, "weak": 29})
    scores = score(make_trials(pl.DataFrame(choices())), others, on="representation", resamples=200)
    texts = [text for text, _ in TABLE.remarks(scores)]
    assert "photos accuracy: no clear difference, strong minus weak" in texts


def test_shape_bias_of_cue_conflict_trials_joins_the_table():
    rows = choices()
    for row in rows:
        row["extra"] = row["extra"].replace('"strong"', '"model:alexnet"').replace('"weak"', '"model:resnet50"')
    scores = score(make_trials(pl.DataFrame(rows)), "sample:cue-conflict", on="representation", resamples=20)
    for model in ("model:alexnet", "model:resnet50"):
        assert 0 < value(scores, model, "shape_bias", experiment="cue-conflict").value < 1
        assert value(scores, model, "error_consistency", against=PEOPLE, experiment="cue-conflict").low is not None


def test_tasks_without_their_set_are_refused():
    alone = [{**row, "extra": json.dumps({"query": "q", "options": ["t0", "s0"]})} for row in choices()[:1]]
    with pytest.raises(InvalidInput, match="name their stimulus set too: `cosight score TRIALS SET --on"):
        scored(alone)


def test_trials_without_tasks_are_refused():
    with pytest.raises(InvalidInput, match="the table needs answers to 2AFC or clustering tasks"):
        scored([trial("m", "model", "clean/1", True, ["cat", "dog"], images="clean", image="i")])


# ---- the experiment itself, small


@pytest.fixture(scope="module")
def cifar(mirror, tmp_path_factory):
    """Forty of CIFAR-10's test images in class folders."""
    pixels = np.asarray(Pillow.open(mirror / "cifar10/test_images.png").crop((0, 0, 1024, 40))).reshape(40, 32, 32, 3)
    labels = json.loads((mirror / "cifar10/test_labels.json").read_text())[:40]
    names = label_spaces["cifar-10"].classes
    root = tmp_path_factory.mktemp("cifar") / "photos"
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        (root / names[label]).mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(image).save(root / names[label] / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def small(cifar, mirror, tmp_path_factory):
    """Six targets, fifteen steps; the two networks of the mirror."""
    out = tmp_path_factory.mktemp("representation") / "small"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSIGHT_MIRROR", str(mirror))
        return build(
            "representation",
            str(cifar),
            str(out),
            model=[network(mirror, name) for name in ("standard-resnet20", "adversarial-l2-resnet20")],
            limit=6,
            steps=15,
            accuracy=8,
            device="cpu",
        )


def network(mirror, name):
    return f"cosight:resnet20,checkpoint={mirror / 'weights/cifar10' / name}.safetensors,classes=cifar-10,name={name}"


def test_the_adversarially_trained_network_is_closer_to_the_judge(small):
    """All of it is in docs/explanation/representation-results.md; fifteen steps from images tell the networks apart."""
    scores = score(small.trials, on="representation", resamples=200)
    names = ("adversarial-l2-resnet20", "standard-resnet20")
    robust, standard = (value(scores, name, seeds="image", judge="lpips", distance="any") for name in names)
    assert robust.value > 0.5 > standard.value
    assert (robust.in_group("architecture"), robust.in_group("loss")) == ("resnet20", None)  # all that the file says
    panels = [
        value(scores, name, "clustering_share", seeds="image", judge="lpips", panels="random", distance="any")
        for name in names
    ]
    assert panels[0].value > panels[1].value
    clean = [value(scores, name, "accuracy", images="clean").value for name in names]
    attacked = [value(scores, name, "accuracy", images="robust").value for name in names]
    assert attacked[0] > attacked[1] == 0.0
    assert clean[1] > 0.8


def test_panels_show_targets_seeds_and_inversions_with_their_distances(small, tmp_path):
    stimuli = small.generated.stimuli
    rows = panel_rows(stimuli, targets=4)
    names = ["photos"]
    for start in ("image", "noise"):
        names += [f"seed: {start}", "adversarial-l2-resnet20", "standard-resnet20"]
    assert [row.name for row in rows] == names
    assert {len(row.pictures) for row in rows} == {4}
    reached = {
        round(json.loads(text)["distance"], 3) for text in stimuli.frame["parameters"] if "distance" in (text or "")
    }
    assert {float(caption) for caption, _ in rows[2].pictures} <= reached
    write_panels(stimuli, tmp_path / "panels.png")
    assert read_image(tmp_path / "panels.png").shape[0] > 7 * 96
    with pytest.raises(InvalidInput, match="panels show inversions or controversial stimuli"):
        panel_rows(replace(stimuli, frame=stimuli.frame.filter(pl.col("kind") == "target")))


def test_the_same_command_again_repeats_nothing(small, cifar, mirror, monkeypatch):
    monkeypatch.setenv("COSIGHT_MIRROR", str(mirror))
    root = small.trials.parent
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*.png")}
    again = build(
        "representation", cifar, root, model=[network(mirror, "standard-resnet20")], limit=6, steps=15, accuracy=8,
        device="cpu",
    )  # fmt: skip
    assert again.generated.new == 0
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.png")} == before


@pytest.mark.parametrize(("kind", "measure"), [("2afc", "two_alternative_share"), ("cluster", "clustering_share")])
def test_simulated_people_reproduce_the_judge_they_are_drawn_from(kind, measure, small, mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("COSIGHT_MIRROR", str(mirror))
    root = small.trials.parent
    study = cosight.study.new(tmp_path / "study", type=kind, stimuli=root, images=4, answers=1).root
    cosight.study.simulate(study, participants=20, observer="lpips", device="cpu", progress=False)
    people = cosight.study.read_trials(study)
    judged = judge(root, judge="lpips", device="cpu", progress=False).trials
    scores = score(make_trials(pl.concat([people.frame, judged.frame])), root, on="representation", resamples=100)
    alone = score(people, on="representation", resamples=5)  # answers say how their images were made, and which panels
    compared = 0
    for row in scores.rows:
        is_value = (row.measure, row.statistic, row.in_group("distance")) == (measure, "value", "any")
        if is_value and row.in_group("judge") == SIMULATED:
            group = {name: text for name, text in row.group if name != "judge"}
            expected = value(scores, row.observer, measure, judge="lpips", **group)
            assert row.low <= expected.value <= row.high
            assert "simulated" in row.flags
            own = value(alone, row.observer, measure, **dict(row.group))
            assert (own.value, own.n) == (row.value, row.n)
            compared += 1
    assert compared == (6 if kind == "2afc" else 12)  # two models; noise, image and all seeds; two kinds of panels


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": ["normal"]}, "--noise must be normal:MEAN/SD, got 'normal'"),
        ({"contest": 3, "model": ["timm:resnet18"]}, "--contest needs two models or more, got 1; add --model"),
        ({"eps": 0.0}, r"--eps must be a positive number, got 0\.0"),
        ({"judge": ["lpip"]}, "did you mean lpips"),
        ({"steps": 0}, "--steps must be a whole number, 1 to 1,000,000, got 0"),
        ({"model": ["onnx:net.onnx"]}, "net.onnx"),
    ],
)
def test_options_that_cannot_be_used_are_refused_first(options, words, tmp_path):
    (tmp_path / "photos").mkdir()
    Pillow.fromarray(np.zeros((32, 32, 3), np.uint8)).save(tmp_path / "photos" / "a.png")
    with pytest.raises(Exception, match=words) as refused:
        build("representation", tmp_path / "photos", tmp_path / "out", **{"model": [], **options})
    assert isinstance(refused.value, InvalidInput) or "did you mean" in str(refused.value)
    assert not (tmp_path / "out").exists()
