"""Seed and parameters that the launcher passes to the bench in the simulator."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import ToolError
from xpulpnn.field_values import apply_settings

SEED_VARIABLE = "XPULPNN_SEED"
DATA_VARIABLE = "XPULPNN_BENCH_DATA"
DEFAULT_SEED = 1
CLOCK_NS = 10


def seed_from_environment() -> int:
    """Return the seed of all random stimuli: the variable ``XPULPNN_SEED`` or 1."""
    text = os.environ.get(SEED_VARIABLE, str(DEFAULT_SEED))
    try:
        return int(text)
    except ValueError:
        raise ToolError(f"{SEED_VARIABLE} must be an integer, not {text}") from None


@cache
def bench_data() -> dict[str, Any]:
    return json.loads(Path(os.environ[DATA_VARIABLE]).read_text())


def configured(design: str) -> Any:
    """Return the configuration of a core or cluster from a preset name followed by ``KEY=VALUE`` settings."""
    base, *settings = design.split()
    return apply_settings({**PRESETS, **CLUSTER_PRESETS}[base], dict(text.split("=") for text in settings))


@cache
def configuration() -> Any:
    return configured(bench_data()["design"])
