"""Simulated participants: how they answer (`respondents`, `panel`), and take part over HTTP (`simulate`) or in a
browser (`browser`). Every result calls them simulated."""
