"""Bench of the shared memory: random traffic of all masters against queues before banks and a list of words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import TCDM_BASE, TEST_SET_BIT
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.cadence import Driven, Dut, Scoreboard, pulse_reset, sample, start
from xpulpnn_sim.benches.handover import bench_data, configuration
from xpulpnn_sim.benches.obi import ALL_BYTES
from xpulpnn_sim.reference.golden.tcdm import PATIENCE, Request, TcdmModel, place_of

_BASES = (TCDM_BASE, 0)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of masters."""

    name: str  # what the messages call it
    asking: float  # probability that a master without a request makes one
    words: int = 0  # how many neighbouring words are accessed; 0: all
    stride: int = 1  # words between them
    stays: int = 0  # cycles after which all of them are the next words; 0: they stay
    writing: float = 0.3  # probability of a write
    setting: float = 0.1  # probability of a test&set among the reads


def _traffic(config: ClusterConfig) -> list[Traffic]:
    return [
        Traffic("all words", 0.6),
        Traffic("all the time", 1.0, words=config.banks * 4, setting=0.0),
        Traffic("one bank", 1.0, words=4, stride=config.banks, stays=3 * PATIENCE),
        Traffic("one word", 0.7, words=1, writing=0.1),
        Traffic("loads of two words", 0.9, words=2, stride=config.banks, writing=0.0, setting=0.02),
    ]


class Masters:
    """All ports of the memory: the only writer of the requests."""

    def __init__(self, dut: Dut, number: int) -> None:
        self.number = number
        self.waiting: dict[int, Request] = {}
        # grants of the bank that a request has seen go to others
        self.passed: dict[int, int] = {}
        self.longest = [0] * number
        # answers that the next cycle must show; those of writes may have any data
        self.expected: dict[int, int] = {}
        self.reads: set[int] = set()
        names = [f"ports__{master}__" for master in range(number)]
        self._driven = [Driven(dut, name) for name in names]
        self._seen = {port: [getattr(dut, name + port) for name in names] for port in ("gnt", "rvalid", "rdata")}

    def ask(self, traffic: Traffic, config: ClusterConfig, rng: Random, cycle: int = 0) -> None:
        """Make new requests where none waits."""
        words = config.tcdm_bytes // WORD_BYTES
        first = cycle // traffic.stays if traffic.stays else 0
        for master in range(self.number):
            if master in self.waiting or rng.random() >= traffic.asking:
                continue
            word = (first + rng.randrange(traffic.words or words) * traffic.stride) % words
            address = rng.choice(_BASES) + WORD_BYTES * word
            if rng.random() < traffic.setting:
                address |= 1 << TEST_SET_BIT
            write = int(rng.random() < traffic.writing)
            request = Request(address, write, rng.choice((ALL_BYTES, rng.getrandbits(4))), rng.getrandbits(32))
            self.waiting[master], self.passed[master] = request, 0
        self.show()

    def show(self) -> None:
        """Request what waits, and nothing else."""
        for master, driven in enumerate(self._driven):
            request = self.waiting.get(master)
            driven.drive(req=int(request is not None))
            if request is not None:
                driven.drive(addr=request.address, we=request.write, be=request.enables, wdata=request.value)

    def high(self, port: str) -> set[int]:
        """Masters one of whose ports is high in this cycle."""
        return {master for master, handle in enumerate(self._seen[port]) if sample(handle)}

    def data(self, masters: Iterable[int]) -> dict[int, int]:
        """Data that masters read in this cycle."""
        return {master: sample(self._seen["rdata"][master]) for master in masters}

    def quiet(self) -> None:
        """Request nothing any more."""
        self.waiting.clear()
        self.show()


def _count_passes(masters: Masters, granted: set[int], config: ClusterConfig) -> None:
    """Note for everybody who waits how often the bank was granted to others of the same rank."""
    places = {master: place_of(masters.waiting[master].address, config)[0] for master in masters.waiting}
    served = {places[master] for master in granted}
    for master, bank in places.items():
        if master not in granted and bank in served:
            masters.passed[master] += 1
            masters.longest[master] = max(masters.longest[master], masters.passed[master])


async def _run(
    dut: Dut, masters: Masters, model: TcdmModel, traffic: Traffic, cycles: int, rng: Random, board: Scoreboard
) -> None:
    """Compare every cycle of some traffic, and wait for what is under way."""
    config = model.config
    for cycle in range(cycles):
        where = f"{traffic.name}, cycle {cycle}"
        masters.ask(traffic, config, rng, cycle)
        await FallingEdge(dut.clk)
        board.equal(sorted(masters.high("rvalid")), sorted(masters.expected), f"{where}: who is answered")
        data = masters.data(masters.reads)
        board.equal(data, {master: masters.expected[master] for master in data}, f"{where}: data by master")
        requests = dict(masters.waiting)
        masters.expected = model.cycle(requests)
        granted = masters.high("gnt")
        board.equal(sorted(granted), sorted(masters.expected), f"{where}: who is granted")
        if hasattr(dut, "bank_masters__0"):
            for access in model.accesses:
                seen = sample(getattr(dut, f"bank_masters__{access.bank}"))
                board.equal(seen, access.master, f"{where}: master of bank {access.bank}")
        _count_passes(masters, granted, config)
        masters.reads = {master for master in granted if not requests[master].write}
        for master in granted:
            del masters.waiting[master]
        await RisingEdge(dut.clk)


def _bounds(config: ClusterConfig, masters: int) -> Sequence[int]:
    """The most grants to others that each master may have to wait for."""
    if config.dma_priority == "equal":
        return [masters - 1] * masters
    others = masters - config.cores
    # in the time a core waits for its turn the others come first once in PATIENCE cycles
    core = config.cores - 1 + (config.cores - 1) // PATIENCE + 1
    return [core] * config.cores + [PATIENCE * others] * others


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def traffic_is_served_in_order(dut: Dut) -> None:
    """Every grant, answer and word is that of the model; nobody waits for longer than promised."""
    data = bench_data()
    config: ClusterConfig = configuration()
    number = config.cores + data["others"]
    rng, board = await start(dut), Scoreboard()
    masters, model = Masters(dut, number), TcdmModel(config, number)
    for address in range(0, config.tcdm_bytes, WORD_BYTES):
        await _present(dut, masters, {0: Request(address, 1, ALL_BYTES, 0)})
    await pulse_reset(dut)
    for traffic in _traffic(config):
        await _run(dut, masters, model, traffic, data["cycles"], rng, board)
    if config.arbiter != "fixed" and not config.broadcast:
        for master, bound in enumerate(_bounds(config, number)):
            assert masters.longest[master] <= bound, f"master {master} waited for {masters.longest[master]} grants"
    masters.quiet()
    await RisingEdge(dut.clk)
    everything = Traffic("everything", 1.0)
    masters.ask(everything, config, rng)
    await FallingEdge(dut.clk)
    await pulse_reset(dut)
    masters.quiet()
    await FallingEdge(dut.clk)
    board.equal(masters.high("rvalid"), set[int](), "answers after a reset in flight")


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_and_set_is_one_step(dut: Dut) -> None:
    """All masters test and set one free word at once: one finds it free, and nobody is between its read and write."""
    data = bench_data()
    config: ClusterConfig = configuration()
    number = config.cores + data["others"]
    await start(dut)
    board, masters = Scoreboard(), Masters(dut, number)
    lock = (config.banks + 1) * WORD_BYTES
    await _present(dut, masters, {0: Request(TCDM_BASE + lock, 1, ALL_BYTES, 0)})
    tests = Request(TCDM_BASE + lock | 1 << TEST_SET_BIT, 0, ALL_BYTES, 0)
    found = await _present(dut, masters, dict.fromkeys(range(number), tests))
    board.equal(sorted(found), [0] + [0xFFFF_FFFF] * (number - 1), "words found")


async def _present(dut: Dut, masters: Masters, requests: dict[int, Request]) -> list[int]:
    """Hold requests until each was granted and answered; the data of all that read."""
    found: list[int] = []
    masters.waiting = requests
    reads = {master for master, request in requests.items() if not request.write}
    for _ in range(PATIENCE * masters.number * 2):
        masters.show()
        await FallingEdge(dut.clk)
        found += masters.data(masters.high("rvalid") & reads).values()
        waiting = len(masters.waiting)
        for master in masters.high("gnt"):
            del masters.waiting[master]
        await RisingEdge(dut.clk)
        if not waiting:
            return found
    raise AssertionError(f"masters {sorted(masters.waiting)} must be granted")
