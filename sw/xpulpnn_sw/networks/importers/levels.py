"""Quantisers as the places of their steps, and rules of kernels that have every step at the same place.

A quantiser gives ``q >= m`` exactly for real numbers from a bound on, for each m. Where an integer sum stands for
``a * sum + b``, bounds become integers: the least sum that gives ``q >= m``. A rule of a kernel is the quantiser if it
agrees with these integers at each of them and one below, as both are monotonous. No floating point takes part.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from xpulpnn.errors import InputError
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS

ELEMENT_WIDTHS = (2, 4, 8)  # of elements of maps and weights, besides single bits
_TRIES = 4  # shifts that are tried, the largest first
Fit = tuple[list[int], list[int], int]  # factors and summands of channels, and a shift
Bound = tuple[Fraction, bool]  # A real number, and whether it is above the bound itself
# A result, where it begins, as a number and as numerator and denominator, and whether it is above that
Listed = tuple[int, Fraction | None, tuple[int, int], bool]


@dataclass(frozen=True, eq=False, kw_only=True)
class Levels:
    """A quantiser."""

    bits: int  # width of its results in memory
    signed: bool  # whether its results are signed in memory
    low: int  # its least result; of one bit -1
    high: int  # its greatest result; of one bit 1
    scale: Fraction  # factor of results: they stand for `scale * q + offset`
    offset: Fraction  # summand of what results stand for
    bound: Callable[[int, int], Bound]  # for a result above `low` and a channel: where it begins
    is_free: bool = False  # whether it is the importer's, so that steps may be at the places next to those
    by_channel: bool = False  # whether bounds depend on the channel
    # A result that those above may be taken for, since a layer behind clips there; None: memory ends there
    top: int | None = None
    _known: dict[int, list[Listed]] = field(default_factory=dict[int, list[Listed]], init=False, repr=False)

    def bounds(self, channel: int) -> list[Listed]:
        """For each of the results where it begins; None where it does not for any number."""
        key = channel if self.by_channel else 0
        if key not in self._known:
            self._known[key] = []
            for result in self.results:
                is_there = self.bits == SIGN_BITS or self.low < result <= self.high
                real, is_above = self.bound(result, channel) if is_there else (None, False)
                self._known[key].append((result, real, (0, 1) if real is None else real.as_integer_ratio(), is_above))
        return self._known[key]

    @property
    def results(self) -> range:
        """Results above the least that memory can hold."""
        if self.bits == SIGN_BITS:
            return range(1, 2)
        least = -(1 << (self.bits - 1)) if self.signed else 0
        return range(least + 1, least + (1 << self.bits) if self.top is None else self.top + 1)

    def result(self, real: Fraction, channel: int) -> int:
        """Return the result that the quantiser gives for a number."""

        def reached(result: int) -> bool:
            begin, is_above = self.bound(result, channel)
            return real > begin if is_above else real >= begin

        above = range(self.low + 1, self.high + 1)
        return self.low + bisect_left(above, True, key=lambda result: not reached(result))

    def within(self, low: int, high: int) -> "Levels":
        """The same where only results ``low..high`` occur, numbered from 0 on, so that memory ends where they begin."""

        def bound(result: int, channel: int) -> Bound:
            return self.bound(result + low, channel)

        offset = self.offset + self.scale * low
        return replace(self, signed=False, low=0, high=high - low, offset=offset, bound=bound, top=high - low)

    def behind(self, curve: Callable[[Fraction], Fraction]) -> "Levels":
        """The same quantiser behind a rising function, of which ``curve`` is the inverse."""

        def bound(result: int, channel: int) -> Bound:
            real, is_above = self.bound(result, channel)
            return curve(real), is_above

        return replace(self, bound=bound, is_free=False)


def narrowest(low: int, high: int) -> tuple[int, bool]:
    """Width and sign of the narrowest elements for such numbers; raises :class:`InputError` if there are none."""
    for bits in ELEMENT_WIDTHS:
        if low >= 0 and high < 1 << bits:
            return bits, False
        if low >= -(1 << (bits - 1)) and high < 1 << (bits - 1):
            return bits, True
    raise InputError(f"quantised numbers must have 8 bits at most, not {low}..{high}")


def uniform_levels(
    scale: Fraction, zero: Fraction, low: int, high: int, mode: str, *, rounds_first: bool = False
) -> Levels:
    """``clip(round(x / scale + zero))``, which stands for ``scale * (q - zero)``.

    ``mode`` is ROUND, half to even, FLOOR or CEIL; with ``rounds_first`` the zero point, which is whole, is added
    behind the rounding, so that halves go to other numbers. Raises :class:`InputError` for a scale that is
    not positive.
    """
    if scale <= 0:
        raise InputError(f"scale must be greater than 0, not {float(scale)}")

    def bound(result: int, _: int) -> Bound:
        if mode == "FLOOR":
            return (result - zero) * scale, False
        if mode == "CEIL":
            return (result - 1 - zero) * scale, True
        return (result - Fraction(1, 2) - zero) * scale, (result - zero if rounds_first else result) % 2 != 0

    bits, signed = narrowest(low, high)
    return Levels(bits=bits, signed=signed, low=low, high=high, scale=scale, offset=-zero * scale, bound=bound)


def sign_levels(scale: Fraction) -> Levels:
    """``scale`` from 0 on, and ``-scale`` below."""
    zero = Fraction(0)
    return Levels(
        bits=SIGN_BITS, signed=False, low=-1, high=1, scale=scale, offset=zero, bound=lambda _, __: (zero, False)
    )


def _between(value: Fraction, low: Fraction | None, high: Fraction | None) -> Fraction:
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


@dataclass(frozen=True, eq=False, kw_only=True)
class Affine:
    """Real numbers of the sums of a channel, ``least..most``: ``a * sum + b``, clipped to ``low`` and ``high``."""

    a: Fraction
    b: Fraction
    least: int
    most: int
    low: Fraction | None = None
    high: Fraction | None = None

    def then(self, factor: Fraction, summand: Fraction) -> "Affine":
        """The same times a factor plus a summand."""
        low, high = (None if end is None else end * factor + summand for end in (self.low, self.high))
        if factor < 0:
            low, high = high, low
        return replace(self, a=self.a * factor, b=self.b * factor + summand, low=low, high=high)

    def clamped(self, low: Fraction | None, high: Fraction | None) -> "Affine":
        """The same, clipped."""
        if low is not None and high is not None and low > high:
            low = high
        least = low if self.low is None else _between(self.low, low, high)
        most = high if self.high is None else _between(self.high, low, high)
        return replace(self, low=least, high=most)

    def at(self, value: int) -> Fraction:
        """Return the number that a sum stands for."""
        return _between(self.a * value + self.b, self.low, self.high)


def inner_results(levels: Levels, channels: Sequence[Affine]) -> tuple[int, int] | None:
    """The least and the greatest result that there are where channels are clipped; None if channels differ."""
    ends = {
        (
            levels.low if channel.low is None else levels.result(channel.low, number),
            levels.high if channel.high is None else levels.result(channel.high, number),
        )
        for number, channel in enumerate(channels)
    }
    return ends.pop() if len(ends) == 1 else None


def unclipped(levels: Levels, channels: Sequence[Affine]) -> tuple[Levels, tuple[Affine, ...]]:
    """A quantiser of the importer's that clips where the channels do, and the channels without their clips.

    Raises :class:`InputError` for channels that are clipped to different results.
    """
    ends = inner_results(levels, channels)
    if ends is None:
        raise InputError("clips must be the same for all channels without a quantiser of the model's, not different")
    low, high = ends
    free = tuple(replace(channel, low=None, high=None) for channel in channels)
    if low == high:
        return levels, tuple(replace(channel, a=Fraction(0), b=levels.scale * low + levels.offset) for channel in free)
    # memory clips at its own ends
    is_whole = ends == (levels.results.start - 1, levels.results.stop - 1)
    return levels if is_whole else levels.within(low, high), free


def step_sums(levels: Levels, affine: Affine, channel: int) -> list[int]:
    """For each of the results the least sum that gives it; none does: one more than there is.

    The factor of the sums must not be negative.
    """
    least, most = affine.least, affine.most
    # whole numbers instead of fractions, which would be reduced for every result of every channel
    factor, divisor = affine.a.numerator, affine.a.denominator
    summand, unit = affine.b.numerator, affine.b.denominator
    steps: list[int] = []
    for result, real, (number, over), is_above in levels.bounds(channel):
        if real is None:
            steps.append(least if result <= levels.low else most + 1)
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
    """Sums of an output channel."""

    least: int
    most: int
    slope: Fraction  # what q rises by for one more, roughly
    steps: Sequence[int]

    @classmethod
    def of(cls, levels: Levels, affine: Affine, number: int) -> "Channel":
        """The sums of channel ``number`` behind a quantiser."""
        slope = affine.a / levels.scale if levels.bits != SIGN_BITS else Fraction(0)
        return cls(least=affine.least, most=affine.most, slope=slope, steps=step_sums(levels, affine, number))


def fitted(
    channels: Sequence[Channel], results: range, *, bits: int, longest: int, area: int = 1, is_free: bool = False
) -> Fit | None:
    """Factors, summands and a shift with ``clip((k * sum / area + l) >> shift)`` equal to the steps of every channel.

    Quotients are rounded towards zero. Products, and what is shifted, have ``bits`` bits for all sums in the range.
    None if there are none; with ``is_free`` those whose steps are nearest.
    """
    most = longest
    for channel in channels:
        reach = max(abs(channel.least), abs(channel.most), 1) * area
        # a sum of two, and the result's own bits
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
    """A quotient rounded towards zero."""
    return -(-product // area) if product < 0 else product // area


def summands(channel: Channel, results: range, kappa: int, shift: int, area: int = 1) -> tuple[int, int]:
    """The least and the greatest summand with which a factor has each step no later, and no sooner, than it is."""
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
