"""Conversion of a feature map from pixel by pixel to channel by channel, as depthwise convolutions read it."""

from dataclasses import replace
from functools import partial

from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO, Held
from xpulpnn_sw.kernels.channelwise import maps as map_kernels
from xpulpnn_sw.kernels.frame import FREE, FreeRegisters
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, Known, argument_structure
from xpulpnn_sw.kernels.layout import Program, repeated
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, even_share
from xpulpnn_sw.kernels.variants import TRANSPOSE_LEVELS, ElementLevel
from xpulpnn_sw.layers.layer import TransposeLayer
from xpulpnn_sw.layers.text import random_sizes

TRANSPOSE_ARGUMENTS = argument_structure(
    "transpose",
    ArgumentField("input", "feature map, pixel by pixel", pointer=True),
    ArgumentField("output", "feature map, channel by channel", pointer=True),
    ArgumentField("height", "rows"),
    ArgumentField("width", "columns"),
    ArgumentField("pixel_bytes", "bytes of an input pixel"),
    ArgumentField("row_bytes", "bytes from one output row to the next"),
    notes="""\
The output is [channel][row][column], as the input of a depthwise convolution: rows of whole words, padded with
undefined elements, for all channels of an input pixel including padding. Up to three pixels behind the input may be
read, up to seven if elements have 4 or 2 bits.""",
)


def transpose_kernel(request: KernelRequest) -> KernelRun:
    layer, precision, tensors, level = request.layer, request.precision, request.tensors, request.level
    memory = request.memory
    maps = map_kernels.PlacedMaps(request, precision.x)
    pixel_bytes = maps.pixel_bytes(precision.x)
    row_bytes = -(-layer.width * precision.x // (WORD * BYTE_BITS)) * WORD
    # loads of a row's last pixels run past its end
    ahead = -layer.width % turn_pixels(level, precision.x)
    arguments = {
        "input": maps.place("input", tensors.activations, precision.x, spare=ahead * pixel_bytes // WORD),
        "output": memory.reserve("output", maps.padded * layer.height * row_bytes),
        "height": layer.height,
        "width": layer.width,
        "pixel_bytes": pixel_bytes,
        "row_bytes": row_bytes,
    }
    code = partial(TransposeCode, level, precision.x)
    run = request.finish("transpose", TRANSPOSE_ARGUMENTS, arguments, lambda known: code(known).write())
    return replace(run, output=replace(run.output, pixel_bytes=row_bytes, planes=True))


_GROUPS = {8: 4, 4: 4, 2: 2}  # bytes of a row written per iteration, by element width, limited by the registers
_SCRATCH = 8  # registers for words, the first to be allocated


def turn_pixels(level: ElementLevel, bits: int) -> int:
    return (_GROUPS[bits] if level.xpulp else 1) * BYTE_BITS // bits


class TransposeCode:
    def __init__(self, level: ElementLevel, bits: int, known: Known) -> None:
        self._b, self._bits = map_kernels.ElementBuilder(level), bits
        # pixels whose elements share a byte, and pixels of an iteration
        self._lanes, self._pixels = BYTE_BITS // bits, turn_pixels(level, bits)
        self._groups = self._pixels // self._lanes
        registers = FreeRegisters()
        # shared with the arguments, which are dead by then; surplus registers serve to compute the numbers
        self._words = registers.take(_SCRATCH)[: self._pixels]
        assert set(map_kernels.ARGUMENT_REGISTERS) < {*FREE[:_SCRATCH]}
        self._work, self._counter, self._rows = registers.take(3)
        self._source, self._target, self._left = registers.take(3)
        self._masks = registers.take(self._lanes.bit_length() - 1)
        self._selectors = registers.take({4: 3, 2: 2, 1: 0}[self._groups])
        steps = ("pixel", "plane", "back", "next_row", "source_row")
        self._steps = dict(zip(steps, registers.take(len(steps)), strict=True))
        homes = {**self._steps, "source": self._source, "target": self._target, "left": self._left}
        preferred = ("turns", "height", "source_wrap", "target_wrap")
        self._frame = self._b.frame(TRANSPOSE_ARGUMENTS, known, self._terms(), homes, registers, preferred)

    def _terms(self) -> dict[str, Term]:
        height, width, pixel, row = (Argument(name) for name in ("height", "width", "pixel_bytes", "row_bytes"))
        turns, plane, channels = Name("turns"), Name("plane"), XLEN // self._bits
        line, first_row = Name("line"), Name("first_row")
        return {
            "turns": (width + (self._pixels - 1)) // self._pixels,
            "line": width * pixel,
            "height": height,
            **even_share((pixel // WORD) * height),
            "rows": Name("count"),
            "first_word": Name("begin") // height,
            "first_row": Name("begin") - Name("first_word") * height,
            "left": height - first_row,
            "pixel": pixel,
            "plane": height * row,
            # from the last channel's bytes of an iteration to the first channel's of the next
            "back": plane * (1 - channels) + self._groups,
            "source_row": line - turns * self._pixels * pixel,
            "next_row": row - turns * self._groups,
            "source_wrap": Number(WORD) - height * line,
            "target_wrap": plane * (channels - 1),
            "source": Argument("input") + Name("first_word") * WORD + first_row * line,
            "target": Argument("output") + Name("first_word") * plane * channels + first_row * row,
        }

    def write(self) -> Program:
        with self._frame.function(), self._b.region("body"):
            for distance, mask in enumerate(self._masks):
                width = self._bits << distance
                self._b.li(mask, repeated((1 << width) - 1, 2 * width))
            selectors = (*map_kernels.INTERLEAVED, map_kernels.UPPER_HALVES)
            for selector, value in zip(self._selectors, selectors, strict=False):
                self._b.li(selector, value)
            self._b.repeat(self._frame.value("rows", self._rows), self._rows, self._row, level=1)
        return self._b.finish()

    def _row(self) -> None:
        b, frame = self._b, self._frame
        with b.skipped("bne", self._left, ZERO):
            b.add(self._source, frame.value("source_wrap", self._work), self._work)
            b.add(self._target, frame.value("target_wrap", self._work), self._work)
            frame.load("height", self._left)
        b("addi", self._left, self._left, -1)
        with b.loop(frame.value("turns", self._counter), self._counter, level=0):
            self._turn()
        b("add", self._source, self._source, self._steps["source_row"])
        b("add", self._target, self._target, self._steps["next_row"])

    def _turn(self) -> None:
        for word in self._words:
            self._b.load(word, self._source, Held(self._steps["pixel"]))
        for distance, mask in enumerate(self._masks):
            for number, word in enumerate(self._words):
                if not number >> distance & 1:
                    other, width = self._words[number + (1 << distance)], self._bits << distance
                    self._b.exchange(word, other, width, mask, self._work)
        # a result for each pixel of a byte; a register freed by one serves the next
        free, made = self._work, list[list[int]]()
        for number in range(self._lanes):
            results, free = self._interleave(self._words[number :: self._lanes], free)
            made.append(results)
        parts = WORD // self._groups
        bits, places = XLEN // parts, WORD // len(made[0])
        last = made[-1][-1], places - 1
        for group in zip(*made, strict=True):
            for place in range(places):
                for word in group:
                    if place:
                        self._b("srli", word, word, bits)
                    step = "back" if (word, place) == last else "plane"
                    self._b.store(word, self._target, Held(self._steps[step]), bits=bits)

    def _interleave(self, words: list[int], free: int) -> tuple[list[int], int]:
        if len(words) == 1:
            return words, free
        last = words[1]
        return map_kernels.interleave_words(self._b, words, [free, last], words[:1:-1], self._selectors), last


TRANSPOSE = map_kernels.same_kernel(
    name="transpose",
    help="conversion of a map from pixel by pixel to channel by channel",
    layer=TransposeLayer,
    usual="16x16x32",
    write=transpose_kernel,
    variants=TRANSPOSE_LEVELS,
    usual_variants=tuple(TRANSPOSE_LEVELS),
    random=map_kernels.random_maps,
    random_text=lambda rng: random_sizes(rng, 5, 20, 2 * map_kernels.MOST_CHANNELS),
    structures=(TRANSPOSE_ARGUMENTS,),
)
