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


_FOUR = 4
_FOUR_PIXELS = "01' 02 12 11 10 13+ 03 00+ 20 30* 31 21* 22 32* 33+ 23*"
"""A turn with four pixels: pixel and channel of each product, and what it fetches.

``'`` is the other activation, ``+`` that of its own entry, ``*`` the weight. Neighbours share a factor, mostly the
activation: only between two turns do both change, which the dot product pays for with energy. Each weight is fetched by
its last product, and these do not follow each other, so that the weights of all channels come one by one through one
pointer.
"""
_FETCHES = {"": _Fetched.NOTHING, "'": _Fetched.OTHER, "+": _Fetched.OWN, "*": _Fetched.WEIGHT}
_ENTRIES = {2: (0, 1), 4: (0, 1, 1, 0)}
"""Entry of each pixel, by their number. Of four, the second fetches the third, the first the fourth."""


def _turn(variant: Variant) -> list[_Product]:
    """A turn of the inner loop, over a word of each row.

    The first product fetches the activation of the second pixel, the last one of a pixel that of the pixel after it in
    its entry. Two pixels have an entry each, and the second fetches the weights.
    """
    if variant.npx == _FOUR:
        return [_Product(int(p[0]), int(p[1]), _FETCHES[p[2:]]) for p in _FOUR_PIXELS.split()]
    channels = range(variant.nch)

    def fetched(pixel: int, channel: int) -> _Fetched:
        if pixel == channel == 0:
            return _Fetched.OTHER
        if pixel:
            return _Fetched.WEIGHT
        return _Fetched.OWN if channel == channels[-1] else _Fetched.NOTHING

    return [_Product(pixel, channel, fetched(pixel, channel)) for pixel in range(variant.npx) for channel in channels]


class CrossLoop(NnLoop):
    """:class:`NnLoop` without its load."""

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

    def _follower(self, pixel: int) -> int:
        """The pixel whose activation comes next into the entry of this one."""
        entries, npx = _ENTRIES[self.variant.npx], self.variant.npx
        return next(one for one in [*range(pixel + 1, npx), *range(npx)] if entries[one] == entries[pixel])

    def _emit_turn(self, b: Builder, kind: str, *, signed: bool) -> None:
        if self.variant.npx == 1:
            self._emit_turn_of_one_pixel(b, kind, signed=signed)
        else:
            self._emit_products(b, _turn(self.variant), kind, signed=signed)

    def _emit_products(self, b: Builder, products: Sequence[_Product], kind: str, *, signed: bool) -> None:
        for pixel, channel, fetched in products:
            pointer = {
                _Fetched.NOTHING: ZERO,
                _Fetched.OWN: self._row(self._follower(pixel)),
                _Fetched.WEIGHT: self._stream(channel),
                _Fetched.OTHER: self._row(pixel + 1),
            }[fetched]
            selector = _ENTRIES[self.variant.npx][pixel] | channel << 1 | fetched.value
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
