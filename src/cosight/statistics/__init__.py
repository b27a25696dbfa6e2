"""The resampling engine: from aligned trials to score rows with intervals. Everything that scores calls it.

The objects, in the order in which they are made:

* `AlignedTrials` (`trials.join`): everyone's answers as one matrix, observers x columns; a column is a stimulus, or one
  presentation of a stimulus that was presented several times.
* `StimulusGroup` (`trials.join`): the columns that share a condition, an experiment, a category ...; one group of all
  columns without `--by`. Its `group` is a `GroupKey`, pairs of names and values, which every number of the group keeps.
* `Draw` (`resampling`): the answers to one group of stimuli and its bootstrap resamples. A resample is a weight per
  column (how often its stimulus was drawn) and a weight per observer (how often the person was drawn; 1 for models).
  All measures of a group see the same resamples.
* A form: how one measure is computed from answers and weights, for all resamples at once. There are three kinds.
  `PairForm` (`measures.pair_forms`): a measure of two observers. `SoloForm` (`measures.solo_forms`): a measure of one
  observer that is a function of sums over its trials, so that the trials of several people can be pooled. `ScoreForm`
  (`score_forms`): any other measure of one observer, which may also read probabilities, abstentions and gold labels;
  it says what it lacks in some data, and computes blocks.
* `Key` (`blocks`): what one number is about: observer, against, measure, statistic.
* `Block` (`blocks`): the numbers of one group, each with its key, its value, its resamples, the number of trials and of
  clusters, flags and a note. Means over pairs and groups, normalised values, ranks, differences and correlations are
  computed from blocks, resample by resample.
* `Row` and `Scores` (`rows`): the typed result. `blocks.rows_of` computes every interval except those of ranks and
  differences, which `contrasts` computes; all of them stay inside the range of the measure.

The modules: `resampling` (draws), `blocks` (values with resamples), `rows` (the result); `pair_scores`, `score_forms`,
`distances`, `abstention_scores`, `rater_agreement` (numbers of each group); `contrasts`, `seeds` (numbers computed from
others); `outputs`, `gold_labels` (what measures read besides answers).

A group of observers that share a mean is an `ObserverGroup`: people, simulated people or models. Fewer than four people
are not resampled. Random streams depend on the seed and on what is drawn (the group, its stimuli, the people), not on
the measures or the order of files.
"""
