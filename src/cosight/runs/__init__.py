"""Runs: observers x stimuli, done once, resumable, kept with everything that their numbers can be derived from again.

* evaluate, job   the whole of it: `cosight.evaluate("timm:resnet50", on=SET, out=RUN)`, and `evaluate.resume(RUN)`
* planning, plan  what is to be done: stimuli, label space, shards and their keys
* shown           the stimuli: stored, or photos altered on the way
* invitations, participants   who answers: models by line, models themselves, recorded answers, probes (probing)
* work            images read in threads beside the model
* abstaining      observers that can refuse, from what is kept
* engines         this process, or a Ray cluster (ray_engine)
* folder, record  what is kept, and `run.json`
* status          what has become of a run

Nothing is imported here: looking at a run takes no image libraries.
"""
