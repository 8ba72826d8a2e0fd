"""Cycles of the rows of the instruction table, with memories that grant at once and answer in the next cycle."""

from dataclasses import dataclass

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import QUANTISED_PIXELS, SHORTEST_DIVISION, Cost, division_cycles

_MULTIPLY_HIGH = frozenset({"mulh", "mulhsu", "mulhu"})
_DIVISIONS = frozenset({"div", "divu", "rem", "remu"})
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
    if insn.op in _DIVISIONS:
        return Cycles(SHORTEST_DIVISION, division_cycles(0, signed=insn.op in ("div", "rem")))
    fixed = _fixed(insn)
    return Cycles(fixed, fixed, tuple(_sometimes(insn)))


def _fixed(insn: Insn) -> int:
    if insn.op in _MULTIPLY_HIGH:
        return 1 + Cost.MULTIPLY_HIGH.cycles
    if insn.is_jump:
        return 1 + Cost.JUMP.cycles
    if insn.op in _TRAPS:
        return 1 + Cost.TRAP.cycles
    if insn.op == "pv.qnt" and insn.fmt is not None:
        return 1 + QUANTISED_PIXELS * insn.fmt.width
    return 1 + Cost.FENCE_I.cycles if insn.op == "fence.i" else 1


def _sometimes(insn: Insn) -> list[Cost]:
    found: list[Cost] = []
    if insn.is_branch:
        found.append(Cost.TAKEN_BRANCH)
    if insn.op == "jalr":
        found.append(Cost.JUMP_REGISTER)
    if insn.is_branch or insn.is_jump:
        found.append(Cost.MISALIGNED_TARGET)
    if (insn.is_load or insn.is_store or insn.is_mac_load or insn.loads_parameter) and insn.op not in _BYTES:
        found.append(Cost.MISALIGNED_ACCESS)
    if insn.is_load:
        found.append(Cost.LOAD_USE)
    if insn.is_mac_load:
        found.append(Cost.MAC_LOAD_USE)
    if insn.loads_parameter:
        found.append(Cost.PARAMETER_USE)
    if insn.requantises:
        found.append(Cost.REQUANTISE_USE)
    if insn.op in _CSR:
        found.append(Cost.CSR_WRITE)
    return found
