"""Control word of the dot-product unit, its value for each instruction, and helpers shared by its structures."""

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data, enum
from amaranth.utils import exact_log2

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.table import Insn


def signed_offset(fmt: ElemFmt, a_signed: Value, b_signed: Value) -> Value:
    """Return the constant that corrects the inverted product bits of all lanes of ``fmt``, modulo 2**32.

    A product bit of which one factor is the top bit of a signed element has negative weight. As ``-p == ~p - 1``, it is
    added inverted, and a constant corrects the sum. For n lanes of w bits the constant is ``n * 2**(w - 1)``, a power
    of two, times ``a_signed + b_signed - 2**w * (a_signed | b_signed)``.
    """
    position = fmt.width - 1 + exact_log2(fmt.lanes)
    minus = a_signed | b_signed
    row = Cat(
        Const(0, position),
        a_signed ^ b_signed,
        a_signed & b_signed,
        *[Const(0, 1)] * (fmt.width - 2),
        minus.replicate(XLEN),
    )
    return row[:XLEN]


class FmtField(enum.IntEnum, shape=2):
    """An :class:`~xpulpnn.isa.formats.ElemFmt` in a control word; the Verilog names its values."""

    H, B, N, C = (fmt.value for fmt in ElemFmt)


class ArrayFormat(data.Struct):
    """Format and signs of the factors of a multiplier array, decoded to one-hot bits, which the array needs early."""

    chosen: len(ElemFmt)  #: The format: at most one bit is set.
    #: a_signed, b_signed: The bit of the format if the elements of factor a / b are signed, else 0.
    a_signed: len(ElemFmt)
    b_signed: len(ElemFmt)

    @staticmethod
    def fields(fmt: ElemFmt, a_signed: bool, b_signed: bool) -> dict[str, int]:
        bit = 1 << fmt.value
        return {"chosen": bit, "a_signed": bit * a_signed, "b_signed": bit * b_signed}


class DotpCtrl(data.Struct):
    """Control word of :class:`~xpulpnn.dotp.unit.DotpUnit`."""

    fmt: FmtField  #: Element format of both factors.
    #: a_signed, b_signed: The elements of factor a / b are signed.
    a_signed: 1
    b_signed: 1
    accumulate: 1  #: The accumulator is added.


def dotp_control(insn: Insn) -> dict[str, ElemFmt | bool] | None:
    """Return the fields of :class:`DotpCtrl` for ``insn``; None if the dot-product unit does not execute it.

    Factor a is rs1 of ``pv.(s)dot*`` or the weight of Mac&Load, factor b is operand 2 or the activation; the ID stage
    exchanges both factors of Mac&Load.
    """
    if not insn.uses_dotp:
        return None
    return {"fmt": insn.elements, "a_signed": insn.a_signed, "b_signed": insn.b_signed, "accumulate": insn.accumulates}
