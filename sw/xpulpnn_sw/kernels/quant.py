"""End of a MatMul block: requantise, pack and store, or store the accumulators."""

from dataclasses import dataclass

from xpulpnn_sw.kernels.builder import WORD, Builder, Value
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

_STORES = {8: ("p.sb", "sb"), 16: ("p.sh", "sh"), 32: ("p.sw", "sw")}
"""Store with and without post-increment by bits stored."""

TEMPORARIES = 3
"""Registers for lambda, kappa and a result on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """How results leave the accumulators.

    Parameters
    ----------
    bits : int
        Width of a requantised result.
    requantised : bool
        Whether the accumulators are requantised, or stored themselves.
    xpulp : bool
        Whether ``p.mac``, ``p.clipui``, ``p.inserti`` and post-increment stores may be used.
    acc : list of list of int
        Accumulator of [pixel][channel]; lost.
    out : list of int
        Output pointer of each pixel, moved past what is stored; or one for all, which goes from pixel to pixel.
    steps : list of int
        Registers with the distances from each pixel to the next, and from the last to the first one's next store; none
        if every pixel has a pointer.
    parameters : int
        Pointer to ``lambda, kappa`` of the channels, moved past them.
    temporaries : list of int
        Registers; :data:`TEMPORARIES` of them, one more without ``xpulp``.
    skipped : int
        Parameter bytes of the block before those, already read; without post-increment the pointer is still before
        them.
    partial : list of int
        For each pixel a register that holds an incomplete byte between blocks; used only by blocks smaller than a
        byte.
    """

    bits: int
    requantised: bool
    xpulp: bool
    acc: list[list[int]]
    out: list[int]
    steps: list[int]
    parameters: int
    temporaries: list[int]
    skipped: int
    partial: list[int]

    @property
    def stored_bits(self) -> int:
        """Bits of one store."""
        return max(self.bits, BYTE_BITS)

    def emit(self, b: Builder, first_channel: int, shift: Value) -> None:
        """Store a block whose first channel within the channel step is ``first_channel``."""
        stored = [0] * len(self.acc)
        if not self.requantised:
            for results in zip(*self.acc, strict=True):
                for pixel, accumulator in enumerate(results):
                    self._store(b, pixel, accumulator, stored)
            self._move_pointers(b, stored, 0)
            return
        per_store = self.stored_bits // self.bits
        lam, kappa, work = self.temporaries[:3]
        whole = len(self.acc[0]) >= per_store
        held = [accumulators[0] for accumulators in self.acc] if whole else self.partial
        for channel in range(len(self.acc[0])):
            self._load(b, lam, kappa, channel)
            position = (first_channel + channel) % per_store
            last_pixel = len(self.acc) - 1
            for pixel, accumulators in enumerate(self.acc):
                # lambda itself may be overwritten by the last pixel
                value = lam if pixel == last_pixel and self.xpulp else work
                if position == 0 and whole:
                    held[pixel] = accumulators[channel]
                self._scale(b, value, accumulators[channel], lam, kappa, shift)
                target = value
                if per_store > 1:
                    target = held[pixel]
                    self._merge(b, target, value, position)
                else:
                    self._clip(b, target, value)
                if position == per_store - 1:
                    self._store(b, pixel, target, stored)
        self._move_pointers(b, stored, len(self.acc[0]) * 2 * WORD)

    def _load(self, b: Builder, lam: int, kappa: int, channel: int) -> None:
        if self.xpulp:
            b("p.lw", lam, WORD, self.parameters)
            b("p.lw", kappa, WORD, self.parameters)
        else:
            # kappa is needed first
            place = self.skipped + channel * 2 * WORD
            b("lw", kappa, place + WORD, self.parameters)
            b("lw", lam, place, self.parameters)

    def _move_pointers(self, b: Builder, stored: list[int], parameters: int) -> None:
        """Without post-increment: move each pointer once, past all that the block has read or stored."""
        if self.xpulp:
            return
        moves = [(self.parameters, self.skipped + parameters), *zip(self.out, stored, strict=True)]
        for pointer, distance in moves:
            if distance:
                b("addi", pointer, pointer, distance)

    def _scale(self, b: Builder, rd: int, accumulator: int, lam: int, kappa: int, shift: Value) -> None:
        if self.xpulp:
            if rd != lam:
                b.mv(rd, lam)
            b("p.mac", rd, accumulator, kappa)
        else:
            b("mul", rd, accumulator, kappa)
            b("add", rd, rd, lam)
        b.shift_right(rd, rd, shift)

    def _clip(self, b: Builder, rd: int, value: int) -> None:
        """Clip to ``0..2**bits - 1``; without ``p.clipui`` by masks made from comparisons, free of branches."""
        if self.xpulp:
            b("p.clipui", rd, value, self.bits + 1)
            return
        # all ones if out of range; the sign then turns that of negative values to 0
        clipped = self.temporaries[3]
        b("sltiu", clipped, value, 1 << self.bits)
        b("addi", clipped, clipped, -1)
        b("or", clipped, clipped, value)
        b("srai", value, value, WORD_BITS - 1)
        b("xor", rd, clipped, value)
        if self.bits < BYTE_BITS:
            b("andi", rd, rd, (1 << self.bits) - 1)

    def _merge(self, b: Builder, held: int, value: int, position: int) -> None:
        """Clip a result into its place in the byte."""
        if position == 0:
            self._clip(b, held, value)
            return
        self._clip(b, value, value)
        if self.xpulp:
            b("p.inserti", held, value, self.bits - 1, position * self.bits)
        else:
            b("slli", value, value, position * self.bits)
            b("or", held, held, value)

    def _store(self, b: Builder, pixel: int, register: int, stored: list[int]) -> None:
        size = self.stored_bits // BYTE_BITS
        incrementing, plain = _STORES[self.stored_bits]
        if self.steps:
            b.store_and_move(incrementing, register, self.steps[pixel], self.out[0])
        elif self.xpulp:
            b(incrementing, register, size, self.out[pixel])
        else:
            b(plain, register, stored[pixel], self.out[pixel])
            stored[pixel] += size
