"""The divider for all operands, by induction over its steps.

With ``a`` and ``b`` the dividend and the divisor, extended by their signs, the unit keeps a remainder ``r``, a divisor
``d``, a number ``s`` of steps that are left and a quotient ``q``. Shown of every state that fulfils the rules of one
step, each by SAT:

- the first cycle finds ``s``, sets ``r = a``, ``d = b * 2**s`` without loss, ``q = 0``;
- each step halves ``d``, which stays ``b * 2**s``, appends a bit to ``q``, and if that is 1 takes ``d`` from ``r``, or
  adds it if the signs of ``a`` and ``b`` are opposite;
- before each step ``|r| < 2 * |d|``, behind it ``|r| < |d|``; ``r`` has the sign of ``a`` or is 0;
- behind the step with ``s = 0`` the unit shows ``r``, or ``q``, negated if the signs are opposite, until it is taken;
- a divisor of 0 leaves ``r`` as it is and makes each bit of ``q`` 1.

The bit of step ``s`` becomes bit ``s`` of the quotient, so that ``r = a - (±q) * b`` in the end, with ``|r| < |b|`` and
the sign of ``a``: quotient and remainder by their definition, which has one solution. The unit shows 32 bits of the
quotient, -2**31 of -2**31 by -1.
"""

from collections.abc import Mapping, Sequence

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_claims import Equality, unequal
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, extended
from xpulpnn_sim.proofs.engine.words import Word, choose, constant, left, less, minus
from xpulpnn_sim.proofs.units.unit_proof import Claim, Fault, none, rare

_WIDE = XLEN + 1
_MOST_STEPS = XLEN
_STEP_BITS = _MOST_STEPS.bit_length()
_IDLE, _DIVIDE, _FINISH = range(3)


class _Division:
    """A division with any operands."""

    def __init__(self, gates: ClockedGates, fault: Fault) -> None:
        self.graph = graph = GateGraph()
        self._gates = gates
        self.operands = {"ctrl": graph.inputs(2), "op_a": graph.inputs(XLEN), "op_b": graph.inputs(XLEN)}
        self._seen = {name: list(word) for name, word in self.operands.items()}
        fault(graph, self._seen)
        signed, self.remainder = self.operands["ctrl"]
        self.a, self.b = (
            [*self.operands[name], graph.and_(self.operands[name][-1], signed)] for name in ("op_a", "op_b")
        )
        self.opposite = graph.xor(self.a[-1], self.b[-1])
        self.by_zero = graph.any(self.b) ^ 1

    def cycle(self, state: Mapping[str, Sequence[int]], *, start: int = TRUE, take: int = FALSE) -> ClockCycle:
        """A cycle from registers with some values; others hold anything."""
        nets = {
            net: literal
            for name, word in state.items()
            for net, literal in zip(self._gates.words[name], word, strict=True)
        }
        return ClockCycle(
            self.graph, self._gates, {**self._seen, "start": [start], "take": [take], "rst": [FALSE]}, nets
        )

    def after(self, cycle: ClockCycle, name: str) -> Word:
        """A register behind a cycle."""
        following = cycle.next_state()
        return [following[net] for net in self._gates.words[name]]

    def before_step(self) -> tuple[dict[str, Word], int]:
        """Registers before a step, and the literal of what is known of them: that the remainder fits the divisor."""
        graph, steps = self.graph, self.graph.inputs(_STEP_BITS)
        divisor, lossless = self.shifted(steps)
        state = {
            "state": constant(_DIVIDE, 2),
            "steps_left": steps,
            "remainder": graph.inputs(_WIDE),
            "divisor": divisor,
            "quotient": graph.inputs(XLEN),
        }
        fits = self.fits(state["remainder"], divisor, doubled=True)
        return state, graph.all([lossless, fits, self.has_sign(state["remainder"])])

    def shifted(self, places: Sequence[int]) -> tuple[Word, int]:
        """The divisor shifted by up to 32 places, and the literal of that being ``b * 2**places``, above -2**32."""
        graph = self.graph
        bits = left(graph, [*self.b, *[self.b[-1]] * _MOST_STEPS], places)
        signs = [graph.xor(bit, self.b[-1]) ^ 1 for bit in bits[_WIDE - 1 : _WIDE + _MOST_STEPS]]
        above_least = graph.and_(self.b[-1], bits[XLEN - 1] ^ 1) ^ 1
        few = less(graph, constant(_MOST_STEPS, _STEP_BITS), places, signed=False) ^ 1
        return bits[:_WIDE], graph.all([*signs, above_least, few])

    def fits(self, remainder: Sequence[int], divisor: Sequence[int], *, doubled: bool) -> int:
        """Return whether ``|r| < |d|``, or twice that, or there is no divisor."""
        graph = self.graph
        r, d = (magnitude(graph, extended(word, _WIDE + 1, signed=True)) for word in (remainder, divisor))
        most = [FALSE, *d] if doubled else [*d, FALSE]
        return graph.or_(less(graph, [*r, FALSE], most, signed=False), self.by_zero)

    def has_sign(self, remainder: Sequence[int]) -> int:
        """Return whether a remainder has the sign of the dividend or is 0."""
        graph = self.graph
        return graph.or_(graph.xor(remainder[-1], self.a[-1]) ^ 1, graph.any(remainder) ^ 1)


def magnitude(graph: GateGraph, word: Sequence[int]) -> Word:
    """A number without its sign."""
    negated = minus(graph, [FALSE] * len(word), word)
    return choose(graph, word[-1], negated, word)


def claims(gates: ClockedGates, *, fault: Fault = none) -> list[Claim]:
    """Return what the module says, claim by claim."""

    def first(timeout_s: float) -> str:
        one = _Division(gates, fault)
        graph = one.graph
        cycle = one.cycle({"state": constant(_IDLE, 2)})
        names = ("steps_left", "remainder", "divisor", "quotient", "state")
        steps, remainder, divisor, quotient, state = (one.after(cycle, name) for name in names)
        equalities = [
            Equality("remainder", remainder, one.a),
            Equality("quotient", quotient, [FALSE] * XLEN),
            Equality("state", state, constant(_DIVIDE, 2)),
            Equality("end", cycle.port("done"), [FALSE]),
        ]
        shifted, lossless = one.shifted(steps)
        fits = graph.and_(one.fits(remainder, divisor, doubled=True), one.has_sign(remainder))
        most = graph.equal(steps, constant(_MOST_STEPS, _STEP_BITS))
        equalities += [
            Equality("divisor", divisor, shifted),
            Equality("divisor shifted without loss", [lossless], [TRUE]),
            Equality("bound of the remainder", [fits], [TRUE]),
            Equality("33 steps by zero", [graph.and_(one.by_zero, most)], [one.by_zero]),
        ]
        return unequal(graph, TRUE, equalities, one.operands, timeout_s)

    def step(timeout_s: float) -> str:
        one = _Division(gates, fault)
        before, known = one.before_step()
        # 32 steps are left of a division by zero only
        known = one.graph.and_(known, one.graph.or_(before["steps_left"][-1] ^ 1, one.by_zero))
        return unequal(one.graph, known, _step(one, before), one.operands | before, timeout_s)

    def last(timeout_s: float) -> str:
        one = _Division(gates, fault)
        graph = one.graph
        held = {"remainder": graph.inputs(_WIDE), "quotient": graph.inputs(XLEN)}
        state = {**held, "state": constant(_FINISH, 2)}
        cycle, taken, given_up = one.cycle(state), one.cycle(state, take=TRUE), one.cycle({}, start=FALSE)
        negated = minus(graph, [FALSE] * XLEN, held["quotient"])
        negates = graph.and_(one.opposite, one.by_zero ^ 1)
        quotient = choose(graph, negates, negated, held["quotient"])
        wanted = choose(graph, one.remainder, held["remainder"][:XLEN], quotient)
        equalities = [
            *(Equality("result", each.port("result"), wanted) for each in (cycle, taken)),
            *(Equality("end", each.port("done"), [TRUE]) for each in (cycle, taken)),
            *(Equality(f"{name} until it is taken", one.after(cycle, name), word) for name, word in state.items()),
            Equality("state behind it", one.after(taken, "state"), constant(_IDLE, 2)),
            Equality("state when given up", one.after(given_up, "state"), constant(_IDLE, 2)),
            Equality("end when given up", given_up.port("done"), [FALSE]),
        ]
        return unequal(graph, TRUE, equalities, {**one.operands, **held}, timeout_s)

    return [
        Claim(what="first cycle: divisor shifted, bounds", method="sat", decide=first),
        Claim(what="each step: remainder, quotient, bounds", method="sat", decide=step),
        Claim(what="result until it is taken", method="sat", decide=last),
    ]


def _step(one: _Division, before: Mapping[str, Word]) -> list[Equality]:
    graph = one.graph
    cycle = one.cycle(before)
    remainder, divisor, quotient = (one.after(cycle, name) for name in ("remainder", "divisor", "quotient"))
    bit, old, size, steps = quotient[0], before["remainder"], before["divisor"], before["steps_left"]
    taken = choose(graph, one.opposite, graph.add(old, size), minus(graph, old, size))
    bound = graph.and_(one.fits(remainder, size, doubled=False), one.has_sign(remainder))
    goes_on = graph.any(steps)
    fewer = minus(graph, steps, constant(1, _STEP_BITS))
    half, _ = one.shifted(fewer)
    after = {name: one.after(cycle, name) for name in ("state", "steps_left")}
    return [
        Equality("quotient", quotient[1:], before["quotient"][:-1]),
        Equality("remainder", remainder, choose(graph, graph.and_(bit, one.by_zero ^ 1), taken, old)),
        Equality("bound of the remainder", [bound], [TRUE]),
        Equality("bit of a division by zero", [graph.and_(bit, one.by_zero)], [one.by_zero]),
        Equality("state", after["state"], choose(graph, goes_on, constant(_DIVIDE, 2), constant(_FINISH, 2))),
        Equality("end", cycle.port("done"), [FALSE]),
        Equality("steps left", after["steps_left"], choose(graph, goes_on, fewer, after["steps_left"])),
        Equality("divisor", divisor, choose(graph, goes_on, half, divisor)),
    ]


def broken(gates: ClockedGates) -> list[list[Claim]]:
    """Claims that are wrong: a dividend of 2**32 - 2 arrives as 2**32 - 1, a divisor likewise, and vice versa."""
    return [claims(gates, fault=rare(name, 0xFFFF_FFFF))[:1] for name in ("op_a", "op_b")]
