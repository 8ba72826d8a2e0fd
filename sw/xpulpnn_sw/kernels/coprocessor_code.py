"""Code generator of MatMul functions whose products and sums are in a coprocessor.

Sums come back by ``pa.rd``. CV32E40X loses a result if its instruction is offered while another one holds EX (issue
941). Two instructions of the core alone therefore stand between ``pa.rd`` and what may hold it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, islice

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn.isa.xif import FILTERS
from xpulpnn_sw.kernels.block_store import BlockStore, Store, temporaries
from xpulpnn_sw.kernels.builder import STORE_BY_BITS, WORD, ZERO, Value
from xpulpnn_sw.kernels.coprocessor_loops import BlockLoop, StepLoop
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.matmul_code import KernelCode
from xpulpnn_sw.kernels.requantisation import EXACT_RULES, ONE_FACTOR, Rule
from xpulpnn_sw.kernels.terms import Name, Number, Term

_SHIFT = 4  # pair of pa.ld that is the shift of the requantisation
_LOADS = 4  # loads of a block's first words between two requantisations
_APART = 2  # instructions between pa.rd and what may hold EX


@dataclass(eq=False)
class PackedResults(BlockStore):
    """Code that requantises a block in the coprocessor and stores a word, half-word or byte for each pixel."""

    registers: list[int]  # registers that no product needs, at least three and one for each pixel
    first_loads: Callable[[], list[Callable[[], None]]]  # returns functions that load the next block's first words
    skip: Callable[[], None]  # writes the rest of the next block's start

    def emit(self, first_channel: int, shift: Value) -> None:
        b, rule = self.b, self.blocking.rule
        exact, own_shift = rule in EXACT_RULES, rule is Rule.EXACT
        free, offsets = cycle(self.registers), (number * WORD for number in range(1 << BYTE_BITS))

        def read(count: int) -> list[int]:
            registers = list(islice(free, count))
            for register in registers:
                b("lw", register, next(offsets), self.parameters)
            return registers

        def read_channel() -> list[int]:
            """Return registers with summand, shift if the channel has its own, and factor."""
            if rule in ONE_FACTOR:
                return [*read(1), factor]
            words = read(3 if own_shift else 2)
            return words if exact else words[::-1]

        factor = read(1)[0] if rule in ONE_FACTOR else ZERO
        if rule in ONE_FACTOR:
            free = cycle(self.registers[1:])
        waiting = self.first_loads()
        for channel in range(self.channels):
            summand, *own, scale = read_channel()
            for _ in range(_LOADS if channel else 1):
                if waiting:
                    with b.region("matmul"):
                        waiting.pop(0)()
            for register in own:
                b("pa.ld", _SHIFT, register, ZERO)
            kind = f"pa.rq{'x' * exact}{'us'[self.signed]}.{ElemFmt.of_width(self.bits).suffix}"
            with b.region("quant" if channel else "matmul"):
                b(kind, channel, scale, summand)
        with b.region("matmul"):
            for write in waiting:
                write()
            self.skip()
        self._store(self.channels * WORD + self.blocking.rule_bytes)

    def _store(self, parameter_bytes: int) -> None:
        b, stored = self.b, self.blocking.stored_bits // BYTE_BITS
        words = self.registers[: len(self.out)]
        moves = [(self.parameters, parameter_bytes), *((pointer, stored) for pointer in self.out)]
        for pixel, register in enumerate(words):
            for pointer, distance in moves[_APART * pixel :][:_APART] if pixel < _APART else ():
                b("addi", pointer, pointer, distance)
            b("pa.rd", register, FILTERS * pixel)
        for pointer, distance in moves[2 * _APART :]:
            b("addi", pointer, pointer, distance)
        for register, pointer in zip(words, self.out, strict=True):
            b(STORE_BY_BITS[stored * BYTE_BITS], register, -stored, pointer)


@dataclass(eq=False)
class ReadResults(BlockStore):
    """Code that reads the accumulators of a block, of two pixels at a time, and stores results as RV32IM does."""

    registers: list[int]  # registers that are free behind the products and hold no accumulator

    def emit(self, first_channel: int, shift: Value) -> None:
        b, size = self.b, len(self.acc)
        for first in range(0, len(self.out), size):
            numbers = range(FILTERS * first, FILTERS * (first + size))
            for place, (number, register) in enumerate(zip(numbers, chain(*self.acc), strict=True)):
                for _ in range(_APART if place < _APART else 0):
                    b.mv(ZERO, ZERO)
                with b.region("quant" if number else "matmul"):
                    b("pa.rd", register, number)
            if first:
                # the results of all pixels have the same parameters
                b.add(self.parameters, -self.channels * WORD - self.blocking.rule_bytes, self.registers[0])
            out = self.out[first : first + size]
            Store(b, self.blocking, self.acc, out, [], self.parameters, self.registers, []).emit(first_channel, shift)


class CoprocessorCode(KernelCode):
    _inner: BlockLoop | StepLoop
    _preferred = ("row0", "entry", "row_back", "filter_back", "row_steps", "block_bytes")

    def _take_results(self, registers: FreeRegisters) -> dict[str, int]:
        inner, blocking = self._inner, self._blocking
        free = [*inner.temporaries, *inner.activations]
        needed = 0 if blocking.requantises else temporaries(blocking)
        self._temporaries = [*free, *registers.take(max(0, needed - len(free)))]
        self._parameters = registers.take_one()
        self._out = registers.take(blocking.variant.npx)
        ends = (self._b, blocking, inner.acc, self._out, list[int](), self._parameters)
        if blocking.requantises:
            free = [*inner.temporaries, *registers.take(1)]
            self._store = PackedResults(*ends, free, self._first_loads, self._skip)
        else:
            self._store = ReadResults(*ends, self._temporaries)
        return {}

    def _terms(self) -> dict[str, Term]:
        terms, inner, words = super()._terms(), self._inner, self._filter_words
        if isinstance(inner, StepLoop):
            terms["row_steps"] = words * inner.expansion
            return terms | {"block_bytes": words * inner.filter_bytes}
        skipped = (Number(0) - words) & (inner.turns - 1)
        return terms | {
            # turns of the first iteration that are skipped, and the bytes of their code and words
            "skipped": skipped,
            "entry": Name("skipped") * (inner.turn_length * WORD),
            "row_back": Number(0) - Name("skipped") * inner.turn_bytes,
            "filter_back": Number(0) - Name("skipped") * inner.filter_bytes,
        }

    def _begin_blocks(self) -> None:
        super()._begin_blocks()
        if self._blocking.requantises and self._blocking.rule is not Rule.EXACT:
            self._b("pa.ld", _SHIFT, self._frame.register("shift", self._temporaries[0]), ZERO)
        if self._blocking.requantises:
            self._load_first()

    def _load_first(self) -> None:
        for write in (*self._first_loads(), self._skip):
            write()

    def _first_loads(self) -> list[Callable[[], None]]:
        inner = self._inner
        if isinstance(inner, StepLoop):
            return []
        return [partial(self._frame.load, "row0", inner.activations[0]), *inner.begin(self._b)]

    def _skip(self) -> None:
        inner, frame, b = self._inner, self._frame, self._b
        if isinstance(inner, StepLoop):
            return
        row, filters, work = inner.activations[0], inner.weights[0], inner.temporaries[0]
        for name, pointer in (("row_back", row), ("filter_back", filters)):
            b.add(pointer, frame.value(name, work), work)

    def _block(self) -> None:
        inner, frame, b = self._inner, self._frame, self._b
        signed, (work, other) = self._blocking.precision.x_negative, inner.temporaries[:2]
        if isinstance(inner, StepLoop):
            row, filters = inner.activations[0], inner.weights[0]
            frame.load("row0", row)
            self._start(work, other)
            b("pa.ptr", row, filters)
            inner.emit(b, frame.value("row_steps", work), signed=signed)
            b.add(filters, frame.value("block_bytes", other), other)
            return
        if not self._blocking.requantises:
            self._load_first()
        self._start(work, other)
        skipped = frame.constants.get("skipped")
        entry = frame.value("entry", other) if skipped is None else skipped
        inner.emit_from(b, skipped, entry, work, signed=signed)

    def _start(self, *work: int) -> None:
        b = self._b
        if self._blocking.is_fresh:
            b("pa.clr")
            return
        for first, register in self._biases(work):
            b("pa.wr", first, register)

    def _biases(self, work: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        for first in range(0, FILTERS, len(work)):
            filters = [*zip(range(first, FILTERS), work, strict=False)]
            for number, register in filters:
                self._b("lw", register, number * WORD, self._parameters)
            for number, register in filters:
                for pixel in range(self._blocking.variant.npx):
                    yield FILTERS * pixel + number, register
