"""Environment of the DMA engine: managers, memories, model and scoreboard."""

from collections.abc import Mapping, Sequence
from random import Random

from xpulpnn.isa.cluster import DMA, PRIVATE_DMA, Dma
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.benches.agents.base import Agent, AgentGroup, Dut, sample
from xpulpnn_sim.benches.agents.obi import ANY_NUMBER, PROMPT, ObiManager, ObiTiming, ObiTransfer
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.dma_memories import Memories, MemoryPort, expect, memory_ports
from xpulpnn_sim.benches.launcher_data import configuration
from xpulpnn_sim.reference.golden.dma import moves
from xpulpnn_sim.reference.golden.dma_ports import Answer, PortsModel
from xpulpnn_sim.reference.golden.tcdm import Request
from xpulpnn_sim.reference.stimuli import near_offsets

STATUS_IDS = 16
_PATIENCE = 8000


class CommandManager(ObiManager):
    answer: ObiTransfer | None = None  # transfer that is answered in this cycle

    def _noise(self) -> dict[str, int]:
        """Return random values with the address of a register, which the unit must ignore as there is no request."""
        return super()._noise() | {"addr": self._rng.choice([*Dma])}

    def _on_answer(self, transfer: ObiTransfer) -> None:
        self.answer = transfer


class _CommandChecker(Agent):
    """Compares the command ports and the other outputs with the model in every cycle."""

    def __init__(
        self, dut: Dut, ports: Sequence[CommandManager], memories: Sequence[MemoryPort], model: PortsModel
    ) -> None:
        super().__init__(dut)
        self.cycle = 0
        self._board = Scoreboard()
        self._ports, self._memories, self._model = ports, memories, model
        self._outputs = [getattr(dut, name) for name in ("events", "interrupts", "busy")]
        self._answers: Mapping[int, Answer] = {}

    def drive(self) -> None:
        self._asking = {
            port: shown for port, manager in enumerate(self._ports) if (shown := manager.request) is not None
        }

    def sample(self) -> None:
        written = sum(memory.written for memory in self._memories)
        asking = {port: Request(*transfer.as_request) for port, transfer in self._asking.items()}
        taking = [number for number, memory in enumerate(self._memories) if memory.takes_write]
        seen = self._model.cycle(asking, written, taking)
        granted = {port for port, transfer in self._asking.items() if self._ports[port].request is not transfer}
        answered: dict[int, Answer] = {}
        for number, port in enumerate(self._ports):
            if port.answer is not None:
                expected = self._answers.get(number)
                # the data of some answers are don't-cares
                data = None if expected and expected.data is None else port.answer.data
                answered[number], port.answer = Answer(data, port.answer.failed), None
        events, interrupts, busy = (sample(output) for output in self._outputs)
        observed = granted, answered, (events, interrupts), bool(busy)
        self._board.equal(observed, (seen.granted, self._answers, *seen[2:]), f"ports in cycle {self.cycle}")
        self._answers = seen.answers
        self.cycle += 1


class DmaEnv(AgentGroup):
    """The DMA engine after a reset, with managers at its command ports and memories at the others."""

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
        self.managers = [
            CommandManager(dut, port, outstanding=ANY_NUMBER, pause=pause, rng=rng) for port in (*cores, "shared")
        ]
        self.addresses = [PRIVATE_DMA] * len(cores) + [DMA]
        self.memory_ports = memory_ports(dut, self.memories, rng, *timing)
        self.model = PortsModel(configuration(), self._begin)
        self.monitor = _CommandChecker(dut, self.managers, self.memory_ports, self.model)
        super().__init__(dut, [*self.managers, *self.memory_ports, self.monitor])

    def _begin(self, words: Sequence[int]) -> list[set[int]]:
        self.expected.move(*moves(words))
        return expect(self.memory_ports, words)

    async def identifier(self, port: int = 0) -> int:
        return await self.managers[port].read(self.addresses[port] + Dma.COMMAND)

    async def command(self, words: Sequence[int], port: int = 0) -> None:
        await self.managers[port].write(self.addresses[port] + Dma.COMMAND, *words)

    async def status(self, port: int = 0) -> tuple[int, int]:
        """Return the identifiers in use and the allocated identifiers, as bit masks."""
        status = await self.managers[port].read(self.addresses[port] + Dma.STATUS)
        return status % (1 << STATUS_IDS), status >> STATUS_IDS

    async def wait(self, number: int, port: int = 0, patience: int = _PATIENCE) -> None:
        for _ in range(patience):
            if not (await self.status(port))[0] >> number & 1:
                return
        raise AssertionError(f"identifier {number} in use for {patience} reads of the status")

    async def free(self, bits: int, port: int = 0) -> None:
        await self.managers[port].write(self.addresses[port] + Dma.STATUS, bits)

    async def nothing_near(self, board: Scoreboard, port: int) -> None:
        """Check that accesses one address bit away from the command registers fail."""
        for offset in near_offsets(Dma):
            for write in (0, 1):
                access = ObiTransfer(self.addresses[port] + offset, write, value=WORD_MASK)
                board.equal((await self.managers[port].run([access])).failed, True, f"access to {offset:#x}")

    def check(self, board: Scoreboard, label: str) -> None:
        missing = [len(side) for port in self.memory_ports for side in port.expected]
        board.equal(missing, [0] * len(missing), f"{label}: accesses that were not made")
        board.compare(vars(self.expected), vars(self.memories), None, label)
