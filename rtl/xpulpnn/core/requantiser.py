"""Second half of pv.rq: shift, clip and insert (guide, "Requantisation")."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import CoreConfig
from xpulpnn.dotp.ctrl import FmtField
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN

FORMATS = (ElemFmt.B, ElemFmt.N, ElemFmt.C)
WIDEST, NARROWEST = FORMATS[0].width, FORMATS[-1].width
LANE_BITS = (FORMATS[-1].lanes - 1).bit_length()


class RequantiseCtrl(data.Struct):
    """Control word of requantisation."""

    load: 1  #: The instruction is pv.rqld.
    valid: 1  #: It is pv.rq*.
    to_signed: 1  #: The result is clipped to the signed numbers of its format; else to the unsigned ones.
    fmt: FmtField  #: Format of the result: B, N or C.


def requantise_control(insn: Insn) -> dict[str, ElemFmt | bool] | None:
    """Fields of :class:`RequantiseCtrl` for ``insn``, absent ones being 0; ``None`` if it is neither of the two."""
    if insn.op == "pv.rqld":
        return {"load": True}
    if insn.op in ("pv.rqu", "pv.rqs"):
        assert insn.fmt is not None
        return {"valid": True, "to_signed": insn.op == "pv.rqs", "fmt": insn.fmt}
    return None


class Requantiser(Component):
    """Shifts a sum right, clips it to the numbers of a narrow format, and puts it into a lane of a word.

    ``result = old`` with lane ``lane`` of format ``ctrl.fmt`` replaced by ``clip(sum >> places)``; the shift is
    arithmetic, the bounds are 0 and ``2**w - 1``, with ``ctrl.to_signed`` ``-2**(w-1)`` and ``2**(w-1) - 1``. Without
    ``ctrl.valid`` the result is 0 and nothing changes within. Combinational.

    Only as many bits are shifted as the widest format has: those above must equal the sign, else the result is clipped.
    A negative sum is complemented before and after, so that the bits above must be 0.
    """

    ctrl: In(RequantiseCtrl)  #: What to do.
    lane: In(LANE_BITS)  #: Number of the lane, less than the lanes of the format.
    places: In(range(XLEN))  #: Places of the shift.
    sum: In(XLEN)  #: Number to shift, signed.
    old: In(XLEN)  #: Word whose other lanes stay.
    result: Out(XLEN)  #: That word with the new lane, in the same cycle.

    def __init__(self, config: CoreConfig) -> None:
        # config: Formats present: the SIMD widths 8, 4 and 2.
        self.formats = tuple(fmt for fmt in FORMATS if fmt.width in config.widths)
        super().__init__()

    def _build(self, m):
        negative = Signal()
        magnitude = Signal(XLEN - 1)
        total = Signal(XLEN)
        m.d.comb += [
            total.eq(self.sum & self.ctrl.valid.replicate(XLEN)),
            negative.eq(total[-1]),
            magnitude.eq(total[:-1] ^ negative.replicate(XLEN - 1)),
        ]
        shifted, above = self._shift(m, magnitude)
        too_large = Signal()
        bounded = Signal(WIDEST)
        one_lane, crumbs = signals(FORMATS[-1].lanes, "one_lane crumbs")
        m.d.comb += one_lane.eq(self.ctrl.valid << self.lane)
        with m.Switch(self.ctrl.fmt):
            for fmt in self.formats:
                *lower, top = shifted[: fmt.width]
                code = Cat((bit | too_large for bit in lower), (top | too_large) & ~self.ctrl.to_signed)
                lanes = one_lane[: fmt.lanes]
                with m.Case(fmt):
                    m.d.comb += [
                        too_large.eq(above | shifted[fmt.width :].any() | (top & self.ctrl.to_signed)),
                        bounded.eq(code.replicate(WIDEST // fmt.width)),
                        crumbs.eq(Cat(lane.replicate(fmt.width // NARROWEST) for lane in lanes)),
                    ]
        below = negative & ~self.ctrl.to_signed
        lane_value = Signal(WIDEST)
        mask, kept = signals(XLEN, "mask kept")
        m.d.comb += [
            lane_value.eq((bounded ^ (negative & self.ctrl.to_signed).replicate(WIDEST)) & ~below.replicate(WIDEST)),
            mask.eq(Cat(crumb.replicate(NARROWEST) for crumb in crumbs)),
            kept.eq(self.old & ~mask & self.ctrl.valid.replicate(XLEN)),
            self.result.eq(kept | (lane_value.replicate(XLEN // WIDEST) & mask)),
        ]

    def _shift(self, m: Module, word: Signal) -> tuple[Signal, Signal]:
        """The low bits of ``word >> places``, and whether any bit above them is 1."""
        losses = Signal(len(self.places))
        for bit in reversed(range(len(self.places))):
            step = 1 << bit
            # what the steps behind this one still reach
            kept = Signal(WIDEST + step - 1, name=f"shifted_{step}")
            m.d.comb += losses[bit].eq(~self.places[bit] & word[len(kept) :].any())
            with m.If(self.places[bit]):
                m.d.comb += kept.eq(word[step:])
            with m.Else():
                m.d.comb += kept.eq(word)
            word = kept
        above = Signal()
        m.d.comb += above.eq(losses.any())
        return word, above
