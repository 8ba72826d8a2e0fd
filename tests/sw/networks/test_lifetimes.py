"""Memory shared over time: nothing lies on what is needed in the same step, and little is wasted."""

import random

import pytest

from xpulpnn_sw.networks.deployment import Piece, arranged, demand, extent

ALIGNMENT = 8


def piece(name: str, size: int, first: int, last: int) -> Piece:
    return Piece(name=name, size=size, first=first, last=last)


def colliding(pieces, places):
    """Pairs of pieces with a byte in common in a step, by looking at every byte of every step."""
    found = set()
    for step in range(max(one.last for one in pieces) + 1):
        owners = {}
        for one in pieces:
            if one.first <= step <= one.last:
                for address in range(places[one.name], places[one.name] + one.size):
                    if address in owners:
                        found.add((owners[address], one.name))
                    owners[address] = one.name
    return found


def test_results_take_turns():
    """A chain of layers: where the results of one are, those of the one after the next can be."""
    chain = [piece(f"layer{number}", 100, number, number + 1) for number in range(6)]
    places = arranged(chain)
    assert not colliding(chain, places)
    assert extent(chain, places) == 2 * 104
    assert places["layer0"] == places["layer2"] == places["layer4"] != places["layer1"]


@pytest.mark.parametrize("seed", range(20))
def test_random_lifetimes(seed):
    rng = random.Random(seed)
    pieces = []
    for number in range(rng.randint(1, 12)):
        first = rng.randint(0, 6)
        pieces.append(piece(str(number), rng.choice([1, 7, 8, 30, 64, 100]), first, rng.randint(first, 7)))
    places = arranged(pieces)
    assert not colliding(pieces, places)
    assert all(address % ALIGNMENT == 0 for address in places.values())
    least = max(demand(pieces, step) for step in range(8))
    assert least <= extent(pieces, places) <= 1.5 * least
