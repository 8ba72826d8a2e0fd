"""Cutpoints: wires that a check does not need of the core, and that take any value in any cycle instead.

A core with free wires does all that the core does, and more. What holds for it holds for the core; a failure may be one
that the core cannot show. Wires are cut where they are used, so that the parts behind and before them stay. The core
between its memories becomes gates once, for all checks.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates
from xpulpnn_sim.tools import probes
from xpulpnn_sim.tools.netlists import read_module
from xpulpnn_sim.tools.probes import CUT_WIRES
from xpulpnn_sim.tools.yosys import Yosys


@dataclass(frozen=True, slots=True)
class Cutpoint:
    """Wires that are free, or tied."""

    name: str  # what is free, for readers
    # as `module/wire`; of modules that a core does not have nothing is cut. Wildcards stand for what Yosys makes of an
    # array, where there is one
    wires: tuple[str, ...]
    ties: tuple[tuple[str, str], ...] = ()  # wires that are constant instead, and the constant


def _cutpoint(name: str) -> Cutpoint:
    wires = (f"{module}/{wire}" for module, names in CUT_WIRES[name].items() for wire in names.split())
    return Cutpoint(name, tuple(wires))


FETCH = _cutpoint("fetched words")
REGISTERS = _cutpoint("registers")
FORWARDED = _cutpoint("forwarded results")
PRODUCTS = _cutpoint("products")
QUOTIENTS = _cutpoint("quotients")
FACTORS = _cutpoint("dot products")
RESULTS = _cutpoint("results")
ALU = _cutpoint("results of the ALU")
SUMS = _cutpoint("addresses")
PLACES = _cutpoint("bases and targets of branches")
COMPARISONS = _cutpoint("comparisons")
LOADS = _cutpoint("loaded values")
CSRS = _cutpoint("CSRs")
CSR_WRITES = _cutpoint("values written to CSRs")
HANDLERS = _cutpoint("handlers")
INTERRUPTS = _cutpoint("interrupts")
RETURNS = _cutpoint("interrupts but for mepc")
LOOPS = _cutpoint("hardware loops")
LOOP_ENDS = _cutpoint("ends of hardware loops")
TARGETS = _cutpoint("targets")
CONSTANTS = _cutpoint("constants and targets")
IDLE_LOOPS = Cutpoint("", (), tuple(probes.IDLE_LOOPS.items()))
"""No hardware loop is ever set up: nothing is free."""

_VALUES = (FETCH, PRODUCTS, QUOTIENTS, RESULTS, SUMS, COMPARISONS, LOADS)
_PROGRAM = (FETCH, REGISTERS, FORWARDED, HANDLERS, INTERRUPTS)

_MOVES = (*_VALUES, CSRS, CSR_WRITES, HANDLERS, INTERRUPTS, LOOPS, CONSTANTS)

MOVES = (*_MOVES, PLACES)
"""For the ways of values through the pipeline: none is made, and all that values decide is free."""

ORDER = (*_MOVES, REGISTERS, FORWARDED)  # For what retires when

ADDRESSES = (*_VALUES, REGISTERS, FORWARDED, CSRS, CSR_WRITES, RETURNS, LOOP_ENDS, TARGETS)
"""For the ways of the program counter."""

PROGRESS = (REGISTERS, FORWARDED, SUMS, COMPARISONS, LOADS, RESULTS, CSRS, CSR_WRITES, HANDLERS, CONSTANTS, LOOP_ENDS)
"""For whether anything retires: what takes how long stays."""

FETCHES = tuple(cut for cut in ADDRESSES if cut is not FETCH)  # For the instruction port

ACCESSES = tuple(cut for cut in ORDER if cut not in (SUMS, LOADS))  # For the data port

CSR_ACCESSES = (*_PROGRAM, PRODUCTS, QUOTIENTS, ALU, SUMS, COMPARISONS, LOADS)  # For CSRs: their contents stay

EVERY = tuple(dict.fromkeys((*ORDER, *MOVES, *ADDRESSES, *PROGRESS, *CSR_ACCESSES, FACTORS, ALU, IDLE_LOOPS)))
"""All that a check may cut."""


_ALL_INSTRUCTIONS = (*_PROGRAM, CSRS, CSR_WRITES)
_MULTIPLICATION = (*_ALL_INSTRUCTIONS, FACTORS, ALU, SUMS, COMPARISONS, LOADS, IDLE_LOOPS)
_BRANCH = (*_ALL_INSTRUCTIONS, PRODUCTS, QUOTIENTS, RESULTS, SUMS, LOADS, IDLE_LOOPS)
_ACCESS = (*_ALL_INSTRUCTIONS, PRODUCTS, QUOTIENTS, RESULTS, COMPARISONS, IDLE_LOOPS)
_OPERATION = (*_ALL_INSTRUCTIONS, PRODUCTS, QUOTIENTS, SUMS, COMPARISONS, LOADS, IDLE_LOOPS)

CLASSES = {
    "operation": _OPERATION,
    "multiplication": _MULTIPLICATION,
    "branch": _BRANCH,
    "access": _ACCESS,
    "moves": MOVES,
    "order": ORDER,
    "addresses": ADDRESSES,
    "progress": PROGRESS,
    "fetches": FETCHES,
    "accesses": ACCESSES,
    "CSR": CSR_ACCESSES,
    "CSR, no loops": (*CSR_ACCESSES, IDLE_LOOPS),
}
"""Free wires, by the names under which they are shown."""

_ACCESSES = ("lb", "lbu", "lh", "lhu", "lw", "lwsp", "sb", "sh", "sw", "swsp")


def of_instruction(name: str) -> tuple[Cutpoint, ...]:
    """Return what is free when an instruction of RV32IMC is checked: what it does not use."""
    base = name.removeprefix("c_")
    if base.startswith(("mul", "div", "rem")):
        return _MULTIPLICATION
    if base.startswith("b"):
        return _BRANCH
    return _ACCESS if base in _ACCESSES else _OPERATION


def class_of(cutpoints: tuple[Cutpoint, ...]) -> str:
    """The name under which cutpoints are shown: what is free itself if they have none."""
    return next((name for name, each in CLASSES.items() if each == cutpoints), shown_cuts(cutpoints))


def shown_cuts(cutpoints: Iterable[Cutpoint]) -> str:
    """Return what is free, in words."""
    return ", ".join(cut.name for cut in cutpoints if cut.name) or "nothing"


_ARRAY = r"\breg \[\d+:0\] \w+ \["  # declaration of an array


def existing_wires(cutpoints: Iterable[Cutpoint], modules: Mapping[str, str]) -> list[str]:
    """The wires of cutpoints, of which a core need not have all."""
    existing: list[str] = []
    for cut in cutpoints:
        for wire in (*cut.wires, *(name for name, _ in cut.ties)):
            module, _, name = wire.partition("[")[0].partition("/")
            if re.search(_ARRAY if "*" in name else rf"\b{name}\b", modules.get(module, "")):
                existing.append(wire)
    return existing


def kept_wires(modules: Mapping[str, str]) -> list[str]:
    """All wires, without their bits, that a check may cut in modules that are there."""
    return sorted({wire.partition("[")[0] for wire in existing_wires(EVERY, modules)})


def cut_commands(cutpoints: Iterable[Cutpoint], modules: Mapping[str, str]) -> list[str]:
    """Commands of Yosys that cut; what then has no driver is free."""
    lines: list[str] = []
    for cut in cutpoints:
        ties = dict(cut.ties)
        for wire in existing_wires([cut], modules):
            module, _, name = wire.partition("/")
            whole = name.partition("[")[0]
            lines.append(f"select -assert-min 1 {module}/w:{whole}")
            if wire in ties:
                lines += [f"cd {module}", f"connect -set {name} {ties[wire]}", "cd .."]
            elif name != whole or re.search(rf"\boutput [^;,]*\b{re.escape(whole)}\b", modules[module]):
                # cutpoints are for whole wires, and of an output they would leave the module its own value
                lines += [f"cd {module}", f"connect -unset {name}", "cd .."]
            else:
                # a wire without driver would still be one with what it is assigned to
                lines.append(f"cutpoint {module}/w:{name}")
    return lines


GATES = "gates.il"  # file with the gates of all modules

NETLIST = "core.json"  # file with the core between its memories, some wires of it cut

MODULE = "rvfi_wrapper"  # module of the core between its memories

_READ_ALL = f"""read_verilog -sv core.v
hierarchy -check -top {MODULE}
select -set mapped *
"""

_READ_CHANGED = f"""read_rtlil {{like}}
delete {{module}}
read_verilog -sv core.v
hierarchy -check -top {MODULE}
select -set mapped {{module}}
"""

_MAP = f"""proc -noopt @mapped
setattr -set keep 1 {{kept}}
memory -nordff @mapped
opt -full -nodffe -nosdff @mapped
techmap @mapped
opt -fast -nodffe -nosdff @mapped
dffunmap @mapped
opt_clean @mapped
write_rtlil {GATES}
"""

_GRAPH_SCRIPT = f"""read_rtlil {GATES}
{{cutpoints}}
setattr -unset keep
flatten
opt_clean -purge
opt_clean -purge
write_json {NETLIST}
"""


def emit_cut_design(config: CoreConfig, masks: Mapping[str, int]) -> EmittedVerilog:
    """The emitted core between its memories, with stand-ins for multiplier and divider."""
    # Amaranth takes long to import, and a run that resumes may not need it
    from xpulpnn_sim.proofs.riscv_formal.hardware.altops import AltopsDivider, AltopsMult
    from xpulpnn_sim.proofs.riscv_formal.hardware.rvfi_wrapper import RvfiWrapper

    if config.qnt or config.requantise:
        raise InputError("qnt and requantise must be false for formal, not true")
    if config.multiplies_by_dotp:
        raise InputError("multiplier must be booth or inferred for formal, which replaces it, not dot-product")
    config = replace(config, rvfi=True)
    emitted = emit(RvfiWrapper(config), MODULE, config=config)
    modules = dict(emitted.modules)
    stand_ins = {"mult": AltopsMult(masks, requantises=False), "div": AltopsDivider(masks)}
    for unit, component in stand_ins.items():
        name = emitted.manifest["hierarchy"][f"{MODULE}.core.backend.ex_stage.{unit}"]
        modules |= emit(component, name, config={}).modules
    return replace(emitted, modules=modules)


def make_gates(design: EmittedVerilog, folder: Path, yosys: Yosys, like: Path | None = None, changed: str = "") -> None:
    """Write the gates of a design to :data:`GATES` in ``folder``."""
    modules = {changed: design.modules[changed]} if like else design.modules
    (folder / "core.v").write_text("\n".join(modules.values()))
    wires_kept = " ".join(wire.replace("/", "/w:") for wire in kept_wires(modules))
    script = _MAP.format(kept=wires_kept) if wires_kept else _MAP.replace("setattr -set keep 1 {kept}\n", "")
    if like:
        copied = folder / "like.il"
        copied.unlink(missing_ok=True)
        copied.hardlink_to(like)
        script = _READ_CHANGED.format(like=copied.name, module=changed) + script
    else:
        script = _READ_ALL + script
    yosys.run(script, folder, what="the core", results=[GATES], name="core")


def cut_core(
    design: EmittedVerilog, cutpoints: Sequence[Cutpoint], gates: Path, folder: Path, yosys: Yosys
) -> ClockedGates:
    """The core with some wires cut."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / NETLIST).exists():
        # the wheel does not follow links out of the folder that it runs in
        (folder / GATES).unlink(missing_ok=True)
        (folder / GATES).hardlink_to(gates)
        script = _GRAPH_SCRIPT.format(cutpoints="\n".join(cut_commands(cutpoints, design.modules)))
        yosys.run(script, folder, what=f"the core without {shown_cuts(cutpoints)}", results=[NETLIST], name="graph")
        (folder / GATES).unlink()
    return ClockedGates(read_module(folder / NETLIST, MODULE))
