"""The function around blocks that the core requantises.

Sums begin with products that do not accumulate, and biases are part of lambda, so that a block needs no start; while
kappa and lambda of its channels arrive, the first words of the next block's rows are fetched. Results of less than a
word gather in registers over several blocks, as far as there are registers and channels, and leave as words.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, Label, Value
from xpulpnn_sw.kernels.code import KernelCode
from xpulpnn_sw.kernels.cross import CrossLoop
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.requantisation import ONE_FACTOR
from xpulpnn_sw.kernels.requantised_store import RequantisedStore
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, positive
from xpulpnn_sw.kernels.variants import WORD_BITS

_TEMPORARIES = 3
"""That what is around the blocks needs."""

_BETWEEN_PLANES = 2
"""Of them those that are needed between the planes of a block."""


class RequantisedCode(KernelCode):
    """That of :class:`KernelCode` for a blocking that requantises."""

    def _take_results(self, registers: Registers) -> dict[str, int]:
        """Take the registers of what follows the inner loop; those in which numbers live are returned."""
        blocking, inner = self._blocking, self._inner
        variant, precision = blocking.variant, blocking.precision
        assert isinstance(inner, CrossLoop)
        pointers = {*inner.activations, *inner.weights}
        registers.give_back([one for one in inner.temporaries if one not in pointers])
        accumulators = [one for row in inner.acc for one in row]
        # around a block accumulators are free, but not between its planes
        kept = registers.take(_BETWEEN_PLANES if self._planes > 1 else 0)
        self._temporaries = [*kept, *accumulators[1:]][:_TEMPORARIES]
        self._parameters = registers.one()
        self._out = registers.take(1 if self._walks else variant.npx)
        homes = {"iterations": registers.one(), "shift": registers.one()}
        if self._walks:
            homes["out_stride"] = registers.one()
        per_word = WORD_BITS // (variant.nch * precision.y)
        # with one pixel it would be one store that is saved
        gathers = per_word > 1 and self._planes == 1 and variant.npx > 1 and not (self._walks and variant.in_place)
        self._words = registers.take(variant.npx) if gathers else []
        self._per_word = per_word if gathers else 1
        if self._walks:
            # in a register where it is needed, which is free elsewhere
            self._back = self._words[0] if gathers else registers.one()
            homes |= {} if gathers else {"out_back": self._back}
        self._store: RequantisedStore = RequantisedStore(
            bits=precision.y,
            signed=precision.y_signed,
            acc=inner.acc,
            out=self._out,
            steps=[*[homes["out_stride"]] * (blocking.stored_pixels - 1), self._back] if self._walks else [],
            parameters=self._parameters,
            folded=blocking.folded,
            one_factor=blocking.rule in ONE_FACTOR,
        )
        return homes

    def _iterations(self, turns: Term) -> Term:
        """Of the inner loop, at least one; some turns are around it."""
        return positive(turns - self._blocking.least_turns) + 1

    @property
    def _turns(self) -> Term:
        """Turns that a block takes over words of the rows."""
        return Name("iterations") + self._blocking.variant.turns_around

    def _terms(self) -> dict[str, Term]:
        """All numbers of the kernel, from its arguments."""
        terms = super()._terms()
        if self._words:
            terms["word_steps"] = Name("steps") // self._per_word
            terms["rest_steps"] = Name("steps") - Name("word_steps") * self._per_word
        if self._words and self._walks:
            terms["word_back"] = Number(WORD) - Argument("out_stride") * (self._blocking.stored_pixels - 1)
        return terms

    def _begin_blocks(self) -> None:
        """Fetch the first words of filter rows, and those of activations in between: a pointer is not ready at once."""
        # here, so that nothing waits for it
        self._count = self._frame.value("word_steps" if self._words else "steps", self._temporaries[0])
        weights = [partial(self._b, *operation) for operation in self._inner.group_prefetch]
        for pair in zip_longest(weights, self._first_words()):
            for write in pair:
                if write is not None:
                    write()

    def _channels(self) -> None:
        b, frame, counter = self._b, self._frame, self._temporaries[0]
        if not self._words:
            with b.loop(self._count, counter, level=1):
                self._one_block(self._store)
            return
        self._repeat(self._count, self._words_of_blocks)
        rest = frame.value("rest_steps", counter)
        if rest != 0 and self._walks:
            frame.load("out_back", self._back)
        self._repeat(rest, partial(self._one_block, self._store))

    def _repeat(self, count: Value, write: Callable[[], None]) -> None:
        """What is written ``count`` times, which may be 0."""
        b, end = self._b, Label()
        if count == 0:
            return
        if isinstance(count, Held):
            b.branch("beq", count.register, ZERO, end)
        with b.loop(count, self._temporaries[0], level=1):
            write()
        b.place(end)

    def _words_of_blocks(self) -> None:
        """As many blocks as make a word of results."""
        free, following, store = self._inner.acc[0][0], list[Callable[[], None]](), self._store
        store = replace(store, words=self._words)
        if self._walks:
            store = replace(store, steps=[*store.steps[:-1], free])
            following.append(partial(self._frame.load, "word_back", free))
        for number in range(self._per_word):
            is_last = number == self._per_word - 1
            self._one_block(store, number * self._blocking.variant.nch, following if is_last else [])

    def _one_block(
        self, store: RequantisedStore, first_channel: int = 0, following: list[Callable[[], None]] | None = None
    ) -> None:
        """A block, which ends with the first words of the next one's rows."""
        inner, frame, b, precision = self._inner, self._frame, self._b, self._blocking.precision
        assert isinstance(inner, CrossLoop)
        with b.region("quant"):
            store.begin(b)
        for plane in reversed(range(self._planes)):
            is_first = plane == self._planes - 1
            if not is_first:
                # what has been summed up is worth more with each plane
                for register in (one for accumulators in inner.acc for one in accumulators):
                    b("slli", register, register, precision.w)
                self._rewind(*self._temporaries[:2])
            signed = precision.x_negative if self._planes == 1 else precision.x_signed and is_first
            count = frame.value("iterations", self._temporaries[0])
            inner.emit_turns(b, count, signed=signed, fresh=is_first)
        with b.region("quant"):
            shift = frame.register("shift", self._temporaries[0])
            store.emit(b, shift, [*self._first_words(), *(following or [])], first_channel)

    def _first_words(self) -> list[Callable[[], None]]:
        """What begins a block, each an instruction."""
        inner, frame, b = self._inner, self._frame, self._b
        rows = [partial(frame.load, f"row{pixel}", register) for pixel, register in enumerate(inner.activations)]
        return [*rows, *(partial(b, *operation) for operation in inner.block_prefetch)]
