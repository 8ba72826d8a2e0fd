"""Code generator of MatMul functions for cores that requantise in hardware.

The first products of a block do not accumulate, and lambda includes the biases, so that accumulators need no initial
value. The first words of the next block's rows are fetched while kappa and lambda of a block are loaded. Results
narrower than a word are collected in registers over several blocks, as far as registers and channels allow, and are
stored as words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.block_store import BlockStore
from xpulpnn_sw.kernels.builder import STORE_BY_BITS, WORD
from xpulpnn_sw.kernels.coprocessor_code import CoprocessorCode
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import Known, Structure
from xpulpnn_sw.kernels.layout import Program
from xpulpnn_sw.kernels.matmul_code import KernelCode, PartialSums
from xpulpnn_sw.kernels.nn_loops import CrossLoop, PairLoop
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantisation import EXACT_RULES, ONE_FACTOR, Rule
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term

_TEMPORARIES = 3  # temporaries that the code around the blocks needs
_BETWEEN_PLANES = 2  # temporaries needed between the planes of a block


@dataclass(eq=False)
class RequantisedStore(BlockStore):
    """Code that stores the results of a block through ``pv.rq``, which stalls directly after a load of kappa."""

    # registers in which results of the pixels collect over blocks to words; if empty, results collect in an accumulator
    # and every block stores them
    _words: list[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_factor, self._is_exact = self.blocking.rule in ONE_FACTOR, self.blocking.rule in EXACT_RULES
        self._own_shifts = self.blocking.rule is Rule.EXACT
        self._stored_bits = XLEN if self._words else self.blocking.stored_bits

    def begin(self, shift: int, channel: int = 0) -> None:
        """Load lambda, kappa (once if all channels share it) and, by the rule ``exact``, also the ``shift``."""
        if self._is_exact:
            # the summand is needed first
            self.b("pv.rqld", 1, self.parameters)
            if self._own_shifts:
                self.b("p.lw", shift, WORD, self.parameters)
            self.b("pv.rqld", 0, self.parameters)
            return
        for number in range(1 if channel and self._one_factor else 0, 2):
            self.b("pv.rqld", number, self.parameters)

    def emit(self, shift: int, fillers: Sequence[Callable[[], None]], first_channel: int = 0) -> None:
        """Requantise and store a block after :meth:`begin`; ``fillers`` write independent instructions in between."""
        waiting, per_store = list(fillers), self._stored_bits // self.bits
        if self.blocking.flat:
            self._emit_flat(shift, waiting)
            return
        for channel in range(self.channels):
            if channel:
                self.begin(shift, channel)
                if waiting:
                    waiting.pop(0)()
            lane = (first_channel + channel) % per_store
            results = self._words or [accumulators[channel - lane] for accumulators in self.acc]
            for result, accumulators in zip(results, self.acc, strict=True):
                self.b.requantise(
                    result, accumulators[channel], shift, lane, self.bits, signed=self.signed, exact=self._is_exact
                )
            if channel == self.channels - 1:
                for write in waiting:
                    write()
            if lane == per_store - 1:
                for pixel, result in enumerate(self._fold(results) if self.blocking.folded else results):
                    self.put(pixel, result, self._stored_bits)

    def _emit_flat(self, shift: int, fillers: Sequence[Callable[[], None]]) -> None:
        """Requantise a block and store a word for each channel, with the results of all pixels."""
        half, waiting = len(self.acc) // 2, list(fillers)
        for channel, result in enumerate(self.acc[0]):
            for lane in range(half):
                for first in (0, half):
                    self.b.requantise(
                        *(self.acc[first][channel], self.acc[first + lane][channel], shift, lane, self.bits),
                        signed=self.signed,
                        exact=self._is_exact,
                    )
            is_last = channel == self.channels - 1
            if not is_last:
                self.begin(shift, channel + 1)
            for write in waiting if is_last else waiting[:1]:
                write()
            waiting = waiting[1:]
            self.b("pv.pack.h", result, self.acc[half][channel], result)
            self.put(channel, result, XLEN)

    def _fold(self, results: list[int]) -> list[int]:
        b, greater = self.b, f"pv.max{'' if self.signed else 'u'}.{ElemFmt.of_width(self.bits).suffix}"
        first, second, third, last = results
        b(greater, second, first, second)
        b(greater, second, second, third)
        b(greater, last, third, last)
        return [first, second, last]


class RequantisedCode(KernelCode):
    def _take_results(self, registers: FreeRegisters) -> dict[str, int]:
        blocking, inner = self._blocking, self._inner
        variant, precision = blocking.variant, blocking.precision
        assert isinstance(inner, CrossLoop)
        pointers = {*inner.activations, *inner.weights}
        registers.give_back([register for register in inner.temporaries if register not in pointers])
        # around a block accumulators are free, but not between its planes
        held = registers.take(_BETWEEN_PLANES if self._planes > 1 else 0)
        self._temporaries = [*held, *inner.accumulators[1:]][:_TEMPORARIES]
        self._parameters = registers.take_one()
        self._out = registers.take(1 if self._walks else variant.npx)
        homes = {"iterations": registers.take_one(), "shift": registers.take_one()}
        # whether the results of a block are stored at equal distances
        is_dense = blocking.flat or blocking.grouped
        if self._walks:
            homes["plane" if is_dense else "out_stride"] = registers.take_one()
        per_word = 1 if blocking.flat else XLEN // (variant.nch * precision.y)
        gathers = per_word > 1 and self._planes == 1 and variant.npx > 1 and not (self._walks and variant.in_place)
        self._words = registers.take(variant.npx) if gathers else []
        # whether the last iteration of a block fetches the first words of the next block
        ends_early = isinstance(inner, PairLoop) and self._planes == 1 and variant.turns_around > 1
        self._ends_early = ends_early and not self._sums.resumes and not self._sums.keeps
        self._per_word = per_word if gathers else 1
        if self._walks and not is_dense:
            # loaded where it is needed, into a register that is free elsewhere
            self._back = self._words[0] if gathers else registers.take_one()
            homes |= {} if gathers else {"out_back": self._back}
        # free behind the last results of a word
        self._word_step = word_step = inner.acc[0][-1 if self._ends_early else 0]
        if self._ends_early:
            # avoids the load-use stall of the product that follows
            self._preferred = ("row0",)
        store = partial(RequantisedStore, self._b, blocking, inner.acc, self._out)
        steps, back, word_back = list[int](), list[int](), list[int]()
        if is_dense:
            steps = [homes["plane"]] * (variant.nch if blocking.flat else variant.npx)
        elif self._walks:
            steps = [homes["out_stride"]] * (blocking.stored_pixels - 1)
            back, word_back = [self._back], [word_step]
        self._store = store([*steps, *back], self._parameters, [])
        # store of the blocks that fill a word, after which an accumulator is free
        self._word_store = store([*steps, *word_back], self._parameters, self._words)
        return homes

    def _terms(self) -> dict[str, Term]:
        terms = super()._terms()
        if self._words:
            terms["word_steps"] = Name("steps") // self._per_word
            terms["rest_steps"] = Name("steps") - Name("word_steps") * self._per_word
        if self._words and self._walks:
            terms["word_back"] = Number(WORD) - Argument("out_stride") * (self._blocking.stored_pixels - 1)
        return terms

    def _begin_blocks(self) -> None:
        # loaded early to avoid a load-use stall
        self._count = self._frame.value("word_steps" if self._words else "steps", self._temporaries[0])
        weights = [partial(self._b, *operation) for operation in self._inner.group_prefetch]
        for pair in zip_longest(weights, self._first_words()):
            for write in pair:
                if write is not None:
                    write()
        if isinstance(self._inner, PairLoop) and self._ends_early and self._words:
            self._inner.first_product(self._b, signed=self._blocking.precision.x_negative)

    def _channels(self) -> None:
        b, frame, counter = self._b, self._frame, self._temporaries[0]
        if not self._words:
            with b.loop(self._count, counter, level=1):
                self._one_block(self._store)
            return
        b.repeat(self._count, counter, self._words_of_blocks, level=1)
        rest = frame.value("rest_steps", counter)
        if rest != 0 and self._walks:
            frame.load("out_back", self._back)
        b.repeat(rest, counter, partial(self._one_block, self._store), level=1)

    def _words_of_blocks(self) -> None:
        following: list[Callable[[], None]] = []
        if self._walks:
            following.append(partial(self._frame.load, "word_back", self._word_step))
        for number in range(self._per_word):
            is_last = number == self._per_word - 1
            first_channel = number * self._blocking.variant.nch
            self._one_block(self._word_store, first_channel, following if is_last else [])

    def _one_block(
        self, store: RequantisedStore, first_channel: int = 0, following: Sequence[Callable[[], None]] = ()
    ) -> None:
        inner, frame, b, precision = self._inner, self._frame, self._b, self._blocking.precision
        assert isinstance(inner, CrossLoop)
        with b.region("quant"):
            if not self._sums.keeps:
                store.begin(frame.register("shift", self._temporaries[0]))
            if self._sums.resumes:
                self._move_sums("lw")
        if isinstance(inner, PairLoop) and self._ends_early:
            self._one_ended_block(inner, store, first_channel, following)
            return
        for plane in reversed(range(self._planes)):
            is_first = plane == self._planes - 1
            if not is_first:
                self._next_plane()
            signed = precision.x_negative if self._planes == 1 else precision.x_signed and is_first
            count = frame.value("iterations", self._temporaries[0])
            inner.emit_turns(b, count, signed=signed, fresh=is_first and not self._sums.resumes)
        with b.region("quant"):
            fillers = [*self._first_words(), *following]
            if self._sums.keeps:
                self._move_sums("sw")
                for write in fillers:
                    write()
                return
            store.emit(frame.register("shift", self._temporaries[0]), fillers, first_channel)

    def _one_ended_block(
        self, inner: PairLoop, store: RequantisedStore, first_channel: int, following: Sequence[Callable[[], None]]
    ) -> None:
        frame, b, signed = self._frame, self._b, self._blocking.precision.x_negative
        count, written = frame.value("iterations", self._temporaries[0]), len(self._words[:1])
        load_row = partial(frame.load, "row0", inner.activations[0])
        remaining = inner.emit_ended(b, count, load_row, signed=signed, written=written)
        first = partial(inner.first_product, b, signed=signed)
        # results collected in an accumulator are stored before its next product
        is_last = store is self._store
        if written and not is_last:
            remaining.append(first)

        def in_matmul(write: Callable[[], None]) -> None:
            with b.region("matmul"):
                write()

        with b.region("quant"):
            fillers = [partial(in_matmul, write) for write in remaining]
            store.emit(frame.register("shift", self._temporaries[0]), [*fillers, *following], first_channel)
        if written and is_last:
            first()

    def _first_words(self) -> list[Callable[[], None]]:
        inner, frame, b = self._inner, self._frame, self._b
        rows = [partial(frame.load, f"row{pixel}", register) for pixel, register in enumerate(inner.activations)]
        return [*rows, *(partial(b, *operation) for operation in inner.block_prefetch)]


class OneFactorCode(KernelCode):
    def _channels(self) -> None:
        b, counter = self._b, self._temporaries[0]
        with b.loop(self._frame.value("steps", counter), counter, level=1):
            with b.region("quant"):
                for number in range(2):
                    b("pv.rqld", number, self._parameters)
            self._block()
            with b.region("quant"):
                self._results(self._frame.register("shift", counter))

    def _results(self, shift: int) -> None:
        b, precision, (acc,) = self._b, self._blocking.precision, self._inner.acc
        lanes = len(acc) // (2 if len(acc) * precision.y % (2 * BYTE_BITS) == 0 else 1)
        for lane in range(lanes):
            for first in range(0, len(acc), lanes):
                b.requantise(acc[first], acc[first + lane], shift, lane, precision.y, signed=precision.y_signed)
        stored = lanes * precision.y
        for result in acc[::lanes]:
            b.access(STORE_BY_BITS[stored], result, stored // BYTE_BITS, 0, self._out[0])


def product_program(
    blocking: Blocking,
    structure: Structure,
    known: Known,
    *,
    inside: bool,
    parts: tuple[int, int] = (1, 1),
    sums: PartialSums | None = None,
) -> Program:
    """Return the function with ``known`` arguments as constants; ``parts``: numbers of channel parts and of cores."""
    code = OneFactorCode if blocking.has_one_factor else RequantisedCode if blocking.requantises else KernelCode
    code = CoprocessorCode if blocking.variant.has_coprocessor else code
    return code(blocking, structure, known, inside=inside, parts=parts, sums=sums or PartialSums()).write()
