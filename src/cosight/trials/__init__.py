"""The trial table: one row per trial, for people and models alike, read from and written to several formats.

`read` and `write` (`formats`) convert files to `Trials` (`table`), CSV files and data frames of any program too
(`columns`, `csv_tables`); `align` (`join`) brings everyone's answers into one
matrix, `AlignedTrials`, which all scoring starts from. `LabelSpace` (`spaces`) names the classes, `LabelMap`
(`mapping`) turns a model's own outputs into answers, and `summarise` (`summary`) counts.
"""

from cosight.trials import leaderboard, model_vs_human, parquet, psych_ds  # noqa: F401  they register their formats
from cosight.trials.formats import Format, convert, formats, read, write
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
    "convert",
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
