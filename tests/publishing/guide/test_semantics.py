"""The statements of every row, executed, do what the reference models do."""

from random import Random

import numpy as np
import pytest

from xpulpnn.isa.csr import CSRS, CsrAccess
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import REGISTERS, WORD_MASK
from xpulpnn.isa.operations import OPERATIONS
from xpulpnn.isa.semantics import statements
from xpulpnn.isa.table import INSNS, find
from xpulpnn_sim.reference.golden.dotp import quantise
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.statements.machine import Hart, Statements
from xpulpnn_sim.reference.stimuli import element_width, instruction_words, operand_columns, random_word

pytestmark = pytest.mark.unit

EXECUTIONS = 20
CSR_FIELD = 20
QUANTISATION = [insn for insn in INSNS if insn.extension is Extension.XPULPQNT]
SIMULATED = [insn for insn in INSNS if insn.extension is not Extension.XPULPQNT]


def name_of(insn: Insn) -> str:
    return f"{insn.mnemonic} {insn.operands}"


class Bytes(dict[int, int]):
    """Memory that gives itself random bytes where it is read."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng

    def __missing__(self, address: int) -> int:
        self[address] = self.rng.getrandbits(8)
        return self[address]


@pytest.fixture(scope="module")
def iss() -> Iss:
    return Iss(extensions=frozenset(Extension), performance_counters=True)


def state_of(iss: Iss) -> dict[str, object]:
    return {"regs": list(iss.state.regs), "nn": list(iss.state.nn), "pc": iss.state.pc, "csrs": dict(iss.csrs.values)}


def with_legal_csr(word: int, insn: Insn, rng: Random) -> int:
    """The word with a register it may access in place of a random address."""
    writes = insn.op == "csrrw" or word >> 15 & 0x1F
    # writing all counters at once is told in words, and mip follows lines that are not driven here
    csrs = [csr for csr in CSRS if csr.name != "pccrall" and not (csr.access is CsrAccess.RO and writes)]
    return word & (1 << CSR_FIELD) - 1 | rng.choice(csrs).address << CSR_FIELD


def set_up(iss: Iss, insn: Insn, word: int, values: dict[str, int], rng: Random) -> Bytes:
    """Random registers with ``values`` in the fields of the word, the instruction at a random address."""
    iss.state.regs[:] = [0, *(random_word(rng) for _ in range(1, REGISTERS))]
    for token in insn.tokens:
        number = token.field.extract(word)
        if token.field.kind is FieldKind.REGISTER and number:
            iss.state.regs[number] = values[{"rs3": "rd"}.get(token.field.name, token.field.name)]
    iss.state.nn[:] = [random_word(rng) for _ in iss.state.nn]
    iss.state.pc = rng.getrandbits(31) << 1
    for csr in CSRS:
        iss.csrs.values[csr.name] = csr.reset & ~csr.writable | rng.getrandbits(32) & csr.writable
    # counters stand still and no loop ends here, so that only the instruction changes anything
    iss.csrs.values |= {"mcountinhibit": 0b101, "pcer": 0, "lpcount0": 0, "lpcount1": 0}
    memory = Bytes(rng)
    for byte in range(insn.size):
        memory[(iss.state.pc + byte) & WORD_MASK] = word >> 8 * byte & 0xFF
    return memory


def check(iss: Iss, insn: Insn, reference: Statements, word: int, memory: Bytes) -> None:
    """One execution by the statements and by the simulator."""
    before = state_of(iss)
    machine = Hart(
        regs=list(iss.state.regs),
        nn=list(iss.state.nn),
        csrs=dict(iss.csrs.values) | {"mip": 0},
        pc=iss.state.pc,
        read=memory.__getitem__,
    )
    reference.execute(word, machine)
    for address, byte in memory.items():
        iss.memory.write_bytes(address, bytes([byte]))
    iss.step()
    iss.state.asleep = False
    after = {"regs": machine.regs, "nn": machine.nn, "pc": machine.pc, "csrs": machine.csrs}
    assert state_of(iss) == after, (hex(word), before)
    stored = {address: iss.memory.read(address, 1) for address in (*memory, *machine.stored)}
    assert stored == {**memory, **machine.stored}, (hex(word), before)


@pytest.mark.parametrize("insn", SIMULATED, ids=name_of)
def test_statements_do_what_the_simulator_does(iss, insn):
    rng = Random(f"{insn.key}")
    reference = Statements(insn)
    columns = operand_columns(element_width(insn), EXECUTIONS, rng)
    words = instruction_words(insn, EXECUTIONS, rng)
    for word, *operands in zip(map(int, words), *(column.tolist() for column in columns), strict=True):
        if insn.extension is Extension.ZICSR:
            word = with_legal_csr(word, insn, rng)
        values = dict(zip(("rs1", "rs2", "rd"), operands, strict=True))
        if rng.randrange(4) == 0:
            # few divisors, shifts and limits of clips are small by chance
            values["rs2"] = rng.choice((0, 1, 2, 5, 31, 32, WORD_MASK, values["rs1"]))
        check(iss, insn, reference, word, set_up(iss, insn, word, values, rng))


@pytest.mark.parametrize("insn", QUANTISATION, ids=name_of)
def test_statements_do_what_the_reference_of_pv_qnt_does(insn):
    rng = Random(f"{insn.key}")
    word, memory = insn.encode(rd=10, rs1=11, rs2=12), Bytes(rng)
    rs1, rs2 = ([random_word(rng) & mask for _ in range(200)] for mask in (WORD_MASK, WORD_MASK - 1))

    def half_words(addresses: np.ndarray) -> np.ndarray:
        return np.array([memory[a] | memory[(a + 1) & WORD_MASK] << 8 for a in map(int, addresses)], np.uint32)

    columns = {"rs1": np.array(rs1, np.uint32), "rs2": np.array(rs2, np.uint32)}
    expected = quantise(insn, Sources(word=np.full(len(rs1), word, np.uint32), **columns), half_words).rd
    reference = Statements(insn)
    for a, b, code in zip(rs1, rs2, expected, strict=True):
        regs = [0] * REGISTERS
        regs[11], regs[12] = a, b
        machine = Hart(regs=regs, nn=[], csrs={}, pc=0, read=memory.__getitem__)
        reference.execute(word, machine)
        assert machine.regs[10] == code, (hex(a), hex(b))


def test_every_operation_of_the_table_has_a_meaning_and_none_is_left_over():
    assert {insn.op for insn in INSNS} == OPERATIONS.keys()


def test_rows_without_effect_are_the_fences_and_the_nop():
    assert {insn.mnemonic for insn in INSNS if not statements(insn)} == {"fence", "fence.i", "c.nop"}


@pytest.mark.parametrize(
    ("mnemonic", "lines"),
    [
        ("pv.sdotusp.sc.n", ("rd = rd + sum(rs1[i] * s(rs2[0]) for i in lanes)",)),
        ("pv.avgu.sci.b", ("rd[i] = zx(rs1[i] + uimm6, 8) >> 1",)),
        ("c.addi4spn", ("rd = x2 + ciw10",)),
        ("c.jr", ("t = rs1 & ~1", "pc = t")),
        ("p.macs", ("rd = sx(rd + sx(rs1[15:0], 16) * sx(rs2[15:0], 16), 32)",)),
    ],
)
def test_how_statements_read(mnemonic, lines):
    assert statements(find(mnemonic)) == lines
