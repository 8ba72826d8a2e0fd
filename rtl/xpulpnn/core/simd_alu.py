"""Packed-SIMD ALU: lane-wise operations and lane moves; scalar operations are their one-lane case."""

from collections.abc import Mapping
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, assign_by_name, follow_case, signals
from xpulpnn.core.alu_ctrl import AluCtrl, AluField, AluFieldPlace, AluResult, AluShift
from xpulpnn.core.bit_field import INDEX_BITS, BitField, bits_below
from xpulpnn.core.lane_move import LaneMove, move_formats
from xpulpnn.core.lanes import XLEN, reversed_bits
from xpulpnn.core.simd_adder import SimdAdder
from xpulpnn.core.simd_comparator import SimdComparator
from xpulpnn.core.simd_shifter import SimdShifter
from xpulpnn.isa.formats import ElemFmt


def _first_bit(lane: Value, fmt: ElemFmt) -> Value:
    return lane[: (fmt.lanes - 1).bit_length()].shift_left((fmt.width - 1).bit_length())


class ClipChoice(data.Struct):
    """Controls of a clip: the bound of the comparison, and the value that each outcome selects."""

    complement_bound: 1  #: The comparison is with ``~op_b`` instead of ``op_b``; ``~op_b`` is the result if it holds.
    within_a: 1  #: The result is ``op_a`` if the comparison holds.
    #: beyond_a, beyond_b: The result is ``op_a`` or ``op_b`` if the comparison does not hold; 0 if no flag selects one.
    beyond_a: 1
    beyond_b: 1


class SimdAlu(Component):
    """Lane-wise arithmetic, comparisons, shifts, logic, bit fields and lane moves on 32-bit words.

    ``result[i] = op_a[i] <ctrl> op_b[i]`` over the lanes of ``ctrl.fmt``, each lane with its own carry, borrow and
    sign; the WORD format makes it the scalar ALU. Adder, comparator and shifter exist once for all formats. The result
    of COUNT is 0, as :class:`~xpulpnn.core.alu.Alu` adds it; CLIP and CLIPU select by ``clip``. Combinational; needs no
    reset.

    Parameters
    ----------
    config : CoreConfig
        Only the configured SIMD widths are built, and without XpulpV2 only the RV32I operations.
    """

    ctrl: In(AluCtrl)  #: Operation and partition into lanes.
    op_a: In(XLEN)  #: First operand of every operation: rs1.
    #: op_b: Second operand: rs2 or an immediate; for shuffles the selector of each lane, for bit fields the field, for
    #:   lane extraction and insertion the lane number; 0 for instructions with one operand.
    op_b: In(XLEN)
    op_c: In(XLEN)  #: Old rd, for inserting operations and two-word shuffles.
    shamt: In(INDEX_BITS)  #: Amount of the right shift with NORMALISE.
    clip: In(ClipChoice)  #: Candidates of CLIP and CLIPU; 0 for everything else.
    result: Out(XLEN)  #: Result in the same cycle, all lanes.
    sum: Out(XLEN)  #: Sum or difference of the operands, whatever ``ctrl.result``.
    comparison: Out(1)  #: ``op_a compare op_b`` in the WORD format, also for branches.
    oriented: Out(XLEN)  #: ``op_a``, bit-reversed when ``ctrl.shift`` is LEFT.

    def elaborate(self, platform):
        m = Module()
        m.submodules.adder = adder = SimdAdder(self.config)
        m.submodules.comparator = comparator = SimdComparator(self.config)
        m.submodules.shifter = shifter = SimdShifter(self.config)

        select = {kind: self.ctrl.result == kind for kind in AluResult}
        complement = self.ctrl.subtract & ~self.clip.complement_bound
        m.d.comb += [
            adder.fmt.eq(self.ctrl.fmt),
            adder.addend_a.eq(self.op_a),
            adder.addend_b.eq(self.op_b ^ complement.replicate(XLEN)),
            # ABS: op_a - 1, as op_b is 0.
            adder.carry.eq(self.ctrl.subtract & ~select[AluResult.ABS]),
            *assign_by_name(comparator, self.ctrl, "fmt", "compare", "signed"),
            comparator.left.eq(self.op_a),
            *assign_by_name(comparator, adder, "alike", "carries"),
            self.comparison.eq(comparator.holds),
            self.sum.eq(adder.sum),
        ]

        mirror = self.ctrl.shift == AluShift.LEFT
        m.d.comb += [
            self.oriented.eq(Mux(mirror, reversed_bits(m, "op_a", self.op_a), self.op_a)),
            shifter.fmt.eq(self.ctrl.fmt),
            shifter.operand.eq(self.oriented),
            shifter.amounts.eq(self.op_b),
            shifter.arithmetic.eq(self.ctrl.signed & ~mirror),
            shifter.mirror.eq(mirror),
            shifter.keep_right.eq((select[AluResult.SHIFT] & ~mirror).replicate(XLEN)),
            shifter.keep_left.eq((select[AluResult.SHIFT] & mirror).replicate(XLEN)),
        ]
        alike_counts = select[AluResult.XOR] | select[AluResult.OR]
        both_count = select[AluResult.AND] | select[AluResult.OR]
        sources = [
            adder.sum & select[AluResult.ADD].replicate(XLEN),
            shifter.shifted,
            adder.alike & alike_counts.replicate(XLEN),
            adder.both & both_count.replicate(XLEN),
        ]
        if self.config.xpulpv2:
            self._shift_sums(m, adder, shifter)
            sources += [self._compared(m, select, adder, comparator), self._field(m, select[AluResult.FIELD], shifter)]
        else:
            sources.append(comparator.holds & select[AluResult.FLAG])
        if move_formats(self.config):
            sources.append(self._move(m) & select[AluResult.MOVE].replicate(XLEN))
        m.d.comb += self.result.eq(reduce(or_, sources))
        return m

    def _compared(
        self, m: Module, select: Mapping[AluResult, Value], adder: SimdAdder, comparator: SimdComparator
    ) -> Value:
        holds, otherwise = signals(XLEN, "holds otherwise")
        use_a = select[AluResult.SELECT] | select[AluResult.ABS] | self.clip.within_a
        use_b = select[AluResult.SELECT] | self.clip.beyond_b
        ones = Cat(select[AluResult.MASK] | select[AluResult.FLAG], select[AluResult.MASK].replicate(XLEN - 1))
        m.d.comb += [
            holds.eq(
                (self.op_a & use_a.replicate(XLEN)) | (~self.op_b & self.clip.complement_bound.replicate(XLEN)) | ones
            ),
            otherwise.eq(
                (self.op_b & use_b.replicate(XLEN))
                | (self.op_a & self.clip.beyond_a.replicate(XLEN))
                | (~adder.sum & select[AluResult.ABS].replicate(XLEN))  # -op_a is ~(op_a - 1).
            ),
        ]
        return (comparator.mask & holds) | (~comparator.mask & otherwise)

    def _shift_sums(self, m: Module, adder: SimdAdder, shifter: SimdShifter) -> None:
        average = self.ctrl.shift == AluShift.AVERAGE
        normalise = self.ctrl.shift == AluShift.NORMALISE
        below, rounded = signals(XLEN, "below rounded")
        rounds = self.ctrl.rounding & normalise
        m.d.comb += [
            below.eq(bits_below(self.shamt) & rounds.replicate(XLEN)),
            # Half of the lowest remaining bit is added as a carry that ripples through ones: the bits it destroys are
            # shifted out.
            rounded.eq((adder.sum | below.shift_right(1)) + below[0]),
            shifter.rotate.eq(self.ctrl.shift == AluShift.ROTATE),
            shifter.by_one.eq(average),
        ]
        total = rounded
        if self.config.late_results:
            # shifted in the next cycle
            total = Signal(XLEN, name="total")
            m.d.sync += total.eq(rounded)
        with m.If(average | normalise):
            m.d.comb += shifter.operand.eq(total)
        # Lane extraction and insertion start at a multiple of the lane width.
        start = shifter.amounts[:INDEX_BITS]
        lanes = {AluFieldPlace.HALF: ElemFmt.H, AluFieldPlace.BYTE: ElemFmt.B}
        follow_case(m, start, self.ctrl.place, {place: _first_bit(self.op_b, fmt) for place, fmt in lanes.items()})
        with m.If(normalise):
            m.d.comb += start.eq(self.shamt)

    def _field(self, m: Module, selected: Value, shifter: SimdShifter) -> Value:
        """Return the result of the bit-field operations without the shifted operand, whose bits the shifter masks."""
        m.submodules.bit_field = bit_field = BitField()
        m.d.comb += [
            *assign_by_name(bit_field, self.ctrl, "field", "place", "signed"),
            bit_field.start.eq(shifter.amounts),
            bit_field.width_m1.eq(self.op_b[INDEX_BITS:]),
            *assign_by_name(bit_field, self, "op_a", "op_c"),
        ]
        for keep, field in ((shifter.keep_right, AluField.EXTRACT), (shifter.keep_left, AluField.INSERT)):
            with m.If(selected & (self.ctrl.field == field)):
                m.d.comb += keep.eq(bit_field.inside)
        return bit_field.around & selected.replicate(XLEN)

    def _move(self, m: Module) -> Value:
        m.submodules.lane_move = lane_move = LaneMove(self.config)
        m.d.comb += [
            *assign_by_name(lane_move, self.ctrl, "fmt", "move"),
            *assign_by_name(lane_move, self, "op_a", "op_b", "op_c"),
        ]
        return lane_move.moved
