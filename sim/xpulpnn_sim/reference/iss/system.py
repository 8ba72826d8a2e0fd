"""CSR instructions and hardware-loop setup as values to write (guide, "Base instructions" and "Loop set-up")."""

from typing import NamedTuple

from xpulpnn.isa.csr import Csr, CsrAccess
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.reference.iss.csrs import CsrFile
from xpulpnn_sim.reference.iss.fetched import Fetched


class CsrTransfer(NamedTuple):
    """One CSR instruction."""

    csr: Csr  # register accessed
    read: int  # value for rd
    written: int | None  # value for the register, None if the instruction does not write


def _writes(fetched: Fetched) -> bool:
    """csrrs and csrrc with x0 or a zero immediate, which is in the field rs1 as well, only read."""
    return fetched.insn.op == "csrrw" or fetched.rs1 != 0


def csr_is_legal(fetched: Fetched, csrs: CsrFile) -> bool:
    """Return whether the register exists and, if it is read-only, is only read."""
    csr = csrs.find(fetched.operands["csr"])
    return csr is not None and (csr.access is not CsrAccess.RO or not _writes(fetched))


def csr_access(fetched: Fetched, rs1: int, csrs: CsrFile) -> CsrTransfer:
    """The transfer of a legal CSR instruction."""
    csr = csrs.find(fetched.operands["csr"])
    assert csr is not None
    old, operand = csrs.read(csr), fetched.operands.get("zimm5", rs1)
    results = {"csrrw": operand, "csrrs": old | operand, "csrrc": old & ~operand}
    return CsrTransfer(csr, old, results[fetched.insn.op] if _writes(fetched) else None)


def loop_writes(fetched: Fetched, rs1: int, pc: int) -> dict[str, int]:
    """Loop registers set by an ``lp.*`` instruction, by CSR name."""
    values = fetched.operands
    loop, count = values["L"], values.get("lpcnt12", rs1)
    target = pc + values.get("lpoff12", values.get("lpoff5", 0))
    writes = {
        "lp.starti": {"lpstart": target},
        "lp.endi": {"lpend": target},
        "lp.count": {"lpcount": count},
        "lp.setup": {"lpstart": pc + WORD_BYTES, "lpend": target, "lpcount": count},
    }
    return {f"{name}{loop}": value & WORD_MASK for name, value in writes[fetched.insn.op].items()}
