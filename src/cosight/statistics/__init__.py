"""The resampling engine: draws of stimuli and people, intervals, agreement, typed score rows. Everything that scores
calls it."""
