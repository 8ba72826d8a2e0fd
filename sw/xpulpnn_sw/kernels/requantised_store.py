"""End of a MatMul block where the core requantises: an instruction for each result, a store for each pixel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sw.kernels.builder import WORD, Builder
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

REQUANTISED_WIDTHS = frozenset({8, 4, 2})
"""Of results that pv.rq makes."""

STORES = {8: "p.sb", 16: "p.sh", 32: "p.sw"}
"""By bits stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequantisedStore:
    """How results leave the accumulators through ``pv.rq``.

    Kappa and lambda of a channel are loaded for all pixels of a block. A result that follows at once would wait for
    them, so that other work comes in between where there is some.
    """

    bits: int  # width of a result, out of REQUANTISED_WIDTHS
    signed: bool  # whether results are in two's complement
    acc: list[list[int]]  # accumulator of [pixel][channel]; lost
    # output pointer of each pixel, moved past what is stored; or one for all, which goes from pixel to pixel
    out: list[int]
    # registers with the distances from each pixel to the next, and from the last to the first one's next store; none if
    # every pixel has a pointer
    steps: list[int]
    parameters: int  # pointer to kappa and lambda of each channel, moved past them
    # for each pixel a register in which results gather over blocks until they are a word; none: in an accumulator, and
    # every block stores what it has
    words: list[int] = field(default_factory=list[int])
    folded: bool = False  # whether the four pixels of a block leave as fold says
    one_factor: bool = False  # whether there is one kappa, before the lambdas of a block

    @property
    def skipped(self) -> int:
        """Parameter bytes of the block before those: none, biases are part of lambda."""
        return 0

    @property
    def parameter_bytes(self) -> int:
        """Bytes of parameters of a block."""
        channels = len(self.acc[0])
        return (channels + (1 if self.one_factor else channels)) * WORD

    @property
    def stored_bits(self) -> int:
        """Bits of one store: what a block has of a pixel, up to a word."""
        return WORD_BITS if self.words else min(len(self.acc[0]) * self.bits, WORD_BITS)

    def begin(self, b: Builder, channel: int = 0) -> None:
        """Load kappa and lambda of a channel, if there are others than those of the channels before it."""
        for number in range(1 if channel and self.one_factor else 0, 2):
            b("pv.rqld", number, self.parameters)

    def emit(self, b: Builder, shift: int, meanwhile: Sequence[Callable[[], None]], first_channel: int = 0) -> None:
        """Store a block after :meth:`begin`.

        ``shift`` is the register of the right shift. ``meanwhile`` writes instructions that have nothing to do with it,
        in their order, after the first channel. ``first_channel`` is the number of that channel within a store.
        """
        channels, waiting = len(self.acc[0]), list(meanwhile)
        name = f"pv.rq{'s' if self.signed else 'u'}.{ElemFmt.of_width(self.bits).suffix}"
        per_store = self.stored_bits // self.bits
        for channel in range(channels):
            if channel:
                self.begin(b, channel)
                if waiting:
                    waiting.pop(0)()
            lane = (first_channel + channel) % per_store
            results = self.words or [accumulators[channel - lane] for accumulators in self.acc]
            for result, accumulators in zip(results, self.acc, strict=True):
                b(name, result, accumulators[channel], shift, lane)
            if channel == channels - 1:
                for write in waiting:
                    write()
            if lane == per_store - 1:
                for pixel, result in enumerate(self._fold(b, results) if self.folded else results):
                    self._store(b, pixel, result)

    def _fold(self, b: Builder, results: list[int]) -> list[int]:
        """What is stored of four pixels of a row."""
        greater = f"pv.max{'' if self.signed else 'u'}.{ElemFmt.of_width(self.bits).suffix}"
        first, second, third, last = results
        b(greater, second, first, second)
        b(greater, second, second, third)
        b(greater, last, third, last)
        return [first, second, last]

    def _store(self, b: Builder, pixel: int, register: int) -> None:
        store = STORES[self.stored_bits]
        if self.steps:
            b.store_and_move(store, register, self.steps[pixel], self.out[0])
        else:
            b(store, register, self.stored_bits // BYTE_BITS, self.out[pixel])
