from amaranth.hdl import Module, Value

from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.core.alu_ctrl import AluCtrl, AluResult
from xpulpnn.core.bit_count import COUNT_BITS, BitCount
from xpulpnn.core.bit_field import INDEX_BITS
from xpulpnn.core.lanes import XLEN
from xpulpnn.core.simd_alu import SimdAlu


class Alu(Component):
    """All one-cycle integer operations except products: scalar, packed SIMD, addresses and branch conditions.

    ``result = op_a <ctrl> op_b``. Combinational; needs no reset.
    """

    ctrl: In(AluCtrl)  #: Operation, see :func:`~xpulpnn.core.alu_ctrl.alu_control`.
    op_a: In(XLEN)  #: rs1, pc, or the first addend.
    #: op_b: rs2, an extended immediate or the replicated scalar. Bit fields: width minus one in bits 9:5 and lowest bit
    #:   in 4:0. Clip: the bound. Lane extraction and insertion: the lane number. Shuffles: the selector of every lane.
    #:   One-operand instructions: 0, the value of x0 in their rs2 field.
    op_b: In(XLEN)
    op_c: In(XLEN)  #: Old rd, for insertions, ``pv.shuffle2``, ``pv.packhi`` and ``pv.packlo``.
    shamt: In(INDEX_BITS)  #: Shift amount of the ``p.addN`` family.
    result: Out(XLEN)  #: Result, in the cycle of the operands.
    sum: Out(XLEN)  #: Sum or difference of the operands, whatever ``ctrl.result``; earlier than ``result``.
    comparison: Out(1)  #: ``op_a`` and ``op_b`` satisfy the relation ``ctrl.compare``, for branches.

    # config (CoreConfig): Only its SIMD widths are built, and without XpulpV2 only the RV32I operations.
    def elaborate(self, platform):
        m = Module()
        m.submodules.simd_alu = simd_alu = SimdAlu(self.config)
        m.d.comb += [
            *assign_by_name(simd_alu, self, "ctrl", "op_a", "op_b", "op_c", "shamt"),
            *assign_by_name(self, simd_alu, "result", "comparison", "sum"),
        ]
        if self.config.xpulpv2:
            m.submodules.bit_count = bit_count = BitCount(late=self.config.late_results)
            m.d.comb += [bit_count.count.eq(self.ctrl.count), bit_count.word.eq(simd_alu.oriented)]
            self._clip(m, simd_alu, bit_count.empty)
            counts = self.ctrl.result == AluResult.COUNT
            m.d.comb += self.result.eq(simd_alu.result | (bit_count.result & counts.replicate(COUNT_BITS)))
        return m

    def _clip(self, m: Module, simd_alu: SimdAlu, zero: Value) -> None:
        """Clip ``op_a`` to ``op_b`` above and ``~op_b`` or 0 below, with a single comparison.

        With a non-negative bound the sign of ``op_a`` determines the limit that it can exceed. With a negative bound
        the lower limit is greater than the upper one: up to the lower limit the result is the lower limit, above it the
        result is ``op_b``. The signs select the two candidates, and the comparison selects one of them.
        """
        clip = self.ctrl.result == AluResult.CLIP
        clipu = self.ctrl.result == AluResult.CLIPU
        negative = self.op_a[-1]
        bound_negative = self.op_b[-1]
        to_lower = clip & (negative | bound_negative)
        m.d.comb += [
            # The comparison is with the lower limit, inclusive, where complement_bound is set.
            simd_alu.clip.complement_bound.eq(to_lower),
            simd_alu.clip.within_a.eq((clip | clipu) & ~(negative | bound_negative)),
            simd_alu.clip.beyond_a.eq(clip & negative & ~bound_negative),
            simd_alu.clip.beyond_b.eq(
                (clip & (bound_negative | ~negative)) | (clipu & ~negative & ~(bound_negative & zero))
            ),
        ]
