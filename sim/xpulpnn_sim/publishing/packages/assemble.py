"""Assemble the files of an IP package: their paths and contents."""

from collections.abc import Callable, Mapping
from importlib.metadata import distribution
from pathlib import Path

from xpulpnn.errors import require
from xpulpnn_sim.publishing.packages import documents
from xpulpnn_sim.publishing.packages.cocotb_bench import cocotb_files
from xpulpnn_sim.publishing.packages.design import CLOCK, JTAG_CLOCK, Design, description, fill
from xpulpnn_sim.publishing.packages.testbenches import cluster_testbench, core_testbench, unit_testbench
from xpulpnn_sim.publishing.packages.unit_vectors import VECTORS
from xpulpnn_sim.tools.component_names import DEBUG_NAMES

JTAG_INPUTS = ("tck_rst", "tck_rst_n", "tms", "tdi")
CONSTANT_INPUTS = ("boot_addr", "hart_id", "cluster_id", "test_en")  # constant while a core runs
VERILATOR_BINARY = ("--timing", "-Wno-fatal", "-CFLAGS", "-std=gnu++20", "-LDFLAGS", "-pthread")
"""Options of ``verilator --binary``: warnings of new versions are not fatal; the wheel does not detect C++20 and
threads."""

VERILATOR_MAKE = "VM_PARALLEL_BUILDS=1 CFG_CXXFLAGS_PCH_I=-include CFG_GCH_IF_CLANG="
"""Variables for Verilator's makefiles: files are compiled one by one, as joining them takes Python; two variables
that the wheel leaves out set how GCC and clang read the precompiled header."""

TESTBENCHES: Mapping[str, Callable[[Design], dict[str, str]]] = {
    "core": core_testbench,
    "core-debug": core_testbench,
    "cluster": cluster_testbench,
    "cluster-debug": cluster_testbench,
    **dict.fromkeys(VECTORS, unit_testbench),
}
"""Generators of testbenches by name of the component; other components are packaged without a testbench."""

_WITH_BANKS = ("cluster", "cluster-axi", "cluster-debug", "cluster-wishbone", "tcdm")

PACKAGED = (
    *("core", "core-debug", "core-wishbone", "core-axi", "core-ahb", "backend", *VECTORS),
    *("cluster", "cluster-debug", "cluster-axi", "cluster-wishbone", "tcdm", "event-unit", "dma", "icache"),
    *DEBUG_NAMES,
)
"""Names of the components that can be packaged."""


def package_files(design: Design) -> dict[str, str]:
    require(design.top in PACKAGED, f"TOP must be one of {', '.join(PACKAGED)} with --package, not {design.top}")
    # the vectors hold results in the same cycle
    is_late = design.top == "ex-stage" and design.config.late_results
    testbench = None if is_late else TESTBENCHES.get(design.top)
    sources = {} if testbench is None else {f"tb/{name}": text for name, text in testbench(design).items()}
    files = {f"rtl/{name}": text for name, text in design.emitted.files().items()} | sources
    kind = "" if testbench is None else testbench.__name__.removesuffix("_testbench")
    verilator = {"verilator_binary": VERILATOR_BINARY, "verilator_make": VERILATOR_MAKE}
    if kind:
        files["tb/simulation.mk"] = fill("simulation.mk", design, kind=kind, **verilator)
        files["tb.f"] = "".join(f"{name}\n" for name in sources if name.endswith(".v"))
    bench, missing = cocotb_files(design)
    files |= {f"cocotb/{name}": text for name, text in bench.items()}
    vlnv = f"{documents.VENDOR}:{documents.LIBRARY}:{design.module}:{design.version}"
    timing = {f"constraints/{design.top}.{suffix}": constraints(design, suffix) for suffix in ("sdc", "xdc")}
    constant = [f"`{name}`" for name in CONSTANT_INPUTS if name in design.by_name]
    files |= {
        **timing,
        "rtl.f": "".join(f"{name}\n" for name in design.rtl_files),
        f"{design.top}.core": fill("fusesoc.core", design, vlnv=vlnv, bench=list(sources), **verilator),
        "Bender.yml": fill("Bender.yml", design, bench=list(sources)),
        f"doc/{design.top}.xml": documents.component(design, [*design.rtl_files, *timing]),
        "doc/ports.md": documents.port_table(design),
        f"doc/{design.top}_inst.v": documents.instance(design),
        "Makefile": fill("Makefile", design),
        "LICENSE": distribution("xpulpnn").read_text("licenses/LICENSE") or "",
        "README.md": fill(
            "README.md",
            design,
            kind=kind,
            vlnv=vlnv,
            cocotb=bool(bench),
            missing=missing,
            prefix=design.module.removesuffix(design.identifier),
            has_obi=documents.has_obi(design),
            constant=" and ".join(", ".join(constant).rsplit(", ", 1)),
            with_banks=design.top in _WITH_BANKS,
            cells=", ".join(f"`rtl/{name}.v`" for name in design.cells),
        ),
    }
    if design.has_banks:
        files["tb/sram.v"] = fill("sram.v", design)
    if documents.has_obi(design):
        files |= {f"doc/{name}": text for name, text in documents.obi_definitions().items()}
        files["tb/obi_checks.sv"] = documents.obi_checks(design)
    files |= {f"syn/{name}": fill(Path(name).name, design) for name in ("yosys.sh", "opensta.tcl", "orfs/config.mk")}
    return files | description(design.emitted, f"doc/{design.top}.json", files)


def constraints(design: Design, suffix: str) -> str:
    """Return SDC, or XDC for Vivado; without a clock port a virtual clock constrains paths from input to output."""
    inputs = [port for port in design.ports if port.is_input and port.name not in (CLOCK, JTAG_CLOCK, *JTAG_INPUTS)]
    pins = {port.name: f"{port.name}[*]" if port.width > 1 else port.name for port in inputs}
    return fill(
        "constraints",
        design,
        vivado=suffix == "xdc",
        inputs=" ".join(pins.values()),
        jtag=[name for name in JTAG_INPUTS if name in design.by_name],
        constant=[pins[name] for name in CONSTANT_INPUTS if name in pins],
    )
