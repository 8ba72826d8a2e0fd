"""Compiled models of cores and clusters, with the driver connected to the ports of their top modules."""

import ctypes
import hashlib
import re
from collections.abc import Mapping
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
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.cosimulation.model import schema
from xpulpnn_sim.cosimulation.model.build import Adapter, Rig, build_model
from xpulpnn_sim.tools.component_names import CORE_BUSES
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
_JTAG_PORTS = {"tdo": "tdo", "debug_req": "debug_req", "tck": "tck_clk", "tms": "tms", "tdi": "tdi", "trst": "tck_rst"}
_LINE_PORTS = {
    "dma": "dma_events",
    "dma_interrupt": "dma_interrupts",
    "timer": "timer_events",
    "timer_armed": "timer_armed",
}
_BUSES = {
    schema.FETCH: r"instr(__\d+)?",
    schema.DATA: "data|bus|ext|obi",
    schema.DMA: "dma",
    schema.REFILL: "refill",
    schema.BANK: r"banks__\d+",
}
"""Regular expressions of the prefixes of bus ports."""
_OTHER_BUS_PORTS = {"ext": {"hart": "ext_hart"}, "dma": {"wdata_high": "dma__wdata[63:32]"}}


def rig_of(verilog: str, manifest: Mapping[str, Any]) -> Rig:
    """Connect the driver to the ports of a back end, core or cluster, which are found by their names. All cores of a
    cluster start together. The driver leaves ``cluster_id`` at 0."""
    directions = {port["name"]: port["direction"] for port in manifest["ports"]}
    adapters: list[Adapter] = []
    if "insn__ready" in directions:
        words = "insn__payload__word info__raw" if "info__raw" in directions else "insn__payload__word"
        adapters.append(Adapter(schema.STREAM, _STREAM_PORTS | {"word": words}))
    for name in directions:
        prefix = name.removesuffix("__req")
        for kind, pattern in _BUSES.items() if prefix != name else ():
            if re.fullmatch(pattern, prefix):
                adapters.append(_bus(kind, prefix, directions))
        if match := re.fullmatch(r"(rvfi_(\d*)_?)valid", name):
            fields = {port.removeprefix(match[1]): port for port in directions if port.startswith(match[1])}
            adapters += [_hart(match[2], directions), Adapter(schema.RETIRE, fields)]
    if lines := {field: port for field, port in _LINE_PORTS.items() if port in directions}:
        adapters.append(Adapter(schema.LINES, lines))
    if "tck_clk" in directions:
        adapters.append(Adapter(schema.JTAG, _JTAG_PORTS))
    repeated = "core" if "rvfi_0_valid" in directions else ""
    return Rig(verilog=verilog, manifest=manifest, adapters=tuple(adapters), repeated=repeated)


def _bus(kind: schema.PortKind, prefix: str, directions: Mapping[str, str]) -> Adapter:
    absent = {"hart", "wdata_high", "rdata_high", "master", "sharers"}
    ports = {name: f"{prefix}__{name}" for name in (*kind.seen, *kind.driven) if name not in absent}
    if kind is schema.BANK:
        number = prefix.rpartition("__")[2]
        monitors = {name: f"bank_{name}_{number}" for name in ("master", "sharers")}
        ports |= {name: port for name, port in monitors.items() if port in directions}
    return Adapter(kind, ports | _OTHER_BUS_PORTS.get(prefix, {}))


def _hart(number: str, directions: Mapping[str, str]) -> Adapter:
    """Return the adapter of core ``number`` (empty without a cluster)."""
    ports = {name: f"{name}[{number}]" if number else name for name in schema.HART.seen if name in directions}
    if number in ("", "0"):
        ports |= {name: name for name in schema.HART.driven if directions.get(name) == "input"}
    return Adapter(schema.HART, ports)


TOPS = {
    "stream": "backend",
    "core": "core",
    "core-debug": "core-debug",
    **{f"{bus}{clint}": f"core-on-{bus}{clint}" for bus in CORE_BUSES for clint in ("", "-clint")},
    "cluster": "cluster",
    "cluster-wishbone": "cluster-on-wishbone",
    "cluster-debug": "cluster-debug",
}


def observed(config: CoreConfig | ClusterConfig) -> CoreConfig | ClusterConfig:
    if isinstance(config, ClusterConfig):
        return replace(config, rvfi=True, memories="ports")
    return replace(config, rvfi=True)


def engine_of(config: CoreConfig | ClusterConfig, *, debugged: bool = False) -> str:
    engine = "cluster" if isinstance(config, ClusterConfig) else "core"
    return f"{engine}-debug" if debugged else engine


@cache
def _generator() -> str:
    hasher = hashlib.sha256(version("amaranth").encode())
    wrapper = Path(__file__).parents[2] / "tools/on_bus.py"
    for path in (*sorted(Path(xpulpnn.__file__).parent.rglob("*.py")), wrapper):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


def cached_emission(
    top: str, config: CoreConfig | ClusterConfig | DebugConfig | XifConfig, *, both_edges: bool = False
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
                results.store(name, known)
    return known["verilog"], known["manifest"]


Config = TypeVar("Config", CoreConfig, ClusterConfig, CoreConfig | ClusterConfig)


def simulated(config: Config) -> Config:
    """Choose structures that simulate faster, such as sums instead of compressor trees, for a core or the cores of a
    cluster. Retirements and bus accesses stay the same in every cycle; operands of idle units and data without a
    request may differ. ``xpulpnn prove units`` proves the dot-product structures equal."""
    if isinstance(config, ClusterConfig):
        return replace(config, core=simulated(config.core))
    dotp = replace(config.dotp, multipliers="replicated", adders="inferred")
    if dotp.isolation == "and":
        dotp = replace(dotp, isolation="none")
    return replace(config, regfile="array", multiplier="inferred", shifter="inferred", dotp=dotp)


def model_library(
    engine: str, config: CoreConfig | ClusterConfig, *, trace: bool = False, covered: bool = False
) -> Path:
    """Return the path of the compiled model; if ``covered``, it counts executed lines and toggled bits."""
    # a waveform shows a clock with one rising edge per cycle, and a clock gate needs one
    both_edges = not trace and not config.core.clock_gate
    emitted = cached_emission(TOPS[engine], observed(config), both_edges=both_edges)
    return build_model(replace(rig_of(*emitted), both_edges=both_edges), trace=trace, covered=covered)


def write_coverage(library: Path, path: Path) -> None:
    """Write the coverage of the model of ``library`` that this thread simulated last, before that model is closed."""
    try:
        function = ctypes.CDLL(str(library)).write_coverage
    except (OSError, AttributeError):
        raise ToolError(f"{library.name} must be a model that counts coverage, not one without") from None
    function(str(path).encode())
