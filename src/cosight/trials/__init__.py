"""The trial table: one row a trial, people and models alike; read from and written to any of its formats."""

from cosight.trials import leaderboard, model_vs_human, parquet, psych_ds  # noqa: F401  they register their formats
from cosight.trials.formats import Format, formats, read, write
from cosight.trials.join import AlignedTrials, StimulusGroup, align, stimulus_groups
from cosight.trials.mapping import LabelMap, MappedAnswers, answers_from, label_map
from cosight.trials.samples import Sample, sample_counts, samples
from cosight.trials.spaces import ABSTAIN, LabelSpace, label_space, label_spaces
from cosight.trials.summary import Summary, summarise
from cosight.trials.table import KINDS, SCHEMA, Trials, concat, make_trials

__all__ = [
    "ABSTAIN",
    "KINDS",
    "SCHEMA",
    "AlignedTrials",
    "Format",
    "LabelMap",
    "LabelSpace",
    "MappedAnswers",
    "Sample",
    "StimulusGroup",
    "Summary",
    "Trials",
    "align",
    "answers_from",
    "concat",
    "formats",
    "label_map",
    "label_space",
    "label_spaces",
    "make_trials",
    "read",
    "sample_counts",
    "samples",
    "stimulus_groups",
    "summarise",
    "write",
]
