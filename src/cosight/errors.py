"""Every error we raise on purpose.

* CosightError       shown by the command line as one line, exit 2, no traceback
  - InvalidInput     an array, file or option breaks a stated rule (a ValueError)
  - UnknownName      no registry entry has this name (a LookupError)

A message gives the rule, the value got and the way out.
"""

__all__ = ["CosightError", "InvalidInput", "UnknownName"]


class CosightError(Exception):
    """Something the user can mend."""


class InvalidInput(CosightError, ValueError):
    """An array, file or option breaks a stated rule."""


class UnknownName(CosightError, LookupError):
    """No registry entry has this name."""
