"""Requantisation of XpulpNN 2 (guide, "Requantisation"): parameters in the NN-RF, one element per instruction.

Numbers are taken apart and put together by arithmetic, where the hardware and the simulator use bits: the product from
those with the halves of the factor, the shift as a division rounded down, the element by its place value.
"""

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER
from xpulpnn_sim.reference.golden import fields
from xpulpnn_sim.reference.golden.effects import I64, U32, Effects, Sources

PARAMETER_BYTES = 4
_HALF = 1 << 16
_WORD = 1 << 32
_SHIFTS = 32
_LANE_FIELD = 1 << 28  # Place value of the lane in an instruction word


def load_parameter(insn: Insn, src: Sources) -> Effects:
    """pv.rqld: the word at the base goes to the factor or the summand; the base moves on."""
    always = np.ones(len(src.word), np.bool_)
    return Effects(
        base=src.rs1 + PARAMETER_BYTES,
        base_written=always,
        address=src.rs1,
        accessed=always,
        size=PARAMETER_BYTES,
        nn_index=FIRST_PARAMETER + fields.uimm5(src.word),
        nn_written=always,
    )


def _scaled(value: U32, factor: U32, summand: U32) -> I64:
    """``factor * value + summand`` modulo 2**32 as a signed number."""
    low, high = factor.astype(np.int64) % _HALF, factor.astype(np.int64) // _HALF
    # with an unsigned word each of the products is less than 2**48
    number = value.astype(np.int64)
    total = (high * number % _HALF * _HALF + low * number + summand.astype(np.int64)) % _WORD
    return total - np.where(total >= _WORD // 2, _WORD, 0)


def requantise(insn: Insn, src: Sources) -> Effects:
    """pv.rqu and pv.rqs; ``act`` is the factor, ``wgt`` the summand."""
    assert insn.fmt is not None
    levels = 1 << insn.fmt.width
    divisor = np.int64(1) << (src.rs2.astype(np.int64) % _SHIFTS)
    quotient = _scaled(src.rs1, src.act, src.wgt) // divisor
    least = -(levels // 2) if insn.a_signed else 0
    element = np.clip(quotient, least, least + levels - 1) % levels
    place = np.int64(levels) ** (src.word.astype(np.int64) // _LANE_FIELD)
    old = src.rd.astype(np.int64)
    return Effects(rd=(old + (element - old // place % levels) * place).astype(np.uint32))
