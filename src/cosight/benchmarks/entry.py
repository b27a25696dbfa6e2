"""What a benchmark declares: its registry entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cosight.benchmarks.table_layout import TableLayout
from cosight.progress import Progress

if TYPE_CHECKING:
    from cosight.stimuli.generate import GeneratedSet
    from cosight.stimuli.sets import StimulusSet

__all__ = ["AlteredPhotos", "Benchmark", "BuildResult", "PairComparison", "Progress", "ReportChart", "ReportSection"]

"""Called with (done, total, what)."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The result of a builder: the set, its distractors and its closed test set; `notices` are for the user.

    `trials` is the folder of answers that a builder has collected itself; the command prints the table of them.
    """

    generated: GeneratedSet
    distractors: GeneratedSet | None = None
    closed: GeneratedSet | None = None
    notices: tuple[str, ...] = ()
    trials: Path | None = None


@dataclass(frozen=True, slots=True)
class AlteredPhotos:
    """Photos that are altered while models are evaluated, by every kind of a family at every step."""

    verb: str  # of `cosight stimuli`: corrupt, distort, manipulate
    prepare: str  # how a photo is scaled and cropped first
    options: Mapping[str, Any] = field(default_factory=dict)  # of the verb
    every_class: bool = False  # whether each class of the label space needs a photo
    clean: bool = False  # whether the unaltered photos are shown too, as condition clean, level 0
    laion_c_layout: bool = False  # whether stored files are called as in the published LAION-C


ChartKind = Literal["lines", "bars", "dots", "grid", "scatter", "pairs", "pair-scatter", "pictures", "sheet"]


@dataclass(frozen=True, slots=True)
class ReportChart:
    """A chart of a report: which score rows it shows, and how.

    Attributes:
        kind: `lines`, `bars` (stacked), `dots` and `grid` show a measure over the values of a key of the rows' groups,
            one line per observer; `scatter` shows two measures, one point per observer; `pairs` a measure of every two
            observers; `pair-scatter` two such measures, one point per pair; `pictures` one stimulus per condition and
            level; `sheet` the benchmark's contact sheet.
        title: What it shows.
        measure: Registered name; empty for `scatter`, `pair-scatter`, `pictures` and `sheet`.
        x: The key of the groups; the first measure of `scatter` and `pair-scatter`.
        y: The second measure of `scatter` and `pair-scatter`.
        where: Only rows whose group has these values, as `key=value;...` or `key=value,value;...`; of `scatter`, the
            groups of both measures, separated by `|`.
        facet: A key of the groups: one panel per value.
        text: An explanation below it.
    """

    kind: ChartKind
    title: str
    measure: str = ""
    x: str = ""
    y: str = ""
    where: str = ""
    facet: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Heading, explanation and charts of one section of a report."""

    title: str
    text: str
    charts: tuple[ReportChart, ...] = ()


@dataclass(frozen=True, slots=True)
class PairComparison:
    """A benchmark that compares every two observers of any trials, with correlations between measures and z-scores."""

    preset: str  # of `cosight compare`: measures, domains, conventions


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its stimuli, label space, human reference, measures, table layout and report sections.

    `build` builds its stimulus set, or `altered` declares how photos are altered while models are evaluated, or
    `comparison` declares how the observers of any trials are compared. With both `build` and `altered`, the stimuli are
    the same.

    The signature of `build` declares its options, for Python and for the command line: positional parameters become
    arguments, keyword-only ones options, and `Annotated[Path | None, "help text"]` has the help text. One parameter is
    called `out`, the folder of the set. A keyword-only `progress` is supplied by the command line. Import heavy
    packages inside the function: the registry is read to list benchmarks.

    Attributes:
        name: Name in the registry.
        summary: One sentence.
        source: Citation.
        labels: Name of the label space.
        any_labels: Whether sets of other label spaces can be built.
        experiment: Value of the column `experiment`.
        humans: The human reference, in words.
        needs: What the user provides, in words.
        measures: Registered names.
        build: Builds the stimulus set and returns a `BuildResult`.
        example: The command that makes the stimuli, if it needs some of the options.
        altered: How photos are altered.
        sheet: Writes the contact sheet of a set (default: a row per kind).
        table: Layout of `cosight score --on NAME`.
        comparison: How `cosight score --on NAME` compares observers, instead of a table.
        sections: Sections of a report: `stimuli`, `table`.
    """

    name: str
    summary: str
    source: str
    labels: str
    experiment: str
    humans: str
    needs: str = "nothing"
    measures: tuple[str, ...] = ("accuracy",)
    build: Callable[..., BuildResult] | None = None
    example: str | None = None
    altered: AlteredPhotos | None = None
    any_labels: bool = False
    sheet: Callable[[StimulusSet, Path], None] | None = None
    table: TableLayout | None = None
    comparison: PairComparison | None = None
    sections: Mapping[str, ReportSection] = field(default_factory=dict)

    @property
    def supports(self) -> tuple[str, ...]:
        """The commands that take the benchmark's name: build, evaluate (`--on NAME`), score (`--on NAME`)."""
        required = {"build": self.build, "evaluate": self.altered, "score": self.table or self.comparison}
        return tuple(command for command, value in required.items() if value is not None)

    @property
    def usage(self) -> str:
        """The command that makes the stimuli, or shows them to a model.

        >>> from cosight.benchmarks import benchmarks
        >>> benchmarks["cifar-10h"].usage
        'cosight build cifar-10h SOURCE OUT'
        """
        if self.example is not None:
            return self.example
        if self.build is None:
            return f"cosight evaluate MODEL --on {self.name} --source PHOTOS"
        parameters = signature(self.build).parameters.values()
        arguments = [p.name.upper() for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
        options = [f"--{p.name} ..." for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.default is p.empty]
        return " ".join(["cosight build", self.name, *arguments, *options])
