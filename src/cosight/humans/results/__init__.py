"""Results of a study, all from its trials: `exclusion` rules, `quality`, and `export` (gold labels, curated lists)."""
