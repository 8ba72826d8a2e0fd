"""Bench of the load-store unit: all sizes at all byte addresses, with an ideal and a stalling memory."""

from dataclasses import dataclass
from random import Random

import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.agents.base import Agent, Dut, drive, pulse_reset, sample, wait_until
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import PROMPT, SLOW, ObiMemory, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.bench_rows import controlled_rows
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.benches.vectors.operands import sources
from xpulpnn_sim.benches.vectors.rows import operands_of
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute
from xpulpnn_sim.reference.stimuli import random_words

WINDOW_BYTES = 32
_GAP_PROBABILITY = 0.2
_CYCLE_LIMIT = 64


@dataclass(slots=True)
class LsuAccess:
    insn: Insn
    ports: dict[str, int]
    address: int
    size: int
    store: int
    rdata: int = 0

    @property
    def crosses(self) -> bool:
        return self.address % WORD_BYTES + self.size > WORD_BYTES


def accesses_of_row(insn: Insn, control: dict[str, int], count: int, window: int, rng: Random) -> list[LsuAccess]:
    src = sources(insn, count, rng)
    targets = np.array([window + rng.randrange(WINDOW_BYTES) for _ in range(count)], dtype=np.uint32)
    src = Sources(word=src.word, rs2=src.rs2, rd=src.rd)
    from_zero = execute(insn, src).address
    assert from_zero is not None
    src.rs1 = targets - from_zero
    operands, effects = operands_of(insn, src), execute(insn, src)
    assert effects.size is not None
    stores = np.zeros(count, np.uint32) if effects.store is None else effects.store
    # register bytes above the stored ones do not matter
    wdata = src.rs2 if insn.is_store else random_words(rng, count)
    columns = (operands["op_a"], operands["op_a"] + operands["op_b"], wdata, targets, stores)
    return [
        LsuAccess(insn, {**control, "ex_base": base, "ex_sum": total, "ex_wdata": data}, address, effects.size, store)
        for base, total, data, address, store in zip(*(column.tolist() for column in columns), strict=True)
    ]


def accesses_of_all(window: int, rng: Random) -> list[LsuAccess]:
    count = bench_data()["vectors_per_row"]
    rows = controlled_rows()
    accesses = [access for insn, control in rows for access in accesses_of_row(insn, control, count, window, rng)]
    rng.shuffle(accesses)
    return accesses


def run_sequentially(accesses: list[LsuAccess]) -> WordMemory:
    memory = WordMemory()
    for access in accesses:
        if access.insn.is_store:
            memory.store(access.address, access.size, access.store)
        else:
            loaded = np.array([memory.load(access.address)], np.uint32)
            effects = execute(access.insn, Sources(word=np.zeros_like(loaded), loaded=loaded))
            assert effects.rd is not None
            access.rdata = int(effects.rd[0])
    return memory


async def drive_accesses(dut: Dut, accesses: list[LsuAccess], idle: dict[str, int], rng: Random) -> list[int]:
    cycles: list[int] = []
    for access in accesses:
        if rng.random() < _GAP_PROBABILITY:
            drive(dut, idle)
            await RisingEdge(dut.clk)
        drive(dut, access.ports)
        cycles.append(await wait_until(dut, lambda: sample(dut.ex_done), _CYCLE_LIMIT, "ex_done"))
    drive(dut, idle)
    return cycles


async def fault_of(dut: Dut, access: LsuAccess, idle: dict[str, int]) -> bool | None:
    """Present an access; return whether it is reported as a store fault, or None if it does not fault."""
    # EX requests nothing in the cycle of a fault, and is flushed
    drive(dut, access.ports)
    under_way = ended = False
    for _ in range(_CYCLE_LIMIT):
        await FallingEdge(dut.clk)
        fault, done = sample(dut.fault__valid), sample(dut.wb_done)
        assert not (fault and sample(dut.data__req)), "a request in the cycle of a fault"
        assert not (fault and under_way and done), "WB is done with an access that faults"
        in_ex, store, ended = sample(dut.ex_done), bool(sample(dut.fault__store)), under_way and bool(done)
        await RisingEdge(dut.clk)
        under_way |= bool(in_ex)
        if fault or under_way:
            drive(dut, idle)
        if fault:
            await RisingEdge(dut.clk)
            return store
        if ended:
            break
    drive(dut, idle)
    return None


class WritebackMonitor(Agent):
    """Follows accesses through WB: the address that the access had in EX, and the loaded value when WB is done."""

    def __init__(self, dut: Dut) -> None:
        super().__init__(dut)
        self.addresses: list[int] = []
        self.values: list[int] = []
        self._dut = dut

    def sample(self) -> None:
        done = sample(self._dut.wb_done)
        if len(self.values) == len(self.addresses):
            assert done, "WB waits without an access"
        elif done:
            self.values.append(sample(self._dut.wb_rdata))
        if sample(self._dut.ex_done):
            assert len(self.values) == len(self.addresses), "a second access entered WB"
            self.addresses.append(sample(self._dut.ex_address))


@unit_test(timing=[PROMPT, SLOW])
async def accesses_are_sequential(dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming) -> None:
    """Overlapping loads and stores equal a sequential memory; they take 1 cycle, misaligned ones 2."""
    data = bench_data()
    for window in (0x1000, 0xFFFF_FFE0):
        accesses = accesses_of_all(window, rng)
        expected, memory = run_sequentially(accesses), WordMemory()
        with ObiMemory(dut, "data", memory, timing, rng) as bus:
            with WritebackMonitor(dut) as monitor:
                cycles = await drive_accesses(dut, accesses, data["idle"], rng)
                await ClockCycles(dut.clk, _CYCLE_LIMIT)
            stored, requests = dict(memory), len(bus.log)
            # reset during an access, which gets no response
            drive(dut, accesses[0].ports)
            await RisingEdge(dut.clk)
        drive(dut, data["idle"])
        await pulse_reset(dut)
        context = {"address": [a.address for a in accesses], "size": [a.size for a in accesses]}
        loads = [index for index, access in enumerate(accesses) if access.insn.is_load]
        board.compare({"ex_address": context["address"]}, {"ex_address": monitor.addresses}, context)
        board.compare({"wb_rdata": [a.rdata for a in accesses]}, {"wb_rdata": monitor.values}, context, rows=loads)
        board.equal(stored, dict(expected), "memory at the end")
        board.equal(requests, sum(1 + access.crosses for access in accesses), "requests")
        if timing is PROMPT:
            expected_cycles = [1 + access.crosses for access in accesses]
            board.compare({"cycles": expected_cycles}, {"cycles": cycles}, context, "cycles in EX")


@unit_test(timing=[PROMPT, SLOW])
async def errors_are_faults(dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming) -> None:
    """Accesses to one failing word fault, request nothing afterwards and write nothing there."""
    data, window = bench_data(), 0x1000
    accesses = accesses_of_all(window, rng)
    bad = window + WINDOW_BYTES // 2
    memory = WordMemory(((bad, WORD_BYTES),))
    before = memory[bad]
    with ObiMemory(dut, "data", memory, timing, rng) as bus:
        for access in accesses:
            first = access.address & ~(WORD_BYTES - 1)
            words = [first, first + WORD_BYTES] if access.crosses else [first]
            requests = len(bus.log)
            fault = await fault_of(dut, access, data["idle"])
            where = f"{access.insn.mnemonic} at 0x{access.address:x}"
            board.equal(fault, access.insn.is_store if bad in words else None, f"fault of {where}")
            expected = words[: words.index(bad) + 1] if bad in words else words
            board.equal([grant.address for grant in bus.log[requests:]], expected, f"requests of {where}")
    board.equal(memory[bad], before, "the word that fails")
