"""Parts that kernels of feature maps share: a builder per instruction set, packed elements, operands in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS, TEXT_BASE, XLEN
from xpulpnn_sw.kernels import builder
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Held
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, FREE, RA, SP, STACK_ALIGNMENT, Frame, FreeRegisters
from xpulpnn_sw.kernels.kernel import Kernel, KernelRequest, Known, Structure, window_arguments
from xpulpnn_sw.kernels.layout import Ints, pack_words, pad_axis, padded_channels, repeated
from xpulpnn_sw.kernels.tensors import random_values
from xpulpnn_sw.kernels.terms import Term
from xpulpnn_sw.kernels.variants import ELEMENT_LEVELS, ElementLevel
from xpulpnn_sw.layers.layer import GatherLayer, MapLayer, ReluLayer, WindowLayer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

_LOADS = {(8, False): "lbu", (8, True): "lb", (16, False): "lhu", (16, True): "lh", (32, False): "lw", (32, True): "lw"}
_BY_REGISTER = {"l": builder.LOAD_BY_REGISTER, "s": builder.BY_REGISTER}

# registers of the arguments, allocated first: no number may live there while others are computed
ARGUMENT_REGISTERS = (ARGUMENTS_POINTER, CORE, CORES)


class ElementBuilder(Builder):
    def __init__(self, level: ElementLevel) -> None:
        super().__init__(TEXT_BASE, xpulp=level.xpulp)
        self.level = level

    def frame(
        self,
        structure: Structure,
        known: Known,
        terms: Mapping[str, Term],
        homes: Mapping[str, int],
        registers: FreeRegisters,
        preferred: Sequence[str] = (),
        *,
        calls: bool = False,
        intermediates: Sequence[str] = (),
    ) -> Frame:
        """Return the frame of a function that may use ``registers``; with ``calls`` it calls subroutines."""
        free = registers.rest()
        if calls:
            free.remove(RA)
        spare = free[: len(preferred)]
        chosen: dict[str, Any] = {"preferred": preferred, "spare": spare, "intermediates": intermediates}
        chosen["clobbered"] = {*FREE} - {*free[len(preferred) :]}
        return Frame(self, structure.names, terms, known=known, homes=homes, **chosen)

    def load(self, rd: int, pointer: int, step: builder.Value = 0, *, bits: int = XLEN, signed: bool = False) -> None:
        self._access(_LOADS[bits, signed], rd, pointer, step)

    def store(self, register: int, pointer: int, step: builder.Value = 0, *, bits: int = XLEN) -> None:
        self._access(builder.STORE_BY_BITS[bits], register, pointer, step)

    def load_at(self, rd: int, base: int, offset: int, work: int, *, bits: int = XLEN, signed: bool = False) -> None:
        """Load the element at ``base + offset``, the sum of two registers; without XpulpV2 ``work`` is clobbered."""
        mnemonic = _LOADS[bits, signed]
        if self.xpulp:
            self(f"p.{mnemonic}", rd, offset, base, form="rd,rs2(rs1)")
        else:
            self("add", work, base, offset)
            self(mnemonic, rd, 0, work)

    def _access(self, mnemonic: str, register: int, pointer: int, step: builder.Value) -> None:
        if step == 0 or not self.xpulp:
            self(mnemonic, register, 0, pointer)
            if isinstance(step, Held):
                self("add", pointer, pointer, step.register)
            elif step:
                self("addi", pointer, pointer, step)
        elif isinstance(step, Held):
            self(f"p.{mnemonic}", register, step.register, pointer, form=_BY_REGISTER[mnemonic[0]])
        else:
            self(f"p.{mnemonic}", register, step, pointer)

    def extract(self, rd: int, word: int, bits: int, place: int, *, signed: bool) -> None:
        top = XLEN - bits - place
        if bits == XLEN:
            if rd != word:
                self.mv(rd, word)
        elif self.xpulp:
            self("p.extracti" if signed else "p.extractui", rd, word, bits - 1, place)
        elif signed:
            self.chain(rd, word, ("slli", top), ("srai", XLEN - bits))
        elif place == 0 and builder.fits_immediate((1 << bits) - 1):
            self("andi", rd, word, (1 << bits) - 1)
        elif top == 0:
            self("srli", rd, word, place)
        else:
            self.chain(rd, word, ("slli", top), ("srli", XLEN - bits))

    def insert(self, word: int, value: int, bits: int, place: int) -> None:
        """Insert ``value`` at bit ``place`` of a word, whose bit 0 must be inserted first; ``value`` is clobbered."""
        if place == 0:
            if word != value:
                self.mv(word, value)
            if not self.xpulp:
                self("andi", word, word, (1 << bits) - 1)
        else:
            if not self.xpulp:
                self("andi", value, value, (1 << bits) - 1)
            self.append_bits(word, value, bits, place, value)

    def set_requantiser(self, kappa: builder.Value, lam: builder.Value, work: int) -> None:
        """Load the parameters of ``pv.rq`` through the stack from constants or registers; ``work`` is clobbered."""
        self("addi", SP, SP, -STACK_ALIGNMENT)
        for number, value in enumerate((kappa, lam)):
            if isinstance(value, int):
                self.li(work, value)
            self("sw", value.register if isinstance(value, Held) else work, number * WORD, SP)
        self.mv(work, SP)
        for number in range(2):
            self("pv.rqld", number, work)
        self("addi", SP, SP, STACK_ALIGNMENT)


# selectors of ``pv.shuffle2.b`` that interleave the lower and the upper bytes of two words
INTERLEAVED = (0x05010400, 0x07030602)
UPPER_HALVES = 0x00030001  # selector of ``pv.shuffle2.h`` for the upper halves of two words


def interleave(b: Builder, even: int, odd: int, copy: int, selectors: Sequence[int]) -> list[int]:
    """Interleave the bytes of ``even`` and ``odd``: the lower half goes to ``even``, the upper half to ``copy``."""
    b.mv(copy, even)
    b("pv.shuffle2.b", even, odd, selectors[0])
    b("pv.shuffle2.b", copy, odd, selectors[1])
    return [even, copy]


def interleave_words(
    b: Builder, words: Sequence[int], copies: Sequence[int], lowers: Sequence[int], selectors: Sequence[int]
) -> list[int]:
    """Interleave the bytes of two or four ``words``; ``copies`` and, in the second step, ``lowers`` are clobbered."""
    pairs = [interleave(b, words[i], words[i + 1], copies[i // 2], selectors) for i in range(0, len(words), 2)]
    if len(pairs) == 1:
        return pairs[0]
    results: list[int] = []
    for lower, upper, free in zip(*pairs, lowers, strict=True):
        b("pv.pack.h", free, upper, lower)
        b("pv.shuffle2.h", lower, upper, selectors[2])
        results += [free, lower]
    return results


ELEMENT_SUFFIXES = {16: "h", 8: "b", 4: "n", 2: "c"}  # suffix of the vector instructions by element width
IMMEDIATE_FORMATS = frozenset({16, 8})  # element widths of vectors whose second operand may be an immediate


class Packed:
    def __init__(self, b: ElementBuilder, bits: int, registers: FreeRegisters, *, signed: bool) -> None:
        self._emit, self._bits, self._signed = b, bits, signed
        self._has_vectors = b.level.has_vectors(bits)
        self._has_masks = not self._has_vectors and bits != SIGN_BITS
        taken = registers.take(5) if self._has_masks else [ZERO] * 5
        self._high, self._low, self._a, self._b, self._mask = taken

    def begin(self) -> None:
        if self._has_masks:
            self._emit.li(self._high, repeated(1 << (self._bits - 1), self._bits))
            self._emit("xori", self._low, self._high, -1)

    def max(self, rd: int, a: int, b: int) -> None:
        emit = self._emit
        if self._has_vectors:
            emit(f"pv.max{'' if self._signed else 'u'}.{ELEMENT_SUFFIXES[self._bits]}", rd, a, b)
            return
        if self._bits == SIGN_BITS:
            emit("or", rd, a, b)
            return
        different, bit, mask = self._a, self._b, self._mask
        emit("xor", different, a, b)
        # highest bit of each element: set if the lower bits of a are at least those of b
        emit("or", bit, a, self._high)
        emit("and", mask, b, self._low)
        emit("sub", bit, bit, mask)
        # where the highest bits differ, they decide
        emit.chain(mask, bit, ("xor", b if self._signed else a), ("and", different))
        emit.chain(bit, bit, ("xor", mask), ("and", self._high))
        self._spread(bit, mask)
        emit("and", bit, bit, different)
        emit("xor", rd, b, bit)

    def relu(self, rd: int, a: int) -> None:
        if self._has_vectors:
            self._emit(f"pv.max.sc.{ELEMENT_SUFFIXES[self._bits]}", rd, a, ZERO)
            return
        self._emit("and", self._a, a, self._high)
        self._spread(self._a, self._b)
        self._emit("xori", self._a, self._a, -1)
        self._emit("and", rd, a, self._a)

    def _spread(self, bit: int, work: int) -> None:
        self._emit("srli", work, bit, self._bits - 1)
        self._emit("slli", bit, bit, 1)
        self._emit("sub", bit, bit, work)


def reciprocal(divisor: int, greatest: int) -> tuple[int, int] | None:
    """Return factor and shift with ``n * factor >> shift = n // divisor`` for ``n <= greatest`` in 32 bits, or None."""
    for shift in range(XLEN):
        factor = -(-(1 << shift) // divisor)
        # quotients change at multiples of the divisor only, and the error grows with n
        error = factor * divisor - (1 << shift)
        last = greatest // divisor * divisor + divisor - 1
        if error * last < 1 << shift and greatest * factor < 1 << XLEN:
            return factor, shift
    return None


class ConstantDivision:
    def __init__(self, b: ElementBuilder, divisor: int, most: int | None, free: FreeRegisters, *, signed: bool) -> None:
        self._b, self._divisor, self._signed, self._most = b, divisor, signed, most or 0
        self.shift = divisor.bit_length() - 1 if divisor.bit_count() == 1 else None
        self._reciprocal = None if most is None else reciprocal(divisor, most)
        self._constant = ZERO if self.shift is not None else free.take_one()

    def begin(self) -> None:
        if self.shift is None:
            self._b.li(self._constant, self._divisor if self._reciprocal is None else self._reciprocal[0])

    @property
    def by_product(self) -> tuple[int, int] | None:
        """Factor and right shift that replace the division, or None if products exceed 31 bits."""
        if self.shift is not None:
            return 1, self.shift
        if self._reciprocal is None or self._most * self._reciprocal[0] >= 1 << (XLEN - 1):
            return None
        return self._reciprocal

    def emit(self, number: int, work: int, other: int) -> None:
        """Divide ``number`` in place; ``work`` and ``other`` are clobbered."""
        b = self._b
        if self.shift == 0:
            return
        if self.shift is not None:
            if self._signed:
                # round negative numbers towards zero
                b.chain(work, number, ("srai", XLEN - 1), ("srli", XLEN - self.shift))
                b("add", number, number, work)
            b("srai" if self._signed else "srli", number, number, self.shift)
        elif self._reciprocal is None:
            b("div" if self._signed else "divu", number, number, self._constant)
        else:
            if self._signed:
                b("srai", other, number, XLEN - 1)
                b.chain(number, number, ("xor", other), ("sub", other))
            b.chain(number, number, ("mul", self._constant), ("srli", self._reciprocal[1]))
            if self._signed:
                b.chain(number, number, ("xor", other), ("sub", other))


@dataclass(frozen=True, eq=False, kw_only=True)
class MapTensors:
    activations: Ints  # `[height][width][channel]`
    folded: bool = False  # whether the map is folded in memory


class PlacedMaps:
    """Placement in memory of feature maps (HWC) with equally many channels; pixels are padded to whole words."""

    def __init__(self, request: KernelRequest, *widths: int) -> None:
        self._request, self._memory = request, request.memory
        self.padded = padded_channels(request.layer.channels, min(widths))

    def pixel_bytes(self, bits: int) -> int:
        return self.padded * bits // BYTE_BITS

    def place(self, name: str, values: Ints, bits: int, *, spare: int = 0) -> int:
        return self._memory.place(name, pack_words(pad_axis(values, 2, self.padded), bits), spare=spare)

    def reserve(self, name: str, pixels: int, bits: int) -> int:
        return self._memory.reserve(name, pixels * self.pixel_bytes(bits))

    def place_pool(self, activations: Ints) -> dict[str, int]:
        layer, precision = self._request.layer, self._request.precision
        return {
            "input": self.place("input", activations, precision.x),
            "output": self.reserve("output", layer.out_height * layer.out_width, precision.y),
            "pixel_bytes": self.pixel_bytes(precision.x),
            "out_pixel_bytes": self.pixel_bytes(precision.y),
            **window_arguments(layer),
        }


def same_elements(layer: Any, precision: Precision) -> Precision:
    name = type(layer).__name__.removesuffix("Layer").lower()
    is_same = (precision.x, precision.x_signed) == (precision.y, precision.y_signed)
    if isinstance(layer, ReluLayer):
        if not precision.x_signed or not is_same:
            raise LayerError(f"precision of relu must be signed inputs and outputs of one width, not {precision}")
        return precision
    if getattr(layer, "relu", False) and not precision.x_signed:
        raise LayerError(f"precision of {name} with relu must be signed, not {precision}")
    if not is_same:
        raise LayerError(f"precision of {name} must be inputs and outputs of one width and sign, not {precision}")
    return precision


def random_maps(layer: MapLayer, precision: Precision, rng: np.random.Generator) -> MapTensors:
    return MapTensors(activations=random_elements(layer, precision.x, rng, signed=precision.x_signed))


def random_elements(
    layer: MapLayer | WindowLayer | GatherLayer, bits: int, rng: np.random.Generator, *, signed: bool
) -> Ints:
    return random_values(bits, rng, (layer.height, layer.width, layer.channels), signed=signed)


MOST_CHANNELS = 20  # more than two words of the widest elements and one word of the narrowest
_MOST_WINDOW = 5  # Largest random window, with more rows and columns than the three up to which code is specialised


def random_window_text(rng: Random, most_channels: int) -> str:
    channels = rng.randint(1, most_channels)
    ky, kx = (rng.choice((1, 2, 3, 3, rng.randint(4, _MOST_WINDOW))) for _ in range(2))
    top, bottom = (rng.randint(0, min(2, ky - 1)) for _ in range(2))
    left, right = (rng.randint(0, min(2, kx - 1)) for _ in range(2))
    height = rng.randint(max(1, ky - top - bottom), 9)
    width = rng.randint(max(1, kx - left - right), 9)
    stride = f"{rng.randint(1, 3)}x{rng.randint(1, 3)}"
    return f"{height}x{width}x{channels}:{ky}x{kx}:s={stride},p={top}x{bottom}x{left}x{right}"


# kernels of maps: all, those of one element width, those whose results are elements of the input
map_kernel = partial(Kernel, variants=ELEMENT_LEVELS, usual_variants=("xpulpv2", "xpulpnn"))
element_kernel = partial(map_kernel, uniform=lambda bits: Precision(bits, bits, bits, w_signed=bits == SIGN_BITS))
same_kernel = partial(element_kernel, precision=same_elements)
