"""The join: which trials are about the same stimulus, and everyone's answers to it.

Two trials are about the same stimulus when their digests agree or, where either has none, when experiment, condition
and image agree; never when only the name does: the same `airplane1.png` exists in several experiments. A missing
condition stands for the only condition of its experiment; beside a stimulus manifest, for the only condition in which
the manifest has an image of that name in that experiment.

Showings of one stimulus to one observer are numbered in order of repetition, session and trial, and join by that
number; a model that answered once answers for every showing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers, CodeArray, check_classes
from cosight.trials.choices import code_answers
from cosight.trials.spaces import ABSTAIN, LabelSpace
from cosight.trials.table import KINDS, PEOPLE, SCHEMA, Trials, first_showings, has_role, parse_roles, role_notices

__all__ = [
    "ABOUT",
    "CUE_CONFLICT",
    "GROUPS",
    "AlignedTrials",
    "StimulusGroup",
    "align",
    "canonical_condition",
    "canonical_experiment",
    "manifest_rows",
    "match_manifest",
    "natural_key",
    "people_first_key",
    "stimulus_groups",
    "texture_codes",
    "with_manifest",
]

GROUPS = ("experiment", "condition", "level", "truth")  # the columns one may group by

ABOUT = ("stimulus", "image", "experiment", "condition", "truth")  # what a trial and a manifest both say
_PLACE = ("experiment", "spelled")
_ALIASES = {"edges": "edge", "silhouettes": "silhouette", "filled-silhouettes": "silhouette"}


@dataclass(frozen=True, slots=True, eq=False)
class AlignedTrials:
    """Everyone's answers side by side."""

    answers: Answers  # (observers, columns)
    observers: tuple[str, ...]
    kinds: tuple[str, ...]
    columns: pl.DataFrame  # one row per column: key, presentation, stimulus, experiment, condition, level, truth, image
    rows: NDArray[np.int32]  # (observers, columns): the row of the trial table, -1 where there is none
    labels: tuple[str, ...]  # what the codes stand for
    notices: tuple[str, ...]

    @property
    def people(self) -> NDArray[np.bool_]:
        """Which observers are people, simulated ones included."""
        return np.asarray(np.isin(self.kinds, PEOPLE))

    @property
    def simulated(self) -> NDArray[np.bool_]:
        """Which observers are simulated people."""
        return np.array([kind == "simulated" for kind in self.kinds], dtype=np.bool_)

    @property
    def models(self) -> list[str]:
        """The names of the observers that are not people."""
        return [name for name, kind in zip(self.observers, self.kinds, strict=True) if kind not in PEOPLE]

    def keep(self, columns: NDArray[np.bool_], *notices: str) -> AlignedTrials:
        """Return the table with some of its columns; `notices` are added."""
        table = replace(
            self,
            answers=self.answers.at(columns),
            columns=self.columns.filter(columns),
            rows=self.rows[:, columns],
        )
        return table.with_notices(*notices)

    def with_notices(self, *notices: str) -> AlignedTrials:
        """Return the table with further notices."""
        return replace(self, notices=(*self.notices, *notices))


@dataclass(frozen=True, slots=True, eq=False)
class StimulusGroup:
    """The columns of a table that share a group."""

    group: tuple[tuple[str, str], ...]  # (key, value) in the order of grouping; empty: everything pooled
    columns: NDArray[np.int64]


def canonical_experiment(column: pl.Expr) -> pl.Expr:
    """One spelling for experiments that go by several names."""
    return column.fill_null("").replace(_ALIASES)


def canonical_condition(column: pl.Expr) -> pl.Expr:
    """One spelling for conditions: numbers as numbers ("0.90" = "0.9"), truth values in lower case, NaN as null."""
    number = column.cast(pl.Float64, strict=False)
    lower = column.str.to_lowercase()
    return (
        pl.when(number.is_not_null() & number.is_not_nan())
        .then(number.cast(pl.String))
        .when(number.is_nan())
        .then(None)
        .when(lower.is_in(["true", "false"]))
        .then(lower)
        .otherwise(column)
    )


def align(trials: Trials, *, gamma: float = 0.5, roles: Sequence[str] = ("test",)) -> AlignedTrials:
    """Bring everyone's answers to every stimulus into one table.

    Args:
        trials: Trials of any observers.
        gamma: Where the label space has `abstain`, an observer whose abstention exceeds this has answered `abstain`.
        roles: Only trials of these roles are used, and only first showings unless `repeat` is among them. What is left
            out is reported.

    Returns:
        One row per observer and one column per stimulus and showing.

    Raises:
        InvalidInput: Two different answers to one trial, two truths of one stimulus, or no trial of these roles.
            Identical trials found twice are dropped and reported.
    """
    if not 0 <= gamma <= 1:
        raise InvalidInput(f"--gamma must be 0 to 1, got {gamma}; an observer refuses where its abstention is above it")
    notices = [*trials.notices, *role_notices(trials.frame, roles)]
    frame, space = trials.frame.with_row_index("row").filter(has_role(roles)), trials.space
    if space is None:
        frame, space = code_answers(frame)
    frame = _keyed(frame, notices)
    frame = _without_duplicates(frame, notices)
    frame = _numbered(frame, notices, first_only="repeat" not in parse_roles(roles))
    labels = _labels(frame, space)
    columns = _columns(frame)
    order = sorted(frame.select("kind", "observer").unique().rows(), key=people_first_key)
    names = [name for _, name in order]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise InvalidInput(
            f"an observer is of one kind, got two for {twice}; give the two observers names of their own"
        )
    table = _fill(frame, columns, names, [kind for kind, _ in order], labels, gamma)
    shown = {ABSTAIN, *columns["truth"]}
    unseen = [label for label in labels if label not in shown]
    if unseen and space == trials.space and table.answers.shown.any():
        notices.append(
            f"{len(unseen)} of {len(labels)} classes are the truth of no stimulus ({', '.join(unseen[:3])}...)"
        )
    alone = int((table.answers.shown.sum(axis=0) == 1).sum()) if len(names) > 1 else 0
    if alone:
        notices.append(f"{alone} of {columns.height} stimuli were seen by one observer only")
    return AlignedTrials(table.answers, table.observers, table.kinds, columns, table.rows, labels, tuple(notices))


def stimulus_groups(table: AlignedTrials, by: Sequence[str]) -> list[StimulusGroup]:
    """The groups of a table, in natural order; one cell of everything when `by` is empty."""
    for name in by:
        if name not in GROUPS:
            raise InvalidInput(f"trials are grouped by {', '.join(GROUPS)}, got {name!r}")
    if len(set(by)) < len(by):
        raise InvalidInput(f"each key of --by is named once, got {', '.join(by)}")
    indexed = table.columns.with_row_index("column")
    if not by:
        return [StimulusGroup((), np.arange(table.columns.height))]
    parts = [
        (tuple((name, "" if v is None else str(v)) for name, v in zip(by, values, strict=True)), part["column"])
        for values, part in indexed.group_by(list(by), maintain_order=True)
    ]
    parts.sort(key=lambda part: [natural_key(value) for _, value in part[0]])
    return [StimulusGroup(group, index.to_numpy().astype(np.int64)) for group, index in parts]


def people_first_key(observer: tuple[str, str]) -> tuple[int, list[tuple[int, float, str]]]:
    """Sort key of (kind, name): people, simulated people, models."""
    kind, name = observer
    return ["human", "simulated", *KINDS].index(kind), natural_key(name)


def natural_key(text: str) -> list[tuple[int, float, str]]:
    """Sort key in which c5 comes before c10 and .9 before 1."""
    pieces = re.findall(r"(\d+(?:\.\d+)?|\.\d+)|((?:(?!\.\d)\D)+)", text)
    return [(0, float(number), "") if number else (1, 0.0, word) for number, word in pieces]


def _keyed(frame: pl.DataFrame, notices: list[str]) -> pl.DataFrame:
    """Add `key`, the same for trials about the same stimulus, and canonical experiment and condition."""
    frame = _spelled(frame)
    frame = _with_only_conditions(frame, frame)
    lost = frame.filter(pl.col("stimulus").is_null() & pl.col("spelled").is_null())
    lost = lost.filter(pl.col("experiment").is_in(_several_conditions(frame)))
    if lost.height:
        notices.append(
            f"{lost.height} trials have no condition in an experiment with several: they join only each other"
        )
    frame = frame.with_columns(pl.col("spelled").fill_null(""))
    frame = frame.with_columns(name=pl.concat_str("experiment", "spelled", "image", separator="\x1f"))
    return _with_keys(_with_digests(frame))


def _spelled(frame: pl.DataFrame) -> pl.DataFrame:
    """Canonical `experiment`, and the canonical condition as `spelled`."""
    return frame.with_columns(
        experiment=canonical_experiment(pl.col("experiment")), spelled=canonical_condition(pl.col("condition"))
    )


def _with_only_conditions(
    frame: pl.DataFrame, known: pl.DataFrame, keys: Sequence[str] = ("experiment",)
) -> pl.DataFrame:
    """Fill missing conditions with the only one that `known` has for these keys."""
    conditions = known.group_by(keys).agg(only=pl.col("spelled").drop_nulls().unique())
    only = conditions.filter(pl.col("only").list.len() == 1).with_columns(pl.col("only").list.first())
    frame = frame.join(only, on=list(keys), how="left", maintain_order="left")
    return frame.with_columns(spelled=pl.coalesce("spelled", "only")).drop("only")


def _several_conditions(frame: pl.DataFrame) -> list[str]:
    counts = frame.group_by("experiment").agg(pl.col("spelled").drop_nulls().n_unique())
    return counts.filter(pl.col("spelled") > 1)["experiment"].to_list()


def _with_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """The digest, else the name; a picture that someone met in several experiments or conditions has a key in each."""
    met = frame.filter(pl.col("stimulus").is_not_null()).group_by("stimulus", "observer")
    places = met.agg(places=pl.struct(_PLACE).n_unique())
    apart = places.filter(pl.col("places") > 1)["stimulus"].unique().to_list()
    there = pl.concat_str("stimulus", *_PLACE, separator="\x1f")
    plain = pl.coalesce("stimulus", "name")
    return frame.with_columns(key=pl.when(pl.col("stimulus").is_in(apart)).then(there).otherwise(plain))


def _with_digests(frame: pl.DataFrame) -> pl.DataFrame:
    """Give trials known by name the digest that others have for that name."""
    known = frame.filter(pl.col("stimulus").is_not_null() & pl.col("name").is_not_null())
    if not known.height or not frame["stimulus"].has_nulls():
        return frame
    digests = known.group_by("name").agg(pl.col("stimulus").unique())
    waiting = frame.filter(pl.col("stimulus").is_null()).select("name").unique()
    unsure = digests.filter(pl.col("stimulus").list.len() > 1).join(waiting, on="name", how="semi")
    if unsure.height:
        shown = unsure["name"][0].replace("\x1f", " / ")
        raise InvalidInput(f"a name must stand for one picture to be joined on, got several digests for {shown}")
    one = digests.select("name", digest=pl.col("stimulus").list.first())
    frame = frame.join(one, on="name", how="left", maintain_order="left")
    return frame.with_columns(stimulus=pl.coalesce("stimulus", "digest")).drop("digest")


def _without_duplicates(frame: pl.DataFrame, notices: list[str]) -> pl.DataFrame:
    identity = ["observer", "key", "session", "trial", "role", "repetition"]
    kept = frame.unique(identity, keep="first", maintain_order=True)
    if kept.height == frame.height:
        return frame
    said = ["response", "truth", "abstention", "probabilities"]
    answers = frame.with_columns(pl.col("probabilities").cast(pl.List(pl.String)).list.join(" ")).group_by(identity)
    counts = answers.agg(pl.col(said).n_unique()).sort(identity)
    torn = counts.filter(pl.any_horizontal(pl.col(said) > 1))
    if torn.height:
        first = torn.row(0, named=True)
        many = max(first[name] for name in said)
        raise InvalidInput(
            f"one trial has one answer, got {many} for {first['observer']}, session {first['session']}, "
            f"trial {first['trial']}, stimulus {first['key'].replace(chr(31), ' / ')}; remove one of them"
        )
    notices.append(f"{frame.height - kept.height} trials stand twice in the files and were counted once")
    return kept


def _numbered(frame: pl.DataFrame, notices: list[str], *, first_only: bool) -> pl.DataFrame:
    """Add `presentation`: 0 for an observer's first trial with a stimulus, then 1, ...; perhaps keep the first only."""
    if not frame.select(pl.struct("observer", "key").is_duplicated().any()).item():
        return frame.with_columns(presentation=pl.lit(0, dtype=pl.Int64))
    if first_only:  # a set may hold one picture under two names: those are two stimuli, each shown once
        first = first_showings(frame, ["observer", "key", "image"])
        if later := frame.height - first.height:
            notices.append(f"{later} later showings of a stimulus are left out; --role test,repeat includes them")
        frame = first
    session = pl.col("session").cast(pl.Float64, strict=False)
    order = frame.sort("repetition", session, "session", "trial", "row", nulls_last=True)
    order = order.with_columns(presentation=pl.int_range(pl.len()).over("observer", "key"))
    order = order.sort("row")
    often = pl.col("presentation").max().over("key") + 1
    single = (pl.len().over("observer", "key") == 1) & ~pl.col("kind").is_in(PEOPLE)
    spread = pl.when(single).then(pl.int_ranges(0, often)).otherwise(pl.concat_list("presentation"))
    return order.with_columns(presentation=spread).explode("presentation")


def _labels(frame: pl.DataFrame, space: LabelSpace | None) -> tuple[str, ...]:
    if space is not None:
        return space.answers
    truths = sorted(frame["truth"].drop_nulls().unique().to_list())
    if not truths:
        raise InvalidInput("no trial has a truth; name the classes with --labels")
    unseen = frame.filter(~pl.col("response").is_in([*truths, ABSTAIN]))
    if unseen.height:
        row = unseen.row(0, named=True)
        raise InvalidInput(
            f"a response must be a class that some trial shows, got {row['response']!r} ({row['observer']}, "
            f"{row['image']}) which is the truth of none; name all classes with --labels A,B,..."
        )
    return (*(truth for truth in truths if truth != ABSTAIN), *([ABSTAIN] if ABSTAIN in truths else []))


def _columns(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for each stimulus and presentation, sorted, so that the order of files and rows changes no number."""
    about = frame.group_by("key", "presentation", maintain_order=True).agg(
        _first_word("experiment"),
        pl.col("condition").min(),
        pl.col("level").min(),
        pl.col("truth").drop_nulls().unique().sort(),
        pl.col("image").min(),
        pl.col("stimulus").min(),
        _first_word("spelled"),
    )
    torn = about.filter(pl.col("truth").list.len() > 1)
    if torn.height:
        first = torn.row(0, named=True)
        truths = " and ".join(first["truth"])
        raise InvalidInput(f"a stimulus has one truth, got {truths} for {first['key'].replace(chr(31), ' / ')}")
    words = about.group_by(_PLACE, maintain_order=True).agg(word=pl.col("condition").min())
    about = about.join(words, on=list(_PLACE), how="left", maintain_order="left")
    return (
        about.with_columns(truth=pl.col("truth").list.first(), condition="word")
        .sort("key", "presentation")
        .drop("spelled", "word")
    )


def _first_word(column: str) -> pl.Expr:
    """The first text in alphabetical order: where observers disagree, the order of files decides nothing."""
    return pl.col(column).filter(pl.col(column) != "").min().fill_null("")


def _fill(
    frame: pl.DataFrame,
    columns: pl.DataFrame,
    names: list[str],
    kinds: list[str],
    labels: tuple[str, ...],
    gamma: float,
) -> AlignedTrials:
    check_classes(len(labels))
    code = {label: index for index, label in enumerate(labels)}
    place = columns.select("key", "presentation").with_row_index("column")
    placed = frame.join(place, on=["key", "presentation"], how="left", maintain_order="left")
    said = pl.col("response")
    if ABSTAIN in labels:
        said = pl.when(pl.col("abstention") > gamma).then(pl.lit(ABSTAIN)).otherwise(said)
    flat = placed.select(
        observer=pl.col("observer").replace_strict({n: i for i, n in enumerate(names)}, return_dtype=pl.Int64),
        column=pl.col("column").cast(pl.Int64),
        code=said.replace_strict(code, default=NO_ANSWER, return_dtype=pl.Int16),
        row=pl.col("row").cast(pl.Int32),
    )
    who, where = flat["observer"].to_numpy(), flat["column"].to_numpy()
    response = np.full((len(names), columns.height), NOT_SHOWN, dtype=np.int16)
    rows = np.full(response.shape, -1, dtype=np.int32)
    response[who, where], rows[who, where] = flat["code"].to_numpy(), flat["row"].to_numpy()
    truth: CodeArray = (
        columns["truth"].replace_strict(code, default=NO_ANSWER, return_dtype=pl.Int16).to_numpy().astype(np.int16)
    )
    answers = Answers(response, truth, len(labels))
    return AlignedTrials(answers, tuple(names), tuple(kinds), columns, rows, labels, ())


# ---- trials beside a stimulus manifest


def match_manifest(manifest: pl.DataFrame, trials: pl.DataFrame) -> pl.DataFrame:
    """Pair the rows of a manifest with the trials about them.

    Args:
        manifest: A whole stimulus set: its conditions decide what a missing condition stands for.
        trials: Trials, or anything with the columns stimulus, image, experiment, condition and truth.

    Returns:
        One row per pair: `row` and `trial_row` are row numbers; `near` counts 2 where experiment and condition agree
        and 1 where the image name does; what both say of the stimulus, the trial's columns with the suffix _right.
    """
    mine, theirs = (_spelled(frame.select(pl.col(n).cast(SCHEMA[n]) for n in ABOUT)) for frame in (manifest, trials))
    together = pl.concat([mine, theirs])
    theirs = _with_only_conditions(_with_only_conditions(theirs, together), mine, ("experiment", "image"))
    mine, theirs = (
        frame.with_columns(pl.col("spelled").fill_null("")).with_row_index(name)
        for frame, name in ((_with_only_conditions(mine, together), "row"), (theirs, "trial_row"))
    )
    no_digest = pl.col("stimulus").is_null()
    parts = [mine.join(theirs, on="stimulus", coalesce=False)]  # nulls are never equal
    for left, right in ((mine.filter(no_digest), theirs), (mine.filter(~no_digest), theirs.filter(no_digest))):
        parts.append(left.join(right, on=[*_PLACE, "image"], coalesce=False))
    here = pl.all_horizontal(pl.col(name) == pl.col(f"{name}_right") for name in _PLACE)
    named = (pl.col("image") == pl.col("image_right")).fill_null(False)
    return pl.concat(parts).with_columns(near=2 * here.cast(pl.Int8) + named.cast(pl.Int8))


def manifest_rows(manifest: pl.DataFrame, trials: pl.DataFrame) -> pl.Series:
    """The row number of each trial's stimulus in a manifest; null where none or several fit equally well."""
    pairs = match_manifest(manifest, trials)
    pairs = pairs.filter(pl.col("near") == pl.col("near").max().over("trial_row")).filter(
        pl.len().over("trial_row") == 1
    )
    numbered = trials.select(trial_row=pl.int_range(pl.len(), dtype=pl.UInt32))
    return numbered.join(pairs.select("trial_row", "row"), on="trial_row", how="left", maintain_order="left")["row"]


def with_manifest(trials: Trials, manifest: pl.DataFrame) -> Trials:
    """Add what a manifest knows: the digest of trials that have only a name, and missing truths, conditions and levels.

    A trial that fits several stimuli of the manifest equally well stays as it is.
    """
    facts = ("stimulus", "truth", "condition", "level")
    known = manifest.with_row_index("row").select("row", *(pl.col(name).alias(f"{name}_known") for name in facts))
    rows = trials.frame.with_columns(manifest_rows(manifest, trials.frame))
    frame = rows.join(known, on="row", how="left", maintain_order="left")
    frame = frame.with_columns(pl.coalesce(name, f"{name}_known").alias(name) for name in facts)
    filled = replace(trials, frame=frame.select(trials.frame.columns))
    return filled if trials.space is None else filled.with_space(trials.space)


# ---- the cues of a cue-conflict image: its truth is the shape, its name tells the texture

CUE_CONFLICT = "cue-conflict"  # the experiment whose images are named SHAPEn-TEXTUREm.png (Geirhos et al. 2019)


def texture_codes(columns: pl.DataFrame, labels: tuple[str, ...]) -> CodeArray:
    """The texture's class of each stimulus, NO_ANSWER where an image has none.

    >>> columns = pl.DataFrame({"experiment": ["cue-conflict", "edge"], "image": ["cat3-dog12.png", "cat1.png"]})
    >>> texture_codes(columns, ("cat", "dog")).tolist()
    [1, -1]
    """
    codes = {label: index for index, label in enumerate(labels)}
    texture = pl.col("image").str.extract(r"^[^-]*\d-([A-Za-z_ ]+)\d+\.[A-Za-z]+$")
    named = pl.when(pl.col("experiment") == CUE_CONFLICT).then(texture)
    coded = columns.select(named.replace_strict(codes, default=NO_ANSWER, return_dtype=pl.Int16)).to_series()
    return np.asarray(coded.to_numpy(), dtype=np.int16)
