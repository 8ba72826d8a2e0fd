"""Prove all operations of the multiplier for all operands.

The result of a single-cycle operation is a polynomial of the operand bits modulo ``2**32``, which
``proofs.engine.algebra`` proves. Half-word operations are proved before their shift, with rounding for any shift
amount; the shift is then compared gate by gate.

The upper word of a product is the result of four sums of 16 x 16 bit products, each proved separately, with ``a = ah *
2**16 + al``, the same for ``b``, and ``>>`` rounding down::

    T1 = al * bl    T2 = al * bh + (T1 >> 16)    T3 = ah * bl + T2 % 2**16    T4 = ah * bh + (T3 >> 16) + (T2 >> 16)
    a * b = T4 * 2**32 + (T3 % 2**16) * 2**16 + T1 % 2**16

so that ``T4`` is ``a * b`` over ``2**32``, rounded down, if ``T1`` to ``T3`` fit into their words. They do: an unsigned
product is at most ``(2**16 - 1)**2``, and stays below ``2**32`` with up to ``2**16 - 1`` added; with one signed factor
it is at least ``-2**15 * (2**16 - 1)``, above ``-2**31``, and stays below ``2**31`` with the same added.

A 64-bit multiplier computes the whole product as one polynomial modulo ``2**64``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.proofs.engine import algebra
from xpulpnn_sim.proofs.engine.adders import AdderGraph
from xpulpnn_sim.proofs.engine.algebra import Polynomial
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, literals_of
from xpulpnn_sim.proofs.units.dotp import ARRAY_CLAIMS, array_claims, array_format
from xpulpnn_sim.proofs.units.unit_proof import Claim, Definition, InputFault, ProvenUnit, Words, shown

_MUL, _REQUANTISE, _EXACT = "mul", "pv.rq*, kappa * x + lambda", "pv.rqx*, kappa * x in 64 bits"
_WORD, _HALF, _SHIFT_BITS = 32, 16, 5
_MOST_TERMS = 20_000
_LATE = "the operation must be done in one cycle, and the unit idle after it"
_BEFORE_SHIFT = 3  # unused code of `op`: the half-word sum without its shift

_OPERANDS = {"op_a": "dotp_a", "op_b": "dotp_b", "op_c": "op_c", "nn_kappa": "dotp_b", "nn_lambda": "nn_lambda"}
"""Operands of a multiplier, and the ports for them on a unit that multiplies with dot-product arrays."""


def on_arrays(unit: ProvenUnit) -> bool:
    return "dotp_form" in unit.gates.ports


def _array_ports(ctrl: Mapping[str, int | Sequence[int]]) -> dict[str, Sequence[int]]:
    (upper,) = _bit(ctrl, "upper")
    formats = array_format(ElemFmt.H, *(_bit(ctrl, name)[0] for name in ("a_signed", "b_signed")))
    form = [TRUE, FALSE, upper ^ 1, upper] if ctrl["op"] == _HALF_PRODUCT else [TRUE] * 4
    return {"dotp_form": form, **formats, "pair": [FALSE], "dotp_accumulate": [FALSE]}


def _bit(ctrl: Mapping[str, int | Sequence[int]], name: str) -> Sequence[int]:
    value = ctrl.get(name, FALSE)
    return [value] if isinstance(value, int) else value


class _Run:
    def __init__(
        self,
        unit: ProvenUnit,
        graph: GateGraph,
        ctrl: Mapping[str, int | Sequence[int]],
        *,
        operands: Words | None = None,
        shamt: Sequence[int] = (FALSE,) * _SHIFT_BITS,
        requantises: bool = False,
    ) -> None:
        self.graph, self._unit = graph, unit
        names = {name: unit.gates.ports.keys() & {name, alias} for name, alias in _OPERANDS.items()}
        self.operands = operands or {name: graph.inputs(_WORD) for name, there in names.items() if there}
        self._ports: dict[str, Sequence[int]] = {"shamt": shamt, "requantise": [int(requantises)]}
        self._ports["ctrl"] = unit.control(ctrl)
        if on_arrays(unit):
            self._ports |= _array_ports(ctrl)
        #: Literal of each register bit after an idle cycle from any state.
        self.idle = self._cycle({}, FALSE, FALSE).next_state()
        self.state = dict(self.idle)

    def _cycle(self, state: Mapping[int, int], start: int, take: int) -> ClockCycle:
        words = self.operands
        if on_arrays(self._unit):
            # op_b and nn_kappa share a register
            second = "nn_kappa" if self._ports["requantise"] == [TRUE] else "op_b"
            chosen = {name: word for name, word in words.items() if name not in {"op_b", "nn_kappa"} - {second}}
            words = {_OPERANDS[name]: word for name, word in chosen.items()}
        return self._unit.cycle(self.graph, words, state, **self._ports, start=[start], take=[take])

    def cycle(self, take: int = FALSE) -> ClockCycle:
        return self._cycle(self.state, TRUE, take)

    def is_done(self, cycle: ClockCycle, value: int = TRUE) -> bool:
        return (cycle.port("done") if "done" in self._unit.gates.ports else [TRUE]) == [value]

    def is_idle(self, state: Mapping[int, int]) -> bool:
        return all(state[net] == literal for net, literal in self.idle.items() if literal <= TRUE)

    def word(self, name: str) -> Polynomial:
        return algebra.word(self.operands[name])

    def half(self, name: str, *, upper: bool, signed: bool = False) -> Polynomial:
        literals = self.operands[name]
        return algebra.word(literals[_HALF:] if upper else literals[:_HALF], signed=signed)


_PRODUCT, _HALF_PRODUCT, _UPPER = range(3)
_LOW_HALF, _HIGH_HALF = slice(0, _HALF), slice(_HALF, _WORD)
_ADDENDS = (
    (),
    ((0, _HIGH_HALF, ""),),
    ((1, _LOW_HALF, ""),),
    ((2, _HIGH_HALF, "a_signed"), (1, _HIGH_HALF, "b_signed")),
)
"""Halves of earlier sums that each of four sums adds: number of the earlier sum, half, and factor whose sign it has."""

Signs = Mapping[str, bool]
_UPPER_SIGNS: Mapping[str, Signs] = {
    "mulh": {"a_signed": True, "b_signed": True},
    "mulhsu": {"a_signed": True, "b_signed": False},
    "mulhu": {"a_signed": False, "b_signed": False},
}

_Expected = Callable[[_Run], Polynomial]


def _product(
    unit: ProvenUnit, expected_of: _Expected, ctrl: Mapping[str, int], timeout_s: float, *, requantises: bool = False
) -> str:
    run = _Run(unit, AdderGraph(), {"op": _PRODUCT, **ctrl}, requantises=requantises)
    cycle = run.cycle()
    if not run.is_done(cycle) or not run.is_idle(cycle.next_state()):
        return _LATE
    result, expected = cycle.port("result"), expected_of(run)
    if "subtract" in ctrl:
        # an inverted sum is proved inverted: ~(c - p) = p - c - 1
        result = [bit ^ 1 for bit in result]
        expected = algebra.plus([(-1, expected), (-1, algebra.literal(TRUE))])
    return _unequal(run, result, expected, timeout_s)


def _whole(unit: ProvenUnit, signs: Signs, timeout_s: float, *, requantises: bool = False) -> str:
    """Compare a 64-bit product, whose upper word is the result of some operations."""
    run = _Run(unit, AdderGraph(), {"op": _PRODUCT, **signs}, requantises=requantises)
    cycle = run.cycle()
    factors = ("op_a", "nn_kappa") if requantises else ("op_a", "op_b")
    x, y = (algebra.word(run.operands[name], signed=each) for name, each in zip(factors, signs.values(), strict=True))
    wrong = _unequal(run, [*cycle.port("result"), *cycle.port("upper")], algebra.times(x, y), timeout_s)
    if wrong or requantises:
        return wrong
    high = _Run(unit, run.graph, {"op": _UPPER, **signs}, operands=run.operands)
    if high.cycle().port("upper" if on_arrays(unit) else "result") != cycle.port("upper"):
        return "the upper word must be that of the product, but its gates are others"
    return ""


def _half_sum(unit: ProvenUnit, signed: bool, upper: bool, timeout_s: float) -> str:
    # arrays leave the shift to WB
    op, output = (_HALF_PRODUCT, "second") if on_arrays(unit) else (_BEFORE_SHIFT, "result")
    run, amount, fields = _half_run(unit, op, signed=signed, upper=upper)
    (accumulate,), (rounds,) = fields["accumulate"], fields["round"]
    factors = (run.half(name, upper=upper, signed=signed) for name in ("op_a", "op_b"))
    added = algebra.times(run.word("op_c"), algebra.literal(accumulate))
    rounding = algebra.times(_half_of_power(amount), algebra.literal(rounds))
    expected = algebra.plus([(1, algebra.times(*factors)), (1, added), (1, rounding)])
    return _unequal(run, run.cycle().port(output), expected, timeout_s, amount=amount, **fields)


def _half_shift(unit: ProvenUnit, _timeout_s: float) -> str:
    for places in range(1 << _SHIFT_BITS):
        amount = literals_of(places, _SHIFT_BITS)
        run, _, fields = _half_run(unit, _HALF_PRODUCT, amount=amount)
        before = _Run(unit, run.graph, {**fields, "op": _BEFORE_SHIFT}, operands=run.operands, shamt=amount)
        cycle = run.cycle()
        total = before.cycle().port("result")
        if not run.is_done(cycle) or not run.is_idle(cycle.next_state()):
            return _LATE
        filling = run.graph.and_(total[-1], fields["a_signed"][0])
        if cycle.port("result") != [*total[places:], *[filling] * places]:
            return f"a shift by {places} places must be one of the sum's bits, but its gates are others"
    return ""


def _half_run(
    unit: ProvenUnit, op: int, *, signed: bool | None = None, upper: bool | None = None, amount: Sequence[int] = ()
) -> tuple[_Run, list[int], dict[str, list[int]]]:
    """Return a half-word operation with any accumulator; signs, halves and shift amount are free unless given."""
    graph = GateGraph() if amount else AdderGraph()
    places = list(amount) or graph.inputs(_SHIFT_BITS)
    signs, halves = ([graph.input() if value is None else int(value)] for value in (signed, upper))
    fields = {"a_signed": signs, "b_signed": signs, "upper": halves}
    fields |= {name: [graph.input()] for name in ("accumulate", "round")}
    return _Run(unit, graph, {"op": op, **fields}, shamt=places), places, fields


def _four_sums(unit: ProvenUnit, signs: Signs, timeout_s: float) -> str:
    """Compare the upper word of a product that takes four cycles, each of which adds a product of half-words."""
    run = _Run(unit, AdderGraph(), {"op": _UPPER, **signs})
    first = run.cycle()
    if not run.is_done(first, FALSE):
        return "the operation must not be done in its first cycle"
    run.state = first.next_state()
    carried: list[list[int]] = []
    for step, (a_upper, b_upper) in enumerate(product((False, True), repeat=2)):
        cycle = run.cycle()
        total = cycle.port("result")
        x = run.half("op_a", upper=a_upper, signed=signs["a_signed"] and a_upper)
        y = run.half("op_b", upper=b_upper, signed=signs["b_signed"] and b_upper)
        added = [
            (1, algebra.word(carried[at][half], signed=signs.get(sign, False))) for at, half, sign in _ADDENDS[step]
        ]
        sums = {f"T{number}": literals for number, literals in enumerate(carried, 1)}
        if wrong := _unequal(run, total, algebra.plus([(1, algebra.times(x, y)), *added]), timeout_s, **sums):
            return f"sum {step + 1}: {wrong}"
        if not run.is_done(cycle, TRUE if step == 3 else FALSE):
            return "the operation must be done after five cycles, not before"
        if step < 3:
            # the sum is proved: from here on, its stored part is any number
            fresh = run.graph.inputs(_WORD)
            names = {bit: new for bit, new in zip(total, fresh, strict=True) if bit > TRUE}
            carried.append(fresh)
            run.state = {net: names.get(literal, literal) for net, literal in cycle.next_state().items()}
    if run.cycle(take=FALSE).next_state() != run.state:
        return "a result that is not taken must stay"
    return "" if run.is_idle(run.cycle(take=TRUE).next_state()) else "the unit must be idle after the result"


def _half_of_power(amount: Sequence[int]) -> Polynomial:
    parts: list[tuple[int, Polynomial]] = []
    for places in range(1, 1 << len(amount)):
        chosen: Polynomial = algebra.literal(TRUE)
        for bit, literal in enumerate(amount):
            chosen = algebra.times(chosen, algebra.literal(literal ^ (places >> bit & 1) ^ 1))
        parts.append((1 << places - 1, chosen))
    return algebra.plus(parts)


def _unequal(run: _Run, bits: Sequence[int], polynomial: Polynomial, timeout_s: float, **others: Sequence[int]) -> str:
    """Return an empty string if ``bits`` are proved equal to the polynomial, else text on a counterexample."""
    assert isinstance(run.graph, AdderGraph)
    ones = algebra.prove(run.graph, bits, polynomial, timeout_s=timeout_s, most_terms=_MOST_TERMS)
    if ones is None:
        return ""
    value = run.graph.number(ones, bits)
    expected = sum(factor for term, factor in polynomial.items() if all(node << 1 in ones for node in term))
    return (
        f"{shown(run.graph, {**run.operands, **others}, ones)}: "
        f"must be 0x{expected % (1 << len(bits)):08x}, not 0x{value:08x}"
    )


def _claims(unit: ProvenUnit) -> list[Claim]:
    def times(run: _Run) -> Polynomial:
        return algebra.times(run.word("op_a"), run.word("op_b"))

    def accumulated(factor: int) -> _Expected:
        return lambda run: algebra.plus([(1, run.word("op_c")), (factor, times(run))])

    def scaled(run: _Run) -> Polynomial:
        kappa, factor = run.word("nn_kappa"), run.word("op_a" if unit.config.has_whole_products else "op_b")
        return algebra.plus([(1, algebra.times(kappa, factor)), (1, run.word("nn_lambda"))])

    products: list[tuple[str, _Expected, dict[str, int]]] = [
        (_MUL, times, {}),
        ("p.mac", accumulated(1), {"accumulate": TRUE}),
        ("p.msu", accumulated(-1), {"accumulate": TRUE, "subtract": TRUE}),
    ]
    claims = [Claim(name, "algebra", partial(_product, unit, expected, ctrl)) for name, expected, ctrl in products]
    for signed, upper in product((False, True), repeat=2):
        name = f"mul{'hh' if upper else ''}{'s' if signed else 'u'}N mac… …R, sum before the shift"
        claims.append(Claim(name, "algebra", partial(_half_sum, unit, signed, upper)))
    if not on_arrays(unit):
        claims.append(Claim("mulN mac… …R, shift by 0 to 31", "same gates", partial(_half_shift, unit)))
    for name, signs in _UPPER_SIGNS.items():
        if unit.config.has_whole_products:
            claims.append(Claim(name, "algebra", partial(_whole, unit, signs)))
        else:
            claims.append(Claim(name, "algebra, 4 sums", partial(_four_sums, unit, signs)))
    if unit.config.requantise_exact:
        claims.append(Claim(_EXACT, "algebra", partial(_whole, unit, _UPPER_SIGNS["mulh"], requantises=True)))
    if "nn_lambda" in unit.gates.ports:
        claims.append(Claim(_REQUANTISE, "algebra", partial(_product, unit, scaled, {}, requantises=True)))
    return [*claims, *array_claims(unit)] if on_arrays(unit) else claims


MULTIPLIER = Definition(
    _claims,
    [
        InputFault("op_a", WORD_MASK, refutes=_MUL),
        InputFault("nn_kappa", WORD_MASK, refutes=_REQUANTISE),
        InputFault("op_a", WORD_MASK, refutes=_EXACT),
        InputFault("dotp_a", WORD_MASK, refutes=_MUL),
        InputFault("dotp_b", WORD_MASK, refutes=_EXACT),
        InputFault("act2", WORD_MASK, refutes=ARRAY_CLAIMS),
    ],
)
"""Claims about each operation; the fault inverts the lowest bit of the first factor if all its other bits are 1."""
