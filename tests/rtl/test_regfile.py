"""The register file against a list of words, in both storages; memories that the emission does not write."""

import random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from xpulpnn.core.regfile import RegFile
from xpulpnn.errors import ToolError
from xpulpnn.verilog import emit

pytestmark = pytest.mark.unit

CYCLES = 300


@pytest.mark.parametrize("storage", ["flip-flops", "array"])
def test_reads_and_writes(storage):
    rng, regfile, top = random.Random(storage), RegFile(storage), Module()
    top.domains.sync = domain = ClockDomain()
    top.submodules.regfile = regfile
    words = [0] * 32

    def address() -> int:
        return rng.choice([rng.randrange(32), rng.randrange(3)])

    async def bench(ctx):
        for cycle in range(CYCLES):
            reset = cycle % 60 == 59
            ctx.set(domain.rst, reset)
            writes = []
            for we, at, data in (
                (regfile.we_a, regfile.addr_a, regfile.data_a),
                (regfile.we_b, regfile.addr_b, regfile.data_b),
            ):
                write = rng.randrange(2), address(), rng.getrandbits(32)
                writes.append(write)
                for port, value in zip((we, at, data), write, strict=True):
                    ctx.set(port, value)
            for at, read in (
                (regfile.rs1_addr, regfile.rs1),
                (regfile.rs2_addr, regfile.rs2),
                (regfile.rs3_addr, regfile.rs3),
            ):
                number = address()
                ctx.set(at, number)
                assert ctx.get(read) == words[number], (cycle, number)
            await ctx.tick()
            for enabled, number, value in writes:
                if enabled and number:
                    words[number] = value
            if reset:
                words[:] = [0] * 32

    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


class Buffer(wiring.Component):
    """A memory with a clocked read port, or one that writes bytes."""

    value: Out(16)
    we: In(2)

    def __init__(self, domain: str, granularity: int) -> None:
        self._domain, self._granularity = domain, granularity
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=16, depth=4, init=[])
        read, write = words.read_port(domain=self._domain), words.write_port(granularity=self._granularity)
        m.d.comb += [self.value.eq(read.data), write.en.eq(self.we)]
        return m


@pytest.mark.parametrize(
    ("domain", "granularity", "error"),
    [
        ("sync", 16, "read port of a memory must be in the domain comb, not clocked"),
        ("comb", 8, "write port of a memory must write whole words, not parts of them"),
    ],
)
def test_other_memories_are_refused(domain, granularity, error):
    with pytest.raises(ToolError, match=f"^{error}$"):
        emit(Buffer(domain, granularity), "buffer", config={})
