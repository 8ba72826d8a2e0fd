"""Packed values lane by lane, as reports show them."""

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.programs.trace import decode


def lanes(word: int, insn: Insn, *, signed: bool) -> list[int]:
    """Elements of a packed word in the format of ``insn``, lane 0 first."""
    assert insn.fmt is not None
    width = insn.fmt.width
    values = [word >> low & ((1 << width) - 1) for low in range(0, XLEN, width)]
    return [value - (1 << width) if signed and value >> (width - 1) else value for value in values]


def result_lines(raw: int, expected: int, got: int) -> list[str]:
    """A wrong value of rd lane by lane, if the instruction ``raw`` makes a packed one."""
    insn = decode(raw)
    if insn is None or insn.fmt is None or "dot" in insn.op or "extract" in insn.op:
        return []
    return [f"  {name} lanes {lanes(word, insn, signed=False)}" for name, word in (("must be", expected), ("are", got))]


def factor_lines(raw: int, operands: dict[str, int]) -> list[str]:
    """The factors of a dot product lane by lane; ``operands`` by the names rs1, rs2, act, wgt."""
    insn = decode(raw)
    if insn is None or insn.fmt is None or "dot" not in insn.op:
        return []
    names = ("wgt", "act") if insn.is_nn_form else ("wgt", "rs2") if insn.is_mac_load else ("rs1", "rs2")
    signs = zip(names, (insn.a_signed, insn.b_signed), strict=True)
    return [f"  {name} lanes {lanes(operands[name], insn, signed=signed)}" for name, signed in signs]
