"""Style, lines and order of the text: choices of the caller, breaks of lines, nets declared before they are read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap


@dataclass(slots=True)
class TextPiece:
    """A statement outside of clocked blocks."""

    wire: str  # the net that it assigns where it is declared; empty if it is another kind of statement
    lines: list[str]  # its text; the first line of an assignment begins with `assign`
    sources: set[str]  # the nets that it reads
    declares: bool = False
    declaration: str = ""  # what comes before the `=` if it does


def ordered(pieces: Sequence[TextPiece], candidates: set[str]) -> list[TextPiece]:
    """The same statements; those that assign one of ``candidates`` become its declaration, where that can be.

    Nets with numbers are not put in their order: ABC's area and delay depend on the order of the text.
    """
    makers = {piece.wire: piece for piece in pieces if piece.wire in candidates}
    result: list[TextPiece] = []
    state: dict[int, bool] = {}
    # explicit stack: chains of nets are longer than Python's recursion limit in large modules
    stack: list[tuple[TextPiece | None, Iterator[TextPiece]]] = [(None, iter(pieces))]
    while stack:
        current, needs = stack[-1]
        following = next(needs, None)
        if following is None:
            stack.pop()
            if current is not None:
                state[id(current)] = True
                result.append(current)
        elif id(following) not in state:
            state[id(following)] = False
            needed = [maker for name, maker in makers.items() if name in following.sources]
            stack.append((following, iter(needed)))
        elif not state[id(following)]:
            # a loop: declared before all statements instead
            makers.pop(following.wire, None)
    for piece in result:
        if piece.wire in makers:
            piece.declares = True
            piece.lines = [f"{piece.declaration} = {piece.lines[0].partition(' = ')[2]}"]
    return result


_CLOCKING = {"clk": "Clock; everything happens on its rising edge.", "rst": "Synchronous reset, active high."}
_ASYNCHRONOUS = "Asynchronous reset, active low."


@dataclass(frozen=True, slots=True)
class Style:
    """Choices that leave the function alone."""

    prefix: str = ""  # begins the name of every module
    reset: str = "sync"  # when and at which level registers are reset
    initial: bool = True  # whether registers have initial values
    both_edges: bool = False  # whether every change of the clock is an edge
    separator: str = "__"  # between the parts of a port's name

    def inverts(self, name: str) -> bool:
        """Return whether the port for a clock or reset that Amaranth calls ``name`` has the opposite level."""
        return self.reset == "async-low" and name.rpartition("_")[2] == "rst"

    def clocking_name(self, name: str) -> str:
        """Name of the port for a clock or reset that Amaranth calls ``name``."""
        return f"{name}_n" if self.inverts(name) else name

    def clocking_meaning(self, name: str) -> str:
        """Return the meaning of the port for a clock or reset."""
        domain, _, kind = name.rpartition("_")
        text = _ASYNCHRONOUS if self.inverts(name) else _CLOCKING[kind]
        return text + (f" Domain {domain}." if domain else "")


@dataclass(frozen=True, slots=True)
class Interface:
    """The facts of a module that its parent needs."""

    outputs: frozenset[str]
    clocking: tuple[str, ...] = ()  # the ports that its clock domains brought


INDENT = "    "
COLUMNS = 116  # width beyond which a line is broken, without its indentation

_BREAKS = {", ": 0, " ? ": 1, " : ": 1, " | ": 2, " ^ ": 3, " & ": 4, " == ": 5, " + ": 6, " - ": 6}
"""Places where a line may be broken, the better ones first: before these operators, or after a comma."""


def comment(text: str) -> list[str]:
    """``text`` as comment lines; its lines after the first are the items of a list."""
    head, *items = text.split("\n")
    lines = wrap(head, COLUMNS - 3, break_on_hyphens=False)
    for item in items:
        lines += wrap(item, COLUMNS - 3, initial_indent=INDENT, subsequent_indent=INDENT * 2, break_on_hyphens=False)
    return [f"// {line}" for line in lines]


def declared_range(width: int) -> str:
    """The range of a declaration, with the space after it; empty for a single bit."""
    return f"[{width - 1}:0] " if width > 1 else ""


def broken_lines(line: str) -> list[str]:
    """A statement on as many lines as it needs, broken where it is nested least."""
    margin = line[: len(line) - len(line.lstrip())]
    if len(line) - len(margin) <= COLUMNS or line.lstrip().startswith("//"):
        return [line]
    first = len(margin) + len(INDENT) + 1
    assigned = 0 if line.startswith("assign {", len(margin)) else line.find("= ", first) + 2
    lines, rest, begin = [], line, max(first, assigned)
    while len(rest) - len(margin) > COLUMNS:
        place = _place(rest, begin, len(margin) + COLUMNS)
        if place is None:
            break
        lines.append(rest[:place].rstrip())
        rest, begin = f"{margin}{INDENT}{rest[place:].lstrip()}", first
    return [*lines, rest]


def _place(line: str, begin: int, end: int) -> int | None:
    """The best place between two columns to break a line."""
    best: tuple[int, int, int, int] | None = None
    depth = 0
    for place, letter in enumerate(line[:end]):
        depth += (letter in "({[") - (letter in ")}]")
        if place <= begin:
            continue
        for mark, rank in _BREAKS.items():
            if line.startswith(mark, place):
                candidate = depth, rank, -place, place + 1 if letter == "," else place
                best = candidate if best is None else min(best, candidate)
    return best[3] if best else None


def rows(statements: Iterable[str]) -> list[str]:
    """Short statements side by side on as few lines as they need."""
    lines: list[str] = []
    for statement in statements:
        if lines and len(lines[-1]) + len(statement) + 1 <= COLUMNS - len(INDENT):
            lines[-1] += f" {statement}"
        else:
            lines.append(statement)
    return lines
