"""The function around blocks of one pixel whose results the core scales by one factor for all channels.

With one pixel a bias is loaded as fast as an offset, so that the accumulators start with the biases, and the offset is
0 for a whole block.
"""

from xpulpnn_sw.kernels.code import KernelCode
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.requantised_store import RequantisedStore


class OneFactorCode(KernelCode):
    """That of :class:`KernelCode` for the rules ``multiply`` and ``shift``."""

    def _take_results(self, registers: Registers) -> dict[str, int]:
        """Take the registers of what follows the inner loop; those in which numbers live are returned."""
        homes = super()._take_results(registers)
        self._results = RequantisedStore(
            bits=self._blocking.precision.y,
            signed=self._blocking.precision.y_signed,
            acc=self._inner.acc,
            out=self._out,
            steps=[],
            parameters=self._parameters,
            common=2,
        )
        return homes

    @property
    def _block_parameters(self) -> int:
        """Bytes of parameters of a block."""
        return self._results.parameter_bytes

    def _channels(self) -> None:
        b, counter = self._b, self._temporaries[0]
        with b.loop(self._frame.value("steps", counter), counter, level=1):
            with b.region("quant"):
                self._results.begin(b)
            self._block()
            with b.region("quant"):
                self._results.emit(b, self._frame.register("shift", counter), [])
