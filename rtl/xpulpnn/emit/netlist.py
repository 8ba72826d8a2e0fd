"""Simplifies one module before it is written: narrows operators, folds comparisons, picks names for nets."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from xpulpnn.emit.names import is_private
from xpulpnn.emit.rtlil import Assign, Cell, Const, Module, Sig, Slice, Statement, Wire, bits, const_bits, sig_width
from xpulpnn.errors import ToolError

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

_TRUNCATED_PORTS = dict.fromkeys((*BITWISE, *ARITHMETIC, "$mux"), ("A", "B")) | dict.fromkeys((*UNARY, "$shl"), ("A",))


_RESULTS = {REGISTER: "Q", MEMORY_READ: "DATA"}


def is_submodule(cell: Cell) -> bool:
    """Whether a cell is an instance of a module."""
    return cell.type[0] == "\\"


def has_result(cell: Cell) -> bool:
    """Whether a cell is an operator, register or read port: drives one net."""
    return not is_submodule(cell) and cell.type != MEMORY_WRITE


def is_operator(cell: Cell) -> bool:
    """Whether a cell drives one net with what it reads now."""
    return has_result(cell) and cell.type != REGISTER


def write_enable(port: Cell) -> Sig:
    """The bit that enables a write port; raises :class:`ToolError` if there are several."""
    first, *others = (bits(port.ports["EN"], bit, 1) for bit in range(sig_width(port.ports["EN"])))
    if any(other != first for other in others):
        raise ToolError("write port of a memory must write whole words, not parts of them")
    return first


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


def _int_range(sig: Sig, signed: bool) -> tuple[int, int]:
    """Least and greatest value of a sig read as a number."""
    width = sig_width(sig)
    constant = const_bits(sig)
    if constant is not None:
        value = int(constant or "0", 2)
        if signed and width and value >> (width - 1):
            value -= 1 << width
        return value, value
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)


def _known_comparison(cell: Cell) -> bool | None:
    """The result of a comparison that operand widths alone decide."""
    a_min, a_max = _int_range(cell.ports["A"], cell.flag("A_SIGNED"))
    b_min, b_max = _int_range(cell.ports["B"], cell.flag("B_SIGNED"))
    if cell.type in ("$gt", "$le"):
        always, never = a_min > b_max, a_max <= b_min
        return (always if cell.type == "$gt" else never) if always or never else None
    if cell.type in ("$lt", "$ge"):
        always, never = a_max < b_min, a_min >= b_max
        return (always if cell.type == "$lt" else never) if always or never else None
    if a_max < b_min or b_max < a_min:
        return cell.type == "$ne"
    if a_min == a_max == b_min == b_max:
        return cell.type == "$eq"
    return None


def _resized(sig: Sig, width: int, signed: bool) -> Sig:
    """A value cut or extended to ``width`` bits."""
    missing = width - sig_width(sig)
    sign = bits(sig, sig_width(sig) - 1, 1) if signed else (Const("0"),)
    return sign * missing + bits(sig, 0, width)


def _known_result(cell: Cell) -> Sig | None:
    """The result of an operator that only renames, extends or moves bits, or whose result is constant."""
    if cell.type in COMPARISONS:
        known = _known_comparison(cell)
        return None if known is None else (Const(str(int(known))),)
    if cell.type in REDUCTIONS and sig_width(cell.ports["A"]) == 1:
        return cell.ports["A"]
    if cell.type in ("$add", "$or", "$xor") and not cell.ports["A"]:
        # The first step of sum(...) adds to nothing.
        return _resized(cell.ports["B"], sig_width(cell.ports["Y"]), cell.flag("B_SIGNED"))
    if cell.type in ("$shl", "$shr", "$sshr", "$shift") and const_bits(cell.ports["B"]) is not None:
        return _constant_shift(cell)
    return None


def _constant_shift(cell: Cell) -> Sig:
    amount = int(const_bits(cell.ports["B"]) or "0", 2)
    width = sig_width(cell.ports["Y"])
    if cell.type == "$shl":
        amount = min(amount, width)
        zeros = (Const("0" * amount),) if amount else ()
        return _resized(cell.ports["A"], width - amount, cell.flag("A_SIGNED")) + zeros
    amount = min(amount, width + sig_width(cell.ports["A"]))
    operand = _resized(cell.ports["A"], width + amount, cell.flag("A_SIGNED"))
    return bits(operand, amount, width)


class Netlist:
    """A module with one driver per net and every value expressed in driven nets."""

    def __init__(self, module: Module, outputs: Mapping[str, frozenset[str]]) -> None:
        self.module = module
        self.outputs = outputs
        self.wires = module.wires
        self.aliases: dict[str, Sig] = module.connects
        self._fold()
        self._widen_shifts()
        self._narrow()

    def sigs(self) -> Iterator[Sig]:
        """Every value that something reads, further names aside."""
        for cell in self.module.cells:
            outputs = self.cell_outputs(cell)
            yield from (sig for port, sig in cell.ports.items() if port not in outputs)
        for process in self.module.processes:
            yield from statement_sigs(process)

    def cell_outputs(self, cell: Cell) -> frozenset[str]:
        """Ports of a cell that drive nets."""
        if is_submodule(cell):
            return self.outputs[cell.type[1:]]
        return frozenset({_RESULTS.get(cell.type, "Y")}) if has_result(cell) else frozenset()

    def _rewrite(self, substitute: dict[str, Sig]) -> None:
        """Replace whole nets by other values wherever they are read."""

        def new(sig: Sig) -> Sig:
            if not any(isinstance(chunk, Slice) and chunk.wire in substitute for chunk in sig):
                return sig
            chunks: list[Const | Slice] = []
            for chunk in sig:
                if isinstance(chunk, Slice) and chunk.wire in substitute:
                    chunks += bits(new(substitute[chunk.wire]), chunk.low, chunk.width)
                else:
                    chunks.append(chunk)
            return tuple(chunks)

        self._replace(new, aliases=True)

    def _replace(self, new: Callable[[Sig], Sig], *, aliases: bool) -> None:
        def rewrite(statements: list[Statement]) -> None:
            for statement in statements:
                if isinstance(statement, Assign):
                    statement.value = new(statement.value)
                else:
                    statement.selector = new(statement.selector)
                    for _patterns, body in statement.cases:
                        rewrite(body)

        for cell in self.module.cells:
            outputs = self.cell_outputs(cell)
            cell.ports = {port: sig if port in outputs else new(sig) for port, sig in cell.ports.items()}
        for process in self.module.processes:
            rewrite(process)
        if aliases:
            for name, sig in self.aliases.items():
                self.aliases[name] = new(sig)

    def _fold(self) -> None:
        """Replace operators whose result needs no operator by that result."""
        substitute: dict[str, Sig] = {}
        kept = []
        for cell in self.module.cells:
            value = _known_result(cell)
            if value is None:
                kept.append(cell)
                continue
            wire = self.result(cell)
            if is_private(wire):
                substitute[wire] = value
            else:
                self.aliases[wire] = value
        self.module.cells = kept
        self._rewrite(substitute)

    def _fresh(self, width: int) -> str:
        name = f"$w{len(self.wires)}"
        self.wires[name] = Wire(name, width, "")
        return name

    def _widen_shifts(self) -> None:
        """Give a shift as many result bits as its operand has; readers take the low ones."""
        for cell in self.module.cells:
            width = sig_width(cell.ports["A"]) if "A" in cell.ports else 0
            if cell.type == "$shift":
                cell.type = "$sshr" if cell.flag("A_SIGNED") else "$shr"
            if cell.type not in ("$shr", "$sshr"):
                continue
            wire = self.wires[self.result(cell)]
            if width <= wire.width:
                continue
            if is_private(wire.name):
                wire.width = width
            else:
                full = self._fresh(width)
                self.aliases[wire.name] = (Slice(full, 0, wire.width),)
                self._rewrite({wire.name: (Slice(full, 0, wire.width),)})
                wire = self.wires[full]
            cell.ports["Y"] = (Slice(wire.name, 0, width),)

    def _needed(self) -> Counter[str]:
        """How many low bits of each net something reads."""
        needed: Counter[str] = Counter()
        for sig in (*self.sigs(), *self.aliases.values()):
            for chunk in sig:
                if isinstance(chunk, Slice):
                    needed[chunk.wire] = max(needed[chunk.wire], chunk.low + chunk.width)
        return needed

    def _narrow(self) -> None:
        """Drop anonymous results and result bits nobody reads, and operand bits that cannot matter."""
        changed = True
        while changed:
            needed = self._needed()
            changed = self._drop_unread(needed)
            for cell in self.module.cells:
                if cell.type not in LOW_BITS_SUFFICE:
                    continue
                wire = self.wires[self.result(cell)]
                if is_private(wire.name) and needed[wire.name] < wire.width:
                    wire.width = needed[wire.name]
                    cell.ports["Y"] = (Slice(wire.name, 0, wire.width),)
                    changed = True
                changed |= self._trim_operands(cell)

    def _drop_unread(self, needed: Counter[str]) -> bool:
        def unread(wire: str) -> bool:
            return is_private(wire) and not needed[wire]

        cells = [cell for cell in self.module.cells if not has_result(cell) or not unread(self.result(cell))]
        processes = [process for process in self.module.processes if not unread(process_target(process))]
        dropped = len(cells) < len(self.module.cells) or len(processes) < len(self.module.processes)
        self.module.cells, self.module.processes = cells, processes
        return dropped

    @staticmethod
    def result(cell: Cell) -> str:
        """The net an operator, register or read port drives."""
        chunk = cell.ports[_RESULTS.get(cell.type, "Y")][0]
        assert isinstance(chunk, Slice)
        return chunk.wire

    def share(self, names: Mapping[Sig, str]) -> None:
        """Let readers of a composed value use the net that has it under a name."""
        self._replace(lambda sig: (Slice(names[sig], 0, sig_width(sig)),) if sig in names else sig, aliases=False)

    def _trim_operands(self, cell: Cell) -> bool:
        trimmed = False
        for port in _TRUNCATED_PORTS.get(cell.type, ()):
            width = sig_width(cell.ports["Y"])
            if sig_width(cell.ports[port]) > width:
                cell.ports[port] = bits(cell.ports[port], 0, width)
                trimmed = True
        return trimmed
