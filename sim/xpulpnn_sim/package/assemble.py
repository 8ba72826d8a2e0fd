"""The whole package: paths and texts of all its files."""

import json
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.files import write_text
from xpulpnn_sim.package import ipxact
from xpulpnn_sim.package.backend_testbench import backend_testbench
from xpulpnn_sim.package.constraints import constraints
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
_VECTORS = "It applies the vectors of `tb/{top}_vectors.lst`, one per clock cycle."


def testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb``, by name."""
    if design.top == "core":
        return core_testbench(design)
    if design.top == "backend":
        return backend_testbench(design)
    if design.top in BUILDERS:
        return unit_testbench(design)
    raise InputError(f"TOP must be one of core, backend, {', '.join(BUILDERS)} with --package, not {design.top}")


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
        options_reason="C++20, threads and no precompiled header are asked for here, so that any installation will do",
        arguments="+vcd" if design.top in BUILDERS else "+latency=4 +stall=30",
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
        testbench=_TESTBENCHES.get(design.top, _VECTORS.format(top=design.top)),
        prefix=prefix,
        clocking=clocking,
        constant="; boot address and hart id count as constant" if "hart_id" in design.by_name else "",
    )
