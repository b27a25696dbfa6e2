"""The command line: one file a noun, each parses, calls and prints."""

from cosight.cli.app import main

__all__ = ["main"]
