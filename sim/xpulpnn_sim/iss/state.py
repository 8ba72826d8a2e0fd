"""State of a hart next to its CSRs and memory, and what a step did to it."""

from dataclasses import dataclass

from xpulpnn.isa.insn import Insn


@dataclass(slots=True)
class State:
    """Architectural state next to the CSRs and the memory.

    Members
    -------
    pc : int
        Address of the next instruction.
    regs : list of 32 int
        GP-RF; entry 0 stays 0.
    nn : list of 6 or 8 int
        NN-RF: activations 0 and 1, weights 2 to 5; with the requantisation its factor 6 and its summand 7.
    asleep : bool
        A wfi waits for an interrupt.
    """

    pc: int
    regs: list[int]
    nn: list[int]
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Members
    -------
    pc : int
        Address of the instruction, or the one at which the interrupt was taken.
    insn : Insn or None
        The row executed, compressed rows expanded; None for interrupts, sleep and illegal words.
    word : int
        The instruction word, compressed ones expanded; 0 for interrupts and sleep.
    cause : int or None
        mcause of the trap taken, if any.
    endless : bool
        It jumped to itself and will do so until an interrupt comes.
    """

    pc: int
    insn: Insn | None = None
    word: int = 0
    cause: int | None = None
    endless: bool = False
