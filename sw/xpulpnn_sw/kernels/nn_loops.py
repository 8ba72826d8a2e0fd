"""Inner loops of cores with both factors in the NN-RF, and the choice of a loop.

On some cores a product can reload the activation entry that it does not read; loops for them need no separate loads.
Cores with two products per instruction load a word with every such instruction.
"""

from collections.abc import Callable, Sequence
from functools import partial

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import SECOND_PAIR
from xpulpnn_sw.kernels import coprocessor_loops, inner_loops
from xpulpnn_sw.kernels.builder import ZERO, Builder, Value
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.inner_loops import InnerLoop, LoopInstruction
from xpulpnn_sw.kernels.variants import LoopStyle, Variant
from xpulpnn_sw.layers.precision import Precision


class NnLoop(InnerLoop):
    """Loop with both factors in the NN-RF; all words except one activation are loaded by products."""

    ACTIVATION_UPDATE, WEIGHT_UPDATE = 1 << 3, 1 << 4
    ENTRIES = 2

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        if variant.interleaved:
            # the order of the reloads is the order in memory
            self.activations, self.temporaries = self.activations[:1], self.activations[1:]
        else:
            self.temporaries = registers.take(1)
            if variant.in_place:
                # free between two loops; the first register may count words when the others are set
                self.temporaries += self.activations

        lanes = range(variant.nch)
        self.group_prefetch = [self._product(ZERO, self._stream(n), self.WEIGHT_UPDATE | n << 1) for n in lanes]
        self.block_prefetch = [self._product(ZERO, self._row(0), self.ACTIVATION_UPDATE)]

    def _row(self, pixel: int) -> int:
        return self.activations[0 if self.variant.interleaved else pixel % self.variant.npx]

    def _stream(self, channel: int) -> int:
        return self.weights[channel % self.variant.weight_streams]

    def _product(self, accumulator: int, pointer: int, selector: int, *, signed: bool = False) -> LoopInstruction:
        return f"pv.mlsdot{self._signs(signed=signed)}.{self.suffix}", accumulator, pointer, selector

    def _signs(self, *, signed: bool) -> str:
        return "us"[self.is_signed] + "us"[signed] + "p" if signed != self.is_signed else "us"[signed] + "p"

    def body(self, b: Builder, *, signed: bool) -> None:
        if self.variant.npx == 1:
            for operation in self._products_of_one_pixel(signed=signed):
                b(*operation)
            return
        b(*self._product(ZERO, self._row(1), self.ACTIVATION_UPDATE | 1))
        for pixel, accumulators in enumerate(self.acc):
            for channel, accumulator in enumerate(accumulators):
                pointer, selector = ZERO, pixel % self.ENTRIES | channel << 1
                if pixel == self.variant.npx - 1:
                    pointer, selector = self._stream(channel), selector | self.WEIGHT_UPDATE
                elif channel == self.variant.nch - 1:
                    pointer, selector = self._row(pixel + self.ENTRIES), selector | self.ACTIVATION_UPDATE
                b(*self._product(accumulator, pointer, selector, signed=signed))

    def _products_of_one_pixel(self, *, signed: bool) -> list[LoopInstruction]:
        operations: list[LoopInstruction] = []
        last = self.variant.nch - 1
        for channel, accumulator in enumerate(self.acc[0]):
            entry = channel << 1
            reload = (self._stream(channel), entry | self.WEIGHT_UPDATE)
            if channel == last:
                reload = (self._row(0), entry | self.ACTIVATION_UPDATE)
            operations.append(self._product(accumulator, *reload, signed=signed))
        return [*operations, self._product(ZERO, self._stream(last), last << 1 | self.WEIGHT_UPDATE | 1)]


_ACCUMULATING, _FRESH = "mlsdot", "mldot"
_OTHER_ENTRY = {_ACCUMULATING: "rd~,(rs1!),nnimm5'", _FRESH: "rd,(rs1!),nnimm5'"}

_TURNS = {2: "00' 01 02 03+ 10* 11* 12* 13*", 4: "01' 02 12 11 10 13+ 03 00+ 20 30* 31 21* 22 32* 33+ 23*"}
"""Iterations of the inner loop for two and four pixels, with one word of each row. Each item consists of the pixel and
the channel of a product and a mark of the word fetched: ``'`` for the activation that the product does not use, ``+``
for the activation that it uses, ``*`` for the weight. The first product fetches the activation of the second pixel; the
last product of a pixel fetches the activation of the next pixel in its entry. Two pixels have an entry each, and the
second fetches the weights. Of four pixels, neighbouring products share a factor, mostly the activation; both change
only between two iterations, which costs energy. The last product of each weight fetches its successor, in the order of
the channels, so that one pointer serves all weights."""
_UPDATES = {"": 0, "+": NnLoop.ACTIVATION_UPDATE, "*": NnLoop.WEIGHT_UPDATE}
_UPDATES["'"] = NnLoop.ACTIVATION_UPDATE | NnLoop.WEIGHT_UPDATE
_Product = tuple[int, int, str]  # pixel, channel and mark
_ENTRIES = {2: (0, 1), 4: (0, 1, 1, 0)}  # NN-RF entry of each pixel, by the number of pixels of a block


def _turn(variant: Variant) -> list[_Product]:
    return [(int(item[0]), int(item[1]), item[2:]) for item in _TURNS[variant.npx].split()]


class CrossLoop(NnLoop):
    def body(self, b: Builder, *, signed: bool) -> None:
        self._emit_turn(b, _ACCUMULATING, signed=signed)

    def emit_turns(self, b: Builder, count: Value, *, signed: bool, fresh: bool) -> None:
        """Write the products of ``count`` + :attr:`turns_around` words; if ``fresh``, first products set accumulators.

        The set-up of a hardware loop stalls after a memory access. The loop therefore begins in the middle of an
        iteration, after a product that fetches nothing; the rest of the first and last iterations is written before and
        after the loop.
        """
        self._emit_turn(b, _FRESH if fresh else _ACCUMULATING, signed=signed)
        if self.variant.npx == 1:
            self.emit(b, count, signed=signed)
            return
        turn = _turn(self.variant)
        split = [mark for *_, mark in turn].index("") + 1
        self._emit_products(b, turn[:split], _ACCUMULATING, signed=signed)
        with b.inner_loop(count, self.length, self.temporaries[0]):
            self._emit_products(b, [*turn[split:], *turn[:split]], _ACCUMULATING, signed=signed)
        self._emit_products(b, turn[split:], _ACCUMULATING, signed=signed)

    def _emit_turn(self, b: Builder, kind: str, *, signed: bool) -> None:
        if self.variant.npx > 1:
            self._emit_products(b, _turn(self.variant), kind, signed=signed)
            return
        *products, load = self._products_of_one_pixel(signed=signed)
        for mnemonic, *operands in products:
            b(str(mnemonic).replace(_ACCUMULATING, kind), *operands)
        b(*load)

    def _emit_products(self, b: Builder, products: Sequence[_Product], kind: str, *, signed: bool) -> None:
        npx, entries = self.variant.npx, _ENTRIES[self.variant.npx]
        for pixel, channel, mark in products:
            # the next pixel in the entry of this one
            following = [*range(pixel + 1, npx), *range(npx)]
            follower = next(candidate for candidate in following if entries[candidate] == entries[pixel])
            pointers = {"": ZERO, "+": self._row(follower), "*": self._stream(channel), "'": self._row(pixel + 1)}
            selector = entries[pixel] | channel << 1 | _UPDATES[mark]
            mnemonic, *operands = self._product(self.acc[pixel][channel], pointers[mark], selector, signed=signed)
            mnemonic = str(mnemonic).replace(_ACCUMULATING, kind)
            b(mnemonic, *operands, form=_OTHER_ENTRY[kind] if mark == "'" else None)


_PAIR_TURN = "00w3 10a2 20a3 30a0 01a1 11w0 21w1 31w2"
"""Iteration of a block of four channels and two pairs of pixels. Each item consists of the channel and the pair of an
instruction's two products and the word that it loads: ``w`` and a channel for a weight, ``a`` and a pixel for an
activation. No word is used by the two instructions after its load, and words are loaded in memory order, by one pointer
for weights and one for activations."""
_FROM_ROW = 5  # products of an iteration from the first load of an activation for the next one on
_WITHOUT_LOAD = {"mlsduo": "rd2~,w,p", "mlduo": "rd2,w,p"}
_FIRST_WEIGHT = 2  # entry of the first channel
_PIXEL_ENTRIES = (0, 1, SECOND_PAIR, SECOND_PAIR + 1)


class PairLoop(CrossLoop):
    """Loop of instructions that multiply a weight by the activations of two pixels, with sums in register pairs."""

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        # suffixes of mnemonics for the slices of a word of weights narrower than the activations
        self._slices = [""]
        if self.expansion > 1:
            weights = ElemFmt.of_width(self.bits).suffix
            self._slices = [f".{weights}{part}" for part in range(self.expansion)]
        # fetches of the words that products use before their first load, by products of entries loaded later
        fetch = partial(self._dual, "mlsduo", ZERO, variant.nch - 1, 1)
        self.group_prefetch = [fetch(f"w{channel}") for channel in range(variant.nch - 1)]
        self.block_prefetch = [fetch(f"a{pixel}") for pixel in range(2)]

    def _take_accumulators(self, registers: FreeRegisters) -> list[list[int]]:
        nch = self.variant.nch
        first = registers.take_pairs(nch * self.variant.npx // 2)
        rows = [first[start : start + nch] for start in range(0, len(first), nch)]
        return [[register + odd for register in row] for row in rows for odd in range(2)]

    def _dual(
        self, kind: str, accumulator: int, channel: int, pair: int, loaded: str, *, signed: bool = False, part: int = 0
    ) -> LoopInstruction:
        mnemonic = f"pv.{kind}{self._signs(signed=signed)}.{self.suffix}{self._slices[part]}"
        if not loaded:
            return mnemonic, accumulator, channel, pair
        number = int(loaded[1])
        is_weight = loaded[0] == "w"
        pointer = self._stream(number) if is_weight else self._row(number)
        entry = _FIRST_WEIGHT + number if is_weight else _PIXEL_ENTRIES[number]
        return mnemonic, accumulator, pointer, channel, pair, entry

    def body(self, b: Builder, *, signed: bool) -> None:
        self._emit_pairs(b, "mlsduo", signed=signed)

    def emit_turns(self, b: Builder, count: Value, *, signed: bool, fresh: bool) -> None:
        self._emit_pairs(b, "mlduo" if fresh else "mlsduo", signed=signed)
        self.emit(b, count, signed=signed)
        if self.variant.turns_around > 1:
            self._emit_pairs(b, "mlsduo", signed=signed)

    def emit_ended(
        self, b: Builder, count: Value, load_row: Callable[[], None], *, signed: bool, written: int
    ) -> list[Callable[[], None]]:
        """Emit a block without the first ``written`` and the last two products; return functions that emit the two."""
        turn = self._pairs(b, "mlsduo", signed=signed)
        for write in self._pairs(b, "mlduo", signed=signed)[written:]:
            write()
        self.emit(b, count, signed=signed)
        for write in (*turn[:-_FROM_ROW], load_row, *turn[-_FROM_ROW:-2]):
            write()
        return turn[-2:]

    def first_product(self, b: Builder, *, signed: bool) -> None:
        self._pairs(b, "mlduo", signed=signed)[0]()

    def _emit_pairs(self, b: Builder, kind: str, *, signed: bool) -> None:
        for write in self._pairs(b, kind, signed=signed):
            write()

    def _pairs(self, b: Builder, kind: str, *, signed: bool) -> list[Callable[[], None]]:
        last, pairs = len(self._slices) - 1, list[Callable[[], None]]()
        for part in range(last + 1):
            for channel, pair, *loaded in _PAIR_TURN.split():
                accumulator, word = self.acc[2 * int(pair)][int(channel)], "".join(loaded)
                if loaded[0] == "w" and part != (0 if channel == "0" and pair == "0" else last):
                    word = ""
                operation = self._dual(kind, accumulator, int(channel), int(pair), word, signed=signed, part=part)
                pairs.append(partial(b, *operation, form=None if word else _WITHOUT_LOAD[kind]))
            kind = "mlsduo"
        return pairs


_WITHOUT_NN = (inner_loops.ScalarLoop, inner_loops.SimdLoop, inner_loops.SimdLoop, inner_loops.ComputeUpdateLoop)
_IN_COPROCESSOR = (coprocessor_loops.BlockLoop, coprocessor_loops.StepLoop)
_LOOPS = dict(zip(LoopStyle, (*_WITHOUT_NN, NnLoop, CrossLoop, PairLoop, *_IN_COPROCESSOR), strict=True))


def inner_loop(variant: Variant, precision: Precision, registers: FreeRegisters) -> InnerLoop:
    if variant.counts(precision):
        return (inner_loops.CountLoop if variant.xpulp else inner_loops.ScalarCountLoop)(variant, precision, registers)
    unpacks = variant.style is LoopStyle.XPULPV2 and variant.row_bits(precision) != precision.w
    return (inner_loops.UnpackLoop if unpacks else _LOOPS[variant.style])(variant, precision, registers)
