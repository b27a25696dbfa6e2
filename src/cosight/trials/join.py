"""The join: which trials are about the same stimulus, and everyone's answers to it as one matrix.

Two trials are about the same stimulus when their digests agree or, where either has none, when experiment, condition
and image agree; never when only the name does: the same `airplane1.png` exists in several experiments. Where images of
one name and condition exist at several levels (LAION-C), or one picture does (a grey photo at several saturations), the
level must agree too. A missing condition stands for the only condition of its experiment; beside a stimulus manifest,
for the only condition in which the manifest has an image of that name in that experiment.

Presentations of one stimulus to one observer are numbered in order of repetition, session and trial, and join by that
number; the answer of a model that answered once is repeated for every presentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cosight.errors import InvalidInput, did_you_mean
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers, CodeArray, check_classes
from cosight.trials.choices import code_answers
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import KINDS, PEOPLE, SCHEMA, Trials, first_showings, has_role, parse_roles, role_notices

__all__ = [
    "ABOUT",
    "CUE_CONFLICT",
    "GROUPS",
    "AlignedTrials",
    "ClusterPool",
    "StimulusGroup",
    "align",
    "canonical_condition",
    "canonical_experiment",
    "check_grouping",
    "link_groups",
    "manifest_rows",
    "match_manifest",
    "natural_key",
    "people_first_key",
    "stimulus_groups",
    "texture_codes",
    "with_manifest",
]

GROUPS = ("experiment", "condition", "level", "truth")  # the columns that trials can be grouped by

ABOUT = ("stimulus", "image", "experiment", "condition", "truth")  # columns that trials and manifests share
_SEPARATOR = "\x1f"  # between the parts of a key; it occurs in no name
_CONTEXT = ("experiment", "canonical")  # canonical experiment and condition
_OBSERVER_CODE = pl.col("observer").cast(pl.Categorical()).to_physical()  # takes less memory than the name
_EXACT_DIGITS = 15  # of a decimal number that float64 tells from every other
_ALIASES = {  # names of the same experiment, as folders of the published repositories are called
    "edges": "edge",
    "silhouettes": "silhouette",
    "filled-silhouettes": "silhouette",
    "texture-shape_cue-conflict": "cue-conflict",
    "texture-shape_edges": "edge",
    "texture-shape_silhouettes": "silhouette",
}


@dataclass(frozen=True, slots=True, eq=False)
class AlignedTrials:
    """Everyone's answers as one matrix of class codes; a column is a stimulus, or one presentation of it."""

    answers: Answers  # (observers, columns)
    observers: tuple[str, ...]
    kinds: tuple[str, ...]
    columns: pl.DataFrame  # one row per column: key, presentation, stimulus, experiment, condition, level, truth, image
    rows: NDArray[np.int32]  # (observers, columns): the row of the trial table, -1 where there is none
    labels: tuple[str, ...]  # the label of each code
    notices: tuple[str, ...]
    # (factors, columns): codes of the clusters that the stimuli belong to, one row per crossed factor; -1 where a
    # stimulus has no cluster of a factor. None: stimuli are independent of each other
    clusters: NDArray[np.int64] | None = None
    cluster_by: tuple[str, ...] = ()  # what the clusters are, for the record of settings

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
            clusters=None if self.clusters is None else self.clusters[:, columns],
        )
        return table.with_notices(*notices)

    def with_notices(self, *notices: str) -> AlignedTrials:
        """Return the table with further notices."""
        return replace(self, notices=(*self.notices, *notices))


@dataclass(frozen=True, slots=True, eq=False)
class ClusterPool:
    """The clusters of one factor that are drawn together, and the groups of stimuli that they belong to."""

    clusters: NDArray[np.int64]  # their codes, sorted
    groups: tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class StimulusGroup:
    """The columns of a table with the same values of some of its facts, such as one condition."""

    group: tuple[tuple[str, str], ...]  # (key, value) in the order of grouping; empty: everything pooled
    columns: NDArray[np.int64]
    pools: tuple[ClusterPool, ...] = ()  # one per factor of the table's clusters; none: the group is drawn on its own


def canonical_experiment(column: pl.Expr) -> pl.Expr:
    """Return an expression with one spelling for experiments that go by several names."""
    return column.fill_null("").str.normalize("NFC").replace(_ALIASES)


def canonical_condition(column: pl.Expr) -> pl.Expr:
    """Return an expression with one spelling for conditions.

    Numbers are written as numbers ("0.90" = "0.9") where no other number has the same float64: up to 15 digits. Longer
    ones, such as ids, stay text. Truth values are in lower case, and NaN is null.
    """
    number = column.cast(pl.Float64, strict=False)
    lower = column.str.to_lowercase()
    digits = lower.str.replace(r"e.*$", "").str.replace_all(r"\D", "").str.strip_chars_start("0")
    is_exact = number.is_finite() & (digits.str.len_chars() <= _EXACT_DIGITS) & ((number != 0) == (digits != ""))
    return (
        pl.when(is_exact)
        .then(number.cast(pl.String))
        .when(number.is_nan())
        .then(None)
        .when(lower.is_in(["true", "false"]))
        .then(lower)
        .otherwise(column.str.normalize("NFC"))
    )


def align(trials: Trials, *, gamma: float = 0.5, roles: Sequence[str] = ("test",)) -> AlignedTrials:
    """Align everyone's answers to every stimulus in one matrix.

    Args:
        trials: Trials of any observers.
        gamma: Where the label space has `abstain`, an observer whose abstention exceeds this has answered `abstain`.
        roles: Only trials of these roles are used, and only first showings unless `repeat` is among them. The number
            of trials left out is reported in a notice.

    Returns:
        One row per observer and one column per stimulus and presentation.

    Raises:
        InvalidInput: Two different answers to one trial, two truths of one stimulus, or no trial of these roles.
            Identical trials that occur twice are dropped and reported.

    >>> from cosight.trials import read
    >>> align(read("sample:edges")).answers.response.shape  # observers, images
    (35, 160)
    """
    if not 0 <= gamma <= 1:
        raise InvalidInput(f"--gamma must be 0 to 1, got {gamma}; an observer refuses where its abstention is above it")
    left_out = role_notices(trials.frame, roles)
    notices = [*trials.notices, *left_out]
    frame, space = trials.frame.with_row_index("row"), trials.space
    if space is None:
        frame, space = code_answers(frame)
    frame = frame.drop("rt", "block", "extra", "probabilities")  # columns of large tables are copied below
    frame = _add_keys(frame.filter(has_role(roles)) if left_out else frame, notices)
    if _shown_again(frame):
        frame = _drop_ambiguous(frame, notices)
        frame = _drop_duplicates(frame, trials.frame["probabilities"], notices)
        frame = _number_presentations(frame, notices, first_only="repeat" not in parse_roles(roles))
    else:
        frame = frame.with_columns(presentation=pl.lit(0, dtype=pl.Int64))
    labels = space.answers if space is not None else _labels_of(frame)
    columns, column_of = _columns_of(frame)
    observers = sorted(frame.select("kind", "observer").unique().rows(), key=people_first_key)
    names = [name for _, name in observers]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise InvalidInput(
            f"an observer is of one kind, got two for {twice}; give the two observers names of their own"
        )
    answers, rows = _fill_matrix(frame, columns, column_of, names, labels, gamma)
    columns = columns.drop("number")
    unseen = [label for label in labels if label not in {ABSTAIN, *columns["truth"]}]
    if unseen and space == trials.space and answers.shown.any():
        notices.append(
            f"{len(unseen)} of {len(labels)} classes are the truth of no stimulus ({', '.join(unseen[:3])}...)"
        )
    seen_once = int((answers.shown.sum(axis=0) == 1).sum()) if len(names) > 1 else 0
    if seen_once:
        notices.append(f"{seen_once} of {columns.height} stimuli were seen by one observer only")
    kinds = tuple(kind for kind, _ in observers)
    return AlignedTrials(answers, tuple(names), kinds, columns, rows, labels, tuple(notices))


def check_grouping(by: Sequence[str], known: Sequence[str] = GROUPS) -> None:
    """Raise for a column that trials cannot be grouped by, or that is named twice."""
    for name in by:
        if name not in known:
            hint = did_you_mean(name, known, otherwise="choose one of these")
            raise InvalidInput(f"trials are grouped by {', '.join(known)}, got {name!r}; {hint}")
    if len(set(by)) < len(by):
        raise InvalidInput(f"each key of --by is named once, got {', '.join(by)}")


def stimulus_groups(table: AlignedTrials, by: Sequence[str]) -> list[StimulusGroup]:
    """Split the columns of a table into groups.

    Args:
        table: Aligned trials.
        by: Columns to group by, of `GROUPS`; none for one group of all columns.

    Returns:
        The groups in natural order of their values.

    Raises:
        InvalidInput: A column cannot be grouped by, or is named twice.

    >>> from cosight.trials import read
    >>> table = align(read("sample:edges"))
    >>> len(stimulus_groups(table, ["truth"])), len(stimulus_groups(table, []))
    (16, 1)
    """
    check_grouping(by)
    if not by:
        return [StimulusGroup((), np.arange(table.columns.height))]
    groups = []
    for values, part in table.columns.with_row_index("column").group_by(list(by), maintain_order=True):
        key = tuple((name, "" if value is None else str(value)) for name, value in zip(by, values, strict=True))
        groups.append(StimulusGroup(key, part["column"].to_numpy().astype(np.int64)))
    return link_groups(table, sorted(groups, key=lambda group: [natural_key(value) for _, value in group.group]))


def link_groups(table: AlignedTrials, groups: Sequence[StimulusGroup]) -> list[StimulusGroup]:
    """Return the groups with the clusters that each is drawn from.

    Groups that share clusters, directly or through other groups, are drawn together: a photo that was distorted in
    several ways is drawn as often in every condition. Groups without common clusters are drawn independently.
    """
    if table.clusters is None:
        return list(groups)
    pools: list[list[ClusterPool]] = [[] for _ in groups]
    for codes in table.clusters:
        own = [np.unique(codes[group.columns][codes[group.columns] >= 0]) for group in groups]
        member = np.repeat(np.arange(len(groups)), [len(clusters) for clusters in own])
        shape = (len(groups), int(codes.max(initial=0)) + 1)
        links = coo_array((np.ones(len(member)), (member, np.concatenate(own))), shape=shape)
        component = connected_components(links @ links.T, directed=False)[1]
        for number in np.unique(component):
            indices = np.flatnonzero(component == number).tolist()
            together = np.unique(np.concatenate([own[i] for i in indices]))
            pool = ClusterPool(together, tuple(groups[i].group for i in indices))
            for i in indices:
                pools[i].append(pool)
    return [replace(group, pools=tuple(pool)) for group, pool in zip(groups, pools, strict=True)]


def people_first_key(observer: tuple[str, str]) -> tuple[int, list[tuple[int, float, str]]]:
    """Return the sort key of (kind, name) that orders people, simulated people, models."""
    kind, name = observer
    return ["human", "simulated", *KINDS].index(kind), natural_key(name)


def natural_key(text: str) -> list[tuple[int, float, str]]:
    """Return a sort key in which c5 comes before c10 and .9 before 1.

    >>> sorted(["c10", "c5"], key=natural_key)
    ['c5', 'c10']
    """
    pieces = re.findall(r"(\d+(?:\.\d+)?|\.\d+)|((?:(?!\.\d)\D)+)", text)
    return [(0, float(number), "") if number else (1, 0.0, word) for number, word in pieces]


def _add_keys(frame: pl.DataFrame, notices: list[str]) -> pl.DataFrame:
    """Add `key`, which is the same for trials about the same stimulus, and canonical experiment and condition.

    The key is the digest, else experiment, condition and image. A picture that someone met in several experiments,
    conditions or levels has a key in each. `number` is the position of the key among all keys in order: a number takes
    less memory where trials are grouped and joined.
    """
    frame = _add_canonical(frame)
    frame = _fill_conditions(frame, frame)
    counts = frame.group_by("experiment").agg(pl.col("canonical").drop_nulls().n_unique())
    ambiguous = counts.filter(pl.col("canonical") > 1)["experiment"].to_list()
    without_condition = pl.col("stimulus").is_null() & pl.col("canonical").is_null()
    alone = frame.filter(without_condition & pl.col("experiment").is_in(ambiguous)).height
    if alone:
        notices.append(f"{alone} trials have no condition in an experiment with several: they join only each other")
    frame = frame.with_columns(pl.col("canonical").fill_null(""))
    key = digest = pl.col("stimulus")
    if frame["stimulus"].has_nulls():  # else names do not matter
        parts = [*map(pl.col, _CONTEXT), pl.col("image").str.normalize("NFC")]
        if with_levels := _experiments_with_levels(frame):
            level = pl.when(pl.col("experiment").is_in(with_levels)).then(pl.col("level").cast(pl.String))
            parts.append(level.fill_null(""))
        frame = _fill_digests(frame.with_columns(name=pl.concat_str(parts, separator=_SEPARATOR)))
        key = pl.coalesce("stimulus", "name")
    frame = frame.with_columns(number=pl.col("stimulus").rank("dense"))
    met_again = pl.col("stimulus").is_not_null() & pl.struct("number", _OBSERVER_CODE).is_duplicated()
    by_observer = frame.filter(met_again).group_by("stimulus", "observer")
    contexts = by_observer.agg(contexts=pl.struct(*_CONTEXT, "level").n_unique())
    in_several = contexts.filter(pl.col("contexts") > 1)["stimulus"].unique().to_list()
    if in_several:
        with_context = pl.concat_str(
            "stimulus", *_CONTEXT, pl.col("level").cast(pl.String).fill_null(""), separator=_SEPARATOR
        )
        key = pl.when(pl.col("stimulus").is_in(in_several)).then(with_context).otherwise(key)
    frame = frame.with_columns(key=key).drop("name", strict=False)
    return frame if key is digest else frame.with_columns(number=pl.col("key").rank("dense"))


def _experiments_with_levels(frame: pl.DataFrame) -> list[str]:
    """Return the experiments in which someone met an image of one name and condition at several levels."""
    met = frame.drop_nulls(["image", "level"]).group_by("observer", *_CONTEXT, "image").agg(pl.col("level").n_unique())
    return met.filter(pl.col("level") > 1)["experiment"].unique().sort().to_list()


def _add_canonical(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace `experiment` by its canonical spelling, and add that of the condition as `canonical`."""

    def respelled(name: str, spelling: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
        names = frame.select(name).unique().with_columns(spelling=spelling(pl.col(name)))  # few: it takes memory
        return pl.col(name).replace_strict(names[name], names["spelling"], return_dtype=pl.String)

    return frame.with_columns(
        experiment=respelled("experiment", canonical_experiment), canonical=respelled("condition", canonical_condition)
    )


def _fill_conditions(frame: pl.DataFrame, known: pl.DataFrame, keys: Sequence[str] = ("experiment",)) -> pl.DataFrame:
    """Fill missing conditions with the only one that `known` has for these keys."""
    if not frame["canonical"].has_nulls():
        return frame
    conditions = known.group_by(keys).agg(only=pl.col("canonical").drop_nulls().unique())
    only = conditions.filter(pl.col("only").list.len() == 1).with_columns(pl.col("only").list.first())
    frame = frame.join(only, on=list(keys), how="left", maintain_order="left")
    return frame.with_columns(canonical=pl.coalesce("canonical", "only")).drop("only")


def _fill_digests(frame: pl.DataFrame) -> pl.DataFrame:
    """Give trials without a digest the one that other trials have for the same name."""
    known = frame.filter(pl.col("stimulus").is_not_null() & pl.col("name").is_not_null())
    if not known.height or not frame["stimulus"].has_nulls():
        return frame
    digests = known.group_by("name").agg(pl.col("stimulus").unique())
    without = frame.filter(pl.col("stimulus").is_null()).select("name").unique()
    ambiguous = digests.filter(pl.col("stimulus").list.len() > 1).join(without, on="name", how="semi")
    if ambiguous.height:
        name = _readable(ambiguous["name"][0])
        raise InvalidInput(f"a name must stand for one picture to be joined on, got several digests for {name}")
    first = digests.select("name", digest=pl.col("stimulus").list.first())
    frame = frame.join(first, on="name", how="left", maintain_order="left")
    return frame.with_columns(stimulus=pl.coalesce("stimulus", "digest")).drop("digest")


def _readable(key: str) -> str:
    return key.replace(_SEPARATOR, " / ")


def _shown_again(frame: pl.DataFrame) -> bool:
    """Return whether some observer has several trials with one stimulus."""
    return bool(frame.select(pl.struct("number", _OBSERVER_CODE).is_duplicated().any()).item())


def _drop_ambiguous(frame: pl.DataFrame, notices: list[str]) -> pl.DataFrame:
    """Drop the pictures that a set has under two names with two truths: nobody can answer both correctly."""
    met = frame.group_by("observer", "number").agg(pl.col("truth").drop_nulls().n_unique(), pl.col("image").n_unique())
    numbers = met.filter((pl.col("truth") > 1) & (pl.col("image") > 1))["number"].unique()
    if not len(numbers):
        return frame
    ambiguous = pl.col("number").is_in(numbers.implode())
    named = frame.filter(ambiguous).select("number", name=pl.format("{} ({})", "image", "truth")).unique()
    names = named.filter(pl.col("number") == numbers.min())["name"].sort()
    notices.append(
        f"pictures that are shown under several names with different truths are left out: {len(numbers)} "
        f"({' = '.join(names.drop_nulls())}{', ...' if len(numbers) > 1 else ''})"
    )
    return frame.filter(~ambiguous)


def _drop_duplicates(frame: pl.DataFrame, probabilities: pl.Series, notices: list[str]) -> pl.DataFrame:
    """Drop identical trials; raise for one trial with two different answers. `probabilities` are those of every row."""
    identity = ["observer", "number", "session", "trial", "role", "repetition"]
    unique = frame.unique(identity, keep="first", maintain_order=True)
    if unique.height == frame.height:
        return frame
    answer = ["response", "truth", "abstention", "probabilities"]
    texts = probabilities.gather(frame["row"]).cast(pl.List(pl.String)).list.join(" ")
    as_text = frame.with_columns(texts.alias("probabilities"))
    counts = as_text.group_by(identity).agg(pl.col("key").first(), pl.col(answer).n_unique()).sort(identity)
    conflicts = counts.filter(pl.any_horizontal(pl.col(answer) > 1))
    if conflicts.height:
        first = conflicts.row(0, named=True)
        if first["truth"] > 1:
            truths = frame.filter(observer=first["observer"], number=first["number"])["truth"].unique().sort()
            raise InvalidInput(f"a stimulus has one truth, got {' and '.join(truths)} for {_readable(first['key'])}")
        number = max(first[name] for name in answer)
        raise InvalidInput(
            f"one trial has one answer, got {number} for {first['observer']}, session {first['session']}, "
            f"trial {first['trial']}, stimulus {_readable(first['key'])}; remove one of them"
        )
    notices.append(f"{frame.height - unique.height} trials occur twice in the files and were counted once")
    return unique


def _number_presentations(frame: pl.DataFrame, notices: list[str], *, first_only: bool) -> pl.DataFrame:
    """Add `presentation`: 0 for an observer's first trial with a stimulus, then 1, ...; perhaps keep the first only.

    The single answer of a model is repeated for every presentation that others had.
    """
    if first_only:  # one picture may have two names in a set: those are two stimuli, each shown once
        first = first_showings(frame, ["observer", "number", "image"])
        if later := frame.height - first.height:
            notices.append(f"{later} later showings of a stimulus are left out; --role test,repeat includes them")
        frame = first
    session = pl.col("session").cast(pl.Float64, strict=False)
    frame = frame.sort("repetition", session, "session", "trial", "row", nulls_last=True)
    frame = frame.with_columns(presentation=pl.int_range(pl.len()).over("observer", "number")).sort("row")
    presentations = pl.col("presentation").max().over("number") + 1
    answered_once = (pl.len().over("observer", "number") == 1) & ~pl.col("kind").is_in(PEOPLE)
    repeated = pl.when(answered_once).then(pl.int_ranges(0, presentations)).otherwise(pl.concat_list("presentation"))
    return frame.with_columns(presentation=repeated).explode("presentation")


def _labels_of(frame: pl.DataFrame) -> tuple[str, ...]:
    """Return the labels of trials without a label space: their truths, `abstain` last."""
    truths = sorted(frame["truth"].drop_nulls().unique().to_list())
    if not truths:
        raise InvalidInput("no trial has a truth; name the classes with --labels")
    unknown = frame.filter(~pl.col("response").is_in([*truths, ABSTAIN]))
    if unknown.height:
        row = unknown.row(0, named=True)
        raise InvalidInput(
            f"a response must be a class that some trial shows, got {row['response']!r} ({row['observer']}, "
            f"{row['image']}) which is the truth of none; name all classes with --labels A,B,..."
        )
    return (*(truth for truth in truths if truth != ABSTAIN), *([ABSTAIN] if ABSTAIN in truths else []))


def _columns_of(frame: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Return one row per stimulus and presentation, and which of them each trial is about.

    Rows are sorted, so that the order of files and rows changes no number. Where observers disagree about a fact, the
    first in alphabetical order is taken; they must agree about the truth.
    """
    identity = ["number", "presentation"]
    columns = frame.unique(identity, keep="first").sort(identity)
    most = int(columns["presentation"].max() or 0) + 1  # type: ignore[arg-type]
    position = pl.col("number").cast(pl.Int64) * most + pl.col("presentation")
    positions, of_trials = (part.select(position).to_series().to_numpy() for part in (columns, frame))
    column_of = np.searchsorted(positions, of_trials)

    def lowest(name: str, values: pl.Expr) -> pl.Series:
        """Return the first value of each stimulus in alphabetical order."""
        if frame[name].eq_missing(columns[name].gather(column_of)).all():  # as a rule
            return columns[name]
        found = frame.group_by(identity).agg(values.min(), another=values.max())
        conflicts = found.filter(pl.col(name) != pl.col("another")).sort(identity)
        if name == "truth" and conflicts.height:
            first = conflicts.join(columns.select(*identity, "key"), on=identity, maintain_order="left").row(
                0, named=True
            )
            truths = f"{first['truth']} and {first['another']}"
            raise InvalidInput(f"a stimulus has one truth, got {truths} for {_readable(first['key'])}")
        return found.sort(identity)[name]

    words = {name: lowest(name, pl.col(name).filter(pl.col(name) != "")).fill_null("") for name in _CONTEXT}
    facts = {name: lowest(name, pl.col(name)) for name in ("condition", "level", "truth", "image", "stimulus")}
    columns = columns.select(*identity, "key", **words, **facts)
    spellings = columns.group_by(_CONTEXT, maintain_order=True).agg(pl.col("condition").min())
    if spellings.height < columns.select(*_CONTEXT, "condition").n_unique():
        columns = columns.drop("condition").join(spellings, on=list(_CONTEXT), how="left", maintain_order="left")
    order = [*identity, "key", "experiment", "condition", "level", "truth", "image", "stimulus"]
    return columns.select(order), column_of


def _fill_matrix(
    frame: pl.DataFrame,
    columns: pl.DataFrame,
    column_of: NDArray[np.int64],
    names: list[str],
    labels: tuple[str, ...],
    gamma: float,
) -> tuple[Answers, NDArray[np.int32]]:
    """Return the answers as codes, and the row of the trial table behind each of them; (observers, columns)."""
    check_classes(len(labels))
    code_of = {label: index for index, label in enumerate(labels)}
    response = pl.col("response")
    if ABSTAIN in labels:
        response = pl.when(pl.col("abstention") > gamma).then(pl.lit(ABSTAIN)).otherwise(response)
    coded = frame.select(
        observer=pl.col("observer").replace_strict({n: i for i, n in enumerate(names)}, return_dtype=pl.Int32),
        code=response.replace_strict(code_of, default=NO_ANSWER, return_dtype=pl.Int16),
    )
    index = coded["observer"].to_numpy(), column_of
    codes = np.full((len(names), columns.height), NOT_SHOWN, dtype=np.int16)
    rows = np.full(codes.shape, -1, dtype=np.int32)
    codes[index], rows[index] = coded["code"].to_numpy(), frame["row"].to_numpy()
    truth: CodeArray = (
        columns["truth"].replace_strict(code_of, default=NO_ANSWER, return_dtype=pl.Int16).to_numpy().astype(np.int16)
    )
    return Answers(codes, truth, len(labels)), rows


# ---- trials beside a stimulus manifest


def match_manifest(manifest: pl.DataFrame, trials: pl.DataFrame) -> pl.DataFrame:
    """Pair the rows of a manifest with the trials about them.

    A row and a trial that both have a pair with the same digest, context and image name are paired with such partners
    only: a picture that a set has many times would otherwise be paired with each of its copies.

    Args:
        manifest: A whole stimulus set: its conditions decide what a missing condition stands for.
        trials: Trials, or anything with the columns stimulus, image, experiment and condition.

    Returns:
        One row per pair: `row` and `trial_row` are row numbers; `near` counts 2 where experiment and condition agree
        and 1 where the image name does.
    """
    columns = {name: pl.col(name).cast(SCHEMA[name]) for name in ("stimulus", "image", "experiment", "condition")}
    stimuli, shown = (
        _add_canonical(frame.select(**columns)).select("stimulus", *_CONTEXT, name=pl.col("image").str.normalize("NFC"))
        for frame in (manifest, trials)
    )
    both = pl.concat([stimuli, shown])
    shown = _fill_conditions(_fill_conditions(shown, both), stimuli, ("experiment", "name"))
    stimuli = _fill_conditions(stimuli, both)
    both = pl.concat([stimuli, shown]).with_columns(pl.col("canonical").fill_null(""))
    codes = both.select(pl.all().rank("dense"))  # numbers for texts: pairs take little memory
    stimuli = codes.head(manifest.height).with_row_index("row")
    shown = codes.tail(trials.height).with_row_index("trial_row")
    no_digest = pl.col("stimulus").is_null()
    by_name = [*_CONTEXT, "name"]
    exact = stimuli.join(shown, on=["stimulus", *by_name], coalesce=False)  # nulls are never equal
    rest = shown.join(exact, on="trial_row", how="anti")
    pairs = pl.concat(
        [
            exact,
            stimuli.join(exact, on="row", how="anti").join(shown, on="stimulus", coalesce=False),
            stimuli.join(exact, on="row", how="semi").join(rest, on="stimulus", coalesce=False),
            stimuli.filter(no_digest).join(shown, on=by_name, coalesce=False),
            stimuli.filter(~no_digest).join(shown.filter(no_digest), on=by_name, coalesce=False),
        ]
    )
    same_context = pl.all_horizontal(pl.col(name) == pl.col(f"{name}_right") for name in _CONTEXT)
    same_name = (pl.col("name") == pl.col("name_right")).fill_null(False)
    return pairs.select("row", "trial_row", near=2 * same_context.cast(pl.Int8) + same_name.cast(pl.Int8))


def manifest_rows(manifest: pl.DataFrame, trials: pl.DataFrame) -> pl.Series:
    """Return the row number of each trial's stimulus in a manifest; null where none or several fit equally well."""
    pairs = match_manifest(manifest, trials)
    nearest = pairs.filter(pl.col("near") == pl.col("near").max().over("trial_row"))
    unique = nearest.filter(pl.len().over("trial_row") == 1).select("trial_row", "row")
    numbered = trials.select(trial_row=pl.int_range(pl.len(), dtype=pl.UInt32))
    return numbered.join(unique, on="trial_row", how="left", maintain_order="left")["row"]


def with_manifest(trials: Trials, manifest: pl.DataFrame) -> Trials:
    """Return trials with what a manifest knows: digests of trials with only a name, missing truths, conditions, levels.

    A trial that fits several stimuli of the manifest equally well stays as it is. A trial whose digest the manifest has
    in another experiment, such as that of a study's name, gets experiment, condition and level of the manifest.
    """
    trials = _in_experiments_of(trials, manifest)
    facts = ("stimulus", "truth", "condition", "level")
    if not any(trials.frame[name].has_nulls() for name in facts):
        return trials
    known = manifest.with_row_index("row").select("row", *(pl.col(name).alias(f"{name}_known") for name in facts))
    rows = trials.frame.with_columns(manifest_rows(manifest, trials.frame))
    frame = rows.join(known, on="row", how="left", maintain_order="left")
    frame = frame.with_columns(pl.coalesce(name, f"{name}_known").alias(name) for name in facts)
    filled = replace(trials, frame=frame.select(trials.frame.columns))
    return filled if trials.space is None else filled.with_space(trials.space)


def _in_experiments_of(trials: Trials, manifest: pl.DataFrame) -> Trials:
    """Return trials of the manifest's pictures in the manifest's experiments; pictures that it has twice stay."""
    known, names = manifest["experiment"].drop_nulls().unique(), ("experiment", "condition", "level")
    if trials.frame["experiment"].is_in(known.implode()).all():  # as a rule
        return trials
    once = manifest.filter(pl.col("experiment").is_not_null()).unique("stimulus", keep="none")
    facts = once.select("stimulus", *(pl.col(name).alias(f"{name}_known") for name in names))
    frame = trials.frame.join(facts, on="stimulus", how="left", maintain_order="left")
    moved = pl.col("experiment_known").is_not_null() & ~pl.col("experiment").is_in(known.implode()).fill_null(True)
    frame = frame.with_columns(pl.when(moved).then(f"{name}_known").otherwise(name).alias(name) for name in names)
    return replace(trials, frame=frame.select(trials.frame.columns))


# ---- the cues of a cue-conflict image: its truth is the shape, its name tells the texture

CUE_CONFLICT = "cue-conflict"  # the experiment whose images are named SHAPEn-TEXTUREm.png (Geirhos et al. 2019)


def texture_codes(columns: pl.DataFrame, labels: tuple[str, ...]) -> CodeArray:
    """Return the code of each stimulus' texture class, read off its image name; NO_ANSWER where an image has none.

    >>> columns = pl.DataFrame({"experiment": ["cue-conflict", "edge"], "image": ["cat3-dog12.png", "cat1.png"]})
    >>> texture_codes(columns, ("cat", "dog")).tolist()
    [1, -1]
    """
    codes = {label: index for index, label in enumerate(labels)}
    texture = pl.col("image").str.extract(r"^[^-]*\d-([A-Za-z_ ]+)\d+\.[A-Za-z]+$")
    named = pl.when(pl.col("experiment") == CUE_CONFLICT).then(texture)
    coded = columns.select(named.replace_strict(codes, default=NO_ANSWER, return_dtype=pl.Int16)).to_series()
    return np.asarray(coded.to_numpy(), dtype=np.int16)
