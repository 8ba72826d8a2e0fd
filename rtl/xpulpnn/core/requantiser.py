"""Second half of pv.rq: shift, clip and insert (guide, "Requantisation")."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import CoreConfig
from xpulpnn.dotp.ctrl import FmtField
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN

FORMATS = (ElemFmt.B, ElemFmt.N, ElemFmt.C)
WIDEST, NARROWEST = FORMATS[0].width, FORMATS[-1].width
LANE_BITS = (FORMATS[-1].lanes - 1).bit_length()
ZERO_BITS = BYTE_BITS
REACH = WIDEST + 2  # bits of a shifted number that a zero point may bring back, and the highest one shifted out


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
    if insn.requantises:
        assert insn.fmt is not None
        return {"valid": True, "to_signed": insn.a_signed, "fmt": insn.fmt}
    return None


class Requantiser(Component):
    """Shifts a sum right, clips it to the numbers of a narrow format, and puts it into a lane of a word.

    ``result = old`` with lane ``lane`` of format ``ctrl.fmt`` replaced by ``clip(sum >> places)``; the shift is
    arithmetic, the bounds are 0 and ``2**w - 1``, with ``ctrl.to_signed`` ``-2**(w-1)`` and ``2**(w-1) - 1``. Without
    ``ctrl.valid`` the result is 0 and nothing changes within. Combinational.

    Only as many bits are shifted as the widest format has: those above must equal the sign, else the result is clipped.
    A negative sum is complemented before and after, so that the bits above must be 0.
    """

    def __init__(self, config: CoreConfig) -> None:
        # config: Formats present: the SIMD widths 8, 4 and 2.
        self.formats = tuple(fmt for fmt in FORMATS if fmt.width in config.widths)
        self.exact = config.requantise_exact
        length = 2 * XLEN if self.exact else XLEN
        ports = {
            "ctrl": In(RequantiseCtrl),  #: What to do.
            "lane": In(LANE_BITS),  #: Number of the lane, less than the lanes of the format.
            "places": In(range(length)),  #: Places of the shift.
            "sum": In(length),  #: Number to shift, signed.
            "old": In(XLEN),  #: Word whose other lanes stay.
            "result": Out(XLEN),  #: That word with the new lane, in the same cycle.
        }
        if self.exact:
            #: rounds: The shift rounds to the nearest integer, halves up; only with ``requantise_exact``.
            #: zero: Zero point, signed.
            ports |= {"rounds": In(1), "zero": In(ZERO_BITS)}
        super().__init__(config, ports)

    def _build(self, m):
        length = len(self.sum)
        negative = Signal()
        magnitude = Signal(length - 1)
        total = Signal(length)
        m.d.comb += [
            total.eq(self.sum & self.ctrl.valid.replicate(length)),
            negative.eq(total[-1]),
            magnitude.eq(total[:-1] ^ negative.replicate(length - 1)),
        ]
        if self.exact:
            negative, shifted, above = self._round(m, negative, magnitude)
        else:
            shifted, above = self._shift(m, magnitude, WIDEST)
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

    def _round(self, m: Module, negative: Signal, magnitude: Signal) -> tuple[Signal, Value, Value]:
        """Round the shifted sum and add the zero point; returns the sign of that, its low bits, complemented if it is
        negative, and whether any bit above them is 1.

        The number is ``(sum >> places) + zero``, with ``rounds`` one more if the highest bit shifted out is 1, exactly
        ``((sum + 2**(places - 1)) >> places) + zero``. Where bits above those shifted do not equal the sign, no zero
        point brings it back.
        """
        # below the lowest bit is a 0 before it is complemented
        shifted, above = self._shift(m, Cat(negative, magnitude), REACH)
        remainder = self.rounds & (shifted[0] ^ negative)
        whole = Cat(shifted[1:] ^ negative.replicate(REACH - 1), negative).as_signed()
        moved = Signal(signed(REACH + 1))
        below = Signal()
        m.d.comb += [
            moved.eq(whole + self.zero.as_signed() + remainder),
            below.eq(Mux(above, negative, moved[-1])),
        ]
        complemented = moved[:-1] ^ below.replicate(REACH)
        return below, complemented[:WIDEST], above | complemented[WIDEST:].any()

    def _shift(self, m: Module, word: Value, length: int) -> tuple[Signal, Signal]:
        """The low ``length`` bits of ``word >> places``, and whether any bit above them is 1."""
        losses = Signal(len(self.places))
        for bit in reversed(range(len(self.places))):
            step = 1 << bit
            # what the steps behind this one still reach
            kept = Signal(length + step - 1, name=f"shifted_{step}")
            m.d.comb += losses[bit].eq(~self.places[bit] & word[len(kept) :].any())
            with m.If(self.places[bit]):
                m.d.comb += kept.eq(word[step:])
            with m.Else():
                m.d.comb += kept.eq(word)
            word = kept
        above = Signal()
        m.d.comb += above.eq(losses.any())
        return word, above
