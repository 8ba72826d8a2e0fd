"""Assemble the files of an IP package: their paths and contents."""

import json
from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import NamedTuple

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.packages import documents
from xpulpnn_sim.publishing.packages.design import (
    CLOCK,
    GENERATED,
    JTAG_CLOCK,
    LICENCE,
    RESETS,
    Design,
    fill,
    template,
)
from xpulpnn_sim.publishing.packages.documents import VERILATOR_BINARY, VERILATOR_MAKE, core_file, instance, port_table
from xpulpnn_sim.publishing.packages.testbenches import cluster_testbench, core_testbench, unit_testbench
from xpulpnn_sim.publishing.packages.unit_vectors import VECTORS
from xpulpnn_sim.tools.component_names import DEBUG_NAMES

_PS_PER_NS = 1000


def synthesis_files(design: Design) -> dict[str, str]:
    """Return the files of the package's folder ``syn``, by name."""
    files = design.rtl_files
    return {
        "yosys.sh": fill("yosys.sh", design, files=" ".join(files), picoseconds=round(design.clock_ns * _PS_PER_NS)),
        "opensta.tcl": fill("opensta.tcl", design),
        "orfs/config.mk": fill(
            "config.mk", design, files=" \\\n".join(f"    $(XPULPNN_PACKAGE)/{name}" for name in files)
        ),
    }


IO_FRACTION = 0.2  # part of the period reserved for external logic at inputs and outputs

JTAG_INPUTS = ("tck_rst", "tck_rst_n", "tms", "tdi")
CONSTANT_INPUTS = ("boot_addr", "hart_id", "cluster_id")  # constant while a core runs


def constraints(design: Design, *, vivado: bool = False) -> str:
    """Return the SDC file, or the XDC file for Vivado, which supports neither loops nor ideal networks.

    The paths from input to output of a component without a clock are constrained by a virtual clock.
    """
    target = f"[get_ports {CLOCK}]" if design.clocked else ""
    inputs = [port for port in design.ports if port.is_input and port.name not in (CLOCK, JTAG_CLOCK, *JTAG_INPUTS)]
    names = wrap(" ".join(f"{port.name}[*]" if port.width > 1 else port.name for port in inputs), 110)
    unit = "Times are in nanoseconds." if vivado else "Times are in the time unit of the library, taken as nanoseconds."
    lines = [
        f"# {GENERATED}",
        f"# {LICENCE}",
        f"# Constraints of {design.module}. {unit}",
        "",
        f"set clock_period {design.clock_ns:g}",
        "# part of the period spent outside, before inputs and after outputs",
        f"set io_fraction {IO_FRACTION}",
        "",
        *(
            []
            if design.clocked
            else ["# no registers: the clock is virtual, its period bounds the paths from input to output"]
        ),
        f"create_clock -name {CLOCK} -period $clock_period {target}".rstrip(),
        "",
        "set io_delay [expr {$clock_period * $io_fraction}]",
        f"set_input_delay $io_delay -clock {CLOCK} [get_ports {{",
        *(f"    {line}" for line in names),
        "}]",
        f"set_output_delay $io_delay -clock {CLOCK} [all_outputs]",
    ]
    if design.reset is not None:
        kind = (
            "asynchronous, to be released at a clock edge: recovery and removal are checked like other inputs"
            if RESETS[design.reset]
            else "synchronous: timed like every other input, by the delay above"
        )
        lines += ["", f"# {design.reset} is {kind}"]
        lines += [] if vivado else [f"set_ideal_network [get_ports {design.reset}]"]
    if design.has_jtag:
        lines += ["", *_jtag_constraints(design)]
    constant = [name for name in CONSTANT_INPUTS if name in design.by_name]
    if constant:
        ports = " ".join(f"{name}[*]" for name in constant)
        lines += ["", "# constant while a core runs", f"set_false_path -from [get_ports {{{ports}}}]"]
    return "\n".join([*lines, ""])


def _jtag_constraints(design: Design) -> list[str]:
    """Return constraints for the JTAG port: a clock of its own, asynchronous to the main clock."""
    names = " ".join(name for name in JTAG_INPUTS if name in design.by_name)
    return [
        "# TCK, a quarter as fast, unrelated to the clock: handshakes cross",
        f"create_clock -name tck -period [expr {{4 * $clock_period}}] [get_ports {JTAG_CLOCK}]",
        f"set_clock_groups -asynchronous -group {CLOCK} -group tck",
        f"set_input_delay $io_delay -clock tck [get_ports {{{names}}}]",
        "set_output_delay $io_delay -clock tck -clock_fall [get_ports {tdo tdo_enable}]",
    ]


_DELAYS = ', whose delays are options: `make icarus ARGS="+latency=4 +stall=30"`.'
_HALTED = "Meanwhile a debugger at the JTAG port halts all harts again and again: `tb/jtag_halts.v`."
_VECTORS = "It applies the vectors of `tb/{top}_vectors.lst`, one per clock cycle."


_SIMULATE = """\
    make icarus                      # Icarus Verilog 11 or later
    make verilator                   # Verilator 5 with a C++20 compiler
"""
_RUNS = """\
    fusesoc --cores-root . run --target=sim {vlnv} --tool=verilator

The testbench ends with a line `PASS: ...` and exit code 0, or with `FAIL: ...` and another exit code. {meaning}
"""


class Testbench(NamedTuple):
    """Generator of the testbench of a component, and its description in the README."""

    files: Callable[[Design], dict[str, str]]
    meaning: str
    has_delays: bool = True


TESTBENCHES: Mapping[str, Testbench] = {
    "core": Testbench(
        core_testbench, f"It runs the programs of `tb/core_programs.lst` from memories with OBI ports{_DELAYS}"
    ),
    "core-debug": Testbench(
        core_testbench,
        f"It runs the programs of `tb/core-debug_programs.lst` from memories with OBI ports{_DELAYS}\n{_HALTED}",
    ),
    "cluster": Testbench(
        cluster_testbench,
        f"All cores run the program of `tb/cluster_program.lst` from a memory outside{_DELAYS}",
    ),
    "cluster-debug": Testbench(
        cluster_testbench,
        f"All cores run the program of `tb/cluster-debug_program.lst` from a memory outside{_DELAYS}\n{_HALTED}",
    ),
    **{top: Testbench(unit_testbench, _VECTORS.format(top=top), has_delays=False) for top in VECTORS},
}
"""Testbenches by name of the component; other components are packaged without a testbench."""

_WITH_BANKS = ("cluster", "cluster-axi", "cluster-debug", "cluster-wishbone", "tcdm")

_BANKS = """
4. Give each port `banks__*` a single-port memory of 32-bit words: `tb/sram.v` shows what it must do, and where a macro
   of your technology takes its place."""
_ARRAYS = """
4. The banks of the TCDM are arrays here, which is right for simulation and FPGAs. For a chip, and before `make syn`,
   generate it with `--set memories=ports`: then they are ports for memory macros."""

PACKAGED = (
    *("core", "core-debug", "core-wishbone", "backend", *VECTORS),
    *("cluster", "cluster-debug", "cluster-axi", "cluster-wishbone", "tcdm", "event-unit", "dma", "icache"),
    *DEBUG_NAMES,
)
"""Names of the components that can be packaged."""


def _testbench(design: Design) -> dict[str, str]:
    """Return the files of the folder ``tb`` and the list of its sources; nothing for a component without testbench."""
    testbench = TESTBENCHES.get(design.top)
    if testbench is None:
        return {}
    files = {f"tb/{name}": text for name, text in testbench.files(design).items()}
    sources = [name for name in files if name.endswith(".v")]
    simulation = fill(
        "simulation.mk",
        design,
        testbench=f"{design.identifier}_tb",
        options=" ".join(VERILATOR_BINARY),
        make_options=VERILATOR_MAKE,
        arguments="+latency=4 +stall=30" if testbench.has_delays else "+vcd",
    )
    return files | {"tb/simulation.mk": simulation, "tb.f": "".join(f"{name}\n" for name in sources)}


def package_files(design: Design) -> dict[str, str]:
    if design.top not in PACKAGED:
        raise InputError(f"TOP must be one of {', '.join(PACKAGED)} with --package, not {design.top}")
    bench = _testbench(design)
    timing = {
        f"constraints/{design.top}.sdc": constraints(design),
        f"constraints/{design.top}.xdc": constraints(design, vivado=True),
    }
    core = core_file(design, list(bench))
    files = {f"rtl/{name}": text for name, text in design.emitted.files().items()}
    files |= bench
    files |= {
        **timing,
        "rtl.f": "".join(f"{name}\n" for name in design.rtl_files),
        f"{design.top}.core": core,
        f"doc/{design.top}.json": json.dumps(design.emitted.manifest, indent=2) + "\n",
        f"doc/{design.top}.xml": documents.component(design, [*design.rtl_files, *timing]),
        "doc/ports.md": port_table(design),
        f"doc/{design.top}_inst.v": instance(design),
        "Makefile": fill("Makefile", design),
        "README.md": _readme(design),
    }
    if has_banks(design):
        files["tb/sram.v"] = template("sram.v")
    if documents.has_obi(design):
        files |= {f"doc/{name}": text for name, text in documents.obi_definitions().items()}
    return files | {f"syn/{name}": text for name, text in synthesis_files(design).items()}


def has_banks(design: Design) -> bool:
    """Return whether the TCDM banks of a cluster are ports for external memories."""
    return "banks__0__req" in design.by_name


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
    vlnv = f"{documents.VENDOR}:{documents.LIBRARY}:{design.module}:{design.version}"
    testbench = TESTBENCHES.get(design.top)
    has = testbench is not None
    constant = [name for name in CONSTANT_INPUTS if name in design.by_name]
    obi = ", with the bus in `doc/obi.xml` and `doc/obi_rtl.xml`" if documents.has_obi(design) else ""
    return fill(
        "README.md",
        design,
        version=design.version,
        command=design.command,
        ipxact=f"`doc/{design.top}.xml`{obi}",
        clock=f"{design.clock_ns:g}",
        vlnv=vlnv,
        testbench_row="| self-checking testbench | `tb/`, `tb.f` |\n" if has else "",
        simulate=_SIMULATE if has else "",
        target="sim" if has else "lint",
        testbench=_RUNS.format(vlnv=vlnv, meaning=testbench.meaning) if testbench is not None else "",
        prefix=prefix,
        clocking=clocking,
        banks=_BANKS if has_banks(design) else _ARRAYS if design.top in _WITH_BANKS else "",
        constant=f"; {' and '.join(f'`{name}`' for name in constant)} count as constant" if constant else "",
    )
