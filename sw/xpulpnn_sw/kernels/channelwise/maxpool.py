"""Maximum pooling; the input stays as it is.

Windows inside that overlap share the maxima of the columns they have in common. At the upper and lower edge, a row that
is off the map is replaced by one of the window's others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.arguments import Structure, window_arguments
from xpulpnn_sw.kernels.channelwise.levels import PLAIN_LEVELS, ElementLevel
from xpulpnn_sw.kernels.channelwise.packed import Packed
from xpulpnn_sw.kernels.channelwise.pooling import POOL_FIELDS, Pooling, window_name
from xpulpnn_sw.kernels.channelwise.run import Maps, Options, finished
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.layers.channelwise import MaxPoolLayer, WindowLayer
from xpulpnn_sw.layout import ImageBuilder, Ints, Placement
from xpulpnn_sw.precision import Precision

MAXPOOL_ARGUMENTS = Structure("xp_maxpool_arguments", POOL_FIELDS)
"""Of a maximum pooling."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PoolTensors:
    """What a maximum pooling computes with.

    Parameters
    ----------
    activations : array of int
        The map, ``[height][width][channel]``.
    """

    activations: Ints


def random_map(layer: WindowLayer, precision: Precision, rng: np.random.Generator) -> Ints:
    """Elements over their whole range, patches of them alike so that what is made of windows spreads over the range."""
    least = -(1 << (precision.x - 1)) if precision.x_signed else 0
    patches = (layer.height // (2 * layer.kernel_height) + 1, layer.width // (2 * layer.kernel_width) + 1)
    patch = rng.integers(0, 1 << precision.x, (*patches, layer.channels))
    values = patch.repeat(2 * layer.kernel_height, axis=0).repeat(2 * layer.kernel_width, axis=1)
    values = values[: layer.height, : layer.width]
    lower = rng.integers(0, values, endpoint=True)
    return np.where(rng.random(values.shape) < 1 / 2, values, lower) + least


def check_maxpool(_: MaxPoolLayer, precision: Precision) -> Precision:
    """The precision; raises :class:`LayerError` unless a maximum pooling can have it."""
    if (precision.x, precision.x_signed) != (precision.y, precision.y_signed):
        raise LayerError(f"precision of maxpool must be inputs and outputs of one width and sign, not {precision}")
    return precision


def random_maxpool(layer: MaxPoolLayer, precision: Precision, rng: np.random.Generator) -> PoolTensors:
    """A random map."""
    return PoolTensors(activations=random_map(layer, precision, rng))


def maxpool_kernel(
    layer: MaxPoolLayer,
    precision: Precision,
    name: str,
    tensors: PoolTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The pooling of ``tensors`` for the level ``name``, with stacks for ``cores`` cores.

    The function is for windows and strides as in ``layer``. Memory symbols: ``input`` and ``output`` (HWC),
    ``arguments``, ``stack``.
    """
    level = PLAIN_LEVELS[name]
    level.check_precision(precision)
    check_maxpool(layer, precision)
    memory = ImageBuilder()
    maps = Maps(memory, layer.channels, precision.x)
    arguments = {
        "input": maps.place("input", tensors.activations, precision.x),
        "output": maps.reserve("output", layer.out_height * layer.out_width, precision.y),
        "pixel_bytes": maps.pixel_bytes(precision.x),
        "out_pixel_bytes": maps.pixel_bytes(precision.y),
        **window_arguments(layer),
    }
    return finished(
        layer,
        precision,
        level,
        Options(name=f"maxpool_{window_name(layer)}", cores=cores, specialise=specialise, placement=placement),
        MAXPOOL_ARGUMENTS,
        memory,
        arguments,
        maps.pixel_bytes(precision.y),
        lambda known: _MaxPooling(level, precision, layer, known).write(),
    )


class _MaxPooling(Pooling):
    """Writes the function."""

    def __init__(self, level: ElementLevel, precision: Precision, layer: WindowLayer, known: Mapping[str, int]) -> None:
        super().__init__(level, precision, layer, MAXPOOL_ARGUMENTS, known, repeats_rows=True)
        self._best = self.registers.one()
        common = max(0, layer.kernel_width - layer.stride[1]) if self.is_unrolled else 0
        self._common = self.registers.take(common)
        self._packed = Packed(self.code, precision.x, self.registers, signed=precision.x_signed)

    def begin(self) -> None:
        self._packed.begin()

    def start(self, pointer: int) -> None:
        self.code.load(self._best, pointer)

    def take(self, word: int) -> None:
        self._packed.max(self._best, self._best, word)

    def finish(self, out: int, rows: int, columns: int) -> None:
        self.store(self._best, out)

    def prepare(self, pointers: list[int]) -> None:
        for register in self._common:
            (column,) = self.load_columns(pointers, 1, skips=False)
            self._reduce(column, register)

    def inside(self, pointers: list[int], out: int) -> None:
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
        self.store(result, out)
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
            self._packed.max(target, first, register)
        return first if result is None else result

    def _greatest(self, result: int | None, words: list[int]) -> int | None:
        """The register with the maximum of ``result``, if there is one, and ``words``, none of which changes."""
        for word in words:
            if result is None:
                result = word
            else:
                self._packed.max(self._best, result, word)
                result = self._best
        return result
