"""Runs: observers x stimuli, done once, resumable, kept with everything that their numbers can be derived from again.

* evaluate        the whole of it: `evaluate("timm:resnet50", on=SET, out=RUN)`
* planning, plan  what is to be done: stimuli, label space, shards and their keys
* shown           the stimuli: stored, or photos altered on the way
* invitations, participants   who answers: models by line, models themselves, recorded answers, probes (probing)
* work            images read in threads beside the model
* engines         this process, or a Ray cluster
* folder, record  what is kept, and `run.json`
* status          what has become of a run
"""

from cosight.runs.evaluate import Run, evaluate

__all__ = ["Run", "evaluate"]
