"""Environment of directed tests of the debug module: the test itself plays the harts."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from random import Random
from typing import Any

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.isa.debug import MAX_HARTS, Command, Control, DmReg, Flag, Place
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, drive, sample, start
from xpulpnn_sim.benches.debug_env import BUSY, CLEAR, TRANSFER, DebugEnv
from xpulpnn_sim.reference.golden.debug_memory import command_code
from xpulpnn_sim.reference.golden.debug_module import DebuggedHart

TRANSFER_WRITE = TRANSFER | Command.WRITE
NOTIFICATIONS = [
    *range(Place.HALTED, Place.HALTED + WORD_BYTES * MAX_HARTS, WORD_BYTES),
    *range(Place.RESUMING, Place.RESUMING + WORD_BYTES * MAX_HARTS, WORD_BYTES),
    Place.GOING,
    Place.EXCEPTION,
]  # addresses at which harts report events


@dataclass(slots=True)
class DirectedHart(DebuggedHart):
    """A hart whose halts and resumes the test reports."""

    resuming: bool = False  # a resume is requested

    def settle(self) -> None:
        """Let a hart in reset run."""
        self.halted, self.resuming = self.halted and not self.in_reset, self.resuming and not self.in_reset

    def resume(self) -> None:
        self.resume_ack, self.resuming = False, self.resuming or self.halted

    def clear_requests(self) -> None:
        self.halt_request = self.resume_ack = self.resuming = False


class DirectedDebugEnv(DebugEnv):
    """An environment in which the test itself plays the harts."""

    def __init__(self, dut: Dut, rng: Random) -> None:
        super().__init__(dut, rng)
        self.directed_harts = [DirectedHart() for _ in range(self.count)]
        self.model.harts[:] = self.directed_harts
        self.aliases = 1 << (self.count - 1).bit_length()  # hart numbers that the module distinguishes
        self.command = 0

    async def wait_idle(self, cycles: int = 0) -> None:
        """Wait for a cycle or for none, so that tests do not always sample in every second cycle."""
        if self.rng.getrandbits(1):
            await RisingEdge(self.dut.clk)

    async def access_memory(self, addresses: Iterable[int], values: Mapping[int, int] | None = None) -> list[int]:
        """Make accesses of harts in consecutive cycles: writes if ``values`` are given; return the words read."""
        dut, rng, words, before = self.dut, self.rng, list[int](), 0
        for address in (*addresses, None):
            word = rng.getrandbits(32) if values is None or address is None else values[address]
            drive(dut, {"memory__req": int(address is not None), "memory__wdata": word})
            # `we` without a request and the upper address bits are don't-cares
            dut.memory__we.value = int(address is None or values is not None)
            dut.memory__addr.value = rng.getrandbits(20) << 12 | (
                rng.choice(NOTIFICATIONS) if address is None else address
            )
            await FallingEdge(dut.clk)
            answer = sample(dut.memory__gnt), sample(dut.memory__rvalid), sample(dut.memory__err)
            self.board.equal(answer, (1, before, 0), f"grant, answer and error at {address}")
            if before:
                words.append(sample(dut.memory__rdata))
            before = int(address is not None)
            await RisingEdge(dut.clk)
        return words

    async def notify(self, place: Place, hart: int = 0) -> None:
        """Write random data to the address at which a hart reports an event."""
        many = place in (Place.HALTED, Place.RESUMING)
        number = self.rng.randrange(hart, MAX_HARTS, self.aliases) if many else 0
        at = place + WORD_BYTES * number
        await self.access_memory([at], {at: self.rng.getrandbits(32)})
        if hart < self.count and place == Place.HALTED:
            self.directed_harts[hart].halted = True
        if hart < self.count and place == Place.RESUMING and self.model.active:
            self.directed_harts[hart].resume_ack = True
        if hart < self.count and place == Place.RESUMING:
            self.directed_harts[hart].halted = self.directed_harts[hart].resuming = False
        for hart_state in self.directed_harts:
            hart_state.settle()
        await self.wait_idle()

    async def halt_only(self, harts: Iterable[int]) -> None:
        for hart in range(self.count):
            await self.notify(Place.HALTED if hart in harts else Place.RESUMING, hart)

    async def write_command(self, command: int, *, at_once: bool = False) -> None:
        """Write a command to the module, not to the model; with ``at_once`` the next access may follow directly."""
        self.command = command
        if at_once:
            words = {"valid": 1, "write": 1, "addr": DmReg.COMMAND, "wdata": command}
            drive(self.dut, {f"dmi__{name}": word for name, word in words.items()})
            await RisingEdge(self.dut.clk)
        else:
            await self.access(DmReg.COMMAND, command)

    async def expect_refusal(self, error: int, where: str) -> None:
        """Write an illegal command, expect its error, and clear the error."""
        await self.write_command(TRANSFER_WRITE | 0x100A)
        await self.expect(error, where)
        await self.clear()

    async def clear(self) -> None:
        await self.access(DmReg.ABSTRACTCS, CLEAR)

    async def finish(self, hart: int) -> None:
        """Report the transfer of a command as done, and the hart as halted again."""
        await self.notify(Place.GOING)
        await self.notify(Place.HALTED, hart)

    async def expect(self, error: int, where: str, *, busy: bool = False, goes: int | None = None) -> None:
        """Check the busy bit and error of commands, and the orders to all harts."""
        observed = await self.access(DmReg.ABSTRACTCS)
        self.board.equal(hex(observed), hex(8 << 24 | BUSY * busy | error << 8 | 2), f"{where}: abstractcs")
        orders = await self.access_memory(Place.FLAGS + WORD_BYTES * hart for hart in range(self.count))
        expected = [Flag.RESUME if hart.resuming else 0 for hart in self.directed_harts]
        if goes is not None:
            expected[goes] = Flag.GO
        self.board.equal(orders, expected, f"{where}: orders to harts")

    async def expect_stable(self, expected: int) -> None:
        """Check that the read data of the DMI are stable without an access."""
        for _ in range(3):
            noise = {name: self.rng.getrandbits(bits) for name, bits in (("write", 1), ("addr", 7), ("wdata", 32))}
            drive(self.dut, {f"dmi__{name}": bits for name, bits in noise.items()})
            await FallingEdge(self.dut.clk)
            self.board.equal(hex(sample(self.dut.dmi__rdata)), hex(expected), "what is left of what was read")
            await RisingEdge(self.dut.clk)

    async def expect_code(self, where: str) -> None:
        """Check the instructions of the command twice, an odd number of cycles apart."""
        words = await self.access_memory([*range(Place.ABSTRACT, Place.PROGRAM, WORD_BYTES)] * 2)
        self.board.equal(words, command_code(self.command) * 2, f"{where}: code of {self.command:#x}")


def directed(
    test: Callable[[DirectedDebugEnv], Coroutine[Any, Any, None]],
) -> Callable[[Dut], Coroutine[Any, Any, None]]:
    """Run the decorated test with an active debug module and an agent that answers its system bus."""

    @wraps(test)
    async def run(dut: Dut) -> None:
        env = DirectedDebugEnv(dut, await start(dut))
        with AgentGroup(dut, [env.bus]):
            await env.write(DmReg.DMCONTROL, Control.DMACTIVE)
            await test(env)
        env.compare_bus()

    return run
