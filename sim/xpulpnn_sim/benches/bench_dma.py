"""Bench of the DMA engine between two memories: what is copied, how fast, with which identifiers, and who is told."""

from collections.abc import Iterable, Iterator
from random import Random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from xpulpnn.isa.cluster import DMA, L2_BASE, PRIVATE_DMA, TCDM_BASE, Dma, DmaCommand
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.benches.cadence import Dut, PortMonitor, Scoreboard, Together, pulse_reset, start
from xpulpnn_sim.benches.dma_memories import L2_BYTES, TCDM_BYTES, Memories, memory_ports
from xpulpnn_sim.benches.handover import bench_data, configuration
from xpulpnn_sim.benches.obi import ANY_NUMBER, PROMPT, ObiInitiator, ObiTiming, Transfer
from xpulpnn_sim.reference.golden.dma import moves
from xpulpnn_sim.reference.golden.tcdm import Queue
from xpulpnn_sim.reference.stimuli import near_offsets

STATUS_IDS = 16
MOST_BYTES = 300
LINES_REACH = 16000  # From the first line of a transfer to its last, at most
TCDM_TARGETS = TCDM_BASE + TCDM_BYTES // 2
L2_TARGETS = L2_BASE + L2_BYTES // 2  # Sources are in the lower half of each memory, targets in the upper one
STALLED = ObiTiming(0.6, 1, 3)
FAR = ObiTiming(0.8, 5, 12)
IN, OUT, WITHIN = "in", "out", "within"
TELLING = (DmaCommand.EVENT, DmaCommand.INTERRUPT, DmaCommand.BROADCAST)
DIRECTIONS = (IN, OUT, WITHIN)
_PATIENCE = 8000
_ROUNDS = 10
_GIVING_CYCLES = 4  # From the answer to who gives an identifier back to the answer to who waits for it, at most

Words = list[int]


class Ports(Together):
    """The command ports, and everything around the engine."""

    def __init__(
        self, dut: Dut, rng: Random, pause: float = 0.0, timing: tuple[ObiTiming, ObiTiming] = (PROMPT, PROMPT)
    ) -> None:
        self.dut = dut
        self.memories, self.expected = Memories(rng), Memories(rng)
        self.expected.tcdm[:], self.expected.l2[:] = self.memories.tcdm, self.memories.l2
        cores = [f"cores__{number}" for number in range(configuration().cores)]
        self.initiators = [
            ObiInitiator(dut, port, under_way=ANY_NUMBER, pause=pause, rng=rng) for port in (*cores, "shared")
        ]
        self.addresses = [PRIVATE_DMA] * len(cores) + [DMA]
        self.memory_ports = memory_ports(dut, self.memories, rng, *timing)
        self.told = PortMonitor(dut, ("events", "interrupts"))
        super().__init__(dut, [*self.initiators, *self.memory_ports, self.told])

    async def identifier(self, port: int = 0) -> int:
        """Allocate one."""
        return await self.initiators[port].read(self.addresses[port] + Dma.COMMAND)

    async def command(self, words: Words, port: int = 0) -> None:
        """Write a command, and do what it asks for to the expected memories."""
        await self.initiators[port].write(self.addresses[port] + Dma.COMMAND, *words)
        self.expected.move(*moves(words))

    async def status(self, port: int = 0) -> tuple[int, int]:
        """Identifiers in use and allocated."""
        status = await self.initiators[port].read(self.addresses[port] + Dma.STATUS)
        return status % (1 << STATUS_IDS), status >> STATUS_IDS

    async def wait(self, number: int, port: int = 0, patience: int = _PATIENCE) -> None:
        """Wait for the end of all transfers of an identifier, for so many reads of the status."""
        for _ in range(patience):
            if not (await self.status(port))[0] >> number & 1:
                return
        raise AssertionError(f"identifier {number} in use for {patience} reads of the status")

    async def free(self, number: int, port: int = 0) -> None:
        """Give it back."""
        await self.initiators[port].write(self.addresses[port] + Dma.STATUS, 1 << number)

    async def nothing_near(self, board: Scoreboard, port: int) -> None:
        """Accesses a bit away from the registers fail."""
        for offset in near_offsets(Dma):
            for write in (0, 1):
                access = Transfer(self.addresses[port] + offset, write, value=WORD_MASK)
                board.equal((await self.initiators[port].make([access])).failed, True, f"access to {offset:#x}")

    def pulses(self) -> tuple[list[int], list[int]]:
        """Counts of how often each core was told, by event and by interrupt."""
        cores = range(configuration().cores)
        events, interrupts = (
            [sum(row[kind] >> core & 1 for row in self.told.rows) for core in cores] for kind in (0, 1)
        )
        return events, interrupts

    def check(self, board: Scoreboard, label: str) -> None:
        """Compare both memories, every byte."""
        board.compare(vars(self.expected), vars(self.memories), None, label)


def transfer(direction: str, length: int, ext: int, tcdm: int, flags: int = DmaCommand.INCREMENT) -> Words:
    """A command without lines, from the lower half of a memory to the upper; ``ext`` and ``tcdm`` are offsets."""
    bases = {IN: (L2_BASE, TCDM_TARGETS), OUT: (L2_TARGETS, TCDM_BASE), WITHIN: (TCDM_BASE, TCDM_TARGETS)}
    outside, inside = bases[direction]
    command = length | flags | (DmaCommand.FROM_EXTERNAL if direction != OUT else 0)
    return [command, inside + tcdm, outside + ext]


def plain_transfers(rng: Random) -> Iterator[Words]:
    """All alignments of both sides, the next length up to 300 each time."""
    length = rng.randrange(MOST_BYTES)
    for direction in DIRECTIONS:
        for ext in range(8):
            for tcdm in range(8):
                length = length % MOST_BYTES + 1
                places = [rng.randrange(0, TCDM_BYTES // 2 - 2 * MOST_BYTES, 8) for _ in range(2)]
                yield transfer(direction, length, places[0] + ext, places[1] + tcdm)


def transfers_in_lines(rng: Random, count: int) -> Iterator[Words]:
    """Lines on either side or both, of any length and distance, forwards and backwards; peripherals too."""
    for _ in range(count):
        direction = rng.choice(DIRECTIONS)
        length = rng.choice((rng.randrange(0, 40), rng.randrange(40, MOST_BYTES)))
        flags, lines = rng.choice((0, *[int(DmaCommand.INCREMENT)] * 5)), []
        starts = []
        for flag in (DmaCommand.EXTERNAL_2D, DmaCommand.TCDM_2D):
            size = rng.choice((0, rng.randrange(1, 20), rng.randrange(0, length + 10)))
            number = -(-length // size) if size else 1
            most = max(min(LINES_REACH // max(number, 1), 700), size + 1)
            stride = rng.choice((size, rng.randrange(size, most), -rng.randrange(size, most)))
            used = rng.random() < 0.7
            if used:
                flags |= flag
                lines += [size, stride % (1 << 32)]
            start = rng.randrange(TCDM_BYTES // 2 - LINES_REACH - 2 * MOST_BYTES)
            starts.append(start + (LINES_REACH if used and stride < 0 else 0))
        yield [*transfer(direction, length, starts[0], starts[1], flags), *lines]


async def command_all(ports: Ports, commands: Iterable[Words]) -> None:
    """One behind the other, with one identifier."""
    number = await ports.identifier()
    for words in commands:
        await ports.command(words)
    await ports.wait(number)
    await ports.free(number)


async def one_gets_each(ports: Ports, board: Scoreboard, rng: Random, turns: Queue) -> None:
    """One of the ports that wait for an identifier gets what is given back: that whose turn it is."""
    everybody = range(len(ports.initiators))
    for _ in range(_ROUNDS):
        giving, *waiting = rng.sample(everybody, rng.randint(2, len(everybody)))
        readers = {port: cocotb.start_soon(ports.identifier(port)) for port in waiting}
        while readers:
            number = rng.randrange(configuration().dma_transfers)
            await ports.free(number, giving)
            await ClockCycles(ports.dut.clk, _GIVING_CYCLES)
            done = [port for port, reader in readers.items() if reader.done()]
            board.equal(done, [turns.next({*readers})], "who gets it")
            board.equal([await readers.pop(port) for port in done], [number], "what is given back")


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def identifiers(dut: Dut) -> None:
    """The lowest free one is given; without a free one the read waits until one is given back."""
    rng, board, count = await start(dut), Scoreboard(), configuration().dma_transfers
    with Ports(dut, rng) as ports:
        for number in range(count):
            board.equal(await ports.identifier(), number, "identifier")
        every = (1 << count) - 1
        board.equal(await ports.status(1), (0, every), "all allocated")
        near = [cocotb.start_soon(ports.nothing_near(board, port)) for port in range(len(ports.initiators))]
        for task in near:
            await task
        for port in range(len(ports.initiators)):
            board.equal(await ports.status(port), (0, every), "as before")
            # some of them are given back by one write
            for some in (1 << count // 2) - 1, every:
                await ports.initiators[port].write(ports.addresses[port] + Dma.STATUS, some)
                board.equal(await ports.status(port), (0, every & ~some), f"what port {port} gives back")
            board.equal([await ports.identifier(port) for _ in range(count)], list(range(count)), "given again")
        readers = [cocotb.start_soon(ports.identifier(port)) for port in (1, 2)]
        await ClockCycles(dut.clk, 20)
        board.equal([reader.done() for reader in readers], [False, False], "answers without an identifier")
        # an identifier in use is not given away, even if it was given back
        number = count // 2
        await ports.command(transfer(IN, 2000, 0, 0))
        board.equal(await ports.status(3), (1 << count - 1, every), "in use")
        await ports.free(count - 1)
        board.equal(await ports.status(3), (1 << count - 1, every >> 1), "in use, given back")
        await ports.free(number)
        await ports.wait(count - 1, 3)
        board.equal(sorted([await reader for reader in readers]), [number, count - 1], "identifiers given back")
        given = count + count * len(ports.initiators) + 2
        await one_gets_each(ports, board, rng, Queue("counter", len(ports.initiators), given))
        await ports.initiators[0].write(PRIVATE_DMA + Dma.STATUS, every)
        board.equal(await ports.status(), (0, 0), "all given back")
        ports.check(board, "long")


async def _core_program(ports: Ports, port: int, rng: Random, count: int, told: tuple[list[int], list[int]]) -> None:
    """Commands of one port: some with one identifier, others with more, and the pulses that they must give."""
    cores = configuration().cores
    share = TCDM_BYTES // 2 // len(ports.initiators) // 8 * 8
    while count > 0:
        number = await ports.identifier(port)
        for _ in range(rng.randrange(1, 4)):
            flags, direction = int(DmaCommand.INCREMENT), rng.choice(DIRECTIONS)
            choice = [flag for flag in TELLING if rng.random() < 0.5]
            flags = sum(choice, flags)
            for kind, flag in enumerate((DmaCommand.EVENT, DmaCommand.INTERRUPT)):
                for core in range(cores) if DmaCommand.BROADCAST in choice else {port} & set(range(cores)):
                    told[kind][core] += flag in choice
            length = rng.randrange(1, 200)
            starts = [share * port + rng.randrange(share - length) for _ in range(2)]
            await ports.command(transfer(direction, length, starts[0], starts[1], flags), port)
            count -= 1
        await ports.wait(number, port)
        await ports.free(number, port)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(timing=[(PROMPT, PROMPT), (STALLED, FAR)])
async def all_cores_command(dut: Dut, timing: tuple[ObiTiming, ObiTiming]) -> None:
    """All ports at once: whole commands, and every end is told once, to whom it should be."""
    rng, board = await start(dut), Scoreboard()
    told = [0] * configuration().cores, [0] * configuration().cores
    with Ports(dut, rng, pause=0.3, timing=timing) as ports:
        each = bench_data()["transfers"] // 8
        tasks = [
            cocotb.start_soon(_core_program(ports, port, Random(rng.random()), each, told))
            for port in range(len(ports.initiators))
        ]
        for task in tasks:
            await task
        board.equal(await ports.status(), (0, 0), "status at the end")
        await ClockCycles(dut.clk, 4)
        board.equal(ports.pulses(), told, "pulses")
        ports.check(board, "all ports")


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def reset_forgets_what_is_under_way(dut: Dut) -> None:
    """After a reset in the middle of commands of all ports nothing is asked for, and the next ones do what they say."""
    rng, board = await start(dut), Scoreboard()
    told = [0] * configuration().cores, [0] * configuration().cores
    for _ in range(_ROUNDS):
        with Ports(dut, rng, timing=(STALLED, FAR)) as ports:
            board.equal(await ports.status(), (0, 0), "status after a reset")
            programs = [_core_program(ports, port, Random(rng.random()), 2, told) for port in (1, 2)]
            for program in [cocotb.start_soon(program) for program in programs]:
                await program
            ports.check(board, "after a reset")
            tasks = [
                cocotb.start_soon(_core_program(ports, port, Random(rng.random()), 9, told))
                for port in range(len(ports.initiators))
            ]
            await ClockCycles(dut.clk, rng.randrange(10, 300))
            await pulse_reset(dut, 1)
            for task in tasks:
                task.cancel()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(direction=list(DIRECTIONS))
async def an_end_is_told_when_all_is_written(dut: Dut, direction: str) -> None:
    """Nothing is under way any more when a core is told, and its identifier is no longer in use."""
    rng, board = await start(dut), Scoreboard()
    with Ports(dut, rng, timing=(STALLED, FAR)) as ports:
        for length in range(1, 30):
            number, told = await ports.identifier(), len(ports.told.rows)
            flags = DmaCommand.INCREMENT | DmaCommand.EVENT
            await ports.command(transfer(direction, length, rng.randrange(64), rng.randrange(64), flags))
            while not any(events for events, _ in ports.told.rows[told:]):
                await RisingEdge(dut.clk)
                assert len(ports.told.rows) < told + _PATIENCE, f"nobody is told (seed {board.seed})"
            board.equal(sum(port.unanswered for port in ports.memory_ports), 0, "under way when told")
            ports.check(board, "when told")
            board.equal((await ports.status())[0], 0, "in use when told")
            await ports.free(number)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(
    case=[
        (IN, 0, 0, 1, 8.0, 4096),
        (OUT, 0, 0, 1, 8.0, 4096),
        (WITHIN, 0, 0, 1, 8.0, 4096),
        (IN, 3, 6, 1, 8.0, 4096),
        (OUT, 5, 2, 1, 8.0, 4096),
        (WITHIN, 1, 2, 1, 8.0, 4096),
        (IN, 0, 0, 20, 5.5, 8192),
        (IN, 5, 1, 1, 8.0, 0),
        (OUT, 1, 3, 1, 8.0, -1),
    ]
)
async def bytes_per_cycle(dut: Dut, case: tuple[str, int, int, int, float, int]) -> None:
    """A long copy moves a window per cycle, at any alignment, where memory answers at once; also in two lines, and the
    longest one, in a line whose length is 0."""
    direction, ext, tcdm, latency, wanted, length = case
    line = bench_data()["line"]
    length, line = {0: (line + 500, line), -1: (2 * line - 1, 0)}.get(length, (length, length))
    rng, board = await start(dut), Scoreboard()
    with Ports(dut, rng, timing=(PROMPT, ObiTiming(1.0, latency, latency))) as ports:
        number = await ports.identifier()
        flags, stride = (DmaCommand.EXTERNAL_2D | DmaCommand.TCDM_2D, 2 * line) if length > line else (0, 0)
        words = transfer(direction, length, ext, tcdm, DmaCommand.INCREMENT | flags)
        await ports.command([*words, line, stride, line, stride] if flags else words)
        begin = ports.told.cycle
        await ports.wait(number, patience=length)
        cycles = ports.told.cycle - begin
        dut._log.info(f"{case}: {length / cycles:.2f} bytes per cycle")
        # filling and draining, and the loop that reads the status
        assert cycles <= length / wanted + 2 * latency + 16, f"{cycles} cycles for {length} bytes (seed {board.seed})"
        ports.check(board, f"{case}")


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def lines_of_every_length(dut: Dut) -> None:
    """Two lines on either side, of a power of two, and of all others up to it; memory outside is far away."""
    rng, board = await start(dut), Scoreboard()
    with Ports(dut, rng, timing=(PROMPT, ObiTiming(1.0, 24, 24))) as ports:
        bits = bench_data()["line"].bit_length() - 1
        powers = [1 << bit for bit in range(min(bits, 13))]
        others = [sum(1 << bit for bit in range(first, bits, 2)) for first in (0, 1)]
        for direction, size in [
            *((rng.choice(DIRECTIONS), power) for power in powers),
            (IN, others[0]),
            (OUT, others[1]),
        ]:
            flags = DmaCommand.EXTERNAL_2D | DmaCommand.TCDM_2D | DmaCommand.INCREMENT
            words = transfer(direction, size + min(size, 200), rng.randrange(64), rng.randrange(64), flags)
            await command_all(ports, [[*words, size, 2 * size + 9, size, 2 * size + 3]])
        ports.check(board, "lines")


@cocotb.test(timeout_time=200, timeout_unit="ms")
@cocotb.parametrize(timing=[(PROMPT, PROMPT), (STALLED, FAR)])
async def all_alignments(dut: Dut, timing: tuple[ObiTiming, ObiTiming]) -> None:
    """Bytes arrive where they should, the others stay; lengths change with the alignment."""
    rng, board = await start(dut), Scoreboard()
    with Ports(dut, rng, timing=timing) as ports:
        await command_all(ports, list(plain_transfers(rng))[:: bench_data()["every"]])
        ports.check(board, "plain")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(timing=[(PROMPT, PROMPT), (STALLED, FAR), (STALLED, PROMPT)])
async def lines(dut: Dut, timing: tuple[ObiTiming, ObiTiming]) -> None:
    """Two-dimensional transfers, on either side or both."""
    rng, board = await start(dut), Scoreboard()
    with Ports(dut, rng, timing=timing) as ports:
        await command_all(ports, transfers_in_lines(rng, bench_data()["transfers"]))
        ports.check(board, "lines")
