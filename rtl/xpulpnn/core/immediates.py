from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, follow_case
from xpulpnn.core.control import ImmSel, TargetSel
from xpulpnn.core.insn_word import InsnWord, operand
from xpulpnn.isa.machine import BYTE_BITS, HALF_BYTES, WORD_BYTES, XLEN


class Immediates(Component):
    """Immediate of operand b and offset of the target adder, from the instruction word. Combinational.

    Bit fields get the layout of their register forms (width - 1 in bits 9:5, start in 4:0), clip immediates their
    bound 2**(Is2-1) - 1, immediate shuffles a selector in the low bits of every lane.
    """

    word: In(32)  #: Instruction word.
    compressed: In(1)  #: The instruction is compressed: the link is pc + 2.
    sel: In(ImmSel)  #: Selects the immediate.
    target_sel: In(TargetSel)  #: Selects the offset.
    imm: Out(32)  #: Operand b.
    offset: Out(32)  #: Byte offset of a branch, jal, jalr or an address of a hardware loop.

    def elaborate(self, platform):
        m = Module()
        word = self.word
        is2, imm6, imm12 = operand(word, "Is2"), operand(word, "imm6"), operand(word, "imm12")
        top_selector = data.View(InsnWord, word).funct7[2:4]  # the digit in the mnemonic of pv.shufflei

        def signed(value):
            return Cat(value, value[-1].replicate(XLEN - len(value)))

        clip_bound = Signal(XLEN)
        below = Const(1, XLEN) << is2
        m.d.comb += clip_bound.eq(Mux(is2.any(), (below >> 1) - 1, 0))
        lanes = [Cat(lane, Const(0, BYTE_BITS - len(lane))) for lane in (imm6[0:2], imm6[2:4], imm6[4:6], top_selector)]
        immediates = {
            ImmSel.I_TYPE: signed(imm12),
            ImmSel.S_TYPE: signed(operand(word, "stimm12")),
            ImmSel.U_TYPE: Cat(Const(0, 12), operand(word, "uimm20")),
            ImmSel.SIMM5: signed(operand(word, "simm5")),
            ImmSel.LINK: Mux(self.compressed, HALF_BYTES, WORD_BYTES),
            ImmSel.WORD_BYTES: Const(WORD_BYTES, XLEN),
            ImmSel.CLIP: clip_bound,
            ImmSel.FIELD: Cat(is2, operand(word, "Is3")),
            ImmSel.IMM6_SIGNED: signed(imm6),
            ImmSel.IMM6_UNSIGNED: imm6,
            ImmSel.SHUFFLE_H: Cat(imm6[0], Const(0, 15), imm6[1]),
            ImmSel.SHUFFLE_B: Cat(*lanes),
        }
        offsets = {
            TargetSel.BRANCH: signed(operand(word, "boff13")),
            TargetSel.JAL: signed(operand(word, "joff21")),
            TargetSel.JALR: signed(imm12),
            TargetSel.LOOP: operand(word, "lpoff12"),
            TargetSel.LOOP_SHORT: operand(word, "lpoff5"),
        }
        follow_case(m, self.imm, self.sel, immediates)
        follow_case(m, self.offset, self.target_sel, offsets)
        return m
