"""Wishbone: a subordinate that answers, and checks the rules for managers."""

from random import Random
from typing import NamedTuple

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.agents.base import Agent, Dut, PortDriver, sample
from xpulpnn_sim.benches.agents.obi import WordMemory

_CLASSIC, _INCREMENTING, _END = 0, 2, 7
_FIELDS = ("adr", "we", "sel", "cti", "bte")


class WishboneTiming(NamedTuple):
    """Probabilities that a transfer ends in a cycle, and that a failed one ends with ``err`` but without ``ack``."""

    ends: float
    error_only: float


class BusTransfer(NamedTuple):
    address: int
    writes: int
    enables: int
    first: int
    last: int


class WishboneSubordinate(Agent):
    """Memory on the port ``bus`` that ends transfers after any number of cycles and checks the rules for managers.

    Every access must be a burst of ``words`` words of 32 bits; with one word a classic cycle. :attr:`log` holds the
    transfers in order. A broken rule raises ``AssertionError``.
    """

    responds = True

    def __init__(self, dut: Dut, memory: WordMemory, timing: WishboneTiming, rng: Random, words: int) -> None:
        super().__init__(dut)
        self.log: list[BusTransfer] = []
        self._memory, self._timing, self._rng, self._words = memory, timing, rng, words
        self._driver = PortDriver(dut, "bus__")
        self._seen = {name: getattr(dut, f"bus__{name}") for name in (*_FIELDS, "cyc", "stb", "dat_w")}
        self._waiting: tuple[int, dict[str, int]] | None = None  # first cycle and attributes of a transfer
        self._next: int | None = None  # address of the next transfer of a burst
        self._word, self._cycle, self._ends = 0, 0, False

    def drive(self) -> None:
        self._driver.drive(ack=0, err=0, dat_r=self._rng.getrandbits(32))

    def respond(self) -> None:
        requested = sample(self._seen["stb"]) > 0
        self._ends = requested and self._rng.random() < self._timing.ends
        if not requested:
            self._driver.drive(ack=self._rng.getrandbits(1), err=self._rng.getrandbits(1))
        if self._ends:
            address = sample(self._seen["adr"]) * WORD_BYTES
            fails = self._memory.fails(address)
            self._driver.drive(ack=int(not fails or self._rng.random() >= self._timing.error_only), err=int(fails))
            if not fails and not sample(self._seen["we"]):
                self._driver.drive(dat_r=self._memory[address])

    def sample(self) -> None:
        cycle, stb = self._cycle, sample(self._seen["stb"])
        self._cycle += 1
        assert sample(self._seen["cyc"]) == stb, "cyc without stb, or stb without cyc"
        if not stb:
            assert self._waiting is None, "a transfer is withdrawn"
            assert self._next is None, "a burst breaks off"
            return
        shown = {name: sample(self._seen[name]) for name in (*_FIELDS, "dat_w")}
        if not shown["we"]:
            del shown["dat_w"]
        if self._waiting is None:
            self._begins(shown)
            self._waiting = (cycle, shown)
        assert self._waiting[1] == shown, f"{self._waiting[1]} becomes {shown} before it ends"
        if self._ends:
            self._end(self._waiting[0], cycle, shown)

    def _begins(self, shown: dict[str, int]) -> None:
        last = self._word == self._words - 1
        cycle_type = _CLASSIC if self._words == 1 else _END if last else _INCREMENTING
        assert (shown["cti"], shown["bte"]) == (cycle_type, 0), shown
        assert self._next in (None, shown["adr"]), f"{shown} does not follow in its burst"
        self._next = None if last else shown["adr"] + 1

    def _end(self, first: int, cycle: int, shown: dict[str, int]) -> None:
        address = shown["adr"] * WORD_BYTES
        if shown["we"] and not self._memory.fails(address):
            self._memory.write(address, shown["sel"], shown["dat_w"])
        self.log.append(BusTransfer(address, shown["we"], shown["sel"], first, cycle))
        self._waiting, self._word = None, (self._word + 1) % self._words

    def release(self) -> None:
        self._driver.drive(ack=0, err=0)
