"""The function around blocks of one pixel whose results the core scales by one factor for all channels.

With one pixel a bias is loaded as fast as an offset, so that the accumulators start with the biases, and the offset is
0 for a whole block.
"""

from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.code import KernelCode
from xpulpnn_sw.kernels.requantised_store import STORES
from xpulpnn_sw.kernels.variants import BYTE_BITS


class OneFactorCode(KernelCode):
    """That of :class:`KernelCode` for the rules ``multiply`` and ``shift``."""

    @property
    def _block_parameters(self) -> int:
        """Bytes of parameters of a block: factor, offset, biases."""
        return (2 + self._blocking.variant.nch) * WORD

    def _channels(self) -> None:
        b, counter = self._b, self._temporaries[0]
        with b.loop(self._frame.value("steps", counter), counter, level=1):
            with b.region("quant"):
                for number in range(2):
                    b("pv.rqld", number, self._parameters)
            self._block()
            with b.region("quant"):
                self._results(self._frame.register("shift", counter))

    def _results(self, shift: int) -> None:
        """Requantise and store a block, as two halves if they are whole bytes: lanes of a word are then apart."""
        b, precision, (accumulators,) = self._b, self._blocking.precision, self._inner.acc
        halves = 2 if len(accumulators) * precision.y % (2 * BYTE_BITS) == 0 else 1
        lanes = len(accumulators) // halves
        name = f"pv.rq{'s' if precision.y_signed else 'u'}.{ElemFmt.of_width(precision.y).suffix}"
        for lane in range(lanes):
            for first in range(0, len(accumulators), lanes):
                b(name, accumulators[first], accumulators[first + lane], shift, lane)
        stored = lanes * precision.y
        for first in range(0, len(accumulators), lanes):
            b(STORES[stored], accumulators[first], stored // BYTE_BITS, self._out[0])
