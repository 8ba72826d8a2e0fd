"""Compiled models of configurations."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xpulpnn
from xpulpnn.config import CoreConfig
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.build import build_core, build_model, cache_directory


def _sources() -> Iterator[Path]:
    folder = Path(xpulpnn.__file__).parent
    return (path for path in sorted(folder.rglob("*.py")))


def cached_emission(top: str, config: CoreConfig) -> tuple[str, dict[str, Any]]:
    """Verilog and manifest of a top, cached under a hash of the generator's sources and the configuration."""
    digest = hashlib.sha256(f"{version('amaranth')} {_key(config)}".encode())
    for path in _sources():
        digest.update(path.read_bytes())
    entry = cache_directory() / "designs" / f"{top}-{digest.hexdigest()[:32]}.json"
    known = _read(entry)
    if known is None:
        # Amaranth and the generator take longer to import than a cached model to run
        from xpulpnn_sim.tops import emit_top

        emitted = emit_top(top, config)
        write_text(entry, json.dumps({"verilog": emitted.text, "manifest": emitted.manifest}))
        known = emitted.text, emitted.manifest
    return known


def _read(entry: Path) -> tuple[str, dict[str, Any]] | None:
    """A cached emission; None if there is none or it cannot be read."""
    try:
        content = json.loads(entry.read_text())
        verilog, manifest = content["verilog"], content["manifest"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return (verilog, manifest) if isinstance(verilog, str) and "top" in manifest else None


def cached_verilog(top: str, config: CoreConfig) -> str:
    """Verilog of a top, through the cache."""
    return cached_emission(top, config)[0]


def _key(config: object) -> str:
    """Text that is the same for equal configurations in every process."""
    if is_dataclass(config):
        return " ".join(f"{item.name}=({_key(getattr(config, item.name))})" for item in fields(config))
    return repr(sorted(config)) if isinstance(config, frozenset) else repr(config)


def simulated(config: CoreConfig) -> CoreConfig:
    """``config`` with its sums left to the simulator instead of carry-save trees and prefix networks.

    Same function, cycle by cycle, a third faster: a simulator adds words faster than it evaluates compressors.
    ``xpulpnn equivalence`` proves the dot-product structures equal.
    """
    return replace(config, multiplier="inferred", dotp=replace(config.dotp, adders="inferred"))


def model_library(config: CoreConfig, *, checked: bool, trace: bool = False) -> Path:
    """Shared library simulating the back end of ``config``, compiled if need be.

    Parameters
    ----------
    config : CoreConfig
        Its ``rvfi`` is replaced by ``checked``.
    checked : bool
        Whether the model reports retirements.
    trace : bool
        Whether it can write waveforms.
    """
    return build_model(cached_verilog("backend", replace(config, rvfi=checked)), trace=trace)


def core_library(config: CoreConfig, *, trace: bool = False) -> Path:
    """Shared library simulating the core of ``config`` with its retirement port, compiled if need be.

    Parameters
    ----------
    config : CoreConfig
        Its ``rvfi`` is replaced by true.
    trace : bool
        Whether the model can write waveforms.
    """
    return build_core(cached_verilog("core", replace(config, rvfi=True)), trace=trace)
