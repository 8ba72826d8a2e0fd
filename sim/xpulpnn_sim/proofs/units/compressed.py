"""The decoder of compressed instructions for all of their words."""

from collections.abc import Iterator

from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph
from xpulpnn_sim.proofs.units.unit_proof import Claim, Fault, none, rare
from xpulpnn_sim.reference.golden.compressed import expanded

_HALF, _WORD = 16, 32
_QUADRANT_BITS = 2
_QUADRANTS = 3  # those of compressed words; the fourth one is that of words of 32 bits


def claims(gates: ClockedGates, *, fault: Fault = none) -> list[Claim]:
    """Every compressed word is expanded as the manual says, whatever follows it; other words stay."""
    return [
        Claim(
            what="every 16-bit word, whatever follows",
            method="exhaustive",
            decide=lambda _: next(_wrong_halves(gates, fault), ""),
        ),
        Claim(what="every 32-bit word stays", method="same gates", decide=lambda _: _wrong_word(gates, fault)),
    ]


def broken(gates: ClockedGates) -> list[list[Claim]]:
    """Claims that are wrong: c.li a0, 0 with zeros behind it arrives as a word of another quadrant, and vice versa."""
    return [claims(gates, fault=rare("word", 0x4501))]


def _cycle(gates: ClockedGates, graph: GateGraph, word: list[int], fault: Fault) -> ClockCycle:
    ports = {"word": word}
    fault(graph, ports)
    return ClockCycle(graph, gates, ports, {})


def _wrong_halves(gates: ClockedGates, fault: Fault) -> Iterator[str]:
    cases = 1 << (_HALF - _QUADRANT_BITS)
    mask = (1 << cases) - 1
    for quadrant in range(_QUADRANTS):
        graph = GateGraph()
        low = [TRUE if quadrant >> bit & 1 else FALSE for bit in range(_QUADRANT_BITS)]
        free = graph.inputs(_WORD - _QUADRANT_BITS)
        cycle = _cycle(gates, graph, [*low, *free], fault)
        outputs = [*cycle.port("expanded"), *cycle.port("compressed")]
        counted, above = free[: _HALF - _QUADRANT_BITS], free[_HALF - _QUADRANT_BITS :]
        given = {literal: _counter(place, cases) for place, literal in enumerate(counted)}
        used = {node << 1 for node in graph.cone(outputs)}
        columns = graph.evaluate(given, outputs, mask)
        for case in range(cases):
            half = case << _QUADRANT_BITS | quadrant
            found = sum((column >> case & 1) << place for place, column in enumerate(columns))
            wanted = expanded(half) or 0
            if found != wanted | 1 << _WORD:
                kind = "" if found >> _WORD else " and is taken for a word of 32 bits"
                yield f"0x{half:04x} must become 0x{wanted:08x}, not 0x{found % (1 << _WORD):08x}{kind}"
        if used.intersection(above):
            yield "what follows a compressed word must make no difference, but gates read it"


def _counter(place: int, cases: int) -> int:
    """Bit ``place`` of the numbers of the cases."""
    period = 2 << place
    return ((1 << (1 << place)) - 1 << (1 << place)) * (((1 << cases) - 1) // ((1 << period) - 1))


def _wrong_word(gates: ClockedGates, fault: Fault) -> str:
    graph = GateGraph()
    word = [TRUE, TRUE, *graph.inputs(_WORD - _QUADRANT_BITS)]
    cycle = _cycle(gates, graph, word, fault)
    if cycle.port("compressed") == [FALSE] and cycle.port("expanded") == word:
        return ""
    return "a word of 32 bits must stay, but its gates are others"
