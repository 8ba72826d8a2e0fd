"""The core between its memories as gates, made once for all checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.verilog import emit
from xpulpnn_sim.proofs.engine.aiger import Named, read_named
from xpulpnn_sim.proofs.riscv_formal.cutpoints import Cutpoint, commands, kept_wires, shown
from xpulpnn_sim.proofs.riscv_formal.testbench import MODULE
from xpulpnn_sim.tools.yosys import Yosys

GATES = "core.il"  # file with the gates of all modules

GRAPH, NAMES = "core.aig", "core.map"
"""Files with the core as a graph, some wires of it cut, and with the names of its inputs and outputs."""

ZERO = "zero"
"""Input of the graph with which each output is combined; it must be 0. Yosys names no output that is constant."""

_SHELL = "shell"

_READ_ALL = f"""read_verilog -sv core.v shell.v
hierarchy -check -top {_SHELL}
select -set mapped *
"""

_READ_CHANGED = f"""read_rtlil {{like}}
delete {{module}}
read_verilog -sv core.v
hierarchy -check -top {_SHELL}
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
setundef -undriven -anyseq
aigmap
opt_clean -purge
write_aiger -map {NAMES} {GRAPH}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Core that is checked."""

    config: CoreConfig
    masks: Mapping[str, int]  # of the stand-ins for multiplier and divider
    modules: Mapping[str, str]  # Verilog of each module by its name, submodules first
    manifest: Mapping[str, Any]  # ports of the top, and hierarchy

    @property
    def text(self) -> str:
        """The source as one file."""
        return "\n".join(self.modules.values())


def emit_design(config: CoreConfig, masks: Mapping[str, int]) -> Design:
    """The emitted core between its memories, with stand-ins for multiplier and divider."""
    # Amaranth takes long to import, and a run that resumes may not need it
    from xpulpnn_sim.proofs.riscv_formal.hardware.surrounded import SurroundedCore
    from xpulpnn_sim.proofs.riscv_formal.hardware.tapped import AlternativeDivider, AlternativeMult

    if config.qnt or config.requantise:
        raise InputError("qnt and requantise must be false for formal, not true")
    config = replace(config, rvfi=True)
    emitted = emit(SurroundedCore(config), MODULE, config=config)
    modules = dict(emitted.modules)
    stand_ins = {"mult": AlternativeMult(masks, requantises=False), "div": AlternativeDivider(masks)}
    for unit, component in stand_ins.items():
        name = emitted.manifest["hierarchy"][f"{MODULE}.core.backend.ex_stage.{unit}"]
        modules |= emit(component, name, config={}).modules
    return Design(config=config, masks=masks, modules=modules, manifest=emitted.manifest)


def make_gates(design: Design, folder: Path, yosys: Yosys, like: Path | None = None, changed: str = "") -> None:
    """Write the gates of a design to :data:`GATES` in ``folder``."""
    modules = {changed: design.modules[changed]} if like else design.modules
    (folder / "core.v").write_text("\n".join(modules.values()))
    (folder / "shell.v").write_text(_shell(design.manifest))
    kept = " ".join(wire.replace("/", "/w:") for wire in kept_wires(modules))
    script = _MAP.format(kept=kept) if kept else _MAP.replace("setattr -set keep 1 {kept}\n", "")
    if like:
        copied = folder / "like.il"
        copied.unlink(missing_ok=True)
        copied.hardlink_to(like)
        script = _READ_CHANGED.format(like=copied.name, module=changed) + script
    else:
        script = _READ_ALL + script
    yosys.run(script, folder, what="the core", results=[GATES], name="core")


def make_graph(design: Design, cutpoints: Sequence[Cutpoint], gates: Path, folder: Path, yosys: Yosys) -> Named:
    """The core as a graph, with some wires cut."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / GRAPH).exists():
        # the wheel does not follow links out of the folder that it runs in
        (folder / GATES).unlink(missing_ok=True)
        (folder / GATES).hardlink_to(gates)
        script = _GRAPH_SCRIPT.format(cutpoints="\n".join(commands(cutpoints, design.modules)))
        yosys.run(script, folder, what=f"the core without {shown(cutpoints)}", results=[GRAPH, NAMES], name="graph")
        (folder / GATES).unlink()
    return read_named(folder / GRAPH, folder / NAMES)


def _shell(manifest: Mapping[str, Any]) -> str:
    """A module around the core, with its ports, and with :data:`ZERO`."""
    ports, wires, connected = [f"input {ZERO}"], [], []
    for port in manifest["ports"]:
        name, width = port["name"], port["width"]
        ports.append(f"{port['direction']} [{width - 1}:0] {name}")
        if port["direction"] == "input":
            connected.append(f".{name}({name})")
        else:
            wires.append(f"wire [{width - 1}:0] {name}_wire;\n    assign {name} = {name}_wire ^ {{{width}{{{ZERO}}}}};")
            connected.append(f".{name}({name}_wire)")
    lines = ["module {}({});".format(_SHELL, ", ".join(ports)), *wires, f"{MODULE} core ({', '.join(connected)});"]
    return "\n    ".join(lines) + "\nendmodule\n"
