"""Decoded instructions: properties that do not depend on the state of the hart."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

from xpulpnn.isa import machine
from xpulpnn.isa.csr import PERFORMANCE_EVENTS
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.semantics import MEMORY, statements
from xpulpnn.isa.table import Decoder, enabled, expand_compressed
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.reference.iss import library
from xpulpnn_sim.reference.statements.cpp import leads

_WORDS = 1 << 14  # words whose instructions are cached

REGISTER_MASK = machine.REGISTERS - 1
RD_LSB, RS1_LSB, RS2_LSB = 7, 15, 20

_READS = {"rs1": 1, "rs2": 2, "rd": 4}  # bits of the registers read

EVENTS = {name: number for number, name in enumerate(PERFORMANCE_EVENTS)}  # numbers of the performance counters


@cache
def _bytes_accessed(insn: Insn) -> int:
    text = "".join(statements(insn))
    return next(bits for name, bits in MEMORY.items() if name in text) // machine.BYTE_BITS


@dataclass(frozen=True)
class Fetched:
    raw: int  # as in memory, 16 bits if compressed
    insn: Insn  # 32-bit row
    word: int  # 32-bit form
    length: int  # bytes in memory

    @property
    def rd(self) -> int:
        """The register number in the field rd, which stores with a register offset use for rs3."""
        return self.word >> RD_LSB & REGISTER_MASK

    @property
    def rs1(self) -> int:
        return self.word >> RS1_LSB & REGISTER_MASK

    @property
    def rs2(self) -> int:
        return self.word >> RS2_LSB & REGISTER_MASK

    @property
    def read_as_rs2(self) -> int:
        """The register that is read as rs2. For Mac&Load of two products this is the second sum."""
        return self.rd | 1 if self.insn.is_pair else self.rs2

    @property
    def destination(self) -> int:
        return self.rd if self.insn.writes_rd else 0

    @cached_property
    def operands(self) -> dict[str, int]:
        return self.insn.decode(self.word)

    @property
    def reads(self) -> frozenset[str]:
        """Register fields that are read, except the base of a Mac&Load that does not load; ``rs2`` is also the second
        sum of a pair product."""
        reads = self.insn.reads | ({"rs2"} if self.insn.is_pair and self.insn.accumulates else set())
        return reads - {"rs1"} if self.insn.is_nn_form and not self.size else reads

    @cached_property
    def nn_loaded(self) -> int | None:
        if self.insn.op == "pv.cusdot":
            assert self.insn.entry is not None
            return machine.FIRST_WEIGHT + self.insn.entry
        if self.insn.loads_parameter:
            return machine.FIRST_PARAMETER + self.rs2
        if self.insn.is_pair:
            return self.operands.get("t")
        if not self.insn.is_nn_form:
            return None
        if self.rs2 & machine.RELOADS_ACTIVATION:
            return self.rs2 & machine.ACTIVATION_SELECT ^ self.insn.reloads_other
        return self.nn_weight if self.rs2 & machine.RELOADS_WEIGHT else None

    @property
    def nn_activation(self) -> int | None:
        if self.insn.is_pair:
            return machine.SECOND_PAIR * self.operands["p"]
        return self.rs2 & machine.ACTIVATION_SELECT if self.insn.is_nn_form else None

    @property
    def nn_weight(self) -> int | None:
        if self.insn.is_nn_form or self.insn.is_pair:
            return machine.FIRST_WEIGHT + (self.rs2 >> machine.WEIGHT_SELECT_LSB & machine.WEIGHT_SELECT)
        return self.nn_loaded if self.insn.is_mac_load else None

    @cached_property
    def size(self) -> int:
        """Bytes of the memory access; 0 for none, and for pv.qnt, which has several."""
        insn = self.insn
        if insn.is_mac_load or insn.loads_parameter:
            return 0 if self.nn_loaded is None else machine.INCREMENT
        return _bytes_accessed(insn) if insn.is_load or insn.is_store else 0

    @property
    def base(self) -> int:
        """The base register that the access increments, 0 if none."""
        return self.rs1 if self.size and self.insn.writes_base else 0

    @property
    def events(self) -> tuple[int, ...]:
        """Numbers of the counted events that the instruction causes whatever its operands."""
        return _events(self.insn, self.size > 0, self.length == machine.HALF_BYTES)

    @cached_property
    def operation(self) -> Any:
        """The instruction as the compiled simulator executes it."""
        insn, operands, events, reads = self.insn, self.operands, self.events, self.reads
        to_itself = operands.get("boff13", operands.get("joff21")) == 0
        entries = {"activation": self.nn_activation, "weight": self.nn_weight, "loaded": self.nn_loaded}
        return library.Operation(
            run=library.function_of(insn),
            operands=tuple(operands.values()),
            raw=self.raw,
            events=sum(1 << event for event in {*events}),
            length=self.length,
            flags=_flags(insn) | library.STOP * to_itself | library.UPDATES * (self.base > 0),
            reads=sum(bit for name, bit in _READS.items() if name in reads),
            rs1=self.rs1,
            rs2=self.read_as_rs2,
            rd=self.rd,
            destination=self.destination,
            loads=events.count(EVENTS["loads"]),
            size=self.size,
            **{name: -1 if number is None else number for name, number in entries.items()},
        )


@cache
def _events(insn: Insn, accesses: bool, compressed: bool) -> tuple[int, ...]:
    loads = 2 * insn.fmt.width if insn.op == "pv.qnt" and insn.fmt is not None else 0
    happen = {
        "instructions": 1,
        "loads": 1 if accesses and not insn.is_store else loads,
        "stores": insn.is_store,
        "jumps": insn.is_jump,
        "branches": insn.is_branch,
        "compressed": compressed,
    }
    return tuple(EVENTS[name] for name, times in happen.items() for _ in range(times))


@cache
def _flags(insn: Insn) -> int:
    """Return the flags of an operation that do not depend on its operands."""
    happen = {
        library.STOP: insn.insn_class in (InsnClass.CSR, InsnClass.SYSTEM),
        library.BRANCH: insn.is_branch,
        library.JUMP: insn.is_jump,
        library.REGISTER_JUMP: insn.op == "jalr",
        library.LEADS: leads(insn),
        library.STORE: insn.is_store,
        library.PAIR: insn.is_pair,
    }
    return sum(flag for flag, is_set in happen.items() if is_set)


@cache
def decoding(
    extensions: frozenset[Extension], widths: frozenset[int], xif: XifConfig | None = None
) -> Callable[[int], Fetched | None]:
    """Return a function that decodes a word or a compressed half-word, and returns None for an illegal one."""
    decoder = Decoder([*enabled(extensions, widths), *(xif.insns if xif else ())])

    @lru_cache(_WORDS)
    def decode(raw: int) -> Fetched | None:
        row, word, length = decoder.decode(raw), raw, machine.WORD_BYTES
        if row is not None and row.size == machine.HALF_BYTES:
            word, length = expand_compressed(raw), machine.HALF_BYTES
            row = decoder.decode(word)
        return None if row is None else Fetched(raw, row, word, length)

    return decode
