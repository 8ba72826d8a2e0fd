"""End of a MatMul block: requantise, pack and store, or store the accumulators."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xpulpnn_sw.kernels.builder import STORE_BY_BITS, THRESHOLD_BYTES, WORD, ZERO, Builder, Value
from xpulpnn_sw.kernels.requantisation import SEARCHED_CHANNELS, Rule, gap_bytes
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layers.precision import SIGN_BITS

# registers of a rule: for parameters, and for a result on its way
_REGISTERS = {Rule.BN32: 2, Rule.BN64: 5, Rule.MULTIPLY: 1, Rule.SHIFT: 0, Rule.THRESHOLDS: 4, Rule.QNT: 1, None: 0}
_LEAST = 3  # temporaries that what is around the store needs
_CLIPPED_BITS = 16  # of the accumulators that pv.qnt takes
_QNT = {4: "pv.qnt.n", 2: "pv.qnt.c"}
_PAIR = 2  # pixels searched for side by side, so that none waits for its threshold


def temporaries(rule: Rule | None, *, xpulp: bool, signed: bool, by_sign: bool = False) -> int:
    """Registers that a :class:`Store` needs: of the rule, to clip without ``p.clip``, for the shift.

    Results of one bit, ``by_sign``, need none of them.
    """
    if by_sign:
        return _LEAST
    count = _REGISTERS[rule]
    if not xpulp:
        # an addend by itself; to clip; for the shift
        count += (rule is Rule.BN64) + 1 + signed + 1
    elif rule not in (Rule.BN32, Rule.THRESHOLDS, Rule.QNT):
        count += 1
    return max(_LEAST, count)


def stored_bits(rule: Rule | None, bits: int, channels: int, *, xpulp: bool) -> int:
    """Bits of one store of results of ``bits`` bits: with XpulpV2 all of a block's channels of a pixel, up to a word.

    Without it, and of results that come as bytes, a byte at least.
    """
    if not xpulp or rule in (None, Rule.QNT):
        return max(bits, BYTE_BITS)
    return min(max(channels * bits, BYTE_BITS), WORD_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStore:
    """The end of a block: what its accumulators become, and where it goes."""

    bits: int  # width of a requantised result
    signed: bool  # whether requantised results are in two's complement
    acc: list[list[int]]  # accumulator of [pixel][channel]; lost
    # output pointer of each pixel, moved past what is stored; or one for all, which goes from pixel to pixel
    out: list[int]
    # registers with the distances from each pixel to the next, and from the last to the first one's next store; none if
    # every pixel has a pointer
    steps: list[int]
    parameters: int  # pointer to what the rule needs of the block or of each channel, moved past it

    def _put(self, b: Builder, pixel: int, register: int, bits: int, offset: int = 0) -> None:
        """Store so many bits of a pixel, without XpulpV2 ``offset`` bytes behind its pointer."""
        if self.steps:
            b.store_and_move(f"p.{STORE_BY_BITS[bits]}", register, self.steps[pixel], self.out[0])
        else:
            b.access(STORE_BY_BITS[bits], register, bits // BYTE_BITS, offset, self.out[pixel])


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(BlockStore):
    """The end of a block without ``pv.rq``."""

    rule: Rule | None  # how the accumulators are requantised; None: they are stored themselves
    counts: bool  # whether accumulators of results of one bit are negative for +1, not positive
    xpulp: bool  # whether XpulpV2 may be used: `p.addN`, `p.clipi`, `p.inserti`, post-increment stores
    temporaries: list[int]  # Registers, as many as temporaries says
    # parameter bytes of the block before those, already read; without post-increment the pointer is still before them
    skipped: int
    # for each pixel a register that holds an incomplete byte between blocks; used only by blocks smaller than a byte
    partial: list[int]

    @property
    def stored_bits(self) -> int:
        """Bits of one store."""
        return stored_bits(self.rule, self.bits, len(self.acc[0]), xpulp=self.xpulp)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of parameters of a block, without those of :attr:`skipped`."""
        channels = len(self.acc[0])
        match self.rule:
            case Rule.BN32:
                return channels * 2 * WORD
            case Rule.BN64:
                return channels * 4 * WORD
            case Rule.MULTIPLY:
                return WORD
            case Rule.QNT:
                return gap_bytes(self.rule, self.bits, channels) + channels * self._table
            case Rule.THRESHOLDS if not self.by_sign:
                return channels * self._table
            case _:
                return 0

    @property
    def by_sign(self) -> bool:
        """Tell whether results are signs of accumulators."""
        return self.bits == SIGN_BITS

    @property
    def _table(self) -> int:
        return THRESHOLD_BYTES << self.bits

    def emit(self, b: Builder, first_channel: int, shift: Value) -> None:
        """Store a block whose first channel within the channel step is ``first_channel``."""
        stored = [0] * len(self.acc)
        if self.rule is None:
            for results in zip(*self.acc, strict=True):
                for pixel, accumulator in enumerate(results):
                    self._store(b, pixel, accumulator, stored)
            self._move_pointers(b, stored)
            return
        if self.by_sign or self.rule is Rule.QNT:
            emit = self._signs if self.by_sign else self._quantise
            emit(b, first_channel, stored)
            self._move_pointers(b, stored)
            return
        per_store = self.stored_bits // self.bits
        whole = len(self.acc[0]) >= per_store
        held = [accumulators[0] for accumulators in self.acc] if whole else self.partial
        if self.rule is Rule.MULTIPLY:
            self._read(b, self.temporaries[0], 0)
        waiting: list[Callable[[], None]] = []
        for channel in range(len(self.acc[0])):
            results = [accumulators[channel] for accumulators in self.acc]
            self._channel(b, channel, results, shift)
            position = (first_channel + channel) % per_store
            while waiting:
                # meanwhile the channel's kappa arrives
                waiting.pop()()
            for pixel, accumulator in enumerate(results):
                if position == 0 and whole:
                    held[pixel] = accumulator
                if self.rule is Rule.BN32:
                    lam, kappa = self.temporaries[:2]
                    b("mul", accumulator, accumulator, kappa)
                    b.add_shifted(accumulator, lam, shift)
                target = held[pixel] if per_store > 1 else accumulator
                finish = partial(self._finish, b, pixel, channel, target, position, stored)
                if self._is_pipelined:
                    waiting.append(finish)
                else:
                    finish()
        for finish in waiting:
            finish()
        self._move_pointers(b, stored)

    @property
    def _is_pipelined(self) -> bool:
        return self.rule is Rule.BN32 and self.xpulp and len(self.acc) == 1

    def _finish(self, b: Builder, pixel: int, channel: int, target: int, position: int, stored: list[int]) -> None:
        """Clip a result to its place and, if that is full, store it."""
        value = self.acc[pixel][channel]
        if self.bits >= BYTE_BITS:
            self._clip(b, value, value)
            self._pack(b, target, self.acc[pixel], channel, position)
        else:
            self._merge(b, target, value, position)
        if (position + 1) * self.bits == self.stored_bits:
            self._store(b, pixel, target, stored)

    def _signs(self, b: Builder, first_channel: int, stored: list[int]) -> None:
        """A bit for each accumulator; one register collects a byte of every pixel."""
        (held,), work = self.partial, self.temporaries[0]
        for channel, results in enumerate(zip(*self.acc, strict=True), first_channel):
            position = channel % BYTE_BITS
            for pixel, accumulator in enumerate(results):
                b("slt", accumulator, *((accumulator, ZERO) if self.counts else (ZERO, accumulator)))
                place = pixel * BYTE_BITS + position
                if self.xpulp:
                    b("p.inserti", held, accumulator, 0, place)
                elif place == 0:
                    b.mv(held, accumulator)
                else:
                    b("slli", accumulator, accumulator, place)
                    b("or", held, held, accumulator)
            if position == BYTE_BITS - 1:
                self._store(b, 0, held, stored)
                for pixel in range(1, len(results)):
                    b("srli", work, held, pixel * BYTE_BITS)
                    self._store(b, pixel, work, stored)

    def _channel(self, b: Builder, channel: int, results: list[int], shift: Value) -> None:
        """Load the parameters of a channel; but for :attr:`Rule.BN32` also turn its accumulators into results."""
        match self.rule:
            case Rule.BN32:
                self._load(b, self.temporaries[0], self.temporaries[1], channel)
            case Rule.BN64:
                self._scale_wide(b, channel, results, shift)
            case Rule.THRESHOLDS:
                self._search(b, channel, results)
            case _:
                for accumulator in results:
                    if self.rule is Rule.MULTIPLY:
                        b("mul", accumulator, accumulator, self.temporaries[0])
                    b.shift_right(accumulator, accumulator, shift)

    def _read(self, b: Builder, register: int, offset: int) -> None:
        """Load the next word of parameters, ``offset`` bytes behind the biases."""
        b.access("lw", register, WORD, self.skipped + offset, self.parameters)

    def _scale_wide(self, b: Builder, channel: int, results: list[int], shift: Value) -> None:
        """The upper word of ``kappa * acc + lambda``, shifted."""
        lam, lam_high, kappa, kappa_high, work, *product = self.temporaries
        for number, register in enumerate((lam, lam_high, kappa, kappa_high)):
            self._read(b, register, (channel * 4 + number) * WORD)
        for accumulator in results:
            working = (work, ZERO if self.xpulp else product[0])
            b.upper_word(accumulator, accumulator, (lam, lam_high), (kappa, kappa_high), working, shift)

    def _search(self, b: Builder, channel: int, results: list[int]) -> None:
        """Count the thresholds below each accumulator: a step of half the levels left wherever one lies below."""
        table = self.skipped - len(self.acc[0]) * WORD * self.xpulp + channel * self._table
        for first in range(0, len(results), _PAIR):
            pair = results[first : first + _PAIR]
            places, thresholds = self.temporaries[: len(pair)], self.temporaries[_PAIR : 2 * _PAIR]
            for place in places:
                b("addi", place, self.parameters, table)
            b.search(places, pair, thresholds, self.bits)
            for place, accumulator in zip(places, pair, strict=True):
                b("sub", accumulator, place, self.parameters)
                b("addi", accumulator, accumulator, -table)
                b("srli", accumulator, accumulator, THRESHOLD_BYTES.bit_length() - 1)
                if self.signed:
                    b("xori", accumulator, accumulator, 1 << self.bits - 1)

    def _quantise(self, b: Builder, first_channel: int, stored: list[int]) -> None:
        """Codes of two channels at a time, which pv.qnt packs: a byte, or a half of one."""
        middle, count, per_store = self.temporaries[0], len(self.acc[0]), BYTE_BITS // self.bits
        # a byte has all its upper bits inverted at once
        inverted = sum(1 << bit for bit in range(self.bits - 1, BYTE_BITS, self.bits))
        tables = gap_bytes(self.rule, self.bits, count)
        for channel in range(0, count, SEARCHED_CHANNELS):
            position = (first_channel + channel) % per_store
            b("addi", middle, self.parameters, tables + channel * self._table + self._table // 2 - THRESHOLD_BYTES)
            for pixel, accumulators in enumerate(self.acc):
                first, second = accumulators[channel : channel + SEARCHED_CHANNELS]
                held = accumulators[channel - position] if count >= per_store else self.partial[pixel]
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
                    self._store(b, pixel, held, stored)

    def _load(self, b: Builder, lam: int, kappa: int, channel: int) -> None:
        # kappa is needed first
        if self.xpulp:
            b("lw", kappa, WORD, self.parameters)
            b("p.lw", lam, 2 * WORD, self.parameters)
        else:
            place = self.skipped + channel * 2 * WORD
            b("lw", kappa, place + WORD, self.parameters)
            b("lw", lam, place, self.parameters)

    def _move_pointers(self, b: Builder, stored: list[int]) -> None:
        """Move each pointer that no post-increment has moved once, past all that the block has read or stored."""
        if self.xpulp:
            if self.rule in (Rule.THRESHOLDS, Rule.QNT) and not self.by_sign:
                self._move(b, self.parameters, self.parameter_bytes)
            return
        self._move(b, self.parameters, self.skipped + self.parameter_bytes)
        for pointer, distance in zip(self.out, stored, strict=True):
            self._move(b, pointer, distance)

    def _move(self, b: Builder, pointer: int, distance: int) -> None:
        if distance:
            b.add(pointer, distance, self.temporaries[0])

    def _clip(self, b: Builder, rd: int, value: int) -> None:
        """Clip to the range of the results; without ``p.clip`` by masks made from comparisons, free of branches."""
        if self.rule is Rule.THRESHOLDS:
            if rd != value:
                b.mv(rd, value)
            return
        if self.xpulp:
            b("p.clipi", rd, value, self.bits) if self.signed else b("p.clipui", rd, value, self.bits + 1)
            return
        spare = self.temporaries[_REGISTERS[self.rule] + (self.rule is Rule.BN64) :]
        clipped = spare[0]
        if self.signed:
            bound, half = spare[1], 1 << (self.bits - 1)
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

    def _pack(self, b: Builder, held: int, accumulators: list[int], channel: int, position: int) -> None:
        """Put every other result, with the one before, into the word."""
        if position % 2 == 0:
            return
        upper, lower = accumulators[channel], accumulators[channel - 1]
        if self.bits > BYTE_BITS:
            b("pv.pack.h", held, upper, lower)
        else:
            b("pv.packlo.b" if position < 2 else "pv.packhi.b", held, upper, lower)

    def _store(self, b: Builder, pixel: int, register: int, stored: list[int]) -> None:
        size = self.stored_bits // BYTE_BITS
        self._put(b, pixel, register, self.stored_bits, stored[pixel])
        stored[pixel] += size
