"""Inner loops of cores with both factors in the NN-RF, and the choice of a loop.

Cores whose products reload also the activation that they do not use need no load at all. Where they compute two
products at a time, each loads a word.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import SECOND_PAIR
from xpulpnn_sw.kernels.builder import ZERO, Builder, Value
from xpulpnn_sw.kernels.inner_loops import (
    ComputeUpdateLoop,
    CountLoop,
    InnerLoop,
    LoopInstruction,
    ScalarCountLoop,
    ScalarLoop,
    SimdLoop,
    UnpackLoop,
)
from xpulpnn_sw.kernels.registers import FreeRegisters
from xpulpnn_sw.kernels.variants import LoopStyle, Variant
from xpulpnn_sw.layers.precision import Precision


class NnLoop(InnerLoop):
    """Both factors in the NN-RF: one load of the second activation, all other words come with a product.

    Activations alternate between the two entries; the last product of a pixel reloads its entry with the word of the
    pixel after the next, the products of the last pixel reload the weights.
    """

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
                # between two loops they are free; the first register may count words when they are set
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
        """A load of the second activation, then products; with one pixel the products, then a load."""
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


class _Fetched(Enum):
    NOTHING = 0
    OWN = NnLoop.ACTIVATION_UPDATE
    """The activation that it uses."""
    WEIGHT = NnLoop.WEIGHT_UPDATE
    OTHER = NnLoop.ACTIVATION_UPDATE | NnLoop.WEIGHT_UPDATE
    """The activation that it does not use."""


class _Product(NamedTuple):
    """A product of a turn: what it multiplies and what it fetches."""

    pixel: int
    channel: int
    fetched: _Fetched


_TURNS = {2: "00' 01 02 03+ 10* 11* 12* 13*", 4: "01' 02 12 11 10 13+ 03 00+ 20 30* 31 21* 22 32* 33+ 23*"}
"""A turn of the inner loop, a word of each row, with so many pixels: pixel and channel of each product, and what it
fetches. ``'`` is the other activation, ``+`` that of its own entry, ``*`` the weight.

The first product fetches the activation of the second pixel, the last one of a pixel that of the pixel after it in its
entry. Two pixels have an entry each, and the second fetches the weights. Of four, neighbours share a factor, mostly the
activation: only between two turns do both change, which the dot product pays for with energy. Each weight is fetched by
its last product, and these do not follow each other, so that the weights of all channels come one by one through one
pointer.
"""
_FETCHES = {"": _Fetched.NOTHING, "'": _Fetched.OTHER, "+": _Fetched.OWN, "*": _Fetched.WEIGHT}
_ENTRIES = {2: (0, 1), 4: (0, 1, 1, 0)}
"""Entry of each pixel, by their number. Of four, the second fetches the third, the first the fourth."""


def _turn(variant: Variant) -> list[_Product]:
    return [_Product(int(p[0]), int(p[1]), _FETCHES[p[2:]]) for p in _TURNS[variant.npx].split()]


class CrossLoop(NnLoop):
    """:class:`NnLoop` without its load."""

    def body(self, b: Builder, *, signed: bool) -> None:
        self._emit_turn(b, _ACCUMULATING, signed=signed)

    def emit_turns(self, b: Builder, count: Value, *, signed: bool, fresh: bool) -> None:
        """The products of ``count`` and :attr:`turns_around` words; with ``fresh`` the accumulators begin with 0.

        The set-up of a loop waits for an access of the instruction before, so that the body begins behind a product
        that fetches nothing, within a turn: parts of another turn are in front of it and behind it.
        """
        self._emit_turn(b, _FRESH if fresh else _ACCUMULATING, signed=signed)
        if self.variant.npx == 1:
            self.emit(b, count, signed=signed)
            return
        turn = _turn(self.variant)
        fetches = [product.fetched is not _Fetched.NOTHING for product in turn]
        begun = fetches.index(False) + 1
        self._emit_products(b, turn[:begun], _ACCUMULATING, signed=signed)
        with b.inner_loop(count, self.length, self.temporaries[0]):
            self._emit_products(b, [*turn[begun:], *turn[:begun]], _ACCUMULATING, signed=signed)
        self._emit_products(b, turn[begun:], _ACCUMULATING, signed=signed)

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
        for pixel, channel, fetched in products:
            # the pixel whose activation comes next into the entry of this one
            following = [*range(pixel + 1, npx), *range(npx)]
            follower = next(candidate for candidate in following if entries[candidate] == entries[pixel])
            pointer = {
                _Fetched.NOTHING: ZERO,
                _Fetched.OWN: self._row(follower),
                _Fetched.WEIGHT: self._stream(channel),
                _Fetched.OTHER: self._row(pixel + 1),
            }[fetched]
            selector = entries[pixel] | channel << 1 | fetched.value
            mnemonic, *operands = self._product(self.acc[pixel][channel], pointer, selector, signed=signed)
            mnemonic = str(mnemonic).replace(_ACCUMULATING, kind)
            b(mnemonic, *operands, form=_OTHER_ENTRY[kind] if fetched is _Fetched.OTHER else None)


_PAIR_TURN = "00w3 10a2 20a3 30a0 01a1 11w0 21w1 31w2"
"""A turn of a block of four channels and two pairs of pixels: channel and pair of each two products, and the word that
they load, the weight of a channel or the activation of a pixel.

No word is used by the two instructions after its load, and words are loaded in their order, so that one pointer walks
through the weights, and one through the activations.
"""
_FROM_ROW = 5  # products from the first that loads the next activation on, to the end of a turn
_WITHOUT_LOAD = {"mlsduo": "rd2~,w,p", "mlduo": "rd2,w,p"}
_FIRST_WEIGHT = 2  # entry of the first channel
_PIXEL_ENTRIES = (0, 1, SECOND_PAIR, SECOND_PAIR + 1)


class PairLoop(CrossLoop):
    """:class:`CrossLoop` of instructions with two products, of a weight and the activations of two pixels.

    Their sums are in an even register and the next one.
    """

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        # endings of mnemonics: the slices of a word of weights, if they are narrower than the activations
        self._slices = [""]
        if self.expansion > 1:
            weights = ElemFmt.of_width(self.bits).suffix
            self._slices = [f".{weights}{part}" for part in range(self.expansion)]
        # what the first products multiply, and those before their own load is there, by products that none waits for:
        # of entries that are loaded later
        fetch = partial(self._twice, "mlsduo", ZERO, variant.nch - 1, 1)
        self.group_prefetch = [fetch(f"w{channel}") for channel in range(variant.nch - 1)]
        self.block_prefetch = [fetch(f"a{pixel}") for pixel in range(2)]

    def _take_accumulators(self, registers: FreeRegisters) -> list[list[int]]:
        nch = self.variant.nch
        first = registers.take_pairs(nch * self.variant.npx // 2)
        rows = [first[start : start + nch] for start in range(0, len(first), nch)]
        return [[register + odd for register in row] for row in rows for odd in range(2)]

    def _twice(
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
        """The products of ``count`` and :attr:`turns_around` words; with ``fresh`` the accumulators begin with 0."""
        self._emit_pairs(b, "mlduo" if fresh else "mlsduo", signed=signed)
        self.emit(b, count, signed=signed)
        if self.variant.turns_around > 1:
            self._emit_pairs(b, "mlsduo", signed=signed)

    def emit_ended(
        self, b: Builder, count: Value, load_row: Callable[[], None], *, signed: bool, begun: int
    ) -> list[Callable[[], None]]:
        """All turns of a block whose first ``begun`` products are written already; returns products that remain.

        The last turn fetches the first activations of the next block, from where the pointer is put by ``load_row``.
        Products of the last two channels remain, to be written before those are requantised.
        """
        *turn, fifth, sixth = self._pairs("mlsduo", signed=signed)
        for write in self._pairs("mlduo", signed=signed)[begun:]:
            write(b)
        self.emit(b, count, signed=signed)
        before_row = len(turn) + 2 - _FROM_ROW
        for write in turn[:before_row]:
            write(b)
        load_row()
        for write in turn[before_row:]:
            write(b)
        return [partial(fifth, b), partial(sixth, b)]

    def first_product(self, b: Builder, *, signed: bool) -> None:
        self._pairs("mlduo", signed=signed)[0](b)

    def _emit_pairs(self, b: Builder, kind: str, *, signed: bool) -> None:
        for write in self._pairs(kind, signed=signed):
            write(b)

    def _pairs(self, kind: str, *, signed: bool) -> list[Callable[[Builder], None]]:
        """A word of each filter row, slice by slice: the last weight is loaded in the first, the others in the last."""
        last, pairs = len(self._slices) - 1, list[Callable[[Builder], None]]()
        for part in range(last + 1):
            for channel, pair, *loaded in _PAIR_TURN.split():
                accumulator, word = self.acc[2 * int(pair)][int(channel)], "".join(loaded)
                if loaded[0] == "w" and part != (0 if channel == "0" and pair == "0" else last):
                    word = ""
                operation = self._twice(kind, accumulator, int(channel), int(pair), word, signed=signed, part=part)
                pairs.append(partial(_write, operation, None if word else _WITHOUT_LOAD[kind]))
            kind = "mlsduo"
        return pairs


def _write(operation: LoopInstruction, form: str | None, b: Builder) -> None:
    b(*operation, form=form)


_LOOPS: dict[LoopStyle, type[InnerLoop]] = {
    LoopStyle.SCALAR: ScalarLoop,
    LoopStyle.XPULPV2: SimdLoop,
    LoopStyle.SIMD: SimdLoop,
    LoopStyle.CU: ComputeUpdateLoop,
    LoopStyle.NN: NnLoop,
    LoopStyle.CROSS: CrossLoop,
    LoopStyle.PAIR: PairLoop,
}


def inner_loop(variant: Variant, precision: Precision, registers: FreeRegisters) -> InnerLoop:
    """The inner loop of a variant at a precision."""
    if variant.counts(precision):
        return (CountLoop if variant.xpulp else ScalarCountLoop)(variant, precision, registers)
    unpacks = variant.style is LoopStyle.XPULPV2 and variant.row_bits(precision) != precision.w
    return (UnpackLoop if unpacks else _LOOPS[variant.style])(variant, precision, registers)
