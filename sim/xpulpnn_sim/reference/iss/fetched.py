"""Decoded instructions: properties that do not depend on the state of the hart, and closures that execute them.

Closures are compiled from the statements of the instruction table by :mod:`xpulpnn_sim.reference.statements.compiled`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any

from xpulpnn.isa import machine
from xpulpnn.isa.csr import PERFORMANCE_EVENTS
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.semantics import MEMORY, STATE, parts_of_weights, statements
from xpulpnn.isa.table import Decoder, enabled, expand_compressed
from xpulpnn.isa.xif import ACCUMULATORS, STEP_BITS
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.reference.iss.memory import BusError, Memory, PostponedError
from xpulpnn_sim.reference.statements.compiled import NOT_TAKEN, SELECTORS, WRITTEN, HartOperation, leads, maker

_WORDS = 1 << 14  # words whose instructions are cached

_STEPS = (1 << STEP_BITS) - 1

REGISTER_MASK = machine.REGISTERS - 1
RD_LSB, RS1_LSB, RS2_LSB = 7, 15, 20

EVENTS = {name: number for number, name in enumerate(PERFORMANCE_EVENTS)}  # numbers of the performance counters

_REGISTER_OFFSETS = ("rs2", "rs3")


@cache
def _bytes_accessed(insn: Insn) -> int:
    text = "".join(statements(insn))
    return next(bits for name, bits in MEMORY.items() if name in text) // machine.BYTE_BITS


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    size: int
    offset: int  # constant added to the base
    offset_register: int | None  # register added to the base instead
    updates_base: bool  # post-increment: the address is the old base, to which the offset is added


@dataclass(frozen=True)
class Fetched:
    raw: int  # as in memory, 16 bits if compressed
    insn: Insn  # 32-bit row
    word: int  # 32-bit form
    length: int  # bytes in memory

    @cached_property
    def rd(self) -> int:
        """The register number in the field rd, which stores with a register offset use for rs3."""
        return self.word >> RD_LSB & REGISTER_MASK

    @cached_property
    def rs1(self) -> int:
        return self.word >> RS1_LSB & REGISTER_MASK

    @cached_property
    def rs2(self) -> int:
        return self.word >> RS2_LSB & REGISTER_MASK

    @cached_property
    def read_as_rs2(self) -> int:
        """The register that is read as rs2. For Mac&Load of two products this is the second sum."""
        return self.rd | 1 if self.insn.is_pair else self.rs2

    @cached_property
    def destination(self) -> int:
        return self.rd if self.insn.writes_rd else 0

    @cached_property
    def operands(self) -> dict[str, int]:
        return self.insn.decode(self.word)

    @cached_property
    def transfers(self) -> bool:
        return self.insn.is_branch or self.insn.is_jump

    @cached_property
    def leads(self) -> bool:
        """Return whether the operation itself handles the end of a hardware loop."""
        return leads(self.insn)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Register fields that are read, except the base of a Mac&Load that does not load; ``rs2`` is also the second
        sum of a pair product."""
        reads = self.insn.reads | ({"rs2"} if self.insn.is_pair and self.insn.accumulates else set())
        return reads - {"rs1"} if self.insn.is_nn_form and self.access is None else reads

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

    @cached_property
    def nn_activation(self) -> int | None:
        """The NN-RF entry used as the (first) activation."""
        if self.insn.is_pair:
            return machine.SECOND_PAIR * self.operands["p"]
        return self.rs2 & machine.ACTIVATION_SELECT if self.insn.is_nn_form else None

    @cached_property
    def nn_weight(self) -> int | None:
        if self.insn.is_nn_form or self.insn.is_pair:
            return machine.FIRST_WEIGHT + (self.rs2 >> machine.WEIGHT_SELECT_LSB & machine.WEIGHT_SELECT)
        return self.nn_loaded if self.insn.is_mac_load else None

    @cached_property
    def access(self) -> MemoryAccess | None:
        """The memory access; None for pv.qnt, which has several."""
        insn = self.insn
        if insn.is_mac_load or insn.loads_parameter:
            return (
                None
                if self.nn_loaded is None
                else MemoryAccess(machine.INCREMENT, machine.INCREMENT, None, updates_base=True)
            )
        if not (insn.is_load or insn.is_store):
            return None
        token = insn.operands.split("(")[0].rsplit(",", maxsplit=1)[-1]
        offset, size = self.operands[token], _bytes_accessed(insn)
        if token in _REGISTER_OFFSETS:
            return MemoryAccess(size, 0, offset, insn.writes_base)
        return MemoryAccess(size, offset, None, insn.writes_base)

    @cached_property
    def base(self) -> int:
        """The base register that the access increments, 0 if none."""
        return self.rs1 if self.access is not None and self.access.updates_base else 0

    def address(self, regs: list[int]) -> int:
        """Return the address of the access. ``regs`` holds the values before the instruction."""
        access = self.access
        assert access is not None
        if access.updates_base:
            return regs[self.rs1]
        offset = access.offset if access.offset_register is None else regs[access.offset_register]
        return (regs[self.rs1] + offset) & machine.WORD_MASK

    def taken(self, regs: list[int]) -> bool:
        """Return whether a branch or jump is taken. ``regs`` holds the values before the instruction."""
        if self.insn.is_jump:
            return True
        make = maker(self.insn, frozenset(), None, (), products=True)
        return make(regs, (), None, None, None, 0, self.length, NOT_TAKEN, **self.operands)() != NOT_TAKEN

    @cached_property
    def events(self) -> tuple[int, ...]:
        """Numbers of the counted events that the instruction causes whatever its operands."""
        insn = self.insn
        loads = 2 * insn.fmt.width if insn.op == "pv.qnt" and insn.fmt is not None else 0
        if self.access is not None and not insn.is_store:
            loads = 1
        happen = (
            ("instructions", 1),
            ("loads", loads),
            ("stores", insn.is_store),
            ("jumps", insn.is_jump),
            ("branches", insn.is_branch),
            ("compressed", self.length == machine.HALF_BYTES),
        )
        return tuple(EVENTS[name] for name, times in happen for _ in range(times))

    def events_with(self, regs: list[int]) -> tuple[int, ...]:
        """Return the events of one execution. ``regs`` holds the values before it. A misaligned access counts twice."""
        if self.insn.is_branch:
            return (*self.events, EVENTS["taken_branches"]) if self.taken(regs) else self.events
        access = self.access
        if access is not None and self.address(regs) % machine.WORD_BYTES + access.size > machine.WORD_BYTES:
            return (*self.events, EVENTS["stores" if self.insn.is_store else "loads"])
        return self.events


@cache
def decoding(
    extensions: frozenset[Extension], widths: frozenset[int], xif: XifConfig | None = None
) -> Callable[[int], Fetched | None]:
    """Return a function that decodes a word or a compressed half-word, and returns None for an illegal one. Harts with
    the same instructions share it and its cache."""
    decoder = Decoder([*enabled(extensions, widths), *(xif.insns if xif else ())])

    @lru_cache(_WORDS)
    def decode(raw: int) -> Fetched | None:
        row, word, length = decoder.decode(raw), raw, machine.WORD_BYTES
        if row is not None and row.size == machine.HALF_BYTES:
            word, length = expand_compressed(raw), machine.HALF_BYTES
            row = decoder.decode(word)
        return None if row is None else Fetched(raw, row, word, length)

    return decode


_FAILURES = (BusError, PostponedError)  # exceptions of stores after which the instruction has no effect


def _absent_words(xif: XifConfig) -> frozenset[int]:
    """Return the places of the words of the state that a coprocessor lacks; they stay 0."""
    absent = set[int]() if xif.memory != "none" else {*range(2, 6), STATE["PTR"], STATE["PTR"] + 1}
    return frozenset(absent if xif.requantise != "none" else absent | {machine.FIRST_PARAMETER})


def _word_written(fetched: Fetched) -> int | None:
    """Return the place of the (first) word that an instruction writes into the state of the coprocessor."""
    if fetched.insn.op == "pa.ld":
        return (0, machine.SECOND_PAIR, 2, 4, machine.FIRST_PARAMETER)[fetched.operands["e"]]
    if fetched.insn.op != "pa.wr":
        return None
    number = fetched.operands["r"] - ACCUMULATORS
    return STATE["ACC"] if number < 0 else number if number < machine.NNRF_WORDS else number + ACCUMULATORS


class Translator:
    """Compiles instructions to operations of one hart. An operation stores after all other effects, so that watchers of
    the memory see the state after the instruction."""

    def __init__(
        self,
        regs: list[int],
        nn: list[int],
        memory: Memory,
        system: Any,
        *,
        products: bool = True,
        xif: XifConfig | None = None,
    ) -> None:
        self._regs, self._nn, self._memory, self._system, self._products = regs, nn, memory, system, products
        self._absent = _absent_words(xif) if xif else frozenset[int]()

    def operation(self, fetched: Fetched, pc: int) -> HartOperation:
        following = (pc + fetched.length) & machine.WORD_MASK
        if fetched.insn.op == "pa.step":
            return self._steps(fetched, pc, following)
        if _word_written(fetched) in self._absent:
            return lambda: following
        return self._made(fetched.insn, fetched, pc, self._memory.read)

    def _made(self, insn: Insn, fetched: Fetched, pc: int, read: Callable[[int, int], int]) -> HartOperation:
        fields = fetched.operands
        zeros = frozenset(name for name in WRITTEN if fields.get(name) == 0)
        selector = next((fields[name] for name in SELECTORS if name in fields), None)
        make = maker(insn, zeros, selector, _FAILURES, products=self._products)
        surroundings = self._regs, self._nn, read, self._memory.write, self._system
        return make(*surroundings, pc, fetched.length, (pc + fetched.length) & machine.WORD_MASK, **fields)

    def _steps(self, fetched: Fetched, pc: int, following: int) -> HartOperation:
        """Return the operation of pa.step: its statements for each step, with each part of the weights in turn."""
        insn, count = fetched.insn, parts_of_weights(fetched.insn)
        rows = [replace(insn, entry=part) for part in range(count)] if count > 1 else [insn]
        parts = [self._made(row, fetched, pc, self._load_of_step) for row in rows]

        def execute() -> int:
            for number in range(self._regs[fetched.rs1] & _STEPS):
                parts[number % count]()
            return following

        return execute

    def _load_of_step(self, address: int, size: int) -> int:
        try:
            return self._memory.read(address, size)
        except BusError:
            self._nn[STATE["FAILED"]] = 1
            return int.from_bytes(self._memory.read_bytes(address, size), "little")


def with_note(operation: HartOperation, pc: int, note: Callable[[int], None]) -> HartOperation:
    def execute() -> int:
        note(pc)
        return operation()

    return execute
