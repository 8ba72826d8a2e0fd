"""Bench of the back end: dependent pairs and random sequences against the simulator, and their cycle costs."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

import cocotb
from cocotb.triggers import ClockCycles

from xpulpnn.config import CoreConfig
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import FIRST_WEIGHT, SECOND_PAIR, WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn_sim.benches.agents import instruction_stream as streams
from xpulpnn_sim.benches.agents.base import Dut, pulse_reset
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import PROMPT, SLOW, ObiMemory, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.benches.pipeline_timing import PipelineTiming
from xpulpnn_sim.reference.bare.draw import Draw
from xpulpnn_sim.reference.iss.core import Retired
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.elf import Executable

REGISTER_POOL = range(8, 16)
"""Registers that instructions use: few, so that there are many dependences; compressed instructions can name them."""

OUTSIDE_OPS = ("csrrw", "csrrs", "csrrc", "lp.starti", "lp.endi", "lp.count", "lp.setup", "mret", "wfi", "pv.qnt")
"""Instructions that have effects outside the back end."""

_UPDATES = (0b00000, 0b01000, 0b10000)
_CROSS = 0b11000
_OFFSETS = (-64, -10, 6, 8, 64, 1022)  # offsets of jump and branch targets
_ENTRIES = 8  # values of the entry selectors of a Mac&Load immediate


@dataclass(slots=True)
class Drawn:
    insn: Insn
    values: dict[str, int]

    @property
    def word(self) -> int:
        return self.insn.encode(**self.values)

    def field_of(self, role: str) -> str:
        return "rs3" if role == "rd" and "rs3" in self.values else role


def draw(insn: Insn, source: Draw) -> Drawn:
    """Draw the operands of an instruction; the target of a jump or branch is never the next instruction."""
    pins = {
        token.field.name: source.rng.choice([offset for offset in _OFFSETS if token.field.accepts(offset)])
        for token in insn.tokens
        if token.field.kind is FieldKind.TARGET
    }
    return Drawn(insn, source.values(insn, pins=pins))


def _destinations(insn: Insn) -> list[str]:
    return ["rd"] * insn.writes_rd + ["rd1"] * insn.is_pair + ["rs1"] * insn.writes_base


def _link(producer: str, consumer: str) -> Callable[[Drawn, Drawn], None]:
    def link(first: Drawn, second: Drawn) -> None:
        uses_odd_register = producer == "rd1"  # the second register of a pair
        number = first.values["rd"] + 1 if uses_odd_register else first.values[first.field_of(producer)]
        # a pair that reads the register begins at an even number
        second.values[second.field_of(consumer)] = number & ~(second.insn.is_pair and consumer == "rd")

    return link


def _link_entries(update: int, entries: int) -> Callable[[Drawn, Drawn], None]:
    """Return a function that makes one Mac&Load read an NN-RF entry that an earlier Mac&Load reloads."""

    def link(first: Drawn, second: Drawn) -> None:
        if "nnimm5" in first.values:
            first.values["nnimm5"] = (_CROSS if first.insn.reloads_other else update) | entries
        weight, activation = entries >> 1, entries & 1
        if "t" in first.values:
            places = {
                _UPDATES[0]: SECOND_PAIR + activation,
                _UPDATES[1]: activation,
                _UPDATES[2]: FIRST_WEIGHT + weight,
            }
            first.values["t"] = places[update]
        if "nnimm5" in second.values:
            other = int(first.insn.reloads_other)
            second.values["nnimm5"] = second.values["nnimm5"] & ~(_ENTRIES - 1) | entries ^ other
        if second.insn.is_pair:
            second.values |= {"w": weight, "p": int(first.insn.is_pair and update == _UPDATES[0])}

    return link


def _links(first: Insn, second: Insn) -> Iterator[Callable[[Drawn, Drawn], None]]:
    """Yield functions that each create one possible dependence between two instructions, then one that creates none."""
    for producer in _destinations(first):
        for consumer in sorted(second.reads | set(_destinations(second)) - {"rd1"}):
            yield _link(producer, consumer)
    if first.is_mac_load and second.is_mac_load:
        # a Compute&Update multiplies the entry in its mnemonic
        weight = next((insn.entry or 0 for insn in (first, second) if insn.op == "pv.cusdot"), 1)
        for update, activation in product(_UPDATES, range(2)):
            yield _link_entries(update, weight << 1 | activation)
    yield lambda _first, _second: None


def _pipeline_classes(config: CoreConfig) -> list[list[Insn]]:
    """Return the instructions that act in the back end alone, those that use the pipeline in the same way together."""
    classes = defaultdict[Hashable, list[Insn]](list)
    for insn in enabled(config.extensions, config.widths):
        if insn.size == WORD_BYTES and insn.insn_class is not InsnClass.SYSTEM and insn.op not in OUTSIDE_OPS:
            kind = insn.is_pair, insn.is_nn_form, insn.reloads_other, insn.is_exact, insn.op == "jalr"
            classes[insn.insn_class, insn.reads, insn.writes_rd, insn.writes_base, *kind].append(insn)
    return [*classes.values()]


def dependent_pairs(config: CoreConfig, limit: int, rng: Random) -> list[list[int]]:
    # above `limit`, all pairs of Mac&Loads stay and a random choice of the others
    source, mac_loads = Draw(rng, config), list[list[int]]()
    others: list[list[int]] = []
    for classes in product(_pipeline_classes(config), repeat=2):
        first_row, second_row = map(rng.choice, classes)
        for link in _links(first_row, second_row):
            first, second = draw(first_row, source), draw(second_row, source)
            link(first, second)
            if first.insn.is_mac_load and rng.random() < 0.25:
                first.values["rd"] = 0
            group = mac_loads if first_row.is_mac_load and second_row.is_mac_load else others
            group.append([first.word, second.word])
    rng.shuffle(others)
    pairs = mac_loads + others[: max(0, limit - len(mac_loads))]
    rng.shuffle(pairs)
    return pairs


def filling(rng: Random) -> list[int]:
    return [rng.getrandbits(20) << 12 | number << 7 | 0b0110111 for number in REGISTER_POOL]


def words_of_every_row(config: CoreConfig, rng: Random) -> list[int]:
    rows = enabled(config.extensions, config.widths)
    source = Draw(rng, config)
    words = [draw(insn, source).word for insn in rows if insn.op not in OUTSIDE_OPS]
    rng.shuffle(words)
    return words


RESET_AFTER = 40

_FAILING = ((1 << 31, 1 << 31),)
"""Address ranges that fail: half of all addresses, so that random accesses fail often."""


async def _run_stream(
    dut: Dut, words: list[int], timing: ObiTiming, pause: float, rng: Random, failing: tuple[tuple[int, int], ...] = ()
) -> None:
    """Feed ``words`` to a back end after reset; check every retirement, the memory and, if it is ideal, the costs."""
    config, board, memory = configuration(), Scoreboard(), WordMemory(failing)
    stream, driver = list(streams.stream_of(config, words, failing)), streams.StreamDriver(dut, rng, pause)
    with ObiMemory(dut, "data", memory, timing, rng) as bus, streams.RetirementMonitor(dut, "rvfi__") as monitor:
        await driver.run(stream)
        await driver.drain()
    expected = streams.StreamMemory(words, failing)
    # the count is compared last, as the first wrong record is more informative
    lockstep = Lockstep(Executable(Path("stream"), streams.BOOT_ADDRESS, (), 0), config, memory=expected)
    records = monitor.records()[: len(stream)]
    for record, item in zip(records, stream, strict=False):
        if streams.is_access_fault(item):
            # the front end knows the address of the handler
            record["pc_wdata"] = item.record["pc_wdata"]
    streams.check_retirements(lockstep, records, bus.log, board)
    board.equal(len(monitor.rows), len(stream), "retirements")
    board.equal(dict(memory), dict(expected.data), "memory at the end")
    if timing is PROMPT and not pause and not failing:
        check_costs(stream, driver.accepted, board)
    await pulse_reset(dut)


def check_costs(stream: Sequence[Retired], accepted: Sequence[int], board: Scoreboard) -> None:
    expected = PipelineTiming(configuration()).accept_cycles(stream)
    for number in range(1, len(stream)):
        pair = " -> ".join(streams.name_of(item) for item in stream[number - 1 : number + 1])
        got, want = (times[number] - times[number - 1] for times in (accepted, expected))
        board.equal(got, want, f"cycles of instruction {number - 1}: {pair}")


@unit_test(timing=[PROMPT, SLOW])
async def dependent_pairs_are_sequential(dut: Dut, rng: Random, timing: ObiTiming) -> None:
    """All pairs of instruction classes with every dependence, back to back."""
    words = filling(rng)
    for number, pair in enumerate(dependent_pairs(configuration(), bench_data()["pairs"], rng)):
        words += pair
        if number % 8 == 0:
            words += filling(rng)[: rng.randrange(8)]
    await _run_stream(dut, words, timing, 0.0, rng)


@unit_test((("timing", "pause"), [(PROMPT, 0.0), (SLOW, 0.15)]))
async def random_sequences_are_sequential(dut: Dut, rng: Random, timing: ObiTiming, pause: float) -> None:
    """Every instruction of the configuration in random order, with fetch pauses."""
    words = filling(rng) + words_of_every_row(configuration(), rng)
    await _run_stream(dut, words, timing, pause, rng)


@unit_test(timing=[PROMPT, SLOW])
async def accesses_that_fail_change_nothing(dut: Dut, rng: Random, timing: ObiTiming) -> None:
    """Each load and store, half of whose accesses fail, followed by an instruction that reads the NN-RF."""
    config = configuration()
    source, words = Draw(rng, config), list[int]()
    rows = [insn for insn in enabled(config.extensions, config.widths) if insn.op not in OUTSIDE_OPS]
    readers = [insn for insn in rows if insn.is_mac_load]
    for insn in (insn for insn in rows if insn.is_load or insn.is_store or insn.is_mac_load or insn.loads_parameter):
        words += [*filling(rng)[: rng.randrange(4)], draw(insn, source).word]
        words += [draw(rng.choice(readers), source).word] if readers else []
    await _run_stream(dut, words, timing, 0.0, rng, _FAILING)


@unit_test()
async def reset_in_flight_clears_everything(dut: Dut, rng: Random) -> None:
    """Reset in the middle of a stream with outstanding accesses; the next stream is not affected."""
    for _ in range(4):
        stream = streams.stream_of(configuration(), filling(rng) + words_of_every_row(configuration(), rng))
        with ObiMemory(dut, "data", WordMemory(), SLOW, rng):
            feeding = cocotb.start_soon(streams.StreamDriver(dut, rng, 0.0).run(stream))
            await ClockCycles(dut.clk, RESET_AFTER + rng.randrange(RESET_AFTER))
            feeding.cancel()
        dut.insn__valid.value = 0
        await pulse_reset(dut)
        # registers are not filled, so that a value from before the reset is detected
        await _run_stream(dut, words_of_every_row(configuration(), rng)[:RESET_AFTER], SLOW, 0.0, rng)
