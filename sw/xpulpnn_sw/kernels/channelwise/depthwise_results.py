"""End of a depthwise convolution: convert the accumulators of one channel to results.

The parameters are kept in registers. By the rule ``bn32``, lambda includes the bias. By exact requantisation in
hardware, lambda is the bias. By all other rules, accumulators start with the bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.builder import THRESHOLD_BYTES, WORD, ZERO, Held
from xpulpnn_sw.kernels.channelwise.elements import ElementBuilder
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision

# words of a channel's parameters, without the table of thresholds
_WORDS = {Rule.BN32: 2, Rule.BN64: 5, Rule.EXACT: 3, Rule.MULTIPLY: 2, Rule.SHIFT: 1, Rule.THRESHOLDS: 1}
PARAMETER_REGISTERS = _WORDS | {Rule.EXACT: 1, Rule.THRESHOLDS: 2}


def parameter_bytes(rule: Rule, bits: int) -> int:
    return _WORDS[rule] * WORD + (THRESHOLD_BYTES << bits if rule is Rule.THRESHOLDS else 0)


@dataclass(eq=False)
class ChannelResults:
    b: ElementBuilder
    rule: Rule
    precision: Precision
    shift: int  # register of the shift
    parameters: list[int]  # registers of the parameters
    temporaries: list[int]  # free registers

    def __post_init__(self) -> None:
        self._is_exact = self.rule is Rule.EXACT
        self.requantises = self.rule in (Rule.BN32, Rule.EXACT) and self.b.level.requantises
        if self._is_exact:
            self.shift = self.parameters[0]

    @property
    def start(self) -> int:
        return ZERO if self.requantises or self.rule is Rule.BN32 else self.parameters[0]

    def load(self, pointer: int) -> None:
        """Load the parameters at ``pointer``, which is clobbered."""
        if self.requantises:
            self.b("pv.rqld", 1, pointer)
            if self._is_exact:
                self.b("p.lw", self.shift, WORD, pointer)
            self.b("pv.rqld", 0, pointer)
            return
        for number, register in enumerate(self.parameters[: _WORDS[self.rule]]):
            self.b("lw", register, number * WORD, pointer)
        if self.rule is Rule.THRESHOLDS:
            self.b("addi", self.parameters[1], pointer, WORD)

    def multiply(self, accumulator: int, words: Sequence[int], weights: Sequence[int]) -> None:
        is_empty = self.start == ZERO
        if not is_empty:
            self.b.mv(accumulator, self.start)
        for number, (word, weight) in enumerate(zip(words, weights, strict=True)):
            self.dot(accumulator, word, weight, adds=number > 0 or not is_empty)

    def dot(self, rd: int, word: int, weights: int, *, adds: bool) -> None:
        x_signed, w_signed = self.precision.x_signed, self.precision.w_signed
        signs = "sp" if x_signed and w_signed else "usp" if x_signed or w_signed else "up"
        # the unsigned factor comes first
        factors = (weights, word) if x_signed and not w_signed else (word, weights)
        self.b(f"pv.{'s' if adds else ''}dot{signs}.b", rd, *factors)

    def scale(self, results: list[int], accumulators: list[int]) -> None:
        """Begin to requantise the accumulators, which are clobbered; :meth:`finish` completes the results."""
        b, precision = self.b, self.precision
        pairs = list(zip(results, accumulators, strict=True))
        if self.requantises:
            for result, total in pairs:
                b.requantise(result, total, self.shift, 0, precision.y, signed=precision.y_signed, exact=self._is_exact)
            return
        match self.rule:
            case Rule.BN32:
                lam, kappa = self.parameters
                for result, accumulator in pairs:
                    b("mul", result, accumulator, kappa)
                for result in results:
                    b.add_shifted(result, lam, Held(self.shift))
            case Rule.BN64:
                _, lam, lam_high, kappa, kappa_high = self.parameters
                work = (self.temporaries[0], self.temporaries[1])
                for result, accumulator in pairs:
                    b.upper_word(result, accumulator, (lam, lam_high), (kappa, kappa_high), work, Held(self.shift))
            case Rule.MULTIPLY:
                for result, accumulator in pairs:
                    b("mul", result, accumulator, self.parameters[1])
            case Rule.SHIFT:
                for result, accumulator in pairs:
                    b("sra", result, accumulator, self.shift)
            case _:
                self._search(pairs)

    def finish(self, results: list[int], work: int) -> None:
        """Complete the results of :meth:`scale` by shifting and clipping; without XpulpV2 ``work`` is clobbered."""
        if self.rule is Rule.THRESHOLDS or self.requantises:
            return
        if self.rule is Rule.MULTIPLY:
            for result in results:
                self.b("sra", result, result, self.shift)
        for result in results:
            self.b.clip(result, result, self.precision.y, work, signed=self.precision.y_signed)

    def _search(self, pairs: list[tuple[int, int]]) -> None:
        b, table, places = self.b, self.parameters[1], [place for place, _ in pairs]
        for place in places:
            b.mv(place, table)
        b.search(places, [accumulator for _, accumulator in pairs], self.temporaries, self.precision.y)
        for place in places:
            b("sub", place, place, table)
            b("srli", place, place, THRESHOLD_BYTES.bit_length() - 1)
            if self.precision.y_signed:
                b("xori", place, place, 1 << self.precision.y - 1)


def merge(b: ElementBuilder, byte: int, result: int, bits: int, position: int, temporaries: tuple[int, int]) -> None:
    """Insert ``result`` into ``byte``; ``position`` holds the bit number, and the other registers are clobbered."""
    if b.xpulp:
        b("p.insert", byte, result, position)
        return
    mask, others = temporaries
    assert bits < BYTE_BITS
    b.li(mask, (1 << bits) - 1)
    b.chain(result, result, ("and", mask), ("sll", position))
    b.chain(others, mask, ("sll", position), ("xori", -1))
    b.chain(byte, byte, ("and", others), ("or", result))
