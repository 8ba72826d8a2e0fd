"""Results of a depthwise convolution from its accumulators, by the parameters of one channel, kept in registers.

With ``bn32`` lambda holds the bias's share. By all other rules accumulators start with the bias.
"""

from xpulpnn_sw.kernels.builder import THRESHOLD_BYTES, WORD, ZERO, Held
from xpulpnn_sw.kernels.channelwise.code import KAPPA, LAMBDA, ElementBuilder, ElementRequantiser
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layers.precision import Precision

# words of a channel's parameters, thresholds besides
_WORDS = {Rule.BN32: 2, Rule.BN64: 5, Rule.MULTIPLY: 2, Rule.SHIFT: 1, Rule.THRESHOLDS: 1}
_REGISTERS = _WORDS | {Rule.THRESHOLDS: 2}


def parameter_bytes(rule: Rule, bits: int) -> int:
    """Bytes of a channel's parameters for results of ``bits`` bits."""
    return _WORDS[rule] * WORD + (THRESHOLD_BYTES << bits if rule is Rule.THRESHOLDS else 0)


def parameter_registers(rule: Rule) -> int:
    """Registers for a channel's parameters."""
    return _REGISTERS[rule]


class ChannelResults:
    """Writes what turns accumulators of one channel into results."""

    def __init__(
        self,
        b: ElementBuilder,
        rule: Rule,
        precision: Precision,
        shift: int,
        parameters: list[int],
        temporaries: list[int],
    ) -> None:
        self._b, self._rule, self._precision, self._shift = b, rule, precision, shift
        self._parameters, self._temporaries = parameters, temporaries
        is_normalised = rule is Rule.BN32 and b.level.requantises
        self._requantiser = ElementRequantiser(b, precision.y, signed=precision.y_signed) if is_normalised else None

    @property
    def start(self) -> int:
        """Register with what accumulators start with."""
        return ZERO if self._rule is Rule.BN32 else self._parameters[0]

    def load(self, pointer: int) -> None:
        """Load the parameters at ``pointer``, which is lost."""
        b = self._b
        if self._requantiser is not None:
            self._requantiser.load(LAMBDA, pointer)
            self._requantiser.load(KAPPA, pointer)
            return
        for number, register in enumerate(self._parameters[: _WORDS[self._rule]]):
            b("lw", register, number * WORD, pointer)
        if self._rule is Rule.THRESHOLDS:
            b("addi", self._parameters[1], pointer, WORD)

    def scale(self, results: list[int], accumulators: list[int]) -> None:
        """The results before :meth:`finish`, or lowest bits of them; the accumulators are lost."""
        b = self._b
        if self._requantiser is not None:
            for result, accumulator in zip(results, accumulators, strict=True):
                self._requantiser.put(result, accumulator, 0, self._shift)
            return
        pairs = list(zip(results, accumulators, strict=True))
        match self._rule:
            case Rule.BN32:
                lam, kappa = self._parameters
                for result, accumulator in pairs:
                    b("mul", result, accumulator, kappa)
                for result in results:
                    b.add_shifted(result, lam, Held(self._shift))
            case Rule.BN64:
                _, lam, lam_high, kappa, kappa_high = self._parameters
                work = (self._temporaries[0], self._temporaries[1])
                for result, accumulator in pairs:
                    b.upper_word(result, accumulator, (lam, lam_high), (kappa, kappa_high), work, Held(self._shift))
            case Rule.MULTIPLY:
                for result, accumulator in pairs:
                    b("mul", result, accumulator, self._parameters[1])
            case Rule.SHIFT:
                for result, accumulator in pairs:
                    b("sra", result, accumulator, self._shift)
            case _:
                self._search(pairs)

    def finish(self, results: list[int], work: int) -> None:
        """Shift and clip what is still to be; without XpulpV2 ``work`` is lost."""
        precision = self._precision
        if self._rule is Rule.THRESHOLDS or self._requantiser is not None:
            return
        if self._rule is Rule.MULTIPLY:
            for result in results:
                self._b("sra", result, result, self._shift)
        for result in results:
            self._b.clip(result, result, precision.y, work, signed=precision.y_signed)

    def _search(self, pairs: list[tuple[int, int]]) -> None:
        b, table, places = self._b, self._parameters[1], [place for place, _ in pairs]
        for place in places:
            b.mv(place, table)
        b.search(places, [accumulator for _, accumulator in pairs], self._temporaries, self._precision.y)
        for place in places:
            b("sub", place, place, table)
            b("srli", place, place, THRESHOLD_BYTES.bit_length() - 1)
            if self._precision.y_signed:
                b("xori", place, place, 1 << self._precision.y - 1)


def merge(b: ElementBuilder, byte: int, result: int, bits: int, position: int, temporaries: tuple[int, int]) -> None:
    """Put a result, which is lost, into a byte, at the place that a register tells as ``p.insert`` wants it.

    Without XpulpV2 ``position`` is the place alone, and both temporaries are lost.
    """
    if b.xpulp:
        b("p.insert", byte, result, position)
        return
    mask, kept = temporaries
    assert bits < BYTE_BITS
    b.li(mask, (1 << bits) - 1)
    b("and", result, result, mask)
    b("sll", result, result, position)
    b("sll", kept, mask, position)
    b("xori", kept, kept, -1)
    b("and", byte, byte, kept)
    b("or", byte, byte, result)
