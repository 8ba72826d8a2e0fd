"""Bench of the bridges to Wishbone and AHB-Lite: data, cycles of the handshakes, and the rules of the bus."""

from random import Random

from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.ahb import AhbSubordinate
from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, drive, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, ANY_NUMBER, ObiManager, ObiTransfer, WordMemory
from xpulpnn_sim.benches.agents.wishbone import WishboneSubordinate, WishboneTiming
from xpulpnn_sim.benches.launcher_data import bench_data

_SPAN = 1024  # bytes of the memory, so few that addresses repeat
_TRANSFERS = 150
_TIMINGS = [WishboneTiming(1.0, 0.5), WishboneTiming(0.5, 1.0), WishboneTiming(0.15, 0.0)]
_ON_AHB = bench_data()["ahb"]
_SUBORDINATE = AhbSubordinate if _ON_AHB else WishboneSubordinate
_ADDRESS, _REQUEST, _READY = ("haddr", "htrans", "hready") if _ON_AHB else ("adr", "cyc", "ack")


def _transfers(access: ObiTransfer, memory: WordMemory) -> list[tuple[int, int, int]]:
    """Return the address, whether it writes, and the enabled bytes of each transfer of an access to a memory."""
    words = bench_data()["words"]
    if not _ON_AHB or not bench_data()["writes"]:
        enabled = [access.enables >> WORD_BYTES * word & ALL_BYTES for word in range(words)]
        return [(access.address + WORD_BYTES * word, access.write, enables) for word, enables in enumerate(enabled)]
    # naturally aligned parts of the word
    parts = [0xF] if access.enables == ALL_BYTES else []
    for pair in () if parts else (0b0011, 0b1100):
        enables = access.enables & pair
        parts += [enables] if enables == pair else [1 << byte for byte in range(WORD_BYTES) if enables >> byte & 1]
    if len(parts) != 1 and not (access.write and parts):
        return [(access.address, 0, ALL_BYTES)]
    transfers = [(access.address + (part & -part).bit_length() - 1, access.write, part) for part in parts]
    return transfers[:1] if memory.fails(transfers[0][0]) else transfers


class Manager(ObiManager):
    """A manager that compares data and errors with a separate copy of the memory."""

    def __init__(self, dut: Dut, memory: WordMemory, rng: Random, pause: float) -> None:
        super().__init__(dut, "port", outstanding=ANY_NUMBER, pause=pause, rng=rng, shift=bench_data()["shift"])
        self._memory, self._words = memory, bench_data()["words"]
        self._error_bits = len(self._outputs["err"])
        self.failures = 0

    def _check_cycle(self, answered: ObiTransfer | None) -> None:
        if answered is None:
            return
        transfers = _transfers(answered, self._memory)
        failing = [self._memory.fails(place) for place, _, _ in transfers]
        share = len(transfers) // self._error_bits
        errors = sum(any(failing[part * share : (part + 1) * share]) << part for part in range(self._error_bits))
        assert sample(self._outputs["err"]) == errors, f"{answered}: errors must be {errors:b}"
        self.failures += errors > 0
        data = sample(self._outputs["rdata"])
        for number, ((place, write, enables), fails) in enumerate(zip(transfers, failing, strict=True)):
            word = number % self._words
            if write and not fails:
                self._memory.write(place & -WORD_BYTES, enables, answered.value >> 32 * word & WORD_MASK)
            elif not write and not fails:
                right = self._memory[place & -WORD_BYTES]
                assert data >> 32 * word & WORD_MASK == right or answered.write, f"{answered}: {data:#x}"


async def _reset_under_way(dut: Dut, rng: Random) -> None:
    """Reset during an access, before its first transfer, or when one of its transfers ends."""
    words, shift, request = bench_data()["words"], bench_data()["shift"], getattr(dut, f"bus__{_REQUEST}")
    for ended in range(words + 1 + _ON_AHB):
        before = max(0, ended - 1)
        address = rng.getrandbits(32) & -words * WORD_BYTES
        drive(dut, {"port__req": 1, "port__addr": address >> shift})
        await RisingEdge(dut.clk)
        drive(dut, {"port__req": 0, f"bus__{_READY}": int(ended > 0)})
        await ClockCycles(dut.clk, before)
        dut.rst.value = 1
        await FallingEdge(dut.clk)
        if before < words:
            assert sample(request), "nothing is under way"
            word = sample(getattr(dut, f"bus__{_ADDRESS}")) // (WORD_BYTES if _ON_AHB else 1)
            assert word == address // WORD_BYTES + before, "another word is under way"
        await RisingEdge(dut.clk)
        drive(dut, {"rst": 0, f"bus__{_READY}": _ON_AHB})
        await FallingEdge(dut.clk)
        assert not sample(request), "an access is under way after reset"
        assert not sample(dut.port__rvalid), "an access is answered after reset"
        await RisingEdge(dut.clk)


@unit_test(timing=_TIMINGS, pause=[0.0, 0.5], timeout_us=400)
async def accesses_are_those_of_the_port(dut: Dut, rng: Random, timing: WishboneTiming, pause: float) -> None:
    """Random accesses with errors: data, final memory and every cycle of the handshakes."""
    words = bench_data()["words"]
    size = words * WORD_BYTES
    # two places, so that each bit of the address is 0 and 1
    base = rng.getrandbits(32) & -_SPAN
    bases = base, base ^ -_SPAN & WORD_MASK
    # every combination of failing words of an access
    failing = ((at, word) for at in range(64 // words) for word in range(words) if at >> word & 1)
    failing_words = tuple((base + at * size + word * WORD_BYTES, WORD_BYTES) for at, word in failing)
    if _ON_AHB and words == 1:
        # words and half-words
        failing_words = tuple((base + at * size + (at & 8) // 4, WORD_BYTES >> (at >> 1 & 1)) for at in range(1, 64, 2))
    contents, expected = WordMemory(failing_words), WordMemory(failing_words)
    for place in (first + offset for first in bases for offset in range(0, _SPAN, WORD_BYTES)):
        contents[place] = expected[place] = rng.getrandbits(32)
    memory = _SUBORDINATE(dut, contents, timing, rng, words)
    manager = Manager(dut, expected, rng, pause)
    traffic = [
        ObiTransfer(
            rng.choice(bases) + rng.randrange(_SPAN // size) * size,
            int(bench_data()["writes"] and rng.random() < 0.5),
            rng.getrandbits(size) if bench_data()["writes"] else (1 << size) - 1,
            rng.getrandbits(BYTE_BITS * size),
        )
        for _ in range(_TRANSFERS)
    ]
    await _reset_under_way(dut, rng)
    with AgentGroup(dut, [memory, manager]):
        await manager.run(traffic)
    assert dict(contents) == dict(expected), "the memory differs"
    assert manager.failures, "nothing has failed"
    assert manager.most_outstanding == 1, f"{manager.most_outstanding} accesses under way"
    assert not _ON_AHB or sample(dut.bus__hprot) == 2 + bench_data()["writes"], "protection"
    free, log = 0, iter(memory.log)
    for access in manager.completed:
        bursts = [transfer for _, transfer in zip(_transfers(access, expected), log, strict=False)]
        assert access.granted == max(access.requested, free), f"{access} is not granted at once"
        last = access.answered - bench_data()["late"]
        assert (bursts[0].first, bursts[-1].last) == (access.granted + 1, last), f"{access}: {bursts}"
        assert [transfer[:3] for transfer in bursts] == _transfers(access, expected), f"{access}: {bursts}"
        free = access.answered
    assert next(log, None) is None, "a transfer belongs to no access"
