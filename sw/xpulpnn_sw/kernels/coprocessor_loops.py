"""Inner loops with the products and sums in a coprocessor, for cores with RV32IMC.

A step multiplies a word of the activation row of each pixel by a word of each filter. Words of filters narrower than
activations serve several steps, which are a turn.
"""

from collections.abc import Callable
from functools import partial

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.xif import STEP_BITS
from xpulpnn_sw.kernels.builder import WORD, Builder, Held, Label, Value
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.inner_loops import InnerLoop
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.precision import Precision

_STEPS = 8  # steps of an iteration of the unrolled loop
_PAIR = 2  # words that an instruction takes
_MOST_STEPS = (1 << STEP_BITS) - 1  # of an instruction


class CoprocessorLoop(InnerLoop):
    """Base of both loops. ``acc`` are the registers for the results of up to two pixels, free within a block."""

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self.activations, self.temporaries = self.activations[:1], self.activations[1:]
        # bytes of the words of a step, and of a turn
        self.step_bytes = variant.npx * WORD
        self.turn_bytes = self.step_bytes * self.expansion
        self.filter_bytes = variant.nch * WORD

    def _take_accumulators(self, registers: FreeRegisters) -> list[list[int]]:
        return [registers.take(self.variant.nch) for _ in range(min(self.variant.npx, _PAIR))]

    def _mnemonic(self, kind: str, part: str = "", *, signed: bool) -> str:
        signs = "sp" if signed and self.is_signed else "usp" if self.is_signed else "sup" if signed else "up"
        narrow = f".{ElemFmt.of_width(self.bits).suffix}{part}" if self.expansion > 1 else ""
        return f"pa.{kind}{signs}.{self.suffix}{narrow}"


class BlockLoop(CoprocessorLoop):
    """Loop that loads the words of the next step between the instructions of the coprocessor.

    The loop has several turns. If a row is no multiple of them, the first iteration begins behind the turns that it
    skips.
    """

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self.end = registers.take_one()
        self.turns = _STEPS // self.expansion
        if variant.npx == 1:
            self._x, self._w = registers.take(1), self.acc[0]
            self.temporaries = registers.take(2)
        else:
            self._x, self._w = self.acc
        # products with one accumulator; the coprocessor has none of narrower weights
        self._is_single = variant.npx == 1 and self.expansion == 1
        probe = Builder(0, xpulp=False)
        self._turn(probe, 0, signed=False)
        self.turn_length = probe.position

    def begin(self, b: Builder) -> list[Callable[[], None]]:
        """Return functions that load the words of the first step."""
        filters = [partial(b, "lw", register, n * WORD, self.weights[0]) for n, register in enumerate(self._w)]
        rows = [partial(b, "lw", register, n * WORD, self.activations[0]) for n, register in enumerate(self._x)]
        return [*filters, *rows]

    def emit_from(self, b: Builder, skipped: int | None, entry: Value, work: int, *, signed: bool) -> None:
        """Write the loop; ``entry`` are the bytes of the code of ``skipped`` turns, whose number may be unknown."""
        assert self.end is not None
        if not self._is_single:
            self._emit_pairs(b)
        first = Label()
        if isinstance(entry, Held):
            b("auipc", work, 0)
            b("add", work, work, entry.register)
            # behind this instruction
            b("jalr", 0, 3 * WORD, work)
        elif skipped:
            b.jump(first)
        with b.branch_loop(self.activations[0], self.end):
            for turn in range(self.turns):
                if turn == skipped:
                    b.place(first)
                self._turn(b, turn, signed=signed)
            b("addi", self.activations[0], self.activations[0], self.turns * self.turn_bytes)
            b("addi", self.weights[0], self.weights[0], self.turns * self.filter_bytes)

    def body(self, b: Builder, *, signed: bool) -> None:
        self._turn(b, 0, signed=signed)

    def _turn(self, b: Builder, turn: int, *, signed: bool) -> None:
        if self._is_single:
            self._single_step(b, turn, signed=signed)
            return
        for part in range(self.expansion):
            self._step(b, turn, part, signed=signed)

    def _single_step(self, b: Builder, turn: int, *, signed: bool) -> None:
        (x,), place = self._x, (turn + 1) * self.filter_bytes
        loads = [(register, place + n * WORD, self.weights[0]) for n, register in enumerate(self._w)]
        for number, register in enumerate(self._w):
            b(self._mnemonic("acc", signed=signed), number, x, register)
            if number:
                b("lw", *loads[number - 1])
        b("lw", x, (turn + 1) * self.step_bytes, self.activations[0])
        b("lw", *loads[-1])

    def _step(self, b: Builder, turn: int, part: int, *, signed: bool) -> None:
        following = (turn * self.expansion + part + 1) * self.step_bytes
        loads = [(register, following + n * WORD, self.activations[0]) for n, register in enumerate(self._x)]
        if part == self.expansion - 1:
            place = (turn + 1) * self.filter_bytes
            loads += [(register, place + n * WORD, self.weights[0]) for n, register in enumerate(self._w)]
        block = self._mnemonic("blk", str(part), signed=signed)
        pixels = len(self._x)
        for half, words in enumerate((loads[:pixels], loads[pixels:])):
            b(block, half, *self._w[half * _PAIR : (half + 1) * _PAIR])
            for operands in words:
                b("lw", *operands)
        self._emit_pairs(b)

    def _emit_pairs(self, b: Builder) -> None:
        for first in range(0, len(self._x), _PAIR):
            b("pa.ld", first // _PAIR, self._x[first], self._x[(first + 1) % len(self._x)])


class StepLoop(CoprocessorLoop):
    def body(self, b: Builder, *, signed: bool) -> None:
        b(self._mnemonic("step", signed=signed), self.temporaries[0])

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """Write ``count`` steps, of which an instruction makes up to ``_MOST_STEPS``."""
        steps, most = self.temporaries[:2]
        b.put(steps, count)
        if isinstance(count, Held) or count > _MOST_STEPS:
            b.li(most, _MOST_STEPS // self.expansion * self.expansion)

            def write_first() -> None:
                start = Label(b.position)
                b(self._mnemonic("step", signed=signed), most)
                b("sub", steps, steps, most)
                b.branch("blt", most, steps, start)

            with b.replaced("blt", most, steps, write_first):
                pass
        self.body(b, signed=signed)
