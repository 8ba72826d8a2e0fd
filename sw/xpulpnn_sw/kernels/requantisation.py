"""Rules that convert accumulators to results: the parameters of each output channel and their layout in memory."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import HALF_BITS, HALF_BYTES, WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sw.kernels.layout import Ints

MAX_SHIFT = 31  # largest shift of an RV32 ``srai``
MAX_WIDE_SHIFT = 63
MAX_EXACT_SHIFT = 62
_MAX_SUM = (1 << MAX_SHIFT) - 1  # largest accumulator
_ZERO_BOUND, _ZERO_PLACE = 1 << 7, 8  # bound of the zero point, and its bit position above the shift
SEARCHED_CHANNELS = 2  # channels whose thresholds one pv.qnt searches
SEARCHED_BITS = (4, 2)  # widths of the results of pv.qnt


class Rule(Enum):
    BN32 = "bn32"
    BN64 = "bn64"
    EXACT = "exact"
    EXACT_ONE_SHIFT = "exact_one_shift"
    MULTIPLY = "multiply"
    SHIFT = "shift"
    THRESHOLDS = "thresholds"
    QNT = "qnt"


RULES = tuple(rule.value for rule in Rule)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Shifted:
    longest_shift: ClassVar[int] = MAX_SHIFT

    shift: int

    def __post_init__(self) -> None:
        if not 0 <= self.shift <= self.longest_shift:
            raise LayerError(f"shift must be 0..{self.longest_shift}, not {self.shift}")

    @property
    def applied_shift(self) -> int:
        return self.shift


@dataclass(frozen=True, eq=False, kw_only=True)
class _Normalising(_Shifted):
    kappa: Ints
    lam: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class Requantisation(_Normalising):
    """Batch normalisation and requantisation ``clip(int32(kappa*acc + lam) >> shift)`` to the range of the results."""

    rule = Rule.BN32

    def channel_words(self) -> Ints:
        return np.stack([self.lam, self.kappa], axis=-1)


@dataclass(frozen=True, eq=False, kw_only=True)
class WideRequantisation(_Normalising):
    """Batch normalisation and requantisation in 64 bits: ``clip(int32(int64(kappa*acc + lam) >> shift))``."""

    rule = Rule.BN64
    longest_shift: ClassVar[int] = MAX_WIDE_SHIFT

    @property
    def applied_shift(self) -> int:
        """Shift of the upper word of the sum; for shifts below 32 it is 0, and the parameters are scaled instead."""
        return max(self.shift - 32, 0)

    def channel_words(self) -> Ints:
        """Return lambda and kappa of each channel, lower words first, times 2**(32 - shift) for shifts below 32."""
        missing = np.uint64(max(32 - self.shift, 0))
        words: list[NDArray[np.int64]] = []
        for values in (self.lam, self.kappa):
            scaled = values.astype(np.int64).view(np.uint64) << missing
            words += [(scaled & np.uint64(WORD_MASK)).astype(np.int64), (scaled >> np.uint64(XLEN)).astype(np.int64)]
        return np.stack(words, axis=-1)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactRequantisation:
    """TFLite's requantisation, rounded once: ``clip((factor*acc + 2**(shift - 1) >> shift) + zero)`` in 64 bits."""

    factors: Ints  # factor of each channel, 32 bits
    shifts: Ints  # shift of each channel
    zero: int  # zero point of the results, 8 bits

    rule = Rule.EXACT

    @property
    def applied_shift(self) -> int:
        return 0

    def __post_init__(self) -> None:
        if self.shifts.min() < 1 or self.shifts.max() > MAX_EXACT_SHIFT:
            raise LayerError(f"shifts must be 1..{MAX_EXACT_SHIFT}, not {self.shifts.min()}..{self.shifts.max()}")
        if not -_ZERO_BOUND <= self.zero < _ZERO_BOUND:
            raise LayerError(f"zero must be {-_ZERO_BOUND}..{_ZERO_BOUND - 1}, not {self.zero}")

    def _shift_words(self) -> Ints:
        return self.shifts.astype(np.int64) | (self.zero & 2 * _ZERO_BOUND - 1) << _ZERO_PLACE

    def channel_words(self) -> Ints:
        return np.stack([self._shift_words(), self.factors.astype(np.int64)], axis=-1)

    def with_one_shift(self, bias: Ints, reach: Ints, results: range) -> "tuple[OneShiftRequantisation, Ints] | None":
        """Return a rule with one shift for all channels, and biases, that give the same results; None if there is none.

        Accumulators of a channel differ from its bias by at most ``reach``. ``results`` is the range of the results.
        """
        channels = list(zip(self.factors.tolist(), self.shifts.tolist(), bias.tolist(), reach.tolist(), strict=True))
        bounds = results.start - self.zero, results.stop - 1 - self.zero
        rooms = [shift + MAX_SHIFT - abs(factor).bit_length() for factor, shift, *_ in channels if factor]
        longest = min(MAX_EXACT_SHIFT, *rooms, MAX_EXACT_SHIFT)
        scaled = [_at_shift(longest, bounds, *channel) for channel in channels] if longest > 0 else [None]
        if None in scaled:
            return None
        factors, biases = np.array(scaled, np.int64).T
        return OneShiftRequantisation(factors=factors, shifts=np.full_like(factors, longest), zero=self.zero), biases

    def in_software(self, bias: Ints, reach: Ints) -> WideRequantisation:
        """Return a rule with 64-bit sums that gives the same results; raise :class:`LayerError` if there is none.

        Accumulators differ from their biases by at most ``reach``. The shift is the longest for which all sums and
        factors fit.
        """
        channels = list(zip(self.factors.tolist(), self.shifts.tolist(), bias.tolist(), reach.tolist(), strict=True))
        most = max(abs(factor) * (abs(start) + far) >> shift for factor, shift, start, far in channels)
        # sums may be small because all weights are 0
        rooms = (MAX_WIDE_SHIFT + shift - abs(factor).bit_length() for factor, shift, *_ in channels)
        longest = min(MAX_WIDE_SHIFT - (most + 2 * _ZERO_BOUND).bit_length(), MAX_EXACT_SHIFT, *rooms)
        kappa, lam = list[int](), list[int]()
        for factor, shift, start, far in channels:
            missing = max(shift - longest, 0)
            kappa.append((factor << max(longest - shift, 0)) + (1 << missing >> 1) >> missing)
            # part of the bias that the rounded factor loses
            rest = (factor * start >> missing) - kappa[-1] * start if missing else 0
            lam.append((2 * self.zero + 1 << longest - 1) + rest)
            steps: Iterable[int] = self._step_accumulators(factor, shift, start, far) if missing else ()
            changed = missing > 0 and abs(start) + far > _MAX_SUM
            changed |= any(
                kappa[-1] * total + lam[-1] >> longest != self._result(factor, shift, total) for total in steps
            )
            if changed or longest <= MAX_SHIFT:
                raise LayerError("results of the exact rule must have sums of 64 bits where it runs in software")
        return WideRequantisation(kappa=np.array(kappa, np.int64), lam=np.array(lam, np.int64), shift=longest)

    def _result(self, factor: int, shift: int, accumulator: int) -> int:
        return (factor * accumulator + (1 << (shift - 1)) >> shift) + self.zero

    def _step_accumulators(self, factor: int, shift: int, start: int, far: int) -> Iterator[int]:
        ends = start - far, start + far
        yield from ends
        low, high = sorted(self._result(factor, shift, end) - self.zero for end in ends)
        for result in range(low + 1, high + 1):
            near = (2 * result - 1 << shift - 1) // factor
            yield from (accumulator for accumulator in range(near - 1, near + 3) if ends[0] <= accumulator <= ends[1])


class OneShiftRequantisation(ExactRequantisation):
    rule = Rule.EXACT_ONE_SHIFT

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shifts.min() != self.shifts.max():
            raise LayerError(f"shifts must be the same for all channels, not {self.shifts.min()}..{self.shifts.max()}")

    @property
    def applied_shift(self) -> int:
        return int(self._shift_words()[0])

    def channel_words(self) -> Ints:
        return self.factors.astype(np.int64).reshape(-1, 1)


def _at_shift(
    longest: int, bounds: tuple[int, int], factor: int, shift: int, bias: int, reach: int
) -> tuple[int, int] | None:
    """Return a channel's factor and bias that give the same results with the shift ``longest``; None if there are none.

    Results are those before the zero point is added, clipped to ``bounds``. A result begins with the least sum of
    at least ``(result - 1/2) * 2**shift / factor``. With a rounded factor, all results must begin later by the same
    number, which is then added to the bias.
    """
    if factor < 0:
        turned = _at_shift(longest, bounds, -factor, shift, -bias, reach)
        return turned and (-turned[0], -turned[1])
    missing = shift - longest
    if not factor or missing <= 0:
        return factor << max(-missing, 0), bias

    def results(factor: int, shift: int, bias: int) -> list[int]:
        ends = (factor * (bias + far) + (1 << shift - 1) >> shift for far in (-reach, reach))
        return [min(max(end, bounds[0]), bounds[1]) for end in ends]

    low, high = results(factor, shift, bias)
    steps = [2 * result - 1 << longest - 1 for result in range(min(low + 1, high), high + 1)]
    for rounded in (factor >> missing, (factor >> missing) + 1):
        later = {-(-step // rounded) + (-step << missing) // factor for step in steps} if rounded else set[int]()
        moved = bias + min(later, default=0)
        is_short = rounded <= _MAX_SUM and max(abs(bias), abs(moved)) + reach <= _MAX_SUM
        if len(later) == 1 and is_short and results(rounded, longest, moved) == [low, high]:
            return rounded, moved
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Multiplication(_Shifted):
    """Requantisation with one factor for the whole layer: ``clip(int32(factor*acc) >> shift)``."""

    factor: int  # 32 bits; the product wraps

    rule = Rule.MULTIPLY


@dataclass(frozen=True, eq=False, kw_only=True)
class Shifting(_Shifted):
    """Requantisation by a shift alone: ``clip(acc >> shift)``."""

    rule = Rule.SHIFT
    factor: ClassVar[int] = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Thresholds:
    """Rule by which a result is the number of thresholds below the accumulator; signed results are centred around 0."""

    values: Ints  # `[channel][threshold]`, ascending, signed 16-bit

    rule = Rule.THRESHOLDS
    applied_shift = 0

    def __post_init__(self) -> None:
        bound = 1 << (HALF_BITS - 1)
        if self.values.min() < -bound or self.values.max() >= bound:
            raise LayerError(f"thresholds must be {-bound}..{bound - 1}, not {self.values.min()}..{self.values.max()}")
        if (np.diff(self.values, axis=1) < 0).any():
            raise LayerError("thresholds must be ascending in every channel, not falling")

    def channel_words(self) -> Ints:
        """Return the thresholds of each channel, two to a word; the upper half of the last word is unused."""
        halves = np.pad(self.values, ((0, 0), (0, 1))).astype(np.int64) & ((1 << HALF_BITS) - 1)
        return halves[:, ::2] | halves[:, 1::2] << HALF_BITS


class SearchedThresholds(Thresholds):
    """Thresholds that the instruction ``pv.qnt`` searches; accumulators are clipped to 16 bits."""

    rule = Rule.QNT

    def __post_init__(self) -> None:
        Thresholds.__post_init__(self)
        most = (1 << (HALF_BITS - 1)) - 2
        if self.values.max() > most:
            raise LayerError(f"thresholds must be at most {most} for pv.qnt, not {self.values.max()}")


def pair_bytes(bits: int) -> int:
    return SEARCHED_CHANNELS * HALF_BYTES << bits


def parameter_alignment(rule: Rule | None, bits: int) -> int:
    return pair_bytes(bits) if rule is Rule.QNT else WORD_BYTES


def gap_bytes(rule: Rule | None, bits: int, nch: int) -> int:
    return -nch * WORD_BYTES % pair_bytes(bits) if rule is Rule.QNT else 0


def with_channel_factors(requantisation: "AnyRequantisation", channels: int) -> "AnyRequantisation":
    if isinstance(requantisation, Multiplication | Shifting):
        kappa = np.full(channels, requantisation.factor, np.int64)
        return Requantisation(kappa=kappa, lam=np.zeros_like(kappa), shift=requantisation.shift)
    return requantisation


AnyRequantisation = Requantisation | WideRequantisation | ExactRequantisation | Multiplication | Shifting | Thresholds
_REQUANTISATIONS = (
    *(Requantisation, WideRequantisation, ExactRequantisation, OneShiftRequantisation),
    *(Multiplication, Shifting, Thresholds, SearchedThresholds),
)
BY_RULE: Mapping[Rule, type[AnyRequantisation]] = {each.rule: each for each in _REQUANTISATIONS}


def _by_block(channels: int, nch: int, *fields: Ints | int) -> Ints:
    blocks = channels // nch

    def words(field: Ints | int) -> Ints:
        if isinstance(field, int):
            return np.full((blocks, 1), field)
        rows = field.reshape(len(field), -1)
        return np.pad(rows, ((0, channels - len(rows)), (0, 0))).reshape(blocks, -1)

    return np.concatenate([words(field) for field in fields], axis=1)


def block_parameters(bias: Ints, requantisation: AnyRequantisation | None, channels: int, nch: int) -> Ints:
    """Return parameters in blocks of ``nch`` channels: the biases, then the parameters of the rule; padding is 0."""
    fields: list[Ints | int] = [bias]
    if isinstance(requantisation, SearchedThresholds):
        bits = int(requantisation.values.shape[1]).bit_length()
        fields += [0] * (gap_bytes(requantisation.rule, bits, nch) // WORD_BYTES)
    if isinstance(requantisation, Multiplication):
        fields.append(requantisation.factor)
    elif isinstance(requantisation, Requantisation | WideRequantisation | Thresholds):
        fields.append(requantisation.channel_words())
    return _by_block(channels, nch, *fields)


RQ_WIDTHS = frozenset({8, 4, 2})  # widths of the results of ``pv.rq``

# rules that ``pv.rq`` or ``pv.rqx`` computes: a factor, a summand, a shift
SCALING_RULES = frozenset({Rule.BN32, Rule.EXACT, Rule.EXACT_ONE_SHIFT, Rule.MULTIPLY, Rule.SHIFT})
EXACT_RULES = frozenset({Rule.EXACT, Rule.EXACT_ONE_SHIFT})  # rules of ``pv.rqx``
ONE_FACTOR = frozenset({Rule.MULTIPLY, Rule.SHIFT})  # scaling rules with the same factor for all channels


def scaled_parameters(
    bias: Ints, requantisation: AnyRequantisation | None, channels: int, nch: int, *, start: bool = False
) -> Ints:
    """Return the parameters of ``pv.rq`` in blocks of ``nch`` channels, padded with zeros to ``channels``.

    A block has kappa and lambda of each channel; by a rule of :data:`ONE_FACTOR`, one kappa and the lambda of each
    channel; by an exact rule, the bias and the words of each channel. Lambda includes the contribution of ``bias`` to
    the result, modulo ``2**32``. With ``start``, accumulators start with the bias instead; a block then has kappa, a
    lambda of 0 and the biases. The rule must be one of :data:`SCALING_RULES`.
    """
    if isinstance(requantisation, ExactRequantisation):
        return _by_block(channels, nch, np.column_stack([bias, requantisation.channel_words()]))
    if isinstance(requantisation, Requantisation):
        kappa, lam = requantisation.kappa.astype(np.int64), requantisation.lam.astype(np.int64)
        return _by_block(channels, nch, np.stack([kappa, lam + kappa * bias], axis=-1))
    assert isinstance(requantisation, Multiplication | Shifting)
    return _by_block(channels, nch, requantisation.factor, *((0, bias) if start else (requantisation.factor * bias,)))
