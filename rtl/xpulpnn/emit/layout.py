"""Style options, line breaks, and the order in which nets are declared before they are read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap


@dataclass(slots=True)
class TextPiece:
    wire: str  # the assigned net; empty if the statement is not an assignment
    lines: list[str]  # its text; the first line of an assignment begins with `assign`
    sources: set[str]  # the nets that it reads
    declares: bool = False
    declaration: str = ""  # text before the `=` of a declaration with assignment


def ordered(pieces: Sequence[TextPiece], candidates: set[str]) -> list[TextPiece]:
    """Order statements so that assignments of nets in ``candidates`` precede all reads, and can declare the nets.

    A net in a combinational loop is declared separately. Independent statements keep their order, as the area and delay
    that ABC reaches depend on the order of the text.
    """
    makers = {piece.wire: piece for piece in pieces if piece.wire in candidates}
    result: list[TextPiece] = []
    state: dict[int, bool] = {}
    # an explicit stack, as chains of nets exceed Python's recursion limit in large modules
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
            # a combinational loop: the net is declared before all statements
            makers.pop(following.wire, None)
    for piece in result:
        if piece.wire in makers:
            piece.declares = True
            piece.lines = [f"{piece.declaration} = {piece.lines[0].partition(' = ')[2]}"]
    return result


_CLOCKING = {"clk": "Clock; registers change at its rising edge.", "rst": "Synchronous reset, active high."}
_ASYNCHRONOUS = "Asynchronous reset, active low."


@dataclass(frozen=True, slots=True)
class Style:
    prefix: str = ""  # beginning of the name of every module
    reset: str = "sync"  # kind of reset: sync or async-low
    initial: bool = True  # registers have initial values
    both_edges: bool = False  # every change of the clock is an edge
    separator: str = "__"  # between the parts of a port's name

    def inverts(self, name: str) -> bool:
        """Return whether an Amaranth clock or reset, which is active high, becomes an active-low Verilog port."""
        return self.reset == "async-low" and name.rpartition("_")[2] == "rst"

    def clocking_name(self, name: str) -> str:
        return f"{name}_n" if self.inverts(name) else name

    def clocking_meaning(self, name: str) -> str:
        domain, _, kind = name.rpartition("_")
        text = _ASYNCHRONOUS if self.inverts(name) else _CLOCKING[kind]
        return text + (f" Domain {domain}." if domain else "")


@dataclass(frozen=True, slots=True)
class Interface:
    """Properties of a module's ports that its parent needs to know."""

    outputs: frozenset[str]
    clocking: tuple[str, ...] = ()  # clock and reset ports


INDENT = "    "
COLUMNS = 116  # maximal width of a line without its indentation

_BREAKS = {", ": 0, " ? ": 1, " : ": 1, " | ": 2, " ^ ": 3, " & ": 4, " == ": 5, " + ": 6, " - ": 6}
"""Text at which a line may be broken, with ranks, best first: before an operator, or after a comma."""


def comment(text: str) -> list[str]:
    """Return Verilog comment lines: the first line of ``text`` as a paragraph, all others as indented items."""
    head, *items = text.split("\n")
    lines = wrap(head, COLUMNS - 3, break_on_hyphens=False)
    for item in items:
        lines += wrap(item, COLUMNS - 3, initial_indent=INDENT, subsequent_indent=INDENT * 2, break_on_hyphens=False)
    return [f"// {line}" for line in lines]


def declared_range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""


def broken_lines(line: str) -> list[str]:
    """Break a statement into lines that fit, at operators and commas inside as few brackets as possible."""
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
    """Put short statements side by side on as few lines as possible."""
    lines: list[str] = []
    for statement in statements:
        if lines and len(lines[-1]) + len(statement) + 1 <= COLUMNS - len(INDENT):
            lines[-1] += f" {statement}"
        else:
            lines.append(statement)
    return lines
