from collections.abc import Iterator

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from xpulpnn.component import Component, In, Out, follow_case, signals
from xpulpnn.core.alu_ctrl import LaneFmt
from xpulpnn.core.lanes import XLEN, Lanes, every, reversed_bits, steps, widened
from xpulpnn.isa.formats import ElemFmt


class SimdShifter(Component):
    """Lane-wise right shift by an amount per lane; left shifts run on mirrored words.

    ``shifted[i] = operand[i] >> (amounts[i] mod width)``; with ``mirror`` the operand is already bit-reversed, the
    amounts are taken in opposite lane order and the word is reversed back. Combinational.

    With ``shifter`` ``inferred``, synthesis gets a shift per lane of every format, which is faster in simulators. Else
    the word passes one AND-OR per power of two, whose masks depend on the amounts only, as ``operand`` arrives late,
    behind the adder.
    """

    fmt: In(LaneFmt)  #: Partition.
    operand: In(XLEN)  #: Packed operand, bit-reversed when ``mirror``.
    amounts: In(XLEN)  #: Packed shift amounts, in the order of the unreversed operand.
    arithmetic: In(1)  #: Shifts in the sign of the lane; 0 with ``mirror``.
    mirror: In(1)  #: Left shift.
    rotate: In(1)  #: Shifts in the bits that leave at the bottom; WORD only.
    by_one: In(1)  #: Shifts every lane by one, whatever ``amounts``.
    #: keep_right, keep_left: Bits of ``shifted`` to take from the word, and from the reversed word; a bit that is 0 in
    #:   both is cleared.
    keep_right: In(XLEN)
    keep_left: In(XLEN)
    shifted: Out(XLEN)  #: Packed results.

    # config (CoreConfig): ``shifter`` is the structure. Only its SIMD widths, and with XpulpV2 the rotation and the
    # shift by one, are built.
    def elaborate(self, platform):
        m = Module()
        word = self._inferred(m) if self.config.shifter == "inferred" else self._stepwise(m)
        m.d.comb += self.shifted.eq((word & self.keep_right) | (reversed_bits(m, "shifted", word) & self.keep_left))
        return m

    def _inferred(self, m: Module) -> Value:
        shifted = Signal(XLEN, name="right")
        formats = [LaneFmt.of(fmt) for fmt in ElemFmt if self.config.xpulpv2 and fmt.width in self.config.widths]
        follow_case(m, shifted, self.fmt, {fmt: Cat(self._shifted_lanes(fmt)) for fmt in (LaneFmt.WORD, *formats)})
        return shifted

    def _shifted_lanes(self, fmt: LaneFmt) -> Iterator[Value]:
        width = XLEN >> fmt.value.bit_count()
        for lane in range(XLEN // width):
            operand = self.operand.word_select(lane, width)
            above = (operand[-1] & self.arithmetic).replicate(width)
            right, left = (self.amounts.word_select(place, width) for place in (lane, XLEN // width - 1 - lane))
            amount = Mux(self.mirror, left, right)[: (width - 1).bit_length()]
            if self.config.xpulpv2:
                amount = Mux(self.by_one, 1, amount)
                above = Mux(self.rotate, operand, above) if fmt is LaneFmt.WORD else above
            yield (Cat(operand, above) >> amount)[:width]

    def _stepwise(self, m: Module) -> Value:
        lanes = Lanes(m, self.config, self.fmt)
        word = self.operand
        for place, step in reversed(list(enumerate(steps(1)))):
            moving, passing = signals(XLEN, f"moving_{step} passing_{step}")
            filling, moved = signals(XLEN, f"filling_{step} moved_{step}")
            # Lanes that move by this step are at least two steps wide, so their tops are tops of such blocks. An
            # arithmetic shift keeps the top bit, so the sign is read from the partly shifted word.
            block_tops = every(2 * step, 1 << (2 * step - 1))
            above = widened(m, f"tops_{step}", lanes.msbs & block_tops, step, "down")
            signs = widened(m, f"signs_{step}", word & block_tops, step, "down")
            m.d.comb += [
                moving.eq(self._moving(m, lanes, place, step)),
                passing.eq(moving & ~above),
                filling.eq(moving & above & self.arithmetic.replicate(XLEN)),
                moved.eq(
                    (word & ~moving)
                    | (word.shift_right(step) & passing)
                    | (signs & filling)
                    | self._rotated(word, step, moving)
                ),
            ]
            word = moved
        return word

    def _moving(self, m: Module, lanes: Lanes, place: int, step: int) -> Value:
        """Return the bits of all lanes whose shift amount has bit ``place`` set."""
        width = 2 * step
        name = f"moving_{step}"
        moves = self.amounts.shift_right(place)
        if self.config.xpulpv2:
            by_one = self.by_one.replicate(XLEN)
            moves = moves & ~by_one if place else moves | by_one
        bottoms = lanes.lsbs & every(width, 1) & lanes.at_least(width).replicate(XLEN)
        spread = lanes.spread_up(name, widened(m, name, moves & bottoms, width, "up"), width)
        return Mux(self.mirror, reversed_bits(m, name, spread, width), spread)

    def _rotated(self, word: Value, step: int, moving: Value) -> Value:
        if not self.config.xpulpv2:
            return Const(0)
        return word[:step].shift_left(XLEN - step) & (moving & self.rotate.replicate(XLEN))
