"""The schedule of the tiles: while one is computed, the next is fetched and the one before is stored."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from xpulpnn_sw.tiling.shape import Tile


class Operand(Enum):
    """Operands that are moved."""

    INPUT = "input"
    WEIGHTS = "weights"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Data of a tile on its way between memories."""

    operand: Operand  # Which; outputs are stored, the others are loaded
    tile: Tile
    slot: int  # number of the buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A tile to compute, and the numbers of the buffers that it uses."""

    number: int
    tile: Tile
    slots: dict[Operand, int]


@dataclass(slots=True)
class Step:
    """Work and moves between two barriers, all at the same time."""

    work: Work | None = None
    moves: list[Move] = field(default_factory=list[Move])


def _key(operand: Operand, tile: Tile) -> Hashable:
    if operand is Operand.WEIGHTS:
        return tile.channels
    return tile.in_lines if operand is Operand.INPUT else (tile.lines, tile.channels)


def slots_needed(tiles: Sequence[Tile], operand: Operand, *, overlap: bool) -> int:
    """Buffers for an operand: two where one is filled or emptied while the other is in use."""
    return 2 if overlap and len({_key(operand, tile) for tile in tiles}) > 1 else 1


def schedule(tiles: Sequence[Tile], *, overlap: bool) -> list[Step]:
    """The steps that compute ``tiles`` in their order.

    What the next tile has in common with the one before stays where it is. Without ``overlap`` nothing is moved while
    something is computed.
    """
    counts = {operand: slots_needed(tiles, operand, overlap=overlap) for operand in Operand}
    works: list[Work] = []
    loads: list[list[Move]] = []
    slots, keys = dict.fromkeys(Operand, -1), dict.fromkeys(Operand, None)
    for number, tile in enumerate(tiles):
        fetched: list[Move] = []
        for operand in Operand:
            key = _key(operand, tile)
            if number and key == keys[operand]:
                continue
            keys[operand], slots[operand] = key, (slots[operand] + 1) % counts[operand]
            if operand is not Operand.OUTPUT:
                fetched.append(Move(operand=operand, tile=tile, slot=slots[operand]))
        works.append(Work(number=number, tile=tile, slots=dict(slots)))
        loads.append(fetched)
    stores = [[Move(operand=Operand.OUTPUT, tile=work.tile, slot=work.slots[Operand.OUTPUT])] for work in works]
    if overlap:
        steps = [Step() for _ in range(len(tiles) + 2)]
        for number, work in enumerate(works):
            steps[number].moves += loads[number]
            steps[number + 1].work = work
            steps[number + 2].moves += stores[number]
        return steps
    steps = [Step(moves=loads[0])]
    for number, work in enumerate(works):
        following = loads[number + 1] if number + 1 < len(works) else []
        steps += [Step(work=work), Step(moves=stores[number] + following)]
    return steps
