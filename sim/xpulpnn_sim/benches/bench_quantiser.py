"""Bench of the quantiser: codes, addresses and their order, and cycles, with an ideal and a stalling memory.

Handshake: ``start`` is high with stable operands while the operation is in EX, until the cycle with ``done``; a falling
``start`` abandons it. One threshold is outstanding at a time; ``answered`` is also high while there is none.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BITS, HALF_BYTES, HALF_MASK, QUANTISED_PIXELS, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.benches.agents import PROMPT, SLOW, Dut, ObiTiming, Scoreboard, drive, pulse_reset, sample, unit_test
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.reference.golden.dotp import quantise
from xpulpnn_sim.reference.golden.effects import U32, Sources

_GAP_PROBABILITY = 0.3
_CORNER_PROBABILITY = 0.4
_CORNERS = (0, 1, HALF_MASK, HALF_MASK >> 1, (HALF_MASK >> 1) + 1)
_NEAR = 4  # greatest distance of a pixel from a nearby threshold
_LAST_BITS = 6  # random low bits of an address near the end of a block of 64 KiB
_CYCLE_LIMIT = 200


@dataclass(slots=True)
class _Operation:
    insn: Insn
    pixels: int
    middle: int
    thresholds: dict[int, int]  # half-words by address, drawn when they are read
    # addresses in the order of the reference model: of pixel 0, then of pixel 1
    searched: list[int] = field(default_factory=list[int])
    result: int = 0

    @property
    def addresses(self) -> list[int]:
        """Return the threshold addresses in the order in which the unit reads them, alternating between the pixels."""
        reads = len(self.searched) // QUANTISED_PIXELS
        return [self.searched[pixel * reads + level] for level in range(reads) for pixel in range(QUANTISED_PIXELS)]


def random_operation(insn: Insn, rng: Random) -> _Operation:
    def half() -> int:
        return rng.choice(_CORNERS) if rng.random() < _CORNER_PROBABILITY else rng.getrandbits(HALF_BITS)

    pixels = [half() for _ in range(QUANTISED_PIXELS)]

    def threshold() -> int:
        if rng.random() < _CORNER_PROBABILITY:
            return (rng.choice(pixels) + rng.randint(-_NEAR, _NEAR)) & HALF_MASK
        return half()

    thresholds = defaultdict[int, int](threshold)
    middle = rng.getrandbits(XLEN)
    if rng.random() < _CORNER_PROBABILITY:
        # the addresses of the search cross a block of 64 KiB
        middle |= HALF_MASK ^ rng.getrandbits(_LAST_BITS)
    operation = _Operation(insn, pixels[0] | pixels[1] << HALF_BITS, middle, thresholds)

    def read_half(addresses: U32) -> U32:
        operation.searched += addresses.tolist()
        return np.array([thresholds[address] for address in addresses.tolist()], np.uint32)

    columns = [np.array([value], np.uint32) for value in (0, operation.pixels, operation.middle)]
    rd = quantise(insn, Sources(word=columns[0], rs1=columns[1], rs2=columns[2]), read_half).rd
    assert rd is not None
    operation.result = int(rd[0])
    return operation


class QuantiserDriver:
    def __init__(self, dut: Dut, timing: ObiTiming, rng: Random) -> None:
        self._dut, self._timing, self._rng = dut, timing, rng

    async def idle(self, cycles: int) -> None:
        for _ in range(cycles):
            drive(self._dut, {"start": 0, "granted": 0, "answered": 1, "threshold": self._rng.getrandbits(HALF_BITS)})
            await FallingEdge(self._dut.clk)
            assert not sample(self._dut.request), "request without an operation"
            await RisingEdge(self._dut.clk)

    async def execute(self, operation: _Operation, limit: int = _CYCLE_LIMIT) -> tuple[list[int], int | None, int]:
        dut, rng, timing = self._dut, self._rng, self._timing
        drive(dut, {"start": 1, "pixels": operation.pixels, "middle": operation.middle})
        dut.crumbs.value = operation.insn.mnemonic.endswith("c")
        addresses: list[int] = []
        ready_at, waiting = 0, None  # cycle of the last answer, and the address that is not granted yet
        for cycle in range(1, limit + 1):
            free = ready_at <= cycle
            threshold = operation.thresholds[addresses[-1]] if ready_at == cycle else rng.getrandbits(HALF_BITS)
            drive(dut, {"granted": 0, "answered": int(free), "threshold": threshold})
            await FallingEdge(dut.clk)
            if sample(dut.done):
                result = sample(dut.result)
                assert not sample(dut.request), "request in the cycle of the result"
                await RisingEdge(dut.clk)
                return addresses, result, cycle
            if free and sample(dut.request):
                address = sample(dut.address)
                assert waiting in (None, address), f"{waiting} changed to {address} before its grant"
                waiting = address
                if timing.grant >= 1 or rng.random() < timing.grant:
                    addresses.append(address)
                    dut.granted.value = 1
                    ready_at, waiting = cycle + rng.randint(timing.fastest, timing.slowest), None
            await RisingEdge(dut.clk)
        return addresses, None, limit


@unit_test(timing=[PROMPT, SLOW])
async def codes_and_addresses_match_golden(dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming) -> None:
    """Codes of 2 and 4 bits in random order, with and without gaps, some abandoned; again after a reset."""
    driver = QuantiserDriver(dut, timing, rng)
    config = configuration()
    rows = [insn for insn in enabled(config.extensions, config.widths) if insn.op == "pv.qnt"]
    for _ in range(2):
        for number in range(bench_data()["operations"]):
            if rng.random() < _GAP_PROBABILITY:
                await driver.idle(rng.randint(1, 3))
            insn = rng.choice(rows)
            least = QUANTISED_PIXELS * insn.elements.width + 1
            if rng.random() < 0.15:
                await driver.execute(random_operation(insn, rng), rng.randrange(1, least))
                await driver.idle(1)
            operation = random_operation(insn, rng)
            addresses, result, cycles = await driver.execute(operation)
            where = f"operation {number}, {insn.mnemonic} of 0x{operation.pixels:x} at 0x{operation.middle:x}"
            board.equal([*map(hex, addresses)], [*map(hex, operation.addresses)], f"{where}: addresses")
            board.equal(result, operation.result, f"{where}: result")
            if timing is PROMPT:
                board.equal(cycles, least, f"{where}: cycles")
            board.equal(all(address % HALF_BYTES == 0 for address in addresses), True, f"{where}: alignment")
        # reset during an operation
        await driver.execute(random_operation(rows[0], rng), 2)
        await pulse_reset(dut)
