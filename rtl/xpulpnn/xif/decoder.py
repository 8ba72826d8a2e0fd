"""Decoders of the coprocessor: what an instruction needs when it is offered, and how it is executed."""

from collections.abc import Mapping
from typing import Any

from amaranth.lib import data, enum

from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.core.decoder import TableDecoder
from xpulpnn.core.requantiser import RequantiseCtrl
from xpulpnn.dotp.ctrl import DotpCtrl, dotp_control
from xpulpnn.isa.formats import Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.xif.config import XifConfig


class XifOp(enum.Enum, shape=4):
    """Operation of an instruction; ``DOT`` and ``LANES`` are the packed-SIMD instructions without state."""

    LANES, DOT, ACCUMULATE, BLOCK, STEP, REQUANTISE, READ, WRITE, LOAD, CLEAR, POINTERS, SYNC = range(12)


class OfferCtrl(data.Struct):
    writes: 1  #: The instruction writes rd.
    reads: 2  #: The instruction reads rs1 (bit 0) and rs2 (bit 1).
    steps: 1  #: The instruction is pa.step.
    slow: 1  #: The instruction may take several cycles.


class XifCtrl(data.Struct):
    op: XifOp  #: Operation.
    alu: AluCtrl  #: Control word of the packed-SIMD ALU.
    dotp: DotpCtrl  #: Control word of the products.
    vector: 1  #: The second operand is rs2; without this bit and the next it is 0.
    replicate: 1  #: The second operand is lane 0 of rs2 in every lane.
    #: half, quarter: The weights have half or a quarter of the width of the activations.
    half: 1
    quarter: 1
    requantise: RequantiseCtrl  #: Format and sign of requantised elements.
    exact: 1  #: Requantisation with a product of 64 bits.


_OPS = {
    "pa.acc": XifOp.ACCUMULATE,
    "pa.blk": XifOp.BLOCK,
    "pa.step": XifOp.STEP,
    "pa.rd": XifOp.READ,
    "pa.wr": XifOp.WRITE,
    "pa.ld": XifOp.LOAD,
    "pa.clr": XifOp.CLEAR,
    "pa.ptr": XifOp.POINTERS,
    "pa.sync": XifOp.SYNC,
    **dict.fromkeys(("pa.rqu", "pa.rqs", "pa.rqxu", "pa.rqxs"), XifOp.REQUANTISE),
}


def _offer(insn: Insn) -> Mapping[str, Any]:
    reads = ("rs1" in insn.reads) + 2 * ("rs2" in insn.reads)
    slow = _OPS.get(insn.op) in (XifOp.BLOCK, XifOp.STEP, XifOp.REQUANTISE)
    return {"writes": insn.writes_rd, "reads": reads, "steps": insn.op == "pa.step", "slow": slow}


def _control(insn: Insn) -> Mapping[str, Any]:
    if insn.op not in _OPS:
        dotp = dotp_control(insn) or {}
        fields: dict[str, Any] = {"op": XifOp.DOT if dotp else XifOp.LANES}
        fields["replicate"] = insn.mode is Op2Mode.SC
        fields["vector"] = "rs2" in insn.reads and not fields["replicate"]
        fields |= {f"dotp.{name}": value for name, value in (dotp or {"fmt": insn.fmt}).items()}
        return fields | {f"alu.{name}": value for name, value in (alu_control(insn) or {}).items()}
    op = _OPS[insn.op]
    if op is XifOp.REQUANTISE:
        requantise = {"valid": True, "to_signed": insn.a_signed, "fmt": insn.fmt}
        return {"op": op, "exact": "x" in insn.op} | {f"requantise.{name}": bit for name, bit in requantise.items()}
    if insn.fmt is None:
        return {"op": op}
    narrow = 0 if insn.wgt_fmt is None else insn.wgt_fmt - insn.fmt
    dotp = {"fmt": insn.fmt, "a_signed": insn.a_signed, "b_signed": insn.b_signed, "accumulate": True}
    return {"op": op, "half": narrow == 1, "quarter": narrow == 2} | {f"dotp.{name}": bit for name, bit in dotp.items()}


class OfferDecoder(TableDecoder):
    """Decides whether the coprocessor executes an offered instruction. Combinational."""

    def __init__(self, config: XifConfig) -> None:
        super().__init__(config, config.insns, _offer, OfferCtrl, {})


class XifDecoder(TableDecoder):
    """Computes the control word of the oldest accepted instruction. Combinational."""

    def __init__(self, config: XifConfig) -> None:
        super().__init__(config, config.insns, _control, XifCtrl, {})
