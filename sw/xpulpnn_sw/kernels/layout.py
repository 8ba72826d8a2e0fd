"""A kernel in memory: its code, the addresses of its operands, and tensors as words.

Feature maps are HWC with little-end-first packing, filters ``[out][ky][kx][in]``. Channels of inputs and outputs are
padded with zeros to whole 32-bit words and to multiples of four (:func:`padded_channels`), so that a result is the next
layer's input and no kernel meets a partial word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, DATA_BASE, WORD_BYTES, XLEN
from xpulpnn.isa.xif import PIXELS
from xpulpnn_sw.kernels.variants import CHANNELS_PER_BLOCK
from xpulpnn_sw.layers.layer import MaxPoolLayer
from xpulpnn_sw.layers.precision import SIGN_BITS

Bools = NDArray[np.bool_]

REGIONS = ("call", "setup", "im2col", "matmul", "body", "quant")
"""Names of the parts of a program. ``call`` is the set-up of the call; ``setup`` the prologue, the epilogue and the
pixel loop; ``im2col`` the gather; ``matmul`` the start of accumulators and the products; ``body`` the work per element
in other kernels; ``quant`` requantisation and stores."""


@dataclass(frozen=True, eq=False)
class Program:
    words: NDArray[np.uint32]  # instruction words, all 32 bits long
    pcs: NDArray[np.uint32]  # addresses of the words
    insns: tuple[Insn, ...]  # rows of the instruction table
    # part of the kernel of each instruction, out of REGIONS; in a network the name of its layer
    regions: tuple[str, ...]
    hwloop_end: Bools  # set for the last instruction of a hardware-loop body
    is_inner: Bools  # set for the instructions of the innermost MatMul loop

    def __len__(self) -> int:
        return len(self.insns)

    def region(self, name: str) -> Bools:
        return np.array([region == name for region in self.regions], dtype=np.bool_)

    @cached_property
    def dotps(self) -> NDArray[np.int64]:
        """Number of dot products in each instruction; 0 for products into x0, which only load the NN-RF."""
        kinds = ("pv.sdot", "pv.mlsdot", "pv.mldot", "pv.cusdot", "pv.mlsduo", "pv.mlduo")
        products = [
            {"pa.blk": 2 * PIXELS, "pa.acc": 1}.get(insn.op, 0)
            + (1 + insn.is_pair) * (insn.op.startswith(kinds) and insn.decode(int(word))["rd"] != 0)
            for insn, word in zip(self.insns, self.words, strict=True)
        ]
        return np.array(products, dtype=np.int64) + self._is_count

    @cached_property
    def _is_count(self) -> Bools:
        return self.is_inner & np.array([insn.op == "cnt" for insn in self.insns], dtype=np.bool_)

    @cached_property
    def is_mul(self) -> Bools:
        """Mask of the scalar multiplications in the inner loop; binary operands need one for each word."""
        return self.is_inner & np.array([insn.op == "mul" for insn in self.insns], dtype=np.bool_)

    @cached_property
    def products(self) -> NDArray[np.int64]:
        lanes = [insn.fmt.lanes if insn.fmt is not None else 0 for insn in self.insns]
        return np.where(self._is_count, XLEN, self.dotps * np.array(lanes, dtype=np.int64) + self.is_mul)

    @property
    def opef(self) -> float:
        """Operand efficiency: products per instruction of the innermost loop, in the static code; 0 without a loop."""
        return float((self.dotps + self.is_mul)[self.is_inner].sum() / max(self.is_inner.sum(), 1))


def joined_programs(parts: Sequence[Program]) -> Program:
    return Program(
        words=np.concatenate([part.words for part in parts]),
        pcs=np.concatenate([part.pcs for part in parts]),
        insns=tuple(insn for part in parts for insn in part.insns),
        regions=tuple(region for part in parts for region in part.regions),
        hwloop_end=np.concatenate([part.hwloop_end for part in parts]),
        is_inner=np.concatenate([part.is_inner for part in parts]),
    )


MAX_DATA = 1 << 27  # most bytes of operands, which end well below the text

BANKED_WORDS = 32  # words after which the banks of a memory with up to so many word-interleaved banks repeat

# placement in banks of pieces read side by side: each begins two banks after the one before, or all in the same bank
Placement = Literal["padded", "aligned"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)

BANKS_BETWEEN = 2  # banks between filters and activation rows, if a core reads both alternately
_BANKS_APART = 2  # banks between two streams of which two words each are read alternately
Ints = NDArray[np.integer[Any]]
Words = NDArray[np.uint32]


def padded_channels(channels: int, bits: int) -> int:
    """Return the number of channels in memory: a multiple of the elements in a word and of four."""
    unit = max(XLEN // bits, CHANNELS_PER_BLOCK)
    return -(-channels // unit) * unit


def banked_words(words: int, placement: Placement) -> int:
    """Return the least distance, in words, that ``placement`` allows between arrays of ``words`` words."""
    offset = _BANKS_APART if placement == "padded" else 0
    return -(-(words - offset) // BANKED_WORDS) * BANKED_WORDS + offset


def pad_axis(values: Ints, axis: int, length: int) -> Ints:
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, length - values.shape[axis])
    return np.pad(values, widths)


def pack_words(values: Ints, bits: int) -> Words:
    """Pack the elements of the last axis into words, the first element lowest; binary elements are 1 if positive."""
    lanes = XLEN // bits
    words = -(-values.shape[-1] // lanes)
    filled = pad_axis(values, values.ndim - 1, words * lanes).astype(np.int64)
    elements = (filled > 0).astype(np.int64) if bits == SIGN_BITS else filled & ((1 << bits) - 1)
    grouped = elements.reshape(*values.shape[:-1], words, lanes)
    return (grouped << (np.arange(lanes) * bits)).sum(axis=-1).astype(np.uint32)


def repeated(element: int, bits: int) -> int:
    return sum(element << place for place in range(0, XLEN, bits))


def unpack_elements(data: NDArray[np.uint8], bits: int) -> NDArray[np.int64]:
    if bits >= BYTE_BITS:
        return data.view(np.dtype(f"<u{bits // BYTE_BITS}")).astype(np.int64)
    positions = np.arange(0, BYTE_BITS, bits)
    return (data[..., np.newaxis] >> positions & ((1 << bits) - 1)).reshape(*data.shape[:-1], -1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Symbol:
    address: int
    length: int


@dataclass(frozen=True, eq=False)
class Image:
    base: int  # address of the first byte
    data: NDArray[np.uint8]
    symbols: Mapping[str, Symbol]  # pieces of memory by name

    def view(self, name: str, memory: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        symbol = self.symbols[name]
        start = symbol.address - self.base
        return (self.data if memory is None else memory)[start : start + symbol.length]


class ImageBuilder:
    """A memory layout: consecutive symbols from ``base`` on, each rounded up to ``unit`` bytes."""

    def __init__(self, base: int = DATA_BASE, unit: int = WORD_BYTES) -> None:
        self.base, self.end, self._unit = base, base, unit
        self.symbols: dict[str, Symbol] = {}
        self._contents: list[tuple[int, NDArray[np.uint8]]] = []

    def reserve(self, name: str, length: int, *, alignment: int = WORD_BYTES, offset: int = 0) -> int:
        """Reserve ``length`` zero bytes, ``offset`` bytes above a multiple of ``alignment``; return the address."""
        address = offset - (offset - self.end) // alignment * alignment
        if address + length - self.base > MAX_DATA:
            raise LayerError(f"operands must be at most {MAX_DATA} bytes, not {address + length - self.base}")
        self.symbols[name] = Symbol(address, length)
        self.end = address + -(-length // self._unit) * self._unit
        return address

    def place(self, name: str, content: Words | bytes, *, spare: int = 0, alignment: int = WORD_BYTES) -> int:
        data = content if isinstance(content, bytes) else np.ascontiguousarray(content, dtype="<u4").tobytes()
        address = self.reserve(name, len(data) + spare * WORD_BYTES, alignment=alignment)
        self._contents.append((address - self.base, np.frombuffer(data, np.uint8)))
        return address

    def finish(self) -> Image:
        data = np.zeros(self.end - self.base, dtype=np.uint8)
        for start, content in self._contents:
            data[start : start + content.size] = content
        return Image(self.base, data, self.symbols)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLayout:
    symbol: str  # symbol of the results in the image
    bits: int  # element width, 32 for signed accumulators; single bits stand for -1 or +1
    shape: tuple[int, ...]  # shape of the decoded array, channels last
    pixel_bytes: int  # bytes between two pixels
    signed: bool = False  # whether results below 32 bits are two's complement
    planes: bool = False  # whether results lie channel by channel, each row padded to whole words
    flat: bool = False  # whether results lie channel by channel, each channel padded to whole words
    grouped: bool = False  # whether four pixels at a time lie word by word

    @property
    def in_rows(self) -> "OutputLayout":
        if not self.planes and not self.flat:
            return self
        rows, columns, channels = self.shape
        shape = (channels, rows * columns) if self.flat else (channels, rows, columns)
        return replace(self, shape=shape, planes=False, flat=False)

    def decode(self, image: Image, memory: NDArray[np.uint8]) -> NDArray[np.int64]:
        if self.planes or self.flat:
            rows, columns, channels = self.shape
            return self.in_rows.decode(image, memory).reshape(channels, rows, columns).transpose(1, 2, 0)
        pixels = image.view(self.symbol, memory).reshape(-1, self.pixel_bytes)
        if self.grouped:
            words = pixels.reshape(-1, self.pixel_bytes // WORD_BYTES, GROUPED_PIXELS, WORD_BYTES)
            pixels = words.transpose(0, 2, 1, 3).reshape(pixels.shape)
        count = int(np.prod(self.shape[:-1]))
        elements = unpack_elements(np.ascontiguousarray(pixels[:count]), self.bits)[:, : self.shape[-1]]
        if self.bits == SIGN_BITS:
            elements = 2 * elements - 1
        elif self.bits == XLEN:
            elements = elements.astype(np.uint32).view(np.int32).astype(np.int64)
        elif self.signed:
            half = 1 << (self.bits - 1)
            elements = (elements ^ half) - half
        return elements.reshape(self.shape)


GROUPED_PIXELS = 4
FOLDED_COLUMNS = 4  # columns folded together, one of which is not stored
_WINDOW, _STRIDE, _SIDES = (3, 3), (2, 2), (0, 1)


def fold(values: Ints) -> Ints:
    """Fold columns for 3x3 pooling of stride 2: every four columns a, b, c, d become a, max(a, b, c), max(c, d), 0."""
    first, second, third, last = (values[:, place::FOLDED_COLUMNS] for place in range(FOLDED_COLUMNS))
    folded = np.zeros_like(values)
    folded[:, ::FOLDED_COLUMNS] = first
    folded[:, 1::FOLDED_COLUMNS] = np.maximum(np.maximum(first, second), third)
    folded[:, 2::FOLDED_COLUMNS] = np.maximum(third, last)
    return folded


def is_stored(values: Ints) -> Ints:
    stored = np.ones_like(values)
    stored[:, FOLDED_COLUMNS - 1 :: FOLDED_COLUMNS] = 0
    return stored


def takes_folded(layer: MaxPoolLayer) -> bool:
    # windows begin at the first row; tiles above others have no pads below
    window, (top, _, *sides) = (layer.kernel_height, layer.kernel_width), layer.padding
    is_plain = (window, layer.stride, top, tuple(sides)) == (_WINDOW, _STRIDE, 0, _SIDES)
    return is_plain and not layer.width % FOLDED_COLUMNS
