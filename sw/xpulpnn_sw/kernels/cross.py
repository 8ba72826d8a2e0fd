"""Inner loop of cores whose products reload also the activation that they do not use."""

from xpulpnn_sw.kernels.builder import Builder, Value
from xpulpnn_sw.kernels.inner import NnLoop

_BOTH = NnLoop.ACTIVATION_UPDATE | NnLoop.WEIGHT_UPDATE
_ACCUMULATING, _FRESH = "mlsdot", "mldot"
_OTHER_ENTRY = {_ACCUMULATING: "rd~,(rs1!),nnimm5'", _FRESH: "rd,(rs1!),nnimm5'"}


class CrossLoop(NnLoop):
    """That of :class:`NnLoop` without its load: the first product fetches the activation of the second pixel.

    The order of the memory accesses stays. With one pixel each weight is used once, and the load stays. Sums may begin
    with products that do not accumulate: the first turn is then written in front of the loop, and the accumulators need
    no start.
    """

    @property
    def length(self) -> int:
        """Instructions of the body."""
        return super().length if self.variant.npx == 1 else self.variant.nch * self.variant.npx

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` packed words of a weight row."""
        with b.inner_loop(count, self.length, self.temporaries[0]):
            self._turn(b, _ACCUMULATING, signed=signed)

    def emit_turns(self, b: Builder, count: Value, *, signed: bool, fresh: bool) -> None:
        """The same over one word more; with ``fresh`` the accumulators begin with 0, whatever they hold."""
        self._turn(b, _FRESH if fresh else _ACCUMULATING, signed=signed)
        self.emit(b, count, signed=signed)

    def _turn(self, b: Builder, kind: str, *, signed: bool) -> None:
        if self.variant.npx == 1:
            self._turn_of_one_pixel(b, kind, signed=signed)
            return
        for pixel, accumulators in enumerate(self.acc):
            for channel, accumulator in enumerate(accumulators):
                pointer, selector = self._reload(pixel, channel)
                is_first = pixel == channel == 0
                if is_first:
                    pointer, selector = self._row(1), selector | _BOTH
                mnemonic, *operands = self._product(accumulator, pointer, selector, signed=signed)
                mnemonic = str(mnemonic).replace(_ACCUMULATING, kind)
                if is_first:
                    b.of_form(mnemonic, _OTHER_ENTRY[kind], *operands)
                else:
                    b(mnemonic, *operands)

    def _turn_of_one_pixel(self, b: Builder, kind: str, *, signed: bool) -> None:
        *products, load = self._products_of_one_pixel(signed=signed)
        for mnemonic, *operands in products:
            b(str(mnemonic).replace(_ACCUMULATING, kind), *operands)
        b(*load)
