"""What a participant's request is refused for, with the HTTP status that says so."""

from __future__ import annotations

from cosight.errors import CosightError

__all__ = ["Refused"]


class Refused(CosightError):
    """A request that cannot be granted: who asked may not, or not now."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
