"""Draws random instructions from the instruction table, as assembly text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from math import sqrt
from random import Random

from xpulpnn.config import CoreConfig
from xpulpnn.isa.fields import WORD_FIELDS, FieldKind, Token
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, HALF_MASK, LENGTH_MASK, REGISTERS, WORD_BYTES, XLEN
from xpulpnn.isa.table import Decoder, by_mnemonic
from xpulpnn.isa.xif import FIRST_POINTER
from xpulpnn_sim.reference.bare.layout import POOL, RARE, SHIFTS, SLOT_COUNT, SLOTS, SP
from xpulpnn_sw.assembly.disasm import ABI_NAMES, render

_XPULPV2_WIDTH = 8  # narrowest element of XpulpV2
_RECENT_CHANCE = 0.35  # probability that a source is the last written register
_RARE_CHANCE, _ZERO_CHANCE = 0.06, 0.06
_CORNER_CHANCE = 0.35
_IGNORED_CHANCE = 0.1  # probability that ignored bits are set
_SHIFT_CHANCE = 0.85  # probability that pv.rq shifts by a register of `SHIFTS`
_KINDS, _NN_KIND = 5, 4
"""Number of methods to draw an illegal word, and the method that inverts a bit of an instruction with NN-RF
operands."""


class Group(Enum):
    INTEGER = "integer"
    MULDIV = "multiply and divide"
    COMPRESSED = "compressed"
    SCALAR = "XpulpV2 scalar"
    SIMD = "XpulpV2 SIMD"
    NARROW = "XpulpNN"
    LOAD = "load"
    STORE = "store"
    MAC_LOAD = "Mac&Load"
    QUANTISE = "threshold quantisation"
    REQUANTISE = "requantisation"
    PARAMETER = "load of a parameter of the requantisation"
    COPROCESSOR = "coprocessor"
    SHORT_MEMORY = "compressed load and store"
    BRANCH = "branch"
    SHORT_BRANCH = "compressed branch"
    CSR = "CSR"


ARITHMETIC = (
    *(Group.INTEGER, Group.MULDIV, Group.COMPRESSED, Group.SCALAR, Group.SIMD, Group.NARROW, Group.REQUANTISE),
    Group.COPROCESSOR,
)
"""Groups of instructions that change nothing but their destination register, or the state of the coprocessor."""

_OWN_FORM = frozenset({"c.addi16sp", "pa.ptr"})
"""Rows that write reserved registers or the pointers of the coprocessor; the generator places them itself."""
_GROUP_OF_CLASS = {
    InsnClass.JUMP: None,
    InsnClass.LOOP: None,
    InsnClass.SYSTEM: None,
    InsnClass.CSR: Group.CSR,
    InsnClass.LOAD: Group.LOAD,
    InsnClass.STORE: Group.STORE,
    InsnClass.BRANCH: Group.BRANCH,
    InsnClass.MAC_LOAD: Group.MAC_LOAD,
    InsnClass.PARAMETER: Group.PARAMETER,
    InsnClass.REQUANTISE: Group.REQUANTISE,
    InsnClass.QUANTISE: Group.QUANTISE,
}
_COMPRESSED_GROUPS = {Group.LOAD: Group.SHORT_MEMORY, Group.STORE: Group.SHORT_MEMORY, Group.BRANCH: Group.SHORT_BRANCH}
_ARITHMETIC_GROUPS = {Extension.RV32I: Group.INTEGER, Extension.RV32M: Group.MULDIV, Extension.RV32C: Group.COMPRESSED}


def group_of(insn: Insn) -> Group | None:
    """Return the group of an instruction; None for an instruction that the generator emits only in fixed sequences."""
    if insn.mnemonic in _OWN_FORM or insn.op == "pa.step":
        return None
    if insn.op.startswith("pa."):
        return Group.COPROCESSOR
    if insn.is_mac_load:
        return Group.MAC_LOAD
    if insn.insn_class in _GROUP_OF_CLASS:
        group = _GROUP_OF_CLASS[insn.insn_class]
        return _COMPRESSED_GROUPS[group] if group and insn.extension is Extension.RV32C else group
    if insn.fmt is not None:
        return Group.SIMD if insn.fmt.width >= _XPULPV2_WIDTH else Group.NARROW
    return _ARITHMETIC_GROUPS.get(insn.extension, Group.SCALAR)


def _dealt(rng: Random, rows: Sequence[Insn]) -> Iterator[Insn]:
    while True:
        left = list(rows)
        rng.shuffle(left)
        yield from reversed(left)


@cache
def written_fields(insn: Insn) -> tuple[str, ...]:
    """Return the operand fields whose registers an instruction writes; those of incremented bases come first."""
    bases = [operand.base.field.name for operand in insn.forms if operand.increment and operand.base]
    names = [
        token.field.name
        for token in insn.tokens
        if token.field.kind is FieldKind.REGISTER and (token.updated or token.field.name == "rd")
    ]
    return tuple(dict.fromkeys((*bases, *names)))


@cache
def _ignored_bits(insn: Insn) -> int:
    used = insn.mask
    for token in insn.tokens:
        for low, _, width in token.field.parts:
            used |= ((1 << width) - 1) << low
    return ((1 << BYTE_BITS * insn.size) - 1) & ~used


@cache
def rows_of(config: CoreConfig) -> tuple[Decoder, dict[tuple[str, str], Insn], dict[Group, list[Insn]]]:
    rows = config.insns
    groups: dict[Group, list[Insn]] = {group: [] for group in Group}
    for row in rows:
        if (group := group_of(row)) is not None:
            groups[group].append(row)
    return Decoder(rows), {row.key: row for row in rows}, groups


class Draw:
    def __init__(self, rng: Random, config: CoreConfig) -> None:
        self.rng, self.config = rng, config
        self.decoder, self.rows, groups = rows_of(config)
        self.groups = groups
        self._dealt = {group: _dealt(rng, rows) for group, rows in groups.items()}
        self._pool, self._recent, self._labels = POOL, POOL[0], 0
        shifts = SHIFTS.values() if groups[Group.REQUANTISE] else ()
        self._words = [row for row in self.rows.values() if row.size == WORD_BYTES]
        self._nn_rows = [row for row in self._words if row.uses_nnrf]
        self._rare = [register for register in RARE if register not in shifts]

    def label(self, stem: str) -> str:
        self._labels += 1
        return f"{stem}{self._labels}"

    def deal(self, *groups: Group) -> Insn:
        """Return an instruction of one of the groups, which are weighted by the square roots of their sizes."""
        weights = [sqrt(len(self.groups[group])) for group in groups]
        return next(self._dealt[self.rng.choices(groups, weights)[0]])

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    @contextmanager
    def narrowed(self, count: int) -> Iterator[None]:
        """Restrict random operands to ``count`` registers within the context."""
        before, self._pool = self._pool, tuple(self.rng.sample(POOL, count))
        yield
        self._pool = before

    def source(self, low: int = 0, high: int = REGISTERS - 1) -> int:
        """Return a register to read, often the one that was written last."""
        while True:
            if self.chance(_RECENT_CHANCE):
                register = self._recent
            elif self.chance(_RARE_CHANCE):
                register = self.rng.randrange(REGISTERS)
            else:
                register = 0 if self.chance(_ZERO_CHANCE) else self.rng.choice(self._pool)
            if low <= register <= high:
                return register

    def destination(self, preserved: Collection[int] = (), low: int = 0, high: int = REGISTERS - 1) -> int:
        usual = [register for register in self._pool if low <= register <= high and register not in preserved]
        usual = usual or [register for register in POOL if low <= register <= high and register not in preserved]
        if high == REGISTERS - 1 and self.chance(_RARE_CHANCE):
            return self.rng.choice(self._rare)
        if not low and self.chance(_ZERO_CHANCE):
            return 0
        return self.rng.choice(usual)

    def _value(self, token: Token, preserved: Collection[int], *, written: bool) -> int:
        field, rng = token.field, self.rng
        if field.kind is FieldKind.REGISTER:
            return self.destination(preserved, field.low, field.high) if written else self.source(field.low, field.high)
        if field.kind is FieldKind.IMMEDIATE and self.chance(_CORNER_CHANCE):
            return rng.choice((field.low, field.high, 0, field.step, -field.step))
        return rng.randrange(field.low, field.high + field.step, field.step)

    def _may_pair(self, first: int, preserved: Collection[int]) -> bool:
        return not first or (first + 1 in (*POOL, *self._rare) and first + 1 not in preserved)

    def values(
        self, insn: Insn, preserved: Collection[int] = (), pins: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        chosen = dict(pins or {})
        written = written_fields(insn)
        if insn.requantises and insn.fmt is not None and self.chance(_SHIFT_CHANCE):
            chosen.setdefault("rs2", SHIFTS[insn.fmt.width])
        if insn.op == "pa.wr":
            # the pointers must stay inside memory
            chosen.setdefault("r", self.rng.choice([r for r in WORD_FIELDS["r"].values if r < FIRST_POINTER]))
        for token in insn.tokens:
            name = token.field.name
            if name in chosen:
                continue
            value = self._value(token, preserved, written=name in written)
            # the register after the first of two sums is also written
            while not token.accepts(value) or (insn.is_pair and name == "rd" and not self._may_pair(value, preserved)):
                value = self._value(token, preserved, written=name in written)
            chosen[name] = value
        for name in written:
            if chosen[name]:
                self._recent = chosen[name]
        return {token.field.name: chosen[token.field.name] for token in insn.tokens}

    def text(self, insn: Insn, values: Mapping[str, int]) -> str:
        """Return the instruction in assembly, or sometimes as a data word with bits that the decoder ignores."""
        word = insn.encode(**values)
        ignored = _ignored_bits(insn)
        if ignored and self.chance(_IGNORED_CHANCE):
            other = word | self.rng.getrandbits(XLEN) & ignored
            if other != word:
                return f"{self._data(other)}  # {render(insn, word)}"
        # the assembler knows one pair of opcodes of the coprocessor
        return (
            render(insn, word) if insn in by_mnemonic(insn.mnemonic) else f"{self._data(word)}  # {render(insn, word)}"
        )

    @staticmethod
    def _data(word: int) -> str:
        return f".word 0x{word:08x}" if word & LENGTH_MASK == LENGTH_MASK else f".half 0x{word:04x}"

    def through_memory(self, name: str) -> list[str]:
        slot = f"{SLOTS + WORD_BYTES * self.rng.randrange(SLOT_COUNT)}({ABI_NAMES[SP]})"
        return [f"sw {name}, {slot}", f"lw {name}, {slot}"]

    def constant(self, register: int, value: int) -> list[str]:
        name = ABI_NAMES[register]
        lines = [f"li {name}, {value}"]
        match self.rng.randrange(5):
            case 0:
                lines += self.through_memory(name)
            case 1:
                divisor = ABI_NAMES[self.rng.choice([other for other in POOL if other != register])]
                lines += [f"addi {divisor}, zero, 1", f"divu {name}, {name}, {divisor}"]
            case _:
                pass
        return lines

    def arithmetic(self, preserved: Collection[int] = (), group: Group | None = None) -> str:
        insn = self.deal(group) if group is not None else self.deal(*ARITHMETIC)
        return self.text(insn, self.values(insn, preserved))

    def requantised(self, without: float = 0.5) -> tuple[str, ...]:
        """Return nothing with the probability ``without``, else a requantisation whose result is still pending."""
        if not self.groups[Group.REQUANTISE] or self.chance(without):
            return ()
        return (self.arithmetic(group=Group.REQUANTISE),)

    def illegal(self) -> str:
        """Return a word that is illegal in the configuration, often one bit away from an instruction."""
        while True:
            kind = self.rng.randrange(_KINDS)
            if kind == 0:
                word = self.rng.getrandbits(XLEN) | LENGTH_MASK
            elif kind == 1:
                word = self.rng.getrandbits(HALF_BITS)
            else:
                row = self.rng.choice(self._nn_rows if self._nn_rows and kind == _NN_KIND else self._words)
                word = row.match | self.rng.getrandbits(XLEN) & ~row.mask
                word ^= 1 << self.rng.randrange(2, XLEN)
            if word & LENGTH_MASK != LENGTH_MASK:
                word &= HALF_MASK
            if self.decoder.decode(word) is None:
                return f"{self._data(word)}  # illegal"
