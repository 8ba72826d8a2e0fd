"""The statements of compressed rows, executed, do what their expansions do."""

from random import Random

import pytest
from tests.hart import Hart

from xpulpnn.isa.machine import REGISTERS, WORD_BYTES, WORD_MASK
from xpulpnn.isa.operations import OPERATIONS
from xpulpnn.isa.semantics import statements
from xpulpnn.isa.table import INSNS, find
from xpulpnn.isa.xif import XIF_ROWS
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.stimuli import instruction_words, random_word

EXECUTIONS = 20
COMPRESSED = [insn for insn in INSNS if insn.size < WORD_BYTES and insn.mnemonic != "c.ebreak"]


class Bytes(dict[int, int]):
    """Memory that gives itself random bytes where it is read."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng

    def __missing__(self, address: int) -> int:
        self[address] = self.rng.getrandbits(8)
        return self[address]


@pytest.mark.parametrize("insn", COMPRESSED, ids=lambda insn: insn.mnemonic)
def test_compressed_rows_do_what_the_simulator_does(insn):
    """The simulator executes the expansion of the word."""
    rng, iss = Random(insn.mnemonic), Iss()
    for word in map(int, instruction_words(insn, EXECUTIONS, rng)):
        pc, regs = rng.getrandbits(31) << 1, [0, *(random_word(rng) for _ in range(1, REGISTERS))]
        if rng.randrange(4) == 0:
            # zero and equal registers are rare at random
            regs[1:] = [rng.choice((0, 5)) for _ in regs[1:]]
        memory = Bytes(rng)
        memory |= {(pc + byte) & WORD_MASK: word >> 8 * byte & 0xFF for byte in range(insn.size)}
        hart = Hart(regs=list(regs), pc=pc, read=memory.__getitem__)
        hart.execute(insn, word)
        for address, byte in memory.items():
            iss.memory.write_bytes(address, bytes([byte]))
        iss.state.regs[:], iss.state.pc = regs, pc
        iss.step()
        assert (hart.regs, hart.pc) == (iss.state.regs[:], iss.state.pc), (hex(word), regs)
        stored = {address: iss.memory.read(address, 1) for address in (*memory, *hart.stored)}
        assert stored == {**memory, **hart.stored}, (hex(word), regs)


def test_every_operation_of_the_table_has_a_meaning_and_none_is_left_over():
    assert {insn.op for insn in (*INSNS, *XIF_ROWS)} == OPERATIONS.keys()


def test_rows_without_effect_are_the_fences_and_the_nop():
    assert {insn.mnemonic for insn in INSNS if not statements(insn)} == {"fence", "fence.i", "c.nop"}


def test_a_compressed_breakpoint_traps():
    assert statements(find("c.ebreak")) == ("trap(3)",)
