"""Verilog identifiers that need no escaping, for RTLIL nets and enumeration values."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from xpulpnn.emit.layout import comment, declared_range
from xpulpnn.emit.rtlil import Enumeration, Wire
from xpulpnn.emit.values import Sig, Slice
from xpulpnn.errors import ToolError, require

_KEYWORDS = """
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind
bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config
const constraint context continue cover covergroup coverpoint cross deassign default defparam design disable
dist do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup
endinterface endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask
enum event eventually expect export extends extern final first_match for force foreach forever fork forkjoin
function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies import
incdir include initial inout input inside instance int integer interconnect interface intersect join join_any
join_none large let liblist library local localparam logic longint macromodule matches medium modport module
nand negedge nettype new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed
parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown pullup
pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg
reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually s_nexttime
s_until s_until_with scalared sequence shortint shortreal showcancelled signed small soft solve specify
specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on sync_reject_on
table tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior
trireg type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void
wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
"""
KEYWORDS = frozenset(_KEYWORDS.split())
"""Reserved words of SystemVerilog (IEEE 1800-2017, table B.1), a superset of Verilog's."""

_COUNTER = re.compile(r"\$\d+$")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_]+")
_FIELD = re.compile(r"[.\[]")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    return _UPPER.sub("_", name).lower()


def is_private(wire: str) -> bool:
    return wire[0] == "$" or wire[1] == "$"


def field_base(wire: str) -> str | None:
    """Return the structured signal that contains a net (``ctrl`` for ``ctrl.mode``); None if the net is no field."""
    match = _FIELD.search(wire)
    return wire[: match.start()] if match else None


@lru_cache(1 << 16)
def plain_name(wire: str) -> str:
    """Return the source name of a net without Amaranth's counter, with fields joined by underscores."""
    base = field_base(wire) or wire
    text = _COUNTER.sub("", base[1:]) + wire[len(base) :]
    name = _ILLEGAL.sub("_", text).strip("_") or "n"
    return f"_{name}" if name[0].isdigit() else name


def port_name(name: str, separator: str = "__") -> str:
    """Return the Verilog name of a port: the source name, with an underscore appended to a reserved word.

    ``separator`` replaces Amaranth's two underscores between the name of an interface and that of its member.
    """
    name = name.replace("__", separator)
    return f"{name}_" if name in KEYWORDS else name


class NameSpace:
    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(reserved)
        for name in sorted(self._taken):
            require(IDENTIFIER.fullmatch(name), f"port must be a Verilog identifier, not {name}", ToolError)

    def is_free(self, name: str) -> bool:
        return name not in self._taken

    def take(self, name: str) -> str:
        unique, number = name, 1
        while unique in self._taken or unique in KEYWORDS:
            number += 1
            unique = f"{name}_{number}"
        self._taken.add(unique)
        return unique


class Enumerations:
    """The enumerations of one module: the nets that have one, and the values that the Verilog names."""

    def __init__(self, wires: Mapping[str, Wire], aliases: Mapping[str, Sig], space: NameSpace) -> None:
        self._space = space
        self._of: dict[Slice, Enumeration] = {}
        self._used: dict[Enumeration, dict[str, str]] = {}
        for wire in wires.values():
            if wire.enumeration is None:
                continue
            self._of.setdefault(Slice(wire.name, 0, wire.width), wire.enumeration)
            sig = aliases.get(wire.name, ())
            if len(sig) == 1 and isinstance(sig[0], Slice):
                self._of.setdefault(sig[0], wire.enumeration)

    def of(self, *sigs: Sig) -> Enumeration | None:
        """Return the enumeration of the first of the values that has one."""
        for sig in sigs:
            if len(sig) == 1 and isinstance(sig[0], Slice) and sig[0] in self._of:
                return self._of[sig[0]]
        return None

    def label(self, enumeration: Enumeration | None, bits: str) -> str | None:
        """Return the name of an enumeration value, which is then declared; None if the value has no name."""
        if enumeration is None:
            return None
        known = self._used.setdefault(enumeration, {})
        if bits not in known:
            member = dict(enumeration.members).get(bits)
            if member is None:
                return None
            known[bits] = self._space.take(f"{snake_case(enumeration.name)}_{member}".upper())
        return known[bits]

    def declarations(self) -> list[str]:
        """Declare a constant for every named value, under a comment with all values of its enumeration."""
        lines: list[str] = []
        for enumeration, names in ((key, names) for key, names in self._used.items() if names):
            values = ", ".join(f"{int(bits, 2)} {member}" for bits, member in enumeration.members)
            width = len(next(iter(names)))
            constants = ", ".join(f"{names[bits]} = {width}'h{int(bits, 2):x}" for bits in sorted(names))
            if len(names) < len(enumeration.members):
                lines += comment(f"{enumeration.name}: {values}.")
            lines.append(f"localparam {declared_range(width)}{constants};")
        return lines
