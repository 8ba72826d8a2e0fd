"""Second half of pv.rq: shift, clip and insert (guide, "Requantisation")."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from xpulpnn.arith.prefix_adder import prefix_carries
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core.insn_word import InsnWord, operand
from xpulpnn.dotp.ctrl import FmtField
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN

FORMATS = (ElemFmt.B, ElemFmt.N, ElemFmt.C)
WIDEST, NARROWEST = FORMATS[0].width, FORMATS[-1].width
LANE_BITS = (FORMATS[-1].lanes - 1).bit_length()
ZERO_BITS = BYTE_BITS
REACH = WIDEST + 2  # low bits of the shifted number that a zero point can still bring into range, and the rounding bit


class RequantiseCtrl(data.Struct):
    load: 1  #: The instruction is pv.rqld.
    valid: 1  #: The instruction is pv.rq*.
    to_signed: 1  #: The result is clipped to the signed numbers of its format; else to the unsigned ones.
    fmt: FmtField  #: Format of the result: B, N or C.


def requantise_control(insn: Insn) -> dict[str, ElemFmt | bool] | None:
    if insn.op == "pv.rqld":
        return {"load": True}
    if insn.requantises:
        return {"valid": True, "to_signed": insn.a_signed, "fmt": insn.elements}
    return None


def lane_of(word: Value, is_exact: Value) -> Value:
    """Return the lane number in the instruction word of pv.rqx* if ``is_exact``, else of pv.rq*."""
    # bits above the lane number are not all 0 in the exact form, except for crumbs
    exact = Cat(operand(word, "lane3'"), operand(word, "lane4'")[-1] & ~data.View(InsnWord, word).funct3[0])
    return Mux(is_exact, exact, operand(word, "lane4"))


def _crumbs(one_lane: Value, fmt: ElemFmt) -> Value:
    return Cat(lane.replicate(fmt.width // NARROWEST) for lane in one_lane[: fmt.lanes])


class Requantiser(Component):
    """Shifts a sum right, clips it to the numbers of a narrow format, and inserts it into a lane of a word.

    ``result = old`` with lane ``lane`` of format ``ctrl.fmt`` replaced by ``clip(sum >> places)``; the shift is
    arithmetic, the bounds are 0 and ``2**w - 1``, with ``ctrl.to_signed`` ``-2**(w-1)`` and ``2**(w-1) - 1``. Without
    ``ctrl.valid`` the result is 0 and the inputs are masked. Combinational.

    Only as many bits as the widest format has are shifted. If a bit above them differs from the sign, the result is
    clipped. A negative sum is complemented before and after the shift, so that these bits are compared with 0.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.formats = tuple(fmt for fmt in FORMATS if fmt.width in config.widths)
        self.exact = config.requantise_exact
        length = 2 * XLEN if self.exact else XLEN
        ports = {
            "ctrl": In(RequantiseCtrl),  #: Operation and format.
            "lane": In(LANE_BITS),  #: Number of the lane, less than the lanes of the format.
            "places": In(range(length)),  #: Shift amount.
            "sum": In(length),  #: Number to shift, signed.
            "old": In(XLEN),  #: Word whose other lanes are preserved.
            "result": Out(XLEN),  #: The word with the new lane, in the same cycle.
        }
        if self.exact:
            #: rounds: The shift rounds to the nearest integer, halves up, and the sum has 64 bits; without it the sum
            #:   has 32 bits and the upper ones are ignored; 0 without ``ctrl.valid``. Only with ``requantise_exact``.
            #: zero: Zero point, signed; only with ``requantise_exact``.
            ports |= {"rounds": In(1), "zero": In(ZERO_BITS)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        one_lane, crumbs = signals(FORMATS[-1].lanes, "one_lane crumbs")
        lane_value = self._round(m, one_lane, crumbs) if self.exact else self._clip(m, one_lane, crumbs)
        mask, others = signals(XLEN, "mask others")
        m.d.comb += [
            mask.eq(Cat(crumb.replicate(NARROWEST) for crumb in crumbs)),
            others.eq(self.old & ~mask & self.ctrl.valid.replicate(XLEN)),
            self.result.eq(others | (lane_value.replicate(XLEN // WIDEST) & mask)),
        ]
        return m

    def _clip(self, m: Module, one_lane: Signal, crumbs: Signal) -> Signal:
        """Return the clipped sum, repeated to the widest format; set ``crumbs`` to the 2-bit elements to replace."""
        negative = Signal()
        magnitude = Signal(XLEN - 1)
        total = Signal(XLEN)
        m.d.comb += [
            total.eq(self.sum & self.ctrl.valid.replicate(XLEN)),
            negative.eq(total[-1]),
            magnitude.eq(total[:-1] ^ negative.replicate(XLEN - 1)),
        ]
        shifted, above = self._shift(m, magnitude, WIDEST)
        too_large = Signal()
        bounded = Signal(WIDEST)
        m.d.comb += one_lane.eq(self.ctrl.valid << self.lane)
        with m.Switch(self.ctrl.fmt):
            for fmt in self.formats:
                *lower, top = shifted[: fmt.width]
                code = Cat((bit | too_large for bit in lower), (top | too_large) & ~self.ctrl.to_signed)
                with m.Case(fmt):
                    m.d.comb += [
                        too_large.eq(above | shifted[fmt.width :].any() | (top & self.ctrl.to_signed)),
                        bounded.eq(code.replicate(WIDEST // fmt.width)),
                        crumbs.eq(_crumbs(one_lane, fmt)),
                    ]
        below = negative & ~self.ctrl.to_signed
        lane_value = Signal(WIDEST)
        m.d.comb += lane_value.eq(
            (bounded ^ (negative & self.ctrl.to_signed).replicate(WIDEST)) & ~below.replicate(WIDEST)
        )
        return lane_value

    def _round(self, m: Module, one_lane: Signal, crumbs: Signal) -> Signal:
        """Return the shifted, rounded sum plus the zero point, clipped, and repeated to the width of the widest format.

        The number is ``(sum >> places) + zero``, with ``rounds`` one more if the highest bit shifted out is 1, which
        equals ``((sum + 2**(places - 1)) >> places) + zero``. If bits above the shifted ones differ from the sign, no
        zero point can bring the number into range.
        """
        total = Signal(len(self.sum))
        negative = total[-1]
        lower = Signal(XLEN)
        m.d.comb += lower.eq(self.sum[:XLEN] & self.ctrl.valid.replicate(XLEN))
        upper = (self.sum[XLEN:] & self.rounds.replicate(XLEN)) | (lower[-1] & ~self.rounds).replicate(XLEN)
        # the bit below the lowest one is 0
        shifted, above = self._shift(m, Cat(Const(0, 1), total), REACH, negative)
        whole = Signal(signed(REACH + 1))
        zero = Signal(signed(REACH + 1))
        moved = Signal(REACH + 1)
        carries = prefix_carries(m, whole & zero, whole ^ zero, self.rounds & shifted[0])
        m.d.comb += [
            total.eq(Cat(lower, upper)),
            one_lane.eq(self.ctrl.valid << self.lane),
            whole.eq(Cat(shifted[1:], negative).as_signed()),
            zero.eq(self.zero.as_signed()),
            moved.eq(whole ^ zero ^ carries),
        ]
        # selections by format are early, so masks replace multiplexers
        high, low, fits, below = *signals(1, "high low fits"), moved[-1]
        lane_value, code, tops = signals(WIDEST, "lane_value code tops")
        outside = Signal(REACH)
        codes: list[Value] = []
        for fmt in self.formats:
            lanes, chosen = WIDEST // fmt.width, self.ctrl.fmt == fmt
            is_sign = chosen & self.ctrl.to_signed
            codes.append(moved[: fmt.width].replicate(lanes) & chosen.replicate(WIDEST))
            with m.If(chosen):
                m.d.comb += [
                    outside[fmt.width :].eq(-1),
                    outside[fmt.width - 1].eq(self.ctrl.to_signed),
                    tops.eq(Cat(Const(0, fmt.width - 1), is_sign).replicate(lanes)),
                    crumbs.eq(_crumbs(one_lane, fmt)),
                ]
        m.d.comb += [
            code.eq(reduce(or_, codes)),
            # in a number that fits, all outside bits equal the sign; negative numbers are below the unsigned range
            high.eq(Mux(above, ~negative, ~below & (moved[:REACH] & outside).any())),
            low.eq(Mux(above, negative, below & (~self.ctrl.to_signed | (~moved[:REACH] & outside).any()))),
            fits.eq(~high & ~low),
            lane_value.eq(
                (code & fits.replicate(WIDEST)) | (~tops & high.replicate(WIDEST)) | (tops & low.replicate(WIDEST))
            ),
        ]
        return lane_value

    def _shift(self, m: Module, word: Value, length: int, sign: Value | None = None) -> tuple[Signal, Signal]:
        """Return ``length`` bits of ``word >> places``, and whether a higher bit differs from the sign or 0."""
        losses = Signal(len(self.places))
        for bit in reversed(range(len(self.places))):
            step = 1 << bit
            # bits that the following steps can still reach
            shifted = Signal(length + step - 1, name=f"shifted_{step}")
            lost, moved = word[len(shifted) :], word[step:]
            if sign is not None:
                lost ^= sign.replicate(len(lost))
                moved = Cat(moved, sign.replicate(max(len(shifted) - len(moved), 0)))
            m.d.comb += losses[bit].eq(~self.places[bit] & lost.any())
            with m.If(self.places[bit]):
                m.d.comb += shifted.eq(moved)
            with m.Else():
                m.d.comb += shifted.eq(word)
            word = shifted
        above = Signal()
        m.d.comb += above.eq(losses.any())
        return word, above
