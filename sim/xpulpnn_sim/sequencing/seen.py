"""What the properties see of the inside of the core: its own registers and wires, by their names in the emitted text."""

from collections.abc import Mapping
from typing import NamedTuple

_TAP = "core.backend.rvfi_tap"
_LOOPS = "core.hwloops"
_LSU = "core.backend.lsu"


class Seen(NamedTuple):
    """A signal of the core.

    Parameters
    ----------
    path : str
        Instances down to it, and its name.
    width : int
        Its bits.
    """

    path: str
    width: int = 1


CORE: Mapping[str, Seen] = {
    "ex_valid": Seen(f"{_TAP}.wb_valid_value"),
    "ex_insn": Seen(f"{_TAP}.ex_insn", 32),
    "ex_pc": Seen(f"{_TAP}.ex_pc_rdata", 32),
    "ex_rs1": Seen(f"{_TAP}.ex_rs1_rdata", 32),
    "ex_trap": Seen(f"{_TAP}.ex_trap"),
    "wb_valid": Seen(f"{_TAP}.wb_valid"),
    "ex_leaves": Seen("core.backend.flow__ex_leaves"),
    "taken": Seen("core.backend.branch__valid"),
    "id_valid": Seen("core.if_stage.insn__valid"),
    "id_pc": Seen("core.if_stage.insn__payload__pc", 32),
    "id_short": Seen("core.if_stage.insn__payload__compressed"),
    "if_pc": Seen("core.if_stage.pc", 32),
    "enter": Seen("core.controller.enter"),
    "enter_interrupt": Seen("core.controller.enter_interrupt"),
    "enter_pc": Seen("core.controller.enter_pc", 32),
    "outstanding": Seen(f"{_LSU}.outstanding"),
    "wb_busy": Seen(f"{_LSU}.wb_busy"),
    "ex_access": Seen("core.backend.lsu.ex_ctrl_valid"),
}
"""In every core."""

LOOPS: Mapping[str, Seen] = {
    **{
        f"{name}{loop}": Seen(f"{_LOOPS}.{name}{loop}", 32)
        for loop in range(2)
        for name in ("lpstart", "lpend", "lpcount")
    },
    "late": Seen(f"{_LOOPS}.late", 2),
    "ex_took": Seen(f"{_LOOPS}.ex_took", 2),
    "wb_took": Seen(f"{_LOOPS}.wb_took", 2),
    "gives_back": Seen(f"{_LOOPS}.gives_back"),
    "id_looped": Seen("core.if_stage.id_looped"),
}
"""With hardware loops."""
