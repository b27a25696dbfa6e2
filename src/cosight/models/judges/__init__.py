"""Judges: observers that decide which images look alike. They answer the same tasks as people (2AFC, clustering).

* `lpips[,checkpoint=FILE]`   LPIPS with AlexNet (Zhang et al. 2018)
* `dreamsim`                  DreamSim (Fu et al. 2023)
* any model, `source:name`    the Euclidean distance of its features (`layer=PATH` chooses the layer)
* people                      a study of type 2afc or cluster; its export has their trials

`questions` has the interface (`Judge`), `distance_judge` what most judges share: they map every image to a vector and
choose the option whose vector is nearest to the query's. `answer_tasks.judge` asks judges the tasks of a stimulus set.
Importing this package imports no torch.
"""

from cosight.models.judges.distance_judge import DistanceJudge
from cosight.models.judges.questions import Choice, Judge, PixelsOf, Question
from cosight.models.judges.registry import JudgeSource, check_judge, judges, load_judge

__all__ = [
    "Choice",
    "DistanceJudge",
    "Judge",
    "JudgeSource",
    "PixelsOf",
    "Question",
    "check_judge",
    "judges",
    "load_judge",
]
