"""Control word of the multiplier and its value per instruction."""

import re

from amaranth.lib import data, enum

from xpulpnn.isa.table import Insn


class MultOp(enum.Enum, shape=2):
    """Operation of the multiplier.

    ``WORD``: low word of 32 x 32 bit (mul, mac, msu). ``HALF``: 16 x 16 bit, rounded and shifted (the N and NR forms).
    ``HIGH``: high word of 32 x 32 bit (mulh, mulhsu, mulhu).
    """

    WORD = 0
    HALF = 1
    HIGH = 2


class MultCtrl(data.Struct):
    """Control word of :class:`~xpulpnn.core.mult.Mult`."""

    op: MultOp  #: Kind of multiplication.
    #: a_signed, b_signed: Signs of op_a / op_b with ``HIGH``, of the half-words with ``HALF`` (there both are equal).
    a_signed: 1
    b_signed: 1
    upper: 1  #: With ``HALF``: the factors are the upper half-words.
    accumulate: 1  #: Adds op_c; with ``WORD`` and ``HALF``.
    subtract: 1  #: Subtracts the product from op_c (msu); with ``WORD`` and ``accumulate``.
    round: 1  #: With ``HALF``: adds half of the last place that remains after the shift.


_HALF_WORD = re.compile(r"(?P<kind>mul|mac)(?P<upper>hh)?(?P<sign>[us])N(?P<round>R)?")
_HIGH_SIGNS = {"mulh": (True, True), "mulhsu": (True, False), "mulhu": (False, False)}
_WORD_ACCUMULATE = {"mul": False, "mac": True, "msu": True}


def mult_control(insn: Insn) -> dict[str, MultOp | bool] | None:
    """Fields of :class:`MultCtrl` for ``insn`` (absent ones are 0); ``None`` if it does not use the multiplier."""
    if insn.op in _WORD_ACCUMULATE:
        return {"op": MultOp.WORD, "accumulate": _WORD_ACCUMULATE[insn.op], "subtract": insn.op == "msu"}
    if insn.requantises:
        return {"op": MultOp.WORD}
    if insn.op in _HIGH_SIGNS:
        a_signed, b_signed = _HIGH_SIGNS[insn.op]
        return {"op": MultOp.HIGH, "a_signed": a_signed, "b_signed": b_signed}
    if parts := _HALF_WORD.fullmatch(insn.op):
        signed = parts["sign"] == "s"
        return {
            "op": MultOp.HALF,
            "a_signed": signed,
            "b_signed": signed,
            "upper": parts["upper"] is not None,
            "accumulate": parts["kind"] == "mac",
            "round": parts["round"] is not None,
        }
    return None
