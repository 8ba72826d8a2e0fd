"""Compiled models of configurations."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from importlib.metadata import version
from pathlib import Path

import xpulpnn
from xpulpnn.config import CoreConfig
from xpulpnn_sim.harness.build import build_core, build_model, cache_directory


def _sources() -> Iterator[Path]:
    folder = Path(xpulpnn.__file__).parent
    return (path for path in sorted(folder.rglob("*.py")))


def cached_verilog(top: str, config: CoreConfig) -> str:
    """Verilog of a top, cached under a hash of the generator's sources and the configuration."""
    described = f"{version('amaranth')} {_key(config)}"
    digest = hashlib.sha256(described.encode())
    for path in _sources():
        digest.update(path.read_bytes())
    cached = cache_directory() / f"{top}-{digest.hexdigest()[:24]}.v"
    if cached.exists():
        return cached.read_text()
    # Amaranth and the generator take longer to import than a cached model to run
    from xpulpnn_sim.tops import emit_top

    text = emit_top(top, config).text
    handle, name = tempfile.mkstemp(dir=cached.parent, suffix=".v")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).rename(cached)
    return text


def _key(config: object) -> str:
    """Text that is the same for equal configurations in every process."""
    if is_dataclass(config):
        return " ".join(f"{item.name}=({_key(getattr(config, item.name))})" for item in fields(config))
    return repr(sorted(config)) if isinstance(config, frozenset) else repr(config)


def simulated(config: CoreConfig) -> CoreConfig:
    """``config`` with its sums left to the simulator instead of carry-save trees and prefix networks.

    Same function, cycle by cycle, a third faster: a simulator adds words faster than it evaluates
    compressors. ``xpulpnn equivalence`` proves the dot-product structures equal.
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
