"""Prove ``pv.qnt`` for all pixels, addresses and thresholds, with any memory timing.

An operation reads one threshold after the other. To show that timing does not matter, two statements are proved for
every step, from any state with the same number of grants and any codes. First, nothing changes in a cycle without a
grant and without an awaited response. Second, a response followed by the next grant leads to the same state as both in
one cycle, and does not change the requested address.

The unit is therefore always in a state of the run with a grant and a response in every cycle. This run is compared, for
any thresholds, with the search in the instruction table: each address, and the code of each pixel.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import HALF_BITS, QUANTISED_PIXELS, XLEN
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, Word, literals_of
from xpulpnn_sim.proofs.engine.integers import Integers
from xpulpnn_sim.proofs.units.unit_proof import Claim, Definition, Equality, InputFault, ProvenUnit, unequal

_BLOCK_BITS = 6
_DISTANCE = {ElemFmt.N: 32, ElemFmt.C: 8}
_FIRST_STEP = {ElemFmt.N: 8, ElemFmt.C: 2}
"""Distances in bytes (``_DISTANCE``, ``_FIRST_STEP``): between thresholds of two pixels, and of the first step."""

State = dict[int, int]  # literal of each register bit


class _Search:
    def __init__(self, unit: ProvenUnit, fmt: ElemFmt) -> None:
        self.graph = GateGraph()
        self.steps = QUANTISED_PIXELS * fmt.width
        self.operands = {"pixels": self.graph.inputs(XLEN), "middle": self.graph.inputs(XLEN)}
        self.thresholds = [self.graph.inputs(HALF_BITS) for _ in range(self.steps)]
        self._unit, self._crumbs = unit, [int(fmt is ElemFmt.C)]
        self.idle = self.cycle({}, start=FALSE).next_state()

    @property
    def shown(self) -> Mapping[str, Sequence[int]]:
        return self.operands | {f"threshold {number}": word for number, word in enumerate(self.thresholds)}

    def cycle(
        self,
        state: Mapping[int, int],
        *,
        start: int = TRUE,
        granted: int = FALSE,
        answered: int = FALSE,
        threshold: Sequence[int] | None = None,
    ) -> ClockCycle:
        given = {"start": [start], "granted": [granted], "answered": [answered], "crumbs": self._crumbs}
        word = self.graph.inputs(HALF_BITS) if threshold is None else threshold
        return self._unit.cycle(self.graph, self.operands, state, **given, threshold=word)

    def step(self, state: Mapping[int, int], number: int) -> ClockCycle:
        """Return the cycle that grants threshold ``number`` and answers the request of the previous threshold."""
        return self.cycle(
            state,
            granted=TRUE if number < self.steps else FALSE,
            answered=TRUE if number else FALSE,
            threshold=self.thresholds[number - 1] if number else None,
        )

    def anything_known(self, state: Mapping[int, int]) -> State:
        """Return ``state`` with all bits that are not constant replaced by free variables."""
        return {net: literal if literal <= TRUE else self.graph.input() for net, literal in state.items()}

    def same(self, state: Mapping[int, int], other: Mapping[int, int]) -> Equality:
        return Equality("registers", [state[net] for net in other], list(other.values()))


def _definition(search: _Search, fmt: ElemFmt) -> tuple[list[Word], Word]:
    """Return each threshold's address in the unit's order, and the result, as the instruction table defines them."""
    graph, z, (pixels, middle) = search.graph, Integers(search.graph), search.operands.values()
    addresses: list[Word] = [[] for _ in range(search.steps)]
    result = [FALSE] * XLEN
    for pixel in range(QUANTISED_PIXELS):
        value = pixels[HALF_BITS * pixel :][:HALF_BITS]
        lower = graph.add(middle[:HALF_BITS], literals_of(_DISTANCE[fmt] * pixel, HALF_BITS))
        address = [FALSE, *lower[1:], *middle[HALF_BITS:]]
        code: Word = []
        for level in range(fmt.width):
            number = QUANTISED_PIXELS * level + pixel
            addresses[number] = address
            above = z.less(search.thresholds[number], value)
            code = [above, *code]
            block, step = address[:_BLOCK_BITS], literals_of(_FIRST_STEP[fmt] >> level, _BLOCK_BITS)
            moved = graph.choose(above, graph.add(block, step), graph.subtract(block, step))
            address = [*moved, *address[_BLOCK_BITS:]]
        code[-1] ^= 1
        result[fmt.width * pixel : fmt.width * (pixel + 1)] = code
    return addresses, result


def _searched(unit: ProvenUnit, fmt: ElemFmt, timeout_s: float) -> str:
    search = _Search(unit, fmt)
    addresses, result = _definition(search, fmt)
    equalities: list[Equality] = []
    state = search.idle
    for number in range(search.steps):
        cycle = search.step(state, number)
        equalities += [
            Equality(f"request of threshold {number}", cycle.port("request"), [TRUE]),
            Equality(f"address of threshold {number}", cycle.port("address"), addresses[number]),
            Equality(f"end before threshold {number}", cycle.port("done"), [FALSE]),
        ]
        state = cycle.next_state()
    last = search.step(state, search.steps)
    equalities += [
        Equality("request at the end", last.port("request"), [FALSE]),
        Equality("end", last.port("done"), [TRUE]),
        Equality("result", last.port("result"), result),
    ]
    after = last.next_state()
    if any(after[net] != literal for net, literal in search.idle.items() if literal <= TRUE):
        return "the unit must be idle after the result"
    return unequal(search.graph, TRUE, equalities, search.shown, timeout_s)


def _timed(unit: ProvenUnit, fmt: ElemFmt, timeout_s: float) -> str:
    search = _Search(unit, fmt)
    equalities = _waits(search, search.anything_known(search.idle), outstanding=False)
    state = search.idle
    for number in range(search.steps):
        state = search.anything_known(search.step(state, number).next_state())
        equalities += _waits(search, state, outstanding=True)
        equalities += _split_response_and_grant(search, state, number + 1)
    return unequal(search.graph, TRUE, equalities, search.shown, timeout_s)


def _quantiser_claims(unit: ProvenUnit) -> list[Claim]:
    formats = [fmt for fmt in (ElemFmt.N, ElemFmt.C) if fmt.width in unit.config.widths]
    names = {fmt: f"pv.qnt.{fmt.suffix}" for fmt in formats}
    searched = [Claim(f"{names[fmt]}: addresses and codes", "sat", partial(_searched, unit, fmt)) for fmt in formats]
    timing = "the same for any timing"
    timed = [Claim(f"{names[fmt]}: {timing}", "sat, by step", partial(_timed, unit, fmt)) for fmt in formats]
    return searched + timed


def _waits(search: _Search, state: State, *, outstanding: bool) -> list[Equality]:
    """Return equalities which say that a cycle without a grant and without an awaited response changes nothing."""
    quiet = search.cycle(state)
    busy = search.cycle(state, granted=search.graph.input(), answered=search.graph.input())
    requested = ("request", "address")
    equalities = [Equality(f"{name} by registers", busy.port(name), quiet.port(name)) for name in requested]
    for answered in (FALSE,) if outstanding else (FALSE, TRUE):
        cycle = search.cycle(state, answered=answered)
        equalities += [search.same(cycle.next_state(), state), Equality("end", cycle.port("done"), [FALSE])]
    return equalities


def _split_response_and_grant(search: _Search, state: State, grants: int) -> list[Equality]:
    """Return equalities which say that a response followed by a grant has the same effect as both in one cycle."""
    threshold = search.thresholds[grants - 1]
    both = search.step(state, grants)
    if grants == search.steps:
        return []
    answer = search.cycle(state, answered=TRUE, threshold=threshold)
    between = answer.next_state()
    equalities = [Equality("end", answer.port("done"), [FALSE]), *_waits(search, between, outstanding=False)]
    for answered in (FALSE, TRUE):
        grant = search.cycle(between, granted=TRUE, answered=answered)
        equalities += [
            search.same(grant.next_state(), both.next_state()),
            Equality("address after an answer", grant.port("address"), both.port("address")),
            Equality("request after an answer", grant.port("request"), both.port("request")),
        ]
    return equalities


QUANTISER = Definition(
    _quantiser_claims,
    [InputFault("pixels", 2, 0, refutes="pv.qnt"), InputFault("middle", 0x8000_0000, 4, refutes="pv.qnt")],
)
"""Claims about addresses and codes; the faults invert one bit of a pixel or of an address in a single case."""
