"""The function around blocks whose results are the accumulators, where no accumulator starts with a bias."""

from xpulpnn_sw.kernels.code import KernelCode
from xpulpnn_sw.kernels.cross import CrossLoop
from xpulpnn_sw.kernels.terms import Name, Term, positive


class FreshCode(KernelCode):
    """That of :class:`KernelCode`; the products that come first in a sum do not accumulate."""

    def _terms(self) -> dict[str, Term]:
        """All numbers of the kernel, from its arguments; there are no parameters."""
        return {name: value for name, value in super()._terms().items() if name != "parameters"}

    def _begin_parameters(self) -> None:
        """There are none."""

    def _iterations(self, turns: Term) -> Term:
        """Of the inner loop, at least one; some turns are around it."""
        return positive(turns - self._blocking.least_turns) + 1

    @property
    def _turns(self) -> Term:
        """Turns that a block takes over words of the rows."""
        return Name("iterations") + self._blocking.variant.turns_around

    def _block(self) -> None:
        inner, b = self._inner, self._b
        assert isinstance(inner, CrossLoop)
        self._load_rows()
        for operation in inner.block_prefetch:
            b(*operation)
        count = self._frame.value("iterations", self._temporaries[0])
        inner.emit_turns(b, count, signed=self._blocking.precision.x_negative, fresh=True)
