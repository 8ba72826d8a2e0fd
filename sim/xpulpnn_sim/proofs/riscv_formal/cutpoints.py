"""Cutpoints: wires on which a check does not depend, and which become free variables.

A core with free wires has all behaviours of the core and more. A proof therefore holds for the core, while a failure
may be spurious. Wires are cut where they are read, so that logic before and after them stays. The core between its
memories is converted to gates once for all checks.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates
from xpulpnn_sim.tools import probes
from xpulpnn_sim.tools.netlists import read_module
from xpulpnn_sim.tools.probes import CUT_WIRES
from xpulpnn_sim.tools.yosys import Yosys

IDLE_LOOPS = ""
"""Assumption, among names of cutpoints, that no hardware loop is ever set up; no wire is cut."""


def _cuts(*names: str) -> tuple[str, ...]:
    return tuple(name for text in names for name in text.split(", "))


_VALUES = "fetched words, products, quotients, results, addresses, comparisons, loaded values"
_REGISTERS = "registers, forwarded results"
_PROGRAM = f"fetched words, {_REGISTERS}, handlers, interrupts"
_CSRS = "CSRs, values written to CSRs"
_MOVES = f"{_VALUES}, {_CSRS}, handlers, interrupts, hardware loops, constants and targets"
_ADDRESSES = f"{_REGISTERS}, {_CSRS}, interrupts but for mepc, ends of hardware loops, targets"
_SLOW = f"{_REGISTERS}, addresses, comparisons, loaded values, results, {_CSRS}"
_CONTENTS = f"{_PROGRAM}, products, quotients, results of the ALU, addresses, comparisons, loaded values"
_INSTRUCTIONS = f"{_PROGRAM}, {_CSRS}"
_PRODUCTS = "dot products, results of the ALU, addresses, comparisons, loaded values"

CLASSES = {
    "operation": _cuts(_INSTRUCTIONS, "products, quotients, addresses, comparisons, loaded values", IDLE_LOOPS),
    "multiplication": _cuts(_INSTRUCTIONS, _PRODUCTS, IDLE_LOOPS),
    "branch": _cuts(_INSTRUCTIONS, "products, quotients, results, addresses, loaded values", IDLE_LOOPS),
    "access": _cuts(_INSTRUCTIONS, "products, quotients, results, comparisons", IDLE_LOOPS),
    # the flow of values through the pipeline: the values, and decisions that depend on them, are free
    "moves": _cuts(_MOVES, "bases and targets of branches"),
    # the order of retirements
    "order": _cuts(_MOVES, _REGISTERS),
    # program counters
    "addresses": _cuts(_VALUES, _ADDRESSES),
    # progress; logic on which durations depend stays
    "progress": _cuts(_SLOW, "handlers, constants and targets, ends of hardware loops"),
    # the instruction port
    "fetches": _cuts(_VALUES.removeprefix("fetched words, "), _ADDRESSES),
    # the data port
    "accesses": tuple(cut for cut in _cuts(_MOVES, _REGISTERS) if cut not in ("addresses", "loaded values")),
    # CSRs, whose contents stay
    "CSR": _cuts(_CONTENTS),
    "CSR, no loops": _cuts(_CONTENTS, IDLE_LOOPS),
}
"""Sets of cutpoints by displayed name."""

_ACCESSES = ("lb", "lbu", "lh", "lhu", "lw", "lwsp", "sb", "sh", "sw", "swsp")


def instruction_cutpoints(name: str) -> tuple[str, ...]:
    base = name.removeprefix("c_")
    if base.startswith(("mul", "div", "rem")):
        return CLASSES["multiplication"]
    if base.startswith("b"):
        return CLASSES["branch"]
    return CLASSES["access" if base in _ACCESSES else "operation"]


def class_of(cutpoints: tuple[str, ...]) -> str:
    return next((name for name, each in CLASSES.items() if each == cutpoints), shown_cuts(cutpoints))


def shown_cuts(cutpoints: Iterable[str]) -> str:
    return ", ".join(filter(None, cutpoints)) or "nothing"


_ARRAY = r"\breg \[\d+:0\] \w+ \["


def existing_wires(cutpoints: Iterable[str], modules: Mapping[str, str]) -> list[str]:
    """Return the wires, as ``module/wire``, that these cutpoints cut or tie to constants and that the modules have."""
    existing: list[str] = []
    for cut in cutpoints:
        tables = CUT_WIRES.get(cut, {})
        wires = [f"{module}/{wire}" for module, names in tables.items() for wire in names.split()]
        for wire in wires if cut else probes.IDLE_LOOPS:
            module, _, name = wire.partition("[")[0].partition("/")
            # wildcards match names that Yosys makes for arrays
            if re.search(_ARRAY if "*" in name else rf"\b{name}\b", modules.get(module, "")):
                existing.append(wire)
    return existing


def kept_wires(modules: Mapping[str, str]) -> list[str]:
    return sorted({wire.partition("[")[0] for wire in existing_wires((*CUT_WIRES, IDLE_LOOPS), modules)})


def cut_commands(cutpoints: Iterable[str], modules: Mapping[str, str]) -> list[str]:
    """Return Yosys commands that cut wires, which become free variables, or tie them to constants."""
    lines: list[str] = []
    for wire in existing_wires(cutpoints, modules):
        module, _, name = wire.partition("/")
        whole = name.partition("[")[0]
        lines.append(f"select -assert-min 1 {module}/w:{whole}")
        if wire in probes.IDLE_LOOPS:
            lines += [f"cd {module}", f"connect -set {name} {probes.IDLE_LOOPS[wire]}", "cd .."]
        elif name != whole or re.search(rf"\boutput [^;,]*\b{re.escape(whole)}\b", modules[module]):
            # the command cutpoint needs whole wires, and would leave an output its value inside the module
            lines += [f"cd {module}", f"connect -unset {name}", "cd .."]
        else:
            # an undriven wire would still be merged with its readers
            lines.append(f"cutpoint {module}/w:{name}")
    return lines


GATES = "gates.il"  # gates of all modules

NETLIST = "core.json"  # the core between its memories with cut wires

MODULE = "rvfi_wrapper"  # the core between its memories

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
    """Emit the core between its memories, with multiplier and divider replaced as riscv-formal expects."""
    # slow import, not needed if all outcomes are stored
    from xpulpnn_sim.proofs.riscv_formal.hardware.altops import AltopsDivider, AltopsMult
    from xpulpnn_sim.proofs.riscv_formal.hardware.rvfi_wrapper import RvfiWrapper

    require(not config.qnt and not config.requantise, "qnt and requantise must be false for formal, not true")
    if config.multiplies_by_dotp:
        raise InputError("multiplier must be booth or inferred for formal, which replaces it, not dot-product")
    config = replace(config, rvfi=True)
    emitted = emit(RvfiWrapper(config), MODULE, config=config)
    modules = dict(emitted.modules)
    stand_ins = {"mult": AltopsMult(masks), "div": AltopsDivider(masks)}
    for unit, component in stand_ins.items():
        name = emitted.manifest["hierarchy"][f"{MODULE}.core.backend.ex_stage.{unit}"]
        modules |= emit(component, name, config={}).modules
    return replace(emitted, modules=modules)


def make_gates(design: EmittedVerilog, folder: Path, yosys: Yosys, like: Path | None = None, changed: str = "") -> None:
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


def cut_core(design: EmittedVerilog, cutpoints: Sequence[str], gates: Path, folder: Path, yosys: Yosys) -> ClockedGates:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / NETLIST).exists():
        # the Yosys wheel does not follow symbolic links out of its folder
        (folder / GATES).unlink(missing_ok=True)
        (folder / GATES).hardlink_to(gates)
        script = _GRAPH_SCRIPT.format(cutpoints="\n".join(cut_commands(cutpoints, design.modules)))
        yosys.run(script, folder, what=f"the core without {shown_cuts(cutpoints)}", results=[NETLIST], name="graph")
        (folder / GATES).unlink()
    return ClockedGates(read_module(folder / NETLIST, MODULE))
