"""Bench of the coprocessor behind CV-X-IF: random programs under a core's quirks, and cycles under a prompt core."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from random import Random

from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, pulse_reset
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import PROMPT, SLOW, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.agents.xif import CORES, CoreBehaviour, Offload, XifCore
from xpulpnn_sim.benches.agents.xif_memory import XifLoads, XifMemory
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.benches.vectors.xif import FAILING, STATE_WORDS, Instruction, XifPrograms
from xpulpnn_sim.reference.golden.xif import Coprocessor
from xpulpnn_sim.reference.stimuli import random_word

_START = 11  # most cycles of a step beside its products


class _Operands(WordMemory):
    """Words that are drawn when they are first read."""

    def __init__(self, rng: Random) -> None:
        super().__init__((FAILING,))
        self._rng = rng

    def __missing__(self, address: int) -> int:
        self[address] = random_word(self._rng)
        return self[address]


class _Bench:
    """A core, its memory, and the golden model; the coprocessor has just been reset."""

    def __init__(self, dut: Dut, behaviour: CoreBehaviour, timing: ObiTiming, rng: Random) -> None:
        memory, self._addresses = _Operands(rng), list[int]()

        def load(address: int) -> tuple[int, bool]:
            self._addresses.append(address)
            return memory[address], memory.fails(address)

        self.golden = Coprocessor(configuration(), load)
        self._core = XifCore(dut, behaviour, self._execute, rng)
        kinds = {"none": [], "xif": [XifMemory], "obi": [XifLoads]}[configuration().memory]
        self.memories = [kind(dut, self._core, memory, timing, rng) for kind in kinds]
        # memories check loads before the core completes its cycle
        self.agents = AgentGroup(dut, [*self.memories, self._core])

    def _execute(self, offload: Offload) -> tuple[int | None, list[int]]:
        self._addresses.clear()
        assert offload.insn is not None
        data = self.golden.execute(offload.insn, offload.word, offload.rs1, offload.rs2)
        return data, [*self._addresses]

    async def run(self, program: Sequence[Instruction]) -> list[Offload]:
        offloads = [Offload(word, rs1, rs2, self.golden.decode(word)) for word, rs1, rs2 in program]
        await self._core.run(offloads)
        return offloads


def _behaviour() -> CoreBehaviour:
    return CORES[bench_data()["design"].split()[0]]


def _without_losses() -> CoreBehaviour:
    """Return the behaviour of the core while it executes every instruction that it offers."""
    return replace(_behaviour(), **dict.fromkeys(("withdraw", "kill", "drop"), 0.0))


@unit_test(timing=[PROMPT, SLOW], timeout_us=20_000)
async def programs_match_golden(dut: Dut, rng: Random, timing: ObiTiming) -> None:
    """All instructions in random order, of which some are withdrawn, killed or dropped; again after a reset."""
    programs = XifPrograms(configuration().insns, rng)
    for _ in range(bench_data()["episodes"]):
        bench = _Bench(dut, _behaviour(), timing, rng)
        with bench.agents:
            for program in (programs.inspection(), *islice(programs, 0, None, bench_data()["part"])):
                if program:
                    await bench.run(program)
        await pulse_reset(dut)


@unit_test()
async def cycles(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """Cycles of each operation, and from issue to result, with a core and a memory that never wait."""
    config = configuration()
    never = dict.fromkeys(("batch", "late_operands", "splits"), 0.0)
    behaviour = replace(_without_losses(), offer=1, commit=1, takes=1, **never)
    bench = _Bench(dut, behaviour, PROMPT, rng)
    programs = XifPrograms(config.insns, rng)
    products, writer = 8 // int(config.dots), "pa.rd" if config.accumulators else "pv.add"
    expected = dict.fromkeys(("pv.add", "pv.dotsp", "pa.acc", "pa.ld", "pa.clr", "pa.ptr"), 1) | {"pa.blk": products}
    # for a result in time the next instruction is accepted when the last code is written
    rounded = 4 + config.in_time
    expected |= {"pa.rqu": rounded, "pa.rqs": rounded, "pa.rqxu": rounded + 1, "pa.rqxs": rounded + 1}

    async def duration(*program: Instruction) -> int:
        offloads = await bench.run(program)
        return offloads[-1].finished - offloads[0].issued

    with bench.agents:
        for op in expected.keys() & programs.ops:
            # an instruction that writes a register shows when the units are free
            last = programs.make(writer)
            number = await duration(*[programs.make(op)] * 9, last) - await duration(programs.make(op), last)
            cost = 3 if behaviour.any_result and op.startswith("pv.") else expected[op]
            board.equal(number, 8 * cost, f"cycles of 8 {op}")
        board.equal(await duration(programs.make(writer)), 2, "cycles to a result")
        if config.memory != "none":
            read = programs.make("pa.rd")
            long, short = [await duration(programs.make("pa.step", steps), read) for steps in (9, 1)]
            board.equal(long - short, 8 * 2 * products, "cycles of 8 steps")
            assert short <= 2 * products + _START, f"a step takes {short} cycles"


@unit_test(skip=configuration().memory != "xif")
async def refused_load_ends_a_step(dut: Dut, rng: Random) -> None:
    """The core refuses each load of a step in turn: the result has its exception, and no load follows."""
    bench = _Bench(dut, _without_losses(), SLOW, rng)
    programs = XifPrograms(configuration().insns, rng)
    with bench.agents:
        for place in range(2 * 8):
            bench.memories[0].refuse(place)
            await bench.run([programs.make("pa.step", 2)])
            # the words that were loaded and the products that were made are not specified
            bench.golden.failed = 1
            await bench.run([programs.make("pa.wr", rng.getrandbits(32), r=word) for word in STATE_WORDS])
            await bench.run(programs.inspection())
