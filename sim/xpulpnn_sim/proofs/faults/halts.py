"""Faults of debug mode that the pipeline property ``halts`` must find."""

from amaranth.hdl import Mux

from xpulpnn.core.controller import Controller
from xpulpnn_sim.proofs.faults.fault import Fault, Wrong


def _dpc(condition: str, wrong: str) -> dict[str, Wrong]:
    """Return a fault that writes another address to dpc while a condition holds."""
    return {".access_pc": lambda right, u: Mux(u(condition), u(wrong)[-len(right) :], right)}


_FAULTS: dict[str, dict[str, Wrong]] = {
    "dpc is behind the instruction that has not been executed": _dpc(".halts", "id_next"),
    "dpc is not changed by a halt": _dpc("debug.enter", ".access_pc"),
    "a halt does not wait for what is older": {
        ".halts": lambda _, u: u("halting") & u("id_valid") & ~u(".sleeping") & ~u(".dropped")
    },
    "a request to halt does not hold what follows": {"halting": lambda _, u: u(".stepped")},
    "an interrupt is taken while the core halts": {
        "irq_ack": lambda _, u: u(".interrupts") & u("id_valid") & ~u("busy") & ~u(".sleeping") & ~u(".faulted")
    },
    "an access that fails when the core halts is lost": {".aborted": lambda *_: 0},
    "a halt enters a trap": {"enter": lambda right, u: right | u("debug.enter")},
    "debug mode begins at the address for exceptions": {
        ".other_target": lambda right, u: Mux(u(".halts"), u("debug_exception_addr"), right)
    },
    "the core resumes where a trap returns": {"debug.pc": lambda _, u: u("mepc")},
    "a step ends before it has begun": {".stepped": lambda *_: 1},
    "interrupts are taken in debug mode": {"irq_masked": lambda *_: 0},
}
HALT_FAULTS = tuple(Fault(name, Controller, wrong, "halts", needs="debug") for name, wrong in _FAULTS.items())
