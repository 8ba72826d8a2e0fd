"""Puts the statements of a module in an order in which every net is declared before it is read."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Piece:
    """A statement outside of clocked blocks."""

    wire: str  # the net that it assigns where it is declared; empty if it is another kind of statement
    lines: list[str]  # its text; the first line of an assignment begins with `assign`
    sources: set[str]  # the nets that it reads
    declares: bool = False
    declaration: str = ""  # what comes before the `=` if it does


def ordered(pieces: Sequence[Piece], candidates: set[str]) -> list[Piece]:
    """The same statements; those that assign one of ``candidates`` become its declaration, where that can be."""
    makers = {piece.wire: piece for piece in pieces if piece.wire in candidates}
    result: list[Piece] = []
    state: dict[int, bool] = {}

    def place(piece: Piece) -> None:
        # explicit stack: chains of nets are longer than Python's recursion limit in large modules
        stack = [(piece, iter(_needed(piece, makers)))]
        state[id(piece)] = False
        while stack:
            current, needs = stack[-1]
            following = next(needs, None)
            if following is None:
                stack.pop()
                state[id(current)] = True
                result.append(current)
            elif id(following) not in state:
                state[id(following)] = False
                stack.append((following, iter(_needed(following, makers))))
            elif not state[id(following)]:
                # a loop: declared before all statements instead
                makers.pop(following.wire, None)

    for piece in pieces:
        if id(piece) not in state:
            place(piece)
    for piece in result:
        if piece.wire in makers:
            piece.declares = True
            piece.lines = [f"{piece.declaration} = {piece.lines[0].partition(' = ')[2]}"]
    return result


def _needed(piece: Piece, makers: dict[str, Piece]) -> list[Piece]:
    order = list(makers)
    return [makers[name] for name in order if name in piece.sources]
