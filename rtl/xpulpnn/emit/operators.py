"""The operators of RTLIL that the emission knows, and what kinds of cells there are."""

from collections.abc import Iterator

from xpulpnn.emit.rtlil import Assign, Cell, Sig, Statement, bits, sig_width, wires_of

BITWISE = {"$and": "&", "$or": "|", "$xor": "^"}
ARITHMETIC = {"$add": "+", "$sub": "-", "$mul": "*"}
COMPARISONS = {"$eq": "==", "$ne": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="}
REDUCTIONS = {"$reduce_and": "&", "$reduce_or": "|", "$reduce_xor": "^", "$reduce_bool": "|"}
UNARY = {"$not": "~", "$neg": "-"}
SHIFTS = {"$shl": "<<", "$shr": ">>", "$sshr": ">>>"}
REGISTER = "$dff"
MEMORY_READ = "$memrd_v2"
MEMORY_WRITE = "$memwr_v2"

LOW_BITS_SUFFICE = frozenset({*BITWISE, *ARITHMETIC, *UNARY, "$mux", "$shl"})
"""Operators whose low result bits depend on the low operand bits alone."""

_RESULTS = {REGISTER: "Q", MEMORY_READ: "DATA"}


def is_submodule(cell: Cell) -> bool:
    """Return whether a cell is an instance of a module."""
    return cell.type[0] == "\\"


def has_result(cell: Cell) -> bool:
    """Return whether a cell is an operator, register or read port: drives one net."""
    return not is_submodule(cell) and cell.type != MEMORY_WRITE


def is_clocked(cell: Cell) -> bool:
    """Return whether a cell drives a net at a clock edge: a register, or a read port with one."""
    return cell.type == REGISTER or (cell.type == MEMORY_READ and cell.flag("CLK_ENABLE"))


def is_operator(cell: Cell) -> bool:
    """Return whether a cell drives one net with what it reads now."""
    return has_result(cell) and not is_clocked(cell)


def result_port(cell: Cell) -> str:
    """Name of the port of a cell with a result that drives it."""
    return _RESULTS.get(cell.type, "Y")


def result(cell: Cell) -> str:
    """The net an operator, register or read port drives."""
    return wires_of(cell.ports[result_port(cell)])[0]


def write_enables(port: Cell) -> Iterator[tuple[Sig, int, int]]:
    """The bits that enable a write port, with lowest bit and width of the part of the word that each is for."""
    low, width = 0, sig_width(port.ports["EN"])
    while low < width:
        enable, high = bits(port.ports["EN"], low, 1), low + 1
        while high < width and bits(port.ports["EN"], high, 1) == enable:
            high += 1
        yield enable, low, high - low
        low = high


def statement_sigs(statements: list[Statement]) -> Iterator[Sig]:
    """Every value a process reads."""
    for statement in statements:
        if isinstance(statement, Assign):
            yield statement.value
        else:
            yield statement.selector
            for _patterns, body in statement.cases:
                yield from statement_sigs(body)


def process_target(process: list[Statement]) -> str:
    """The net a process drives; its first statement assigns all of it."""
    first = process[0]
    assert isinstance(first, Assign)
    return first.target.wire
