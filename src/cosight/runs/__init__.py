"""Runs: observers x stimuli, executed once, resumable, stored with everything that their numbers are derived from.

* `evaluate`             `cosight.evaluate("timm:resnet50", on=SET, out=RUN)` and `resume(RUN)`
* `run_plan`             the plan: stimuli, label space, shards and their keys
* `stimulus_sources`     the stimuli: stored, or photos altered while models are evaluated
* `observers`            who answers: models, recorded answers
* `abstention_observers` observers that can abstain, derived from stored logits and features
* `probe_training`       linear probes on a model's features
* `run_job`              the execution of a plan
* `execution`            batches: images are read in threads while the model answers; engines
* `ray_engine`           the engine on a Ray cluster
* `folder`, `run_record` the run folder; `run.json` and the status of a run

Nothing is imported here: reading a run needs no image libraries.
"""
