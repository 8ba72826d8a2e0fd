"""The statements, compiled for the simulator, against the golden models: registers, NN-RF, memory and next pc."""

from random import Random

import numpy as np
import pytest
from tests.isa.rows import covering, in_groups

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.table import INSNS
from xpulpnn_sim.reference.golden.dotp import FIRST_WEIGHT, quantise
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import SEQUENCER_OPS, execute
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sim.reference.stimuli import element_width, instruction_words, operand_columns, random_word

PC, WORDS, STATES, SEED = 0x4000, 4, 6, 23
EXTENSIONS = frozenset(Extension)
ROWS = [
    insn
    for insn in INSNS
    if insn.size == 4 and not insn.alias and (insn.op not in SEQUENCER_OPS or insn.op.startswith("fence"))
]


class Hash(Memory):
    """Memory whose every byte has a value of its own until it is written, so that any address can be loaded."""

    def read_bytes(self, address, count):
        stored = super().read_bytes(address, count)
        where = [(address + i) & 0xFFFF_FFFF for i in range(count)]
        return bytes(b ^ (a * 0x9E37_79B1 >> 13 & 0xFF) for a, b in zip(where, stored, strict=True))

    def read(self, address, size):
        return int.from_bytes(self.read_bytes(address, size), "little")


def column(value):
    return np.array([value], np.uint32)


def expected(insn, word, regs, nn, memory):
    """Registers, NN-RF, store and next pc after one instruction by the golden models."""
    rd, rs1, rs2 = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31
    if insn.is_pair:
        rs2 = rd | 1
    sources = Sources(
        word=column(word), rs1=column(regs[rs1]), rs2=column(regs[rs2]), rd=column(regs[rd]), pc=column(PC)
    )
    if insn.op == "pv.qnt":
        effects = quantise(insn, sources, lambda address: column(memory.read(int(address[0]), 2)))
    else:
        if insn.op in ("pv.mlsdot", "pv.mldot"):
            sources.act, sources.wgt = column(nn[rs2 & 1]), column(nn[FIRST_WEIGHT + (rs2 >> 1 & 3)])
        elif insn.is_pair:
            activation = 8 * (word >> 20 & 1)
            sources.act, sources.act2 = column(nn[activation]), column(nn[activation + 1])
            sources.wgt = column(nn[FIRST_WEIGHT + (word >> 21 & 3)])
        elif insn.op == "pv.cusdot":
            sources.wgt = column(nn[FIRST_WEIGHT + insn.entry])
        elif insn.op in ("pv.rqu", "pv.rqs", "pv.rqxu", "pv.rqxs"):
            sources.act, sources.wgt = column(nn[6]), column(nn[7])
        effects = execute(insn, sources)
        if effects.address is not None:
            sources.loaded = column(memory.read(int(effects.address[0]), 4))
            effects = execute(insn, sources)
    regs, nn, store, pc = list(regs), list(nn), None, PC + 4
    if effects.base is not None and effects.accessed[0]:
        regs[rs1] = int(effects.base[0])
    if effects.rd is not None:
        regs[rd] = int(effects.rd[0])
    if effects.rd2 is not None and rd:
        regs[rd + 1] = int(effects.rd2[0])
    regs[0] = 0
    if effects.nn_index is not None and effects.accessed[0]:
        nn[int(effects.nn_index[0])] = int(sources.loaded[0])
    if effects.store is not None:
        store = int(effects.address[0]), effects.size, int(effects.store[0])
    if effects.taken is not None and effects.taken[0]:
        pc = int(effects.target[0])
    return regs, nn, store, pc


@pytest.mark.flow
@in_groups(covering(ROWS))
def test_equal_to_the_golden_model(insn):
    rng = Random(f"{SEED} {insn.key}")
    for word in instruction_words(insn, WORDS, rng).tolist():
        columns = (column.tolist() for column in operand_columns(element_width(insn), STATES, rng))
        for rs1, rs2, rd in zip(*columns, strict=True):
            memory = Hash()
            iss = Iss(PC, extensions=EXTENSIONS, memory=memory)
            iss.state.regs[1:] = [random_word(rng) for _ in range(31)]
            for lsb, value in ((7, rd), (20, rs2), (15, rs1)):
                iss.state.regs[word >> lsb & 31] = value
            iss.state.regs[0] = 0
            if insn.op == "pv.qnt":
                iss.state.regs[1:] = [value & ~1 for value in iss.state.regs[1:]]
            if insn.is_branch:
                # equal and nearly equal operands are rare at random
                iss.state.regs[1:] = [rng.choice((0, 1, 31, 0xFFFF_FFFF, 0x8000_0000)) for _ in range(31)]
            iss.state.nn[:10] = [random_word(rng) for _ in range(10)]
            regs, nn, store, pc = expected(insn, word, iss.state.regs, iss.state.nn[:10], memory)
            iss.fetch = lambda address, word=word: word
            stored = []
            memory.write = lambda *access, stored=stored: stored.append(access)
            step = iss.step()
            context = f"seed {SEED}, word {word:#010x}"
            assert (step.cause, step.retired.record["insn"]) == (None, word), context
            assert (iss.state.regs[:], iss.state.nn[:10], iss.state.pc) == (regs, nn, pc & 0xFFFF_FFFF), context
            mask = (1 << 8 * store[1]) - 1 if store else 0
            assert [(a, size, value & mask) for a, size, value in stored] == ([store] if store else []), context


def test_all_other_rows_are_sequencer_operations():
    rest = {insn.op for insn in INSNS} - {insn.op for insn in ROWS}
    assert rest == set(SEQUENCER_OPS) - {"fence", "fence.i"}
