"""Score rows and stimulus sets in public interchange formats, read back with the libraries of these formats."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas
import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from PIL import Image as Pillow

import cosight
from cosight.errors import InvalidInput
from cosight.export import _quoted
from cosight.statistics.rows import Row, Scores
from cosight.trials.manifest import manifest_frame, write_manifest


def fields_of(required, more=None, *, others=True):
    """The JSON schema of an object."""
    properties = {**required, **(more or {})}
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": others}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
BOUND = {"anyOf": [NUMBER, {"enum": ["Infinity", "-Infinity"]}]}
# Required fields, types and enumerations of eval.schema.json 0.3.0 (github.com/evaleval/every_eval_ever, 2026-08-13)
EVERY_EVAL_EVER = fields_of(
    {
        "schema_version": {"const": "0.3.0"},
        "evaluation_id": TEXT,
        "retrieved_timestamp": TEXT,
        "source_metadata": fields_of(
            {
                "source_type": {"enum": ["documentation", "evaluation_run"]},
                "source_organization_name": TEXT,
                "evaluator_relationship": {"enum": ["first_party", "third_party", "collaborative", "other"]},
            },
            {"source_name": TEXT},
        ),
        "model_info": fields_of(
            {
                "name": TEXT,
                "id": TEXT,
                "additional_details": fields_of(
                    {
                        "deployment_type": {"enum": ["self_deployed", "externally_managed", "unknown"]},
                        "model_availability": {"enum": ["open_weights", "closed_weights", "unknown"]},
                    }
                ),
            },
            {"developer": TEXT},
        ),
        "eval_library": fields_of({"name": TEXT, "version": TEXT}),
        "evaluation_results": {
            "type": "array",
            "items": fields_of(
                {
                    "evaluation_name": TEXT,
                    "source_data": {
                        "oneOf": [
                            fields_of({"dataset_name": TEXT, "source_type": {"const": "other"}}),
                            fields_of(
                                {
                                    "dataset_name": TEXT,
                                    "source_type": {"const": "url"},
                                    "url": {"type": "array", "items": TEXT, "minItems": 1},
                                }
                            ),
                        ]
                    },
                    "metric_config": fields_of(
                        {"lower_is_better": {"type": "boolean"}, "min_score": BOUND, "max_score": BOUND},
                        {"score_type": {"const": "continuous"}, "metric_id": TEXT, "additional_details": TEXTS},
                    ),
                    "score_details": fields_of(
                        {"score": NUMBER},
                        {
                            "details": TEXTS,
                            "uncertainty": fields_of(
                                {},
                                {
                                    "confidence_interval": fields_of(
                                        {"lower": NUMBER, "upper": NUMBER}, {"confidence_level": NUMBER}
                                    ),
                                    "num_samples": {"type": "integer"},
                                },
                            ),
                        },
                    ),
                },
                {"evaluation_result_id": TEXT},
            ),
        },
    },
    {"evaluation_timestamp": TEXT},
    others=False,
)


@pytest.fixture(scope="module")
def compared():
    """Rows of all kinds: values, pairs, ceilings, ranks, differences; three models and ten people."""
    scores = cosight.compare("sample:edges", only=["model:alexnet", "model:vgg16", "model:resnet50"], resamples=50)
    assert {row.statistic for row in scores.rows} >= {"value", "rank", "difference"}
    return scores


def models_values(scores):
    return {
        (row.observer, row.measure): row.value
        for row in scores.rows
        if row.statistic == "value" and row.observer.startswith("model:") and row.value is not None
        if row.against in (None, "people")
    }


def records_of(result):
    return [json.loads(path.read_text(encoding="utf-8")) for path in result.files]


def test_every_eval_ever_has_each_models_values_and_intervals(compared, tmp_path):
    result = cosight.export.every_eval_ever(
        compared, benchmark="edges", evaluator="My lab", out=tmp_path, url="https://example.org/edges"
    )
    values = {}
    for record in records_of(result):
        Draft7Validator(EVERY_EVAL_EVER).validate(record)
        for entry in record["evaluation_results"]:
            measure = entry["metric_config"]["metric_id"].removeprefix("cosight.")
            values[record["model_info"]["name"], measure] = entry["score_details"]["score"]
            interval = entry["score_details"]["uncertainty"]["confidence_interval"]
            assert interval["lower"] <= entry["score_details"]["score"] <= interval["upper"]
            assert interval["confidence_level"] == 0.95  # the scores know their settings
    assert values == models_values(compared)
    assert result.rows == len(values)
    assert result.rows + result.left_out == len(compared.rows)


def test_the_same_rows_give_the_same_records(compared, tmp_path):
    rows = tmp_path / "rows.parquet"
    compared.to_polars().write_parquet(rows)
    os.utime(rows, (1_790_000_000, 1_790_000_000))
    options = {"benchmark": "edges", "evaluator": "My lab", "out": tmp_path / "records"}
    first = cosight.export.every_eval_ever(rows, **options)
    before = {path: path.read_bytes() for path in first.files}
    assert cosight.export.every_eval_ever(rows, **options) == first
    assert {path: path.read_bytes() for path in (tmp_path / "records").rglob("*.json")} == before
    record = records_of(first)[0]
    assert record["retrieved_timestamp"] == "1790000000"
    interval = record["evaluation_results"][0]["score_details"]["uncertainty"]["confidence_interval"]
    assert "confidence_level" not in interval  # a file of rows does not have it


def test_what_is_no_result_of_a_model_is_left_out(tmp_path):
    rows = (
        Row(observer="timm:resnet18", measure="accuracy", value=0.5, n=10),
        Row(observer="timm:resnet18", measure="accuracy", value=None, flags=("undefined",), n=0),
        Row(observer="Best human", measure="accuracy", value=0.9, flags=("published",), n=10),
        Row(observer="human:1", measure="accuracy", value=0.9, n=10),
        Row(observer="simulated:p1", measure="accuracy", value=0.9, n=10),
        Row(observer="people", measure="accuracy", value=0.9, n=10),
        Row(observer="timm:resnet18", against="human:1", measure="error_consistency", value=0.1, n=10),
    )
    result = cosight.export.every_eval_ever(Scores(rows, {}), benchmark="b", evaluator="o", out=tmp_path)
    (record,) = records_of(result)
    assert (result.rows, result.left_out) == (1, 6)
    assert record["model_info"]["id"] == "timm/resnet18"
    assert record["model_info"]["additional_details"]["model_availability"] == "open_weights"
    assert "uncertainty" in record["evaluation_results"][0]["score_details"]
    with pytest.raises(InvalidInput, match="no row of the scores is a model's value"):
        cosight.export.every_eval_ever(Scores(rows[1:6], {}), benchmark="b", evaluator="o", out=tmp_path)


def test_unbounded_measures_and_names_that_are_no_file_names(tmp_path):
    rows = (
        Row(
            observer="../evil\n<b>:x/../y", measure="frechet_distance", value=70.0, n=10, group=(("condition", "a:b"),)
        ),
    )
    result = cosight.export.every_eval_ever(Scores(rows, {}), benchmark="../up", evaluator="o", out=tmp_path / "out")
    (record,) = records_of(result)
    Draft7Validator(EVERY_EVAL_EVER).validate(record)
    assert record["evaluation_results"][0]["metric_config"]["max_score"] == "Infinity"
    assert record["evaluation_results"][0]["metric_config"]["lower_is_better"] is True
    assert (tmp_path / "out").resolve() in result.files[0].resolve().parents
    assert not (tmp_path / "up").exists()


def test_eval_results_are_read_by_huggingface_hub(compared, tmp_path):
    from huggingface_hub import parse_eval_result_entries

    result = cosight.export.eval_results(compared, dataset="owner/edges", out=tmp_path, url="https://example.org")
    assert {path.parent.name for path in result.files} == {".eval_results"}
    expected, entries = models_values(compared), 0
    for path in result.files:
        for entry in parse_eval_result_entries(yaml.safe_load(path.read_text(encoding="utf-8"))):
            name = f"model:{path.parts[-3].removeprefix('model_')}"
            assert entry.value == expected[name, entry.task_id.split(":")[0]]
            assert (entry.dataset_id, entry.source_url) == ("owner/edges", "https://example.org")
            entries += 1
    assert entries == result.rows == len(expected)
    with pytest.raises(InvalidInput, match=r"edges.yaml exists; choose another folder, or --force"):
        cosight.export.eval_results(compared, dataset="owner/edges", out=tmp_path)


@given(st.text())
def test_every_text_survives_yaml(text):
    text = text.encode("utf-8", "ignore").decode()  # no half surrogates, which no file can have
    assert yaml.safe_load(f"value: {_quoted(text)}") == {"value": text}


@pytest.fixture
def stimuli(tmp_path):
    """A set with images of two formats, in folders and beside the manifest."""
    rows = []
    for index, file in enumerate(("images/cat/1.png", "images/dog/2.png", "images/3.jpg", "4.png")):
        path = tmp_path / "set" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(np.full((8, 8, 3), 50 * index, np.uint8)).save(path)
        rows.append(
            {"stimulus": f"digest{index}", "file": file, "image": path.name, "truth": "cat", "gold": [0.5, 0.5]}
        )
    write_manifest(tmp_path / "set", manifest_frame(rows), {})
    return tmp_path / "set"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:mlcroissant", "ignore::DeprecationWarning:rdflib")
def test_croissant_is_read_by_mlcroissant(stimuli, monkeypatch):
    import mlcroissant

    path = cosight.export.croissant(stimuli, license="CC-BY-4.0", creator="My lab", url="https://example.org/set")
    dataset = mlcroissant.Dataset(str(path))
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    # pandas reads Parquet with pyarrow, which cosight does not install: polars takes its place
    monkeypatch.setattr(pandas, "read_parquet", lambda file: pandas.DataFrame(pl.read_parquet(file).to_dicts()))
    records = list(dataset.records("stimuli"))
    assert [record["stimuli/file"].decode() for record in records] == pl.read_parquet(stimuli / "stimuli.parquet")[
        "file"
    ].to_list()
    assert records[0]["stimuli/gold"] == [0.5, 0.5]
    images = {record["images/file"].decode(): record["images/image"] for record in dataset.records("images")}
    assert {name: image.getpixel((0, 0))[0] for name, image in images.items()} == {
        "images/cat/1.png": 0,
        "images/dog/2.png": 50,
        "images/3.jpg": 100,
        "4.png": 150,
    }


def test_croissant_is_not_overwritten_unasked(stimuli):
    facts = {"license": "CC-BY-4.0", "creator": "My lab", "url": "https://example.org/set"}
    path = cosight.export.croissant(stimuli, **facts)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"croissant.json exists; use --force to overwrite it"):
        cosight.export.croissant(stimuli, **facts)
    assert cosight.export.croissant(stimuli, **facts, force=True).read_bytes() == before


EVERY = ["--benchmark", "b", "--evaluator", "o", "--out", "x"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["every-eval-ever", "gone.json", *EVERY], "gone.json is not a file"),
        (["every-eval-ever", "r.json", *EVERY, "--confidence", "95"], "--confidence is between 0 and 1, got 95"),
        (["eval-results", "rows.json", "--dataset", "edges", "--out", "x"], "named OWNER/NAME, got 'edges'"),
        (["croissant", ".", "--license", "x", "--creator", "y"], "has no manifest"),
    ],
)
def test_bad_input_is_one_line(cosight, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = cosight("export", *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert message in ended.err
    assert not list(Path(tmp_path).iterdir())
