"""Gate graphs and the algebra on them: multipliers and adders of many structures are decided."""

import random
from collections.abc import Callable, Sequence

import pytest

from xpulpnn_sim.explore.proof import algebra
from xpulpnn_sim.explore.proof.adders import plain_adders
from xpulpnn_sim.explore.proof.circuit import FALSE, TRUE, Circuit, Kind
from xpulpnn_sim.explore.proof.constants import constant_gates

pytestmark = pytest.mark.unit

MAJORITIES: dict[str, Callable[[Circuit, int, int, int], int]] = {
    "pairs": lambda c, x, y, z: c.or_(c.or_(c.and_(x, y), c.and_(x, z)), c.and_(y, z)),
    "propagate": lambda c, x, y, z: c.or_(c.and_(x, y), c.and_(z, c.xor(x, y))),
    "either": lambda c, x, y, z: c.or_(c.and_(x, y), c.and_(z, c.or_(x, y))),
    "mux": lambda c, x, y, z: c.mux(c.xor(x, y), x, z),
}


def ripple(circuit: Circuit, x: Sequence[int], y: Sequence[int]) -> list[int]:
    return circuit.add(x, y)


def prefix(circuit: Circuit, x: Sequence[int], y: Sequence[int]) -> list[int]:
    """Kogge-Stone adder."""
    half = [circuit.xor(one, other) for one, other in zip(x, y, strict=True)]
    generate = [circuit.and_(one, other) for one, other in zip(x, y, strict=True)]
    propagate, distance = list(half), 1
    while distance < len(x):
        shifted = range(distance, len(x))
        later = {i: circuit.or_(generate[i], circuit.and_(propagate[i], generate[i - distance])) for i in shifted}
        longer = {i: circuit.and_(propagate[i], propagate[i - distance]) for i in shifted}
        generate = [later.get(i, value) for i, value in enumerate(generate)]
        propagate = [longer.get(i, value) for i, value in enumerate(propagate)]
        distance *= 2
    return [half[0], *(circuit.xor(one, carry) for one, carry in zip(half[1:], generate, strict=False))]


ADDERS = {"ripple": ripple, "prefix": prefix}


def compressed(
    circuit: Circuit, columns: list[list[int]], majority: str, adder: str, *, wrong: bool = False
) -> list[int]:
    """Sum of weighted bits: rows of full adders down to two words, and an adder."""
    width = len(columns)
    while max(map(len, columns)) > 2:
        after: list[list[int]] = [[] for _ in range(width + 1)]
        for place, column in enumerate(columns):
            while len(column) > 2:
                x, y, z = column[:3]
                del column[:3]
                after[place].append(circuit.xor(circuit.xor(x, y), z))
                after[place + 1].append(MAJORITIES[majority](circuit, x, y, z ^ wrong))
                wrong = False
            after[place] += column
        columns = after[:width]
    words = [[(*column, FALSE, FALSE)[row] for column in columns] for row in range(2)]
    return ADDERS[adder](circuit, *words)


def array_columns(circuit: Circuit, x: list[int], y: list[int], width: int) -> list[list[int]]:
    columns: list[list[int]] = [[] for _ in range(width)]
    for i, one in enumerate(x):
        for j, other in enumerate(y):
            columns[i + j].append(circuit.and_(one, other))
    return columns


def booth_columns(circuit: Circuit, x: list[int], y: list[int], width: int) -> list[list[int]]:
    """Rows of a signed radix-4 Booth multiplier, sign extended all the way."""
    columns: list[list[int]] = [[] for _ in range(width)]
    for low in range(0, len(y), 2):
        below, first, second = (y[low - 1] if low else FALSE), y[low], y[low + 1]
        single = circuit.xor(first, below)
        double = circuit.and_(circuit.xor(second, first), single ^ 1)
        for place in range(width - low):
            bit, shifted = x[min(place, len(x) - 1)], x[min(place - 1, len(x) - 1)] if place else FALSE
            chosen = circuit.or_(circuit.and_(single, bit), circuit.and_(double, shifted))
            columns[low + place].append(circuit.xor(chosen, second))
        columns[low].append(second)
    return columns


def decided(circuit: Circuit, x: list[int], y: list[int], bits: list[int], *, signed: bool = False):
    wanted = algebra.times(algebra.word(x, signed=signed), algebra.word(y, signed=signed))
    return algebra.compare(circuit, bits, wanted, timeout_s=60)


@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize("majority", MAJORITIES)
def test_compressor_tree_is_proved(majority: str, adder: str):
    circuit = Circuit()
    x, y = circuit.inputs("x", 8), circuit.inputs("y", 8)
    bits = compressed(circuit, array_columns(circuit, x, y, 16), majority, adder)
    assert decided(circuit, x, y, bits) is None


@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize("width", [4, 8, 16])
def test_booth_multiplier_is_proved(width: int, adder: str):
    circuit = Circuit()
    x, y = circuit.inputs("x", width), circuit.inputs("y", width)
    bits = compressed(circuit, booth_columns(circuit, x, y, 2 * width), "pairs", adder)
    assert decided(circuit, x, y, bits, signed=True) is None


def test_array_of_the_graph_itself_multiplies():
    circuit, generator = Circuit(), random.Random(1)
    x, y = circuit.inputs("x", 9), circuit.inputs("y", 5)
    bits = circuit.multiply(x, y, 12)
    for _ in range(200):
        one, other = generator.getrandbits(9), generator.getrandbits(5)
        values = {literal: one >> i & 1 for i, literal in enumerate(x)}
        values |= {literal: other >> i & 1 for i, literal in enumerate(y)}
        assert sum(bit << i for i, bit in enumerate(circuit.evaluate(values, bits))) == one * other % 2**12


def test_wrong_multiplier_is_refuted_or_given_up_never_proved():
    circuit = Circuit()
    x, y = circuit.inputs("x", 3), circuit.inputs("y", 3)
    bits = compressed(circuit, array_columns(circuit, x, y, 6), "pairs", "ripple", wrong=True)
    found = decided(circuit, x, y, bits)
    assert found
    one, other, product = (
        sum(bit << i for i, bit in enumerate(circuit.evaluate(dict.fromkeys(found.ones, 1), word)))
        for word in (x, y, bits)
    )
    assert product != one * other


def test_prefix_adder_is_rewritten_as_the_same_function():
    circuit, generator = Circuit(), random.Random(2)
    x, y = circuit.inputs("x", 12), circuit.inputs("y", 12)
    bits = prefix(circuit, x, y)
    plain = next(plain_adders(circuit, bits))
    cases = {literal: generator.getrandbits(500) for literal in (*x, *y)}
    assert circuit.evaluate(cases, plain, 2**500 - 1) == circuit.evaluate(cases, bits, 2**500 - 1)
    assert sum(circuit.nodes[node].kind is Kind.MAJORITY for node in circuit.cone(plain)) == 10


def test_adder_with_a_wrong_carry_is_not_rewritten():
    circuit = Circuit()
    x, y = circuit.inputs("x", 8), circuit.inputs("y", 8)
    bits = prefix(circuit, x, y)
    bits[7] = circuit.xor(circuit.xor(x[7], y[7]), circuit.and_(x[6], y[6]))
    assert not [variant for variant in plain_adders(circuit, bits) if variant != bits]


@pytest.mark.parametrize("form", MAJORITIES)
def test_majorities_are_recognised_however_written(form: str):
    circuit = Circuit()
    x, y, z = circuit.inputs("x", 3)
    for flips in range(8):
        operands = x ^ flips & 1, y ^ flips >> 1 & 1, z ^ flips >> 2
        assert MAJORITIES[form](circuit, *operands) == circuit.majority(*operands)


def test_constants_are_folded():
    circuit = Circuit()
    x, y = circuit.inputs("x", 2)
    assert circuit.and_(x, x ^ 1) == FALSE
    assert circuit.or_(x, TRUE) == TRUE
    assert circuit.xor(x, x ^ 1) == TRUE
    assert circuit.xor(x ^ 1, y) == circuit.xor(x, y) ^ 1
    assert circuit.majority(x, y, TRUE) == circuit.or_(x, y)
    assert circuit.majority(x, x ^ 1, y) == y
    assert circuit.mux(y, x, x ^ 1) == circuit.xor(x, y)


def total(circuit: Circuit, words: int, width: int) -> tuple[list[int], algebra.Polynomial]:
    """Sum of ``words`` words of three bits by rows of full adders ``width`` places long, and what it should be."""
    given = [circuit.inputs(f"x{number}", 3) for number in range(words)]
    rows = [[*one, *[FALSE] * (width - len(one))] for one in given]
    while len(rows) > 2:
        places = list(zip(*rows[:3], strict=True))
        sums = [circuit.xor(circuit.xor(x, y), z) for x, y, z in places]
        rows = [*rows[3:], sums, [FALSE, *(circuit.majority(x, y, z) for x, y, z in places[:-1])]]
    bits = [*circuit.add(rows[0], rows[1]), *[FALSE] * 8]
    return bits, algebra.plus((1, algebra.word(one)) for one in given)


@pytest.mark.parametrize("words", [4, 6])
def test_carries_that_never_occur_may_be_left_out(words: int):
    circuit = Circuit()
    bits, wanted = total(circuit, words, (7 * words).bit_length())
    assert algebra.compare(circuit, bits, wanted, timeout_s=60) is None


def test_carries_that_occur_must_not_be_left_out():
    circuit = Circuit()
    width = (7 * 4).bit_length() - 1
    bits, wanted = total(circuit, 4, width)
    found = algebra.compare(circuit, bits, wanted, timeout_s=60)
    assert found
    given = sum((2 + 2 * place in found.ones) << place % 3 for place in range(3 * 4))
    result = sum(bit << place for place, bit in enumerate(circuit.evaluate(dict.fromkeys(found.ones, 1), bits)))
    assert result != given


def test_constant_gates_are_exactly_the_ones_that_never_change():
    circuit = Circuit()
    bits, _ = total(circuit, 3, 5)
    # the sum of three words is at most 21
    bits.append(circuit.and_(bits[4], bits[3]))
    gates = [node for node in circuit.cone(bits) if circuit.nodes[node].operands]
    cases = 1 << 9
    given = {2 + 2 * place: sum((case >> place & 1) << case for case in range(cases)) for place in range(9)}
    values = circuit.evaluate(given, [node << 1 for node in gates], (1 << cases) - 1)
    never = {node: value & 1 for node, value in zip(gates, values, strict=True) if value in (0, (1 << cases) - 1)}
    assert never[bits[-1] >> 1] == 0
    assert constant_gates(circuit, bits) == never
