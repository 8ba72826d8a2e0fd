"""The core between its memories as gates, made once for all checks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.verilog import emit
from xpulpnn_sim.riscv_formal.testbench import MODULE
from xpulpnn_sim.yosys import Yosys

GATES = "core.il"
"""File with the gates."""

_SCRIPT = f"""read_verilog -sv core.v
hierarchy -check -top {MODULE}
proc -noopt
flatten
memory -nordff
opt_expr
opt_clean
techmap
dffunmap
opt_clean
abc -g AND -script +strash;dc2;map
opt_clean -purge
write_rtlil {GATES}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What is checked.

    Parameters
    ----------
    modules : mapping
        Verilog of each module by its name, submodules first.
    manifest : mapping
        Ports of the top, and hierarchy.
    """

    modules: Mapping[str, str]
    manifest: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The source as one file."""
        return "\n".join(self.modules.values())


def emit_design(config: CoreConfig, masks: Mapping[str, int]) -> Design:
    """The emitted core between its memories, with stand-ins for multiplier and divider.

    Parameters
    ----------
    config : CoreConfig
        The core; it gets its retirement port.
    masks : mapping
        Of the suite, see :meth:`~xpulpnn_sim.riscv_formal.suite.Suite.masks`.

    Raises
    ------
    InputError
        If the core quantises or requantises: those units ask for more than the suite knows.
    """
    # Amaranth takes long to import, and a run that resumes may not need it
    from xpulpnn_sim.riscv_formal.surrounded import SurroundedCore
    from xpulpnn_sim.riscv_formal.tapped import AlternativeDivider, AlternativeMult

    if config.qnt or config.requantise:
        raise InputError("qnt and requantise must be false for formal, not true")
    config = replace(config, rvfi=True)
    emitted = emit(SurroundedCore(config), MODULE, config=config)
    modules = dict(emitted.modules)
    stand_ins = {"mult": AlternativeMult(masks, requantises=False), "div": AlternativeDivider(masks)}
    for unit, component in stand_ins.items():
        name = emitted.manifest["hierarchy"][f"{MODULE}.core.backend.ex_stage.{unit}"]
        modules |= emit(component, name, config={}).modules
    return Design(modules=modules, manifest=emitted.manifest)


def make_gates(design: Design, folder: Path, yosys: Yosys) -> None:
    """Write the gates of a design to :data:`GATES` in ``folder``; raises :class:`ToolError` if Yosys cannot."""
    (folder / "core.v").write_text(design.text)
    yosys.run(_SCRIPT, folder, what="the core", results=[GATES], name="core")
