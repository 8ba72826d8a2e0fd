"""Bench of the core: a program with traps, interrupts, sleep and loops, every retirement against the simulator."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import DATA_BASE, ENTRY, IRQ_PRIORITY, MACHINE_MODE, TEXT_BASE, VECTORS, WORD_BYTES
from xpulpnn.isa.retirement import CAUSE_CODE, WaitCause
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, Stepwise, Together, drive, pulse_reset, sample, start
from xpulpnn_sim.benches.handover import bench_data, configuration
from xpulpnn_sim.benches.obi import PROMPT, ObiResponder, ObiTiming, WordMemory
from xpulpnn_sim.benches.stream import RetirementMonitor, check_retirements
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.elf import Executable, Segment
from xpulpnn_sim.reference.programs.trace import Records
from xpulpnn_sw.assembly.asm import assemble

DATA_WORDS = 64
DONE_ADDRESS = 0x2000_0000  # a store here ends the run
FAILING = (0x3000_0000, 0x10)  # First address and size of words that the bus answers with an error

_START = """
    li x8, {data}; addi x16, x8, 64
    li x5, 0xFFFF0888; csrw mie, x5; csrsi mstatus, 8
"""

_COMPRESSED = """
    c.li x10, 7; c.lui x11, 3; c.addi x10, -3; addi x12, x10, 100
    c.add x12, x11; c.sub x12, x10; c.slli x12, 2; xor x13, x12, x11
    c.sw x13, 4(x8); c.lw x14, 4(x8); c.and x14, x12
    sw x14, 9(x8); lh x15, 11(x8); c.addi x15, 1
    mulh x14, x13, x12; div x13, x13, x10
    lb x9, 3(x8); c.add x9, x13
"""

_CONTROL = """
    c.jal leaf; jal x1, leaf
    la x5, leaf; c.jalr x5
    addi x5, x5, 2; jalr x1, -2(x5)
    c.j 1f; .half 0
1:  li x6, 4
2:  c.addi x6, -1; add x9, x9, x6; bne x6, x0, 2b
    c.li x10, 0; c.beqz x10, 3f; .word 0
3:  c.bnez x10, 3b
    beq x9, x9, 4f; .half 0
4:  lw x6, 0(x8); blt x6, x0, 5f; c.addi x9, 1
5:  add x9, x9, x6
    # often an interrupt comes while a branch is undecided
    li x10, 100
6:  lw x7, 0(x8); c.addi x10, -1; c.bnez x10, 6b
"""

_SYSTEM = """
    ecall; c.ebreak; ebreak; .half 0; .word 0xFFFFFFFF
    csrw mhartid, x9; csrr x5, 0x123
    csrr x5, mhartid; add x9, x9, x5
    csrr x5, misa; csrr x5, mtvec
    csrrw x5, mscratch, x9; csrrsi x5, mscratch, 21; csrrc x5, mscratch, x12; csrr x5, mscratch
    csrrwi x0, mcountinhibit, 4; c.nop; csrrwi x5, mcountinhibit, 0
    la x5, patched
    li x6, 0x04048493           # addi x9, x9, 64
    sw x6, 0(x5); fence.i
patched:
    addi x9, x9, 1; fence
    wfi; c.addi x9, 1
    csrci mstatus, 8; wfi; addi x9, x9, 1
    csrsi mstatus, 8; addi x9, x9, 1
    # traps go to the block of the exception handler, interrupts no longer to their own entries
    csrci mtvec, 1; ecall; wfi; csrsi mtvec, 1
"""

_FAULTS = """
    li x5, {failing}
    lw x6, 0(x5); ecall
    sw x6, 4(x5); c.addi x9, 1
    lh x6, 3(x5); mulh x9, x9, x9; c.lw x10, 4(x8)
    sw x9, 8(x5); bne x9, x10, 1f; c.addi x9, 1
1:  lbu x6, 9(x5); .word 0; add x9, x9, x6
"""

_FAILING_LOOPS = """
    li x5, {failing}; li x6, 4
    lp.setupi 0, 3, 1f
    c.addi x9, 1
1:  p.lw x7, 4(x5!)
    lp.setupi 0, 4, 2f
    p.sw x9, 4(x5!)
2:  add x9, x9, x7
    p.lw x7, x6(x5!)
    lp.setup 1, x6, 3f
    c.addi x9, 3
3:  add x9, x9, x5
"""

_LOOPS = """
    lp.setupi 0, 3, 1f
1:  addi x9, x9, 3
    lp.setupi 0, 0, 1f
1:  c.addi x9, 1
    lp.setupi 1, 3, 3f
    c.addi x10, 1
    lp.setupi 0, 3, 2f
    c.addi x9, 1
2:  c.addi x10, 1
3:  add x9, x9, x10
    lp.setupi 1, 3, 4f
    lp.setupi 0, 2, 4f
    c.addi x9, 1
4:  c.addi x10, 1
    li x5, 5
    lp.setup 0, x5, 5f
    lw x11, 0(x8)
5:  bne x11, x11, 1b
    lp.starti 1, 6f; lp.endi 1, 7f; lp.counti 1, 3
6:  c.addi x9, 1
7:  csrr x11, lpcount1
    add x9, x9, x11
    lp.setupi 0, 4, 8f
8:  csrr x11, lpcount0
    lp.setupi 0, 3, 9f
    c.addi x10, 1
9:  csrrci x11, lpcount0, 3
    csrrwi x11, lpcount0, 1
    lp.setupi 0, 4, 1f
    c.addi x10, -1
1:  ecall
    lp.setupi 1, 4, 1f
    c.addi x10, 1; c.nop
1:  c.beqz x10, 1f
    c.li x10, 0
1:  addi x9, x9, 1
    lp.setupi 0, 3, 1f
    c.nop
1:  jal x1, 2f
2:  p.lw x11, 4(x16!); p.sw x11, 4(x16!); p.lh x12, x0(x16!); p.elw x13, 8(x8)
    p.mac x9, x11, x12; pv.sdotusp.b x9, x11, x12; pv.shuffle2.b x10, x11, x12
    p.clip x12, x9, 7; p.bneimm x12, 5, 3f
3:  csrr x5, lpend1; add x9, x9, x5
"""

_NARROW = """
    pv.add.n x11, x9, x12; pv.sdotup.c x9, x11, x12
"""

_MAC_LOAD_NN = """
    addi x17, x8, 0; pv.mlsdotup.b x0, (x17!), 8; pv.mlsdotup.b x0, (x17!), 16
    lp.setupi 0, 6, 1f
    pv.mlsdotusp.b x9, (x17!), 8; pv.mlsdotsp.n x10, (x17!), 16
1:  pv.mlsdotup.c x11, (x17!), 0
    add x9, x9, x10
"""

_MAC_LOAD_CU = """
    addi x17, x8, 4
    lp.setupi 0, 4, 1f
    pv.cusdotusp.b.1 x9, (x17!), x12
1:  pv.cusdotup.n.1 x10, (x17!), x9
"""

_MAC_LOAD_CROSS = """
    addi x17, x8, 8
    lp.setupi 0, 5, 1f
    pv.mlsdotsup.b x9, (x17!), 24; pv.mlsdotup.n x10, (x17!), 31
1:  pv.mlsdotsp.h x11, (x17!), 1
    add x9, x9, x10
"""

_MAC_LOAD_DOT = """
    addi x17, x8, 12; pv.mldotsup.c x10, (x17!), 16
    lp.setupi 0, 3, 1f
    pv.mlsdotsup.c x10, (x17!), 8
1:  pv.mldotup.b x9, (x17!), 0
    add x9, x9, x10
"""

_REQUANTISATION = """
    addi x17, x8, 4; li x18, 22; pv.rqld 0, (x17!); pv.rqld 1, (x17!)
    pv.rqu.b x9, x12, x18, 1; add x10, x10, x9
    lp.setupi 0, 6, 1f
    pv.rqs.n x11, x10, x18, 7; pv.rqld 1, (x17!); pv.rqu.n x11, x10, x18, 0
1:  pv.rqs.b x10, x9, x18, 2
    lw x9, 4(x8); pv.rqs.c x9, x11, x18, 15; sw x9, 40(x8)
    pv.rqld 0, (x17!); fence.i; pv.rqu.c x9, x11, x18, 3
    c.beqz x9, 2f; pv.rqu.b x9, x9, x18, 3
2:  add x9, x9, x17
    # a word that fails, between two results
    li x5, {failing}; pv.rqs.b x9, x11, x18, 0; pv.rqld 1, (x5!); pv.rqu.b x9, x12, x18, 1
    ecall; pv.rqs.b x9, x10, x18, 2
"""

_END = """
    csrr x5, minstret; csrr x6, minstreth
    csrci mstatus, 8
    li x7, {done}; li x5, 1; sw x5, 0(x7)
1:  c.j 1b
leaf:
    addi x9, x9, 16; c.jr x1
exception:
    csrr x29, mcause; add x28, x28, x29
    # in direct mode interrupts come here as well
    blt x29, x0, interrupt
    csrr x30, mepc; lhu x31, 0(x30); c.addi x30, 2
    andi x31, x31, 3; li x29, 3; bne x31, x29, 1f
    c.addi x30, 2
1:  csrw mepc, x30; mret
interrupt:
    csrr x29, mcause; add x27, x27, x29
    csrr x29, mepc; add x26, x26, x29
    csrr x29, mstatus; c.addi x25, 1; mret
"""


def _program(config: CoreConfig, rng: Random) -> Executable:
    """Vector table, the sections the configuration can execute, and random data."""
    vectors = "j exception\n" + "j interrupt\n" * (VECTORS - 1)
    # the order of the sections, and what is aligned with them, changes with the seed
    sections = [_COMPRESSED, _CONTROL, _SYSTEM, _FAULTS]
    optional = (
        (_LOOPS, config.xpulpv2),
        (_FAILING_LOOPS, config.xpulpv2),
        (_NARROW, config.xpulpnn),
        (_MAC_LOAD_NN, config.mac_load_nn),
        (_MAC_LOAD_CU, config.mac_load_cu),
        (_MAC_LOAD_CROSS, config.mac_load_cross),
        (_MAC_LOAD_DOT, config.mac_load_dot),
        (_REQUANTISATION, config.requantise),
    )
    sections += [text for text, present in optional if present]
    rng.shuffle(sections)
    fill = [text + "c.nop\n" * rng.randrange(2) for text in sections]
    text = vectors + _START + "".join(fill) + _END
    image = assemble(text.format(data=DATA_BASE, done=DONE_ADDRESS, failing=FAILING[0]), TEXT_BASE).to_bytes()
    data = rng.randbytes(WORD_BYTES * DATA_WORDS)
    segments = (Segment(DATA_BASE, data, len(data)), Segment(TEXT_BASE, image, len(image)))
    return Executable(Path("core_program"), ENTRY, segments, DONE_ADDRESS)


HART_ID = 0x0000_03E5
IDLE_CYCLES = 8  # cycles that the core sleeps, or waits for `fetch_enable`, before the bench goes on
_CYCLE_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Memories of a run and the probability per cycle that an interrupt line rises."""

    fetch: ObiTiming
    data: ObiTiming
    interrupts: float


QUIET = _Surroundings(PROMPT, PROMPT, 0.0)
BUSY = _Surroundings(PROMPT, PROMPT, 0.03)
STALLING = _Surroundings(ObiTiming(0.4, 1, 6), ObiTiming(0.5, 1, 4), 0.005)


Acknowledged = tuple[int, int]  # line of an acknowledged interrupt, and all lines that were high


class InterruptDriver(Stepwise):
    """Raises lines at random, and one whenever the core sleeps; a line falls when it is acknowledged."""

    def __init__(self, dut: Dut, rate: float, rng: Random) -> None:
        super().__init__(dut)
        self.taken: list[Acknowledged] = []
        self._dut, self._rate, self._rng = dut, rate, rng
        self._lines = self._asleep = 0

    def show(self) -> None:
        """Raise a line, or none."""
        if self._rng.random() < self._rate or self._asleep >= IDLE_CYCLES:
            self._lines |= 1 << self._rng.choice(IRQ_PRIORITY)
        self._dut.irq.value = self._lines

    def see(self) -> None:
        """Follow what the core acknowledges."""
        self._asleep = self._asleep + 1 if sample(self._dut.core_sleep) else 0
        if sample(self._dut.irq_ack):
            line = sample(self._dut.irq_id)
            self.taken.append((line, self._lines))
            self._lines &= ~(1 << line)

    def rest(self) -> None:
        """Raise nothing."""
        self._dut.irq.value = 0


async def boot(dut: Dut) -> None:
    """Nothing is fetched before ``fetch_enable``, which need not stay and is ignored once it has been seen."""
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
    """The lines at every retirement, of the first instruction of a handler those when the interrupt was taken."""
    lines, first = list(sampled), np.flatnonzero(records["intr"])
    # the last one may have been acknowledged after the last record
    assert len(taken) - len(first) in (0, 1), f"{len(taken)} interrupts acknowledged, {len(first)} taken"
    for at, (line, high) in zip(first, taken, strict=False):
        lines[at] = high
        if not records["trap"][at]:
            board.equal(records["cause"][at] & CAUSE_CODE, line, f"acknowledged interrupt, retirement {at}")
    return lines


async def _run_program(dut: Dut, around: _Surroundings, rng: Random, *, reset_after: int | None = None) -> None:
    """Run a freshly drawn program to its end and check it, or reset the core on the way."""
    # no access is under way while the core sleeps: its answer would be lost without a clock
    config, board, memory = configuration(), Scoreboard(), WordMemory((FAILING,))
    executable = _program(config, rng)
    memory.update(words_of(executable))
    data = ObiResponder(dut, "data", memory, around.data, rng, asleep=dut.core_sleep)
    code = ObiResponder(dut, "instr", memory, around.fetch, rng, asleep=dut.core_sleep)
    interrupts, monitor = InterruptDriver(dut, around.interrupts, rng), RetirementMonitor(dut, "rvfi_", extra=["irq"])
    with Together(dut, [data, code, interrupts, monitor]):
        await boot(dut)
        done = False
        for cycle in range(_CYCLE_LIMIT):
            await RisingEdge(dut.clk)
            done = bool(data.log) and data.log[-1].address == DONE_ADDRESS
            if done or cycle == reset_after:
                break
        # the store at the end has yet to retire
        await ClockCycles(dut.clk, IDLE_CYCLES)
    if reset_after is None:
        lockstep = Lockstep(executable, config, hart_id=HART_ID, boot_address=ENTRY, errors=(FAILING,))
        records = monitor.records()
        lines = interrupt_lines(records, [row[-1] for row in monitor.rows], interrupts.taken, board)
        # first the records: where they differ tells more than that the end was not reached
        # an access that fails wholly is in no record
        succeeded = [grant for grant in data.log if not memory.fails(grant.address)]
        check_retirements(lockstep, records, succeeded, board, lines)
        waits = {cause: monitor.waits[cause] for cause in (WaitCause.GRANT, WaitCause.RESPONSE)}
        counted = {WaitCause.GRANT: data.cycles_refused, WaitCause.RESPONSE: data.cycles_unanswered}
        board.equal(waits, counted, "cycles in which the data memory keeps everything waiting")
        for name, value in (("halt", 0), ("mode", MACHINE_MODE), ("ixl", 1)):
            board.compare({name: np.full(len(records), value)}, {name: records[name]})
        assert done, f"no end within {_CYCLE_LIMIT} cycles (seed {board.seed})"
        places = [DATA_BASE + WORD_BYTES * index for index in range(DATA_WORDS)]
        want = [lockstep.iss.memory.read(address, WORD_BYTES) for address in places]
        board.compare({"memory": want}, {"memory": [memory[address] for address in places]}, {"address": places})
    await pulse_reset(dut)


def words_of(executable: Executable) -> dict[int, int]:
    """The content of memory by aligned address."""
    return {
        segment.address + at: int.from_bytes(segment.data[at : at + WORD_BYTES], "little")
        for segment in executable.segments
        for at in range(0, segment.size, WORD_BYTES)
    }


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(around=[QUIET, BUSY, STALLING])
async def programs_match_the_simulator(dut: Dut, around: _Surroundings) -> None:
    """With ideal and slow memories, with and without interrupts at random times."""
    rng = await start(dut)
    for _ in range(bench_data()["programs"]):
        await _run_program(dut, around, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_in_flight_starts_again(dut: Dut) -> None:
    """Resets at random times, accesses under way; the next program finds a clean core."""
    rng = await start(dut)
    for _ in range(3):
        await _run_program(dut, STALLING, rng, reset_after=rng.randrange(20, 300))
    await _run_program(dut, QUIET, rng)
