"""Directed programs of instruction words: illegal words that differ in one bit from an instruction, and instructions
with every register in every register field."""

from collections.abc import Iterator

from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.isa.table import ALL_WORDS, INSNS
from xpulpnn_sim.reference.bare.layout import SIGNATURE, WINDOW
from xpulpnn_sim.reference.bare.program import Handlers
from xpulpnn_sim.reference.directed.case import HANDLERS, Directed, directed, programs
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_REGISTERS = 10 << 7 | 11 << 15 | 12 << 20  # rd, rs1 and rs2 of words in which these are free
_LENGTH_BITS = 2
_MAC_LOAD = 0x77  # opcode of most Mac&Loads


def _illegal() -> dict[int, None]:
    """Return all illegal words that differ in one fixed bit from an instruction."""
    words: dict[int, None] = {}
    for row in INSNS:
        if row.size == WORD_BYTES and not row.alias:
            word = row.match | _REGISTERS & ~row.mask
            words.update((word ^ 1 << bit, None) for bit in range(_LENGTH_BITS, XLEN) if row.mask >> bit & 1)
    return {word: None for word in words if ALL_WORDS.decode(word) is None}


_SKIPS = """
exception:
    csrrs t6, mepc, zero; addi t6, t6, 4; csrrw zero, mepc, t6; addi s1, s1, 1
    mret
interrupt:
"""
"""An exception handler that counts exceptions in s1 and skips the instruction that trapped."""


def _trapping(head: str, words: list[int]) -> Directed:
    text = "; ".join(f".word 0x{word:x}" for word in words)
    handlers = Handlers(HANDLERS.slots, exception=_SKIPS)
    return directed(f"words: {head}", f"li s1, 0; {text} => s1 {len(words)}", handlers=handlers)


_ILLEGAL = _illegal()
_IN_MAC_LOAD = [word for word in _ILLEGAL if word & 0x7F == _MAC_LOAD]
_OTHERS = [word for word in _ILLEGAL if word & 0x7F != _MAC_LOAD]


def _register_triples() -> Iterator[tuple[str, str, str]]:
    """Yield triples of registers for a pointer, a result and a third operand; every register takes each role once."""
    names = ABI_NAMES[1:]
    for at, pointer in enumerate(names):
        yield pointer, names[(at + 10) % len(names)], names[(at + 21) % len(names)]


def _every_register(*forms: str) -> str:
    """Emit the instructions ``forms`` for every triple of registers."""
    lines = [
        f"li {p}, 0x{WINDOW:x}; li {s}, 4; {'; '.join(forms).format(p=p, d=d, s=s)}; sub {d}, {p}, {s}\n"
        for p, d, s in _register_triples()
    ]
    return f"{''.join(lines)} li s11, 0x{SIGNATURE:x} => zero 0"


PROGRAMS = (
    _trapping("one bit away from an instruction", _OTHERS),
    _trapping("one bit away from a Mac&Load [mac_load_nn]", _IN_MAC_LOAD),
    *programs(f"""
== registers: every one as pointer, value and offset
    {
        _every_register(
            "sw {s}, 8({p})", "lw {d}, 8({p})", "add {s}, {d}, {p}", "mul {d}, {s}, {p}", "divu {s}, {d}, {p}"
        )
    }
== registers: every one as a pointer that moves, and as a third operand [xpulpv2]
    {
        _every_register(
            "p.sw {s}, 4({p}!)",
            "p.lw {d}, 8({p}!)",
            "p.sw {d}, {s}({p}!)",
            "p.lw {d}, {s}({p}!)",
            "p.sw {d}, {s}({p})",
            "p.lw {d}, {s}({p})",
            "p.mac {d}, {p}, {s}",
            "p.insertr {d}, {p}, {s}",
        )
    }
== registers: every one as a pointer of Mac&Load [mac_load_nn]
    {_every_register(*(f"pv.mlsdotup.b {{d}}, ({{p}}!), {entry}" for entry in (0, 8, 16)))}
== registers: every one as a pointer of C&U [mac_load_cu]
    {_every_register("pv.cusdotup.b.0 {d}, ({p}!), {s}", "pv.cusdotup.b.2 {d}, ({p}!), {s}")}
"""),
)
