"""The whole package: paths and texts of all its files."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.files import write_text
from xpulpnn_sim.package import ipxact
from xpulpnn_sim.package.backend_testbench import backend_testbench
from xpulpnn_sim.package.cluster.dma import dma_testbench
from xpulpnn_sim.package.cluster.event_unit import event_unit_testbench
from xpulpnn_sim.package.cluster.icache import icache_testbench
from xpulpnn_sim.package.cluster.tcdm import tcdm_testbench
from xpulpnn_sim.package.cluster.top import cluster_testbench
from xpulpnn_sim.package.constraints import CONSTANT, constraints
from xpulpnn_sim.package.core_testbench import core_testbench
from xpulpnn_sim.package.design import RESETS, Design
from xpulpnn_sim.package.fusesoc import core_file
from xpulpnn_sim.package.port_documents import instance, port_table
from xpulpnn_sim.package.simulators import VERILATOR_BINARY, VERILATOR_MAKE
from xpulpnn_sim.package.synthesis import synthesis_files
from xpulpnn_sim.package.template import fill
from xpulpnn_sim.package.unit_testbench import unit_testbench
from xpulpnn_sim.package.units import BUILDERS

DEFAULT_CLOCK_NS = 10.0
"""Period that synthesis aims at unless another is asked for."""

_TESTBENCHES = {
    "core": "It runs the program of `tb/core_program.lst` from memories with OBI ports, whose delays are options: "
    '`make icarus ARGS="+latency=4 +stall=30"`.',
    "backend": "It feeds the instructions of `tb/backend_stream.lst` and checks memory, jumps and CSR accesses; the "
    'delays of the memory are options: `make icarus ARGS="+latency=4 +stall=30"`.',
}
_DELAYS = ', whose delays are options: `make icarus ARGS="+latency=4 +stall=30"`.'

_WITH_DELAYS = ("core", "backend", "cluster", "cluster-axi", "dma", "icache")
"""Components whose testbenches have memories with delays."""

_OF_CLUSTERS: Mapping[str, tuple[Callable[[Design], dict[str, str]], str]] = {
    "cluster": (
        cluster_testbench,
        f"All cores run the program of `tb/cluster_program.lst` from a memory outside{_DELAYS}",
    ),
    "cluster-axi": (
        cluster_testbench,
        f"All cores run the program of `tb/cluster-axi_program.lst` from a memory with AXI4 ports{_DELAYS}",
    ),
    "tcdm": (
        tcdm_testbench,
        "Its masters make random accesses, checked against a memory of its own; `+cycles=N`, `+seed=N` are options.",
    ),
    "event-unit": (
        event_unit_testbench,
        "Its cores wait for each other, for events and for mutexes; who is answered, when and with what is checked.",
    ),
    "dma": (
        dma_testbench,
        f"It gives the transfers of `tb/dma_commands.lst` and compares two memories{_DELAYS}",
    ),
    "icache": (
        icache_testbench,
        f"Cores fetch from a memory that changes in the middle{_DELAYS}",
    ),
}
"""Testbenches of the components of a cluster, and what is said of them."""

_VECTORS = "It applies the vectors of `tb/{top}_vectors.lst`, one per clock cycle."


_WITH_BANKS = ("cluster", "cluster-axi", "tcdm")

_BANKS = """
4. Give each port `banks__*` a single-port memory of 32-bit words: `tb/sram.v` shows what it must do, and where a macro
   of your technology takes its place."""
_ARRAYS = """
4. The banks of the TCDM are arrays here, which is right for simulation and FPGAs. For a chip, and before `make syn`,
   generate it with `--set memories=ports`: then they are ports for memory macros."""

PACKAGED = ("core", "backend", *BUILDERS, *_OF_CLUSTERS)
"""Components that have a package."""


def testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb``, by name."""
    if design.top == "core":
        return core_testbench(design)
    if design.top == "backend":
        return backend_testbench(design)
    if design.top in BUILDERS:
        return unit_testbench(design)
    if design.top in _OF_CLUSTERS:
        return _OF_CLUSTERS[design.top][0](design)
    raise InputError(f"TOP must be one of {', '.join(PACKAGED)} with --package, not {design.top}")


def package_files(design: Design) -> dict[str, str]:
    """Text of every file of the package by its path."""
    bench = {f"tb/{name}": text for name, text in testbench(design).items()}
    sources = [name for name in bench if name.endswith(".v")]
    sdc = f"constraints/{design.top}.sdc"
    core = core_file(design, list(bench))
    files = {f"rtl/{name}": text for name, text in design.emitted.files().items()}
    files |= bench
    files |= {
        sdc: constraints(design),
        "rtl.f": "".join(f"{name}\n" for name in design.rtl_files),
        "tb.f": "".join(f"{name}\n" for name in sources),
        f"{design.top}.core": core,
        f"doc/{design.top}.json": json.dumps(design.emitted.manifest, indent=2) + "\n",
        f"doc/{design.top}.xml": ipxact.component(design, [*design.rtl_files, sdc]),
        "doc/ports.md": port_table(design),
        f"doc/{design.top}_inst.v": instance(design),
        "Makefile": _makefile(design),
        "README.md": _readme(design),
    }
    if ipxact.has_obi(design):
        files |= {f"doc/{name}": text for name, text in ipxact.obi_definitions().items()}
    return files | {f"syn/{name}": text for name, text in synthesis_files(design).items()}


def _memory_step(design: Design) -> str:
    """What is to be done with the banks of the TCDM, if there are any."""
    if "banks__0__req" in design.by_name:
        return _BANKS
    return _ARRAYS if design.top in _WITH_BANKS else ""


def _said(top: str) -> str:
    """What the testbench of a component does."""
    if top in _OF_CLUSTERS:
        return _OF_CLUSTERS[top][1]
    return _TESTBENCHES.get(top, _VECTORS.format(top=top))


def write_package(design: Design, folder: Path) -> list[Path]:
    """Write the package into ``folder``, all texts being there before the first is written; returns the paths."""
    files = package_files(design)
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in files]


def _makefile(design: Design) -> str:
    return fill(
        "Makefile",
        module=design.module,
        top=design.top,
        testbench=f"{design.identifier}_tb",
        options=" ".join(VERILATOR_BINARY),
        make_options=VERILATOR_MAKE,
        options_reason="C++20, threads and precompiled headers are asked for here, so that any installation will do",
        arguments="+latency=4 +stall=30" if design.top in _WITH_DELAYS else "+vcd",
    )


def _readme(design: Design) -> str:
    if not design.clocked:
        clocking = "It has neither clock nor reset."
    else:
        assert design.reset is not None
        kind = "asynchronous and active low" if RESETS[design.reset] else "synchronous and active high"
        clocking = f"All registers change at the rising edge of `clk`; `{design.reset}` is {kind}."
    begin = design.module.removesuffix(design.identifier)
    prefix = (
        f"All modules begin with `{begin}`: another configuration with another\n   `--prefix` fits beside it."
        if begin
        else "Generate with `--prefix` if its module names are taken."
    )
    constant = [name for name in CONSTANT if name in design.by_name]
    obi = ", with the bus in `doc/obi.xml` and `doc/obi_rtl.xml`" if ipxact.has_obi(design) else ""
    return fill(
        "README.md",
        module=design.module,
        top=design.top,
        version=design.version,
        command=design.command,
        ipxact=f"`doc/{design.top}.xml`{obi}",
        clock=f"{design.clock_ns:g}",
        vlnv=f"{ipxact.VENDOR}:{ipxact.LIBRARY}:{design.module}:{design.version}",
        testbench=_said(design.top),
        prefix=prefix,
        clocking=clocking,
        banks=_memory_step(design),
        constant=f"; {' and '.join(f'`{name}`' for name in constant)} count as constant" if constant else "",
    )
