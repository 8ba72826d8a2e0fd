"""The register file against a list of words, in both storages; memories that the emission does not write."""

import random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from xpulpnn.core.regfile import RegFile

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
