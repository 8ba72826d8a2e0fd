"""Reader for the RTLIL text that ``amaranth.back.rtlil`` writes.

Covers what that back end produces (one sync-less process per conditional signal, registers as ``$dff`` cells), not
the whole Yosys language; anything else raises :class:`~xpulpnn.errors.ToolError`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xpulpnn.emit.values import Const, Sig, Slice, const_bits, wires_of
from xpulpnn.errors import ToolError


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Names of the values of an enumerated net, by the bits of the value."""

    name: str
    members: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Wire:
    """A net of a module; ``port`` is ``"input"``, ``"output"`` or empty."""

    name: str
    width: int
    port: str
    init: str | None = None
    enumeration: Enumeration | None = None
    hint: str = ""  # Verilog attribute for the synthesis tool


REGISTER = "$dff"
MEMORY_READ = "$memrd_v2"
MEMORY_WRITE = "$memwr_v2"

_RESULTS = {REGISTER: "Q", MEMORY_READ: "DATA"}  # output ports of cells whose output is not Y


@dataclass(slots=True)
class Cell:
    type: str
    name: str
    params: dict[str, int | str] = field(default_factory=dict)
    ports: dict[str, Sig] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        return bool(self.params.get(name, 0))

    @property
    def is_submodule(self) -> bool:
        return self.type[0] == "\\"

    @property
    def has_result(self) -> bool:
        """True for cells that drive one net: operators, registers and memory read ports."""
        return not self.is_submodule and self.type != MEMORY_WRITE

    @property
    def is_clocked(self) -> bool:
        return self.type == REGISTER or (self.type == MEMORY_READ and self.flag("CLK_ENABLE"))

    @property
    def is_operator(self) -> bool:
        """True for cells that drive one net combinationally."""
        return self.has_result and not self.is_clocked

    @property
    def result_port(self) -> str:
        return _RESULTS.get(self.type, "Y")

    @property
    def result(self) -> str:
        return wires_of(self.ports[self.result_port])[0]


@dataclass(slots=True)
class Assign:
    target: Slice
    value: Sig


@dataclass(slots=True)
class Switch:
    """A switch of an RTLIL process; the first case with a matching pattern, or without patterns, runs."""

    selector: Sig
    cases: list[tuple[tuple[str, ...], list["Assign | Switch"]]] = field(default_factory=list)


Statement = Assign | Switch


def all_statements(statements: Iterable[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        if isinstance(statement, Switch):
            for _patterns, body in statement.cases:
                yield from all_statements(body)


def statement_sigs(statements: Iterable[Statement]) -> list[Sig]:
    return [
        statement.value if isinstance(statement, Assign) else statement.selector
        for statement in all_statements(statements)
    ]


def process_target(process: list[Statement]) -> str:
    first = process[0]
    assert isinstance(first, Assign)
    return first.target.wire


@dataclass(slots=True)
class Memory:
    """An array of ``depth`` words; its ports are cells with its name as ``MEMID``. ``init`` ends with word 0."""

    name: str
    width: int
    depth: int
    init: str = ""


@dataclass(slots=True)
class Module:
    """One RTLIL module. ``connects`` holds aliases of values that are driven elsewhere."""

    wires: dict[str, Wire] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    processes: list[list[Statement]] = field(default_factory=list)
    connects: dict[str, Sig] = field(default_factory=dict)


_CHUNK = re.compile(r"([\\$]\S+)(?: \[(\d+)(?::(\d+))?\])?|\d+'([01x-]*)")


def _parse_sig(text: str, wires: dict[str, Wire]) -> Sig:
    chunks: list[Const | Slice] = []
    for wire, high, low, bits in _CHUNK.findall(text):
        if high:
            chunks.append(Slice(wire, int(low or high), int(high) - int(low or high) + 1))
        else:
            chunks.append(Slice(wire, 0, wires[wire].width) if wire else Const(bits))
    return tuple(chunk for chunk in chunks if chunk.width)


def _parse_param(text: str) -> int | str:
    if text[0] == '"':
        return text[1:-1].replace("\\\\", "\\")
    width, quote, bits = text.partition("'")
    if "x" in bits:
        return bits
    return int(bits, 2) if quote and bits else int(width)


def _enumeration(attributes: dict[str, str]) -> Enumeration | None:
    prefix = "enum_value_"
    members = [
        (key.removeprefix(prefix), text.strip('"')) for key, text in attributes.items() if key.startswith(prefix)
    ]
    if not members:
        return None
    return Enumeration(attributes.get("enum_base_type", '"State"').strip('"'), tuple(members))


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines: Iterator[list[str]] = (
            line.strip().split(" ", 2) for line in text.splitlines() if line.strip() and line[0] != "#"
        )
        self.module = Module()

    def parse(self) -> Module:
        attributes: dict[str, str] = {}
        for words in self.lines:
            keyword, rest = words[0], words[1:]
            if keyword == "attribute":
                attributes[rest[0][1:]] = rest[1]
                continue
            if keyword == "wire":
                self._wire(" ".join(rest), attributes)
            elif keyword == "connect":
                if self.module.wires[rest[0]].width:
                    self.module.connects[rest[0]] = _parse_sig(rest[1], self.module.wires)
            elif keyword == "cell":
                self._cell(rest[0], rest[1])
            elif keyword == "memory":
                width, _size, depth, name = " ".join(rest).split()[1:]
                self.module.memories[name] = Memory(name, int(width), int(depth))
            elif keyword == "process":
                self.module.processes.append(self._body("end")[0])
            elif keyword not in ("module", "end"):
                raise ToolError(f"RTLIL statement must be a wire, connect, cell, memory or process, not {keyword}")
            attributes = {}
        return self.module

    def _wire(self, text: str, attributes: dict[str, str]) -> None:
        *words, name = text.split()
        port = next((word for word in words if word in ("input", "output")), "")
        width = int(words[words.index("width") + 1]) if "width" in words else 1
        init = attributes["init"].partition("'")[2] if "init" in attributes else None
        hint = "".join(f"(* {key} = {text} *) " for key, text in attributes.items() if key.isupper())
        self.module.wires[name] = Wire(name, width, port, init, _enumeration(attributes), hint)

    def _cell(self, kind: str, name: str) -> None:
        cell = Cell(kind, name)
        for words in self.lines:
            if words[0] == "end":
                break
            keyword, key, value = words[0], words[1].removeprefix("\\"), words[2]
            if keyword == "parameter":
                cell.params[key] = _parse_param(value)
            elif keyword == "connect":
                cell.ports[key] = _parse_sig(value, self.module.wires)
        if kind == "$meminit_v2":
            self.module.memories[str(cell.params["MEMID"])].init = const_bits(cell.ports["DATA"]) or ""
        else:
            self.module.cells.append(cell)

    def _body(self, *stops: str) -> tuple[list[Statement], list[str]]:
        body: list[Statement] = []
        for words in self.lines:
            if words[0] in stops:
                return body, words
            if words[0] == "assign":
                target, *value = _parse_sig(" ".join(words[1:]), self.module.wires)
                assert isinstance(target, Slice)
                body.append(Assign(target, tuple(value)))
            elif words[0] == "switch":
                body.append(self._switch(" ".join(words[1:])))
        raise ToolError("RTLIL process must be closed by end, not by the end of the text")

    def _switch(self, selector: str) -> Switch:
        switch = Switch(_parse_sig(selector, self.module.wires))
        _, words = self._body("case", "end")
        while words[0] == "case":
            patterns = tuple(token.partition("'")[2] for token in " ".join(words[1:]).split(", ") if token)
            body, words = self._body("case", "end")
            switch.cases.append((patterns, body))
        return switch


def parse(text: str) -> Module:
    return _Parser(text).parse()
