"""Instruction streams for the back end: the simulator that makes them, their driver, and a monitor of retirements.

A stream holds the instructions that a program would execute, in order. The simulator is stepped with the words the
bench chooses, so that any instruction may follow any other and control may go anywhere.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

import numpy as np
import numpy.typing as npt
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import BYTE_BITS, HALF_BYTES, LENGTH_MASK, WORD_BYTES, WORD_MASK, ExceptionCause
from xpulpnn.isa.retirement import CYCLE, RETIREMENT_FIELDS, VALID, WAIT, WaitCause
from xpulpnn_sim.benches.agents.base import Dut, PortMonitor, drive, sample, wait_until
from xpulpnn_sim.benches.agents.obi import WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.reference.golden.tcdm import Request
from xpulpnn_sim.reference.iss.core import Iss, Retired
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.iss.memory import BusError, Memory
from xpulpnn_sim.reference.programs.retirements import GRANT, RETIREMENT, Records


class RetirementMonitor(PortMonitor):
    """Collects the retirements of a core or back end at its ports ``<prefix>valid``, ``<prefix>insn``, ...

    :attr:`waits` counts the cycles without a retirement by their cause. A cycle with neither a retirement nor
    a cause raises ``AssertionError``.
    """

    def __init__(self, dut: Dut, prefix: str, extra: Sequence[str] = ()) -> None:
        self._fields = [field.name for field in RETIREMENT_FIELDS if hasattr(dut, prefix + field.name)]
        super().__init__(dut, [*(prefix + name for name in self._fields), *extra])
        self.waits = Counter[int]()
        self._cycles: list[int] = []
        self._valid, self._wait = (getattr(dut, prefix + field.name) for field in (VALID, WAIT))

    def sample(self) -> None:
        if sample(self._valid):
            self._cycles.append(len(self._cycles) + self.waits.total())
            super().sample()
        else:
            cause = sample(self._wait)
            assert cause != WaitCause.NONE, "nothing retires for no reason"
            self.waits[cause] += 1

    def records(self) -> Records:
        """Return a structured array, shape (retirements,), with the fields of RVFI and the cycle of each."""
        records = np.zeros(len(self.rows), RETIREMENT)
        for name, values in zip(self._fields, zip(*self.rows, strict=True), strict=False):
            records[name] = values
        records[CYCLE.name] = self._cycles
        return records


def check_retirements(
    lockstep: Lockstep, records: Records, log: Sequence[Request], board: Scoreboard, lines: npt.ArrayLike | None = None
) -> None:
    """Compare the records, and the accesses of the data bus in their order, with the simulator."""
    grants = np.array([(0, 0, at, write, enables, value, 0) for at, write, enables, value in log], GRANT)
    difference = lockstep.compare(records, lines, grants)
    assert difference is None, f"{board.unit} (seed {board.seed}): {difference.text if difference else ''}"
    board.compare({"order": range(len(records))}, {"order": records["order"]})
    board.equal(len(lockstep.grants), 0, "grants of the data bus without an instruction")


BOOT_ADDRESS = 0x1000
PIPELINE_STAGES = 4
ACCEPT_LIMIT = 400
"""Cycles within which an instruction must be accepted; enough for a division and a slow memory."""


class StreamMemory(Memory):
    """Data as in a :class:`WordMemory`; every fetch, at any address, returns the next word of the stream."""

    def __init__(self, words: Iterable[int], failing: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__()
        self.data = WordMemory(failing)
        self._chosen = iter(words)

    def fetch(self, address: int) -> int:
        return next(self._chosen)

    def read(self, address: int, size: int) -> int:
        self._require(address)
        return self.data.load(address) & (1 << BYTE_BITS * size) - 1

    def write(self, address: int, size: int, value: int) -> None:
        self._require(address)
        self.data.store(address, size, value)

    def _require(self, address: int) -> None:
        if self.data.fails(address):
            raise BusError


def stream_of(config: CoreConfig, words: Sequence[int], failing: tuple[tuple[int, int], ...] = ()) -> Iterator[Retired]:
    """Yield the retirements of a hart that executes ``words`` in order, whichever addresses it jumps to."""
    iss = Iss.of(config, BOOT_ADDRESS, memory=StreamMemory(words, failing))
    for _ in words:
        retired = iss.step().retired
        assert retired is not None
        yield retired


def word_of(item: Retired) -> int:
    return item.record["insn"] if item.fetched is None else item.fetched.word


def name_of(item: Retired) -> str:
    return f"{item.fetched.insn.mnemonic if item.fetched else 'illegal'} {word_of(item):#010x}"


def is_compressed(item: Retired) -> bool:
    return item.record["insn"] & LENGTH_MASK != LENGTH_MASK


def is_branch(item: Retired) -> bool:
    return item.fetched is not None and item.fetched.insn.is_branch


def sequel_of(item: Retired) -> int:
    return (item.record["pc_rdata"] + (HALF_BYTES if is_compressed(item) else WORD_BYTES)) & WORD_MASK


def is_access_fault(item: Retired) -> bool:
    """Return whether the bus answers the instruction's access with an error, which the core learns in WB."""
    return item.cause in (ExceptionCause.LOAD_ACCESS_FAULT, ExceptionCause.STORE_ACCESS_FAULT)


def redirect_of(item: Retired) -> int | None:
    if item.fetched is None or item.cause is not None:
        return None
    after = item.record["pc_wdata"]
    return after if item.fetched.insn.is_jump or (is_branch(item) and after != sequel_of(item)) else None


class StreamDriver:
    """Offers a stream of instructions with the bubbles that fetching causes; the only writer of ``insn__*``.

    A jump is followed by one cycle without an instruction, a taken branch by such cycles until ``branch__valid`` and
    one more. While a taken branch is waiting, and in cycles without an instruction, the payload shows other
    instructions, which must have no effect.
    """

    def __init__(self, dut: Dut, rng: Random, pause: float) -> None:
        self.dut, self.rng, self.pause = dut, rng, pause
        self.cycle = 0
        self.accepted: list[int] = []

    def _show(self, word: int, pc: int, *, valid: bool, compressed: bool = False, raw: int = 0, after: int = 0) -> None:
        payload = {"word": word, "pc": pc, "compressed": int(compressed)}
        drive(self.dut, {f"insn__payload__{name}": value for name, value in payload.items()})
        drive(self.dut, {"info__raw": raw, "info__next_pc": after, "insn__valid": int(valid)})

    def _offer(self, item: Retired) -> None:
        # for a branch the front end predicts the next address in memory
        pc, raw, following = (item.record[name] for name in ("pc_rdata", "insn", "pc_wdata"))
        after = sequel_of(item) if is_branch(item) else following
        self._show(word_of(item), pc, valid=True, compressed=is_compressed(item), raw=raw, after=after)

    async def _cycle(self) -> None:
        await RisingEdge(self.dut.clk)
        self.cycle += 1

    async def _bubble(self) -> None:
        self._show(self.rng.getrandbits(32), self.rng.getrandbits(32), valid=False)
        await FallingEdge(self.dut.clk)
        self._check("without an instruction")
        await self._cycle()

    def _check(
        self, where: str, *, jump: int | None = None, branch: int | None = None, trap: int | None = None
    ) -> None:
        dut = self.dut
        for name, detail, expected in (("jump", "target", jump), ("branch", "target", branch), ("trap", "cause", trap)):
            got = sample(getattr(dut, f"{name}__{detail}")) if sample(getattr(dut, f"{name}__valid")) else None
            assert got == expected, f"{name} to {got}, expected {expected}, {where} (cycle {self.cycle})"

    async def _await(self, signal: Dut, event: str, check: Callable[[bool], None]) -> None:
        """Check each cycle, with the value of ``signal``, until the signal is 1."""
        for _ in range(ACCEPT_LIMIT):
            await FallingEdge(self.dut.clk)
            happens = sample(signal) > 0
            check(happens)
            await self._cycle()
            if happens:
                return
        raise AssertionError(f"{event} not within {ACCEPT_LIMIT} cycles (cycle {self.cycle})")

    async def run(self, stream: Iterable[Retired]) -> None:
        """Feed all instructions; :attr:`accepted` holds the cycle in which each was accepted."""
        dut, wrong_path = self.dut, self.rng.getrandbits(32)
        for item in stream:
            while self.rng.random() < self.pause:
                await self._bubble()
            target, where = redirect_of(item), f"with {name_of(item)} at {item.record['pc_rdata']:#x}"
            jump, branch = (None, target) if is_branch(item) else (target, None)
            trap = None if is_access_fault(item) else item.cause

            def check_acceptance(ready: bool, where=where, jump=jump, trap=trap) -> None:
                self._check(where, **{"jump": jump, "trap": trap} if ready else {})

            def check_branch(resolved: bool, branch=branch) -> None:
                self._check("behind a branch", branch=branch if resolved else None)
                assert resolved or not sample(dut.insn__ready), "an instruction behind a waiting branch is accepted"

            self._offer(item)
            await self._await(dut.insn__ready, f"{name_of(item)} accepted", check_acceptance)
            self.accepted.append(self.cycle - 1)
            if branch is not None:
                # an instruction of the wrong path must not be accepted
                self._show(wrong_path, self.rng.getrandbits(32) & ~LENGTH_MASK, valid=True)
                await self._await(dut.branch__valid, "branch", check_branch)
            if target is not None:
                await self._bubble()
            if is_access_fault(item):
                self._show(self.rng.getrandbits(32), self.rng.getrandbits(32), valid=False)
                await self._await(dut.fault__valid, "access fault", lambda _: None)
                await self._bubble()
            wrong_path = word_of(item)
        self._show(0, 0, valid=False)

    async def drain(self) -> None:
        await wait_until(self.dut, lambda: not sample(self.dut.busy), ACCEPT_LIMIT, "idle after the last instruction")
        # the record of an instruction that traps still travels down the pipeline
        await ClockCycles(self.dut.clk, PIPELINE_STAGES)
