"""Control word of the dot-product unit and its value per instruction."""

from amaranth.lib import data, enum

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.table import Insn

FAMILIES = ("pv.dot", "pv.sdot", "pv.mlsdot", "pv.mldot", "pv.cusdot")
"""Prefixes of the operations that use the dot-product unit (guide, "Dot products" and "Mac&Load")."""


class FmtField(enum.IntEnum, shape=2):
    """:class:`~xpulpnn.isa.formats.ElemFmt` as field of a control word, which shows the names of its values."""

    H = ElemFmt.H.value
    B = ElemFmt.B.value
    N = ElemFmt.N.value
    C = ElemFmt.C.value


class DotpCtrl(data.Struct):
    """Control word of :class:`~xpulpnn.dotp.unit.DotpUnit`."""

    fmt: FmtField  #: Element format of both factors.
    #: a_signed, b_signed: Whether the elements of factor a / b are signed.
    a_signed: 1
    b_signed: 1
    accumulate: 1  #: Whether the accumulator is added.


def dotp_control(insn: Insn) -> dict[str, ElemFmt | bool] | None:
    """Fields of :class:`DotpCtrl` for ``insn``; ``None`` if it does not use the dot-product unit.

    Factor a is rs1 of ``pv.(s)dot*`` and the weight of Mac&Load, factor b is operand 2 or the activation.
    """
    if not insn.op.startswith(FAMILIES):
        return None
    assert insn.fmt is not None
    return {"fmt": insn.fmt, "a_signed": insn.a_signed, "b_signed": insn.b_signed, "accumulate": insn.accumulates}
