"""Order of the elements in activation rows, and thus in filter rows.

Cores with sub-byte products multiply operands of one width, that of the weights. Inputs of another width are converted
in the cheapest way, which changes their order:

* wider inputs are split into planes: words ``0..n-1`` exchange parts of their elements until each word holds the same
  part of all elements. Lane ``n*i + j`` of a plane is then from element ``i`` of word ``j``;
* narrower inputs are widened: every ``n``-th element of a word from the first on forms a word, every ``n``-th from the
  second on the next word. Lane ``i`` of word ``k`` is element ``n*i + k``.

Weights are laid out once, in the order of the activations.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WITH_REGISTER, WORD, ZERO, Builder
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.layout import Ints, Words, pack_words, pad_axis, repeated
from xpulpnn_sw.kernels.terms import Argument, Term
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision


def element_order(variant: Variant, precision: Precision) -> NDArray[np.intp] | None:
    """Return the element in each lane, for the words that are converted together; None if the order is unchanged."""
    if variant.unpacks or variant.mixes(precision) or precision.x == precision.w:
        return None
    lanes = XLEN // precision.x
    if (planes := variant.planes(precision)) > 1:
        return np.arange(planes * lanes).reshape(planes, lanes).T.reshape(-1)
    return np.arange(lanes).reshape(-1, variant.expansion(precision)).T.reshape(-1)


def in_lane_order(values: Ints, order: NDArray[np.intp] | None) -> Ints:
    if order is None:
        return values
    axis = values.ndim - 1
    chunks = -(-values.shape[axis] // order.size)
    filled = pad_axis(values, axis, chunks * order.size).reshape(*values.shape[:-1], chunks, order.size)
    return filled[..., order].reshape(*values.shape[:-1], -1)


def activation_rows(activations: Ints, variant: Variant, precision: Precision, words: int) -> Words:
    groups, planes = -(-activations.shape[0] // variant.npx), variant.planes(precision)
    bits = variant.row_bits(precision)
    rows = in_lane_order(pad_axis(activations, 0, groups * variant.npx), element_order(variant, precision))
    rows = pad_axis(rows, 1, words * XLEN // precision.w)
    parts = np.stack([rows >> (plane * bits) for plane in reversed(range(planes))], axis=1)
    packed = pack_words(parts, bits)
    if variant.interleaved:
        return packed.reshape(groups, variant.npx, planes, -1).transpose(0, 2, 3, 1)
    return packed


PAIR = 2  # words copied at a time
_NAMED = 13  # named registers of the copy
_BYTES = XLEN // BYTE_BITS


class RowFormat:
    """Format of input words in activation rows; if ``inside``, all receptive fields lie within the input."""

    def __init__(self, variant: Variant, precision: Precision, names: Collection[str], *, inside: bool) -> None:
        self.variant, self.inside = variant, inside
        self.dilated, self.valued = "dilation" in names, "outside" in names
        self.bits, self.is_signed, self.row_bits = precision.x, precision.x_negative, variant.row_bits(precision)
        # words of a row for a word of the input, planes for a row of the input
        self.expansion, self.planes = variant.expansion(precision), variant.planes(precision)
        self.is_plain = self.expansion == self.planes == 1  # whether words are copied as they are
        self.unit = max(PAIR, self.planes)  # words read at a time
        # the same of whole runs: more without hardware loops, if results do not need the registers
        self.run_unit = 2 * PAIR if variant.has_coprocessor and self.is_plain else self.unit
        self.step = WORD * variant.npx if variant.interleaved else WORD  # bytes between two words of a row
        # words cleared at a time: few, as they overrun the row; more without hardware loops
        self.cleared = 4 if variant.xpulp or variant.interleaved else 8
        self.temporaries = max(PAIR, self.run_unit if self.is_plain else 0)  # registers to copy with
        if self.planes > 1:
            # words of a unit and one more; masks; distances of the planes
            self.temporaries = self.planes + 1 + (self.planes.bit_length() - 1) + self.planes - 1
        elif self.expansion > 1 and (variant.xpulp or not variant.unpacks):
            # elements of a word and the word, or the word, a mask and the signs
            self.temporaries += _BYTES + 1 if variant.unpacks else 3
        # whether planes are cleared by words of their own
        self.clears_planes = self.planes > 1 and self.valued
        self.by_groups = variant.xpulp and variant.npx > 1 and self.is_plain and not self.dilated
        self.spare = 2 if self.by_groups else 0
        self.registers = _NAMED + self.spare + self.temporaries

    def run_words(self, kernel_width: Any, pixel_bytes: Any) -> Any:
        if self.inside:
            return (kernel_width * pixel_bytes + (WORD - 1)) // WORD
        return kernel_width * (pixel_bytes // WORD)

    def outside_terms(self) -> dict[str, Term]:
        """Return for each plane the word that pads it, derived from the argument ``outside`` if there is one."""
        if not self.valued:
            return {}
        mask, repeat = (1 << self.row_bits) - 1, repeated(1, self.row_bits)
        # the plane of the uppermost bits is the first
        shifts = [self.row_bits * (self.planes - 1 - plane) for plane in range(self.planes)]
        words = [(Argument("outside") // (1 << shift) & mask) * repeat for shift in shifts]
        return {f"outside{plane}": word for plane, word in enumerate(words)}


class RowWriter:
    def __init__(self, b: Builder, form: RowFormat, temporaries: list[int]) -> None:
        assert len(temporaries) == form.temporaries
        self._b, self._form, self._temporaries = b, form, temporaries
        self._work_word = self._vector = self._mask = self._sign = self._outside = ZERO
        self._masks: dict[int, int] = {}
        self._planes: list[int] = []

    def copy(self, pairs: int, pointer: int, place: int, unit: int | None = None) -> None:
        form, pair = self._form, self._temporaries[: unit or self._form.unit]
        widen = self._write if form.expansion == 1 else self._unpack if form.variant.unpacks else self._widen
        for number in range(0, pairs * len(pair), len(pair)):
            if form.variant.xpulp:
                self._b.load_words(pair, pointer)
                (self._cut if form.planes > 1 else widen)(pair, place)
            elif form.expansion > 1 and form.variant.unpacks:
                for _ in pair:
                    self._unpack_scalar(pointer, place)
            else:
                for index, register in enumerate(pair, number):
                    self._b("lw", register, index * WORD, pointer)
                if form.expansion > 1:
                    self._widen(pair, place)
                    continue
                for index, register in enumerate(pair, number):
                    self._b("sw", register, index * form.step, place)
        if not form.variant.xpulp and not (form.expansion > 1 and form.variant.unpacks):
            count = pairs * len(pair)
            self._b("addi", pointer, pointer, count * WORD)
            if form.expansion == 1:
                self._b("addi", place, place, count * form.step)

    def spread(self, pointer: int, places: list[int]) -> None:
        pair = self._temporaries[:PAIR]
        self._b.load_words(pair, pointer)
        for place in places:
            self._write(pair, place)

    def load_outside(self, frame: Frame, plane: int = 0) -> int:
        if not self._form.valued:
            return self._outside
        register = self._temporaries[0]
        frame.load(f"outside{plane}", register)
        return register

    def clear(self, place: int, outside: int) -> None:
        self._write([outside] * self._form.cleared, place)

    def _write(self, registers: list[int], place: int) -> None:
        step = self._form.step
        if self._form.variant.xpulp:
            for register in registers:
                self._b("p.sw", register, step, place)
            return
        for number, register in enumerate(registers):
            self._b("sw", register, number * step, place)
        self._b("addi", place, place, len(registers) * step)

    def _unpack(self, packed: list[int], place: int) -> None:
        *elements, vector = self._temporaries[PAIR:]
        for register in packed:
            for part in range(self._form.expansion):
                first = part * _BYTES * self._form.bits
                self._b.to_bytes(vector, register, first, self._form.bits, elements, signed=self._form.is_signed)
                self._write([vector], place)

    def prepare(self, frame: Frame) -> None:
        form, b = self._form, self._b
        if form.planes > 1:
            self._work_word, *rest = self._temporaries[form.planes :]
            self._masks = {form.bits >> n: rest.pop(0) for n in range(1, form.planes.bit_length())}
            for shift, register in self._masks.items():
                b.li(register, repeated((1 << shift) - 1, 2 * shift))
            self._planes = rest
            frame.load_all(**{f"plane{number}": register for number, register in enumerate(rest, 1)})
        elif form.expansion > 1 and not form.variant.unpacks:
            self._vector, self._mask, self._sign = self._temporaries[PAIR:]
            b.li(self._mask, repeated((1 << form.bits) - 1, form.row_bits))
            if form.bits == SIGN_BITS:
                self._outside = self._sign
                b.li(self._outside, -1)
            elif form.is_signed:
                b.li(self._sign, repeated(1 << (form.bits - 1), form.row_bits))

    def _widen(self, packed: list[int], place: int) -> None:
        form, b, vector = self._form, self._b, self._vector
        suffix = ElemFmt.of_width(form.row_bits).suffix
        for register in packed:
            for part in range(form.expansion):
                if part:
                    b("srli", vector, register, part * form.bits)
                b("and", vector, vector if part else register, self._mask)
                if form.bits == SIGN_BITS:
                    b(f"pv.add.{suffix}", vector, vector, vector)
                    b(f"pv.sub.{suffix}", vector, vector, self._mask)
                elif form.is_signed:
                    b("xor", vector, vector, self._sign)
                    b(f"pv.sub.{suffix}", vector, vector, self._sign)
                self._write([vector], place)

    def _cut(self, words: list[int], place: int) -> None:
        distance = len(words) // 2
        for shift, mask in self._masks.items():
            for lower in range(len(words)):
                if lower & distance:
                    continue
                self._b.exchange(words[lower], words[lower + distance], shift, mask, self._work_word)
            distance //= 2
        top, *others = reversed(words)
        for register, offset in zip(others, self._planes, strict=True):
            self._b("p.sw", register, offset, place, form=WITH_REGISTER)
        self._write([top], place)

    def _unpack_scalar(self, pointer: int, place: int) -> None:
        packed, element = self._temporaries
        bits = self._form.bits
        self._b("lw", packed, 0, pointer)
        self._b("addi", pointer, pointer, WORD)
        for position in range(0, XLEN, bits):
            if self._form.is_signed:
                self._b.chain(element, packed, ("slli", XLEN - position - bits), ("srai", XLEN - bits))
            else:
                if position:
                    self._b("srli", element, packed, position)
                self._b("andi", element, element if position else packed, (1 << bits) - 1)
            self._b("sb", element, position // bits, place)
        self._b("addi", place, place, XLEN // bits)
