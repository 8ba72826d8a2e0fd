from amaranth.hdl import Cat, Module, Signal

from xpulpnn.component import Component, In, Out, follow_case, signals
from xpulpnn.core.alu_ctrl import AluCtrl, AluResult, AluShift, LaneFmt
from xpulpnn.core.lanes import XLEN

EARLY_RESULTS = (AluResult.AND, AluResult.OR, AluResult.XOR)
"""Results other than word additions that this ALU computes in every format."""


class EarlyAlu(Component):
    """Word additions, logic and comparisons as plain operators, which synthesis for an FPGA maps to carry chains.

    The outputs equal the outputs of :class:`~xpulpnn.core.alu.Alu` for the operations AND, OR, XOR, and ADD on words.
    Combinational; needs no reset.
    """

    ctrl: In(AluCtrl)  #: Operation.
    op_a: In(XLEN)  #: First operand.
    op_b: In(XLEN)  #: Second operand.
    result: Out(XLEN)  #: Result; undefined for other operations.
    sum: Out(XLEN)  #: Sum or difference of the words, whatever ``ctrl.result``.
    comparison: Out(1)  #: ``op_a`` and ``op_b`` satisfy the relation ``ctrl.compare``.

    def elaborate(self, platform):
        m = Module()
        total = Signal(XLEN + 1)
        less, equal = signals(1, "less equal")
        subtract = self.ctrl.subtract
        # a separate carry chain, which does not wait for the complement of the adder's operand
        left, right = (Cat(word[:-1], word[-1] ^ self.ctrl.signed) for word in (self.op_a, self.op_b))
        not_equal, use_less, opposite = self.ctrl.compare.as_value()
        m.d.comb += [
            # the carry enters below the lowest bits
            total.eq(Cat(1, self.op_a) + Cat(subtract, self.op_b ^ subtract.replicate(XLEN))),
            self.sum.eq(total[1:]),
            less.eq(left < right),
            equal.eq(self.op_a == self.op_b),
            self.comparison.eq(opposite ^ ((equal & ~not_equal) | (less & use_less))),
            self.result.eq(self.sum),
        ]
        logic = (self.op_a & self.op_b, self.op_a | self.op_b, self.op_a ^ self.op_b)
        follow_case(m, self.result, self.ctrl.result, dict(zip(EARLY_RESULTS, logic, strict=True)))
        return m


def is_early(ctrl):
    is_sum = (ctrl.result == AluResult.ADD) & (ctrl.fmt == LaneFmt.WORD)
    return is_sum | (ctrl.result.as_value().matches(*(kind.value for kind in EARLY_RESULTS)))


def takes_two_cycles(ctrl):
    is_sum = (ctrl.shift == AluShift.AVERAGE) | (ctrl.shift == AluShift.NORMALISE)
    return ((ctrl.result == AluResult.SHIFT) & is_sum) | (ctrl.result == AluResult.COUNT)
