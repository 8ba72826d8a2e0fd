"""The function of a maximum pooling.

Windows inside that overlap share the maxima of the columns they have in common. At the upper and lower edge, a row that
is off the map is replaced by one of the window's others.
"""

from collections.abc import Mapping
from itertools import pairwise

from xpulpnn_sw.kernels.arguments import Structure
from xpulpnn_sw.kernels.channelwise.levels import ElementLevel
from xpulpnn_sw.kernels.channelwise.packed import Packed
from xpulpnn_sw.kernels.channelwise.pooling import POOL_FIELDS, Pooling
from xpulpnn_sw.layers.channelwise import MaxPoolLayer
from xpulpnn_sw.precision import Precision

MAXPOOL_ARGUMENTS = Structure("xp_maxpool_arguments", POOL_FIELDS)
"""Of a maximum pooling."""


class MaxPooling(Pooling):
    """Writes the function."""

    def __init__(
        self, level: ElementLevel, precision: Precision, layer: MaxPoolLayer, known: Mapping[str, int]
    ) -> None:
        super().__init__(level, precision, layer, MAXPOOL_ARGUMENTS, known, repeats_rows=True)
        self._relu, self._best = layer.relu, self.registers.one()
        common = max(0, layer.kernel_width - layer.stride[1]) if self.is_unrolled else 0
        self._common = self.registers.take(common)
        self.packed = Packed(self.code, precision.x, self.registers, signed=precision.x_signed)

    def begin(self) -> None:
        """Load the constants."""
        self.packed.begin()

    def start(self, pointer: int) -> None:
        """Begin a window at the edge with its first word."""
        self.code.load(self._best, pointer)

    def take(self, word: int) -> None:
        """Take a word of a window at the edge."""
        self.packed.max(self._best, self._best, word)

    def finish(self, out: int, rows: int, columns: int) -> None:
        """Store the results of a window at the edge."""
        self.store_result(self._best, out)

    def store_result(self, word: int, out: int) -> None:
        """Store a result, which is lost, and move on to the next one's place."""
        if self._relu:
            self.packed.relu(self._best, word)
            word = self._best
        self.store(word, out)

    def prepare(self, pointers: list[int]) -> None:
        """Load the columns that the first window has in common with the one before."""
        for register in self._common:
            (column,) = self.load_columns(pointers, 1, skips=False)
            self._reduce(column, register)

    def inside(self, pointers: list[int], out: int) -> None:
        """Compute a window inside, and keep what it has in common with the next one."""
        result = self._greatest(None, self._common)
        missing = self.layer.kernel_width - len(self._common)
        last: list[int] = []
        while missing:
            count = min(missing, self.most_columns)
            missing -= count
            # overlapping windows are narrow, so that their new columns are loaded together
            *columns, last = self.load_columns(pointers, count, skips=not missing and not self._common)
            for column in columns:
                result = self._greatest(result, [self._reduce(column)])
            if self._common and result == self._best:
                self._shift()
                result = self._greatest(result, [self._reduce(last, self._common[-1])])
            else:
                result = self._greatest(result, [self._reduce(last)])
        assert result is not None
        self.store_result(result, out)
        if len(self._common) == 1 == self.layer.kernel_width - 1:
            self.code.b.mv(self._common[0], last[0])

    def _shift(self) -> None:
        """Make the last of the common columns free."""
        for register, following in pairwise(self._common):
            self.code.b.mv(register, following)

    def _reduce(self, column: list[int], result: int | None = None) -> int:
        """The maximum of a column in the register ``result``, or in its first one."""
        first, *others = column
        if not others:
            if result is not None:
                self.code.b.mv(result, first)
            return first if result is None else result
        for number, register in enumerate(others, 1):
            target = first if result is None or number < len(others) else result
            self.packed.max(target, first, register)
        return first if result is None else result

    def _greatest(self, result: int | None, words: list[int]) -> int | None:
        """The register with the maximum of ``result``, if there is one, and ``words``, none of which changes."""
        for word in words:
            if result is None:
                result = word
            else:
                self.packed.max(self._best, result, word)
                result = self._best
        return result
