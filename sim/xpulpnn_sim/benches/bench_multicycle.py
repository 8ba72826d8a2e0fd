"""Bench of the units with multi-cycle operations: multiplier, divider, EX stage.

Handshake: ``start`` is high with stable operands while the operation is in EX; ``done`` marks a valid result; the
operation leaves at the end of a cycle with ``done`` and ``take``; a falling ``start`` abandons it. The launcher passes
the names of the ports ``start`` and ``take``.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.machine import NNRF_ENTRIES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents import Dut, Scoreboard, drive, pulse_reset, run_vectors, sample, unit_test
from xpulpnn_sim.benches.bench_rows import check_rows, controlled_rows, drawn_executions, vectors_of
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.benches.pipeline_timing import arithmetic_cycles
from xpulpnn_sim.benches.vectors.operands import sources
from xpulpnn_sim.benches.vectors.register_files import NnEntries, ex_stage_accesses
from xpulpnn_sim.benches.vectors.rows import Executions, RowVectors, operation_result
from xpulpnn_sim.reference.stimuli import random_words

_GAP_PROBABILITY = 0.3
MAX_WAIT = 3
_CYCLE_LIMIT = 64
_PARTS = 4
_NN_BEATS = 300


def random_gap(rng: Random, probability: float) -> int:
    return rng.randint(1, MAX_WAIT) if rng.random() < probability else 0


class OperationDriver:
    def __init__(self, dut: Dut) -> None:
        self._dut = dut
        self._start, self._take = (getattr(dut, name) for name in bench_data()["handshake"])

    async def idle(self, cycles: int) -> None:
        self._start.value = 0
        await ClockCycles(self._dut.clk, cycles)

    async def abandon(self, operation: dict[str, int], cycles: int) -> None:
        drive(self._dut, operation)
        self._start.value = 1
        await ClockCycles(self._dut.clk, cycles)
        await self.idle(1)

    async def execute(self, operation: dict[str, int], hold: int, outputs: Collection[str]) -> tuple[list[int], int]:
        dut = self._dut
        drive(dut, operation)
        self._start.value = 1
        results: list[list[int]] = []
        for cycle in range(1, _CYCLE_LIMIT):
            await FallingEdge(dut.clk)
            if sample(dut.done):
                results.append([sample(getattr(dut, name)) for name in outputs])
                assert results[0] == results[-1], f"result changed while waiting: {results} of {operation}"
            if len(results) > hold:
                self._take.value = 1
                await RisingEdge(dut.clk)
                self._take.value = 0
                return results[0], cycle - hold
            await RisingEdge(dut.clk)
        raise AssertionError(f"no result within {_CYCLE_LIMIT} cycles of {operation}")


async def run_operations(dut: Dut, vectors: RowVectors, rng: Random, board: Scoreboard) -> None:
    driver, config = OperationDriver(dut), configuration()
    columns = (column.tolist() for column in vectors.stimulus.values())
    operations = [dict(zip(vectors.stimulus, row, strict=True)) for row in zip(*columns, strict=True)]
    results: list[list[int]] = []
    cycles: list[int] = []
    for operation in operations:
        gap, flush = random_gap(rng, _GAP_PROBABILITY), random_gap(rng, 0.15)
        if gap:
            await driver.idle(gap)
        if flush:
            await driver.abandon(rng.choice(operations), flush)
        result, taken = await driver.execute(operation, random_gap(rng, 0.3), vectors.expected)
        results.append(result)
        cycles.append(taken)
    check_rows(board, vectors, dict(zip(vectors.expected, zip(*results, strict=True), strict=True)))
    insns = (vectors.insns[row] for row in vectors.row)
    expected = [arithmetic_cycles(insn, given["op_b"], config) for insn, given in zip(insns, operations, strict=True)]
    board.compare({"cycles": expected}, {"cycles": cycles}, vectors.stimulus, "cycles to done")


@unit_test()
async def results_match_golden(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """All operations in random order, with flushes, delayed results and gaps; then some again after a reset."""
    rows = controlled_rows()
    product = "product" if "product" in bench_data()["outputs"] else "result"
    options = {"pairs": "pair" in bench_data()["inputs"], "late": configuration().multiplies_by_dotp}
    expectation = partial(operation_result, **options, product=product)
    for chosen in (rows, rng.sample(rows, -(-len(rows) // _PARTS))):
        entries = NnEntries(bench_data()["inputs"], rng)
        for write in entries.writes():
            drive(dut, write)
            await RisingEdge(dut.clk)
            dut.wb_nn_we.value = 0
        drawn = [(insn, control, entries.read_by(insn, src)) for insn, control, src in drawn_executions(chosen, rng)]
        await run_operations(dut, vectors_of(drawn, rng, expectation), rng, board)
        # reset while an operation is in EX
        getattr(dut, bench_data()["handshake"][0]).value = 1
        await pulse_reset(dut)


@unit_test()
async def divisors_have_every_length(dut: Dut, rng: Random) -> None:
    """Divisors with every number of leading zeros (signed also leading ones), every power of two, and 0."""
    drawn: list[Executions] = []
    for insn, control in controlled_rows():
        if insn.divides:
            signed = not insn.mnemonic.endswith("u")
            divisors = [WORD_MASK >> leading & ~rng.getrandbits(XLEN - 1 - leading) for leading in range(XLEN)]
            rng.shuffle(divisors)
            divisors = [~divisor for divisor in divisors] if signed else divisors
            pairs = [(_multiple(divisor, rng, signed=signed), divisor) for divisor in divisors]
            pairs += [(1, 0), (WORD_MASK, 0)]
            # powers of two: one bit alone keeps the divisor from being 0
            powers = range(1, XLEN) if signed else ()
            pairs += [(-rng.randint(1, WORD_MASK >> bit) << bit - 1, 1 << bit) for bit in powers]
            rs1, rs2 = (np.array(column, np.int64).astype(np.uint32) for column in zip(*pairs, strict=True))
            drawn.append((insn, control, replace(sources(insn, len(rs2), rng), rs1=rs1, rs2=rs2)))
    if drawn:
        await run_operations(dut, vectors_of(drawn, rng), rng, Scoreboard())


def _multiple(divisor: int, rng: Random, *, signed: bool) -> int:
    """Return a multiple of the divisor, or one less, so that every bit of the divisor affects the quotient."""
    greatest = (WORD_MASK >> signed) // (abs(divisor) or 1)
    return divisor * rng.randint(1, max(1, greatest)) * rng.choice((1, -1) if signed else (1,)) - rng.randrange(2)


@unit_test(skip="wb_nn_we" not in bench_data()["inputs"])
async def nn_words_match_writes(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """The NN-RF is read from ID and written from WB, whatever is in EX; reads see the newest word."""
    ports, words = ex_stage_accesses(NNRF_ENTRIES, _NN_BEATS, rng, pairs="pair" in bench_data()["inputs"])
    valid = {"valid": np.array([rng.randrange(2) for _ in range(_NN_BEATS)])}
    board.compare(words, await run_vectors(dut, ports | valid, list(words)), ports, "NN-RF")


@unit_test(skip="csr_rdata" not in bench_data()["inputs"])
async def csrs_leave_unchanged(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """CSR instructions return the value of the CSR, whatever the operands are."""
    columns = {name: random_words(rng, _NN_BEATS) for name in ("op_a", "op_b", "op_c", "csr_rdata")}
    columns |= {name: np.full(_NN_BEATS, value) for name, value in {**bench_data()["csr"], "valid": 1}.items()}
    board.compare({"result": columns["csr_rdata"]}, await run_vectors(dut, columns, ["result"]), columns)
