"""cosight: measure how closely vision models match human perception.

One table of trials for people and models, every number with its interval. The commands that compute are calls of the
same name, from `cosight.build(...)` and `cosight.evaluate(...)` to `cosight.study.new(...)`; `dir(cosight)` lists them.
`cosight.trials.read(...)` reads any trial file, `cosight.measures` has the numbers as plain functions of arrays,
`cosight.stimuli` turns images into stimuli, `cosight.models` has models by name, `cosight.data` public data sets.
Packages are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cosight.extras import require_for

if TYPE_CHECKING:
    from cosight import data, export, measures, models, runs, scoring, stimuli, study, trials
    from cosight.benchmarks import build
    from cosight.demos import demo
    from cosight.models.judges.answer_tasks import judge
    from cosight.reports.figures import figure
    from cosight.reports.site import report
    from cosight.runs.evaluate import evaluate, resume
    from cosight.runs.preview import preview
    from cosight.runs.shift import shift
    from cosight.scoring.compare import compare
    from cosight.scoring.disagree import disagree
    from cosight.scoring.plan import plan
    from cosight.scoring.score import score
    from cosight.training import train

__all__ = [
    "build",
    "compare",
    "data",
    "demo",
    "disagree",
    "evaluate",
    "export",
    "figure",
    "judge",
    "measures",
    "models",
    "plan",
    "preview",
    "report",
    "resume",
    "runs",
    "score",
    "scoring",
    "shift",
    "stimuli",
    "study",
    "train",
    "trials",
]

_CALLS = {
    "build": "cosight.benchmarks",
    "compare": "cosight.scoring.compare",
    "demo": "cosight.demos",
    "disagree": "cosight.scoring.disagree",
    "evaluate": "cosight.runs.evaluate",
    "figure": "cosight.reports.figures",
    "judge": "cosight.models.judges.answer_tasks",
    "plan": "cosight.scoring.plan",
    "preview": "cosight.runs.preview",
    "report": "cosight.reports.site",
    "resume": "cosight.runs.evaluate",
    "score": "cosight.scoring.score",
    "shift": "cosight.runs.shift",
    "train": "cosight.training",
}


def __getattr__(name: str) -> Any:
    if name in _CALLS:
        require_for(name)
        return getattr(import_module(_CALLS[name]), name)
    if name in __all__:
        return import_module(f"cosight.{name}")
    raise AttributeError(f"module 'cosight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
