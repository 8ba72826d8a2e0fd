"""Immediate operands of ID."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, follow_case
from xpulpnn.core.control import ImmSel, TargetSel
from xpulpnn.isa.machine import BYTE_BITS, HALF_BYTES, WORD_BYTES, XLEN


class Immediates(Component):
    """Immediate of operand b and offset of the target adder, from the instruction word. Combinational.

    Bit fields get the layout of their register forms (width - 1 in bits 9:5, start in 4:0), clip immediates their
    bound 2**(Is2-1) - 1, immediate shuffles a selector in the low bits of every lane.
    """

    word: In(32)  #: Instruction word.
    compressed: In(1)  #: The link is pc + 2.
    sel: In(ImmSel)  #: Which immediate.
    target_sel: In(TargetSel)  #: Which offset.
    imm: Out(32)  #: Operand b.
    offset: Out(32)  #: Byte offset of a branch, jal, jalr or an address of a hardware loop.

    def elaborate(self, platform):
        m = Module()
        word = self.word
        rd, rs2, funct7 = word[7:12], word[20:25], word[25:32]
        sign, i_imm, s_imm = word[31], word[20:32], Cat(rd, funct7)
        is2, is3 = rs2, word[25:30]
        imm6 = Cat(word[25], rs2)
        top_selector = word[27:29]  # the digit in the mnemonic of pv.shufflei

        def signed(value, width=XLEN):
            return Cat(value, value[-1].replicate(width - len(value)))

        clip_bound = Signal(XLEN)
        below = Const(1, XLEN) << is2
        m.d.comb += clip_bound.eq(Mux(is2.any(), (below >> 1) - 1, 0))
        lanes = [Cat(lane, Const(0, BYTE_BITS - len(lane))) for lane in (imm6[0:2], imm6[2:4], imm6[4:6], top_selector)]
        immediates = {
            ImmSel.I_TYPE: signed(i_imm),
            ImmSel.S_TYPE: signed(s_imm),
            ImmSel.U_TYPE: Cat(Const(0, 12), word[12:]),
            ImmSel.SIMM5: signed(rs2),
            ImmSel.LINK: Mux(self.compressed, HALF_BYTES, WORD_BYTES),
            ImmSel.WORD_BYTES: Const(WORD_BYTES, XLEN),
            ImmSel.CLIP: clip_bound,
            ImmSel.FIELD: Cat(is2, is3),
            ImmSel.IMM6_SIGNED: signed(imm6),
            ImmSel.IMM6_UNSIGNED: imm6,
            ImmSel.SHUFFLE_H: Cat(imm6[0], Const(0, 15), imm6[1]),
            ImmSel.SHUFFLE_B: Cat(*lanes),
        }
        offsets = {
            TargetSel.BRANCH: signed(Cat(Const(0, 1), word[8:12], word[25:31], word[7], sign)),
            TargetSel.JAL: signed(Cat(Const(0, 1), word[21:31], word[20], word[12:20], sign)),
            TargetSel.JALR: signed(i_imm),
            TargetSel.LOOP: Cat(Const(0, 1), i_imm),
            TargetSel.LOOP_SHORT: Cat(Const(0, 1), word[15:20]),
        }
        follow_case(m, self.imm, self.sel, immediates)
        follow_case(m, self.offset, self.target_sel, offsets)
        return m
