"""The layers of a model as it is read: quantisers turn sums into maps, the network grows by a layer each."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.importers.additions import addition
from xpulpnn_sw.importers.levels import Channel, Levels, fitted, rule_of, steps
from xpulpnn_sw.importers.values import Map, Sums
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT
from xpulpnn_sw.networks.build import NetworkBuilder
from xpulpnn_sw.networks.described import Described, Scaling
from xpulpnn_sw.precision import ACCUMULATOR_BITS, SIGN_BITS

INPUT = "input"
SAMPLE_BITS = 8


def letter(bits: int, *, signed: bool, usual: bool) -> str:
    """Width of elements as in the text of a precision."""
    return f"{'' if signed == usual or bits == SIGN_BITS else 'ui'[signed]}{bits}"


def precision_text(source: Map, weight_bits: int, bits: int, *, signed: bool, like_source: bool = False) -> str:
    """The precision of a layer; ``like_source``: there are no weights."""
    x = letter(source.bits, signed=source.signed, usual=False)
    w = letter(source.bits, signed=source.signed, usual=True) if like_source else str(weight_bits)
    return f"{x}x{w}x{letter(bits, signed=signed, usual=False)}"


def _common(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """One number if all are the same."""
    return numbers[0] if len({*numbers}) == 1 else tuple(numbers)


@dataclass(eq=False)
class Assembly:
    """A network that grows.

    Parameters
    ----------
    name : str
        What it is called.
    note : callable
        Is told what is not as in the model.
    """

    name: str
    note: Callable[[str], None]
    scaling: Scaling = field(default_factory=Scaling, init=False)
    _names: set[str] = field(default_factory=lambda: {INPUT}, init=False)
    _scaled: Map | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin without layers."""
        self._builder = NetworkBuilder(self.name)

    def finish(self) -> Described:
        """The network with its layers."""
        return self._builder.finish(self.scaling)

    def named(self, wanted: str) -> str:
        """A name that no layer has."""
        plain = re.sub(r"[^0-9A-Za-z_]+", "_", wanted).strip("_") or "layer"
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain}_{number}"
        self._names.add(name)
        return name

    def quantised(self, sums: Sums, levels: Levels) -> Map:
        """The results of a layer behind a quantiser; raises :class:`InputError` if no rule is it."""
        if sums.factors is not None:
            return self._added(sums, sums.factors, levels)
        if not sums.name and sums.sources[0].stage == INPUT and (found := self._scaled_input(sums, levels)):
            return found
        if (sums.kernel == "avgpool" or self._is_plain(sums)) and (found := self._scaled_map(sums, levels)):
            return found
        weights = sums.weights
        assert weights is not None
        weights, channels, is_turned = self._rising(sums, weights, levels)
        chosen = rule_of(levels, channels)
        if chosen.moved:
            total = len(channels) * len(levels.results)
            self.note(f"{sums.name}: {chosen.moved} of {total} steps of its quantiser are at sums next to theirs")
        arrays: dict[str, Any] = {"weights": weights, **chosen.arrays}
        if is_turned.any():
            if "kappa" not in arrays:
                raise InputError("weights of a channel with a negative factor must be above their least number")
            arrays["kappa"] = np.where(is_turned, -arrays["kappa"], arrays["kappa"])
        precision = precision_text(sums.sources[0], sums.weight_bits, levels.bits, signed=levels.signed)
        name = self._add(sums, sums.layer, precision, arrays, chosen.rule.value)
        return self._after(sums, name, levels)

    def _is_plain(self, sums: Sums) -> bool:
        """Whether a layer does nothing but quantise its input again, every channel in the same way."""
        first = sums.channels[0]
        same = all(
            (one.a, one.b, one.low, one.high) == (first.a, first.b, first.low, first.high) for one in sums.channels
        )
        return not sums.name and same and first.a > 0 and sums.sources[0].bits != SIGN_BITS

    def _rising(self, sums: Sums, weights: Any, levels: Levels) -> tuple[Any, list[Channel], Any]:
        """Weights turned where sums fall with what they stand for; where that is impossible, the sums alone."""
        falls = np.array([one.a < 0 for one in sums.channels])
        lowest = -(1 << (sums.weight_bits - 1)) if sums.weight_bits != SIGN_BITS else -2
        stuck = falls & (weights.reshape(len(falls), -1).min(axis=1) == lowest)
        signs = np.where(falls & ~stuck, -1, 1).reshape(-1, *[1] * (weights.ndim - 1))
        channels: list[Channel] = []
        for number, one in enumerate(sums.channels):
            least, most = sums.least[number], sums.most[number]
            if falls[number]:
                one, least, most = replace(one, a=-one.a), -most, -least
            slope = one.a / levels.scale if levels.bits != SIGN_BITS else Fraction(0)
            found = steps(levels, one, number, least, most)
            channels.append(Channel(least=least, most=most, slope=slope, steps=found))
        return weights * signs, channels, stuck

    def _scaled_map(self, sums: Sums, levels: Levels) -> Map | None:
        """An average, or a map quantised again: one factor, summand and shift; None if a map's steps are others."""
        source, one = sums.sources[0], sums.channels[0]
        is_average = sums.kernel == "avgpool"
        if one.a < 0 or any(
            (two.a, two.b, two.low, two.high) != (one.a, one.b, one.low, one.high) for two in sums.channels
        ):
            raise InputError("what follows an average must be one factor for all channels, not negative")
        if levels.bits == SIGN_BITS and is_average:
            raise InputError("results of an average must have two bits at least, not one")
        found = [steps(levels, one, number, sums.least[0], sums.most[0]) for number in range(len(sums.channels))]
        if any(other != found[0] for other in found):
            if is_average:
                raise InputError("quantiser of an average must be the same for all channels, not different ones")
            return None
        if levels.bits == SIGN_BITS:
            return None
        channel = Channel(least=sums.least[0], most=sums.most[0], slope=one.a / levels.scale, steps=found[0])
        rest = {"bits": ACCUMULATOR_BITS, "longest": MAX_SHIFT, "area": sums.area}
        rule = fitted([channel], levels.results, **rest, is_free=levels.is_free)
        if rule is None and is_average:
            rule = fitted([channel], levels.results, **rest, is_free=True)
            self.note(f"{sums.name}: some steps of its quantiser are at the sums next to them")
        if rule is None:
            if is_average:
                raise InputError("sums of an average must have 32 bits with a factor, not more")
            return None
        kappa, lam, shift = rule
        height, width, channels = source.shape
        layer = sums.layer if is_average else f"{height}x{width}x{channels}:1x1:scaled"
        arrays = {"factor": np.array(kappa[0]), "summand": np.array(lam[0]), "shift": np.array(shift)}
        precision = precision_text(source, 0, levels.bits, signed=levels.signed, like_source=True)
        averaged = replace(sums, kernel="avgpool", name=sums.name or "requantise")
        return self._after(sums, self._add(averaged, layer, precision, arrays), levels)

    def _added(self, sums: Sums, factors: tuple[Fraction, Fraction], levels: Levels) -> Map:
        """The sum of two maps."""
        first, second = sums.sources
        one = sums.channels[0]
        if any((two.a, two.b, two.low, two.high) != (one.a, one.b, one.low, one.high) for two in sums.channels):
            raise InputError("what follows an addition must be the same for all channels")
        if not one.a:
            raise InputError("factor of a sum must be other than 0, not 0")
        found = addition((first, second), (factors[0] * one.a, factors[1] * one.a), one, levels)
        if found.differing:
            self.note(f"{sums.name}: {found.differing} of {found.pairs} pairs are not what its quantiser makes of them")
        arrays = {
            "factors": np.array(found.factors),
            "summand": np.array(found.summand),
            "shift": np.array(found.shift),
        }
        precision = "x".join(
            (
                letter(first.bits, signed=first.signed, usual=False),
                letter(second.bits, signed=second.signed, usual=True),
                letter(levels.bits, signed=levels.signed, usual=False),
            )
        )
        return self._after(sums, self._add(sums, sums.layer, precision, arrays), levels)

    def _scaled_input(self, sums: Sums, levels: Levels) -> Map | None:
        """The input itself behind a quantiser; None if no factors, summands and shift have its steps."""
        if any(one.a <= 0 for one in sums.channels):
            return None
        ranges = [*zip(sums.channels, sums.least, sums.most, strict=True)]
        found = [steps(levels, one, number, least, most) for number, (one, least, most) in enumerate(ranges)]
        if levels.bits == SIGN_BITS:
            return self._input(sums, levels, Scaling(add=_common([-first for (first,) in found])))
        channels = [
            Channel(least=least, most=most, slope=one.a / levels.scale, steps=own)
            for own, (one, least, most) in zip(found, ranges, strict=True)
        ]
        rule = fitted(channels, levels.results, bits=ACCUMULATOR_BITS, longest=MAX_SHIFT, is_free=levels.is_free)
        if rule is None:
            return None
        kappa, lam, shift = rule
        return self._input(sums, levels, Scaling(multiply=_common(kappa), add=_common(lam), shift=shift))

    def _input(self, sums: Sums, levels: Levels, scaling: Scaling) -> Map:
        """The input itself in other numbers, which is the caller's work: once only."""
        if self._scaled is not None and scaling != self.scaling:
            raise InputError("input must have one quantiser, not two that differ")
        self.scaling = scaling
        self._scaled = self._after(sums, INPUT, levels)
        return self._scaled

    def _add(self, sums: Sums, layer: str, precision: str, arrays: dict[str, Any], rule: str = "bn32") -> str:
        if any(
            one.stage == INPUT and self._scaled is not None and one.scale != self._scaled.scale for one in sums.sources
        ):
            raise InputError("input must be quantised everywhere or nowhere, not in parts")
        name = self.named(sums.name or "requantise")
        sources = [one.stage for one in sums.sources]
        self._builder.add(name, sums.kernel, layer, precision, arrays, requantise=rule, sources=sources, pad=sums.pad)
        return name

    def _after(self, sums: Sums, stage: str, levels: Levels) -> Map:
        """The results in memory, pooled."""
        low, high = (-1, 1) if levels.bits == SIGN_BITS else (max(levels.low, levels.results.start - 1), levels.high)
        found = Map(
            stage=stage,
            places=sums.places,
            shape=sums.shape,
            bits=levels.bits,
            signed=levels.signed,
            low=low,
            high=high,
            scale=levels.scale,
            offset=levels.offset,
        )
        for layer in sums.pools:
            found = replace(found, stage=self.channelwise("maxpool", layer, found))
        return found

    def channelwise(self, kernel: str, layer: str, source: Map, name: str = "") -> str:
        """Add a layer without weights or numbers of its own, whose results are like its input."""
        chosen = self.named(name or kernel)
        precision = precision_text(source, 0, source.bits, signed=source.signed, like_source=True)
        self._builder.add(chosen, kernel, layer, precision, sources=[source.stage])
        return chosen

    def raw(self, sums: Sums) -> None:
        """The last layer, whose results are its sums; raises :class:`InputError` unless they are in one scale."""
        if sums.weights is None or sums.kernel == "depthwise" or sums.pools:
            raise InputError("results must be those of a quantiser or of a layer with weights, not others")
        factors = {one.a for one in sums.channels}
        if len(factors) != 1 or not (factor := factors.pop()):
            raise InputError("results without a quantiser must have one scale for all channels, not different ones")
        if any(one.low is not None or one.high is not None for one in sums.channels):
            raise InputError("results without a quantiser must be sums, not clipped ones")
        sign = 1 if factor > 0 else -1
        if sign < 0 and sums.weight_bits != SIGN_BITS and int(sums.weights.min()) == -(1 << (sums.weight_bits - 1)):
            raise InputError("weights of a layer with a negative factor must be above their least number")
        arrays: dict[str, Any] = {"weights": sums.weights * sign}
        # what all have is no difference
        common = sums.channels[0].b if len({one.b for one in sums.channels}) == 1 else Fraction(0)
        offsets = [(one.b - common) / abs(factor) for one in sums.channels]
        if any(offsets):
            arrays["bias"] = np.array([round(offset) for offset in offsets], np.int64)
            if any(offset.denominator != 1 for offset in offsets):
                self.note("biases of the last layer are rounded to whole sums")
        layer = f"{sums.layer}:raw" if sums.kernel == "linear" else sums.layer
        precision = precision_text(sums.sources[0], sums.weight_bits, ACCUMULATOR_BITS, signed=True)
        self._add(sums, layer, precision, arrays)
