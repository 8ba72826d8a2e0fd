"""State of a hart next to its CSRs and memory, and what a step did to it."""

from dataclasses import dataclass

from xpulpnn.isa.insn import Insn


@dataclass(slots=True)
class State:
    """Architectural state next to the CSRs and the memory."""

    pc: int  # address of the next instruction
    regs: list[int]  # GP-RF; entry 0 stays 0
    nn: list[int]  # NN-RF: activations 0 and 1, weights 2 to 5; with the requantisation its factor 6 and its summand 7
    asleep: bool = False  # A wfi waits for an interrupt


@dataclass(frozen=True, slots=True)
class Step:
    """Outcome of one step."""

    pc: int  # address of the instruction, or the one at which the interrupt was taken
    insn: Insn | None = None  # the row executed, compressed rows expanded; None for interrupts, sleep and illegal words
    word: int = 0  # the instruction word, compressed ones expanded; 0 for interrupts and sleep
    cause: int | None = None  # mcause of the trap taken, if any
    endless: bool = False  # it jumped to itself and will do so until an interrupt comes
