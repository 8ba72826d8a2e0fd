"""Cycles of the rows of the instruction table, with memories that grant at once and answer in the next cycle."""

from dataclasses import dataclass

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import QUANTISED_PIXELS, SHORTEST_DIVISION, Cost, division_cycles

_BYTES = frozenset({"lb", "lbu", "sb"})
_CSR = frozenset({"csrrw", "csrrs", "csrrc"})
_TRAPS = frozenset({"ecall", "ebreak", "mret"})


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of a row."""

    #: fewest, most: Cycles that the instruction itself takes; they differ where operands decide.
    fewest: int
    most: int
    sometimes: tuple[Cost, ...] = ()  #: What may come on top.


def cycles(insn: Insn) -> Cycles:
    """Return the cycles of ``insn``."""
    if insn.divides:
        return Cycles(SHORTEST_DIVISION, division_cycles(0, signed=insn.op in ("div", "rem")))
    fixed = _fixed(insn)
    return Cycles(fixed, fixed, tuple(_sometimes(insn)))


def _fixed(insn: Insn) -> int:
    if insn.multiplies_high:
        return 1 + Cost.MULTIPLY_HIGH.cycles
    if insn.is_jump:
        return 1 + Cost.JUMP.cycles
    if insn.op in _TRAPS:
        return 1 + Cost.TRAP.cycles
    if insn.op == "pv.qnt" and insn.fmt is not None:
        return 1 + QUANTISED_PIXELS * insn.fmt.width
    return 1 + Cost.FENCE_I.cycles if insn.op == "fence.i" else 1


def _sometimes(insn: Insn) -> list[Cost]:
    accesses = insn.is_load or insn.is_store or insn.is_mac_load or insn.loads_parameter
    due = {
        Cost.TAKEN_BRANCH: insn.is_branch,
        Cost.JUMP_REGISTER: insn.op == "jalr",
        Cost.MISALIGNED_TARGET: insn.is_branch or insn.is_jump,
        Cost.MISALIGNED_ACCESS: accesses and insn.op not in _BYTES,
        Cost.LOAD_USE: insn.is_load,
        Cost.MAC_LOAD_USE: insn.is_mac_load,
        Cost.PARAMETER_USE: insn.loads_parameter,
        Cost.REQUANTISE_USE: insn.requantises,
        Cost.CSR_WRITE: insn.op in _CSR,
    }
    return [cost for cost, holds in due.items() if holds]
