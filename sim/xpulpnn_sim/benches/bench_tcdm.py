"""Bench of the shared memory: random traffic of all masters, compared with a model of banks and arbiters."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import TCDM_BASE, TEST_SET_BIT
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.base import Agent, AgentGroup, Dut, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, ObiManager, ObiTransfer
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.reference.golden.tcdm import PATIENCE, Request, TcdmModel, place_of

_BASES = (TCDM_BASE, 0)
_PATIENCE = 50  # cycles within which all requests are served

Words = dict[tuple[int, int], int]  # by bank and row


@dataclass(frozen=True, slots=True)
class Traffic:
    name: str  # name in messages
    asking: float  # probability that a master without a request makes one
    words: int = 0  # number of adjacent words that are accessed; 0: all
    stride: int = 1  # words between the accessed words
    stays: int = 0  # cycles after which the window moves on by a word; 0: never
    writing: float = 0.3  # probability of a write
    setting: float = 0.1  # probability of a test-and-set among the reads


def _traffic(config: ClusterConfig) -> list[Traffic]:
    return [
        Traffic("all words", 0.6),
        Traffic("all the time", 1.0, words=config.banks * 4, setting=0.0),
        Traffic("one bank", 1.0, words=4, stride=config.banks, stays=3 * PATIENCE),
        Traffic("one word", 0.7, words=1, writing=0.1),
        Traffic("loads of two words", 0.9, words=2, stride=config.banks, writing=0.0, setting=0.02),
    ]


class Master(ObiManager):
    def __init__(self, dut: Dut, number: int, rng: Random) -> None:
        super().__init__(dut, f"ports__{number}", outstanding=2, rng=rng)
        self.traffic: Traffic | None = None
        # grants of the requested bank to others since the request began, and their maximum
        self.passed = self.longest = 0
        self._config = configuration()

    def _next(self) -> ObiTransfer | None:
        if self.traffic is None:
            return super()._next()
        return self._drawn(self.traffic) if self._rng.random() < self.traffic.asking else None

    def _drawn(self, traffic: Traffic) -> ObiTransfer:
        rng, config = self._rng, self._config
        words = config.tcdm_bytes // WORD_BYTES
        first = self.cycle // traffic.stays if traffic.stays else 0
        word = (first + rng.randrange(traffic.words or words) * traffic.stride) % words
        address = rng.choice(_BASES) + WORD_BYTES * word | (rng.random() < traffic.setting) << TEST_SET_BIT
        self.passed = 0
        enables = rng.choice((ALL_BYTES, rng.getrandbits(4)))
        return ObiTransfer(address, int(rng.random() < traffic.writing), enables, rng.getrandbits(32))

    def claim(self) -> Request | None:
        """In half of the cycles without a request, drive the signals of a random request; return that request."""
        if self.request is not None or self.traffic is None or self._rng.random() < 1 / 2:
            return None
        drawn = self._drawn(self.traffic)
        self._driver.drive(**self._fields(drawn))
        return drawn.as_request


def _masters(dut: Dut, rng: Random) -> list[Master]:
    return [Master(dut, number, rng) for number in range(configuration().cores + bench_data()["others"])]


class ClaimDriver(Agent):
    def __init__(self, dut: Dut, masters: Sequence[Master]) -> None:
        super().__init__(dut)
        self.idle: dict[int, Request] = {}  # claims without a request, by master
        self._dut, self._masters = dut, masters

    def drive(self) -> None:
        if not hasattr(self._dut, "claims"):
            return
        claims = {number: master.claim() for number, master in enumerate(self._masters)}
        self.idle = {number: claim for number, claim in claims.items() if claim is not None}
        requesting = {number for number, master in enumerate(self._masters) if master.request is not None}
        self._dut.claims.value = sum(1 << number for number in requesting | set(self.idle))


class TcdmChecker(Agent):
    def __init__(self, dut: Dut, masters: Sequence[Master], claims: ClaimDriver, words: Words) -> None:
        super().__init__(dut)
        self._claims = claims
        self._config = configuration()
        self._model, self._board = TcdmModel(self._config, len(masters), words), Scoreboard()
        self._masters = masters
        names = [f"ports__{number}__" for number in range(len(masters))]
        self._seen = {port: [getattr(dut, name + port) for name in names] for port in ("gnt", "rvalid", "rdata")}
        self._banks = [getattr(dut, f"bank_masters__{bank}", None) for bank in range(self._config.banks)]
        self._sharers = [getattr(dut, f"bank_sharers__{bank}", None) for bank in range(self._config.banks)]
        # expected answers of the next cycle; a write is answered with the word that the bank read last
        self._answered: list[int] = []
        self._expected: dict[int, int] = {}
        self._read: dict[int, int] = {}  # last word read, by bank

    def _high(self, port: str) -> list[int]:
        return [number for number, handle in enumerate(self._seen[port]) if sample(handle)]

    def sample(self) -> None:
        equal, where = self._board.equal, f"{self._masters[0].traffic}, cycle {self._masters[0].cycle}"
        equal(self._high("rvalid"), sorted(self._answered), f"{where}: who is answered")
        data = {number: sample(self._seen["rdata"][number]) for number in self._expected}
        equal(data, self._expected, f"{where}: data by master")
        offered = {at: master.request for at, master in enumerate(self._masters)}
        requests = {at: request.as_request for at, request in offered.items() if request is not None}
        answers = self._model.cycle(requests, self._claims.idle)
        self._answered = granted = self._high("gnt")
        equal(granted, sorted(answers), f"{where}: who is granted")
        for access in self._model.accesses:
            if (handle := self._banks[access.bank]) is not None:
                equal(sample(handle), access.master, f"{where}: master of bank {access.bank}")
        masters = {access.bank: access.master for access in self._model.accesses}
        banks = {number: place_of(request.address, self._config)[0] for number, request in requests.items()}
        for bank, handle in enumerate(self._sharers):
            if handle is not None:
                sharers = sum(1 << master for master in granted if banks[master] == bank and master != masters[bank])
                equal(sample(handle), sharers, f"{where}: sharers of bank {bank}")
        self._read.update({banks[number]: answers[number] for number in granted if not requests[number].write})
        self._expected = {number: self._read[banks[number]] for number in granted if banks[number] in self._read}
        for number in banks.keys() - set(granted):
            master = self._masters[number]
            master.passed += banks[number] in {banks[other] for other in granted}
            master.longest = max(master.longest, master.passed)


def _bounds(config: ClusterConfig, masters: int) -> Sequence[int]:
    """Return, for each master, the largest number of grants to other masters that a request may have to wait for."""
    if config.dma_priority == "equal":
        return [masters - 1] * masters
    others = masters - config.cores
    # while a core waits, the other masters are served once in PATIENCE cycles
    core = config.cores - 1 + (config.cores - 1) // PATIENCE + 1
    return [core] * config.cores + [PATIENCE * others] * others


@unit_test()
async def traffic_is_served_in_order(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """Grants, answers and data equal the model in every cycle; no master waits longer than the arbiter guarantees."""
    config: ClusterConfig = configuration()
    masters = _masters(dut, rng)
    claims = ClaimDriver(dut, masters)
    with AgentGroup(dut, [*masters, claims]):
        await masters[0].run(ObiTransfer(address, 1) for address in range(0, config.tcdm_bytes, WORD_BYTES))
    words: Words = {}
    for cycles in (bench_data()["cycles"], bench_data()["cycles"] // 4):
        # arbitration restarts after a reset
        await pulse_reset(dut)
        with AgentGroup(dut, [TcdmChecker(dut, masters, claims, words), *masters, claims]):
            for traffic in (*_traffic(config), None):
                for master in masters:
                    master.traffic = traffic
                await ClockCycles(dut.clk, cycles if traffic else _PATIENCE)
    for master in masters:
        master.traffic = _traffic(config)[0]
    if config.arbiter != "fixed" and not config.broadcast:
        for number, (master, bound) in enumerate(zip(masters, _bounds(config, len(masters)), strict=True)):
            assert master.longest <= bound, f"master {number} waited for {master.longest} grants"
    await RisingEdge(dut.clk)
    with AgentGroup(dut, [*masters, claims]):
        await FallingEdge(dut.clk)
        await pulse_reset(dut)
    await FallingEdge(dut.clk)
    answers = [sample(getattr(dut, f"ports__{number}__rvalid")) for number in range(len(masters))]
    board.equal(answers, [0] * len(masters), "answers after a reset in flight")


@unit_test()
async def test_and_set_is_one_step(dut: Dut, rng: Random) -> None:
    """All masters test and set one free lock word at once: exactly one of them reads it as free."""
    masters = _masters(dut, rng)
    lock = TCDM_BASE + (configuration().banks + 1) * WORD_BYTES
    with AgentGroup(dut, [*masters, ClaimDriver(dut, masters)]):
        await masters[0].run([ObiTransfer(lock, 1)])
        tests = [cocotb.start_soon(master.run([ObiTransfer(lock | 1 << TEST_SET_BIT)])) for master in masters]
        words = [(await test).data for test in tests]
    Scoreboard().equal(sorted(words), [0] + [WORD_MASK] * (len(masters) - 1), "words found")
