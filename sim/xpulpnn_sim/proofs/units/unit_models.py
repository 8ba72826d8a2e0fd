"""Models of the dot-product unit, the multiplier and the divider, as functions of a unit's inputs.

``xpulpnn prove units dotp`` and ``mult`` prove that the gates of these units compute what the models do, for all
operands. In proofs of instructions the units are black boxes, which the models replace; of the divider only the
operands and the operation are checked there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.integers import Integers, Number, constant, low, unsigned

_HALF = 16
_WORD_OP, _HALF_OP, _HIGH_OP = 0, 1, 2  # multiplication kinds of the multiplier's control word

Pins = Mapping[str, Sequence[int]]  # ports of a unit, and fields of its control word


def with_fields(pins: Pins, ports: Sequence[Mapping[str, Any]]) -> Pins:
    """Return the pins of a unit and the fields of its control word; a port called like a field gets ``_port`` behind
    its name."""
    rows = (field for port in ports if port["name"] == "ctrl" for field in port["fields"])
    fields = {row["name"]: pins["ctrl"][row["lsb"] :][: row["width"]] for row in rows}
    return {f"{name}_port" if name in fields else name: word for name, word in pins.items()} | fields


def _lane_products(z: Integers, fmt: ElemFmt, factors: Sequence[Sequence[int]], signed: tuple[int, int]) -> Number:
    """Return ``sum(rs1[i] * rs2[i])``; a factor is signed if its literal in ``signed`` is 1."""
    total = constant(0)
    for lowest in range(0, XLEN, fmt.width):
        lanes = (word[lowest : lowest + fmt.width] for word in factors)
        total = z.add(total, z.multiply(*(z.extended(*each) for each in zip(lanes, signed, strict=True))))
    return total


def dot_product(pins: Pins, z: Integers) -> list[int]:
    """Return ``rd * accumulate + sum(rs1[i] * rs2[i])`` for any control word."""
    (a_signed,), (b_signed,), (accumulate,) = (pins[name] for name in ("a_signed", "b_signed", "accumulate"))
    old = z.choose(accumulate, unsigned(pins["rd"]), constant(0))
    result = constant(0)
    for each in ElemFmt:
        is_format = z.equal(unsigned(pins["fmt"]), constant(each.value))
        if is_format == FALSE:
            continue
        products = _lane_products(z, each, (pins["rs1"], pins["rs2"]), (a_signed, b_signed))
        result = z.choose(is_format, z.add(old, products), result)
    return low(result, XLEN)


def _half_sum(pins: Pins, z: Integers, factors: tuple[Number, Number], upper: int, signed: int, old: Number) -> Number:
    """Return ``old`` plus a product of two half-words plus, for rounding, half an LSB of the shifted result."""
    halves = [z.choose(upper, z.shift_right(factor, constant(_HALF)), factor) for factor in factors]
    x, y = (z.extended(low(half, _HALF), signed) for half in halves)
    half_place = z.shift_left(z.choose(pins["round"][0], constant(1), constant(0)), unsigned(pins["shamt"]))
    return z.add(z.add(old, z.multiply(x, y)), z.shift_right(half_place, constant(1)))


def half_product(pins: Pins, z: Integers) -> list[int]:
    """Return the sum of a half-word operation of the multiplier before its shift."""
    factors, (upper,), (signed,) = (unsigned(pins["op_a"]), unsigned(pins["op_b"])), pins["upper"], pins["a_signed"]
    return low(_half_sum(pins, z, factors, upper, signed, _old(pins, z)), XLEN)


def _old(pins: Pins, z: Integers) -> Number:
    return z.choose(pins["accumulate"][0], unsigned(pins["op_c"]), constant(0))


def product(pins: Pins, z: Integers) -> list[int]:
    op_a, op_b, old = unsigned(pins["op_a"]), unsigned(pins["op_b"]), _old(pins, z)
    (subtract,), (signed,), (other_signed,) = (pins[name] for name in ("subtract", "a_signed", "b_signed"))

    def kind(code: int) -> int:
        return z.equal(unsigned(pins["op"]), constant(code))

    result = constant(0)
    if kind(_WORD_OP) != FALSE:
        requantises = pins["requantise"][0] if "requantise" in pins else FALSE
        words = constant(0)
        if requantises != TRUE:
            whole = z.multiply(op_a, op_b)
            words = z.choose(subtract, z.subtract(old, whole), z.add(old, whole))
        if requantises != FALSE:
            kappa, summand = (unsigned(pins[f"nn_{name}"]) for name in ("kappa", "lambda"))
            if "upper_port" in pins:
                scaled = z.add(scaled_product(pins, z), z.choose(signed, constant(0), summand))
            else:
                scaled = z.add(z.multiply(kappa, op_b), summand)
            words = z.choose(requantises, scaled, words)
        result = z.choose(kind(_WORD_OP), words, result)
    if kind(_HALF_OP) != FALSE:
        total = z.extended(half_product(pins, z), signed)
        result = z.choose(kind(_HALF_OP), z.shift_right(total, unsigned(pins["shamt"])), result)
    if kind(_HIGH_OP) != FALSE:
        exact = z.multiply(z.extended(pins["op_a"], signed), z.extended(pins["op_b"], other_signed))
        result = z.choose(kind(_HIGH_OP), z.shift_right(exact, constant(XLEN)), result)
    return low(result, XLEN)


def scaled_product(pins: Pins, z: Integers) -> list[int]:
    """Return the product of ``op_a`` and kappa in a requantisation, for multipliers that return the upper word."""
    factors = (("op_a", "a_signed"), ("nn_kappa", "b_signed"))
    x, y = (z.extended(pins[factor], pins[signed][0]) for factor, signed in factors)
    return z.multiply(x, y)


def _decoded(bits: Sequence[int], z: Integers) -> tuple[Pins, int]:
    """Return format and signs decoded from one-hot bits, and a literal that is 1 if the bits are valid."""
    formats = [*ElemFmt]
    chosen, *signed = (bits[place : place + len(formats)] for place in range(0, len(bits), len(formats)))
    number = [z.is_true([chosen[fmt.value] for fmt in formats if fmt.value >> bit & 1]) for bit in range(2)]
    signs = [z.is_true(bit) for bit in signed]
    expected = [z.equal(unsigned(number), constant(fmt.value)) for fmt in formats]
    legal_bits = [*expected, *(z.graph.and_(format_bit, sign) for sign in signs for format_bit in expected)]
    pins = {"fmt": number, "a_signed": signs[:1], "b_signed": signs[1:]}
    return pins, z.equal(unsigned(bits), unsigned(legal_bits))


def array_products(pins: Pins, z: Integers, *, lanes: bool) -> dict[str, list[int]]:
    """Return outputs of multiplier arrays: with ``lanes`` both dot products, else products of words or half-words."""
    formats = {name: _decoded(pins[f"{name}_format"], z) for name in ("dotp", "dotp2")}
    scalar, word, lower, upper = pins["dotp_form"]
    both = z.graph.and_(lower, upper)
    if lanes:
        sums = {"first": ("dotp", "dotp_a", "op_c"), "second": ("dotp2", "act2", "second_sum")}
        added = {"accumulate": pins["dotp_accumulate"]}
        totals = {
            name: unsigned(
                dot_product(
                    {**formats[unit][0], **added, "rs1": pins[factor], "rs2": pins["dotp_b"], "rd": pins[old]}, z
                )
            )
            for name, (unit, factor, old) in sums.items()
        }
        is_right = {"first": word ^ 1, "second": z.graph.and_(scalar ^ 1, both)}
        is_right = {name: z.graph.and_(is_right[name], formats[sums[name][0]][1]) for name in totals}
        return {name: low(z.choose(is_right[name], total, constant(0)), XLEN) for name, total in totals.items()}
    common = formats["dotp2"][0]
    (signed,), (other_signed,) = common["a_signed"], common["b_signed"]
    (subtract,), old = pins["subtract"], _old(pins, z)
    total = half = constant(0)
    if word != FALSE:
        whole = z.multiply(z.extended(pins["dotp_a"], signed), z.extended(pins["dotp_b"], other_signed))
        summand = old
        if "requantise" in pins:
            scaled = z.graph.and_(pins["requantise"][0], pins["a_signed"][0] ^ 1)
            summand = z.choose(scaled, unsigned(pins["nn_lambda"]), old)
        total = z.choose(subtract, z.subtract(summand, whole), z.add(summand, whole))
    if word != TRUE:
        factors = unsigned(pins["dotp_a"]), unsigned(pins["dotp_b"])
        half = _half_sum(pins, z, factors, upper, signed, old)
    same = z.equal(unsigned(pins["dotp_format"]), unsigned(pins["dotp2_format"]))
    is_right = z.graph.and_(scalar, z.equal(unsigned(common["fmt"]), constant(ElemFmt.H.value)))
    is_right = z.graph.and_(is_right, z.graph.and_(same, formats["dotp2"][1]))
    of_words, of_halves = z.graph.and_(is_right, both), z.graph.and_(is_right, both ^ 1)
    total, half = z.choose(of_words, total, constant(0)), z.choose(of_halves, half, constant(0))
    return {
        "result": low(total, XLEN),
        "second": low(z.choose(word, total, half), XLEN),
        "upper": low(z.shift_right(total, constant(XLEN)), XLEN),
    }


def division(pins: Pins, z: Integers) -> list[int]:
    op_a, op_b, (signed,), (remainder,) = (pins[name] for name in ("op_a", "op_b", "signed", "remainder"))
    x, y = (z.extended(word, signed) for word in (op_a, op_b))
    by_zero = z.is_true(op_b) ^ 1
    quotients = z.choose(by_zero, constant(-1), z.opaque("quotient", x, y))
    remainders = z.choose(by_zero, unsigned(op_a), z.opaque("remainder", x, y))
    return low(z.choose(remainder, remainders, quotients), XLEN)
