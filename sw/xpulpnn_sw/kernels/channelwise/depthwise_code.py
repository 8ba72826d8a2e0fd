"""Depthwise convolution: input ``[channel][row][column]``, output ``[row][column][channel]``.

The input rows of a channel are copied to a buffer first, as padded bytes. Filters of up to three columns with steps of
one column are kept in registers, each row twice and the second time shifted by a byte, so that the words loaded for a
pixel can also be used for the next pixel. Filters of three rows with steps of two columns are kept in registers once,
and two pixels at a time load separate words. Other filters are loaded along with the input.

Several channels may have results in the same byte. A core then computes a row of all these channels, one channel after
the other, and merges the results.
"""

from functools import partial
from itertools import pairwise

from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, Label
from xpulpnn_sw.kernels.channelwise.depthwise_channel import (
    COPY_REGISTERS,
    PARAMETER_REGISTERS,
    ChannelResults,
    RowCopy,
    merge,
    parameter_bytes,
)
from xpulpnn_sw.kernels.channelwise.maps import ARGUMENT_REGISTERS, ElementBuilder
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import KernelRequest, Known, Structure
from xpulpnn_sw.kernels.layout import Program
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.terms import Argument, Name, Term, even_share, given, positive

_USUAL_PARAMETERS = 2  # parameter registers that the row copy leaves unused
_REGISTER_FIELD = 5  # bits of the position in the operand of ``p.insert``, below the length


class DepthwiseCode:
    def __init__(
        self, request: KernelRequest, structure: Structure, known: Known, rows: int | None, rule: Rule
    ) -> None:
        precision, self._step = request.precision, request.layer.stride[1]
        self._b, self._precision, self._held, self._rule = ElementBuilder(request.level), precision, rows, rule
        self._lanes, self._parameter_bytes = BYTE_BITS // precision.y, parameter_bytes(rule, precision.y)
        is_valued = any(field.name == "outside" for field in structure.fields)
        self._copy = RowCopy(self._b, precision.x, precision.x_signed, is_valued)
        registers = FreeRegisters()
        # shared with the arguments, which are dead by then
        self._scratch = registers.take(COPY_REGISTERS + max(0, PARAMETER_REGISTERS[rule] - _USUAL_PARAMETERS))
        assert self._scratch[: len(ARGUMENT_REGISTERS)] == list(ARGUMENT_REGISTERS)
        self._out, self._out_pixel, self._position, self._rows, self._shift = registers.take(5)
        homes = {"out_pixel": self._out_pixel, "shift": self._shift}
        preferred = ("pitch", "gap") if rows is None else ("pitch",)
        self._frame = self._b.frame(structure, known, self._terms(), homes, registers, preferred)

    def _terms(self) -> dict[str, Term]:
        out_height, out_width, channels = Argument("out_height"), Argument("out_width"), Argument("channels")
        kernel_height, kernel_width = Argument("kernel_height"), Argument("kernel_width")
        group, row, count, rows = Name("group"), Name("row"), Name("count"), Name("rows")
        stride_x, left = Argument("stride_x"), Name("left")
        terms: dict[str, Term] = {
            "groups": (channels + (self._lanes - 1)) // self._lanes,
            **even_share(Name("groups") * out_height),
            "group": Name("begin") // out_height,
            "row": Name("begin") - group * out_height,
            **given("out_height", "out_width"),
            "out_pixel": Argument("out_pixel_bytes"),
            **given("stride_y", "kernel_height"),
            "row_words": (kernel_width + (WORD - 1)) // WORD,
            "filter_bytes": kernel_height * Name("row_words") * WORD,
            "shift": Argument("shift"),
            "channel": group * self._lanes,
            "left": channels - Name("channel"),
            "lanes": left - positive(left - self._lanes),
            "channel_bytes": Argument("height") * Argument("row_bytes"),
            "channel_source": Argument("input") + Name("channel") * Name("channel_bytes"),
            "weights": Argument("weights") + Name("channel") * Name("filter_bytes"),
            "parameters": Argument("parameters") + Name("channel") * self._parameter_bytes,
            "buffer": Argument("buffer") + Argument("core") * Argument("buffer_stride"),
            "column": Argument("output") + group,
            "target": Name("column") + row * out_width * Argument("out_pixel_bytes"),
            "rows": count - positive(count - (out_height - row)),
            "inputs": (rows - 1) * Argument("stride_y") + kernel_height,
            "first_y": row * Argument("stride_y") - Argument("pad_top"),
            **self._copy.terms(),
            "line_gap": Argument("stride_y") * Name("pitch") - out_width * stride_x,
        }
        if self._held is not None:
            terms |= {"pairs": out_width // 2, "odd": out_width & 1}
        else:
            width = kernel_width if not self._b.xpulp else Name("row_words") * WORD
            terms |= given("kernel_width", "stride_x")
            terms |= {"gap": Name("pitch") - width, "filter_gap": Name("row_words") * WORD - kernel_width}
        return terms

    def write(self) -> Program:
        b, frame = self._b, self._frame
        work, other, temporary, *_ = self._scratch
        start = Label()
        with frame.function(), b.skipped("beq", frame.register("count", work), ZERO, is_far=True):
            b.place(start)
            b.li(self._position, (self._precision.y - 1) << _REGISTER_FIELD if b.xpulp else 0)
            with frame.repeated("lanes", work):
                with b.region("im2col"):
                    self._copy.emit(frame, self._scratch)
                with b.region("body"):
                    if self._held is None:
                        self._moving_filter()
                    else:
                        self._held_filter(self._held)
                b("addi", self._position, self._position, self._precision.y)
                frame.load("channel_source", work)
                b.add(work, frame.value("channel_bytes", other), temporary)
                frame.store("channel_source", work)
                frame.advance("parameters", self._parameter_bytes, work, temporary)
            # the next channels, from their first row on
            b("sub", work, frame.register("count", work), frame.register("rows", other))
            frame.store("count", work)
            with b.skipped("beq", work, ZERO, is_far=True):
                self._next_group(work)
                b.jump(start)
        return b.finish()

    def _next_group(self, count: int) -> None:
        b, frame = self._b, self._frame
        _, rows, work, other, temporary, *_ = self._scratch
        frame.load("out_height", rows)
        b.at_most(rows, count, work, other)
        frame.store("rows", rows)
        b("addi", rows, rows, -1)
        b("mul", rows, rows, frame.register("stride_y", work))
        b.add(rows, frame.value("kernel_height", work), other)
        frame.store("inputs", rows)
        b("sub", work, ZERO, frame.register("pad_top", work))
        frame.store("first_y", work)
        frame.advance("column", 1, work, other)
        frame.store("target", work)
        frame.advance("left", -self._lanes, work, other)
        b.li(rows, self._lanes)
        b.at_most(rows, work, other, temporary)
        frame.store("lanes", rows)

    def _held_filter(self, rows: int) -> None:
        b, frame = self._b, self._frame
        taken = iter(self._scratch)
        first, second, words, pointers = ([next(taken) for _ in range(rows)] for _ in range(4))
        parameters = [next(taken) for _ in range(PARAMETER_REGISTERS[self._rule])]
        acc, stored, rest = [next(taken), next(taken)], [next(taken), next(taken)], list(taken)
        finishing = self._finishing(parameters, words + rest)
        frame.load("weights", acc[0])
        for register in first:
            b.load(register, acc[0], WORD)
        frame.store("weights", acc[0])
        for register, further in zip(first, second, strict=True) if self._step == 1 else ():
            b("slli", further, register, BYTE_BITS)
        finishing.load(frame.register("parameters", self._out))
        frame.load_all(target=self._out, rows=self._rows, buffer=pointers[0])

        def pixels(count: int) -> None:
            loaded, factors = [words], [(words, first), (words, second)]
            if self._step > 1:
                loaded, factors = [words, second][:count], [(words, first), (second, first)]
            for own in loaded:
                for word, pointer in zip(own, pointers, strict=True):
                    b.load(word, pointer, self._step * count // len(loaded))
            for accumulator, (own, weights) in zip(acc[:count], factors, strict=False):
                finishing.multiply(accumulator, own, weights)
            self._store(finishing, acc[:count], stored[:count])

        with b.loop(Held(self._rows), self._rows):
            for above, pointer in pairwise(pointers):
                b.mv(pointer, above)
                b.add(pointer, frame.value("pitch", acc[0]), acc[1])
            b.repeat(frame.value("pairs", acc[0]), acc[0], partial(pixels, 2), level=0)
            odd = frame.value("odd", acc[0])
            if isinstance(odd, Held):
                with b.skipped("beq", odd.register, ZERO):
                    pixels(1)
            elif odd:
                pixels(1)
            b.add(pointers[0], frame.value("line_gap", acc[0]), acc[1])

    def _moving_filter(self) -> None:
        b, frame = self._b, self._frame
        count = PARAMETER_REGISTERS[self._rule]
        parameters, others = self._scratch[:count], self._scratch[count:]
        base, filters, pointer, weights, accumulator, element, weight, columns, inner, outer, work, result, *_ = others
        finishing = self._finishing(parameters, [element, weight])
        frame.load("weights", filters)
        finishing.load(frame.register("parameters", self._out))
        frame.load_all(target=self._out, rows=self._rows, buffer=base)

        with b.loop(Held(self._rows), self._rows):
            frame.load("out_width", columns)
            with b.loop(Held(columns), columns):
                for register, source in ((pointer, base), (weights, filters), (accumulator, finishing.start)):
                    b.mv(register, source)
                with b.loop(frame.value("kernel_height", outer), outer, level=1):
                    if b.xpulp:
                        with b.loop(frame.value("row_words", inner), inner, level=0):
                            b.load(weight, weights, WORD)
                            b.load(element, pointer, WORD)
                            finishing.dot(accumulator, element, weight, adds=True)
                    else:
                        with b.loop(frame.value("kernel_width", inner), inner):
                            b.load(weight, weights, 1, bits=BYTE_BITS, signed=self._precision.w_signed)
                            b.load(element, pointer, 1, bits=BYTE_BITS, signed=self._precision.x_signed)
                            b.accumulate(accumulator, element, weight, work)
                        b.add(weights, frame.value("filter_gap", work), element)
                    b.add(pointer, frame.value("gap", work), element)
                self._store(finishing, [accumulator], [result])
                b.add(base, frame.value("stride_x", work), element)
            b.add(base, frame.value("line_gap", work), element)
        b.add(filters, frame.value("filter_bytes", work), element)
        frame.store("weights", filters)

    def _finishing(self, parameters: list[int], temporaries: list[int]) -> ChannelResults:
        return ChannelResults(self._b, self._rule, self._precision, self._shift, parameters, temporaries)

    def _store(self, finishing: ChannelResults, accumulators: list[int], results: list[int]) -> None:
        b, bits = self._b, self._precision.y
        finishing.scale(results, accumulators)
        if bits < BYTE_BITS:
            first, *others = accumulators
            b.load(first, self._out, bits=BYTE_BITS)
            for register in others:
                b.load_at(register, self._out, self._out_pixel, register, bits=BYTE_BITS)
        work, other = self._scratch[-1], self._scratch[-2]
        finishing.finish(results, work)
        stored = results
        if bits < BYTE_BITS:
            stored = accumulators
            for byte, result in zip(accumulators, results, strict=True):
                merge(b, byte, result, bits, self._position, (work, other))
        for register in stored:
            b.store(register, self._out, Held(self._out_pixel), bits=BYTE_BITS)
