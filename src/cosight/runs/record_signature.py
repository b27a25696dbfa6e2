"""Signatures of run records: whether this user started a run, or its folder came from somebody else.

Resuming a run executes the models that its record names, `python:` modules included. A record is therefore signed with
a random key that only this user can read (`$XDG_STATE_HOME/cosight/record-key`, else `~/.local/state/...`); nothing in
a run folder reveals the key, so a record that came from elsewhere, or was edited, has no valid signature.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Any

from cosight.files import atomic_write

__all__ = ["is_signed", "sign"]

_KEY_BYTES = 32


def sign(content: Any) -> str | None:
    """Return the signature of a value that can be JSON; None where no key can be stored."""
    key = _read_key() or _create_key()
    return None if key is None else _signature(content, key)


def is_signed(content: Any, signature: Any) -> bool:
    """Return whether `sign` gave this signature to the same value, for this user."""
    key = _read_key()
    return (
        key is not None
        and isinstance(signature, str)
        and hmac.compare_digest(_signature(content, key).encode(), signature.encode("utf-8", "replace"))
    )


def _signature(content: Any, key: bytes) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hmac.digest(key, text.encode(), "sha256").hex()


def _key_file() -> Path | None:
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:  # no home folder
        return None
    return Path(state) / "cosight" / "record-key"


def _read_key() -> bytes | None:
    path = _key_file()
    try:
        key = path.read_bytes() if path is not None else b""
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _create_key() -> bytes | None:
    """Store a new key and return the stored one, which another process may have written at the same moment."""
    path = _key_file()
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_write(path, private=True) as draft:
            draft.write_bytes(secrets.token_bytes(_KEY_BYTES))
    except OSError:
        return None
    return _read_key()
