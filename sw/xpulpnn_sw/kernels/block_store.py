"""End of a MatMul block: requantise, pack and store, or store the accumulators."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.builder import BY_REGISTER, STORE_BY_BITS, THRESHOLD_BYTES, WORD, ZERO, Builder, Value
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantisation import SEARCHED_CHANNELS, Rule, gap_bytes

# registers that each rule needs for its parameters and intermediate results
_REGISTERS = {Rule.BN32: 2, Rule.BN64: 5, Rule.MULTIPLY: 1, Rule.SHIFT: 0, Rule.THRESHOLDS: 4, Rule.QNT: 1, None: 0}
_LEAST = 3  # temporaries that the code around the store needs
_CLIPPED_BITS = 16  # width to which accumulators are clipped before pv.qnt
_QNT = {4: "pv.qnt.n", 2: "pv.qnt.c"}
_PAIR = 2  # pixels whose threshold searches are interleaved to avoid load-use stalls


def temporaries(blocking: Blocking) -> int:
    rule, count = blocking.rule, _REGISTERS[blocking.rule]
    if blocking.by_sign:
        return _LEAST
    if not blocking.variant.xpulp:
        # the addend of bn64, a register to clip without p.clip, one for the shift
        count += (rule is Rule.BN64) + 2
    elif rule not in (Rule.BN32, Rule.THRESHOLDS, Rule.QNT):
        count += 1
    return max(_LEAST, count)


@dataclass(eq=False)
class BlockStore:
    """Base of the code that stores the results of a block.

    If all pixels share an output pointer, ``steps`` are registers that hold the distances by which each store moves it:
    to the next pixel and, after the last pixel, back to the first. Otherwise ``steps`` is empty.
    """

    b: Builder
    blocking: Blocking
    acc: list[list[int]]  # accumulators `[pixel][channel]`, which are clobbered
    out: list[int]  # output pointers, one for each pixel or one for all; each moves past the stored results
    steps: list[int]
    parameters: int  # pointer to the parameters of the rule, which moves past them

    def __post_init__(self) -> None:
        precision = self.blocking.precision
        self.bits, self.signed, self.channels = precision.y, precision.y_signed, len(self.acc[0])

    def put(self, pixel: int, register: int, bits: int, offset: int = 0) -> None:
        if self.steps:
            self.b(f"p.{STORE_BY_BITS[bits]}", register, self.steps[pixel], self.out[0], form=BY_REGISTER)
        else:
            self.b.access(STORE_BY_BITS[bits], register, bits // BYTE_BITS, offset, self.out[pixel])


@dataclass(eq=False)
class Store(BlockStore):
    """Code that requantises and stores the results of a block on cores without ``pv.rq``."""

    _temporaries: list[int]  # at least as many as :func:`temporaries` returns
    _partial: list[int]  # registers with each pixel's incomplete byte, if blocks are smaller than a byte

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rule, self._xpulp, self._biases = self.blocking.rule, self.b.xpulp, self.channels * WORD
        self._stored = [0] * len(self.acc)  # bytes stored of each pixel

    def emit(self, first_channel: int, shift: Value) -> None:
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
        moves: list[tuple[int, int]] = []
        if not self._xpulp:
            moves = [(self.parameters, self._biases + self.blocking.rule_bytes)]
            moves += zip(self.out, self._stored, strict=True)
        elif self._rule in (Rule.THRESHOLDS, Rule.QNT) and not self.blocking.by_sign:
            moves = [(self.parameters, self.blocking.rule_bytes)]
        for pointer, distance in moves:
            self.b.add(pointer, distance, self._temporaries[0])

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
                # the finish of the channel before fills the load-use stall of kappa
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
        b, accumulators, value = self.b, self.acc[pixel], self.acc[pixel][channel]
        if self.bits < BYTE_BITS:
            self._clip(value if position else target, value)
            if position:
                b.append_bits(target, value, self.bits, position * self.bits, value)
        else:
            self._clip(value, value)
            if position % 2 and self.bits > BYTE_BITS:
                b("pv.pack.h", target, value, accumulators[channel - 1])
            elif position % 2:
                b("pv.packlo.b" if position < 2 else "pv.packhi.b", target, value, accumulators[channel - 1])
        if (position + 1) * self.bits == self.blocking.stored_bits:
            self._store(pixel, target)

    def _signs(self, first_channel: int) -> None:
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
                b.chain(accumulator, place, ("sub", self.parameters), ("addi", -table))
                b("srli", accumulator, accumulator, THRESHOLD_BYTES.bit_length() - 1)
                if self.signed:
                    b("xori", accumulator, accumulator, 1 << self.bits - 1)

    def _quantise(self, first_channel: int) -> None:
        b, middle, count, per_store = self.b, self._temporaries[0], self.channels, BYTE_BITS // self.bits
        # inverts the highest bit of all elements of a byte
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

    def _clip(self, rd: int, value: int) -> None:
        b = self.b
        if self._rule is Rule.THRESHOLDS:
            if rd != value:
                b.mv(rd, value)
            return
        work = ZERO if self._xpulp else self._temporaries[_REGISTERS[self._rule] + (self._rule is Rule.BN64)]
        b.clip(rd, value, self.bits, work, signed=self.signed)
        if self.bits < BYTE_BITS and not self._xpulp:
            b("andi", rd, rd, (1 << self.bits) - 1)

    def _store(self, pixel: int, register: int) -> None:
        bits = self.blocking.stored_bits
        self.put(pixel, register, bits, self._stored[pixel])
        self._stored[pixel] += bits // BYTE_BITS
