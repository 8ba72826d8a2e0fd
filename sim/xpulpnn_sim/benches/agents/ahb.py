"""AHB-Lite: a subordinate that answers, and checks the rules for managers."""

from random import Random

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.agents.base import Agent, Dut, PortDriver, sample
from xpulpnn_sim.benches.agents.obi import WordMemory
from xpulpnn_sim.benches.agents.wishbone import BusTransfer, WishboneTiming

_IDLE, _BUSY, _NONSEQ, _SEQ = range(4)  # kinds of transfers
_SINGLE, _INCR4 = 0, 3  # kinds of bursts
_WORD = 2  # size
_FIELDS = ("haddr", "htrans", "hburst", "hsize", "hwrite", "hprot", "hmastlock")


class AhbSubordinate(Agent):
    """Memory on the port ``bus`` that ends transfers after any number of cycles and checks the rules for managers.

    Every access to four words must be a burst. :attr:`log` holds the transfers in order, from the first cycle of the
    address to the end of the data. A broken rule raises ``AssertionError``.
    """

    def __init__(self, dut: Dut, memory: WordMemory, timing: WishboneTiming, rng: Random, words: int) -> None:
        super().__init__(dut)
        self.log: list[BusTransfer] = []
        self._memory, self._ends, self._rng, self._words = memory, timing.ends, rng, words
        self._driver = PortDriver(dut, "bus__")
        self._seen = {name: getattr(dut, f"bus__{name}") for name in (*_FIELDS, "hwdata")}
        self._waiting: tuple[int, dict[str, int]] | None = None  # first cycle and attributes of an address
        self._under_way: BusTransfer | None = None  # transfer in its data phase
        self._failing, self._written = False, None  # in the first cycle of an error; data of an unfinished transfer
        self._word, self._address, self._cycle = 0, 0, 0

    def drive(self) -> None:
        transfer, ready, response, word = self._under_way, 1, 0, self._rng.getrandbits(32)
        if transfer and self._failing:
            response, self._failing = 1, False
        elif transfer and self._rng.random() < self._ends:
            # the first of the two cycles of an error is not ready
            self._failing = self._memory.fails(transfer.address)
            ready, response = int(not self._failing), int(self._failing)
            if not self._failing:
                word = self._memory[transfer.address & -WORD_BYTES]
        elif transfer:
            ready = 0
        self._driver.drive(hready=ready, hresp=response, hrdata=word)

    def sample(self) -> None:
        shown = {name: sample(self._seen[name]) for name in _FIELDS}
        if self._waiting is None:
            self._waiting = (self._cycle, shown)
        assert self._waiting[1] == shown, f"{self._waiting[1]} becomes {shown} before it is accepted"
        ready = self._driver.values["hready"]
        if self._under_way:
            self._transfer(self._under_way, sample(self._seen["hwdata"]), ready=ready > 0)
        if ready:
            self._under_way = self._accepted(self._waiting[0], shown)
        # in the first cycle of an error the next address may be withdrawn
        if ready or self._failing or shown["htrans"] == _IDLE:
            self._waiting = None
        self._cycle += 1

    def _accepted(self, first: int, shown: dict[str, int]) -> BusTransfer | None:
        trans, address, size = shown["htrans"], shown["haddr"], shown["hsize"]
        assert trans in ((_SEQ,) if self._word else (_IDLE, _NONSEQ)), f"{shown} at word {self._word} of a burst"
        if trans == _IDLE:
            return None
        assert address % (1 << size) == 0, f"{shown} is not aligned"
        assert size <= _WORD, f"{shown} is wider than the bus"
        assert not self._word or address == self._address + WORD_BYTES, f"{shown} does not follow in its burst"
        constants = (_INCR4 if self._words > 1 else _SINGLE, 0)
        assert (shown["hburst"], shown["hmastlock"]) == constants, shown
        self._address, self._word = address, (self._word + 1) % self._words
        return BusTransfer(address, shown["hwrite"], (1 << (1 << size)) - 1 << address % WORD_BYTES, first, 0)

    def _transfer(self, transfer: BusTransfer, data: int, *, ready: bool) -> None:
        assert not transfer.writes or self._written in (None, data), f"data of {transfer} change"
        self._written = None if ready else data
        if ready:
            self.log.append(transfer._replace(last=self._cycle))
            if transfer.writes and not self._memory.fails(transfer.address):
                self._memory.write(transfer.address & -WORD_BYTES, transfer.enables, data)

    def release(self) -> None:
        self._driver.drive(hready=1, hresp=0)
