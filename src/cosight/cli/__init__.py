"""The command line: one module per command; each parses, calls and prints."""

from cosight.cli.app import main

__all__ = ["main"]
