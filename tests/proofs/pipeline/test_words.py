"""How the properties read instruction words, against the table."""

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from xpulpnn.config import preset
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.pipeline.properties.invariants import Word

pytestmark = pytest.mark.unit

KINDS = ("branches", "jumps", "returns", "sleeps", "calls", "breaks", "fences", "syncs", "accesses_csr")


def words_of(row: Insn, draw: random.Random) -> list[int]:
    """Some words that are an instruction."""
    free = ((1 << 8 * row.size) - 1) & ~row.mask
    drawn = [row.match | draw.getrandbits(32) & free for _ in range(6)]
    return [word for word in drawn if row.matches(word)]


def test_kinds_are_those_of_the_table():
    config = preset("xpulpnn2")
    draw = random.Random(3)
    words = {word: row for row in enabled(config.extensions, config.widths) for word in words_of(row, draw)}
    module, raw = Module(), Signal(32)
    seen = {kind: Signal(name=kind) for kind in KINDS}
    word = Word(raw)
    module.d.comb += [signal.eq(getattr(word, kind)) for kind, signal in seen.items()]
    found: list[tuple[int, str]] = []

    async def bench(ctx):
        for value, row in words.items():
            ctx.set(raw, value)
            wanted = {
                "branches": row.is_branch,
                "jumps": row.is_jump,
                "returns": row.op == "mret",
                "sleeps": row.op == "wfi",
                "calls": row.op == "ecall",
                "breaks": row.op in ("ebreak", "c.ebreak"),
                "fences": row.op == "fence",
                "syncs": row.op == "fence.i",
                "accesses_csr": row.op.startswith("csr"),
            }
            found.extend((value, kind) for kind in KINDS if ctx.get(seen[kind]) != wanted[kind])

    simulator = Simulator(module)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(words) > 1000
    assert found == []
