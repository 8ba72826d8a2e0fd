"""Inner loop of cores whose products reload also the activation that they do not use."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from xpulpnn_sw.kernels.builder import ZERO, Builder, Value
from xpulpnn_sw.kernels.inner import NnLoop
from xpulpnn_sw.kernels.variants import Variant

_ACCUMULATING, _FRESH = "mlsdot", "mldot"
_OTHER_ENTRY = {_ACCUMULATING: "rd~,(rs1!),nnimm5'", _FRESH: "rd,(rs1!),nnimm5'"}


class _Fetched(Enum):
    """What a product fetches: bits of its selector."""

    NOTHING = 0
    OWN = NnLoop.ACTIVATION_UPDATE
    """The activation that it uses."""
    WEIGHT = NnLoop.WEIGHT_UPDATE
    OTHER = NnLoop.ACTIVATION_UPDATE | NnLoop.WEIGHT_UPDATE
    """The activation that it does not use."""


class _Product(NamedTuple):
    """A product of a turn: what it multiplies and what it fetches."""

    pixel: int
    channel: int
    fetched: _Fetched


def _turn(variant: Variant) -> list[_Product]:
    """A turn of the inner loop, over a word of each row.

    Pixels take the two entries of activations in turn. The first product fetches the activation of the second pixel,
    the last one of a pixel that of the pixel after the next. With four pixels the last two take turns channel by
    channel, so that their weights, of which each is then fetched, come one by one: the words of all rows are a stream.
    """
    npx, channels = variant.npx, range(variant.nch)
    last, before = npx - 1, npx - 2
    paired = variant.weight_streams == 1
    order = [(pixel, channel) for pixel in range(before if paired else npx) for channel in channels]
    order += [(pixel, channel) for channel in channels for pixel in (before, last) if paired]

    def fetched(pixel: int, channel: int) -> _Fetched:
        if pixel == channel == 0:
            return _Fetched.OTHER
        if pixel == last:
            return _Fetched.WEIGHT
        return _Fetched.OWN if channel == channels[-1] else _Fetched.NOTHING

    return [_Product(*product, fetched(*product)) for product in order]


class CrossLoop(NnLoop):
    """That of :class:`NnLoop` without its load.

    With one pixel each weight is used once, and the load stays. Sums may begin with products that do not accumulate:
    the first turn is then in front of the loop, and the accumulators need no start.
    """

    @property
    def length(self) -> int:
        """Instructions of the body."""
        return super().length if self.variant.npx == 1 else self.variant.nch * self.variant.npx

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` packed words of a weight row."""
        with b.inner_loop(count, self.length, self.temporaries[0]):
            self._emit_turn(b, _ACCUMULATING, signed=signed)

    def emit_turns(self, b: Builder, count: Value, *, signed: bool, fresh: bool) -> None:
        """The same over :attr:`turns_around` words more; with ``fresh`` the accumulators begin with 0.

        The set-up of a loop waits for an access of the instruction before, so that the body begins behind a product
        that fetches nothing, within a turn: parts of another turn are in front of it and behind it.
        """
        self._emit_turn(b, _FRESH if fresh else _ACCUMULATING, signed=signed)
        if self.variant.npx == 1:
            self.emit(b, count, signed=signed)
            return
        turn = _turn(self.variant)
        fetches = [product.fetched is not _Fetched.NOTHING for product in turn]
        begun = fetches.index(False) + 1
        self._emit_products(b, turn[:begun], _ACCUMULATING, signed=signed)
        with b.inner_loop(count, self.length, self.temporaries[0]):
            self._emit_products(b, [*turn[begun:], *turn[:begun]], _ACCUMULATING, signed=signed)
        self._emit_products(b, turn[begun:], _ACCUMULATING, signed=signed)

    def _emit_turn(self, b: Builder, kind: str, *, signed: bool) -> None:
        if self.variant.npx == 1:
            self._emit_turn_of_one_pixel(b, kind, signed=signed)
        else:
            self._emit_products(b, _turn(self.variant), kind, signed=signed)

    def _emit_products(self, b: Builder, products: Sequence[_Product], kind: str, *, signed: bool) -> None:
        for pixel, channel, fetched in products:
            pointer = {
                _Fetched.NOTHING: ZERO,
                _Fetched.OWN: self._row(pixel + self.ENTRIES),
                _Fetched.WEIGHT: self._stream(channel),
                _Fetched.OTHER: self._row(pixel + 1),
            }[fetched]
            selector = pixel % self.ENTRIES | channel << 1 | fetched.value
            mnemonic, *operands = self._product(self.acc[pixel][channel], pointer, selector, signed=signed)
            mnemonic = str(mnemonic).replace(_ACCUMULATING, kind)
            if fetched is _Fetched.OTHER:
                b.of_form(mnemonic, _OTHER_ENTRY[kind], *operands)
            else:
                b(mnemonic, *operands)

    def _emit_turn_of_one_pixel(self, b: Builder, kind: str, *, signed: bool) -> None:
        *products, load = self._products_of_one_pixel(signed=signed)
        for mnemonic, *operands in products:
            b(str(mnemonic).replace(_ACCUMULATING, kind), *operands)
        b(*load)
