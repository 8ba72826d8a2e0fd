"""``pv.qnt`` for all pixels, addresses and thresholds, however long the memory takes; ``pv.rq*`` for all operands.

An operation of ``pv.qnt`` grants and answers one threshold after the other. That the moments make no difference is
shown of every step, from any state that has as many grants behind it, whatever codes it holds:

- nothing changes in a cycle without a grant and without an awaited answer;
- an answer that comes alone, and the grant of the next threshold after it, lead to the same state as both in one cycle;
  the address asked for is the same before and after that answer.

Whatever the order, the unit is thus in a state of the run that grants and answers in every cycle. That run is compared,
for any thresholds, with the search that the instruction table defines: each address, each pixel's code. The thresholds
are the same wherever the addresses are.

The sum of ``pv.rq*`` is shifted as a number of 32 bits with sign, compared with both bounds, and put into a lane: none
of it as the unit does, which complements negative sums and looks for ones above the result. Of ``pv.rqx*`` it is a
number of 64 bits, to which half of the last place that stays is added before the shift, for each amount of that.
"""

from collections.abc import Mapping, Sequence

from xpulpnn.core.requantiser import FORMATS
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import HALF_BITS, QUANTISED_PIXELS, XLEN
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, Word, literals_of
from xpulpnn_sim.proofs.engine.integers import Integers, constant, low, unsigned
from xpulpnn_sim.proofs.units.unit_proof import Claim, Definition, Equality, InputFault, ProvenUnit, unequal

_BLOCK_BITS = 6
_DISTANCE = {ElemFmt.N: 32, ElemFmt.C: 8}
_FIRST_STEP = {ElemFmt.N: 8, ElemFmt.C: 2}
"""Bytes, as in the instruction table: from the thresholds of one pixel to those of the other, and of the first step."""

State = dict[int, int]  # literal of each register bit


class _Search:
    """An operation of the unit."""

    def __init__(self, unit: ProvenUnit, fmt: ElemFmt) -> None:
        self.graph = GateGraph()
        self.steps = QUANTISED_PIXELS * fmt.width
        self.operands = {"pixels": self.graph.inputs(XLEN), "middle": self.graph.inputs(XLEN)}
        self.thresholds = [self.graph.inputs(HALF_BITS) for _ in range(self.steps)]
        self._unit, self._crumbs = unit, [int(fmt is ElemFmt.C)]
        self.idle = self.cycle({}, start=FALSE).next_state()

    @property
    def shown(self) -> Mapping[str, Sequence[int]]:
        """Words that tell a case."""
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
        """A cycle from a state, of which registers that are left out hold anything."""
        given = {"start": [start], "granted": [granted], "answered": [answered], "crumbs": self._crumbs}
        word = self.graph.inputs(HALF_BITS) if threshold is None else threshold
        return self._unit.cycle(self.graph, self.operands, state, **given, threshold=word)

    def step(self, state: Mapping[int, int], number: int) -> ClockCycle:
        """The cycle in which threshold ``number`` is granted, and the one before it answered."""
        return self.cycle(
            state,
            granted=TRUE if number < self.steps else FALSE,
            answered=TRUE if number else FALSE,
            threshold=self.thresholds[number - 1] if number else None,
        )

    def anything_known(self, state: Mapping[int, int]) -> State:
        """A state with the same constants, and anything in the other registers."""
        return {net: literal if literal <= TRUE else self.graph.input() for net, literal in state.items()}

    def same(self, one: Mapping[int, int], other: Mapping[int, int]) -> Equality:
        """Two states as words."""
        return Equality("registers", [one[net] for net in other], list(other.values()))


def _definition(search: _Search, fmt: ElemFmt) -> tuple[list[Word], Word]:
    """Address of each threshold in the unit's order, and the result, by the statements of the instruction table."""
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


def _quantiser_claims(unit: ProvenUnit) -> list[Claim]:
    def searched(fmt: ElemFmt) -> Claim:
        def decide(timeout_s: float) -> str:
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

        return Claim(what=f"pv.qnt.{fmt.suffix}: addresses and codes", method="sat", decide=decide)

    def timing(fmt: ElemFmt) -> Claim:
        def decide(timeout_s: float) -> str:
            search = _Search(unit, fmt)
            equalities = _waits(search, search.anything_known(search.idle), outstanding=False)
            state = search.idle
            for number in range(search.steps):
                state = search.anything_known(search.step(state, number).next_state())
                equalities += _waits(search, state, outstanding=True)
                equalities += _alone(search, state, number + 1)
            return unequal(search.graph, TRUE, equalities, search.shown, timeout_s)

        return Claim(what=f"pv.qnt.{fmt.suffix}: the same for any timing", method="sat, by step", decide=decide)

    formats = [fmt for fmt in (ElemFmt.N, ElemFmt.C) if fmt.width in unit.config.widths]
    return [claim(fmt) for claim in (searched, timing) for fmt in formats]


def _waits(search: _Search, state: State, *, outstanding: bool) -> list[Equality]:
    """A cycle without a grant, and without an answer that is awaited, changes nothing and ends nothing.

    What is asked for follows from the registers alone.
    """
    quiet = search.cycle(state)
    busy = search.cycle(state, granted=search.graph.input(), answered=search.graph.input())
    asked = ("request", "address")
    found = [Equality(f"{name} by registers", busy.port(name), quiet.port(name)) for name in asked]
    for answered in (FALSE,) if outstanding else (FALSE, TRUE):
        cycle = search.cycle(state, answered=answered)
        found += [search.same(cycle.next_state(), state), Equality("end", cycle.port("done"), [FALSE])]
    return found


def _alone(search: _Search, state: State, grants: int) -> list[Equality]:
    """An answer alone, then the next grant: as both at once. The last answer ends the operation."""
    threshold = search.thresholds[grants - 1]
    both = search.step(state, grants)
    if grants == search.steps:
        return []
    answer = search.cycle(state, answered=TRUE, threshold=threshold)
    between = answer.next_state()
    found = [Equality("end", answer.port("done"), [FALSE]), *_waits(search, between, outstanding=False)]
    for answered in (FALSE, TRUE):
        grant = search.cycle(between, granted=TRUE, answered=answered)
        found += [
            search.same(grant.next_state(), both.next_state()),
            Equality("address after an answer", grant.port("address"), both.port("address")),
            Equality("request after an answer", grant.port("request"), both.port("request")),
        ]
    return found


QUANTISER = Definition(
    _quantiser_claims,
    [InputFault("pixels", 2, 0, refutes="pv.qnt"), InputFault("middle", 0x8000_0000, 4, refutes="pv.qnt")],
)
"""Addresses and codes; pixels of 2 arrive as 3 if the other one is 0, and vice versa; as does an address."""


class _Requantised:
    """Ports of the requantiser as literals."""

    def __init__(self, unit: ProvenUnit, places: int | None = None, **ctrl: int) -> None:
        # with an amount of its own the exact form, else a sum of 32 bits
        self.graph = graph = GateGraph()
        widths = {port["name"]: port["width"] for port in unit.ports}
        self.words = {name: graph.inputs(widths[name]) for name in ("lane", "places", "sum", "old")}
        rounds: list[int] | None = None
        if places is not None:
            self.words |= {"places": literals_of(places, widths["places"]), "zero": graph.inputs(widths["zero"])}
            rounds = [TRUE]
        elif "zero" in widths:
            *lower, sign = self.words["sum"][:XLEN]
            self.words["sum"] = [*lower, *[sign] * (XLEN + 1)]
            self.words["places"][-1] = FALSE
            self.words["zero"] = [FALSE] * widths["zero"]
            rounds = [FALSE]
        self.places = places
        given = {**self.words, "ctrl": unit.control(ctrl, graph)} | ({} if rounds is None else {"rounds": rounds})
        self.result = unit.cycle(graph, given).port("result")

    def wanted(self, fmt: ElemFmt, *, to_signed: bool) -> tuple[int, Word]:
        """Literal of the lane being one of the format, and the result."""
        graph, z, words = self.graph, Integers(self.graph), self.words
        lane, places, total, old = (words[name] for name in ("lane", "places", "sum", "old"))
        least = -(1 << fmt.width - 1) if to_signed else 0
        if self.places is not None:
            total = z.add(total, constant(1 << self.places >> 1))
        shifted = z.right(total, unsigned(places))
        if self.places is not None:
            shifted = z.add(shifted, words["zero"])
        value = z.greatest(shifted, constant(least))
        value = low(z.least(value, constant(least + (1 << fmt.width) - 1)), fmt.width)
        lanes = [graph.is_value(lane, number) for number in range(fmt.lanes)]
        parts = (old[number * fmt.width :][: fmt.width] for number in range(fmt.lanes))
        inserted = (graph.choose(here, value, part) for here, part in zip(lanes, parts, strict=True))
        return graph.any(lanes), [bit for part in inserted for bit in part]


def _requantiser_claims(unit: ProvenUnit) -> list[Claim]:
    def inserted(fmt: ElemFmt, *, to_signed: bool) -> Claim:
        def decide(timeout_s: float) -> str:
            one = _Requantised(unit, valid=1, load=0, to_signed=to_signed, fmt=fmt.value)
            occurs, wanted = one.wanted(fmt, to_signed=to_signed)
            return unequal(one.graph, occurs, [Equality("result", one.result, wanted)], one.words, timeout_s)

        name = f"pv.rq{'s' if to_signed else 'u'}.{fmt.suffix}"
        return Claim(what=f"{name}: shift, clip and insertion", method="sat", decide=decide)

    def exact(fmt: ElemFmt, *, to_signed: bool) -> Claim:
        """The exact form, one amount after the other."""

        def decide(timeout_s: float) -> str:
            for places in range(2 * XLEN):
                one = _Requantised(unit, places, valid=1, load=0, to_signed=to_signed, fmt=fmt.value)
                occurs, wanted = one.wanted(fmt, to_signed=to_signed)
                wrong = unequal(one.graph, occurs, [Equality("result", one.result, wanted)], one.words, timeout_s)
                if wrong:
                    return wrong
            return ""

        name = f"pv.rqx{'s' if to_signed else 'u'}.{fmt.suffix}"
        return Claim(
            what=f"{name}: rounded shift by 0 to 63, zero point, clip and insertion", method="sat", decide=decide
        )

    def idle(timeout_s: float) -> str:
        one = _Requantised(unit, valid=0)
        return unequal(one.graph, TRUE, [Equality("result", one.result, [FALSE] * XLEN)], one.words, timeout_s)

    formats = [fmt for fmt in FORMATS if fmt.width in unit.config.widths]
    kinds = (inserted, exact) if unit.config.requantise_exact else (inserted,)
    found = [kind(fmt, to_signed=to_signed) for kind in kinds for fmt in formats for to_signed in (False, True)]
    return [*found, Claim(what="every other instruction: no result", method="sat", decide=idle)]


REQUANTISER = Definition(
    _requantiser_claims,
    [InputFault("sum", (1 << 2 * XLEN) - 1, refutes="pv.rqs"), InputFault("zero", 0x55, 7, refutes="pv.rqxs.b")],
)
"""Every sum, amount, word and lane; a sum of -2 arrives as -1, and vice versa; a zero point of 85 as -43."""
