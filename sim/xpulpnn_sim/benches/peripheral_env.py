"""Environment of peripherals: transfers to their registers, compared with a model in every cycle."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, Protocol

from cocotb.triggers import ClockCycles

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.base import Dut, PortMonitor, pulse_reset
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, ENABLED, ObiManager, ObiTransfer
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.reference.stimuli import OFFSET_BITS, separating_words


class PeripheralModel(Protocol):
    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...

    def cycle(self) -> Mapping[str, int]:
        """Advance by a cycle; return the outputs in it, by port."""
        ...


async def run_transfers(
    dut: Dut, model: PeripheralModel, base: int, registers: Collection[int], transfers: Sequence[ObiTransfer]
) -> list[Any]:
    """Reset the peripheral and make transfers at ``port``; compare all answers and outputs; return the outputs.

    Exactly the accesses to ``registers``, which are offsets from ``base``, succeed. A row of the outputs is a cycle.
    """
    board, outputs = Scoreboard(), [name for name in bench_data()["outputs"] if not name.startswith("port__")]
    await pulse_reset(dut)
    with ObiManager(dut, "port") as software, PortMonitor(dut, outputs) as monitor:
        await software.run(transfers)
        await ClockCycles(dut.clk, 2)
    granted = {transfer.granted: transfer for transfer in transfers}
    for cycle, row in enumerate(monitor.rows):
        transfer = granted.get(cycle)
        offset = -1 if transfer is None else transfer.address - base
        where, exists = f"in cycle {cycle}, offset {offset:#x}", offset in registers
        # bytes that are not written hold their value, even if other bytes of the register count on
        before = model.read(offset) if exists else 0
        board.equal(row._asdict(), {**model.cycle()}, f"outputs {where}")
        if transfer is None:
            continue
        board.equal((transfer.failed, transfer.answered), (not exists, cycle + 1), f"error and cycle of answer {where}")
        if not transfer.write:
            board.equal(transfer.data, before, f"data {where}")
        elif exists:
            mask = ENABLED[transfer.enables]
            model.write(offset, before & ~mask | transfer.value & mask)
    return monitor.rows


def register_words(base: int, offsets: Iterable[int], rng: Random) -> Iterator[ObiTransfer]:
    """Write words and parts of words to registers and read them; any two bits differ in some word, to notice swapped
    bits."""
    single_bytes = [1 << byte for byte in range(WORD_BYTES)]
    for offset, word in product(offsets, separating_words(rng)):
        for enables in (ALL_BYTES, *rng.sample(single_bytes, WORD_BYTES), rng.randrange(ALL_BYTES)):
            value = word if enables == ALL_BYTES else word ^ WORD_MASK
            yield ObiTransfer(base + offset, 1, enables=enables, value=value)
            yield ObiTransfer(base + offset)


def near_accesses(
    base: int, registers: Collection[int], offset_bits: Iterable[int] = OFFSET_BITS
) -> Iterator[ObiTransfer]:
    """Access offsets one bit away from registers where no register is; no register may change."""
    for offset, bit in product(registers, offset_bits):
        if (near := offset ^ 1 << bit) not in registers:
            yield from (ObiTransfer(base + offset, 1, value=0), ObiTransfer(base + near))
            yield from (ObiTransfer(base + near, 1, value=WORD_MASK), ObiTransfer(base + offset))
