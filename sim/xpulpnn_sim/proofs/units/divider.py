"""Prove the divider for all operands by induction over its steps.

Let ``a`` and ``b`` be the sign-extended dividend and divisor. The unit keeps a remainder ``r``, a divisor ``d``, the
number ``s`` of remaining steps and a quotient ``q``. SAT proves for every state that satisfies the invariants:

- the first cycle determines ``s`` and sets ``r = a``, ``d = b * 2**s`` without overflow, ``q = 0``;
- each step halves ``d``, which stays ``b * 2**s``, and appends a bit to ``q``; if it is 1, ``d`` is subtracted from
  ``r``, or added if the signs of ``a`` and ``b`` differ;
- before each step ``|r| < 2 * |d|``, after it ``|r| < |d|``; ``r`` is 0 or has the sign of ``a``;
- after the step with ``s = 0`` the output is ``r`` or ``q``, negated if the signs differ, until it is taken;
- a divisor of 0 leaves ``r`` unchanged and makes each bit of ``q`` 1.

Step ``s`` determines bit ``s`` of the quotient, so that finally ``r = a - (±q) * b`` with ``|r| < |b|`` and the sign of
``a``, which defines quotient and remainder uniquely. The output has 32 bits of the quotient: -2**31 for -2**31 / -1.
"""

from collections.abc import Mapping, Sequence

from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, Word, literals_of
from xpulpnn_sim.proofs.engine.integers import Integers, constant, low, unsigned
from xpulpnn_sim.proofs.units.unit_proof import Claim, Definition, Equality, InputFault, ProvenUnit, unequal

_WIDE = XLEN + 1
_MOST_STEPS = XLEN
_STEP_BITS = _MOST_STEPS.bit_length()
_IDLE, _DIVIDE, _FINISH = (literals_of(code, 2) for code in range(3))
_REGISTERS = ("steps_left", "remainder", "divisor", "quotient", "state")


class _Division:
    def __init__(self, unit: ProvenUnit) -> None:
        self.graph = graph = GateGraph()
        self.z = Integers(graph)
        self._unit, self._words = unit, unit.gates.words
        self.operands = {"ctrl": graph.inputs(2), "op_a": graph.inputs(XLEN), "op_b": graph.inputs(XLEN)}
        signed, self.remainder = self.operands["ctrl"]
        words = self.operands["op_a"], self.operands["op_b"]
        self.a, self.b = ([*word, graph.and_(word[-1], signed)] for word in words)
        self.opposite = graph.xor(self.a[-1], self.b[-1])
        self.by_zero = graph.any(self.b) ^ 1

    def cycle(self, state: Mapping[str, Sequence[int]], *, start: int = TRUE, take: int = FALSE) -> ClockCycle:
        nets = {net: bit for name, word in state.items() for net, bit in zip(self._words[name], word, strict=True)}
        return self._unit.cycle(self.graph, self.operands, nets, start=[start], take=[take])

    def after(self, cycle: ClockCycle) -> dict[str, Word]:
        following = cycle.next_state()
        return {name: [following[net] for net in self._words[name]] for name in _REGISTERS}

    def shifted(self, places: Word) -> tuple[Word, int]:
        """Return the divisor shifted left by up to 32 bits, and a literal that is 1 if it did not overflow."""
        graph, z = self.graph, self.z
        number = z.shift_left(self.b, unsigned(places))
        signs = [graph.xor(bit, self.b[-1]) ^ 1 for bit in number[_WIDE - 1 :]]
        above_least = graph.and_(self.b[-1], number[XLEN - 1] ^ 1) ^ 1
        few = z.less(constant(_MOST_STEPS), unsigned(places)) ^ 1
        return low(number, _WIDE), graph.all([*signs, above_least, few])

    def is_bound(self, remainder: Word, divisor: Word) -> int:
        """Return a literal that is 1 if ``|r| < |d|`` or ``b = 0``, and ``r`` is 0 or has the sign of ``a``."""
        graph, z = self.graph, self.z
        fits = graph.or_(z.less(z.magnitude(remainder), z.magnitude(divisor)), self.by_zero)
        return graph.and_(fits, graph.or_(graph.xor(remainder[-1], self.a[-1]) ^ 1, z.is_true(remainder) ^ 1))


def _claims(unit: ProvenUnit) -> list[Claim]:
    def first(timeout_s: float) -> str:
        division = _Division(unit)
        graph, cycle = division.graph, division.cycle({"state": _IDLE})
        after = division.after(cycle)
        shifted, lossless = division.shifted(after["steps_left"])
        most = graph.is_value(after["steps_left"], _MOST_STEPS)
        equalities = [
            Equality("remainder", after["remainder"], division.a),
            Equality("quotient", after["quotient"], [FALSE] * XLEN),
            Equality("state", after["state"], _DIVIDE),
            Equality("end", cycle.port("done"), [FALSE]),
            Equality("divisor", after["divisor"], shifted),
            Equality("divisor shifted without loss", [lossless], [TRUE]),
            Equality("remainder's bound", [division.is_bound(after["remainder"], [FALSE, *after["divisor"]])], [TRUE]),
            Equality("33 steps by zero", [graph.and_(division.by_zero, most)], [division.by_zero]),
        ]
        return unequal(graph, TRUE, equalities, division.operands, timeout_s)

    def step(timeout_s: float) -> str:
        division = _Division(unit)
        graph, steps = division.graph, division.graph.inputs(_STEP_BITS)
        divisor, lossless = division.shifted(steps)
        before = {"state": _DIVIDE, "steps_left": steps, "remainder": graph.inputs(_WIDE), "divisor": divisor}
        before["quotient"] = graph.inputs(XLEN)
        # only a division by zero has 32 steps left
        few = graph.or_(steps[-1] ^ 1, division.by_zero)
        known = graph.all([lossless, division.is_bound(before["remainder"], [FALSE, *divisor]), few])
        return unequal(graph, known, _step(division, before), division.operands | before, timeout_s)

    def last(timeout_s: float) -> str:
        division = _Division(unit)
        graph = division.graph
        held = {"remainder": graph.inputs(_WIDE), "quotient": graph.inputs(XLEN)}
        state = {**held, "state": _FINISH}
        cycle, taken = division.cycle(state), division.cycle(state, take=TRUE)
        given_up = division.cycle({}, start=FALSE)
        negated = graph.subtract([FALSE] * XLEN, held["quotient"])
        quotient = graph.choose(graph.and_(division.opposite, division.by_zero ^ 1), negated, held["quotient"])
        expected, after = graph.choose(division.remainder, held["remainder"][:XLEN], quotient), division.after(cycle)
        equalities = [
            *(Equality("result", each.port("result"), expected) for each in (cycle, taken)),
            *(Equality("end", each.port("done"), [TRUE]) for each in (cycle, taken)),
            *(Equality(f"{name} until it is taken", after[name], word) for name, word in state.items()),
            Equality("state behind it", division.after(taken)["state"], _IDLE),
            Equality("state when given up", division.after(given_up)["state"], _IDLE),
            Equality("end when given up", given_up.port("done"), [FALSE]),
        ]
        return unequal(graph, TRUE, equalities, {**division.operands, **held}, timeout_s)

    return [
        Claim("first cycle: divisor shifted, bounds", "sat", first),
        Claim("each step: remainder, quotient, bounds", "sat", step),
        Claim("result until it is taken", "sat", last),
    ]


def _step(division: _Division, before: Mapping[str, Word]) -> list[Equality]:
    graph, cycle = division.graph, division.cycle(before)
    after, old, size, steps = division.after(cycle), before["remainder"], before["divisor"], before["steps_left"]
    bit, goes_on = after["quotient"][0], graph.any(steps)
    taken = graph.choose(division.opposite, graph.add(old, size), graph.subtract(old, size))
    fewer = graph.subtract(steps, literals_of(1, _STEP_BITS))
    half, _ = division.shifted(fewer)
    return [
        Equality("quotient", after["quotient"][1:], before["quotient"][:-1]),
        Equality("remainder", after["remainder"], graph.choose(graph.and_(bit, division.by_zero ^ 1), taken, old)),
        Equality("remainder's bound", [division.is_bound(after["remainder"], size)], [TRUE]),
        Equality("bit of a division by zero", [graph.and_(bit, division.by_zero)], [division.by_zero]),
        Equality("state", after["state"], graph.choose(goes_on, _DIVIDE, _FINISH)),
        Equality("end", cycle.port("done"), [FALSE]),
        Equality("steps left", after["steps_left"], graph.choose(goes_on, fewer, after["steps_left"])),
        Equality("divisor", after["divisor"], graph.choose(goes_on, half, after["divisor"])),
    ]


DIVIDER = Definition(_claims, [InputFault(port, WORD_MASK, refutes="first") for port in ("op_a", "op_b")])
"""Claims about quotient and remainder; the faults confuse operands of 2**32 - 2 and 2**32 - 1."""
