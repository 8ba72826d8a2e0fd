"""Bench of the whole cluster with its host and AXI4 ports: boot, results, events, accesses of the host."""

from itertools import product
from random import Random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.axi import AxiChecker, AxiManager, AxiSubordinate, Stalls
from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, sample, wait_until
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import WordMemory
from xpulpnn_sim.benches.launcher_data import configuration
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.programs import cluster_check as check
from xpulpnn_sw.kernels.programs.cluster_check import ClusterCheck

_PROMPT = Stalls()
_L2_WORDS = 1 << 11
_PATIENCE = 6000
_PLACES = 32  # words that the host uses while the cores work
_WAITER_AT = 0x1C00  # place of the program that waits for events, in bytes from the start of L2
_DETOUR_AT = 0x1E00  # place of a jump to the program
_SEEN = check.TCDM_USED  # offset in the TCDM of a wake-up count per core, followed by the last event word per core

_LONGEST = {"refill": {"ar": 16}, "ext": {"ar": 4, "aw": 4}, "dma": {"ar": 256, "aw": 64}}
"""Largest number of bytes of a burst, by AXI port and channel."""

_WAITER = """
    csrr s0, mhartid; andi s0, s0, 31
    li s1, {unit}; li s2, {seen}; slli t0, s0, 2; add s2, s2, t0
    li t0, {mask}; sw t0, {MASK}(s1)
    li s3, 0
again:
    sw s3, 0(s2)
    lw t1, {WAIT_CLEAR}(s1)
    sw t1, {told}(s2)
    addi s3, s3, 1
    j again
"""


class _ClusterEnv(AgentGroup):
    def __init__(self, dut: Dut, rng: Random, stalls: Stalls = _PROMPT) -> None:
        self.dut, self.rng = dut, rng
        self.config = configuration()
        operands = [rng.getrandbits(32) for _ in range(check.OPERANDS)]
        self.program: ClusterCheck = check.cluster_check(self.config, operands)
        self.l2 = np.array(self.program.image(_L2_WORDS), np.uint32)
        self._waiter()
        content = self.l2.view(np.uint8)
        self.refill, *_ = (AxiSubordinate(dut, port, content, isa.L2_BASE, stalls, rng) for port in _LONGEST)
        self.host = AxiManager(dut, "host")
        self.all_cores = (1 << self.config.cores) - 1
        super().__init__(dut, [AxiChecker(dut, *port) for port in _LONGEST.items()])

    def _waiter(self) -> None:
        mask = 3 << isa.EventLine.CLUSTER | 1
        text = _WAITER.format(
            unit=isa.PRIVATE_EVENT_UNIT,
            seen=isa.TCDM_BASE + _SEEN,
            mask=mask,
            told=self.config.cores * WORD_BYTES,
            MASK=int(isa.EventRegister.MASK),
            WAIT_CLEAR=int(isa.EventRegister.WAIT_CLEAR),
        )
        for at, source in ((_WAITER_AT, text), (_DETOUR_AT, f"    .equ program, {isa.L2_BASE}; j program")):
            words = assemble(source, isa.L2_BASE + at).words
            place = at // WORD_BYTES
            self.l2[place : place + len(words)] = words

    async def boot(self, address: int, cores: int) -> None:
        for core in (core for core in range(self.config.cores) if cores >> core & 1):
            await self.host.write(isa.CONTROL + isa.Control.BOOT_ADDRESS + WORD_BYTES * core, address)
        await self.host.write(isa.CONTROL + isa.Control.FETCH_ENABLE, cores)

    async def clocks(self, cores: int) -> None:
        clocks = self.dut.core_clock_en
        await wait_until(self.dut, lambda: sample(clocks) == cores, _PATIENCE, f"core_clock_en {cores:b}")

    async def wakeups(self) -> list[tuple[int, int]]:
        """Return, for each core, how often it has woken up, and the last value of its event register."""
        cores, place = self.config.cores, isa.TCDM_BASE + _SEEN
        words = [await self.host.read(place + WORD_BYTES * number) for number in range(2 * cores)]
        return list(zip(words[:cores], words[cores:], strict=True))


async def host_traffic(env: _ClusterEnv) -> None:
    """Make random accesses to TCDM words that the program does not use, at all of their addresses, until its end."""
    rng, host, memory = env.rng, env.host, WordMemory()
    places = rng.sample(range(check.TCDM_USED, env.config.tcdm_bytes, WORD_BYTES), _PLACES)
    for place in places:
        await host.write(isa.TCDM_BASE + place, memory[place])
    while not sample(env.dut.eoc):
        place = rng.choice(places)
        base = rng.choice((isa.TCDM_BASE, isa.TCDM_ALIAS, isa.TCDM_BASE | 1 << isa.TEST_SET_BIT))
        sets = base >> isa.TEST_SET_BIT & 1
        if not sets and rng.randrange(2):
            memory[place] = rng.getrandbits(32)
            await host.write(base + place, memory[place])
        else:
            read = await host.read(base + place)
            assert read == memory[place], f"the host reads {read:#x} at {base + place:#x}"
            memory[place] = WORD_MASK if sets else read


@unit_test(env=_ClusterEnv, stalls=[_PROMPT, Stalls(12, 8)], timeout_us=400)
async def boots_and_computes(dut: Dut, env: _ClusterEnv) -> None:
    """The host starts the cores one after the other, uses the memory meanwhile and sees the end of the program."""
    dut.cluster_id.value = 5
    await env.boot(isa.L2_BASE, 1)
    await ClockCycles(dut.clk, 400)
    # core 0 waits for the others, whose clocks run until they are started
    await env.clocks(env.all_cores & ~1)
    assert not sample(dut.busy), "busy while nothing but the start is awaited"
    assert not sample(dut.eoc), "the end without the other cores"
    before = env.host.accesses
    traffic = cocotb.start_soon(host_traffic(env))
    await env.boot(isa.L2_BASE + _DETOUR_AT, env.all_cores & ~1)
    await wait_until(dut, lambda: sample(dut.eoc), _PATIENCE, "the end of computation")
    await traffic
    assert isa.L2_BASE + _DETOUR_AT in env.refill.read_from, "the others have not their own boot address"
    accesses = env.host.accesses - before - _PLACES
    assert accesses > 50, f"{accesses} accesses of the host"
    assert sample(dut.return_value) == env.program.return_value
    assert await env.host.read(isa.CONTROL + isa.Control.EOC) == 1
    assert await env.host.read(isa.CONTROL + isa.Control.RETURN) == env.program.return_value
    place = check.RESULTS_AT // WORD_BYTES
    results = list(env.program.results)
    assert env.l2[place : place + len(results)].tolist() == results, "results outside"
    first = isa.TCDM_BASE + check.TCDM_RESULTS_AT
    inside = [await env.host.read(first + WORD_BYTES * number) for number in range(len(results))]
    assert inside == results, "results in the TCDM"
    await env.clocks(0)
    assert not sample(dut.busy), "busy after the end"


@unit_test(env=_ClusterEnv, timeout_us=200)
async def events_wake_sleeping_cores(dut: Dut, env: _ClusterEnv) -> None:
    """External pulses and software events of the host wake cores whose clocks were stopped."""
    dut.boot_addr.value = isa.L2_BASE + _WAITER_AT
    cores = env.config.cores
    await ClockCycles(dut.clk, 20)
    assert not sample(dut.busy), "busy before the start"
    dut.fetch_enable.value = 1
    await RisingEdge(dut.clk)
    dut.fetch_enable.value = 0
    await ClockCycles(dut.clk, 300)
    await env.clocks(0)
    assert not sample(dut.busy), "busy while all wait"
    assert [count for count, _ in await env.wakeups()] == [0] * cores
    for turn, lines in enumerate((1, 2, 3), start=1):
        dut.events.value = lines
        await RisingEdge(dut.clk)
        dut.events.value = 0
        await env.clocks(env.all_cores)
        assert sample(dut.busy), "not busy while cores work"
        await ClockCycles(dut.clk, 100)
        await env.clocks(0)
        assert await env.wakeups() == [(turn, lines << isa.EventLine.CLUSTER)] * cores
    last = cores - 1
    await env.host.write(isa.EVENT_UNIT + isa.SHARED_SW_TRIGGERS, 1 << last)
    await ClockCycles(dut.clk, 100)
    await env.clocks(0)
    wakeups = await env.wakeups()
    assert wakeups[last] == (4, 1), wakeups
    assert wakeups[:last] == [(3, 3 << isa.EventLine.CLUSTER)] * last, wakeups
    # without clock gating the clocks are always needed
    await env.host.write(isa.CONTROL + isa.Control.CLOCK_GATE, 0)
    await env.clocks(env.all_cores)


@unit_test(env=_ClusterEnv, timeout_us=100)
async def host_reaches_what_it_may(dut: Dut, env: _ClusterEnv) -> None:
    """The host accesses peripherals; private, external and unmapped addresses answer with an error."""
    dut.boot_addr.value = isa.L2_BASE
    host, config = env.host, env.config
    assert await host.read(isa.CONTROL + isa.Control.BOOT_ADDRESS) == isa.L2_BASE
    await host.write(isa.CONTROL + isa.Control.RETURN, 0x1234_5678)
    assert sample(dut.return_value) == 0x1234_5678
    await host.write(isa.TIMER + isa.Timer.CONFIG_LOW, isa.TimerConfig.ENABLE)
    first = await host.read(isa.TIMER + isa.Timer.COUNT_LOW)
    await ClockCycles(dut.clk, 50)
    assert await host.read(isa.TIMER + isa.Timer.COUNT_LOW) >= first + 50
    assert await host.read(isa.EVENT_UNIT + isa.EventRegister.MASK) == 0
    await host.write(isa.EVENT_UNIT + isa.EventRegister.MASK, 1)
    assert await host.read(isa.EVENT_UNIT + isa.EventRegister.MASK) == 1
    unmapped = [isa.PRIVATE_EVENT_UNIT, isa.PRIVATE_DMA, isa.PRIVATE_DMA + isa.BLOCK_BYTES, isa.L2_BASE]
    unmapped += [isa.TCDM_BASE + config.tcdm_bytes, isa.TCDM_ALIAS + TCDM_SPACE, isa.TIMER - WORD_BYTES]
    for place, value in product(unmapped, (None, 0)):
        assert (await host.access(place, value))[0], f"no error at {place:#x}"
    last = isa.TCDM_BASE + config.tcdm_bytes - WORD_BYTES
    await host.write(last, 0xCAFE_F00D)
    assert await host.read(last) == 0xCAFE_F00D
    assert not sample(dut.busy), "the host wakes no core"
