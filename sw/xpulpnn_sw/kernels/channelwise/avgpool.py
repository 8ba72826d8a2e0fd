"""Average pooling: window sums divided by the window's area, rounded towards zero.

The elements of each word are spread over several words with wider lanes, which can hold the sum of a window. Signed
elements are made unsigned by adding half their range; their sums are corrected at the end.
"""

from dataclasses import dataclass

import numpy as np

from xpulpnn.errors import LayerError, require
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, Value
from xpulpnn_sw.kernels.channelwise import maps as map_kernels
from xpulpnn_sw.kernels.channelwise.maxpool import random_map
from xpulpnn_sw.kernels.channelwise.pooling import POOL, Pooling, window_name
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, Known, Structure, argument_structure
from xpulpnn_sw.kernels.layout import Ints, repeated
from xpulpnn_sw.kernels.terms import Argument, Term
from xpulpnn_sw.layers.layer import AvgPoolLayer
from xpulpnn_sw.layers.precision import Precision

_TURNS = 0x06020400  # selector of ``pv.shuffle2.b`` that interleaves the even bytes of two words
_FACTOR_BITS = 8  # width of random factors

AVGPOOL_ARGUMENTS = argument_structure(
    "avgpool",
    *POOL,
    notes="For the window and stride in its name: the window's sum over its area, rounded towards zero.",
)
AVGPOOL_SCALED_ARGUMENTS = argument_structure(
    "avgpool_scaled",
    *POOL,
    ArgumentField("factor", "factor of a window's sum, not negative"),
    ArgumentField("summand", "added to the quotient"),
    ArgumentField("shift", "right shift of the result"),
    notes="For the window and stride in its name: (factor * sum / area + summand) >> shift, clipped.",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class AvgPoolTensors:
    activations: Ints  # the map, `[height][width][channel]`
    factor: int  # factor of the requantisation `clip((sum * factor / area + summand) >> shift)`, if there is one
    summand: int  # summand of the requantisation
    shift: int  # right shift of the requantisation

    def __post_init__(self) -> None:
        require(self.factor >= 0, f"factor must be at least 0, not {self.factor}", LayerError)
        require(0 <= self.shift < XLEN, f"shift must be 0..{XLEN - 1}, not {self.shift}", LayerError)


def random_avgpool(layer: AvgPoolLayer, precision: Precision, rng: np.random.Generator) -> AvgPoolTensors:
    factor = int(rng.integers(3 << (_FACTOR_BITS - 2), 1 << _FACTOR_BITS))
    shift = _FACTOR_BITS
    if precision.y > precision.x:
        factor <<= precision.y - precision.x
    else:
        shift += precision.x - precision.y
    half = 1 << shift + precision.y - 1
    offset = {(True, False): half, (False, True): -half}.get((precision.x_signed, precision.y_signed), 0)
    activations = random_map(layer, precision, rng)
    summand = offset + int(rng.integers(0, 1 << shift))
    return AvgPoolTensors(activations=activations, factor=factor, summand=summand, shift=shift)


def avgpool_kernel(request: KernelRequest) -> KernelRun:
    layer, precision, tensors = request.layer, request.precision, request.tensors
    maps = map_kernels.PlacedMaps(request, precision.x, precision.y)
    arguments = maps.place_pool(tensors.activations)
    arguments |= {"factor": tensors.factor, "summand": tensors.summand, "shift": tensors.shift}
    name = f"{'avgpool_scaled' if layer.scaled else 'avgpool'}_{window_name(layer)}"
    structure = AVGPOOL_SCALED_ARGUMENTS if layer.scaled else AVGPOOL_ARGUMENTS
    return request.finish(name, structure, arguments, lambda known: _AvgPooling(request, structure, known).write())


class _AvgPooling(Pooling):
    repeats_rows = False

    def __init__(self, request: KernelRequest, structure: Structure, known: Known) -> None:
        super().__init__(request, structure, known)
        layer, precision, level = request.layer, request.precision, request.level
        self._scaled, self._bits = layer.scaled, precision.x
        greatest = layer.area * ((1 << precision.x) - 1)
        self._half = 1 << (precision.x - 1) if precision.x_signed else 0
        # narrowest fields that hold the sum of a window
        self._width = next(width for width in (4, 8, 16, 32) if width > precision.x and greatest < 1 << width)
        take = self.registers.take
        self._sums = take(self._width // self._bits)
        self._work, self._mask = take(2)
        self._flip = take(1)[0] if precision.x_signed else ZERO
        # needed only after the last word of a window
        self._offset = self.values[-1]
        self._division = division = map_kernels.ConstantDivision(
            self.b, layer.area, None if layer.scaled else greatest, self.registers, signed=precision.x_signed
        )
        # of two fields, the lower one is the sum of whole words less the upper field
        self._is_split = len(self._sums) == 2
        self._pending: int | None = None
        # whether a shuffle interleaves the results of both sums
        self._is_shuffled = self._is_split and self._bits == BYTE_BITS and level.xpulp
        # unsigned sums: one shift divides and requantises, or divides all fields of a word
        by_shift = not self._half and division.shift is not None
        self._is_folded = self._scaled and by_shift
        is_same = not precision.y_signed and precision.x == precision.y
        self._is_shifted = not self._scaled and by_shift and is_same
        self._requantises = level.requantises and not self._is_shifted
        # factor and shift by which ``pv.rq`` divides sums, if possible
        self._quotient = None if self._scaled or self._half else division.by_product

    @property
    def extra_terms(self) -> dict[str, Term]:
        if not self._scaled:
            return {}
        place = self._division.shift or 0 if self._is_folded else 0
        factor, summand, shift = map(Argument, ("factor", "summand", "shift"))
        return {"factor": factor, "summand": summand * (1 << place), "shift": shift + place}

    def begin(self) -> None:
        b, frame, (factor, summand, work, *_) = self.b, self.frame, self.values
        # shuffled words need no mask, so that the register holds the selector
        b.li(self._mask, _TURNS if self._is_shuffled else repeated((1 << self._bits) - 1, self._width))
        if self._half:
            b.li(self._flip, repeated(self._half, self._bits))
        self._division.begin()
        if self._requantises:
            kappa: Value = 1 if self._quotient is None else self._quotient[0]
            if self._is_folded:
                kappa = Held(frame.register("factor", factor))
            lam = Held(frame.register("summand", summand)) if self._scaled else 0
            b.set_requantiser(kappa, lam, work)

    def start(self, pointer: int) -> None:
        self.b.clear(self._sums)

    def take(self, word: int) -> None:
        self._add(word, is_first=False)

    def finish(self, out: int, rows: int, columns: int) -> None:
        if self._half:
            b = self.b
            b.chain(self._offset, rows, ("mul", columns), ("slli", self._bits - 1))
        self._results(out)

    def whole_window(self, pointers: list[int], out: int) -> None:
        missing, is_first = self.layer.kernel_width, True
        while missing:
            count = min(missing, self.most_columns)
            missing -= count
            for column in self.load_columns(pointers, count, skips=not missing):
                for word in column:
                    self._add(word, is_first=is_first)
                    is_first = False
                # before the register of the word is overwritten
                if self._pending is not None:
                    self.b.mv(self._sums[0], self._pending)
                    self._pending = None
        if self._half:
            self.b.li(self._offset, self.layer.area * self._half)
        self._results(out)

    def _add(self, word: int, *, is_first: bool) -> None:
        if self._half:
            self.b("xor", word, word, self._flip)
        for number, total in enumerate(self._sums):
            if number == 0 and self._is_split:
                source = word
                if is_first:
                    self._pending = word
                    continue
                if self._pending is not None:
                    self.b("add", total, self._pending, word)
                    self._pending = None
                    continue
            else:
                source = total if is_first else self._work
                self._field(source, word, number)
            if not is_first:
                self.b("add", total, total, source)

    def _field(self, rd: int, word: int, number: int) -> None:
        is_top = number == len(self._sums) - 1
        if number == 0:
            self.b("and", rd, word, self._mask)
        elif is_top and self._width == XLEN:
            self.b("srli", rd, word, number * self._bits)
        else:
            self._shift_fields(rd, word, number * self._bits, is_top=is_top)

    def _shift_fields(self, rd: int, word: int, places: int, *, is_top: bool) -> None:
        if is_top and self.b.xpulp and self._width in map_kernels.IMMEDIATE_FORMATS:
            self.b(f"pv.srl.sci.{map_kernels.ELEMENT_SUFFIXES[self._width]}", rd, word, places)
        else:
            self.b.chain(rd, word, ("srli", places), ("and", self._mask))

    def _results(self, out: int) -> None:
        if self._is_split:
            self.b("slli", self._work, self._sums[1], self._bits)
            self.b("sub", self._sums[0], self._sums[0], self._work)
        if self._is_shifted:
            self._merge_shifted(self._division.shift or 0)
            self.store(self._sums[0], out)
        else:
            self._requantise_each(out)

    def _merge_shifted(self, shift: int) -> None:
        first, *others = self._sums
        for number, total in enumerate(self._sums):
            self._shift_fields(total, total, shift, is_top=True)
            if number and not self._is_shuffled:
                self.b("slli", total, total, number * self._bits)
        if self._is_shuffled:
            self.b("pv.shuffle2.b", first, others[0], self._mask)
            return
        for total in others:
            self.b("or", first, first, total)

    def _requantise_each(self, out: int) -> None:
        b, frame, precision = self.b, self.frame, self.precision
        value, work, word, other, third, *_ = self.values
        signed = precision.y_signed
        lanes, bits = XLEN // self._bits, precision.y
        per_word = min(lanes, XLEN // bits)
        last = summand = ZERO
        if self._requantises and self._scaled:
            last = frame.register("shift", third)
        elif self._requantises and self._quotient is not None and self._quotient[1]:
            last = third
            b.li(last, self._quotient[1])
        for lane in range(lanes):
            number, place = lane % len(self._sums), lane // len(self._sums) * self._width
            b.extract(value, self._sums[number], self._width, place, signed=False)
            if self._half:
                b("sub", value, value, self._offset)
            if self._scaled and not (self._requantises and self._is_folded):
                factor = frame.register("factor", work)
                summand = frame.register("summand", third) if self._is_folded else ZERO
                b("mul", value, value, factor)
            if not self._is_folded and not (self._requantises and self._quotient is not None):
                self._division.emit(value, work, other)
            if self._requantises:
                b.requantise(word, value, last, lane % per_word, bits, signed=signed)
            else:
                if self._scaled:
                    summand = summand if self._is_folded else frame.register("summand", other)
                    b.add_shifted(value, summand, Held(frame.register("shift", work)))
                position = lane % per_word * bits
                target = value if position else word
                if self._scaled or (precision.x, precision.x_signed) != (bits, signed):
                    b.clip(target, value, bits, work, signed=signed)
                elif target != value:
                    b.mv(target, value)
                b.insert(word, target, bits, position)
            if lane == lanes - 1 and lanes * bits <= XLEN:
                self.store(word, out, lanes * bits)
            elif lane % per_word == per_word - 1:
                b("sw", word, lane // per_word * WORD, out)
        if lanes * bits > XLEN:
            b("add", out, out, self.out_pixel)


AVGPOOL = map_kernels.element_kernel(
    name="avgpool",
    help="average pooling, with or without requantisation",
    layer=AvgPoolLayer,
    usual="16x16x32:2x2:s=2:scaled",  # as the public kernels
    write=avgpool_kernel,
    usual_tiny="32x32x32:2x2:s=2",
    random=random_avgpool,
    random_text=lambda rng: (
        map_kernels.random_window_text(rng, map_kernels.MOST_CHANNELS) + rng.choice(("", ":scaled"))
    ),
    structures=(AVGPOOL_ARGUMENTS, AVGPOOL_SCALED_ARGUMENTS),
    samples=("{side}x{side}x4:{window}", "{side}x{side}x4:{window}:scaled"),
)
