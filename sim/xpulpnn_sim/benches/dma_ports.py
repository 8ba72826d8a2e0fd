"""The command ports of the DMA engine, and everything around it, compared in every cycle."""

from collections.abc import Mapping, Sequence
from random import Random

from xpulpnn.isa.cluster import DMA, PRIVATE_DMA, Dma
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, Stepwise, Together, sample
from xpulpnn_sim.benches.dma_memories import Memories, MemoryPort, expect, memory_ports
from xpulpnn_sim.benches.handover import configuration
from xpulpnn_sim.benches.obi import ANY_NUMBER, PROMPT, ObiInitiator, ObiTiming, Transfer
from xpulpnn_sim.reference.golden.dma import moves
from xpulpnn_sim.reference.golden.dma_ports import Answer, PortsModel
from xpulpnn_sim.reference.golden.tcdm import Request
from xpulpnn_sim.reference.stimuli import near_offsets

STATUS_IDS = 16
_PATIENCE = 8000


class _Port(ObiInitiator):
    """A command port."""

    found: Transfer | None = None  # What is answered in this cycle.

    def _unasked(self) -> dict[str, int]:
        """Noise has the address of a register, so that it would be an access."""
        return super()._unasked() | {"addr": self._rng.choice([*Dma])}

    def _answered(self, request: Transfer) -> None:
        self.found = request


class _Monitor(Stepwise):
    """Compares what the command ports show in every cycle."""

    def __init__(self, dut: Dut, ports: Sequence[_Port], memories: Sequence[MemoryPort], model: PortsModel) -> None:
        super().__init__(dut)
        self.cycle = 0
        self._board = Scoreboard()
        self._ports, self._memories, self._model = ports, memories, model
        self._outputs = [getattr(dut, name) for name in ("events", "interrupts", "busy")]
        self._answers: Mapping[int, Answer] = {}

    def show(self) -> None:
        """Note who asks."""
        self._asking = {port: shown for port, one in enumerate(self._ports) if (shown := one.shown) is not None}

    def see(self) -> None:
        """Compare grants, answers and outputs."""
        written = sum(memory.written for memory in self._memories)
        asking = {port: Request(*asked.grant) for port, asked in self._asking.items()}
        taking = [number for number, memory in enumerate(self._memories) if memory.takes_write]
        seen = self._model.cycle(asking, written, taking)
        granted = {port for port, asked in self._asking.items() if self._ports[port].shown is not asked}
        answered: dict[int, Answer] = {}
        for number, port in enumerate(self._ports):
            if port.found is not None:
                wanted = self._answers.get(number)
                # data may mean nothing
                data = None if wanted and wanted.data is None else port.found.data
                answered[number], port.found = Answer(data, port.found.failed), None
        events, interrupts, busy = (sample(output) for output in self._outputs)
        found = granted, answered, (events, interrupts), bool(busy)
        self._board.equal(found, (seen.granted, self._answers, *seen[2:]), f"ports in cycle {self.cycle}")
        self._answers = seen.answers
        self.cycle += 1


class Ports(Together):
    """The command ports, and everything around the engine; since a reset."""

    def __init__(
        self,
        dut: Dut,
        rng: Random,
        pause: float = 0.0,
        timing: tuple[ObiTiming, ObiTiming] = (PROMPT, PROMPT),
    ) -> None:
        self.dut = dut
        self.memories, self.expected = Memories(rng), Memories(rng)
        self.expected.tcdm[:], self.expected.l2[:] = self.memories.tcdm, self.memories.l2
        cores = [f"cores__{number}" for number in range(configuration().cores)]
        self.initiators = [_Port(dut, port, under_way=ANY_NUMBER, pause=pause, rng=rng) for port in (*cores, "shared")]
        self.addresses = [PRIVATE_DMA] * len(cores) + [DMA]
        self.memory_ports = memory_ports(dut, self.memories, rng, *timing)
        self.model = PortsModel(configuration(), self._begin)
        self.monitor = _Monitor(dut, self.initiators, self.memory_ports, self.model)
        super().__init__(dut, [*self.initiators, *self.memory_ports, self.monitor])

    def _begin(self, words: Sequence[int]) -> list[set[int]]:
        self.expected.move(*moves(words))
        return expect(self.memory_ports, words)

    async def identifier(self, port: int = 0) -> int:
        """Allocate one."""
        return await self.initiators[port].read(self.addresses[port] + Dma.COMMAND)

    async def command(self, words: Sequence[int], port: int = 0) -> None:
        """Write a command."""
        await self.initiators[port].write(self.addresses[port] + Dma.COMMAND, *words)

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

    async def free(self, bits: int, port: int = 0) -> None:
        """Give identifiers back."""
        await self.initiators[port].write(self.addresses[port] + Dma.STATUS, bits)

    async def nothing_near(self, board: Scoreboard, port: int) -> None:
        """Accesses a bit away from the registers fail."""
        for offset in near_offsets(Dma):
            for write in (0, 1):
                access = Transfer(self.addresses[port] + offset, write, value=WORD_MASK)
                board.equal((await self.initiators[port].make([access])).failed, True, f"access to {offset:#x}")

    def check(self, board: Scoreboard, label: str) -> None:
        """Compare both memories, every byte; nothing is left to be done."""
        left = [len(side) for port in self.memory_ports for side in port.expected]
        board.equal(left, [0] * len(left), f"{label}: accesses that were not made")
        board.compare(vars(self.expected), vars(self.memories), None, label)
