"""Any closed-set task: many classes, most of them rare, through `compare` and `score`."""

import json

import numpy as np
import polars as pl
import pytest
from PIL import Image

from cosight import compare, evaluate, score
from cosight.measures import class_level_error_similarity, error_consistency, misclassification_agreement
from cosight.trials.spaces import label_spaces

OBSERVERS = ("human:1", "human:2", "model:a", "model:b")


def imbalanced(classes, stimuli, seed=0):
    """Truths that follow Zipf's law, and answers of four observers who err towards frequent classes."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, classes + 1) ** -1.5
    truth = rng.choice(classes, stimuli, p=share / share.sum())
    difficulty = rng.random(stimuli)
    answers = []
    for _ in OBSERVERS:
        wrong = rng.choice(classes, stimuli, p=share / share.sum())
        answers.append(np.where(0.6 * difficulty + 0.4 * rng.random(stimuli) > 0.55, wrong, truth))
    return truth, np.array(answers)


def test_a_hundred_classes_with_strong_imbalance():
    truth, answers = imbalanced(100, 1500)
    names = [f"c{code:02}" for code in range(100)]
    assert 0 in np.bincount(truth, minlength=100)  # some classes never occur
    assert np.bincount(truth).max() > 250
    frame = pl.DataFrame(
        [
            {"observer": observer, "kind": observer.split(":")[0], "image": f"{number}.png", "truth": names[true],
             "response": names[answers[row, number]]}
            for row, observer in enumerate(OBSERVERS) for number, true in enumerate(truth)
        ]
    )  # fmt: skip
    found = compare(frame, labels=",".join(names), resamples=30)
    rows = {(row.observer, row.against, row.measure): row for row in found.rows if row.statistic == "value"}
    a, person = answers[2], answers[0]
    expected = {
        "error_consistency": error_consistency(a == truth, person == truth),
        "misclassification_agreement": misclassification_agreement(a, person, truth),
        "class_level_error_similarity": class_level_error_similarity(a, person, truth, classes=range(100)),
    }
    for measure, value in expected.items():
        row = rows["model:a", "human:1", measure]
        assert row.value == pytest.approx(value.value)
        assert row.low < row.value < row.high
    scored = score(frame, labels=",".join(names), measure="accuracy", resamples=30)
    assert {row.observer: row.value for row in scored.rows}["model:a"] == pytest.approx((a == truth).mean())
    by_class = compare(frame, labels=",".join(names), measure="accuracy", by="truth", resamples=5)
    assert len({row.group for row in by_class.rows}) == len(np.unique(truth)) + 1  # and the mean over classes


def test_activities_in_videos_by_column_mapping(tmp_path, cosight):
    """87 activities, as in MPII Cooking: clips, annotators and their columns under names of their own."""
    truth, answers = imbalanced(87, 600, seed=1)
    names = [f"activity {code}" for code in range(87)]
    rows = [
        {"annotator": observer, "clip": f"s{number // 40}/clip{number}.avi", "predicted": names[answers[row, number]],
         "activity": names[true], "seconds": 1.5}
        for row, observer in enumerate(OBSERVERS) for number, true in enumerate(truth)
    ]  # fmt: skip
    pl.DataFrame(rows).write_csv(tmp_path / "video.csv")
    columns = "observer=annotator,image=clip,response=predicted,truth=activity,rt=seconds"
    table = tmp_path / "video.parquet"
    done = cosight(
        "trials", "convert", tmp_path / "video.csv", table, "--columns", columns, "--experiment", "cooking",
        "--labels", ",".join(names),
    )  # fmt: skip
    assert done.code == 0, done.err
    done = cosight("compare", table, "--resamples", "20", "--json")
    assert done.code == 0, done.err
    values = {(row["observer"], row["against"], row["measure"]): row for row in json.loads(done.out)}
    expected = class_level_error_similarity(answers[2], answers[1], truth, classes=range(87)).value
    assert values["model:a", "human:2", "class_level_error_similarity"]["value"] == pytest.approx(expected)
    done = cosight("score", table, "--measure", "accuracy", "--resamples", "20", "--json")
    assert done.code == 0, done.err
    assert {row["observer"] for row in json.loads(done.out)} >= set(OBSERVERS)


def test_the_200_classes_of_imagenet_a(mirror, tmp_path):
    """Two classifiers with 1,000 outputs on class folders by WordNet id, compared in the label space of 200 classes."""
    space = label_spaces["imagenet-a-200"]
    rng = np.random.default_rng(0)
    for name in space.classes[::25]:
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(2):
            grey = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(grey).resize((160, 160)).save(tmp_path / "photos" / name / f"{number}.png")
    models = [f"onnx:{mirror}/weights/imagenet-onnx/mobilenet_v1_{size}.onnx" for size in ("025_128", "050_160")]
    run = evaluate(*models, on=tmp_path / "photos", labels="imagenet-a-200", out=tmp_path / "run")
    trials = run.trials()
    assert trials.space is not None
    assert trials.space.classes == space.classes
    assert len(trials) == 2 * 2 * 8
    assert set(trials.frame["truth"]) == set(space.classes[::25])
    assert set(trials.frame["response"]) <= set(space.classes)
    probabilities = np.array(trials.frame["probabilities"].to_list())
    assert probabilities.shape == (32, 200)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    found = compare(run, measure="accuracy,cles,soc", resamples=20)
    pair = next(row for row in found.rows if row.measure == "class_level_error_similarity")
    first, second = (trials.only(name).frame.sort("truth", "image") for name in (pair.observer, pair.against))
    classes = {name: code for code, name in enumerate(space.classes)}
    a, b, truth = (
        [classes[name] for name in column] for column in (first["response"], second["response"], first["truth"])
    )
    assert pair.value == pytest.approx(class_level_error_similarity(a, b, truth, classes=range(200)).value)
