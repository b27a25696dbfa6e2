"""Tables of any program: which of their columns stand for which column of a trial, and the trials in them.

Columns are given (`TableOptions.columns`) or recognised by common names (`COLUMN_NAMES`); every guess is reported in a
notice. Columns that are not used, and the original cells of a column whose values had to be changed (response times in
milliseconds, file paths, other spellings of a class), are kept in `extra`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import polars as pl

from cosight.errors import InvalidInput, did_you_mean
from cosight.trials.file_tables import json_objects, parse_cells, with_decimal_points
from cosight.trials.spaces import ABSTAIN, LabelSpace, guess_label_space
from cosight.trials.table import KINDS, ROLES, SCHEMA, Kind, Trials, make_trials

__all__ = [
    "COLUMN_NAMES",
    "ESSENTIAL",
    "RtUnit",
    "TableOptions",
    "image_name",
    "recognise_columns",
    "table_options",
    "trials_of_table",
    "without_missing",
]

RtUnit: TypeAlias = Literal["s", "ms"]
_UNITS: dict[str, str] = {"s": "seconds", "ms": "milliseconds"}

ESSENTIAL = ("observer", "image", "response")
COLUMN_NAMES: dict[str, tuple[str, ...]] = {  # common names, the likelier first; see `_plain`
    "observer": (
        "observer", "observer_id", "observer_name", "subject", "subject_id", "subject_nr", "subj", "subj_id", "sub",
        "participant", "participant_id", "participant_nr", "participant_number", "ppt", "pid", "prolific_pid",
        "prolific_id", "user", "user_id", "worker", "worker_id", "rater", "rater_id", "annotator", "annotator_id",
        "model", "model_name", "network", "network_name",
    ),
    "kind": ("kind", "observer_kind"),
    "experiment": ("experiment", "experiment_name", "exp", "task", "study", "dataset"),
    "image": (
        "image", "image_name", "image_file", "image_id", "image_path", "img", "img_name", "file_name", "file",
        "stimulus", "stimulus_name", "stimulus_file", "stimulus_id", "stim", "stim_name", "stim_file", "file_path",
        "path", "picture", "photo",
    ),
    "condition": ("condition", "cond", "condition_name"),
    "level": ("level", "severity"),
    "truth": (
        "truth", "ground_truth", "true_class", "true_label", "correct_response", "correct_answer", "correct_label",
        "correct_class", "category", "label", "class", "class_name", "target", "target_class", "y_true",
    ),
    "response": (
        "response", "object_response", "response_class", "response_label", "participant_response", "subject_response",
        "answer", "choice", "chosen_class", "chosen", "prediction", "predicted", "predicted_class", "predicted_label",
        "pred", "resp", "y_pred",
    ),
    "probabilities": ("probabilities",),
    "abstention": ("abstention",),
    "rt": (
        "rt", "response_time", "reaction_time", "resp_time", "reaction_times", "response_times", "latency",
        *(f"{word}_{unit}" for word in ("rt", "time", "response_time", "reaction_time") for unit in
          ("s", "sec", "seconds", "ms", "msec", "milliseconds")),
    ),
    "role": ("role",),
    "repetition": ("repetition",),
    "session": ("session", "session_id", "session_nr", "session_number"),
    "block": ("block", "block_number", "block_index", "block_nr"),
    "trial": ("trial", "trial_number", "trial_index", "trial_nr"),
}  # fmt: skip
_PRESENTATION = r"(?s)^\d{4,}_[^_]+_(?:s\d+|dnn)_[^_]+_[^_]+_\d+_(.+)$"  # in all files of model-vs-human
_OF_MODELS = ("model", "modelname", "network", "networkname")  # columns that name models, not people
_OF_BOTH = ("observer", "observerid", "observername", "subj")  # columns that may name people and models
_MISSING = ("", "na", "n/a", "nan", "null", "<na>")  # in lower case: no value
_WORDS: dict[str, tuple[str, ...]] = {"kind": KINDS, "role": ROLES}  # columns that hold these words and no others
_DIGEST = r"^[0-9a-f]{64}$"
_SLOW = 100  # seconds: times with a greater median are milliseconds
_LISTED = 12  # columns that a message lists
_OPTIONS = "`cosight trials convert` has --columns, --rt-unit and --kind to say otherwise"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What the user says about a table; `table_options` builds one."""

    columns: Mapping[str, str] = field(default_factory=dict)  # column of a trial -> column of the table
    experiment: str | None = None
    condition: str | None = None
    observer: str | None = None
    kind: Kind | None = None
    rt_unit: RtUnit | None = None

    @property
    def constants(self) -> dict[str, str]:
        """The columns of a trial that have one value in the whole table."""
        values = {"observer": self.observer, "experiment": self.experiment, "condition": self.condition}
        return {name: value for name, value in values.items() if value is not None}


def table_options(
    columns: Mapping[str, str] | Sequence[str] | None = None,
    *,
    experiment: str | None = None,
    condition: str | None = None,
    observer: str | None = None,
    kind: Kind | None = None,
    rt_unit: RtUnit | None = None,
) -> TableOptions | None:
    """Check what the user says about a table; None where that is nothing.

    >>> table_options(["observer=subj", "rt=time"], rt_unit="ms").columns
    {'observer': 'subj', 'rt': 'time'}
    """
    known = [name for name in SCHEMA if name != "extra"]
    if columns is not None and not isinstance(columns, Mapping):
        pairs = [(ours.strip(), theirs.strip()) for ours, _, theirs in (text.partition("=") for text in columns)]
        without = next((ours for ours, theirs in pairs if not theirs), None)
        if without is not None:
            raise InvalidInput(
                f"--columns are pairs such as observer=participant_id,image=file, got {without!r}; "
                "write the column of a trial, = and the column of the file"
            )
        repeated = next((ours for ours, _ in pairs if [name for name, _ in pairs].count(ours) > 1), None)
        if repeated is not None:
            raise InvalidInput(f"--columns names {repeated!r} twice; name one column of the file for it")
        columns = dict(pairs)
    for ours in columns or {}:
        if ours not in known:
            raise InvalidInput(f"--columns: a trial has no column {ours!r}; {did_you_mean(ours, known)}")
    options = TableOptions(dict(columns or {}), experiment, condition, observer, kind, rt_unit)
    for name in options.constants:
        if name in options.columns:
            raise InvalidInput(f"choose one of --{name} and --columns {name}={options.columns[name]}, got both")
    for name, value, words in (("kind", kind, KINDS), ("rt-unit", rt_unit, get_args(RtUnit))):
        if value is not None and value not in words:
            raise InvalidInput(f"--{name} is one of {', '.join(words)}, got {value!r}")
    return None if options == TableOptions() else options


def _plain(name: str) -> str:
    """Return a column's name as it is compared: in lower case, letters and digits only.

    >>> _plain("Participant-ID"), _plain("RT (ms)")
    ('participantid', 'rtms')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def recognise_columns(names: Iterable[str]) -> dict[str, str]:
    """Return which of these names commonly stands for which column of a trial.

    >>> recognise_columns(["Subject ID", "fileName", "answer", "age"])
    {'observer': 'Subject ID', 'image': 'fileName', 'response': 'answer'}
    """
    plain = {_plain(name): name for name in reversed(list(names))}
    first = {
        ours: next((plain[_plain(name)] for name in known if _plain(name) in plain), None)
        for ours, known in COLUMN_NAMES.items()
    }
    return {ours: name for ours, name in first.items() if name is not None}


def image_name(column: pl.Expr) -> pl.Expr:
    """Return an expression for the image in a presentation's name, NUMBER_CODE_OBSERVER_CONDITION_CLASS_NUMBER_IMAGE.

    These are the names of model-vs-human's files. Any other name is that of the image itself.

    >>> names = ["0001_cl_s01_cr_oven_40_n04111531_14126.png", "0001_edg_s01_0_oven_00_oven10.png", "day_7.png"]
    >>> pl.select(image_name(pl.Series(names))).to_series().to_list()
    ['n04111531_14126.png', 'oven10.png', 'day_7.png']
    """
    as_expr = pl.lit(column) if isinstance(column, pl.Series) else column
    return pl.coalesce(as_expr.str.extract(_PRESENTATION), as_expr)


def without_missing(column: pl.Series) -> pl.Series:
    """Return a column of text without blanks around its cells, and null for words that stand for a missing value."""
    text = column.str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(_MISSING).fill_null(False), None)


def trials_of_table(
    table: pl.DataFrame,
    options: TableOptions | None = None,
    *,
    source: str,
    locate: Callable[[int], str] | None = None,
    space: LabelSpace | None = None,
    decimal_comma: bool = False,
) -> Trials:
    """Return the trials in a table of any program.

    Args:
        table: One row per trial, columns of any names and types.
        options: What the user says about it; everything else is guessed.
        source: What messages call the table.
        locate: Name of a row (from 0) in messages, for a table of several files.
        space: The label space of the answers, where the user declared it.
        decimal_comma: Whether numbers are written as 0,5.

    Returns:
        The trials, and what was guessed as notices.

    Raises:
        InvalidInput: The table has no column for the observer, the image or the response, or a cell is wrong.
    """
    options = options or TableOptions()
    locate = locate or (lambda row: f"{source}, row {row + 1}")
    cells = _Cells(table, source, locate, decimal_comma)
    used = _choose_columns(cells, options)
    guessed = {ours: name for ours, name in used.items() if ours not in options.columns}
    columns: dict[str, pl.Series] = {ours: cells.values(ours, name) for ours, name in used.items()}
    changed: list[str] = []  # columns whose original cells are kept
    notices: list[str] = []
    if "image" in columns:
        images = _image_names(columns["image"])
        if not images.equals(columns["image"], null_equal=True):
            row = int((images != columns["image"]).fill_null(False).arg_max() or 0)
            notices.append(f"{source}: image names are without folders and prefixes: {images[row]}")
            columns["image"] = images
            changed.append(used["image"])
    unit = options.rt_unit
    if "rt" in columns:
        unit = unit or _guess_unit(used["rt"], columns["rt"])
        if unit == "ms":
            columns["rt"] = pl.Series(columns["rt"].to_numpy() / 1000).fill_nan(None)  # polars rounds otherwise
            changed.append(used["rt"])
    elif unit is not None:
        raise InvalidInput(f"{source}: --rt-unit needs a column of response times; name it with --columns rt=COLUMN")
    space = space or _guess_space(columns)
    for ours in ("truth", "response"):
        if ours in columns and space is not None:
            respelled = _respell(columns[ours], space)
            if not respelled.equals(columns[ours], null_equal=True):
                notices.append(f"{source}: column {used[ours]} was respelled as the classes of {space.name}")
                columns[ours] = respelled
                changed.append(used[ours])
    frame = pl.DataFrame({ours: column.alias(ours) for ours, column in columns.items()})
    frame = frame.with_columns(pl.lit(value).alias(ours) for ours, value in options.constants.items())
    extra = cells.extra([name for name in table.columns if name not in used.values()] + changed)
    frame = frame.with_columns(extra.alias("extra"))
    frame, kinds = _name_observers(frame, used.get("observer", ""), options.kind)
    guesses = [f"{ours}={name}" for ours, name in guessed.items() if ours != name]
    if unit is not None and options.rt_unit is None and (used["rt"], unit) != ("rt", "s"):
        guesses.append(f"{used['rt']} in {_UNITS[unit]}")
    guesses += [kinds] if kinds else []
    kept = [name for name in table.columns if name not in used.values()]
    lines = [f"{source}: guessed {', '.join(guesses)}; {_OPTIONS}"] if guesses else []
    lines += [f"{source}: columns kept in extra: {_listed(kept)}"] if kept else []
    if "experiment" not in used and options.experiment is None:
        lines.append(f"{source}: no experiment; to join these trials with others, convert them with --experiment NAME")
    return make_trials(
        frame,
        source=source,
        locate=locate,
        space=space,
        notices=[*lines, *notices],
    )


class _Cells:
    """The cells of a table as text, or as values of a trial."""

    def __init__(self, table: pl.DataFrame, source: str, locate: Callable[[int], str], decimal_comma: bool) -> None:
        self.table = table
        self.source = source
        self.locate = locate
        self.decimal_comma = decimal_comma

    def text(self, name: str) -> pl.Series:
        """Return a column as text, null where a value is missing."""
        column = self.table[name]
        if not _has_text(column.dtype):
            raise InvalidInput(f"{self.source}, column {name}: cells are text or numbers, got {column.dtype}")
        if column.dtype.is_float() and (column.fill_nan(None).drop_nulls() % 1 == 0).all():
            column = column.fill_nan(None).cast(pl.Int64, strict=False)  # pandas makes 1.0 of 1 beside empty cells
        return without_missing(column.cast(pl.String))

    def values(self, ours: str, name: str) -> pl.Series:
        """Return a column as the trial's column `ours`; raise at a cell that is no value of it."""
        if ours == "probabilities" and self.table[name].dtype.is_nested():
            return self.table[name]
        text = self.text(name)
        if self.decimal_comma and ours in ("rt", "abstention", "condition"):
            text = with_decimal_points(text)
        if SCHEMA[ours] == pl.Int64():
            text = text.str.replace(r"\.0+$", "")
        return parse_cells(text.alias(name), SCHEMA[ours], self.locate)

    def fits(self, ours: str, name: str) -> bool:
        """Return whether all cells of a column are values of the trial's column `ours`."""
        try:
            values = self.values(ours, name)
        except InvalidInput:
            return False
        if ours == "stimulus":
            return bool(values.str.contains(_DIGEST).all())
        return ours not in _WORDS or bool(values.is_in(_WORDS[ours]).all())

    def extra(self, names: Sequence[str]) -> pl.Series:
        """Return these columns as JSON text."""
        if not names:
            return pl.Series([None] * self.table.height, dtype=pl.String)
        kept = [self.table[name] for name in dict.fromkeys(names)]
        return json_objects([_json_cells(column) for column in kept])


def _has_text(kind: pl.DataType) -> bool:
    """Return whether values of a type can be written as text, as those of files and most data frames can."""
    return not kind.is_nested() and kind not in (pl.Binary, pl.Object, pl.Duration)


def _json_cells(column: pl.Series) -> pl.Series:
    """Return a column with values that have a form in JSON: dates and other objects become text."""
    kind = column.dtype
    if kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Null) or kind.is_nested():
        return column
    if _has_text(kind):
        return column.cast(pl.String)
    return pl.Series(column.name, [None if value is None else str(value) for value in column.to_list()], pl.String)


def _choose_columns(cells: _Cells, options: TableOptions) -> dict[str, str]:
    """Return column of a trial -> column of the table, those that the user named and those that are recognised."""
    names = cells.table.columns
    chosen: dict[str, str] = {}
    for ours, theirs in options.columns.items():
        by_spelling = {name.strip().lower(): name for name in reversed(names)}
        name = theirs if theirs in names else by_spelling.get(theirs.lower())
        if name is None:
            guess = did_you_mean(theirs, names, otherwise="name another.")
            raise InvalidInput(
                f"{cells.source}: no column is called {theirs!r} (--columns {ours}={theirs}); {guess} "
                f"Columns found: {_listed(names)}"
            )
        chosen[ours] = name
    free = [name for name in names if name not in chosen.values()]
    if "stimulus" in free and "stimulus" not in chosen and cells.fits("stimulus", "stimulus"):
        chosen["stimulus"] = "stimulus"  # digests; other stimuli are names of images
        free.remove("stimulus")
    for ours, name in recognise_columns(free).items():
        if ours not in chosen and ours not in options.constants and cells.fits(ours, name):
            chosen[ours] = name
    observers = recognise_columns(free).get("observer")
    if options.observer is not None and observers is not None and cells.text(observers).n_unique() > 1:
        raise InvalidInput(
            f"{cells.source}: --observer is for a file of one observer, and this one has {observers!r} with "
            f"{cells.text(observers).n_unique()} of them; leave it out (--only chooses trials of some)"
        )
    has_image = "image" in chosen or "stimulus" in chosen
    present = {"observer": "observer" in chosen or options.observer is not None, "image": has_image}
    lacking = [ours for ours in ESSENTIAL if not present.get(ours, ours in chosen)]
    if lacking:
        raise InvalidInput(_lacking_text(cells.source, lacking, names))
    return chosen


def _lacking_text(source: str, lacking: Sequence[str], names: Sequence[str]) -> str:
    """Return the message about columns that a table lacks, with an example of what to do."""
    free = [name for name in names if name not in recognise_columns(names).values()]
    pairs = ",".join(f"{ours}={theirs}" for ours, theirs in zip(lacking, [*free, *["COLUMN"] * 3], strict=False))
    advice = f"--columns {pairs}"
    if list(lacking) == ["observer"]:
        advice = "--observer NAME (the one observer of the file; {file} stands for its name)"
    elif "observer" in lacking:
        advice += " (or --observer NAME, if one observer gave all answers)"
    file = source.split(" and ")[0]
    return (
        f"{source}: no column for the {', '.join(lacking)}. Columns found: {_listed(names)}. Needed: "
        f"{', '.join(ESSENTIAL)}; useful: truth, experiment, condition, rt. Name them, for example: cosight trials "
        f"convert {file} {file.rsplit('.', 1)[0]}.parquet {advice}"
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _image_names(cells: pl.Series) -> pl.Series:
    """Return names of images without folders and model-vs-human's prefixes, unless two images would share a name."""
    files = cells.str.replace_all("\\", "/", literal=True).str.split("/").list.last()
    short = pl.select(image_name(pl.lit(files))).to_series()
    return short if short.n_unique() == cells.n_unique() else cells


def _guess_unit(name: str, times: pl.Series) -> RtUnit:
    """Return the unit of response times: what the column's name ends in, else milliseconds for a high median."""
    ending = re.search(r"(?:^|[^a-z])(ms|msec|millis|milliseconds|s|sec|secs|seconds)[^a-z]*$", name.lower())
    if ending:
        return "ms" if ending[1].startswith("m") else "s"
    median = times.median()
    return "ms" if isinstance(median, float) and median > _SLOW else "s"


def _guess_space(columns: Mapping[str, pl.Series]) -> LabelSpace | None:
    """Return the label space that has all answers, whether they are written in its lower case or otherwise."""
    named = frozenset(
        value for ours in ("truth", "response") if ours in columns for value in columns[ours].drop_nulls()
    ) - {ABSTAIN}
    return guess_label_space(named) or guess_label_space(frozenset(value.lower() for value in named))


def _respell(answers: pl.Series, space: LabelSpace) -> pl.Series:
    """Return answers with the spelling of their classes where only upper and lower case or blanks differ."""
    spellings = {name.lower().replace("_", " "): name for name in reversed(space.answers)}
    known = set(space.answers)
    spelled = {
        value: spellings.get(value.lower().replace("_", " "), value)
        for value in answers.drop_nulls().unique()
        if value not in known
    }
    return answers.replace(spelled) if spelled else answers


def _name_observers(frame: pl.DataFrame, column: str, kind: Kind | None) -> tuple[pl.DataFrame, str]:
    """Add the kind of every observer to its name and as a column; return also what was guessed, in words.

    People are guessed, unless the observers' column is one of models. Where it may be both, observers without response
    times beside others that have some are guessed to be models.
    """
    prefix = pl.col("observer").str.extract(rf"^({'|'.join(KINDS)}):")
    known = pl.coalesce("kind", prefix) if "kind" in frame.columns else prefix
    guess = pl.lit("model" if _plain(column) in _OF_MODELS else "human")
    if _plain(column) in _OF_BOTH and "rt" in frame.columns and frame["rt"].count():
        guess = pl.when(pl.col("rt").count().over("observer") == 0).then(pl.lit("model")).otherwise(guess)
    frame = frame.with_columns(kind=pl.coalesce(known, pl.lit(kind, pl.String)), _guess=guess)
    guessed = frame.filter(pl.col("kind").is_null() & pl.col("observer").is_not_null())["_guess"].unique().sort()
    frame = frame.with_columns(pl.coalesce("kind", "_guess").alias("kind")).drop("_guess")
    has_source = pl.col("kind").is_in(("human", "simulated")).not_() & pl.col("observer").str.contains(r"^[^:]+:.")
    is_named = prefix.is_not_null() | has_source  # human:s01, or a model such as timm:resnet50
    named = pl.when(is_named).then("observer").otherwise(pl.col("kind") + ":" + pl.col("observer"))
    words = {
        (): "",
        ("human",): "observers are people",
        ("model",): "observers are models",
        ("human", "model"): "observers with response times are people, the others models",
    }
    return frame.with_columns(observer=named), words[tuple(guessed)]
