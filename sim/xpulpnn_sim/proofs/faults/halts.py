"""Faults of debug mode, each of which the property of halts, steps and resumptions must find."""

from amaranth.hdl import Mux

from xpulpnn.core.controller import Controller
from xpulpnn_sim.proofs.faults.core_fault import CoreFault

_FAULTS = {
    "dpc is behind the instruction that has not been executed": {
        "enter_pc": lambda right, u: Mux(u(".halts"), u("id_next"), right)
    },
    "a request to halt does not hold what follows": {"halting": lambda _, u: u(".stepped")},
    "a step ends before it has begun": {".stepped": lambda *_: 1},
    "interrupts are taken in debug mode": {"irq_masked": lambda *_: 0},
}
HALT_FAULTS = tuple(CoreFault(name, Controller, wrong, "halts") for name, wrong in _FAULTS.items())
"""Faults of a core with debug mode."""
