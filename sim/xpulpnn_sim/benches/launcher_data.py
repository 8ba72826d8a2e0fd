"""Seed and parameters that the launcher passes to the bench in the simulator."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import ToolError
from xpulpnn.field_values import apply_settings
from xpulpnn.xif.config import XIF_PRESETS

SEED_VARIABLE = "XPULPNN_SEED"
DATA_VARIABLE = "XPULPNN_BENCH_DATA"
DEFAULT_SEED = 1
CLOCK_NS = 10


def seed_from_environment() -> int:
    """Return the seed of all random stimuli: ``XPULPNN_SEED``, else cocotb's ``COCOTB_RANDOM_SEED``, else 1."""
    name = next((name for name in (SEED_VARIABLE, "COCOTB_RANDOM_SEED") if name in os.environ), "")
    text = os.environ.get(name, str(DEFAULT_SEED))
    try:
        return int(text)
    except ValueError:
        raise ToolError(f"{name} must be an integer, not {text}") from None


@cache
def bench_data() -> dict[str, Any]:
    """Return the parameters of the bench; in a run that our launcher did not start only the name of the unit."""
    if DATA_VARIABLE not in os.environ:
        return {"unit": os.environ.get("COCOTB_TOPLEVEL", ""), "inputs": ()}
    return json.loads(Path(os.environ[DATA_VARIABLE]).read_text())


def configured(design: str) -> Any:
    """Return the configuration of a core, cluster or coprocessor from a preset name and ``KEY=VALUE`` settings."""
    base, *settings = design.split()
    presets = {**PRESETS, **CLUSTER_PRESETS, **XIF_PRESETS}
    return apply_settings(presets[base], dict(text.split("=") for text in settings))


@cache
def configuration() -> Any:
    return configured(bench_data()["design"])
