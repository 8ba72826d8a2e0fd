"""Emitted Verilog of configurations, cached with its manifest."""

import hashlib
import json
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import amaranth

import xpulpnn
from xpulpnn.config import CoreConfig
from xpulpnn_sim.explore.cache import write_file
from xpulpnn_sim.explore.results import Design
from xpulpnn_sim.harness.build import cache_directory


def emit_design(top: str, config: CoreConfig) -> Design:
    """Verilog and manifest of the component ``top``, one of :data:`xpulpnn_sim.tops.TOPS`.

    They are kept on disk under a hash of the generator's sources and the whole configuration. Raises
    :class:`~xpulpnn.errors.ConfigError` if the configuration has no such component.
    """
    digest = hashlib.sha256(f"{amaranth.__version__} {_described(config)}".encode())
    for path in sorted(Path(xpulpnn.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    entry = cache_directory() / "designs" / f"{top}-{digest.hexdigest()[:32]}.json"
    known = _read(entry)
    if known is None:
        # Amaranth and the generator take longer to import than a cached design to read.
        from xpulpnn_sim.tops import emit_top

        emitted = emit_top(top, config)
        write_file(entry, json.dumps({"verilog": emitted.text, "manifest": emitted.manifest}))
        known = emitted.text, emitted.manifest
    verilog, manifest = known
    return Design(top=top, module=manifest["top"], config=config, verilog=verilog, manifest=manifest)


def _read(entry: Path) -> tuple[str, dict[str, Any]] | None:
    try:
        content = json.loads(entry.read_text())
        verilog, manifest = content["verilog"], content["manifest"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return (verilog, manifest) if isinstance(verilog, str) and "top" in manifest else None


def _described(value: object) -> str:
    """Text that is the same for equal configurations in every process."""
    if is_dataclass(value):
        inside = ", ".join(f"{item.name}={_described(getattr(value, item.name))}" for item in fields(value))
        return f"{type(value).__name__}({inside})"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_described, value))) + "}"
    return repr(value)
