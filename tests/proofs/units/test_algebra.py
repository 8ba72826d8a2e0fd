"""Gate graphs and the algebra on them: multipliers and adders of many structures are decided."""

import random
from collections.abc import Callable, Sequence

import pytest

from xpulpnn_sim.proofs.engine import algebra, integers
from xpulpnn_sim.proofs.engine.adders import AdderGraph, plain_adders
from xpulpnn_sim.proofs.engine.algebra import constant_gates
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, GateKind

MAJORITIES: dict[str, Callable[[GateGraph, int, int, int], int]] = {
    "pairs": lambda c, x, y, z: c.or_(c.or_(c.and_(x, y), c.and_(x, z)), c.and_(y, z)),
    "propagate": lambda c, x, y, z: c.or_(c.and_(x, y), c.and_(z, c.xor(x, y))),
    "either": lambda c, x, y, z: c.or_(c.and_(x, y), c.and_(z, c.or_(x, y))),
    "mux": lambda c, x, y, z: c.mux(c.xor(x, y), x, z),
}


def prefix(graph: GateGraph, x: Sequence[int], y: Sequence[int]) -> list[int]:
    half = [graph.xor(a, b) for a, b in zip(x, y, strict=True)]
    generate = [graph.and_(a, b) for a, b in zip(x, y, strict=True)]
    propagate, distance = list(half), 1
    while distance < len(x):
        shifted = range(distance, len(x))
        later = {i: graph.or_(generate[i], graph.and_(propagate[i], generate[i - distance])) for i in shifted}
        longer = {i: graph.and_(propagate[i], propagate[i - distance]) for i in shifted}
        generate = [later.get(i, value) for i, value in enumerate(generate)]
        propagate = [longer.get(i, value) for i, value in enumerate(propagate)]
        distance *= 2
    return [half[0], *(graph.xor(a, carry) for a, carry in zip(half[1:], generate, strict=False))]


ADDERS = {"ripple": GateGraph.add, "prefix": prefix}


def compressed(
    graph: GateGraph, columns: list[list[int]], majority: str, adder: str, *, wrong: bool = False
) -> list[int]:
    """Sum of weighted bits: rows of full adders down to two words, and an adder."""
    width = len(columns)
    while max(map(len, columns)) > 2:
        after: list[list[int]] = [[] for _ in range(width + 1)]
        for place, column in enumerate(columns):
            while len(column) > 2:
                x, y, z = column[:3]
                del column[:3]
                after[place].append(graph.xor(graph.xor(x, y), z))
                after[place + 1].append(MAJORITIES[majority](graph, x, y, z ^ wrong))
                wrong = False
            after[place] += column
        columns = after[:width]
    words = [[(*column, FALSE, FALSE)[row] for column in columns] for row in range(2)]
    return ADDERS[adder](graph, *words)


def array_columns(graph: GateGraph, x: list[int], y: list[int], width: int) -> list[list[int]]:
    columns: list[list[int]] = [[] for _ in range(width)]
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            columns[i + j].append(graph.and_(a, b))
    return columns


def booth_columns(graph: GateGraph, x: list[int], y: list[int], width: int) -> list[list[int]]:
    """Rows of a signed radix-4 Booth multiplier, sign extended all the way."""
    columns: list[list[int]] = [[] for _ in range(width)]
    for low in range(0, len(y), 2):
        below, first, second = (y[low - 1] if low else FALSE), y[low], y[low + 1]
        single = graph.xor(first, below)
        double = graph.and_(graph.xor(second, first), single ^ 1)
        for place in range(width - low):
            bit, shifted = x[min(place, len(x) - 1)], x[min(place - 1, len(x) - 1)] if place else FALSE
            chosen = graph.or_(graph.and_(single, bit), graph.and_(double, shifted))
            columns[low + place].append(graph.xor(chosen, second))
        columns[low].append(second)
    return columns


def decided(graph: AdderGraph, x: list[int], y: list[int], bits: list[int], *, signed: bool = False):
    product = algebra.times(algebra.word(x, signed=signed), algebra.word(y, signed=signed))
    return algebra.prove(graph, bits, product, timeout_s=60)


@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize("majority", MAJORITIES)
def test_compressor_tree_is_proved(majority: str, adder: str):
    graph = AdderGraph()
    x, y = graph.inputs(8), graph.inputs(8)
    bits = compressed(graph, array_columns(graph, x, y, 16), majority, adder)
    assert decided(graph, x, y, bits) is None


@pytest.mark.flow
@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize("width", [4, 8, 16])
def test_booth_multiplier_is_proved(width: int, adder: str):
    graph = AdderGraph()
    x, y = graph.inputs(width), graph.inputs(width)
    bits = compressed(graph, booth_columns(graph, x, y, 2 * width), "pairs", adder)
    assert decided(graph, x, y, bits, signed=True) is None


def test_integers_multiply():
    graph, generator = AdderGraph(), random.Random(1)
    x, y = graph.inputs(9), graph.inputs(5)
    bits = integers.low(integers.Integers(graph).multiply(integers.unsigned(x), integers.unsigned(y)), 12)
    for _ in range(200):
        a, b = generator.getrandbits(9), generator.getrandbits(5)
        values = {literal: a >> i & 1 for i, literal in enumerate(x)}
        values |= {literal: b >> i & 1 for i, literal in enumerate(y)}
        assert sum(bit << i for i, bit in enumerate(graph.evaluate(values, bits))) == a * b % 2**12


def test_wrong_multiplier_is_refuted_or_given_up_never_proved():
    graph = AdderGraph()
    x, y = graph.inputs(3), graph.inputs(3)
    bits = compressed(graph, array_columns(graph, x, y, 6), "pairs", "ripple", wrong=True)
    model = decided(graph, x, y, bits)
    assert model
    words = (graph.evaluate(dict.fromkeys(model, 1), word) for word in (x, y, bits))
    a, b, product = (sum(bit << i for i, bit in enumerate(word)) for word in words)
    assert product != a * b


def test_prefix_adder_is_rewritten_as_the_same_function():
    graph, generator = AdderGraph(), random.Random(2)
    x, y = graph.inputs(12), graph.inputs(12)
    bits = prefix(graph, x, y)
    plain = next(plain_adders(graph, bits))
    cases = {literal: generator.getrandbits(500) for literal in (*x, *y)}
    assert graph.evaluate(cases, plain, 2**500 - 1) == graph.evaluate(cases, bits, 2**500 - 1)
    assert sum(graph.nodes[node].kind is GateKind.MAJORITY for node in graph.cone(plain)) == 10


def test_adder_with_a_wrong_carry_is_not_rewritten():
    graph = AdderGraph()
    x, y = graph.inputs(8), graph.inputs(8)
    bits = prefix(graph, x, y)
    bits[7] = graph.xor(graph.xor(x[7], y[7]), graph.and_(x[6], y[6]))
    assert not [variant for variant in plain_adders(graph, bits) if variant != bits]


@pytest.mark.parametrize("form", MAJORITIES)
def test_majorities_are_recognised_however_written(form: str):
    graph = AdderGraph()
    x, y, z = graph.inputs(3)
    for flips in range(8):
        operands = x ^ flips & 1, y ^ flips >> 1 & 1, z ^ flips >> 2
        assert MAJORITIES[form](graph, *operands) == graph.majority(*operands)


def test_constants_are_folded():
    graph = AdderGraph()
    x, y = graph.inputs(2)
    assert graph.and_(x, x ^ 1) == FALSE
    assert graph.or_(x, TRUE) == TRUE
    assert graph.xor(x, x ^ 1) == TRUE
    assert graph.xor(x ^ 1, y) == graph.xor(x, y) ^ 1
    assert graph.majority(x, y, TRUE) == graph.or_(x, y)
    assert graph.majority(x, x ^ 1, y) == y
    assert graph.mux(y, x, x ^ 1) == graph.xor(x, y)


def total(graph: GateGraph, words: int, width: int) -> tuple[list[int], algebra.Polynomial]:
    """Sum of ``words`` words of three bits by rows of full adders ``width`` places long, and what it should be."""
    given = [graph.inputs(3) for number in range(words)]
    rows = [[*word, *[FALSE] * (width - len(word))] for word in given]
    while len(rows) > 2:
        places = list(zip(*rows[:3], strict=True))
        sums = [graph.xor(graph.xor(x, y), z) for x, y, z in places]
        rows = [*rows[3:], sums, [FALSE, *(graph.majority(x, y, z) for x, y, z in places[:-1])]]
    bits = [*graph.add(rows[0], rows[1]), *[FALSE] * 8]
    return bits, algebra.plus((1, algebra.word(word)) for word in given)


@pytest.mark.parametrize("words", [4, 6])
def test_carries_that_never_occur_may_be_left_out(words: int):
    graph = AdderGraph()
    bits, expected = total(graph, words, (7 * words).bit_length())
    assert algebra.prove(graph, bits, expected, timeout_s=60) is None


def test_carries_that_occur_must_not_be_left_out():
    graph = AdderGraph()
    width = (7 * 4).bit_length() - 1
    bits, expected = total(graph, 4, width)
    model = algebra.prove(graph, bits, expected, timeout_s=60)
    assert model
    given = sum((2 + 2 * place in model) << place % 3 for place in range(3 * 4))
    result = sum(bit << place for place, bit in enumerate(graph.evaluate(dict.fromkeys(model, 1), bits)))
    assert result != given


def test_constant_gates_are_exactly_the_ones_that_never_change():
    graph = AdderGraph()
    bits, _ = total(graph, 3, 5)
    # the sum of three words is at most 21
    bits.append(graph.and_(bits[4], bits[3]))
    gates = [node for node in graph.cone(bits) if graph.nodes[node].operands]
    cases = 1 << 9
    given = {2 + 2 * place: sum((case >> place & 1) << case for case in range(cases)) for place in range(9)}
    values = graph.evaluate(given, [node << 1 for node in gates], (1 << cases) - 1)
    never = {node: value & 1 for node, value in zip(gates, values, strict=True) if value in (0, (1 << cases) - 1)}
    assert never[bits[-1] >> 1] == 0
    assert constant_gates(graph, bits) == never
