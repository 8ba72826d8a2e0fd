"""Bench of the core: short directed programs, every retirement compared with the simulator, and the final memory."""

from dataclasses import dataclass, replace
from random import Random

import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.machine import ENTRY, IRQ_PRIORITY, MACHINE_MODE, WORD_BYTES
from xpulpnn.isa.retirement import CAUSE_CODE, WaitCause
from xpulpnn_sim.benches.agents.base import Agent, AgentGroup, Dut, drive, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.instruction_stream import RetirementMonitor, check_retirements
from xpulpnn_sim.benches.agents.obi import PROMPT, ObiMemory, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS
from xpulpnn_sim.reference.directed.case import Directed
from xpulpnn_sim.reference.directed.programs import short_programs
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.retirements import Records

_SHORT = 350  # largest number of instructions of the programs

_OF_INTERRUPTS = ("mstatus", "mie", "mtvec", "mret", "t5", "t6")  # names in programs that handle interrupts themselves


def _interrupted(case: Directed) -> Directed:
    """Return the program with interrupts enabled, unless the program handles interrupts itself."""
    if case.interrupts or any(name in line for line in case.lines for name in _OF_INTERRUPTS):
        return case
    return replace(case, interrupts=True, expected=())


HART_ID = 0x0000_03E5
IDLE_CYCLES = 8  # cycles that the core sleeps, or waits for `fetch_enable`, before the bench continues
_CYCLE_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Timings of instruction and data memory, and the probability per cycle that an interrupt line rises."""

    fetch: ObiTiming
    data: ObiTiming
    interrupts: float


QUIET = _Conditions(PROMPT, PROMPT, 0.0)
BUSY = _Conditions(PROMPT, PROMPT, 0.03)
STALLING = _Conditions(ObiTiming(0.4, 1, 6), ObiTiming(0.5, 1, 4), 0.005)

Acknowledged = tuple[int, int]  # line of an acknowledged interrupt, and all lines that were high


class InterruptDriver(Agent):
    """Raises interrupt lines at random, and one line when the core sleeps; an acknowledged line falls."""

    def __init__(self, dut: Dut, rate: float, rng: Random) -> None:
        super().__init__(dut)
        self.taken: list[Acknowledged] = []
        self._dut, self._rate, self._rng = dut, rate, rng
        self._lines = self._asleep = 0

    def drive(self) -> None:
        if self._rng.random() < self._rate or self._asleep >= IDLE_CYCLES:
            self._lines |= 1 << self._rng.choice(IRQ_PRIORITY)
        self._dut.irq.value = self._lines

    def sample(self) -> None:
        self._asleep = self._asleep + 1 if sample(self._dut.core_sleep) else 0
        if sample(self._dut.irq_ack):
            line = sample(self._dut.irq_id)
            self.taken.append((line, self._lines))
            self._lines &= ~(1 << line)

    def release(self) -> None:
        self._dut.irq.value = 0


class CoreMemory(ObiMemory):
    """Memory at a port of a core. A sleeping core must have no outstanding access, as it would not see the answer
    without a clock."""

    def __init__(self, dut: Dut, port: str, memory: WordMemory, timing: ObiTiming, rng: Random) -> None:
        super().__init__(dut, port, memory, timing, rng)
        self.cycles_refused = self.cycles_unanswered = 0
        self._core_sleep = dut.core_sleep

    def sample(self) -> None:
        requests = sample(self._request[0])
        if sample(self._core_sleep):
            under_way = self.unanswered + self._driver.values["rvalid"] + requests
            assert not under_way, f"{under_way} accesses under way in a sleeping core"
        self.cycles_unanswered += self.unanswered > 0
        self.cycles_refused += requests and not self._grants
        super().sample()


async def boot(dut: Dut) -> None:
    drive(dut, {"boot_addr": ENTRY | 1, "hart_id": HART_ID})
    for _ in range(IDLE_CYCLES):
        await FallingEdge(dut.clk)
        assert not sample(dut.instr__req), "an instruction is fetched before fetch_enable"
        await RisingEdge(dut.clk)
    for _ in range(2):
        dut.fetch_enable.value = 1
        await RisingEdge(dut.clk)
        dut.fetch_enable.value = 0
        await ClockCycles(dut.clk, IDLE_CYCLES)


def interrupt_lines(records: Records, sampled: list[int], taken: list[Acknowledged], board: Scoreboard) -> list[int]:
    """Return the interrupt lines at every retirement; for a handler's first instruction, those at its entry."""
    lines, first = list(sampled), np.flatnonzero(records["intr"])
    # the last interrupt may be acknowledged after the last record
    assert len(taken) - len(first) in (0, 1), f"{len(taken)} interrupts acknowledged, {len(first)} taken"
    for at, (line, high) in zip(first, taken, strict=False):
        lines[at] = high
        if not records["trap"][at]:
            board.equal(records["cause"][at] & CAUSE_CODE, line, f"acknowledged interrupt, retirement {at}")
    return lines


async def _run_program(
    dut: Dut, case: Directed, conditions: _Conditions, rng: Random, *, reset_after: int | None = None
) -> None:
    config, board, executable = configuration(), Scoreboard(), case.program().executable()
    memory = WordMemory(BUS_ERRORS)
    memory.update(executable.words())
    data = CoreMemory(dut, "data", memory, conditions.data, rng)
    code = CoreMemory(dut, "instr", memory, conditions.fetch, rng)
    interrupts = InterruptDriver(dut, conditions.interrupts * case.interrupts, rng)
    monitor = RetirementMonitor(dut, "rvfi_", extra=["irq"])
    with AgentGroup(dut, [data, code, interrupts, monitor]):
        await boot(dut)
        done = False
        for cycle in range(_CYCLE_LIMIT):
            await RisingEdge(dut.clk)
            done = bool(data.log) and data.log[-1].address == executable.tohost
            if done or cycle == reset_after:
                break
        # the last store has not retired yet
        await ClockCycles(dut.clk, IDLE_CYCLES)
    if reset_after is None:
        lockstep = Lockstep(executable, config, hart_id=HART_ID, errors=BUS_ERRORS)
        records = monitor.records()
        lines = interrupt_lines(records, [row[-1] for row in monitor.rows], interrupts.taken, board)
        # records first: their differences are more informative than a missing end
        check_retirements(lockstep, records, data.log, board, lines)
        waits = {cause: monitor.waits[cause] for cause in (WaitCause.GRANT, WaitCause.RESPONSE)}
        counted = {WaitCause.GRANT: data.cycles_refused, WaitCause.RESPONSE: data.cycles_unanswered}
        board.equal(waits, counted, "cycles in which the data memory keeps everything waiting")
        for name, value in (("halt", 0), ("mode", MACHINE_MODE), ("ixl", 1)):
            board.compare({name: np.full(len(records), value)}, {name: records[name]})
        assert done, f"no end of {case.name} within {_CYCLE_LIMIT} cycles (seed {board.seed})"
        places = sorted({grant.address for grant in data.log if grant.write and not memory.fails(grant.address)})
        want = [lockstep.iss.memory.read(address, WORD_BYTES) for address in places]
        board.compare({"memory": want}, {"memory": [memory[address] for address in places]}, {"address": places})
        board.equal(case.problems(memory.bytes_at), [], "results")
    await pulse_reset(dut)


@unit_test((("conditions", "every"), [(QUIET, 3), (BUSY, 1), (STALLING, 3)]))
async def programs_match_the_simulator(dut: Dut, rng: Random, conditions: _Conditions, every: int) -> None:
    """Programs with interrupts at random times, with ideal memories, and with slow memories."""
    cases, part = short_programs(configuration(), _SHORT), bench_data()["part"]
    for case in rng.sample(cases, len(cases))[:: every * part]:
        await _run_program(dut, _interrupted(case) if conditions.interrupts else case, conditions, rng)


@unit_test()
async def a_reset_in_flight_starts_again(dut: Dut, rng: Random) -> None:
    """Resets come at random times with outstanding accesses; the next program is not affected."""
    *reset, last = rng.sample(short_programs(configuration(), _SHORT), 4)
    for case in reset:
        await _run_program(dut, case, STALLING, rng, reset_after=rng.randrange(20, 300))
    await _run_program(dut, last, QUIET, rng)
