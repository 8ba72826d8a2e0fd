"""The transport behind the test access port of an ECP5, whose primitive JTAGG is modelled as Lattice describes it."""

from random import Random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator, SimulatorContext

from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dtm import FpgaDtm
from xpulpnn.debug.tap import NEXT, TapState

ER1, ER2, BYPASS = 0x32, 0x38, 0xFF
HALF_S, CLOCK_S = 2e-7, 2e-7  # half a period of TCK, and a period of the module's clock
DTMCS = 1 | 7 << 4 | 5 << 12  # version 0.13, 7 bits of address, 5 cycles in Run-Test/Idle
READ, WRITE, BUSY = 1, 2, 3


class Port:
    """The FPGA's port in the hands of a debugger, from Run-Test/Idle to Run-Test/Idle."""

    def __init__(self, ctx: SimulatorContext, dtm: FpgaDtm, tck: ClockDomain) -> None:
        self._ctx, self._dtm, self._tck = ctx, dtm, tck
        self._state, self._instruction, self._tdo = TapState.IDLE, BYPASS, 0

    async def cycle(self, tms: int, tdi: int = 0) -> int:
        """A cycle of TCK, rising and falling; returns the data out that the debugger samples at the rising edge."""
        ctx, dtm, sampled = self._ctx, self._dtm, self._tdo
        ctx.set(self._tck.clk, 0)  # JTCK rises
        self._state = NEXT[self._state][tms]
        chosen = self._state in (TapState.CAPTURE_DR, TapState.SHIFT_DR)
        await ctx.delay(HALF_S / 10)  # the primitive's outputs come behind the edge
        ctx.set(dtm.jtdi, tdi)
        ctx.set(dtm.jshift, self._state == TapState.SHIFT_DR)
        ctx.set(dtm.jupdate, self._state == TapState.UPDATE_DR)
        ctx.set(dtm.jce, chosen * {ER1: 1, ER2: 2}.get(self._instruction, 0))
        await ctx.delay(HALF_S)
        self._tdo = ctx.get(dtm.jtdo)  # registered at the falling edge
        ctx.set(self._tck.clk, 1)
        await ctx.delay(HALF_S)
        return sampled

    async def scan(self, instruction: int, value: int, bits: int) -> int:
        """Choose a register and scan it; returns what it has captured."""
        for tms in (1, 1, 0, 0, *[0] * 7, 1, 1, 0) if instruction != self._instruction else ():
            await self.cycle(tms)
        self._instruction = instruction
        for tms in (1, 0, 0):
            await self.cycle(tms)
        read = 0
        for bit in range(bits):
            read |= await self.cycle(int(bit == bits - 1), value >> bit & 1) << bit
        for tms in (1, *[0] * 5):
            await self.cycle(tms)
        return read

    async def access(self, op: int, address: int, word: int = 0) -> int:
        """A scan of dmi; returns what the access before has read, and its outcome."""
        return await self.scan(ER2, address << 34 | word << 2 | op, 41) & (1 << 34) - 1


@pytest.mark.flow
def test_accesses_by_the_port_of_an_ecp5() -> None:
    m = Module()
    sync, tck = ClockDomain("sync"), ClockDomain("tck")
    m.domains += [sync, tck]
    m.submodules.dtm = dtm = FpgaDtm(DebugConfig())
    written: list[tuple[int, int]] = []
    words: dict[int, int] = {}
    clock_stops = False

    async def clock(ctx: SimulatorContext) -> None:
        level = 0
        while True:
            await ctx.delay(CLOCK_S / 2)
            level ^= not clock_stops
            ctx.set(sync.clk, level)

    async def module(ctx: SimulatorContext) -> None:
        async for _, _, valid, write, address, word in ctx.tick().sample(
            dtm.dmi.valid, dtm.dmi.write, dtm.dmi.addr, dtm.dmi.wdata
        ):
            if valid and write:
                written.append((address, word))
                words[address] = word
            if valid:
                ctx.set(dtm.dmi.rdata, words.get(address, 0))

    async def debugger(ctx: SimulatorContext) -> None:
        nonlocal clock_stops
        port, rng, expected = Port(ctx, dtm, tck), Random(1), []
        assert await port.scan(ER1, 0, 32) == DTMCS
        for _ in range(5):
            expected.append((rng.getrandbits(7), rng.getrandbits(32)))
            await port.access(WRITE, *expected[-1])
            # scans of other registers are not for the module, which would write again
            await port.scan(BYPASS, rng.getrandbits(41), 41)
        assert written == expected
        for address, word in words.items():
            await port.access(READ, address)
            assert await port.scan(ER1, 0, 32) == DTMCS
            assert await port.access(0, 0) == word << 2
        # an access without an answer, and all behind it until the error is cleared
        clock_stops = True
        await port.access(WRITE, 1, 2)
        assert await port.access(READ, 1) & 3 == BUSY
        clock_stops = False
        assert await port.access(READ, 1) & 3 == BUSY
        assert await port.scan(ER1, 1 << 16, 32) == DTMCS | BUSY << 10
        await port.access(READ, 1)
        assert await port.access(0, 0) == 2 << 2
        assert len(written) == 6

    sim = Simulator(m)
    sim.add_testbench(clock, background=True)
    sim.add_testbench(module, background=True)
    sim.add_testbench(debugger)
    sim.run()
