"""What has been computed, on disk: an exploration that was interrupted goes on where it was."""

import hashlib
import json
from contextlib import suppress
from typing import Any

from xpulpnn_sim.user_cache import cache_directory, counts, store

_FOLDER = "widths"


def kept(key: str) -> Any:
    """The JSON value kept as ``key``; None if there is none."""
    entry = cache_directory() / _FOLDER / _name(key)
    if counts(entry):
        with suppress(OSError, ValueError):
            return json.loads(entry.read_text())
    return None


def keep(key: str, value: Any) -> None:
    """Keep a JSON value."""
    store(cache_directory() / _FOLDER / _name(key), json.dumps(value))


def _name(key: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
