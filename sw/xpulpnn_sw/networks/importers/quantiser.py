"""Quantisers as step functions, and requantisation rules of kernels with the same steps.

A quantiser gives a result of at least ``m`` for all reals from a bound on. For integer sums that represent ``a * sum +
b``, the bound becomes the least sum with such a result. A rule is equal to the quantiser if both agree, for every
``m``, at this sum and at the sum below it, since both are monotonic. All arithmetic is exact.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product

from xpulpnn.errors import InputError, require
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS

ELEMENT_WIDTHS = (2, 4, 8)  # of maps and weights, other than single bits
_ALMOST = Fraction(1, 1 << 15)  # part of a step that numbers in single precision may be wrong by
_TRIES = 4  # shifts that are tried, the largest first
Fit = tuple[list[int], list[int], int]  # factors and summands by channel, and a shift
Bound = tuple[Fraction, bool]  # a bound, and whether it is exclusive
Bounds = Callable[[int, int], Bound]  # of a result and a channel
# a result, its lower bound as a fraction and as numerator and denominator, and whether it is exclusive
ResultBound = tuple[int, Fraction | None, tuple[int, int], bool]


@dataclass(frozen=True, eq=False, kw_only=True)
class Quantiser:
    """A quantiser: results ``low..high`` represent ``scale * q + offset``."""

    bits: int  # width of elements
    signed: bool  # whether elements are signed
    low: int  # of one bit -1
    high: int  # of one bit 1
    scale: Fraction
    offset: Fraction
    bound: Bounds  # lower bound of a result above `low` in a channel
    is_free: bool = False  # whether the importer chose it, so that steps may be inexact
    by_channel: bool = False  # whether bounds depend on the channel
    # results above it need not be exact, since a later layer clips there; None: the element range clips
    top: int | None = None
    _bounds: dict[int, list[ResultBound]] = field(default_factory=dict[int, list[ResultBound]], init=False, repr=False)

    @classmethod
    def narrowest(
        cls, low: int, high: int, scale: Fraction, offset: Fraction, bound: Bounds, *, by_channel: bool = False
    ) -> "Quantiser":
        """Return a quantiser with the narrowest elements for ``low..high``; raises :class:`InputError` if none fit."""
        for bits, signed in product(ELEMENT_WIDTHS, (False, True)):
            least = -(1 << (bits - 1)) if signed else 0
            if least <= low and high < least + (1 << bits):
                own = partial(cls, bits=bits, signed=signed, low=low, high=high, scale=scale, offset=offset)
                return own(bound=bound, by_channel=by_channel)
        raise InputError(f"quantised numbers must have 8 bits at most, not {low}..{high}")

    def bounds(self, channel: int) -> list[ResultBound]:
        """Return the lower bound of each result in ``results``; the bound of a result that does not occur is None."""
        key = channel if self.by_channel else 0
        if key not in self._bounds:
            self._bounds[key] = []
            for result in self.results:
                is_there = self.bits == SIGN_BITS or self.low < result <= self.high
                real, is_above = self.bound(result, channel) if is_there else (None, False)
                self._bounds[key].append((result, real, (0, 1) if real is None else real.as_integer_ratio(), is_above))
        return self._bounds[key]

    @property
    def results(self) -> range:
        """All results that an element can hold except the least one."""
        if self.bits == SIGN_BITS:
            return range(1, 2)
        least = -(1 << (self.bits - 1)) if self.signed else 0
        return range(least + 1, least + (1 << self.bits) if self.top is None else self.top + 1)

    def result(self, real: Fraction, channel: int) -> int:
        def reached(result: int) -> bool:
            begin, is_above = self.bound(result, channel)
            return real > begin if is_above else real >= begin

        above = range(self.low + 1, self.high + 1)
        return self.low + bisect_left(above, True, key=lambda result: not reached(result))

    def clipped(self, low: int, high: int) -> "Quantiser":
        """Return this quantiser clipped to ``low..high``; ``low`` becomes result 0."""

        def bound(result: int, channel: int) -> Bound:
            return self.bound(result + low, channel)

        offset = self.offset + self.scale * low
        return replace(self, signed=False, low=0, high=high - low, offset=offset, bound=bound, top=high - low)

    def after_function(self, curve: Callable[[Fraction], Fraction]) -> "Quantiser":

        def bound(result: int, channel: int) -> Bound:
            real, is_above = self.bound(result, channel)
            return curve(real), is_above

        return replace(self, bound=bound, is_free=False)


def uniform_quantiser(
    scale: Fraction, zero: Fraction, low: int, high: int, mode: str, *, rounds_first: bool = False
) -> Quantiser:
    """Return the quantiser ``clip(round(x / scale + zero))``, which represents ``scale * (q - zero)``.

    ``mode`` is ROUND, half to even, FLOOR or CEIL; with ``rounds_first`` the zero point is added after rounding, which
    changes ties. Raises :class:`InputError` for a scale that is not positive.
    """
    require(scale > 0, f"scale must be greater than 0, not {float(scale)}")

    def bound(result: int, _: int) -> Bound:
        if mode == "FLOOR":
            return (result - zero) * scale, False
        if mode == "CEIL":
            return (result - 1 - zero) * scale, True
        return (result - Fraction(1, 2) - zero) * scale, (result - zero if rounds_first else result) % 2 != 0

    return Quantiser.narrowest(low, high, scale, -zero * scale, bound)


def sign_quantiser(scale: Fraction) -> Quantiser:
    """Return the quantiser to one bit: ``scale`` for numbers from 0 on, ``-scale`` for negative numbers."""
    ends = partial(Quantiser, bits=SIGN_BITS, signed=False, low=-1, high=1)
    return ends(scale=scale, offset=Fraction(0), bound=lambda _, __: (Fraction(0), False))


def _between(value: Fraction, low: Fraction | None, high: Fraction | None) -> Fraction:
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


@dataclass(frozen=True, eq=False, kw_only=True)
class Affine:
    """Numbers that sums ``least..most`` of a channel represent: ``a * sum + b``, clipped to ``low`` and ``high``."""

    a: Fraction
    b: Fraction
    least: int
    most: int
    low: Fraction | None = None
    high: Fraction | None = None

    def then(self, factor: Fraction, summand: Fraction) -> "Affine":
        low, high = (None if end is None else end * factor + summand for end in (self.low, self.high))
        if factor < 0:
            low, high = high, low
        return replace(self, a=self.a * factor, b=self.b * factor + summand, low=low, high=high)

    def clamped(self, low: Fraction | None, high: Fraction | None) -> "Affine":
        if low is not None and high is not None and low > high:
            low = high
        least = low if self.low is None else _between(self.low, low, high)
        most = high if self.high is None else _between(self.high, low, high)
        return replace(self, low=least, high=most)

    def at(self, value: int) -> Fraction:
        return _between(self.a * value + self.b, self.low, self.high)


def inner_results(quantiser: Quantiser, channels: Sequence[Affine]) -> tuple[int, int] | None:
    """Return the least and the greatest result of clipped channels; None if they differ between channels."""
    ends = {
        (
            quantiser.low if channel.low is None else quantiser.result(channel.low, number),
            quantiser.high if channel.high is None else quantiser.result(channel.high, number),
        )
        for number, channel in enumerate(channels)
    }
    return ends.pop() if len(ends) == 1 else None


def unclipped(quantiser: Quantiser, channels: Sequence[Affine]) -> tuple[Quantiser, tuple[Affine, ...]]:
    """Move the clipping of channels, equal in all of them, into a quantiser that the importer is free to choose."""
    ends = inner_results(quantiser, channels)
    if ends is None:
        raise InputError("clips must be the same for all channels without a quantiser of the model's, not different")
    low, high = ends
    free = tuple(replace(channel, low=None, high=None) for channel in channels)
    if low == high:
        constant = quantiser.scale * low + quantiser.offset
        return quantiser, tuple(replace(channel, a=Fraction(0), b=constant) for channel in free)
    # the element range clips anyway
    is_whole = ends == (quantiser.results.start - 1, quantiser.results.stop - 1)
    return quantiser if is_whole else quantiser.clipped(low, high), free


def step_sums(quantiser: Quantiser, affine: Affine, channel: int) -> list[int]:
    """Return the least sum for each result, ``most + 1`` if no sum gives it; ``affine.a`` must not be negative."""
    least, most = affine.least, affine.most
    # integers are faster than fractions, which are reduced after every operation
    factor, divisor = affine.a.numerator, affine.a.denominator
    summand, unit = affine.b.numerator, affine.b.denominator
    steps: list[int] = []
    for result, real, (number, over), is_above in quantiser.bounds(channel):
        if real is None:
            steps.append(least if result <= quantiser.low else most + 1)
        elif affine.low is not None and _reaches(affine.low, real, is_above=is_above):
            steps.append(least)
        elif affine.high is not None and not _reaches(affine.high, real, is_above=is_above):
            steps.append(most + 1)
        elif not factor:
            steps.append(least if _reaches(affine.b, real, is_above=is_above) else most + 1)
        else:
            above, below = (number * unit - summand * over) * divisor, over * unit * factor
            value = above // below + 1 if is_above else -(-above // below)
            steps.append(min(max(value, least), most + 1))
    return steps


def _reaches(value: Fraction, real: Fraction, *, is_above: bool) -> bool:
    return value > real if is_above else value >= real


@dataclass(frozen=True, eq=False, kw_only=True)
class Channel:
    """The range of an output channel's sums, and the steps of its quantiser."""

    least: int
    most: int
    slope: Fraction  # approximate increase of q by 1 of the sum
    steps: Sequence[int]  # least sum for each result

    @classmethod
    def of(cls, quantiser: Quantiser, affine: Affine, number: int) -> "Channel":
        slope = affine.a / quantiser.scale if quantiser.bits != SIGN_BITS else Fraction(0)
        return cls(least=affine.least, most=affine.most, slope=slope, steps=step_sums(quantiser, affine, number))


def fitted(
    channels: Sequence[Channel], results: range, *, bits: int, longest: int, area: int = 1, is_free: bool = False
) -> Fit | None:
    """Return ``k``, ``l`` and a shift for which ``clip((k * sum / area + l) >> shift)`` has the steps of every channel.

    Quotients are rounded towards zero. No product or total overflows ``bits`` bits. Return None if there are no such
    numbers; with ``is_free`` steps may be inexact.
    """
    most = longest
    for channel in channels:
        reach = max(abs(channel.least), abs(channel.most), 1) * area
        # one bit for the addition
        while most and channel.slope * (1 << most) * reach >= 1 << (bits - 2):
            most -= 1
        while most and max(abs(results.start), results.stop) << most >= 1 << (bits - 2):
            most -= 1
    for shift in range(most, max(most - _TRIES, -1), -1):
        factors = [_factor(channel, results, shift, bits, area, is_free=is_free) for channel in channels]
        if all(factor is not None for factor in factors):
            pairs = [factor for factor in factors if factor is not None]
            return [kappa for kappa, _ in pairs], [lam for _, lam in pairs], shift
    return None


def quotient(product: int, area: int) -> int:
    return -(-product // area) if product < 0 else product // area


def summands(channel: Channel, results: range, kappa: int, shift: int, area: int = 1) -> tuple[int, int]:
    """Return the least and the greatest summand with which a rule has all steps of a channel at the right sums."""
    edges = [(result << shift, step) for result, step in zip(results, channel.steps, strict=True)]
    least = [edge - quotient(kappa * step, area) for edge, step in edges if step <= channel.most]
    most = [edge - 1 - quotient(kappa * (step - 1), area) for edge, step in edges if step > channel.least]
    return max(least or [min(most)]), min(most or [max(least)])


def _factor(
    channel: Channel, results: range, shift: int, bits: int, area: int, *, is_free: bool
) -> tuple[int, int] | None:
    kappa = round(channel.slope * (1 << shift) * area)
    lowest, highest = summands(channel, results, kappa, shift, area)
    if lowest > highest and not is_free:
        return None
    lam = (lowest + highest) // 2
    bound = 1 << (bits - 1)
    ends = [quotient(kappa * end, area) for end in (channel.least, channel.most)]
    values = [kappa * channel.least, kappa * channel.most, *(end + lam for end in ends), lam]
    shifted = [end + lam >> shift for end in ends]
    word = 1 << (ACCUMULATOR_BITS - 1)
    fits = all(-bound <= value < bound for value in values) and all(-word <= value < word for value in shifted)
    return (kappa, lam) if fits else None


def halfway_samples(quantiser: Quantiser, channels: Sequence[Affine]) -> tuple[int, int]:
    """Return how many integers of the channels are halfway between two results, and how many there are."""
    reals = [channel.at(code) for channel in channels for code in range(channel.least, channel.most + 1)]
    halves = ((real - quantiser.offset) / quantiser.scale % 1 - Fraction(1, 2) for real in reals)
    return sum(abs(half) < _ALMOST for half in halves), len(reals)
