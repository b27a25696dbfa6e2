"""Real trials that ship with the package; `cosight.trials.samples` names and reads them.

The trials are CC BY 4.0: `ATTRIBUTION.md` names the authors and says what was changed. `tools/make_samples.py` of the
repository writes the files from the published CSV files.
"""
