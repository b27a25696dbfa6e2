"""Simulated participants: what they see (`sight`), how they answer (`respondents`), over HTTP (`simulate`) or in a
browser (`browser`). Simulated is said of them everywhere."""
