"""Kernel of matrix products of two feature maps of bytes, ``batchmatmul``."""

from dataclasses import replace
from functools import partial

import numpy as np

from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO
from xpulpnn_sw.kernels.channelwise.maps import ElementBuilder, PlacedMaps, element_kernel
from xpulpnn_sw.kernels.channelwise.moves import PRODUCT_BITS, MultiplyTensors, random_product, shared_loop
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, argument_structure
from xpulpnn_sw.kernels.layout import padded_channels
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given
from xpulpnn_sw.kernels.variants import TRANSPOSE_LEVELS
from xpulpnn_sw.layers.layer import BatchMatmulLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.layers.text import random_sizes

_LEFT, _LEFT_TWICE = XLEN - PRODUCT_BITS, 2  # left shifts of sums, of which the upper words of products are taken
_PAIR = 2  # columns that are computed together
_PRODUCTS = {(False, False): "up", (True, True): "sp", (False, True): "usp", (True, False): "usp"}  # by signs
_ZEROS = ("first_zero", "second_zero")
_RULE = ("left", "factor", "twice", "summand", "shift")

BATCH_MATMUL_ARGUMENTS = argument_structure(
    "batchmatmul",
    ArgumentField("first", "one feature map, [row][pixel][channel]", pointer=True),
    ArgumentField("second", "the other feature map, [row][column][channel]", pointer=True),
    ArgumentField("output", "results", pointer=True),
    *(ArgumentField(name, f"the {name.replace('_', ' ')}") for name in (*_ZEROS, *_RULE)),
    ArgumentField("width", "pixels of a row"),
    ArgumentField("columns", "columns of a row, which are channels of the results"),
    ArgumentField("out_bytes", "bytes of an output pixel"),
    ArgumentField("channels", "channels of the input"),
    ArgumentField("row_bytes", "bytes of an input pixel"),
    ArgumentField("steps", "pixels of the results"),
    notes="""\
clip((((sum((a - first_zero) * (b - second_zero)) << left) * factor >> 32) + summand) >> shift). If twice is 1, the
upper words are first rounded by a bit, and halves then away from zero. Width and sign of weights in the name are those
of the second map.""",
)


def _random_matrices(layer: BatchMatmulLayer, precision: Precision, rng: np.random.Generator) -> MultiplyTensors:
    first, other = (random_product(side, precision, rng) for side in (layer, replace(layer, width=layer.out_channels)))
    # half of the zero points are 0, for which the code is shorter
    zeros, more = first.zeros * rng.integers(0, 2, 2), layer.channels.bit_length() // 2 + 2
    return replace(first, second=other.second, zeros=zeros, factor=first.factor >> more, twice=int(rng.integers(2)))


def batch_matmul_kernel(request: KernelRequest) -> KernelRun:
    layer, tensors, maps, level = request.layer, request.tensors, PlacedMaps(request, BYTE_BITS), request.level
    arguments = {name: maps.place(name, getattr(tensors, name), BYTE_BITS) for name in ("first", "second")}
    left = _LEFT_TWICE if tensors.twice else min(_LEFT, most_left(layer.channels))
    numbers = (*map(int, tensors.zeros), left, tensors.factor, int(tensors.twice != 0), tensors.summand, tensors.shift)
    arguments |= dict(zip((*_ZEROS, *_RULE), numbers, strict=True))
    arguments |= {"width": layer.width, "columns": layer.out_channels, "channels": layer.channels}
    arguments |= {"out_bytes": padded_channels(layer.out_channels, BYTE_BITS), "row_bytes": maps.padded}
    arguments["steps"] = layer.height * layer.width
    arguments["output"] = request.memory.reserve("output", arguments["steps"] * arguments["out_bytes"])
    row, width, channels, columns = (Argument(name) for name in ("row_bytes", "width", "channels", "columns"))
    begin, rows = Name("begin"), Name("rows")
    more: dict[str, Term] = {
        "words": channels // WORD if level.xpulp else Number(0),
        "rest": channels - Name("words") * WORD,
        "start": Name("words") * WORD * Argument("first_zero") * Argument("second_zero"),
        "rows": columns * row,
        "head": begin // width,
        "left_pixels": (Name("head") + 1) * width - begin,
        "second": Argument("second") + Name("head") * rows,
        "last": Name("second") + rows - row,
        "pairs": (columns + (_PAIR - 1)) // _PAIR,
        "pair_gap": row * _PAIR - channels,
        "out_gap": Argument("out_bytes") - Name("pairs") * _PAIR,
        **given("width", "row_bytes", *_RULE),
    }
    moved = {"first": begin * row, "output": begin * Argument("out_bytes")}
    pixel = _Products(request.precision, xpulp=level.xpulp).pixel
    write = partial(shared_loop, level, BATCH_MATMUL_ARGUMENTS, moved, _ZEROS, 14, pixel, more=more)
    return request.finish("batchmatmul", BATCH_MATMUL_ARGUMENTS, arguments, write)


def most_left(channels: int) -> int:
    """Return the largest left shift of sums of so many products that does not overflow 32 bits."""
    return XLEN - 1 - 2 * BYTE_BITS - (channels - 1).bit_length()


class _Products:
    """Code of an output pixel, a pair of columns at a time."""

    def __init__(self, precision: Precision, *, xpulp: bool) -> None:
        self._signs, self._results_signed = (precision.x_signed, precision.w_signed), precision.y_signed
        self._xpulp = xpulp

    def pixel(self, b: ElementBuilder, frame: Frame, *work: int) -> None:
        self._b, self._frame, (pairs, self._counter, self._work) = b, frame, work[:3]
        # a pixel of the first map and two of the second, their elements, sums of products and of elements
        self._pointers, self._values, self._sums, self._ones = work[3:6], work[6:9], work[9:11], work[11:]
        row, free = self._pointers[0], self._values[1:]
        frame.load("second", self._pointers[1])
        with b.loop(frame.value("pairs", pairs), pairs, level=1):
            self._pair()
        for name, step in (("first", "row_bytes"), ("output", "out_gap")):
            frame.advance(name, frame.value(step, self._work), *free)
        frame.load("left_pixels", row)
        b("addi", row, row, -1)
        with b.skipped("bne", row, ZERO):
            for name in ("second", "last"):
                frame.advance(name, frame.value("rows", self._work), *free)
            frame.load("width", row)
        frame.store("left_pixels", row)

    def _pair(self) -> None:
        b, frame, (row, second, other), sums, work = self._b, self._frame, self._pointers, self._sums, self._work
        b("add", other, second, frame.register("row_bytes", work))
        # an odd last column is computed twice
        b.at_most(other, frame.register("last", work), *self._values[1:])
        b.mv(row, frame.homes["first"])
        frame.load("start", sums[0])
        b.mv(sums[1], sums[0])
        if self._xpulp:
            zeros = [frame.homes[name] * (frame.constants.get(name) != 0) for name in _ZEROS]
            for total in self._ones:
                b.li(total, 0)
            b.repeat(frame.value("words", self._counter), self._counter, partial(self._word, *zeros), level=0)
            for total, ones in zip(sums, self._ones[1:], strict=True):
                b("p.msu", total, ones, zeros[0])
                b("p.msu", total, self._ones[0], zeros[1])
        b.repeat(frame.value("rest", self._counter), self._counter, self._element, level=0)
        b.add(second, frame.value("pair_gap", work), work)
        self._store()

    def _load(self, size: int) -> None:
        signs = (self._signs[0], *self._signs[1:] * _PAIR)
        for value, pointer, signed in zip(self._values, self._pointers, signs, strict=True):
            self._b.load(value, pointer, size, bits=size * BYTE_BITS, signed=signed)

    def _word(self, first_zero: int, second_zero: int) -> None:
        """Add the products of a word, and the elements that zero points, unless they are 0, must be multiplied by."""
        b, (first, *seconds), (first_signed, second_signed) = self._b, self._values, self._signs
        self._load(WORD)
        for ones, value in ((self._ones[0], first),) if second_zero else ():
            b(f"pv.sdot{'us'[first_signed]}p.sci.b", ones, value, 1)
        for total, value in zip(self._sums, seconds, strict=True):
            # the unsigned operand comes first
            operands = (value, first) if first_signed > second_signed else (first, value)
            b(f"pv.sdot{_PRODUCTS[self._signs]}.b", total, *operands)
        for ones, value in zip(self._ones[1:], seconds, strict=True) if first_zero else ():
            b(f"pv.sdot{'us'[second_signed]}p.sci.b", ones, value, 1)

    def _element(self) -> None:
        self._load(1)
        for value, zero in zip(self._values, (_ZEROS[0], *_ZEROS[1:] * _PAIR), strict=True):
            self._b("sub", value, value, self._frame.homes[zero])
        for total, value in zip(self._sums, self._values[1:], strict=True):
            self._b.accumulate(total, self._values[0], value, value)

    def _store(self) -> None:
        b, frame, (operand, work, _), sums = self._b, self._frame, self._values, self._sums
        for name, step in zip(_RULE, ("sll", "mulh", "", "add", "sra"), strict=True):
            number = frame.register(name, operand)
            for total in sums:
                if step:
                    b(step, total, total, number)
                elif frame.constants.get(name) != 0:
                    b.chain(total, total, ("add", number), ("sra", number))
                    b.chain(work, total, ("srli", XLEN - 1), ("mul", number))
                    b("sub", total, total, work)
        for place, total in enumerate(sums):
            b.clip(total, total, BYTE_BITS, work, signed=self._results_signed)
            b.insert(sums[0], total, BYTE_BITS, place * BYTE_BITS)
        b.store(sums[0], frame.homes["output"], _PAIR, bits=_PAIR * BYTE_BITS)


BATCH_MATMUL = element_kernel(
    name="batchmatmul",
    help="matrix product of each row of two feature maps without their zero points",
    layer=BatchMatmulLayer,
    usual="4x64x32:64",
    write=batch_matmul_kernel,
    random=_random_matrices,
    random_text=lambda rng: f"{random_sizes(rng, 3, 6, 20)}:{rng.randint(1, 9)}",
    structures=(BATCH_MATMUL_ARGUMENTS,),
    variants={name: replace(level, widths=frozenset({BYTE_BITS})) for name, level in TRANSPOSE_LEVELS.items()},
    usual_variants=tuple(TRANSPOSE_LEVELS),
    samples=("2x3x5:4",),
)
