"""Memory shared over time: pieces that are not needed in the same step may have the same addresses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xpulpnn_sw.kernels.tiling.plan import aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Something that needs memory for some time."""

    name: str  # what it is, another for each piece
    size: int
    first: int  # first step that needs it
    last: int  # last step that needs it

    def meets(self, other: "Piece") -> bool:
        """Return whether there is a step in which both need memory."""
        return self.first <= other.last and other.first <= self.last


def results_name(layer: str) -> str:
    """The piece with the results of a layer."""
    return f"{layer}.output"


def buffer_name(layer: str) -> str:
    """The piece with the buffers that a layer needs while it is computed."""
    return f"{layer}.buffer"


def weights_name(layer: str) -> str:
    """The piece with the weights of a layer and what goes with them."""
    return f"{layer}.weights"


Order = Callable[[Piece], tuple[int, ...]]

# in which the pieces choose their places; no order is the best of all for every network
_ORDERS: tuple[Order, ...] = (
    lambda piece: (-piece.size, piece.first),
    lambda piece: (-piece.size * (piece.last - piece.first + 1),),
    lambda piece: (piece.first - piece.last, -piece.size),
    lambda piece: (piece.first, -piece.size),
)


def demand(pieces: Sequence[Piece], step: int) -> int:
    """Bytes needed in a step."""
    return sum(aligned(piece.size) for piece in pieces if piece.first <= step <= piece.last)


def arranged(pieces: Sequence[Piece]) -> dict[str, int]:
    """Offset of each piece, such that none has a byte in common with one that it meets; as few bytes as was found."""
    return min((_placed(sorted(pieces, key=order)) for order in _ORDERS), key=lambda places: extent(pieces, places))


def extent(pieces: Sequence[Piece], places: dict[str, int]) -> int:
    """Bytes up to the end of the last piece."""
    return max((places[piece.name] + aligned(piece.size) for piece in pieces), default=0)


def _placed(pieces: Sequence[Piece]) -> dict[str, int]:
    """Each piece in turn in the smallest gap between those it meets that has room for it."""
    places: dict[str, int] = {}
    done: list[Piece] = []
    for piece in pieces:
        taken = sorted((places[one.name], places[one.name] + aligned(one.size)) for one in done if one.meets(piece))
        best, least, end = None, 0, 0
        for start, after in taken:
            room = start - end
            if room >= aligned(piece.size) and (best is None or room < least):
                best, least = end, room
            end = max(end, after)
        places[piece.name] = end if best is None else best
        done.append(piece)
    return places
