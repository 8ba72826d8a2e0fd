"""Inductive invariants that exclude unreachable states, and decoded fields of instruction words."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Mux

from xpulpnn.core.control import LsuCtrl, MemSize, Unit
from xpulpnn.core.csr_check import ADDRESS_BITS
from xpulpnn.core.decoder import merged_cover
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.fields import FUNCT3, OPCODE, WORD_FIELDS
from xpulpnn.isa.formats import ElemFmt, Extension
from xpulpnn.isa.insn import InsnClass
from xpulpnn.isa.table import enabled

_ROWS = enabled(frozenset(Extension), frozenset(fmt.width for fmt in ElemFmt))


def _is_row(raw, chosen):
    matches = Const(0, 1)
    for row in filter(chosen, _ROWS):
        fits = raw[: len(row.pattern)].matches(row.pattern)
        for token in row.restricted:
            for lowest, _, width in token.field.parts:
                fits &= raw[lowest : lowest + width] != token.excluded
        matches |= fits
    return matches


def register_field(word, field):
    """Return the bits of a field of an instruction word; operand fields are given by name, such as ``rs1``."""
    parts = (WORD_FIELDS[field] if isinstance(field, str) else field).parts
    return Cat(word[lowest : lowest + width] for lowest, _, width in reversed(parts))


def matches_any(word, patterns):
    return word.matches(*merged_cover(patterns)) if patterns else Const(0, 1)


class InstructionWord:
    def __init__(self, raw):
        self.raw = raw
        self.wide = raw[:2] == 0b11
        self.compressed = ~self.wide
        self.rd, self.rs1, self.rs2 = (register_field(raw, name) for name in ("rd", "rs1", "rs2"))
        self.opcode, self.funct3 = (register_field(raw, field) for field in (OPCODE, FUNCT3))
        self.top12, self.loop = register_field(raw, "imm12"), register_field(raw, "L")
        self.branches = _is_row(raw, lambda row: row.is_branch)
        self.jumps = _is_row(raw, lambda row: row.is_jump)
        self.accesses_csr = _is_row(raw, lambda row: row.insn_class is InsnClass.CSR)
        self.returns, self.sleeps, self.calls, self.breaks, self.fences, self.syncs = (
            _is_row(raw, lambda row, op=op: row.op.removeprefix("c.") == op)
            for op in ("mret", "wfi", "ecall", "ebreak", "fence", "fence.i")
        )

    @property
    def writes_csr(self):
        return (self.funct3[:2] == 0b01) | (self.rs1 != 0)

    def written(self, old, rs1):
        """Return the value that the instruction writes to a CSR with the value ``old``, without masking it."""
        operand = Mux(self.funct3[2], self.rs1, rs1)
        return Mux(self.funct3[1], Mux(self.funct3[0], old & ~operand, old | operand), operand)


class Probes(dict):
    __getattr__ = dict.__getitem__


class Property(NamedTuple):
    wrong: Mapping[str, Any]  # conditions that must stay 0
    invariants: Mapping[str, Any]  # conditions that hold in every cycle and support the proof

    def given(self, invariants):
        return Property(self.wrong, {**invariants, **self.invariants})


def selected(default, *cases):
    """Return the value of the first case, a condition and a value, whose condition is 1."""
    for condition, value in reversed(cases):
        default = Mux(condition, value, default)
    return default


def implies(condition, *claims):
    return ~condition | Cat(claims).all()


def access_invariants(seen, under_way):
    access = LsuCtrl(seen.ex_access)
    outstanding, wb_busy, second = (seen[f"lsu_{name}"] for name in ("outstanding", "wb_busy", "second"))
    return {
        "accesses under way are counted": under_way == outstanding,
        "an access in WB is under way": implies(wb_busy, outstanding),
        "what is under way is in WB or half made": implies(outstanding, wb_busy | second),
        "an access in EX is an instruction": implies(access.valid, seen.ex_valid),
        "an access has a size": implies(access.valid, Cat(access.size == size for size in MemSize).any()),
        "a second half is of an access": implies(second, access.valid),
    }


def fetch_invariants(seen, under_way):
    fetches = seen.fetch_live + seen.fetch_drops
    return {
        "fetches under way are counted": under_way == fetches,
        "few fetches are under way": fetches <= DEPTH,
        "a fetch that waits for its grant has room": implies(seen.fetch_held, fetches < DEPTH),
    }


def queue_invariants(seen):
    names = ("count", "live", "drops", "held", "stale", "running")
    count, live, drops, held, stale, running = (seen[f"fetch_{name}"] for name in names)
    return {
        "nothing is fetched at first": running | (~held & (count == 0) & (live == 0) & (drops == 0)),
        "the queue has room for what is under way": count + live <= DEPTH,
        "a request has room in the queue": implies(held & ~stale, count + live < DEPTH),
        "a request nobody wants is alone": implies(stale, held, count == 0, live == 0),
    }


def pipeline_invariants(core, seen, started):
    id_valid, has_ex, has_wb = seen.id_valid, seen.has_ex, seen.has_wb
    return {
        "all is empty at first": (started & seen.booted) | ~(id_valid | has_ex | has_wb),
        "EX is recorded": seen.ex_valid == (has_ex & ~seen.ex_trap),
        "an access in WB is recorded": implies(seen.lsu_wb_busy, has_wb, ~core.rvfi_trap),
        "WB is empty behind the first half of an access": implies(seen.lsu_second, ~has_wb),
        "a trap does not wait": implies(has_ex & seen.ex_trap, seen.ex_ready, ~id_valid),
        "a failed access is recorded": implies(seen.faulted, has_wb, core.rvfi_trap, ~has_ex),
        "what is not compressed has low bits 11": implies(id_valid, seen.id_compressed ^ seen.id_raw[:2].all()),
    }


def csr_invariants(seen, in_ex, word):
    """Return invariants of CSR accesses; ``in_ex`` is 1 if the instruction ``word`` is in EX without a trap."""
    operand = Mux(word.funct3[2], word.rs1, seen.ex_rs1_rdata)
    of_the_word = [
        seen.ex_csr == word.funct3[:2],
        seen.ex_csr_write == word.writes_csr,
        seen.ex_csr_address[:ADDRESS_BITS] == word.top12,
        seen.ex_base == operand,
        seen.ex_unit == Unit.CSR,
        ~seen.ex_late_we,
    ]
    expanded = InstructionWord(seen.id_word)
    return {
        "no access to a CSR is compressed": implies(seen.id_valid & seen.id_compressed, ~expanded.accesses_csr),
        "CSR accesses are CSR accesses": implies(in_ex, word.accesses_csr == (seen.ex_csr != 0)),
        "CSR accesses are those of the word": implies(in_ex & word.accesses_csr, *of_the_word),
    }
