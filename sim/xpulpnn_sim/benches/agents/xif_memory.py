"""Memories of the coprocessor behind CV-X-IF: at its OBI port, and behind the memory interface of the core."""

from collections import deque
from random import Random

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.benches.agents.base import Agent, Dut, PortDriver, sample
from xpulpnn_sim.benches.agents.obi import ObiMemory, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.xif import XifCore
from xpulpnn_sim.reference.golden.tcdm import Request

_OUTSTANDING = 8  # the port may have so many loads under way


class XifLoads(ObiMemory):
    """Memory at the OBI port of the coprocessor; every load has the address and the time that the core expects.

    An error has data, too.
    """

    def __init__(self, dut: Dut, core: XifCore, memory: WordMemory, timing: ObiTiming, rng: Random) -> None:
        super().__init__(dut, "obi", memory, timing, rng, outstanding=_OUTSTANDING)
        self._core = core

    def _requested(self, request: Request) -> None:
        self._core.next_load(request.address, begins=self._pending is None)
        super()._requested(request)
        if self._pending is None:
            self._core.loads.popleft()

    def _serve(self, request: Request) -> tuple[int, int]:
        return self._memory[request.address], int(self._memory.fails(request.address))


class XifMemory(Agent):
    """Memory interface of a core: the only writer of ``mem`` and ``mem_result``."""

    def __init__(self, dut: Dut, core: XifCore, memory: WordMemory, timing: ObiTiming, rng: Random) -> None:
        super().__init__(dut)
        self._core, self._memory, self._timing, self._rng = core, memory, timing, rng
        self._request = {name: getattr(dut, f"mem__{name}") for name in ("valid", "id", "addr", "last")}
        self._drivers = PortDriver(dut, "mem__"), PortDriver(dut, "mem_result__")
        self._ready, self._pending = False, False
        self._before_refusal = -1  # requests until one is refused, with that exception
        self._exccode = 0
        self._results: deque[tuple[int, int, int]] = deque()  # cycle, identifier, address

    def refuse(self, place: int) -> None:
        """Refuse the request after ``place`` others, with an exception."""
        self._before_refusal = place

    def drive(self) -> None:
        request, result = self._drivers
        self._ready = self._rng.random() < self._timing.grant
        self._exccode = self._rng.getrandbits(6)
        request.drive(ready=int(self._ready), exc=int(not self._before_refusal), exccode=self._exccode)
        answers = bool(self._results) and self._results[0][0] <= self._core.cycle
        result.drive(valid=int(answers))
        if answers:
            _, number, address = self._results.popleft()
            result.drive(id=number, rdata=self._memory[address], err=int(self._memory.fails(address)))
        else:
            result.drive(rdata=self._rng.getrandbits(XLEN), err=self._rng.randrange(2))

    def sample(self) -> None:
        if not sample(self._request["valid"]):
            assert not self._pending, "a memory request is withdrawn"
            return
        values = {name: sample(handle) for name, handle in self._request.items()}
        offload = self._core.next_load(values["addr"], values["last"])
        assert values["id"] == offload.id, f"identifier of a load must be {offload.id}, not {values['id']}"
        self._pending = not self._ready
        if self._ready and not self._before_refusal:
            self._core.refuse_loads(offload, self._exccode)
        elif self._ready:
            self._core.loads.popleft()
            due = self._core.cycle + self._rng.randint(self._timing.fastest, self._timing.slowest)
            self._results.append((due, offload.id, values["addr"]))
        self._before_refusal -= int(self._ready and self._before_refusal >= 0)

    def release(self) -> None:
        request, result = self._drivers
        request.drive(ready=0)
        result.drive(valid=0)
