"""End of a MatMul block: requantise, pack and store, or store the accumulators."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xpulpnn_sw.kernels.builder import BY_REGISTER, STORE_BY_BITS, THRESHOLD_BYTES, WORD, ZERO, Builder, Value
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantisation import SEARCHED_CHANNELS, Rule, gap_bytes
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

# registers of a rule: for parameters, and for a result on its way
_REGISTERS = {Rule.BN32: 2, Rule.BN64: 5, Rule.MULTIPLY: 1, Rule.SHIFT: 0, Rule.THRESHOLDS: 4, Rule.QNT: 1, None: 0}
_LEAST = 3  # temporaries that what is around the store needs
_CLIPPED_BITS = 16  # of the accumulators that pv.qnt takes
_QNT = {4: "pv.qnt.n", 2: "pv.qnt.c"}
_PAIR = 2  # pixels searched for side by side, so that none waits for its threshold


def temporaries(blocking: Blocking) -> int:
    """Registers that a :class:`Store` needs: of the rule, to clip without ``p.clip``, for the shift."""
    rule, count = blocking.rule, _REGISTERS[blocking.rule]
    if blocking.by_sign:
        return _LEAST
    if not blocking.variant.xpulp:
        # an addend by itself; to clip; for the shift
        count += (rule is Rule.BN64) + 1 + blocking.precision.y_signed + 1
    elif rule not in (Rule.BN32, Rule.THRESHOLDS, Rule.QNT):
        count += 1
    return max(_LEAST, count)


@dataclass(eq=False)
class BlockStore:
    """The end of a block: what its accumulators become, and where it goes.

    ``steps`` are, where one output pointer goes from pixel to pixel, registers with the distances from each pixel to
    the next, and from the last to the first one's next store.
    """

    b: Builder
    blocking: Blocking
    acc: list[list[int]]  # accumulators of [pixel][channel], which are lost
    out: list[int]  # an output pointer of each pixel, moved past what is stored, or one for all
    steps: list[int]
    parameters: int  # pointer to what the rule needs of the block or of each channel, moved past it

    def __post_init__(self) -> None:
        precision = self.blocking.precision
        self.bits, self.signed, self.channels = precision.y, precision.y_signed, len(self.acc[0])

    def put(self, pixel: int, register: int, bits: int, offset: int = 0) -> None:
        """Store so many bits of a pixel, without XpulpV2 ``offset`` bytes behind its pointer."""
        if self.steps:
            self.b(f"p.{STORE_BY_BITS[bits]}", register, self.steps[pixel], self.out[0], form=BY_REGISTER)
        else:
            self.b.access(STORE_BY_BITS[bits], register, bits // BYTE_BITS, offset, self.out[pixel])


@dataclass(eq=False)
class Store(BlockStore):
    """The end of a block without ``pv.rq``, behind whose biases the parameters of the rule lie.

    Without post-increment the pointer is still before the biases.
    """

    _temporaries: list[int]  # as many as the function tells, or more
    _partial: list[int]  # registers with an incomplete byte of each pixel between blocks smaller than a byte

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rule, self._xpulp, self._biases = self.blocking.rule, self.b.xpulp, self.channels * WORD
        self._stored = [0] * len(self.acc)  # bytes of the block

    def emit(self, first_channel: int, shift: Value) -> None:
        """Store a block whose first channel within the channel step is ``first_channel``."""
        self._stored = [0] * len(self.acc)
        if self._rule is None:
            for results in zip(*self.acc, strict=True):
                for pixel, accumulator in enumerate(results):
                    self._store(pixel, accumulator)
        elif self.blocking.by_sign:
            self._signs(first_channel)
        elif self._rule is Rule.QNT:
            self._quantise(first_channel)
        else:
            self._requantise(first_channel, shift)
        self._move_pointers()

    def _requantise(self, first_channel: int, shift: Value) -> None:
        b, per_store = self.b, self.blocking.stored_bits // self.bits
        whole = self.channels >= per_store
        held = [accumulators[0] for accumulators in self.acc] if whole else self._partial
        if self._rule is Rule.MULTIPLY:
            self._read(self._temporaries[0], 0)
        is_pipelined = self._rule is Rule.BN32 and self._xpulp and len(self.acc) == 1
        waiting: list[Callable[[], None]] = []
        for channel in range(self.channels):
            results = [accumulators[channel] for accumulators in self.acc]
            self._channel(channel, results, shift)
            position = (first_channel + channel) % per_store
            while waiting:
                # meanwhile the channel's kappa arrives
                waiting.pop()()
            for pixel, accumulator in enumerate(results):
                if position == 0 and whole:
                    held[pixel] = accumulator
                if self._rule is Rule.BN32:
                    lam, kappa = self._temporaries[:2]
                    b("mul", accumulator, accumulator, kappa)
                    b.add_shifted(accumulator, lam, shift)
                target = held[pixel] if per_store > 1 else accumulator
                finish = partial(self._finish, pixel, channel, target, position)
                if is_pipelined:
                    waiting.append(finish)
                else:
                    finish()
        for finish in waiting:
            finish()

    def _finish(self, pixel: int, channel: int, target: int, position: int) -> None:
        """Clip a result to its place and, if that is full, store it."""
        b, accumulators, value = self.b, self.acc[pixel], self.acc[pixel][channel]
        if self.bits < BYTE_BITS:
            self._clip(value if position else target, value)
            if position:
                b.append_bits(target, value, self.bits, position * self.bits, value)
        else:
            self._clip(value, value)
            # every other result goes into the word with the one before
            if position % 2 and self.bits > BYTE_BITS:
                b("pv.pack.h", target, value, accumulators[channel - 1])
            elif position % 2:
                b("pv.packlo.b" if position < 2 else "pv.packhi.b", target, value, accumulators[channel - 1])
        if (position + 1) * self.bits == self.blocking.stored_bits:
            self._store(pixel, target)

    def _signs(self, first_channel: int) -> None:
        """A bit for each accumulator; one register collects a byte of every pixel."""
        b, (held,), work = self.b, self._partial, self._temporaries[0]
        for channel, results in enumerate(zip(*self.acc, strict=True), first_channel):
            position = channel % BYTE_BITS
            for pixel, accumulator in enumerate(results):
                b("slt", accumulator, *((accumulator, ZERO) if self.blocking.counts else (ZERO, accumulator)))
                place = pixel * BYTE_BITS + position
                if place == 0 and not self._xpulp:
                    b.mv(held, accumulator)
                else:
                    b.append_bits(held, accumulator, 1, place, accumulator)
            if position == BYTE_BITS - 1:
                self._store(0, held)
                for pixel in range(1, len(results)):
                    b("srli", work, held, pixel * BYTE_BITS)
                    self._store(pixel, work)

    def _channel(self, channel: int, results: list[int], shift: Value) -> None:
        """Load the parameters of a channel; but for :attr:`Rule.BN32` also turn its accumulators into results."""
        b, first, second = self.b, *self._temporaries[:2]
        match self._rule:
            case Rule.BN32 if self._xpulp:
                # kappa is needed first
                b("lw", second, WORD, self.parameters)
                b("p.lw", first, 2 * WORD, self.parameters)
            case Rule.BN32:
                self._read(second, (2 * channel + 1) * WORD)
                self._read(first, 2 * channel * WORD)
            case Rule.BN64:
                lam, lam_high, kappa, kappa_high, work, *product = self._temporaries
                for number, register in enumerate((lam, lam_high, kappa, kappa_high)):
                    self._read(register, (channel * 4 + number) * WORD)
                working = (work, ZERO if self._xpulp else product[0])
                for accumulator in results:
                    b.upper_word(accumulator, accumulator, (lam, lam_high), (kappa, kappa_high), working, shift)
            case Rule.THRESHOLDS:
                self._search(channel, results)
            case _:
                for accumulator in results:
                    if self._rule is Rule.MULTIPLY:
                        b("mul", accumulator, accumulator, first)
                    b.shift_right(accumulator, accumulator, shift)

    def _read(self, register: int, offset: int) -> None:
        """Load the next word of parameters, ``offset`` bytes behind the biases."""
        self.b.access("lw", register, WORD, self._biases + offset, self.parameters)

    def _search(self, channel: int, results: list[int]) -> None:
        b, table = self.b, self._biases * (not self._xpulp) + channel * self.blocking.table_bytes
        for first in range(0, len(results), _PAIR):
            pair = results[first : first + _PAIR]
            places, thresholds = self._temporaries[: len(pair)], self._temporaries[_PAIR : 2 * _PAIR]
            for place in places:
                b("addi", place, self.parameters, table)
            b.search(places, pair, thresholds, self.bits)
            for place, accumulator in zip(places, pair, strict=True):
                b("sub", accumulator, place, self.parameters)
                b("addi", accumulator, accumulator, -table)
                b("srli", accumulator, accumulator, THRESHOLD_BYTES.bit_length() - 1)
                if self.signed:
                    b("xori", accumulator, accumulator, 1 << self.bits - 1)

    def _quantise(self, first_channel: int) -> None:
        """Codes of two channels at a time, which pv.qnt packs: a byte, or a half of one."""
        b, middle, count, per_store = self.b, self._temporaries[0], self.channels, BYTE_BITS // self.bits
        # a byte has all its upper bits inverted at once
        inverted = sum(1 << bit for bit in range(self.bits - 1, BYTE_BITS, self.bits))
        table = self.blocking.table_bytes
        tables = gap_bytes(self._rule, self.bits, count) + table // 2 - THRESHOLD_BYTES
        for channel in range(0, count, SEARCHED_CHANNELS):
            position = (first_channel + channel) % per_store
            b("addi", middle, self.parameters, tables + channel * table)
            for pixel, accumulators in enumerate(self.acc):
                first, second = accumulators[channel : channel + SEARCHED_CHANNELS]
                held = accumulators[channel - position] if count >= per_store else self._partial[pixel]
                code = held if position == 0 else first
                b("p.clipi", first, first, _CLIPPED_BITS)
                b("p.clipi", second, second, _CLIPPED_BITS)
                b("pv.pack.h", first, second, first)
                b(_QNT[self.bits], code, first, middle)
                if position:
                    b("p.inserti", held, code, SEARCHED_CHANNELS * self.bits - 1, position * self.bits)
                if position + SEARCHED_CHANNELS == per_store:
                    if not self.signed:
                        b("xori", held, held, inverted)
                    self._store(pixel, held)

    def _move_pointers(self) -> None:
        """Move each pointer that no post-increment has moved once, past all that the block has read or stored."""
        moves: list[tuple[int, int]] = []
        if not self._xpulp:
            moves = [(self.parameters, self._biases + self.blocking.rule_bytes)]
            moves += zip(self.out, self._stored, strict=True)
        elif self._rule in (Rule.THRESHOLDS, Rule.QNT) and not self.blocking.by_sign:
            moves = [(self.parameters, self.blocking.rule_bytes)]
        for pointer, distance in moves:
            self.b.add(pointer, distance, self._temporaries[0])

    def _clip(self, rd: int, value: int) -> None:
        """Clip to the range of the results; without ``p.clip`` by masks made from comparisons, free of branches."""
        b = self.b
        if self._rule is Rule.THRESHOLDS:
            if rd != value:
                b.mv(rd, value)
            return
        if self._xpulp:
            b("p.clipi", rd, value, self.bits) if self.signed else b("p.clipui", rd, value, self.bits + 1)
            return
        clipped, bound, *_ = self._temporaries[_REGISTERS[self._rule] + (self._rule is Rule.BN64) :]
        if self.signed:
            half = 1 << (self.bits - 1)
            # all ones if out of range; the bound on the side of the sign
            b("addi", clipped, value, half)
            b("sltiu", clipped, clipped, 1 << self.bits)
            b("addi", clipped, clipped, -1)
            b("srai", bound, value, WORD_BITS - 1)
            b("xori", bound, bound, half - 1)
            b("xor", bound, bound, value)
            b("and", bound, bound, clipped)
            b("xor", rd, value, bound)
        else:
            # all ones if out of range; the sign then turns that of negative values to 0
            b("sltiu", clipped, value, 1 << self.bits)
            b("addi", clipped, clipped, -1)
            b("or", clipped, clipped, value)
            b("srai", value, value, WORD_BITS - 1)
            b("xor", rd, clipped, value)
        if self.bits < BYTE_BITS:
            b("andi", rd, rd, (1 << self.bits) - 1)

    def _store(self, pixel: int, register: int) -> None:
        bits = self.blocking.stored_bits
        self.put(pixel, register, bits, self._stored[pixel])
        self._stored[pixel] += bits // BYTE_BITS
