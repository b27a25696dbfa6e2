"""`python -m cosight`: the same as `cosight`."""

from cosight.cli import main

main()
