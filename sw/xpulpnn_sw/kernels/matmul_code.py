"""Code generator of MatMul functions: the loops around the blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xpulpnn.isa.machine import BYTE_BITS, TEXT_BASE
from xpulpnn_sw.kernels import terms as shares
from xpulpnn_sw.kernels.block_store import Store, temporaries
from xpulpnn_sw.kernels.builder import MAX_SHORT_BODY, WORD, ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, FREE, Frame, FreeRegisters
from xpulpnn_sw.kernels.gather.group_copy import PREFERRED
from xpulpnn_sw.kernels.gather.im2col import SPARE_WORDS, Gather, Im2colFormat
from xpulpnn_sw.kernels.gather.row_reuse import ALONG, STATE, GroupOrder, first_pixel_terms, order_shares
from xpulpnn_sw.kernels.kernel import Known, Structure
from xpulpnn_sw.kernels.layout import Program
from xpulpnn_sw.kernels.nn_loops import CrossLoop, inner_loop
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given, part_shares, positive

_INTERMEDIATES = (
    *("all_steps", "first_step", "weight_stride"),
    *("groups", "first_group", "first_pixel"),
    *("parts", "member", "members"),
)
"""Numbers that only serve to compute others in functions without im2col."""

_FEW = 5  # temporaries for which there are always registers


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialSums:
    """Accumulators that calls for parts of the same products leave in memory, each core in the order of its blocks."""

    start: int = 0  # bytes from the im2col buffers to the sums of core 0
    stride: int = 0  # bytes from the sums of a core to those of the next
    resumes: bool = False  # whether a call begins with sums
    keeps: bool = False  # whether it leaves sums instead of results


class KernelCode:
    _preferred: tuple[str, ...] = ()  # numbers that come first in the choice of registers

    def __init__(
        self,
        blocking: Blocking,
        structure: Structure,
        known: Known,
        *,
        inside: bool,
        parts: tuple[int, int],
        sums: PartialSums,
    ) -> None:
        variant, precision, self._sums = blocking.variant, blocking.precision, sums
        names = structure.names
        im2col = Im2colFormat(variant, precision, names, known, inside=inside) if "buffer" in names else None
        self._blocking, self._im2col = blocking, im2col
        # parts of the channels that cores share in addition to the groups, and number of cores
        self._parts = parts
        self._order = GroupOrder.ALONG_ROWS if im2col is None else im2col.order
        self._is_bare = blocking.is_fresh and not blocking.requantises
        # the products of the eight channels that make a byte of single bits exceed the reach of branches
        is_long = blocking.by_sign and not variant.xpulp
        self._b = b = Builder(TEXT_BASE, xpulp=variant.xpulp, is_long=is_long)
        registers = FreeRegisters()
        self._inner = inner = inner_loop(variant, precision, registers)
        self._planes = variant.planes(precision)
        self._step = ZERO if variant.xpulp else registers.take_one()
        # one output pointer that walks through the pixels saves registers where there are many
        self._walks = variant.xpulp and variant.npx > len(("out_stride", "out_back"))
        homes = self._take_results(registers)
        homes |= {f"out{pixel}": register for pixel, register in enumerate(self._out)}
        if inner.end is not None:
            homes["row_end"] = inner.end
        scratch = [*inner.accumulators, *inner.weights, *inner.activations, *self._temporaries, self._parameters]
        self._scratch = list(dict.fromkeys(scratch))
        missing = 0 if im2col is None else max(0, im2col.registers - len(self._scratch))
        self._scratch += registers.take(missing)
        spare = registers.rest()
        if spare and variant.xpulp and inner.length > MAX_SHORT_BODY:
            homes["iterations"] = spare.pop(0)
        repeated = "steps" if blocking.by_channels else "group"
        preferred = ["iterations"] * variant.xpulp + ["shift"]
        preferred += [*self._preferred, repeated]
        if im2col is not None:
            preferred += PREFERRED if self._order is GroupOrder.ALONG_ROWS else STATE
        clobbered: set[int] | None = None
        if im2col is None:
            clobbered = {*FREE} - {*spare}
            if blocking.by_channels:
                # loaded only once, unless the register holds an argument
                once = dict(zip([f"weights{lane}" for lane in inner.lanes], inner.weights, strict=True))
                once["parameters"] = self._parameters
                taken = (ARGUMENTS_POINTER, CORE, CORES)
                homes |= {name: register for name, register in once.items() if register not in taken}
        intermediates = _INTERMEDIATES if im2col is None else ()
        terms = self._terms()
        if self._is_bare:
            del terms["parameters"]
        chosen: dict[str, Any] = {"preferred": preferred, "spare": spare, "clobbered": clobbered}
        chosen["alternatives"] = None if im2col is None else im2col.alternatives(terms)
        self._frame = Frame(b, names, terms, known=known, homes=homes, intermediates=intermediates, **chosen)
        # spare registers that the frame has left
        self._scratch += spare

    def _take_results(self, registers: FreeRegisters) -> dict[str, int]:
        blocking, inner = self._blocking, self._inner
        variant = blocking.variant
        needed = temporaries(blocking)
        # if many are needed, also the pointers that each block loads anew
        pointers = (
            [register for register in inner.activations if register not in inner.temporaries] if needed > _FEW else []
        )
        taken = registers.take(max(0, needed - len(inner.temporaries) - len(pointers)))
        self._temporaries = [*inner.temporaries, *taken, *pointers]
        self._parameters = registers.take_one()
        self._out = registers.take(1 if self._walks else variant.npx)
        steps = registers.take(2) if self._walks else []
        held = 1 if blocking.by_sign else variant.npx
        partial = registers.take(held) if blocking.channel_step > variant.nch else []
        steps_of_all = [*steps[:1] * (variant.npx - 1), *steps[1:]]
        ends = (inner.acc, self._out, steps_of_all, self._parameters)
        self._store = Store(self._b, blocking, *ends, self._temporaries, partial)
        return dict(zip(("out_stride", "out_back"), steps, strict=False))

    def _terms(self) -> dict[str, Term]:
        blocking, variant, inner = self._blocking, self._blocking.variant, self._inner
        npx = variant.npx
        row_words, rows, words = Argument("row_words"), Argument("input"), self._filter_words
        if self._im2col is not None:
            row_words = self._im2col.run_words(Argument("kernel_width"), Argument("pixel_bytes"))
            row_words = Argument("kernel_height") * row_words
            rows = Argument("buffer") + Argument("core") * Argument("buffer_stride")
        elif not blocking.by_channels:
            rows += Name("first_pixel") * Argument("row_stride")
        terms: dict[str, Term] = {**self._shares(), "row0": rows}
        if self._sums.resumes or self._sums.keeps:
            terms["sums"] = Argument("buffer") + Argument("core") * self._sums.stride + self._sums.start
        if self._im2col is not None:
            terms["row_words"] = row_words
        if variant.unrolled > 1:
            words = (words + (variant.unrolled - 1)) // variant.unrolled
        if variant.xpulp:
            # at least one; fresh accumulators have additional iterations around the loop
            least = blocking.least_turns
            terms["iterations"] = positive(words - least) + 1 if blocking.is_fresh else words
        elif inner.end is not None:
            interleaved = variant.npx if variant.interleaved else 1
            terms["row_end"] = Name("row0") + words * (inner.expansion * WORD * interleaved)
        if variant.xpulp:
            words = Name("iterations") + variant.turns_around if blocking.is_fresh else Name("iterations")
        plane_words = words * variant.unrolled
        if self._planes > 1:
            terms["plane_words"], plane_words = plane_words, Name("plane_words")
        row_bytes = plane_words * (WORD * blocking.rows_per_stream)
        if self._planes > 1:
            terms |= {f"rewind{ahead}": Number(-ahead) - row_bytes for ahead in sorted(set(self._prefetched_bytes()))}
        for pixel in range(1, len(inner.activations)):
            terms[f"row{pixel}"] = Name(f"row{pixel - 1}") + Argument("row_stride")
        if self._im2col is None and not blocking.by_channels:
            terms["group_bytes"] = Argument("row_stride") * npx
        terms["weights0"] = Argument("weights")
        first, parameter_bytes = Name("first_step"), variant.nch * WORD + blocking.rule_bytes
        starts = {
            "out0": Argument("output") + first * blocking.step_bytes,
            "parameters": Argument("parameters") + first * (parameter_bytes * blocking.blocks),
        }
        if blocking.by_channels or self._parts[0] > 1:
            terms["weights0"] += first * row_bytes * blocking.blocks
        terms["weight_stride"] = Argument("weight_stride")
        for lane in range(1, max(inner.lanes) + 1):
            terms[f"weights{lane}"] = Name(f"weights{lane - 1}") + Name("weight_stride")
        if blocking.by_channels:
            return terms | {**starts, **given("shift"), **({} if self._im2col is None else self._im2col.terms())}
        steps = Name("steps")
        # bytes between results of neighbouring pixels, and of neighbouring steps of channels
        pixel, step = (Argument("out_stride"), Number(blocking.step_bytes * (npx if blocking.grouped else 1)))
        if blocking.flat:
            pixel, step = Number(1), Argument("out_stride") * blocking.channel_step
        starts["out0"] = Argument("output") + first * step
        if self._parts[0] == 1:
            starts = {"out0": Argument("output"), **given("parameters")}
            terms["steps"] = (Argument("out_channels") + (blocking.channel_step - 1)) // blocking.channel_step
        for number in range(len(self._out)):
            terms[f"out{number}"] = starts["out0"] + (Name("first_pixel") + number) * pixel
        gap = self._order.select(pixel * Argument("out_width"), pixel * npx) - steps * step
        terms |= {"parameters": starts["parameters"], **given("shift"), "out_gap": gap}
        if self._walks or self._im2col is not None:
            terms["out_stride"] = pixel
        if blocking.flat or blocking.grouped:
            terms["plane"] = Argument("out_stride") if blocking.flat else Number(WORD)
        elif self._walks:
            terms["out_back"] = Number(blocking.stored_bits // BYTE_BITS) - pixel * (blocking.stored_pixels - 1)
        return terms | ({} if self._im2col is None else self._im2col.terms())

    @property
    def _filter_words(self) -> Term:
        precision = self._blocking.precision
        if self._im2col is None:
            return Argument("row_words")
        same = precision.x == precision.w
        return Name("row_words") if same else Name("row_words") * precision.w // precision.x

    def _shares(self) -> dict[str, Term]:
        npx, step = self._blocking.variant.npx, self._blocking.channel_step
        if self._blocking.by_channels:
            core, all_steps = Argument("core"), Name("all_steps")
            return {
                "all_steps": (Argument("out_channels") + (step - 1)) // step,
                "first_step": shares.per_core(all_steps * core),
                "steps": shares.per_core(all_steps * (core + 1)) - Name("first_step"),
                "first_pixel": Number(0),
            }
        pixels = Argument("pixels")
        if self._im2col is not None:
            pixels = Argument("out_height") * Argument("out_width")
        terms = {"groups": (pixels + (npx - 1)) // npx, **order_shares(self._order, self._im2col, SPARE_WORDS * WORD)}
        if self._order is GroupOrder.DOWN_COLUMNS:
            terms["group"] = Name("strip_left")
        else:
            if self._parts[0] > 1:
                terms |= {"all_steps": (Argument("out_channels") + (step - 1)) // step, **part_shares(*self._parts)}
            else:
                terms |= shares.group_shares() if self._im2col is None else shares.group_turns()
            terms["first_pixel" if self._order is GroupOrder.ALONG_ROWS else ALONG] = Name("first_group") * npx
        return terms | first_pixel_terms(self._order, npx)

    def _prefetched_bytes(self) -> list[int]:
        fetches = [operation[2] for operation in self._inner.group_prefetch]
        return [fetches.count(pointer) * WORD for pointer in self._inner.weights]

    def write(self) -> Program:
        start, copies = Label(), None
        with self._frame.function():
            if self._im2col is not None:
                copies = Gather(self._b, self._frame, self._im2col, self._scratch, self._out)
                copies.begin(self._temporaries[0])
            if self._order is GroupOrder.DOWN_COLUMNS:
                self._groups(start, copies)
            else:
                work = "steps" if self._blocking.by_channels else "group"
                with self._b.skipped("beq", self._frame.register(work, self._temporaries[0]), ZERO, is_far=True):
                    self._groups(start, copies)
        return self._b.finish()

    def _groups(self, start: Label, copies: Gather | None) -> None:
        self._b.place(start)
        if copies is not None:
            copies.emit()
        with self._b.region("matmul"):
            for register, lane in zip(self._inner.weights, self._inner.lanes, strict=True):
                self._frame.load(f"weights{lane}", register)
            if not self._is_bare:
                self._frame.load("parameters", self._parameters)
            self._begin_blocks()
            self._channels()
            if self._im2col is None and not self._blocking.by_channels:
                self._next_rows()
        if not self._blocking.by_channels:
            self._next_group(start, copies)

    def _next_group(self, start: Label, copies: Gather | None) -> None:
        b, frame, (temporary, other, counter) = self._b, self._frame, self._temporaries[:3]
        # loaded early to avoid a load-use stall
        group = frame.register("group", counter)
        with b.region("quant"):
            gap = frame.value("out_gap", temporary)
            for register in self._out:
                b.add(register, gap, other)
        b("addi", group, group, -1)
        frame.store("group", group)
        b.far_branch("bne", group, ZERO, start)
        if copies is not None:
            copies.take_next(start)

    def _begin_blocks(self) -> None:
        for operation in self._inner.group_prefetch:
            self._b(*operation)

    def _channels(self) -> None:
        # the counter of a hardware loop is free after its set-up, that of a branching loop is not
        counter = self._temporaries[0] if self._blocking.variant.xpulp else self._step
        with self._b.loop(self._frame.value("steps", counter), counter, level=1):
            for first in range(0, self._blocking.channel_step, self._blocking.variant.nch):
                self._block()
                if self._sums.keeps:
                    self._move_sums("sw")
                    continue
                with self._b.region("quant"):
                    is_needed = self._blocking.rule not in (None, Rule.THRESHOLDS, Rule.QNT)
                    shift = self._frame.value("shift", self._temporaries[-1]) if is_needed else 0
                    self._store.emit(first, shift)

    def _block(self) -> None:
        inner, frame, b = self._inner, self._frame, self._b
        blocking, precision = self._blocking, self._blocking.precision
        if isinstance(inner, CrossLoop) and self._is_bare:
            self._load_rows()
            for operation in inner.block_prefetch:
                b(*operation)
            count = frame.value("iterations", self._temporaries[0])
            inner.emit_turns(b, count, signed=precision.x_negative, fresh=True)
            return
        if self._planes > 1 or self._sums.resumes or self._sums.keeps:
            self._planes_block()
            return
        if blocking.counts and not blocking.by_sign:
            self._counting_block()
            return
        first, *others = inner.acc
        count = frame.value("iterations", self._temporaries[0]) if b.xpulp else 0
        for number, accumulator in enumerate(first):
            b.access("lw", accumulator, WORD, number * WORD, self._parameters)
            if number == 0:
                # fills the load-use stalls of biases and row pointers
                self._load_rows()
        for operation in inner.block_prefetch:
            b(*operation)
        for accumulators in others:
            for source, accumulator in zip(first, accumulators, strict=True):
                b.mv(accumulator, source)
        inner.emit(b, count, signed=precision.x_negative)

    def _counting_block(self) -> None:
        inner, frame, b = self._inner, self._frame, self._b
        count = frame.value("iterations", self._temporaries[0]) if b.xpulp else 0
        self._load_rows()
        b.clear(inner.accumulators)
        inner.emit(b, count, signed=True)

        def subtract(start: int, accumulator: int) -> None:
            b("slli", accumulator, accumulator, 1)
            b("sub", accumulator, start, accumulator)

        with b.region("quant"):
            self._each_bias(subtract)

    def _each_bias(self, write: Callable[[int, int], None]) -> None:
        b, nch, pair = self._b, self._blocking.variant.nch, self._temporaries[:2]
        for first in range(0, nch, len(pair)):
            channels = [*zip(pair, range(first, nch), strict=False)]
            for register, channel in channels:
                b.access("lw", register, WORD, channel * WORD, self._parameters)
            for register, channel in channels:
                for accumulators in self._inner.acc:
                    write(register, accumulators[channel])

    def _load_rows(self) -> None:
        for pixel, register in enumerate(self._inner.activations):
            self._frame.load(f"row{pixel}", register)

    def _planes_block(self) -> None:
        inner, frame, b = self._inner, self._frame, self._b
        precision, work = self._blocking.precision, self._temporaries[0]
        self._load_rows()
        for operation in inner.block_prefetch:
            b(*operation)
        self._move_sums("lw") if self._sums.resumes else b.clear(inner.accumulators)
        for plane in reversed(range(self._planes)):
            is_first = plane == self._planes - 1
            if not is_first:
                self._next_plane()
            if plane == 0 and not self._sums.keeps:
                self._each_bias(lambda bias, accumulator: b("add", accumulator, accumulator, bias))
            count = frame.value("iterations", work)
            signed = precision.x_negative if self._planes == 1 else precision.x_signed and is_first
            inner.emit(b, count, signed=signed)

    def _move_sums(self, access: str) -> None:
        b, accumulators, is_load = self._b, self._inner.accumulators, access == "lw"
        # the activation pointers are set again before the next products
        pointer = self._frame.register("sums", accumulators[-1] if is_load else self._inner.activations[0])
        size = len(accumulators) * WORD
        # a call that resumes has moved the pointer already when it keeps sums
        if is_load or not self._sums.resumes:
            b("addi", pointer, pointer, size)
            self._frame.store("sums", pointer)
        for number, accumulator in enumerate(accumulators):
            b(access, accumulator, number * WORD - size, pointer)

    def _next_plane(self) -> None:
        b, (work, other) = self._b, self._temporaries[:2]
        pointers = dict(zip(self._inner.weights, self._prefetched_bytes(), strict=True))
        for register in self._inner.accumulators:
            b("slli", register, register, self._blocking.precision.w)
        for ahead in sorted(set(pointers.values())):
            distance = self._frame.value(f"rewind{ahead}", work)
            for pointer in (pointer for pointer, bytes_ahead in pointers.items() if bytes_ahead == ahead):
                b.add(pointer, distance, other)
        for operation in self._inner.group_prefetch:
            b(*operation)

    def _next_rows(self) -> None:
        frame, (distance, temporary, *_) = self._frame, self._temporaries
        moved = frame.value("group_bytes", distance)
        names = [f"row{pixel}" for pixel in range(len(self._inner.activations))]
        for name in names if self._inner.end is None else [*names, "row_end"]:
            frame.advance(name, moved, temporary, self._inner.acc[0][0])
