"""Bench of OBI multiplexers: the peripheral bus and the external port.

Each manager uses other words at every destination, so that it reads what it wrote last, whatever the order of grants.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

import cocotb
from cocotb.task import Task
from cocotb.triggers import ClockCycles, gather

from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.benches.agents import obi
from xpulpnn_sim.benches.agents.base import Agent, AgentGroup, Dut, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ObiManager, ObiMemory, ObiTiming, ObiTransfer, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.reference.golden.tcdm import ArbiterModel

_TRANSFERS = 40
_WORDS = 12
_QUIET = 4
_NOBODY = -1
_TIMINGS = (ObiTiming(), ObiTiming(0.6, 1, 3), ObiTiming(1.0, 12, 12), ObiTiming(0.3, 2, 14))


@dataclass(frozen=True, slots=True)
class _Words:
    own: Sequence[Sequence[Sequence[int]]]  # addresses of the words of each manager at each place
    failing: set[int]  # failing addresses, one of each manager at each place
    unmapped: Sequence[int]  # unmapped addresses, each one bit away from a place

    def memory(self) -> WordMemory:
        return WordMemory(tuple((address, WORD_BYTES) for address in self.failing))

    def transfers(self, manager: int, rng: Random, part: int) -> list[ObiTransfer]:
        eager = rng.getrandbits(1)
        addresses = [address for words in self.own[manager] for address in words]
        addresses += [rng.choice(addresses) for _ in range(len(addresses), _TRANSFERS)]
        addresses += self.unmapped[part :: len(_TIMINGS)]
        rng.shuffle(addresses)
        return [_transfer(address, rng, 0 if eager else rng.choice((0, 0, 1, 5))) for address in addresses]


def _blocks() -> list[range]:
    return [range(place["base"], place["base"] + place["size"]) for place in bench_data()["places"]]


def _transfer(address: int, rng: Random, gap: int = 0) -> ObiTransfer:
    enables = rng.choice((obi.ALL_BYTES, rng.getrandbits(4)))
    return ObiTransfer(address, rng.getrandbits(1), enables, rng.getrandbits(32), gap)


def _handles(dut: Dut, port: str, *names: str) -> list[Dut]:
    return [getattr(dut, f"{port}__{name}") for name in names]


def _words(managers: int, rng: Random) -> _Words:
    pools = [rng.sample(block[::WORD_BYTES], managers * _WORDS) for block in _blocks()]
    own = [[pool[number::managers] for pool in pools] for number in range(managers)]
    failing = {words[0] for places in own for words in places}
    return _Words(own, failing, _unmapped_addresses(1, rng))


def _unmapped_addresses(distance: int, rng: Random) -> list[int]:
    """Return unmapped addresses that differ from a mapped address in ``distance`` bits."""
    flips = combinations([1 << bit for bit in range(XLEN)], distance)
    pairs = [(block, sum(bits)) for bits in flips for block in _blocks() if min(bits) >= len(block)]
    addresses = [rng.choice(block[::WORD_BYTES]) ^ flip for block, flip in pairs]
    return [address for address in addresses if _is_unmapped(address)]


def _is_unmapped(address: int) -> bool:
    return not any(address in block for block in _blocks())


class MuxChecker(Agent):
    """Predicts grants, requests at each destination and answers, and compares them in every cycle.

    A request is granted, round robin, when no other request is pending; from the next cycle on it is passed on as soon
    as its destination is free, until the destination grants it.
    """

    def __init__(self, dut: Dut, managers: Sequence[str]) -> None:
        super().__init__(dut)
        data, self._board = bench_data(), Scoreboard()
        self.queue, self._limit = ArbiterModel("counter", len(managers)), data["outstanding"]
        # sets of managers that requested together, with the manager whose turn it was
        self.requested_together: set[tuple[int, frozenset[int]]] = set()
        self._answered = deque[set[int]]([set()] * (data["latency"] - 2))
        self._managers = [_handles(dut, name, "req", "gnt", "rvalid", "addr") for name in managers]
        self._places = [_handles(dut, place["port"], "req", "gnt", "rvalid") for place in data["places"]]
        self._owner = getattr(dut, "owner", None)
        # manager and place of the granted request; the number after the last place if unmapped
        self._offered: tuple[int, int] | None = None
        self._under_way = [deque[int]() for _ in self._places]
        self._nowhere: set[int] = set()  # managers that get an error in the next cycle

    def sample(self) -> None:
        owner, place = self._offered or (_NOBODY, _NOBODY)
        answers, self._nowhere = self._nowhere, set[int]()
        for number, ((req, gnt, rvalid), waiting) in enumerate(zip(self._places, self._under_way, strict=True)):
            if sample(rvalid):
                answers.add(waiting.popleft())
            requests = place == number and len(waiting) < self._limit
            self._board.equal(sample(req), int(requests), f"request in place {number}")
            if requests and sample(gnt):
                waiting.append(owner)
                self._offered = None
        if place == len(self._places):
            self._nowhere.add(owner)
            self._offered = None
        if owner != _NOBODY and self._owner is not None:
            self._board.equal(sample(self._owner), owner, "owner")
        self._answered.append(answers)
        self._compare("answers", 2, self._answered.popleft())
        asking = {number for number, (req, *_) in enumerate(self._managers) if sample(req)}
        granted: set[int] = set()
        if asking and owner == _NOBODY:
            self.requested_together.add((self.queue.grants % len(self._managers), frozenset(asking)))
            granted.add(self.queue.next(asking))
        self._compare("grants", 1, granted)
        for number in granted:
            address = sample(self._managers[number][3])
            where = (at for at, block in enumerate(_blocks()) if address in block)
            self._offered = number, next(where, len(self._places))

    def _compare(self, label: str, handle: int, expected: set[int]) -> None:
        seen = {number for number, handles in enumerate(self._managers) if sample(handles[handle])}
        self._board.equal(seen, expected, label)


class MuxEnv(AgentGroup):
    def __init__(self, dut: Dut, rng: Random, timing: int = 0) -> None:
        data, board = bench_data(), Scoreboard()
        names: list[str] = data["initiators"]
        self.equal, self.words = board.equal, _words(len(names), rng)
        options = {"outstanding": data["outstanding"]}
        self.ports = {
            place["port"]: ObiMemory(dut, place["port"], self.words.memory(), _TIMINGS[timing], rng, **options)
            for place in data["places"]
        }
        self.managers = [ObiManager(dut, name) for name in names]
        self.transfers = [self.words.transfers(number, rng, timing) for number in range(len(names))]
        self.checker = MuxChecker(dut, names)
        super().__init__(dut, [*self.ports.values(), *self.managers, self.checker])

    def check(self) -> None:
        requests = [transfer for transfers in self.transfers for transfer in transfers]
        for block, (port, responder) in zip(_blocks(), self.ports.items(), strict=True):
            expected = [transfer.as_request for transfer in requests if transfer.address in block]
            self.equal(sorted(responder.log), sorted(expected), f"accesses of {port}")
        for number, (manager, transfers) in enumerate(zip(self.managers, self.transfers, strict=True)):
            memory = self.words.memory()
            answers = [obi.expected_answer(t, memory, absent=_is_unmapped(t.address)) for t in transfers]
            observed = [(transfer.data, transfer.failed) for transfer in manager.completed]
            self.equal(observed, answers, f"data and errors of manager {number}")

    def begin(self) -> list[Task[ObiTransfer]]:
        pairs = zip(self.managers, self.transfers, strict=True)
        return [cocotb.start_soon(manager.run(transfers)) for manager, transfers in pairs]


@unit_test(env=MuxEnv, timing=range(len(_TIMINGS)), timeout_us=20_000)
async def each_manager_gets_its_own_answers(dut: Dut, env: MuxEnv, timing: int) -> None:
    """Every access arrives once and unchanged at its destination, and its answer at its manager."""
    await gather(*env.begin())
    await ClockCycles(dut.clk, 2)
    env.check()
    if _TIMINGS[timing] == ObiTiming():
        quickest = min(transfer.answered - transfer.granted for transfers in env.transfers for transfer in transfers)
        env.equal(quickest, bench_data()["latency"], "cycles from grant to answer at least")


@unit_test(env=MuxEnv)
async def all_sets_of_managers_meet(env: MuxEnv, rng: Random) -> None:
    """All sets of managers request in the same cycle in all arbiter states; then unmapped addresses are accessed."""
    number, env.transfers = len(env.managers), [[] for _ in env.managers]
    far = _unmapped_addresses(2, rng)
    rng.shuffle(far)

    async def ask(asking: Collection[int]) -> None:
        for manager in asking:
            address = far.pop() if far else rng.choice(rng.choice(env.words.own[manager]))
            env.transfers[manager].append(_transfer(address, rng))
        await gather(*(env.managers[manager].run(env.transfers[manager][-1:]) for manager in asking))

    sets = [frozenset(asking) for size in range(1, number + 1) for asking in combinations(range(number), size)]
    missing = {(turn, asking) for turn in range(number) for asking in sets}
    while missing := missing - env.checker.requested_together:
        turn = env.checker.queue.grants % number
        await ask(max((asking for manager, asking in missing if manager == turn), key=len, default=sets[0]))
    while far:
        await ask(range(number))
    env.check()


@unit_test()
async def reset_forgets_what_is_under_way(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """After one cycle of reset in the middle of traffic nothing is requested or answered."""
    watched = [f"{name}__rvalid" for name in bench_data()["initiators"]]
    watched += [f"{place['port']}__req" for place in bench_data()["places"]]
    for _ in range(30):
        with MuxEnv(dut, rng, 1) as bus:
            tasks = bus.begin()
            await ClockCycles(dut.clk, rng.randint(2, 12))
            await pulse_reset(dut, 1)
        for task in tasks:
            task.cancel()
        await board.stays_low(dut, watched, _QUIET, "high after reset")
