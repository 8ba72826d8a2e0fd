"""Packing of operands: what is legal, by the paper's maps and by trying all operands, and where elements stand."""

from itertools import product

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.ulppack.packing import Packing, Scheme, legal_depths, most_depth, most_iterations

# the ULPPACK paper's Fig. 6, rows W1 to W7, columns A1 to A7, 1 where nothing can be packed; then the 32-bit P1 map
MAPS = {
    (Scheme.P1, 16): ["5432222", "4322211", "3222111", "2221111", "2211111", "2111111", "2111111"],
    (Scheme.P2, 16): ["6433222", "4332221", "3322221", "3222211", "2222211", "2221111", "2111111"],
    (Scheme.P1, 32): ["8654443", "6544332", "5443322", "4433222", "4332222", "4322222", "3222222"],
}

ITERATIONS = {
    (Scheme.P1, 16, 2, 1, 1): 127,
    (Scheme.P1, 16, 3, 2, 2): 1,
    (Scheme.P1, 16, 2, 3, 3): 2,
    (Scheme.P2, 16, 3, 2, 2): 4,
    (Scheme.P2, 16, 2, 4, 4): 9,
    (Scheme.P2, 16, 2, 3, 6): 1,
    (Scheme.P2, 16, 2, 5, 5): 1,
    (Scheme.P1, 32, 6, 1, 1): 5,
    (Scheme.P1, 32, 4, 2, 2): 7,
    (Scheme.P1, 32, 3, 3, 3): 6,
    (Scheme.P1, 32, 2, 4, 4): 145,
}
"""Scheme, register, depth, bits of weights and activations: how often may be added up, worked out by hand."""


@pytest.mark.parametrize(("scheme", "register"), MAPS)
def test_largest_depths_are_those_of_the_paper(scheme, register):
    found = ["".join(str(most_depth(scheme, register, w, a)) for a in range(1, 8)) for w in range(1, 8)]
    assert found == MAPS[scheme, register]


def test_iterations():
    assert {key: most_iterations(*key) for key in ITERATIONS} == ITERATIONS


def field(packing: Packing, total: int) -> int:
    return total >> packing.position & (1 << packing.pitch) - 1


def first_operand(packing: Packing, elements: np.ndarray) -> np.ndarray:
    """Rows whose first packed operand has the elements."""
    rows = np.zeros((len(elements), packing.order.size), np.int64)
    rows[:, packing.order[0]] = elements
    return rows


@pytest.mark.parametrize(
    ("scheme", "register"), [(Scheme.P1, 8), (Scheme.P1, 16), (Scheme.P1, 32), (Scheme.P2, 8), (Scheme.P2, 16)]
)
def test_all_small_operands_give_their_dot_product(scheme, register):
    """Every pair of operands of up to three elements, multiplied as often as is legal."""
    tried = 0
    for w, a in product((1, 2), repeat=2):
        for depth in (d for d in legal_depths(scheme, register, w, a) if d <= 3):
            packing = Packing(scheme=scheme, register=register, depth=depth, w=w, a=a)
            weights = np.array(list(product(range(1 << w), repeat=depth)))
            activations = np.array(list(product(range(1 << a), repeat=depth)))
            packed_w = packing.pack_weights(first_operand(packing, weights))[:, 0]
            packed_a = packing.pack_activations(first_operand(packing, activations))[:, 0]
            for row, one in zip(weights.tolist(), packed_w.tolist(), strict=True):
                for column, other in zip(activations.tolist(), packed_a.tolist(), strict=True):
                    dot = sum(x * y for x, y in zip(row, column, strict=True))
                    total = one * other * packing.iterations & 0xFFFF_FFFF
                    assert field(packing, total) == dot * packing.iterations
                    tried += 1
    assert tried > 0


@pytest.mark.parametrize("scheme", [Scheme.P1, Scheme.P2])
@pytest.mark.parametrize("register", [8, 16, 32])
def test_one_more_iteration_overflows(scheme, register):
    for w, a in product(range(1, 8), repeat=2):
        for depth in legal_depths(scheme, register, w, a):
            most = most_iterations(scheme, register, depth, w, a)
            space = 1 << (register // depth if scheme is Scheme.P1 else (register - max(w, a)) // (depth - 1))
            largest = depth * ((1 << w) - 1) * ((1 << a) - 1)
            assert most * largest < space <= (most + 1) * largest


def test_places_of_elements():
    packing = Packing(scheme=Scheme.P2, register=16, depth=2, w=3, a=3, lanes=2)
    assert (packing.pitch, packing.position, packing.iterations) == (13, 13, 41)
    elements = np.array([[1, 2, 3, 4]])
    assert packing.pack_activations(elements).tolist() == [[1 | 2 << 13 | 3 << 16 | 4 << 29]]
    assert packing.pack_weights(elements).tolist() == [[2 | 1 << 13 | 4 << 16 | 3 << 29]]
    raised = Packing(scheme=Scheme.P1, register=32, depth=3, w=3, a=3)
    assert (raised.pitch, raised.raised, raised.position) == (10, 2, 22)
    assert raised.pack_weights(np.array([[1, 2, 3]])).tolist() == [[3 << 2 | 2 << 12 | 1 << 22]]


def test_elements_of_an_operand_come_from_the_same_byte_of_several_words():
    halves = Packing(scheme=Scheme.P2, register=16, depth=3, w=1, a=1, lanes=2)
    assert halves.order.tolist() == [[0, 4, 8], [2, 6, 10], [1, 5, 9], [3, 7, 11]]
    bytes_ = Packing(scheme=Scheme.P2, register=8, depth=2, w=1, a=1, lanes=4)
    assert bytes_.order.tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    whole = Packing(scheme=Scheme.P1, register=32, depth=6, w=1, a=1)
    assert whole.order.tolist() == [[0, 4, 8, 2, 6, 10], [1, 5, 9, 3, 7, 11]]
    assert (halves.words(13), bytes_.words(13), whole.words(13)) == (4, 2, 4)
    # odd depths of a word, and half-words of two, are packed one element after the other
    odd = Packing(scheme=Scheme.P1, register=32, depth=3, w=3, a=3)
    pairs = Packing(scheme=Scheme.P2, register=16, depth=2, w=3, a=3, lanes=2)
    assert (odd.columns, odd.order.tolist(), pairs.columns) == (0, [[0, 1, 2]], 0)
    for packing in (halves, bytes_, whole, odd, pairs):
        assert sorted(packing.order.reshape(-1)) == list(range(packing.order.size))


@pytest.mark.parametrize(("depth", "packing"), [(4, Packing(scheme=Scheme.P1, register=32, depth=4, w=2, a=2))])
def test_packed_bytes_are_the_bytes(depth, packing):
    assert packing.is_bytes
    assert packing.pack_activations(np.arange(depth)[np.newaxis]).tolist() == [[0x0302_0100]]
    assert not Packing(scheme=Scheme.P1, register=32, depth=3, w=2, a=2).is_bytes


@pytest.mark.parametrize(
    ("named", "changes"),
    [
        ("weights", {"w": 0}),
        ("activations", {"a": 9}),
        ("depth of P1-16 at W2A2", {"depth": 5}),
        ("depth of P1-16 at W7A7", {"w": 7, "a": 7}),
        ("depth of P1-16 in 2 lanes at W2A2", {"lanes": 2, "depth": 3}),
    ],
)
def test_what_overflows_is_refused(named, changes):
    with pytest.raises(LayerError, match=f"^{named} must be "):
        Packing(**{"scheme": Scheme.P1, "register": 16, "depth": 2, "w": 2, "a": 2} | changes)
