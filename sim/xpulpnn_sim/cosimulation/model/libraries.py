"""Compiled models of configurations: top modules and their ports."""

import ctypes
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import xpulpnn
from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn.errors import ToolError
from xpulpnn.user_cache import locked
from xpulpnn_sim.cosimulation.model.build import Adapter, Rig, build_model
from xpulpnn_sim.cosimulation.model.schema import (
    BANK,
    DATA,
    DMA,
    FETCH,
    HART,
    JTAG,
    LINES,
    REFILL,
    RETIRE,
    STREAM,
    PortKind,
)
from xpulpnn_sim.tools.results import cached_results, digest

_STREAM_PORTS = {
    "ready": "insn__ready",
    "jump": "jump__valid",
    "jump_target": "jump__target",
    "branch": "branch__valid",
    "branch_target": "branch__target",
    "valid": "insn__valid",
    "word": "insn__payload__word",
    "pc": "insn__payload__pc",
}
"""Ports of the back end for each field of a stream."""


_JTAG = Adapter(
    JTAG,
    {"tdo": "tdo", "debug_req": "debug_req", "tck": "tck_clk", "tms": "tms", "tdi": "tdi", "trst": "tck_rst"},
)


def _bus(kind: PortKind, prefix: str) -> Adapter:
    """Return the signals of an OBI port by field, without hart number and upper data words."""
    names = (name for name in (*kind.seen, *kind.driven) if name != "hart" and not name.endswith("_high"))
    return Adapter(kind, {name: f"{prefix}__{name}" for name in names})


def _retirement(manifest: Mapping[str, Any], prefix: str) -> Adapter:
    ports = [port["name"] for port in manifest["ports"] if port["name"].startswith(prefix)]
    return Adapter(RETIRE, {name.removeprefix(prefix): name for name in ports})


def backend_rig(verilog: str, manifest: Mapping[str, Any]) -> Rig:
    """Prepare the back end with its retirement port, which executes an instruction stream, for simulation."""
    ports = dict(_STREAM_PORTS)
    if any(port["name"] == "info__raw" for port in manifest["ports"]):
        ports["word"] += " info__raw"
    adapters = (_bus(DATA, "data"), Adapter(STREAM, ports), _retirement(manifest, "rvfi__"))
    return Rig(verilog=verilog, manifest=manifest, adapters=adapters)


def core_rig(verilog: str, manifest: Mapping[str, Any]) -> Rig:
    """Prepare the core with its retirement port for simulation."""
    there = {port["name"] for port in manifest["ports"] if port["direction"] == "input" or port["name"] in HART.seen}
    hart = Adapter(HART, {name: name for name in (*HART.seen, *HART.driven) if name in there})
    adapters = (_bus(FETCH, "instr"), _bus(DATA, "data"), hart, _retirement(manifest, "rvfi_"))
    return Rig(verilog=verilog, manifest=manifest, adapters=adapters)


def core_debug_rig(verilog: str, manifest: Mapping[str, Any]) -> Rig:
    """Prepare the core with debug module and test access port for simulation."""
    rig = core_rig(verilog, manifest)
    return replace(rig, adapters=(*rig.adapters, _bus(DATA, "bus"), _JTAG))


def cluster_rig(verilog: str, manifest: Mapping[str, Any]) -> Rig:
    """Prepare the cluster, with ports for its banks, fetches and retirements, for simulation. All cores start together;
    the number of the cluster is 0."""
    names = [port["name"] for port in manifest["ports"]]
    cores = sum(name.startswith("rvfi_") and name.endswith("_valid") for name in names)
    banks = sum(name.startswith("bank_master_") for name in names)
    ext = _bus(DATA, "ext")
    adapters = [replace(ext, ports={**ext.ports, "hart": "ext_hart"})]
    for core in range(cores):
        # one start port drives all cores
        start = {"boot_addr": "boot_addr", "fetch_enable": "fetch_enable"} if core == 0 else {}
        if "debug_mode" in names:
            start["debug_mode"] = f"debug_mode[{core}]"
        adapters += [Adapter(HART, start), _retirement(manifest, f"rvfi_{core}_")]
    if "refill__req" in names:
        adapters.append(_bus(REFILL, "refill"))
    else:
        adapters += [_bus(FETCH, f"instr__{core}") for core in range(cores)]
    if "dma__req" in names:
        dma = _bus(DMA, "dma")
        adapters.append(replace(dma, ports={**dma.ports, "wdata_high": "dma__wdata[63:32]"}))
    lines = {
        "dma": "dma_events",
        "dma_interrupt": "dma_interrupts",
        "timer": "timer_events",
        "timer_armed": "timer_armed",
    }
    adapters.append(Adapter(LINES, {field: name for field, name in lines.items() if name in names}))
    for bank in range(banks):
        macro = {name: f"banks__{bank}__{name}" for name in (*BANK.seen, *BANK.driven)}
        del macro["sharers"]
        if f"bank_sharers_{bank}" in names:
            macro["sharers"] = f"bank_sharers_{bank}"
        adapters.append(Adapter(BANK, {**macro, "master": f"bank_master_{bank}"}))
    if "tck_clk" in names:
        adapters.append(_JTAG)
    return Rig(verilog=verilog, manifest=manifest, adapters=tuple(adapters), repeated="core")


RIGS: Mapping[str, tuple[str, Callable[[str, Mapping[str, Any]], Rig]]] = {
    "stream": ("backend", backend_rig),
    "core": ("core", core_rig),
    "core-debug": ("core-debug", core_debug_rig),
    "wishbone": ("core-on-wishbone", core_rig),
    "cluster": ("cluster", cluster_rig),
    "cluster-wishbone": ("cluster-on-wishbone", cluster_rig),
    "cluster-debug": ("cluster-debug", cluster_rig),
}
"""Functions that prepare a configuration for simulation, by engine."""


def observed(config: CoreConfig | ClusterConfig) -> CoreConfig | ClusterConfig:
    """Add the ports that make retirements, and the banks of a cluster, visible to a configuration."""
    if isinstance(config, ClusterConfig):
        return replace(config, rvfi=True, memories="ports")
    return replace(config, rvfi=True)


def engine_of(config: CoreConfig | ClusterConfig, *, debugged: bool = False) -> str:
    """Return the engine that executes programs on a design; with a test access port if ``debugged``."""
    engine = "cluster" if isinstance(config, ClusterConfig) else "core"
    return f"{engine}-debug" if debugged else engine


@cache
def _generator() -> str:
    """Return a hash of the sources of the design generator."""
    hasher = hashlib.sha256(version("amaranth").encode())
    around = Path(__file__).parents[2] / "tools/on_wishbone.py"
    for path in (*sorted(Path(xpulpnn.__file__).parent.rglob("*.py")), around):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


def cached_emission(
    top: str, config: CoreConfig | ClusterConfig | DebugConfig, *, both_edges: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return Verilog and manifest of a top, cached under a hash of the generator's sources and the configuration."""
    results = cached_results("designs")
    name = f"{top}-{digest(_generator(), both_edges, config)}"
    known: dict[str, Any] | None = results.find(name)
    if known is None:
        results.folder.mkdir(parents=True, exist_ok=True)
        with locked(results.folder / f"{name}.lock"):
            known = results.find(name)
            if known is None:
                # importing Amaranth and the generator takes longer than running a cached model
                from xpulpnn_sim.tools.components import emit_top

                emitted = emit_top(top, config, both_edges=both_edges)
                known = {"verilog": emitted.text, "manifest": emitted.manifest}
                results.keep(name, known)
    return known["verilog"], known["manifest"]


Config = TypeVar("Config", CoreConfig, ClusterConfig, CoreConfig | ClusterConfig)


def simulated(config: Config) -> Config:
    """Replace structures of a core, or of the core of a cluster, by structures that simulate faster.

    A simulator adds words faster than it evaluates compressor trees, reads an array faster than a tree of multiplexers,
    and with operators for each format computes only the requested one. Retirements and bus accesses are the same in
    every cycle; operands of idle units and data without a request may differ. ``xpulpnn prove units`` proves the
    dot-product structures equal.
    """
    if isinstance(config, ClusterConfig):
        return replace(config, core=simulated(config.core))
    dotp = replace(config.dotp, multipliers="replicated", adders="inferred")
    if dotp.isolation == "and":
        dotp = replace(dotp, isolation="none")
    return replace(config, regfile="array", multiplier="inferred", shifter="inferred", dotp=dotp)


def model_library(
    engine: str, config: CoreConfig | ClusterConfig, *, trace: bool = False, covered: bool = False
) -> Path:
    """Return the path of the shared library that simulates ``config`` with its retirement port; compile it if
    necessary. If ``covered``, it records covered lines and toggled bits."""
    top, rig = RIGS[engine]
    both_edges = not trace  # a waveform shows a clock with one rising edge per cycle
    emitted = cached_emission(top, observed(config), both_edges=both_edges)
    return build_model(replace(rig(*emitted), both_edges=both_edges), trace=trace, covered=covered)


def write_coverage(library: Path, path: Path) -> None:
    """Write the coverage of that model of the library which this thread simulated last and has not closed yet. Raises
    :class:`ToolError` for a library without coverage."""
    try:
        function = ctypes.CDLL(str(library)).write_coverage
    except (OSError, AttributeError):
        raise ToolError(f"{library.name} must be a model that counts coverage, not one without") from None
    function(str(path).encode())
