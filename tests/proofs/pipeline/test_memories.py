"""Memories that hold something at one address: what they answer, and what is seen to be wrong."""

import itertools

import pytest
from amaranth.hdl import Const, Module, Signal
from amaranth.sim import Simulator

from xpulpnn.core.obi import ObiSignature
from xpulpnn_sim.proofs.pipeline.properties.fetching import HeldWord
from xpulpnn_sim.proofs.pipeline.properties.register_values import HeldBit

_FREE = 0x5A5A_A5A5
"""What memory answers with where nothing is held."""


@pytest.mark.unit
@pytest.mark.parametrize("address", [0x80, 0x82, 0xFFFF_FFFE])
@pytest.mark.parametrize("halves", [(0x4503, 0x1234), (0x4501, 0x1234)])
def test_an_instruction_is_held(address: int, halves: tuple[int, int]):
    memory = {(address + 2 * index) & 0xFFFF_FFFF: half for index, half in enumerate(halves)}
    wide = halves[0] & 3 == 3
    module = Module()
    fails, place = Signal(2), Signal(30)
    held = HeldWord(module, Const(address, 32), Const(halves[0] | halves[1] << 16, 32), fails)
    data, err = held.answered(held.parts(place), Const(_FREE, 32), Const(0, 1))

    async def bench(ctx):
        assert ctx.get(held.raw) == (halves[0] | halves[1] << 16 if wide else halves[0])
        for first_fails, second_fails in itertools.product((0, 1), repeat=2):
            if address & 2 == 0 and first_fails != second_fails:
                # both are in one word
                continue
            ctx.set(fails, first_fails | second_fails << 1)
            assert ctx.get(held.fault) == (first_fails | (wide and second_fails))
            for word in ((address & ~3) - 4, address & ~3, (address + 2) & 0xFFFF_FFFC):
                ctx.set(place, word >> 2)
                low, high = memory.get(word, _FREE & 0xFFFF), memory.get(word + 2, _FREE >> 16)
                failing = {address: first_fails, (address + 2) & 0xFFFF_FFFF: second_fails}
                assert ctx.get(data) == low | high << 16
                assert ctx.get(err) == max(failing.get(word, 0), failing.get(word + 2, 0))
                assert ctx.get(held.is_in(place, data, err)) == 1
                assert ctx.get(held.is_in(place, data ^ 1, err)) == (word not in memory)
        assert ctx.get(held.is_at(Const(address, 32))) == 1
        assert ctx.get(held.is_at(Const(address ^ 2, 32))) == 0

    simulator = Simulator(module)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.unit
def test_a_bit_of_data_is_held():
    module, port = Module(), ObiSignature().create()
    held = HeldBit(module, port, Const(0x46, 32), Const(0b01_101, 5), Const(0, 32))
    bit = 1 << 5 + 16

    async def bench(ctx):
        async def access(address: int, *, store: int | None = None, be: int = 0b1111, err: int = 0) -> int:
            values = {"req": 1, "gnt": 1, "addr": address, "we": store is not None, "be": be, "wdata": store or 0}
            for name, value in values.items():
                ctx.set(getattr(port, name), value)
            await ctx.tick()
            ctx.set(port.req, 0)
            ctx.set(port.rvalid, 1)
            ctx.set(port.err, err)
            answer = ctx.get(held.rdata)
            await ctx.tick()
            ctx.set(port.rvalid, 0)
            return answer

        assert await access(0x44) == 0
        for address, be, err in ((0x48, 0b1111, 0), (0x44, 0b1011, 0), (0x44, 0b1111, 1)):
            await access(address, store=0xFFFF_FFFF, be=be, err=err)
            assert await access(0x44) == 0
        await access(0x44, store=bit, be=0b0100)
        assert await access(0x44) == bit
        assert await access(0x44, be=0b0011) == 0
        assert await access(0x40) == 0

    simulator = Simulator(module)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
