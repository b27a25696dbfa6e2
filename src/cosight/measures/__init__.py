"""Measures: numbers in, numbers out."""
