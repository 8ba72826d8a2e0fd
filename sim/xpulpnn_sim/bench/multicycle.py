"""Driver, monitor and procedure for the units that keep an instruction in EX for several cycles.

Handshake: ``start`` is high with stable operands while the operation is in EX; ``done`` marks a valid result; the
operation leaves at the end of a cycle with ``done`` and ``take``; a falling ``start`` abandons it.
"""

from dataclasses import dataclass
from random import Random

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn_sim.bench.costs import arithmetic_cycles
from xpulpnn_sim.bench.parts import Dut, Scoreboard, sample
from xpulpnn_sim.bench.unit_rows import Batch

FLUSH_PROBABILITY = 0.15
HOLD_PROBABILITY = 0.3
GAP_PROBABILITY = 0.3
MAX_WAIT = 3
CYCLE_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """How one operation is driven: cycles until a flush (0: none), cycles the result waits, idle cycles before it."""

    flush: int
    hold: int
    gap: int

    @classmethod
    def draw(cls, rng: Random) -> "Plan":
        """A random plan; most operations run through back to back."""

        def cycles(probability: float, limit: int) -> int:
            return rng.randint(1, limit) if rng.random() < probability else 0

        return cls(
            flush=cycles(FLUSH_PROBABILITY, MAX_WAIT),
            hold=cycles(HOLD_PROBABILITY, MAX_WAIT),
            gap=cycles(GAP_PROBABILITY, MAX_WAIT),
        )


@dataclass(frozen=True, slots=True)
class Handshake:
    """Names of the handshake ports."""

    start: str = "start"
    take: str = "take"
    done: str = "done"


UNIT_HANDSHAKE = Handshake()
"""Port names of multiplier and divider."""


class OperationDriver:
    """Presents operations and takes their results."""

    def __init__(self, dut: Dut, names: Handshake) -> None:
        self.dut = dut
        self.start, self.take, self.done = (getattr(dut, name) for name in (names.start, names.take, names.done))

    def _present(self, operation: dict[str, int]) -> None:
        for port, value in operation.items():
            getattr(self.dut, port).value = value
        self.start.value = 1

    async def idle(self, cycles: int) -> None:
        """Leave EX empty; operands and control word may be anything meanwhile."""
        self.start.value = 0
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)

    async def abandon(self, operation: dict[str, int], cycles: int) -> None:
        """Start an operation and flush it after some cycles without ever taking it."""
        self._present(operation)
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
        await self.idle(1)

    async def execute(self, operation: dict[str, int], hold: int) -> None:
        """Run an operation to the end; its result waits ``hold`` cycles until EX advances."""
        self._present(operation)
        waited = 0
        for _ in range(CYCLE_LIMIT):
            await FallingEdge(self.dut.clk)
            if sample(self.done):
                if waited == hold:
                    self.take.value = 1
                    await RisingEdge(self.dut.clk)
                    self.take.value = 0
                    return
                waited += 1
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"no done within {CYCLE_LIMIT} cycles of {operation}")


class ResultMonitor:
    """Samples every cycle: the result of each operation taken, the cycles to its first ``done``, and its stability."""

    def __init__(self, dut: Dut, names: Handshake) -> None:
        self.dut = dut
        self.start, self.take, self.done = (getattr(dut, name) for name in (names.start, names.take, names.done))
        self.results: list[int] = []
        self.cycles: list[int] = []
        self.unstable = 0

    async def run(self) -> None:
        """Sample until cancelled, in the middle of the cycle and again right before its end, when ``take`` is known."""
        busy = 0
        first: tuple[int, int] | None = None
        while True:
            await FallingEdge(self.dut.clk)
            busy = busy + 1 if sample(self.start) else 0
            if not busy:
                first = None
            elif sample(self.done):
                result = sample(self.dut.result)
                first = first or (result, busy)
                self.unstable += result != first[0]
            await RisingEdge(self.dut.clk)
            # This is the value driven in the second half of the cycle that ends here: writes come after the edge.
            if busy and first and sample(self.take):
                self.results.append(first[0])
                self.cycles.append(first[1])
                busy, first = 0, None


async def run_operations(dut: Dut, batch: Batch, rng: Random, what: str, names: Handshake = UNIT_HANDSHAKE) -> None:
    """Drive every vector of the batch, with random flushes, waits and gaps, and check results and cycle counts."""
    board, driver, monitor = Scoreboard(what), OperationDriver(dut, names), ResultMonitor(dut, names)
    sampling = cocotb.start_soon(monitor.run())
    columns = (column.tolist() for column in batch.stimulus.values())
    operations = [dict(zip(batch.stimulus, row, strict=True)) for row in zip(*columns, strict=True)]
    for operation in operations:
        plan = Plan.draw(rng)
        if plan.gap:
            await driver.idle(plan.gap)
        if plan.flush:
            await driver.abandon(rng.choice(operations), plan.flush)
        await driver.execute(operation, plan.hold)
    await driver.idle(1)
    sampling.cancel()
    batch.check(board, {"result": np.array(monitor.results, dtype=np.int64)})
    rows = (batch.insns[row] for row in batch.row)
    wanted = [arithmetic_cycles(insn, operation["op_b"]) for insn, operation in zip(rows, operations, strict=True)]
    board.compare({"cycles": wanted}, {"cycles": monitor.cycles}, batch.stimulus, "cycles to done")
    board.equal(monitor.unstable, 0, "results that changed while waiting")
