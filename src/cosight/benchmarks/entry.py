"""What a benchmark states about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.benchmarks.table_layout import TableLayout

if TYPE_CHECKING:
    from cosight.stimuli.generate import GeneratedSet
    from cosight.stimuli.sets import StimulusSet

__all__ = ["AlteredPhotos", "Benchmark", "BuildResult", "Progress", "ReportSection"]

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what)."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a builder made: the set, its distractors and its closed test set; `notices` are for the user."""

    generated: GeneratedSet
    distractors: GeneratedSet | None = None
    closed: GeneratedSet | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlteredPhotos:
    """Photos that are altered while models are evaluated, by every kind of a family at every step."""

    verb: str  # of `cosight stimuli`: corrupt, distort, manipulate
    prepare: str  # how a photo is scaled and cropped before
    options: Mapping[str, Any] = field(default_factory=dict)  # of the verb


@dataclass(frozen=True, slots=True)
class ReportSection:
    """The heading and the explanation of one part of a report."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: what is shown, in which label space, how it is made, and what it is compared with.

    Either `build` makes a stimulus set of it, or `altered` says how photos are altered while models are evaluated.

    `build` is a function that builds the set and returns `BuildResult`. Its signature declares the options, for Python
    and for the command line: positional parameters become arguments, keyword-only ones options, and
    `Annotated[Path | None, "help text"]` has the help text. One parameter is called `out`, the set's folder. A
    keyword-only `progress` is supplied by the command line. Import what is heavy inside the function: the registry is
    read to list benchmarks.
    """

    name: str
    summary: str
    source: str  # citation
    labels: str  # label space
    experiment: str
    humans: str  # the human reference, in words
    needs: str = "nothing"  # what the user provides, in words
    measures: tuple[str, ...] = ("accuracy",)  # registered names
    build: Callable[..., BuildResult] | None = None
    example: str | None = None  # the command that makes the stimuli, where that needs some of the optional arguments
    altered: AlteredPhotos | None = None
    sheet: Callable[[StimulusSet, Path], None] | None = None  # writes the set's contact sheet (default: kinds down)
    table: TableLayout | None = None  # of `cosight score --on NAME`
    sections: Mapping[str, ReportSection] = field(default_factory=dict)  # of a report: `stimuli`, `table`

    @property
    def supports(self) -> tuple[str, ...]:
        """The commands that take the benchmark's name: build, evaluate (`--on NAME`), score (`--on NAME`)."""
        able = {"build": self.build, "evaluate": self.altered, "score": self.table}
        return tuple(command for command, way in able.items() if way is not None)

    @property
    def usage(self) -> str:
        """The command that makes the stimuli or shows them.

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
