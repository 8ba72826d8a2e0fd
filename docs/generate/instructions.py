"""The instruction reference: operation, operands, encoding, C name, cycles and presets of every instruction."""

from collections.abc import Callable
from html import escape
from itertools import accumulate, pairwise
from typing import Any

from docs.generate import html

from xpulpnn.config import PRESETS
from xpulpnn.errors import require
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import STOCK_EXTENSIONS, Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import Cycles, cycles
from xpulpnn.isa.semantics import phrase, statements
from xpulpnn.isa.table import INSNS, enabled, find
from xpulpnn.isa.xif import XIF_ROWS
from xpulpnn_sim.tools.component_names import XIF
from xpulpnn_sw.toolchain.headers.intrinsics import Intrinsic

ALL_INSNS = (*INSNS, *XIF_ROWS)
"""Instructions of the cores and of the coprocessor."""

_LOOPS = ("lp.starti", "lp.endi", "lp.count", "lp.setup")


def _extension(*names: Extension) -> Callable[[Insn], bool]:
    return lambda insn: insn.extension in names


def _is_scalar(insn: Insn) -> bool:
    return insn.extension is Extension.XPULPV2 and insn.fmt is None


def _is_normalising(insn: Insn) -> bool:
    return _is_scalar(insn) and insn.op.endswith(("N", "NR"))


def _is_multiplication(insn: Insn) -> bool:
    return insn.op in ("mac", "msu") or (_is_normalising(insn) and insn.op.startswith(("mul", "mac")))


GROUPS: dict[str, Callable[[Insn], bool]] = {
    "rv32i": _extension(Extension.RV32I),
    "rv32m": _extension(Extension.RV32M),
    "rv32c": _extension(Extension.RV32C),
    "system": _extension(Extension.ZICSR, Extension.ZIFENCEI, Extension.PRIV, Extension.SDEXT),
    "memory": lambda insn: _is_scalar(insn) and (insn.is_load or insn.is_store),
    "loops": lambda insn: insn.op in _LOOPS,
    "branches": lambda insn: _is_scalar(insn) and insn.is_branch,
    "multiply": _is_multiplication,
    "normalise": lambda insn: _is_normalising(insn) and not _is_multiplication(insn),
    "dots": lambda insn: insn.uses_dotp and not insn.is_mac_load,
    "moves": lambda insn: insn.op.startswith(("pv.extract", "pv.insert", "pv.shuffle", "pv.pack")),
    "mac-load-nn": _extension(Extension.XPULPML_NN),
    "mac-load-cu": _extension(Extension.XPULPML_CU),
    "mac-load-cross": _extension(Extension.XPULPML_CROSS),
    "mac-load-dot": _extension(Extension.XPULPML_DOT),
    "mac-load-pair": _extension(Extension.XPULPML_PAIR),
    "mac-load-mixed": _extension(Extension.XPULPML_MIXED),
    "requantise": _extension(Extension.XPULPRQ),
    "requantise-exact": _extension(Extension.XPULPRQ_EXACT),
    "qnt": _extension(Extension.XPULPQNT),
    "scalar": _is_scalar,
    "coprocessor": lambda insn: insn in XIF_ROWS,
    "lanes": lambda insn: insn.fmt is not None,
}
"""Sections of the reference by name; an instruction is in the first section whose function accepts it."""


def rows(group: str) -> list[Insn]:
    require(group in GROUPS, f"instructions must be one of {', '.join(GROUPS)}, not {group}")
    return [insn for insn in ALL_INSNS if next(name for name, takes in GROUPS.items() if takes(insn)) == group]


def presets_of(insn: Insn) -> list[str]:
    if insn in XIF_ROWS:
        return [XIF]
    return [
        name
        for name, config in PRESETS.items()
        if any(row is insn for row in enabled(config.extensions, config.widths, aliases=True))
    ]


def c_call(insn: Insn) -> str:
    if insn.extension in STOCK_EXTENSIONS:
        return ""
    item = Intrinsic(insn)
    return f"{item.name}({', '.join(item.parameters)})"


_LETTERS = {"rd": "d", "rs1": "s", "rs2": "t", "rs3": "r", "L": "L", "Is3": "w", "csr": "c", "lpcnt12": "n"}
_WORD_GROUPS = (7, 5, 5, 3, 5, 7)
_HALF_GROUPS = (3, 11, 2)


def encoding(insn: Insn) -> str:
    """Return the bit pattern of an instruction; ``d s t r`` are registers, ``-`` ignored, other letters immediates."""
    bits = list(insn.pattern)
    top = len(bits) - 1
    for token in insn.tokens:
        default = "i" if token.field.kind is not FieldKind.FENCE else token.field.name[0]
        for low, _value, width in token.field.parts:
            for bit in range(low, low + width):
                bits[top - bit] = _LETTERS.get(token.field.name, default)
    groups = _WORD_GROUPS if len(bits) == sum(_WORD_GROUPS) else _HALF_GROUPS
    return " ".join("".join(bits[first:end]) for first, end in pairwise(accumulate(groups, initial=0)))


def shown_cycles(costs: Cycles) -> str:
    if costs.fewest != costs.most:
        places = f"{costs.fewest} and as many as it has places to move up, {costs.most} for 0"
        return f"{costs.fewest} to {costs.most} cycles, by the divisor: {places}"
    noun = "cycle" if costs.fewest == 1 else "cycles"
    extra = "".join(f"; +{cost.cycles} {_WHEN.get(cost.name, cost.meaning)}" for cost in costs.sometimes)
    return f"{costs.fewest} {noun}{extra}"


_WHEN = {
    "TAKEN_BRANCH": "taken",
    "JUMP_REGISTER": "if the ALU instruction before wrote the base",
    "MISALIGNED_TARGET": "to a 32-bit instruction across a word boundary",
    "MISALIGNED_ACCESS": "across a word boundary",
    "LOAD_USE": "if the next instruction uses the value",
    "MAC_LOAD_USE": "if the next instruction uses the base or the reloaded entry",
    "PAIR_USE": "if the next instruction reads a sum or multiplies the loaded entry",
    "PARAMETER_USE": "if the next instruction requantises",
    "REQUANTISE_USE": "if the next instruction reads the result",
    "EXACT_USE": "for each cycle until rs1 and the summand are written",
    "CSR_WRITE": "for the instruction behind a write",
}
"""Conditions under which a cost occurs, as the reference shows them, by name of the cost."""


def anchor(insn: Insn) -> str:
    """Return the HTML anchor of an instruction: its mnemonic, with operands if the mnemonic has several forms."""
    if insn.reloads_other:
        return f"{anchor(find(insn.mnemonic))}-cross"
    several = sum(other.mnemonic == insn.mnemonic and not other.reloads_other for other in INSNS) > 1
    text = insn.mnemonic + (f"-{insn.operands.replace('!', '-inc')}" if several else "")
    return "insn-" + "".join(letter if letter.isalnum() else "-" for letter in text).strip("-").lower()


_FAMILIES: dict[str, Callable[[Insn], str]] = {
    # accesses that differ only in size share a table, as do the forms of an operation
    "rv32i": lambda insn: "load" if insn.is_load else "store" if insn.is_store else "branch" if insn.is_branch else "",
    "rv32m": lambda insn: "divide" if insn.divides else insn.op[:4],
    "rv32c": lambda insn: "load" if insn.is_load else "store" if insn.is_store else "jump" if insn.is_jump else "",
    "system": lambda insn: "csr" if insn.extension is Extension.ZICSR else insn.op,
    "memory": lambda insn: "load" if insn.is_load else "store",
}
"""Functions that name the table of an instruction, for sections without a heading per operation."""

_HEADED = (
    *("lanes", "dots", "moves", "requantise", "coprocessor"),
    *("mac-load-nn", "mac-load-cu", "mac-load-cross", "mac-load-dot", "mac-load-pair"),
)
"""Sections of the reference with a heading for every operation."""


def _families(group: str) -> dict[str, list[Insn]]:
    families: dict[str, list[Insn]] = {}
    for insn in rows(group):
        key = ".".join(insn.mnemonic.split(".")[:2]) if group in _HEADED else _FAMILIES.get(group, lambda _: "")(insn)
        families.setdefault(key, []).append(insn)
    return families


def _row(insn: Insn, *, with_phrase: bool) -> tuple[str, ...]:
    name = f'<span class="mnemonic" id="{anchor(insn)}">{html.code(insn.mnemonic)}</span> '
    name += f'<span class="operands">{escape(insn.operands.replace(",", ", "))}</span>'
    call = c_call(insn)
    name += f'<br><span class="c-name">{html.code(call)}</span>' if call else ""
    if insn.alias:
        name += "<br>second name"
    operation = f"{escape(phrase_of(insn))}<br>" if with_phrase else ""
    lines = html.block(statements(insn)) if statements(insn) else "<span></span>"
    operation += f'<div class="operation">{lines}<span class="bits">{html.code(encoding(insn))}</span></div>'
    presets = presets_of(insn)
    shown = "all" if len(presets) == len(PRESETS) else ", ".join(presets) or "none; an option"
    return name, operation, shown


def phrase_of(insn: Insn) -> str:
    if insn.extension is Extension.RV32C:
        return "no operation" if insn.mnemonic == "c.nop" else _COMPRESSED.get(insn.mnemonic, phrase(insn))
    return phrase(insn)


_COMPRESSED = {
    "c.li": "load an immediate",
    "c.mv": "copy a register",
    "c.j": "jump",
    "c.jr": "jump to a register",
    "c.beqz": "branch if zero",
    "c.bnez": "branch if not zero",
}


def instructions(group: str) -> str:
    parts: list[str] = []
    for name, family in _families(group).items():
        phrases = {phrase_of(insn) for insn in family}
        common = f"{phrases.pop().capitalize()}. " if len(phrases) == 1 else ""
        if group in _HEADED:
            parts.append(f"### {name}\n")
        parts.append(html.raw(f'<p class="cycles">{escape(common + _costs(family))}</p>'))
        cells = [_row(insn, with_phrase=not common) for insn in family]
        parts.append(html.table(("instruction, C", "operation, encoding", "presets"), cells, "insns"))
    return "\n".join(parts)


_COPROCESSOR_CYCLES = {
    "pa.blk": "4 cycles, 8 with one dot product at a time",
    "pa.step": "8 cycles a step, 16 with one dot product at a time, and 2 more",
    "pa.sync": "1 cycle when all loads are done",
    **dict.fromkeys(("pa.rqu", "pa.rqs"), "4 cycles"),
    **dict.fromkeys(("pa.rqxu", "pa.rqxs"), "5 cycles"),
}
"""Cycles of the coprocessor, by operation; all others take one."""


def _cycles_of(insn: Insn) -> str:
    if insn.op in _COPROCESSOR_CYCLES:
        return _COPROCESSOR_CYCLES[insn.op]
    return shown_cycles(cycles(insn)) + ("; 1 cycle with requantise_exact" if insn.multiplies_high else "")


def _costs(family: list[Insn]) -> str:
    """Return the cycles of a family of instructions as text; if they differ, with the mnemonics."""
    names: dict[str, list[str]] = {}
    for insn in family:
        shown = names.setdefault(_cycles_of(insn), [])
        shown += [] if insn.mnemonic in shown else [insn.mnemonic]
    if len(names) == 1:
        return f"{next(iter(names)).capitalize()}."
    most = max(names, key=lambda text: len(names[text]))
    others = [f"{', '.join(shown)}: {text}." for text, shown in names.items() if text != most]
    return " ".join([f"{most.capitalize()}.", *others])


def records() -> list[dict[str, Any]]:
    return [
        {
            "mnemonic": insn.mnemonic,
            "operands": insn.operands,
            "pattern": insn.pattern,
            "extension": insn.extension.value,
            "needs": [extension.value for extension in insn.needs],
            "alias": insn.alias,
            "meaning": phrase_of(insn),
            "operation": list(statements(insn)),
            "c": c_call(insn),
            "cycles": _cycles_of(insn),
            "presets": presets_of(insn),
        }
        for insn in ALL_INSNS
    ]
