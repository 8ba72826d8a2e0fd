"""Prove all operations of the multiplier for all operands.

The result of a single-cycle operation is compared with the model of the unit
(:mod:`~xpulpnn_sim.proofs.units.unit_models`): ``proofs.engine.algebra`` proves that both are the same polynomial of
the operand bits modulo ``2**32``. Half-word operations are proved before their shift, with rounding for any shift
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

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import product as combinations

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.proofs.engine import algebra
from xpulpnn_sim.proofs.engine.adders import AdderGraph
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, literals_of
from xpulpnn_sim.proofs.engine.integers import Integers, low
from xpulpnn_sim.proofs.units.unit_models import Pins, array_products, half_product, product, with_fields
from xpulpnn_sim.proofs.units.unit_proof import Claim, Definition, InputFault, ProvenUnit, Words, shown

_MUL, _REQUANTISE, _EXACT = "mul", "pv.rq*, kappa * x + lambda", "pv.rqx*, kappa * x in 64 bits"
_WORD, _HALF, _SHIFT_BITS = 32, 16, 5
_MOST_TERMS = 20_000
_LATE = "the operation must be done in one cycle, and the unit idle after it"
_BEFORE_SHIFT = 3  # unused code of `op`: the half-word sum without its shift

_TWO_SUMS = "two sums of products"
_PAIR_OPERANDS = ("dotp_a", "act2", "dotp_b", "second_sum", "op_c")
_OPERANDS = ("op_a", "op_b", "dotp_a", "dotp_b", "op_c", "nn_kappa", "nn_lambda")
"""Ports for operands; a unit that multiplies with dot-product arrays has its factors at ``dotp_a`` and ``dotp_b``."""


def on_arrays(unit: ProvenUnit) -> bool:
    return "dotp_form" in unit.gates.ports


def _array_ports(pins: Pins) -> dict[str, Sequence[int]]:
    (upper,), (a_signed,), (b_signed,) = (pins[name] for name in ("upper", "a_signed", "b_signed"))
    formats = _array_format(ElemFmt.H, a_signed, b_signed)
    form = [TRUE, FALSE, upper ^ 1, upper] if pins["op"] == literals_of(_HALF_PRODUCT, 2) else [TRUE] * 4
    return {"dotp_form": form, **formats, "pair": [FALSE], "dotp_accumulate": [FALSE]}


def _array_format(fmt: ElemFmt, *signs: int) -> dict[str, list[int]]:
    """Return the format ports of both dot-product units: one-hot format bits, then a copy of them for each sign."""
    bits = [sign if each is fmt else FALSE for sign in (TRUE, *signs) for each in ElemFmt]
    return dict.fromkeys(("dotp_format", "dotp2_format"), bits)


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
        self.graph, self.z, self._unit = graph, Integers(graph), unit
        self.operands = operands or {name: graph.inputs(_WORD) for name in _OPERANDS if name in unit.gates.ports}
        self._ports: dict[str, Sequence[int]] = {"shamt": shamt, "requantise": [int(requantises)]}
        self._ports["ctrl"] = unit.control(ctrl)
        if on_arrays(unit):
            self._ports |= _array_ports(self.pins)
        #: Literal of each register bit after an idle cycle from any state.
        self.idle = self._cycle({}, FALSE, FALSE).next_state()
        self.state = dict(self.idle)

    def _cycle(self, state: Mapping[int, int], start: int, take: int) -> ClockCycle:
        return self._unit.cycle(self.graph, self.operands, state, **self._ports, start=[start], take=[take])

    @property
    def pins(self) -> Pins:
        given: Pins = {**dict.fromkeys(self._unit.gates.ports, ()), **self.operands, **self._ports}
        return with_fields(given, self._unit.ports)

    def unequal(self, bits: Sequence[int], expected: Sequence[int], timeout_s: float, **others: Sequence[int]) -> str:
        return _unequal(self.graph, {**self.operands, **others}, bits, expected, timeout_s)

    def model(self) -> dict[str, list[int]]:
        """Return the results by the model of the unit."""
        if on_arrays(self._unit):
            return array_products(self.pins, self.z, lanes=False)
        return {"result": product(self.pins, self.z)}

    def cycle(self, take: int = FALSE) -> ClockCycle:
        return self._cycle(self.state, TRUE, take)

    def is_done(self, cycle: ClockCycle, value: int = TRUE) -> bool:
        return (cycle.port("done") if "done" in self._unit.gates.ports else [TRUE]) == [value]

    def is_idle(self, state: Mapping[int, int]) -> bool:
        return all(state[net] == literal for net, literal in self.idle.items() if literal <= TRUE)


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


def _product(unit: ProvenUnit, ctrl: Mapping[str, int], timeout_s: float, *, requantises: bool = False) -> str:
    run = _Run(unit, AdderGraph(), {"op": _PRODUCT, **ctrl}, requantises=requantises)
    cycle = run.cycle()
    if not run.is_done(cycle) or not run.is_idle(cycle.next_state()):
        return _LATE
    # a difference is an inverted sum, which is proved inverted: ~(c - p) = p - c - 1
    result, expected = (
        [bit ^ ctrl.get("subtract", 0) for bit in word] for word in (cycle.port("result"), run.model()["result"])
    )
    return run.unequal(result, expected, timeout_s)


def _whole(unit: ProvenUnit, signs: Signs, timeout_s: float, *, requantises: bool = False) -> str:
    """Compare a 64-bit product, whose upper word is the result of some operations."""
    run = _Run(unit, AdderGraph(), {"op": _PRODUCT, **signs}, requantises=requantises)
    cycle = run.cycle()
    factors = ("dotp_a", "dotp_b") if on_arrays(unit) else ("op_a", "nn_kappa" if requantises else "op_b")
    expected = run.z.multiply(*map(run.z.extended, map(run.operands.__getitem__, factors), signs.values()))
    wrong = run.unequal([*cycle.port("result"), *cycle.port("upper")], low(expected, 2 * _WORD), timeout_s)
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
    expected = run.model()[output] if on_arrays(unit) else half_product(run.pins, run.z)
    return run.unequal(run.cycle().port(output), expected, timeout_s, amount=amount, **fields)


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
    for step, (a_upper, b_upper) in enumerate(combinations((False, True), repeat=2)):
        cycle = run.cycle()
        total = cycle.port("result")
        x = run.z.extended(run.operands["op_a"][_HIGH_HALF if a_upper else _LOW_HALF], signs["a_signed"] and a_upper)
        y = run.z.extended(run.operands["op_b"][_HIGH_HALF if b_upper else _LOW_HALF], signs["b_signed"] and b_upper)
        added = [run.z.extended(carried[at][half], signs.get(sign, False)) for at, half, sign in _ADDENDS[step]]
        expected = low(reduce(run.z.add, added, run.z.multiply(x, y)), _WORD)
        sums = {f"T{number}": literals for number, literals in enumerate(carried, 1)}
        if wrong := run.unequal(total, expected, timeout_s, **sums):
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


def _two_sums(unit: ProvenUnit, fmt: ElemFmt, timeout_s: float) -> str:
    """Compare both sums of products of a unit that multiplies with dot-product arrays."""
    for signs in combinations((False, True), repeat=2):
        graph = AdderGraph()
        words = {name: graph.inputs(_WORD) for name in _PAIR_OPERANDS} | {"dotp_accumulate": [graph.input()]}
        # control of a pair product, not of a multiplication
        control = {"dotp_form": [FALSE, FALSE, TRUE, TRUE], "requantise": [FALSE], "pair": [TRUE]}
        given = words | control | _array_format(fmt, *signs) | {"ctrl": unit.control({})}
        cycle = unit.cycle(graph, given)
        for name, expected in array_products(with_fields(given, unit.ports), Integers(graph), lanes=True).items():
            if wrong := _unequal(graph, words, cycle.port(name), expected, timeout_s):
                return f"{name}: {wrong}"
    return ""


def _unequal(graph: GateGraph, words: Words, bits: Sequence[int], expected: Sequence[int], timeout_s: float) -> str:
    """Return an empty string if ``bits`` are proved equal to the expected ones, else text on a counterexample."""
    assert isinstance(graph, AdderGraph)
    ones = algebra.prove(graph, bits, algebra.word(expected), timeout_s=timeout_s, most_terms=_MOST_TERMS)
    if ones is None:
        return ""
    value, right = graph.numbers(ones, (bits, expected))
    return f"{shown(graph, words, ones)}: must be 0x{right:08x}, not 0x{value:08x}"


def _claims(unit: ProvenUnit) -> list[Claim]:
    products = {_MUL: {}, "p.mac": {"accumulate": TRUE}, "p.msu": {"accumulate": TRUE, "subtract": TRUE}}
    claims = [Claim(name, "algebra", partial(_product, unit, ctrl)) for name, ctrl in products.items()]
    for signed, upper in combinations((False, True), repeat=2):
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
        claims.append(Claim(_REQUANTISE, "algebra", partial(_product, unit, {}, requantises=True)))
    formats = unit.config.dotp.formats if on_arrays(unit) else ()
    sums = (Claim(f"{_TWO_SUMS} .{fmt.suffix}, all signs", "algebra", partial(_two_sums, unit, fmt)) for fmt in formats)
    return [*claims, *sums]


MULTIPLIER = Definition(
    _claims,
    [
        InputFault("op_a", WORD_MASK, refutes=_MUL),
        InputFault("nn_kappa", WORD_MASK, refutes=_REQUANTISE),
        InputFault("op_a", WORD_MASK, refutes=_EXACT),
        InputFault("dotp_a", WORD_MASK, refutes=_MUL),
        InputFault("dotp_b", WORD_MASK, refutes=_EXACT),
        InputFault("act2", WORD_MASK, refutes=_TWO_SUMS),
    ],
)
"""Claims about each operation; the fault inverts the lowest bit of the first factor if all its other bits are 1."""
