"""CSR instructions and hardware-loop setup as values to write (ISA.md sections 3.4 and 4.2)."""

from typing import NamedTuple

from xpulpnn.isa.csr import Csr, CsrAccess
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.iss.csrs import CsrFile

WORD_BYTES = 4


class CsrTransfer(NamedTuple):
    """One CSR instruction.

    Members
    -------
    csr : Csr
        Register accessed.
    read : int
        Value for rd.
    written : int or None
        Value for the register, None if the instruction does not write.
    """

    csr: Csr
    read: int
    written: int | None


def _writes(insn: Insn, values: dict[str, int]) -> bool:
    """csrrs and csrrc with x0 or a zero immediate only read."""
    return insn.op == "csrrw" or values.get("rs1", values.get("zimm5")) != 0


def csr_is_legal(insn: Insn, word: int, csrs: CsrFile) -> bool:
    """Whether the register exists and, if it is read-only, is only read."""
    values = insn.decode(word)
    csr = csrs.find(values["csr"])
    return csr is not None and (csr.access is not CsrAccess.RO or not _writes(insn, values))


def csr_access(insn: Insn, word: int, rs1: int, csrs: CsrFile) -> CsrTransfer:
    """The transfer of a legal CSR instruction."""
    values = insn.decode(word)
    csr = csrs.find(values["csr"])
    assert csr is not None
    old, operand = csrs.read(csr), values.get("zimm5", rs1)
    results = {"csrrw": operand, "csrrs": old | operand, "csrrc": old & ~operand}
    return CsrTransfer(csr, old, results[insn.op] if _writes(insn, values) else None)


def loop_writes(insn: Insn, word: int, rs1: int, pc: int) -> dict[str, int]:
    """Loop registers set by an ``lp.*`` instruction, by CSR name."""
    values = insn.decode(word)
    loop, count = values["L"], values.get("lpcnt12", rs1)
    target = pc + values.get("lpoff12", values.get("lpoff5", 0))
    writes = {
        "lp.starti": {"lpstart": target},
        "lp.endi": {"lpend": target},
        "lp.count": {"lpcount": count},
        "lp.setup": {"lpstart": pc + WORD_BYTES, "lpend": target, "lpcount": count},
    }
    return {f"{name}{loop}": value & 0xFFFF_FFFF for name, value in writes[insn.op].items()}
