"""Cycle costs of instructions that a taken branch kills while they stall or jump: only the branch takes cycles."""

from collections.abc import Iterator

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import Cost
from xpulpnn_sim.reference.bare.layout import WINDOW
from xpulpnn_sim.verification.costs.late_costs import fetched_elsewhere, stalls
from xpulpnn_sim.verification.costs.measurement import CostRow


def dropped_rows(config: CoreConfig) -> Iterator[CostRow]:
    """Measure taken branches over jumps, and over an instruction that depends on the load before the branch."""
    waiting = {"jalr": "jalr zero, 0(a0)"}
    if config.requantise_exact:
        waiting["pv.rqxu.b"] = "pv.rqxu.b a3, a0, a2, 1"
    jumps = {"jal": "jal zero, 77f", "jalr": "jalr zero, 0(a1)"}
    branch = stalls(Cost.TAKEN_BRANCH, *fetched_elsewhere(config))
    for name, text in waiting.items():
        code = f"lw a0, 0(a1)\n beq zero, zero, 77f\n {text}\n 77: addi zero, zero, 0"
        group = "taken branch over what waits for a loaded value: overhead"
        yield CostRow(group, name, code, branch, setup=f"li a1, 0x{WINDOW:x}", is_extra=True)
    for name, text in jumps.items():
        code = f"beq zero, zero, 77f\n {text}\n 77: addi zero, zero, 0"
        yield CostRow(
            "taken branch over a jump: overhead", name, code, branch, setup=f"li a1, 0x{WINDOW:x}", is_extra=True
        )
