"""Bench of the DMA engine between two memories: copied bytes, cycles, identifiers and events.

In every test each access to the memories, and in every cycle the command ports and the other outputs, are compared with
models.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from random import Random

from cocotb.triggers import ClockCycles, RisingEdge, gather

from xpulpnn.isa.cluster import DMA_LENGTH_BITS, Dma, DmaCommand
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.benches import dma_transfers as copies
from xpulpnn_sim.benches.agents import PROMPT, Dut, ObiTiming, ObiTransfer, pulse_reset, unit_test
from xpulpnn_sim.benches.dma_env import ALIASES, TCDM_BYTES, WINDOW_BYTES, DmaEnv
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.reference.stimuli import near_offsets

STALLED = ObiTiming(0.6, 1, 3)
FAR = ObiTiming(0.8, 5, 12)
_ROUNDS = 10
_GIVING_CYCLES = 12  # cycles after a free until the waiting port has the identifier and its next answer
_MORE_COMMANDS = 11  # more than the queue holds
_RESETS = 12
_WINDOWS = (1, 2, 4, 8, 16, 20)


def late_timing(cycles: int) -> ObiTiming:
    return ObiTiming(1.0, cycles, cycles)


async def one_gets_each(env: DmaEnv) -> None:
    """Free identifiers one by one while several ports wait: exactly one port gets each identifier."""
    rng, count, followups = env.rng, len(env.ports), 4
    for number in range(2 * followups + _ROUNDS):
        giving, followup = number % count, number // 2 % followups
        others = [port for port in env.ports if port != giving]
        waiting = others if number < 2 * followups else rng.sample(others, rng.randint(1, len(others)))
        commands = []
        for _ in waiting:
            no_bytes = copies.transfer(copies.WITHIN, 0, 0, 0, copies.end_flags(rng.randrange(8)))
            more = (
                [ObiTransfer(Dma.STATUS)],
                [ObiTransfer(Dma.STATUS, 1)],
                [ObiTransfer(Dma.COMMAND, 1, value=word) for word in no_bytes],
                [ObiTransfer(near_offsets(Dma)[0])],
            )
            commands.append([ObiTransfer(Dma.COMMAND), *more[followup]])
        readers = env.start(*(env.run(port, *command) for port, command in zip(waiting, commands, strict=True)))
        for served in range(1, len(waiting) + 1):
            await env.free(1 << rng.randrange(configuration().dma_transfers), giving)
            await ClockCycles(env.dut.clk, _GIVING_CYCLES)
            env.board.equal(sum(reader.done() for reader in readers), served, "ports that have got one")


@unit_test(env=DmaEnv)
async def identifiers(env: DmaEnv) -> None:
    """A port gets the lowest free identifier; if none is free, its read waits."""
    count = configuration().dma_transfers
    equal = env.board.equal
    for number in range(count):
        equal(await env.identifier(), number, "identifier")
    every = (1 << count) - 1
    equal(await env.status(1), (0, every), "all allocated")
    await gather(*map(env.nothing_near, env.ports))
    for port in env.ports:
        # one write frees some identifiers, another one the rest
        half = env.rng.getrandbits(count)
        for freed in half, every & ~half:
            await env.free(freed | env.rng.getrandbits(16) << 16, port)
            equal(await env.status(port), (0, every & ~freed), f"what port {port} gives back")
            while (await env.status(port))[1] != every:
                await env.identifier(port)
    readers = env.start(env.identifier(1), env.identifier(2))
    await ClockCycles(env.dut.clk, 20)
    equal([reader.done() for reader in readers], [False, False], "answers without an identifier")
    await env.free(1 << count // 2)
    await env.free(1)
    equal(sorted(await gather(*readers)), [0, count // 2], "identifiers given back")
    await one_gets_each(env)
    await env.free(every)
    equal(await env.status(), (0, 0), "all given back")


@unit_test(env=partial(DmaEnv, timing=(PROMPT, late_timing(36))))
async def transfers_of_every_identifier(env: DmaEnv) -> None:
    """An identifier is in use until its last transfer ends, even if it is freed before, also with a full queue."""
    rng, equal, count = env.rng, env.board.equal, len(env.ports)
    flags_of_port = [deque(rng.sample(range(8), 8)) for _ in env.ports]

    async def program(port: int, places: Sequence[int]) -> None:
        for place in places:
            flags_of_port[port].rotate()
            direction, length = (copies.WITHIN, rng.randrange(9)) if place else (copies.IN, 8)
            flags = DmaCommand.INCREMENT | copies.end_flags(flags_of_port[port][0])
            await env.command(copies.transfer(direction, length, 16 * place, 16 * place, flags), port)
        await env.status(port)

    for number in range(configuration().dma_transfers):
        writing = [(4 * number + place) % count for place in range(min(4, count - 1))]
        reading = [port for port in env.ports if port not in writing]
        for place, port in enumerate(writing):
            if place:
                await env.free(1 << number, writing[place - 1])
            equal(await env.identifier(port), number, "identifier")
        shares = (range(place, _MORE_COMMANDS, len(writing)) for place in range(len(writing)))
        programs = env.start(*map(program, writing, shares))
        await ClockCycles(env.dut.clk, _GIVING_CYCLES)
        await gather(*map(env.status, reading))
        await env.free(1 << number, reading[0])
        other = await env.identifier(reading[0])
        await gather(*programs)
        await env.wait(number)
        if other != number:
            await env.free(1 << other)
            equal(await env.identifier(), number, "identifier behind the last end")
    env.check("every identifier")


async def _core_program(env: DmaEnv, port: int, count: int) -> None:
    rng, share = Random(env.rng.random()), TCDM_BYTES // 2 // len(env.ports) // 8 * 8
    while count > 0:
        number = await env.identifier(port)
        for _ in range(rng.randrange(1, 4)):
            flags = DmaCommand.INCREMENT | copies.end_flags(rng.randrange(8))
            length = rng.randrange(1, 200)
            offsets = [share * port + rng.randrange(share - length) for _ in range(2)]
            plain = copies.transfer(
                rng.choice(copies.DIRECTIONS), length, offsets[0], offsets[1], flags, rng.choice(ALIASES)
            )
            command, inside, outside = plain
            noise = rng.getrandbits(8) << 24
            await env.command([command | noise, inside ^ noise, outside], port)
            count -= 1
        await env.wait(number, port)
        await env.free(1 << number, port)


async def _first_command(env: DmaEnv, port: int) -> None:
    await env.command(copies.windows(env.rng.choice(copies.DIRECTIONS), 1, port, env.rng), port)
    await env.status(port)


@unit_test(env=partial(DmaEnv, pause=0.3), timing=[(PROMPT, PROMPT), (STALLED, FAR)], timeout_us=20_000)
async def all_cores_command(env: DmaEnv) -> None:
    """All ports write commands at once: words of commands do not mix, and the right cores get each end event once."""
    await gather(*(_core_program(env, port, bench_data()["transfers"] // 8) for port in env.ports))
    env.board.equal(await env.status(), (0, 0), "status at the end")
    env.check("all ports")


@unit_test(timeout_us=20_000)
async def reset_forgets_what_is_under_way(dut: Dut, rng: Random) -> None:
    """After a reset in the middle of commands nothing is requested, and the next commands are executed."""
    for number in range(_RESETS):
        with DmaEnv(dut, rng, (STALLED, FAR)) as env:
            env.board.equal(await env.status(), (0, 0), "status after a reset")
            # without an allocated identifier commands use the first one
            await gather(*(_first_command(env, port) for port in env.ports))
            await env.wait(0)
            env.check("after a reset")
            # at one reset all identifiers are in use
            identifiers = configuration().dma_transfers
            for _ in range(identifiers if number == 1 else number % 2 * identifiers // 2):
                await env.identifier()
            # every port gets answers, or waits for an identifier
            match number:
                case 0:
                    begun = [env.run(port, *(ObiTransfer(Dma.STATUS) for _ in range(200))) for port in env.ports]
                case 1:
                    begun = [env.run(port, ObiTransfer(Dma.COMMAND)) for port in env.ports]
                case _:
                    begun = [_core_program(env, port, 9) for port in env.ports]
            tasks = env.start(*begun)
            await ClockCycles(dut.clk, rng.randrange(10, 200))
            # until a transfer has ended, or the first word of a command is written
            while (number % 4 == 2 and not any(env.model.next_notified)) or (number % 4 == 3 and env.model.begun != 1):
                await RisingEdge(dut.clk)
            await pulse_reset(dut, 1)
            for task in tasks:
                task.cancel()


@unit_test(env=DmaEnv)
async def one_memory_is_late(env: DmaEnv) -> None:
    """One memory answers late, so that a transfer ends with 1, 2, 4, 8 or 16 accesses outstanding."""
    for port in env.memory_ports:
        for count in _WINDOWS:
            port.timing = late_timing(count + 5)
            order = [(copies.IN, count), (copies.OUT, count), (copies.IN, 1)]
            await env.command_all(
                *(copies.windows(*arguments, place, env.rng) for place, arguments in enumerate(order))
            )
        port.timing = PROMPT
    env.check("late")


@unit_test(env=partial(DmaEnv, timing=(PROMPT, late_timing(30))))
async def both_sides_outside(env: DmaEnv) -> None:
    """Reads and writes of different transfers both have the largest number of accesses outstanding."""
    sizes = [(direction, env.rng.randrange(1, 25)) for _ in range(_ROUNDS) for direction in (copies.OUT, copies.IN)]
    await env.command_all(*(copies.windows(*arguments, place, env.rng) for place, arguments in enumerate(sizes)))
    env.check("both sides")


@unit_test(
    case=[
        (copies.IN, 0, 0, 1, 8.0, 4096),
        (copies.OUT, 0, 0, 1, 8.0, 4096),
        (copies.WITHIN, 0, 0, 1, 8.0, 4096),
        (copies.IN, 3, 6, 1, 8.0, 4096),
        (copies.OUT, 5, 2, 1, 8.0, 4096),
        (copies.WITHIN, 1, 2, 1, 8.0, 4096),
        (copies.IN, 0, 0, 20, 5.5, 8192),
        (copies.OUT, 1, 3, 1, 8.0, 0),
    ]
)
async def bytes_per_cycle(dut: Dut, rng: Random, case: tuple[str, int, int, int, float, int]) -> None:
    """Long copies, and the longest line, move one external word per cycle, at any alignment, without wait states."""
    direction, ext, tcdm, latency, rate, length = case
    length, flags = (length, 0) if length else (2 * bench_data()["line"] - 1, DmaCommand.EXTERNAL_2D)
    with DmaEnv(dut, rng, (PROMPT, late_timing(latency))) as env:
        number = await env.identifier()
        words = copies.transfer(direction, length, ext, tcdm, DmaCommand.INCREMENT | flags)
        await env.command([*words, 0, env.rng.getrandbits(XLEN)] if flags else words)
        begin = env.monitor.cycle
        await env.wait(number, patience=length)
        cycles = env.monitor.cycle - begin
        dut._log.info(f"{case}: {length / cycles:.2f} bytes per cycle")
        # filling and draining, and the loop that reads the status
        assert cycles <= length / rate + 2 * latency + 16, f"{cycles} cycles for {length} bytes (seed {env.board.seed})"
        env.check(f"{case}")


@unit_test(env=DmaEnv)
async def lines_of_every_length(env: DmaEnv) -> None:
    """Lines with each bit of the length set once, each followed by part of the next line."""
    rng, longest = env.rng, bench_data()["line"].bit_length()
    for bits in range(longest):
        size = (1 << bits) + WINDOW_BYTES
        # long lines would overlap within one memory
        direction = copies.DIRECTIONS[bits % (3 if size < TCDM_BYTES // 16 else 2)]
        # the first line ends with a window
        offsets = [WINDOW_BYTES * rng.randrange(1, 8) - size % WINDOW_BYTES for _ in range(2)]
        await env.command_all(copies.two_lines(direction, size + min(size, 25 * WINDOW_BYTES), size, offsets, rng))
    small = 5
    for direction in copies.DIRECTIONS:
        sizes = [small | 1 << bits for bits in range(small.bit_length(), DMA_LENGTH_BITS)]
        await env.command_all(*(copies.two_lines(direction, 4 * small, size, (0, 0), rng) for size in sizes))
    env.check("lines")


@unit_test(env=DmaEnv, timing=[(PROMPT, PROMPT), (STALLED, FAR)], timeout_us=200_000)
async def all_alignments(env: DmaEnv) -> None:
    """Transfers with every alignment of source and target; all other bytes are unchanged."""
    await env.command_all(*list(copies.plain_transfers(env.rng))[:: bench_data()["every"]])
    env.check("plain")


@unit_test(env=DmaEnv, timing=[(PROMPT, PROMPT), (STALLED, FAR), (STALLED, PROMPT)], timeout_us=20_000)
async def lines(env: DmaEnv) -> None:
    """Two-dimensional transfers with lines at the source, at the target, or both."""
    await env.command_all(*copies.transfers_in_lines(env.rng, bench_data()["transfers"]))
    env.check("lines")


@unit_test(env=partial(DmaEnv, timing=(STALLED, STALLED)), timeout_us=20_000)
async def anywhere(env: DmaEnv) -> None:
    """Transfers between any two addresses of both memories."""
    for words in copies.transfers_anywhere(env.rng):
        # a transfer may read bytes that the one before writes
        await env.command_all(words)
    env.check("anywhere")
