"""The version of run folders."""

__all__ = ["SCHEMA"]

SCHEMA = 2  # grows when the same answers would be written otherwise
