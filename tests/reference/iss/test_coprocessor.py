"""The coprocessor: statements in the simulator against the golden model, and this against values worked out by hand."""

from random import Random

import pytest

from xpulpnn.isa.semantics import STATE
from xpulpnn.isa.table import find
from xpulpnn.xif.config import XifConfig, XifHost
from xpulpnn_sim.reference.golden.xif import Coprocessor
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.stimuli import random_word

PC, DATA, FAILING = 0x4000, 0x8000, (0x8040, 4)
CONFIGS = {
    "stateless": XifConfig(accumulators=False),
    "blocks": XifConfig(simd=False, mixed_weights=False),
    "port": XifConfig(memory="obi", requantise="plain"),
    "all, custom": XifConfig(memory="xif", requantise="exact", opcode="custom"),
}


def simulator(config: XifConfig) -> Iss:
    iss = Iss.of(XifHost(xif=config), PC)
    iss.memory.errors = (FAILING,)
    iss.memory.write_bytes(DATA, bytes(byte * 151 % 256 for byte in range(0x400)))
    return iss


def golden(config: XifConfig, iss: Iss) -> Coprocessor:
    def load(address: int) -> tuple[int, bool]:
        word = int.from_bytes(iss.memory.read_bytes(address, 4), "little")
        return word, FAILING[0] - 4 < address < sum(FAILING)

    return Coprocessor(config, load)


def state_of(iss: Iss) -> list[int]:
    nn, sums, pointers = iss.state.nn, STATE["ACC"], STATE["PTR"]
    return [*nn[sums : sums + 16], *nn[:7], *nn[8:10], *nn[pointers : pointers + 2]]


@pytest.mark.parametrize("name", CONFIGS)
def test_statements_equal_the_golden_model(name):
    config, rng = CONFIGS[name], Random(name)
    iss, model = simulator(config), golden(config, simulator(config))
    accesses = [insn for insn in config.insns if insn.op in ("pa.rd", "pa.wr", "pa.ld")]
    rows = [*config.insns, *rng.choices(config.insns, k=len(config.insns)), *accesses * 60]
    for insn in rng.sample(rows, len(rows)):
        numbers = {"rd": rng.choice((0, 5)), "rs1": 6, "rs2": 7}
        fields = [token.field for token in insn.tokens]
        word = insn.encode(**{field.name: numbers.get(field.name, rng.choice(field.values)) for field in fields})
        sources = [random_word(rng), random_word(rng)]
        if insn.op == "pa.ptr":
            sources = [DATA + rng.randrange(0x80) for _ in sources]
        elif insn.op == "pa.step":
            sources[0] = sources[0] & ~0x3FF | rng.randrange(7)
        iss.state.regs[5:8] = [0x5A5A5A5A, *sources]
        iss.memory.write_bytes(iss.state.pc, word.to_bytes(4, "little"))
        step = iss.step()
        result = model.execute(insn, word, *sources)
        context = f"{insn.mnemonic} {word:#010x} with {sources}"
        assert (step.cause, step.retired.fetched.insn) == (None, insn), context
        assert iss.state.regs[5] == (0x5A5A5A5A if result is None or not numbers["rd"] else result), context
        assert (state_of(iss), iss.state.nn[STATE["FAILED"]]) == (model.state, model.failed), context
    assert any(model.state) == config.accumulators


VALUES = (
    # instruction, its immediates, rs1, rs2, words before by number, words after
    ("pa.accusp.b", {"k": 9}, 0x010203FF, 0x04FF0280, {9: 100}, {9: -32532 % 2**32}),
    ("pa.ld", {"e": 4}, 0xFFFFFFFF, 1, {}, {22: 0xFF3F}),
    ("pa.ld", {"e": 1}, 3, 4, {}, {24: 3, 25: 4}),
    ("pa.blkusp.b", {"h": 1}, 0x000000FE, 0x00000100, {24: 0x0203}, {10: -6 % 2**32, 11: 2}),
    ("pa.blksp.b.c3", {"h": 0}, 0x03000000, 0xC0000000, {17: 0x05000007, 4: 1}, {4: -6 % 2**32, 5: -5 % 2**32}),
    ("pa.rqu.n", {"f": 1}, 2, 6, {1: 10, 5: 200, 9: -9 % 2**32, 0: 0xF5, 22: 1}, {0: 0xD5, 4: 0xF0, 8: 0, 12: 0x30}),
    ("pa.rqxs.c", {"f": 0}, 1, 1, {0: 2, 4: 1, 8: -5 % 2**32, 22: 0xFF01}, {0: 1, 4: 0, 8: 2, 12: 0}),
    ("pa.wr", {"r": 27}, 0x1237, 0, {}, {27: 0x1234}),
)


@pytest.mark.parametrize(("name", "fields", "rs1", "rs2", "before", "after"), VALUES)
def test_values(name, fields, rs1, rs2, before, after):
    model = Coprocessor(XifConfig(memory="obi", requantise="exact"))
    insn, write = find(name), find("pa.wr")
    for number, value in before.items():
        model.execute(write, write.encode(r=number, rs1=1), value)
    words = dict(zip([*range(23), 24, 25, 26, 27], model.state, strict=True))
    operands = {token.field.name for token in insn.tokens} - fields.keys()
    model.execute(insn, insn.encode(**fields, **dict.fromkeys(operands, 1)), rs1, rs2)
    assert dict(zip(words, model.state, strict=True)) == words | after


def test_failed_loads_and_missing_pointers():
    model = Coprocessor(XifConfig(memory="obi"), lambda address: (address, address == 0x108))
    step, sync = find("pa.stepup.b.n"), find("pa.sync")
    model.pointers = [0x100, 0x200]
    model.execute(step, step.encode(rs1=1), 3)
    assert (model.pointers, model.entries[8], model.entries[5]) == ([0x130, 0x210], 0x128, 0x21C)
    assert [model.execute(sync, sync.encode(rd=1)) for _ in range(2)] == [1, 0]
    without, write = Coprocessor(XifConfig()), find("pa.wr")
    without.execute(write, write.encode(r=26, rs1=1), 64)
    assert without.pointers == [0, 0]


def test_refused_words():
    for config in CONFIGS.values():
        model, iss = Coprocessor(config), simulator(config)
        for insn in CONFIGS["all, custom"].insns:
            offered = any(row.key == insn.key for row in config.insns) and config.opcode == "custom"
            assert (model.decode(insn.match) is None) == (not offered), insn.key
            assert (iss.decode(insn.match) is None) == (not offered), insn.key
