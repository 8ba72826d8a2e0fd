"""Instruction decoder, generated from the instruction table, and the two-level covers of its outputs.

A cover replaces one bit pattern per instruction by few wide patterns: strings over ``0``, ``1`` and ``-``, as in the
table and in Amaranth's ``Case``. Illegal words may decode to anything (``illegal`` covers them), so a pattern may grow
until it touches an instruction that needs another value: the expand step of the Espresso method.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import Member

from xpulpnn.component import Component, In, Out
from xpulpnn.config import CoreConfig
from xpulpnn.core.control import IdCtrl, PairCtrl, control_fields
from xpulpnn.core.quantiser import QuantiserCtrl
from xpulpnn.core.requantiser import RequantiseCtrl
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.table import Insn, enabled


def overlap(first: str, second: str) -> bool:
    return all(a == b or "-" in (a, b) for a, b in zip(first, second, strict=True))


class Cube(NamedTuple):
    """The words ``w`` with ``w & mask == match``."""

    mask: int
    match: int

    @classmethod
    def of(cls, pattern: str) -> "Cube":
        fixed = pattern.replace("0", "1").replace("-", "0")
        return cls(int(fixed, 2), int(pattern.replace("-", "0"), 2))

    def pattern(self, width: int) -> str:
        bits = (("-", "-"), ("0", "1"))
        return "".join(bits[self.mask >> i & 1][self.match >> i & 1] for i in reversed(range(width)))

    def conflicts(self, other: "Cube") -> int:
        """Return the bits that the two cubes fix to different values; 0 if some word is in both cubes."""
        return (self.match ^ other.match) & self.mask & other.mask

    def contains(self, other: "Cube") -> bool:
        return not self.mask & ~other.mask and not (self.match ^ other.match) & self.mask


def expanded_cover(on: Iterable[str], off: Iterable[str]) -> list[str]:
    """Return wider patterns that match every word of ``on`` and no word of ``off``; they may match other words."""
    on = list(on)
    width = len(on[0])
    blocked = [Cube.of(pattern) for pattern in off]
    cover: list[Cube] = []
    for cube in map(Cube.of, on):
        if any(wide.contains(cube) for wide in cover):
            continue
        mask = cube.mask
        # bits that distinguish each blocked cube from this one: the last distinguishing bit must stay
        conflicts = {cube.conflicts(other) for other in blocked}
        for bit in range(width):
            flag = 1 << bit
            if mask & flag and conflicts.isdisjoint((0, flag)):
                mask &= ~flag
                conflicts = {bits & ~flag for bits in conflicts}
        cover.append(Cube(mask, cube.match & mask))
    return [cube.pattern(width) for cube in cover]


def merged_cover(patterns: Sequence[str]) -> list[str]:
    """Return fewer patterns for the same words, by merging pairs of patterns that differ in one fixed bit."""
    width = len(patterns[0])
    cubes = {Cube.of(pattern) for pattern in patterns}
    for bit in range(width):
        flag = 1 << bit
        for cube in sorted(cubes):
            twin = Cube(cube.mask, cube.match ^ flag)
            if cube.mask & flag and cube in cubes and twin in cubes:
                cubes -= {cube, twin}
                cubes.add(Cube(cube.mask & ~flag, cube.match & ~flag))
    return [cube.pattern(width) for cube in sorted(cubes)]


OPCODE_BITS = 7


def legal_patterns(insn: Insn) -> list[str]:
    patterns = [insn.pattern]
    for field in (token.field for token in insn.tokens if token.field.legal):
        # instruction bits of the field by their position in its patterns
        places = [low + bit for low, _, width in field.parts for bit in reversed(range(width))]
        patterns = [_filled(text, dict(zip(places, legal, strict=True))) for text in patterns for legal in field.legal]
    return patterns


def _filled(text: str, bits: Mapping[int, str]) -> str:
    top = len(text) - 1
    return "".join(bits.get(top - position, mark) for position, mark in enumerate(text))


def leaves(fields: data.View, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name, field in data.Layout.cast(fields.shape()):
        value = fields[name]
        if isinstance(value, data.View):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field.shape


Choice = tuple[int, Mapping[int, list[str]]]
"""An output for one major opcode: its most frequent value, and the patterns for every other value."""

Rows = tuple[Insn, ...]
Control = Callable[[Insn], Mapping[str, Any]]
"""Values of the outputs of an instruction, except those that are 0, by dotted names."""


@cache
def _by_opcode(rows: Rows) -> Mapping[str, list[Insn]]:
    by_opcode: dict[str, list[Insn]] = defaultdict(list)
    for insn in rows:
        if insn.size == WORD_BYTES:
            by_opcode[insn.pattern[-OPCODE_BITS:]].append(insn)
    return by_opcode


@cache
def _legal(rows: Rows) -> Mapping[str, list[str]]:
    by_opcode = _by_opcode(rows).items()
    return {
        opcode: merged_cover(
            [f"{text[:-OPCODE_BITS]}{'-' * OPCODE_BITS}" for insn in insns for text in legal_patterns(insn)]
        )
        for opcode, insns in by_opcode
    }


@cache
def _choices(rows: Rows, control: Control) -> Mapping[str, Mapping[str, Choice]]:
    """Map dotted output names, then major opcodes, to choices; leave out an output that is always 0 for an opcode."""
    by_opcode = _by_opcode(rows)
    fields = {insn: control(insn) for insns in by_opcode.values() for insn in insns}
    outputs: dict[str, dict[str, Choice]] = {}
    for name in {name: None for controls in fields.values() for name in controls}:
        for opcode, insns in by_opcode.items():
            by_value: dict[int, list[str]] = defaultdict(list)
            for insn in insns:
                # illegal values of a field are don't-cares, except where they belong to another instruction
                patterns = legal_patterns(insn) if insn.is_pair else [insn.pattern]
                by_value[Const.cast(fields[insn].get(name, 0)).value] += patterns
            if by_value.keys() != {0}:
                outputs.setdefault(name, {})[opcode] = _choice(by_value)
    return outputs


def _choice(rows: Mapping[int, list[str]]) -> Choice:
    default = max(rows, key=lambda value: len(rows[value]))
    covers: dict[int, list[str]] = {}
    for value in rows.keys() - {default}:
        others = [pattern for other, patterns in rows.items() if other != value for pattern in patterns]
        covers[value] = expanded_cover(rows[value], others)
    return default, covers


class TableDecoder(Component):
    """Computes the control word of an instruction, given the rows of the table and the values of the outputs."""

    def __init__(self, config: Any, rows: Rows, control: Control, shape: Any, others: Mapping[str, Member]):
        #: word: Instruction word.
        #: ctrl: Control word.
        #: illegal: No enabled row of the table matches.
        self.rows, self.control = rows, control
        super().__init__(config, {"word": In(32), "ctrl": Out(shape), "illegal": Out(1), **others})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.illegal.eq(1)
        with m.Switch(self.word[:OPCODE_BITS]):
            for opcode, patterns in _legal(self.rows).items():
                with m.Case(opcode), m.Switch(self.word), m.Case(*patterns):
                    m.d.comb += self.illegal.eq(0)
        for name, output, shape in self._outputs():
            choices = _choices(self.rows, self.control).get(name)
            if choices is not None:
                named = Signal(shape, name=name.replace(".", "_"))
                self._output(m, Value.cast(named), choices)
                m.d.comb += output.eq(named)
        return m

    def _outputs(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield name, signal and shape of every field of the outputs; those of ``ctrl`` have no prefix."""
        for name in self.signature.members:
            if name not in ("word", "illegal"):
                yield from leaves(getattr(self, name), "" if name == "ctrl" else f"{name}.")

    def case_note(self, path: tuple[tuple[str, ...], ...]) -> list[str]:
        """Return the mnemonics of the instructions that reach a case of the Verilog, given the patterns on its path.

        The name of the operation replaces those of all its forms if all of them reach the case.
        """
        (opcode, *_), *patterns = path
        rows = _by_opcode(self.rows)[opcode]
        taken = [row for row in rows if all(any(overlap(row.pattern, text) for text in texts) for texts in patterns)]
        all_rows, led_here = Counter(row.op for row in rows), Counter(row.op for row in taken)
        names = (row.op if led_here[row.op] == all_rows[row.op] > 1 else row.mnemonic for row in taken)
        return list(dict.fromkeys(names))

    def _output(self, m: Module, output: Value, choices: Mapping[str, Choice]) -> None:
        """Build an output: for each major opcode a constant, or a Switch with the most frequent value as default."""
        with m.Switch(self.word[:OPCODE_BITS]):
            for opcode, (default, covers) in choices.items():
                with m.Case(opcode), m.Switch(self.word) if covers else nullcontext():
                    for value, patterns in covers.items():
                        with m.Case(*patterns):
                            m.d.comb += output.eq(value)
                    with m.Default() if covers else nullcontext():
                        m.d.comb += output.eq(default)


class Decoder(TableDecoder):
    """Computes the control word of an instruction.

    Every output is a two-level function of the instruction word per major opcode, minimised with illegal words as
    don't-cares, so ``ctrl`` is undefined while ``illegal`` is 1. Combinational. Compressed instructions arrive
    expanded.
    """

    def __init__(self, config: CoreConfig):
        outputs = {}
        if config.qnt:
            #: quantise: Control word of the quantiser; only with ``qnt``.
            outputs["quantise"] = Out(QuantiserCtrl)
        if config.requantise:
            #: requantise: Control word of requantisation; only with ``requantise``.
            outputs["requantise"] = Out(RequantiseCtrl)
        if config.mac_load_pair:
            #: pair: Control word of Mac&Load of two products; only with ``mac_load_pair``.
            outputs["pair"] = Out(PairCtrl)
        super().__init__(config, enabled(config.extensions, config.widths), control_fields, IdCtrl, outputs)
