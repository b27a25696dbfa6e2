"""Results and stimulus sets in public interchange formats: the calls behind `cosight export`.

    import cosight

    scores = cosight.score("sample:cue-conflict", measure="shape_bias")
    cosight.export.every_eval_ever(scores, benchmark="cue-conflict", evaluator="My lab")

| call | format | validated in the tests with |
|---|---|---|
| `every_eval_ever` | aggregate records of Every Eval Ever, schema 0.3.0 | the fields and types of its JSON schema |
| `eval_results` | `.eval_results/*.yaml` of Hugging Face model repositories | huggingface_hub |
| `croissant` | Croissant 1.0, a description of a stimulus set | mlcroissant |

The first two write one file per model. They have the values of models alone and against people; people, differences,
ranks, ceilings, undefined values and values quoted from papers are left out and counted.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from uuid import UUID

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.measures import measures
from cosight.statistics.rows import GROUP_NAMES, Row, Scores, group_text, read_scores
from cosight.trials.manifest import MANIFEST, read_manifest

__all__ = ["ExportResult", "croissant", "eval_results", "every_eval_ever"]

Relationship = Literal["first_party", "third_party", "collaborative", "other"]

_SCHEMA_VERSION = "0.3.0"  # of Every Eval Ever's eval.schema.json
_PEOPLE = ("human:", "simulated:")  # how the names of people begin
_OPEN_WEIGHTS = ("timm", "torchvision", "openclip")  # model sources whose weights are public
_QUOTED = {"published", "sweep"}  # flags of rows that are no result of this evaluation
_FORMATS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
_CROISSANT = "croissant.json"
_TYPES: Mapping[Any, str] = {
    pl.String: "sc:Text",
    pl.Int64: "sc:Integer",
    pl.Float64: "sc:Float",
    pl.Boolean: "sc:Boolean",
}
# The terms of Croissant 1.0 (docs.mlcommons.org/croissant/docs/croissant-spec.html)
_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "citeAs": "cr:citeAs",
    "recordSet": "cr:recordSet",
    "field": "cr:field",
    "subField": "cr:subField",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "isArray": "cr:isArray",
    "arrayShape": "cr:arrayShape",
    "source": "cr:source",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "fileProperty": "cr:fileProperty",
    "extract": "cr:extract",
    "column": "cr:column",
    "includes": "cr:includes",
    "references": "cr:references",
    "data": {"@id": "cr:data", "@type": "@json"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "format": "cr:format",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "separator": "cr:separator",
    "transform": "cr:transform",
    "isLiveDataset": "cr:isLiveDataset",
}


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What was written.

    Attributes:
        files: The files, one per model.
        rows: The number of values in them.
        left_out: The number of rows that are not values of models, or are undefined or quoted.
    """

    files: tuple[Path, ...]
    rows: int
    left_out: int


def every_eval_ever(
    scores: str | Path | Scores,
    *,
    benchmark: str,
    evaluator: str,
    out: str | Path = "every-eval-ever",
    relationship: Relationship = "third_party",
    url: str | None = None,
    confidence: float | None = None,
) -> ExportResult:
    """Write score rows as records of Every Eval Ever, one JSON file per model.

    The files are `OUT/data/BENCHMARK/DEVELOPER/MODEL/UUID.json`, as its datastore has them. The UUID is derived from
    the record, so that the same rows give the same files.

    Args:
        scores: File of score rows that --out wrote (.json, .csv, .parquet), or a folder with scores.parquet. In Python
            also what `compare` and `score` return.
        benchmark: Name of the benchmark or data set that was scored.
        evaluator: Name of the organization or person that evaluated the models.
        out: Folder to write to. Existing records of the same content are replaced.
        relationship: How the evaluator relates to the models' developers.
        url: Address of the data set, if it is public.
        confidence: Confidence level of the intervals, if the file does not have it, as CSV files (default: not stated).

    Returns:
        The files, and how many rows were left out.

    Raises:
        InvalidInput: There is no value of a model in the rows.

    >>> rows = (Row(observer="timm:resnet18", measure="accuracy", value=0.5, low=0.4, high=0.6, n=100),)
    >>> done = every_eval_ever(Scores(rows, {}), benchmark="edges", evaluator="My lab")
    >>> done.files[0].parent.as_posix()
    'every-eval-ever/data/edges/timm/resnet18'
    """
    if confidence is not None and not 0 < confidence < 1:
        raise InvalidInput(f"--confidence is between 0 and 1, got {confidence}")
    by_model, left_out = _values_of_models(scores)
    written = _time_of(scores)
    confidence = read_scores(scores).settings.get("confidence", confidence)
    source: dict[str, Any] = {"dataset_name": benchmark, "source_type": "other"}
    if url is not None:
        source = {"dataset_name": benchmark, "source_type": "url", "url": [url]}
    files = []
    for observer, rows in by_model.items():
        developer, model = _developer_and_model(observer)
        record = {
            "schema_version": _SCHEMA_VERSION,
            "evaluation_id": f"{benchmark}/{developer}/{model}/{int(written.timestamp())}",
            "evaluation_timestamp": written.isoformat(),
            "retrieved_timestamp": str(int(written.timestamp())),
            "source_metadata": {
                "source_name": "cosight",
                "source_type": "evaluation_run",
                "source_organization_name": evaluator,
                "evaluator_relationship": relationship,
            },
            "eval_library": {"name": "cosight", "version": version("cosight")},
            "model_info": {
                "name": observer,
                "id": f"{developer}/{model}",
                "developer": developer,
                "additional_details": {
                    "deployment_type": "self_deployed" if developer in _OPEN_WEIGHTS else "unknown",
                    "model_availability": "open_weights" if developer in _OPEN_WEIGHTS else "unknown",
                },
            },
            "evaluation_results": [_result(row, benchmark, source, confidence) for row in rows],
        }
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        name = UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)
        path = Path(out, "data", _safe(benchmark), _safe(developer), _safe(model), f"{name}.json")
        files.append(_write(path, text))
    return ExportResult(tuple(files), sum(map(len, by_model.values())), left_out)


def eval_results(
    scores: str | Path | Scores,
    *,
    dataset: str,
    out: str | Path = "eval-results",
    url: str | None = None,
    force: bool = False,
) -> ExportResult:
    """Write score rows as evaluation results of Hugging Face model repositories, one YAML file per model.

    The files are `OUT/MODEL/.eval_results/DATASET.yaml`; copy the folder `.eval_results` to the model's repository.

    Args:
        scores: File of score rows that --out wrote (.json, .csv, .parquet), or a folder with scores.parquet. In Python
            also what `compare` and `score` return.
        dataset: The benchmark's data set on the Hub, as OWNER/NAME.
        out: Folder to write to.
        url: Address at which the evaluation is described.
        force: Overwrite existing files.

    Returns:
        The files, and how many rows were left out.

    Raises:
        InvalidInput: The data set's name has another form, a file exists, or no row has the value of a model.

    >>> rows = (Row(observer="timm:resnet18", measure="accuracy", value=0.5, low=0.4, high=0.6, n=100),)
    >>> done = eval_results(Scores(rows, {}), dataset="owner/edges")
    >>> print(done.files[0].read_text().splitlines()[3])
      value: 0.5
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", dataset):
        raise InvalidInput(f"a data set on the Hub is named OWNER/NAME, got {dataset!r}")
    by_model, left_out = _values_of_models(scores)
    date = _time_of(scores).isoformat()
    texts = {
        Path(out, _safe(observer), ".eval_results", f"{_safe(dataset.split('/')[1])}.yaml"): "".join(
            _yaml_entry(row, dataset, date, url) for row in rows
        )
        for observer, rows in by_model.items()
    }
    if not force:
        for path in texts:
            if path.exists():
                raise InvalidInput(f"{path} exists; choose another folder, or --force to overwrite it")
    files = tuple(_write(path, text) for path, text in texts.items())
    return ExportResult(files, sum(map(len, by_model.values())), left_out)


def croissant(
    stimuli: str | Path,
    *,
    license: str,  # noqa: A002
    creator: str,
    url: str | None = None,
    name: str | None = None,
    description: str | None = None,
    citation: str | None = None,
    force: bool = False,
) -> Path:
    """Describe a stimulus set as Croissant JSON-LD, so that data set search engines and mlcroissant can read it.

    Writes `croissant.json` next to the manifest. It lists the manifest with its checksum and columns, and the images.

    Args:
        stimuli: A stimulus set with a manifest.
        license: Address or SPDX name of the licence of the images.
        creator: Name of the person or organization that made the set.
        url: Address at which the set is published.
        name: Name of the set (default: the folder's name).
        description: What the set shows (default: numbers of stimuli and classes).
        citation: How to cite the set.
        force: Overwrite an existing croissant.json.

    Returns:
        The file.

    Raises:
        InvalidInput: The folder has no manifest, or the file exists.

    >>> croissant("nowhere", license="CC-BY-4.0", creator="Me")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: nowhere has no manifest (stimuli.parquet); name a set that `cosight stimuli` or
    `cosight build` wrote
    """
    root = Path(stimuli)
    path, manifest = root / _CROISSANT, root / MANIFEST
    if not manifest.is_file():
        raise InvalidInput(
            f"{root} has no manifest ({MANIFEST}); name a set that `cosight stimuli` or `cosight build` wrote"
        )
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists; use --force to overwrite it")
    frame, _ = read_manifest(root)
    classes = frame["truth"].drop_nulls().n_unique()
    described = description or f"{frame.height} stimuli of {classes} classes, with the manifest of cosight."
    title = name or root.resolve().name
    data = manifest.read_bytes()
    record: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": title,
        "description": described,
        "license": license,
        "creator": {"@type": "sc:Organization", "name": creator},
        "datePublished": datetime.fromtimestamp(manifest.stat().st_mtime, UTC).date().isoformat(),
        "version": "1.0.0",
        "citeAs": citation or f"{creator}: {title}.",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "manifest",
                "name": MANIFEST,
                "contentUrl": MANIFEST,
                "contentSize": f"{len(data)} B",
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256(data).hexdigest(),
            },
            _file_set(frame["file"]),
        ],
        "recordSet": [_stimuli_records(frame), _image_records()],
    }
    if url is not None:
        record["url"] = url
    return _write(path, json.dumps(record, indent=1, ensure_ascii=False))


def _values_of_models(scores: str | Path | Scores) -> tuple[dict[str, list[Row]], int]:
    """Return the defined values of each model alone or against a group, and the number of other rows."""
    rows = read_scores(scores).rows
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        is_model = row.observer not in GROUP_NAMES and not row.observer.startswith(_PEOPLE)
        is_value = row.statistic == "value" and row.value is not None and not _QUOTED & set(row.flags)
        if is_model and is_value and (row.against is None or row.against in GROUP_NAMES):
            by_model.setdefault(row.observer, []).append(row)
    if not by_model:
        raise InvalidInput(f"no row of {scores if isinstance(scores, str | Path) else 'the scores'} is a model's value")
    return by_model, len(rows) - sum(map(len, by_model.values()))


def _time_of(scores: str | Path | Scores) -> datetime:
    """Return when a file of rows was written, now for scores in memory."""
    if isinstance(scores, Scores):
        return datetime.now(UTC).replace(microsecond=0)
    path = Path(scores)
    path = path / "scores.parquet" if path.is_dir() else path
    return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)


def _developer_and_model(observer: str) -> tuple[str, str]:
    """Return the parts of a model's identifier: `timm:resnet50` is `timm/resnet50`, a plain name `unknown/NAME`."""
    source, colon, name = observer.removeprefix("model:").partition(":")
    return (source, name) if colon else ("unknown", source)


def _task(row: Row) -> str:
    """Return what a value is about: the measure, against whom, and the group of stimuli."""
    return ":".join(part for part in (row.measure, row.against, group_text(row.group)) if part)


def _result(row: Row, benchmark: str, source: Mapping[str, Any], confidence: float | None) -> dict[str, Any]:
    measure = measures[row.measure]
    uncertainty: dict[str, Any] = {"num_samples": row.n}
    if row.low is not None and row.high is not None:
        level = {} if confidence is None else {"confidence_level": confidence}
        uncertainty["confidence_interval"] = {"lower": row.low, "upper": row.high, **level}
    facts = {"clusters": row.clusters, "seed": row.seed, "flags": ", ".join(row.flags), "note": row.note}
    return {
        "evaluation_result_id": _task(row),
        "evaluation_name": benchmark,
        "source_data": source,
        "metric_config": {
            "evaluation_description": measure.summary,
            "metric_id": row.measure if row.measure == "accuracy" else f"cosight.{row.measure}",
            "metric_name": row.measure.replace("_", " "),
            "metric_parameters": {**({"against": row.against} if row.against else {}), **dict(row.group)},
            "lower_is_better": measure.direction == "lower",
            "score_type": "continuous",
            "min_score": _bound(measure.low),
            "max_score": _bound(measure.high),
            "additional_details": {"direction": measure.direction, "citation": measure.citation},
        },
        "score_details": {
            "score": row.value,
            "details": {name: str(fact) for name, fact in facts.items() if fact not in (None, "")},
            "uncertainty": uncertainty,
        },
    }


def _bound(value: float) -> float | str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _yaml_entry(row: Row, dataset: str, date: str, url: str | None) -> str:
    """Return one entry; strings are written as JSON, which is YAML too."""
    notes = f"{measures[row.measure].summary} {row.n} trials"
    if row.low is not None and row.high is not None:
        notes += f", interval [{row.low:.4g}, {row.high:.4g}]"
    lines = [
        "- dataset:",
        f"    id: {_quoted(dataset)}",
        f"    task_id: {_quoted(_task(row))}",
        f"  value: {json.dumps(row.value)}",
        f"  date: {_quoted(date)}",
        *([] if url is None else ["  source:", f"    url: {_quoted(url)}", '    name: "cosight"']),
        f"  notes: {_quoted(notes)}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as a double-quoted YAML scalar. Control characters, which YAML does not allow, are escaped."""
    return re.sub(
        r"[\x7f-\x9f\ufeff\u2028\u2029]", lambda c: f"\\u{ord(c[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


def _safe(name: str) -> str:
    """Return a name for a file or folder: other characters than letters, digits and `._-` become `_`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:100] or "_"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path


def _file_set(files: Iterable[str]) -> dict[str, Any]:
    """Return the images as one set of files: patterns by top folder and suffix, and their formats."""
    paths = [PurePosixPath(file) for file in files]
    patterns = {f"{path.parts[0]}/*{path.suffix}" if len(path.parts) > 1 else f"*{path.suffix}" for path in paths}
    formats = {_FORMATS.get(path.suffix.lower(), "application/octet-stream") for path in paths}
    return {
        "@type": "cr:FileSet",
        "@id": "image-files",
        "name": "image-files",
        "encodingFormat": sorted(formats),
        "includes": sorted(patterns),
    }


def _stimuli_records(frame: pl.DataFrame) -> dict[str, Any]:
    fields = []
    for column, kind in frame.schema.items():
        inner = kind.inner if isinstance(kind, pl.List) else kind
        field: dict[str, Any] = {
            "@type": "cr:Field",
            "@id": f"stimuli/{column}",
            "name": column,
            "dataType": _TYPES.get(type(inner), "sc:Text"),
            "source": {"fileObject": {"@id": "manifest"}, "extract": {"column": column}},
        }
        if isinstance(kind, pl.List):
            field |= {"isArray": True, "arrayShape": "-1"}
        if column == "file":
            field |= {"references": {"field": {"@id": "images/file"}}}
        fields.append(field)
    return {
        "@type": "cr:RecordSet",
        "@id": "stimuli",
        "name": "stimuli",
        "key": {"@id": "stimuli/file"},
        "field": fields,
    }


def _image_records() -> dict[str, Any]:
    def field(name: str, kind: str, content: str) -> dict[str, Any]:
        source = {"fileSet": {"@id": "image-files"}, "extract": {"fileProperty": content}}
        return {"@type": "cr:Field", "@id": f"images/{name}", "name": name, "dataType": kind, "source": source}

    fields = [field("file", "sc:Text", "fullpath"), field("image", "sc:ImageObject", "content")]
    return _record_set("images", fields)


def _record_set(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "key": {"@id": f"{name}/file"}, "field": fields}
