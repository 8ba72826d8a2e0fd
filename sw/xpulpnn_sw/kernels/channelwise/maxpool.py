"""Maximum pooling kernels and their random operands."""

from itertools import pairwise

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.builder import Held
from xpulpnn_sw.kernels.channelwise import maps as map_kernels
from xpulpnn_sw.kernels.channelwise.pooling import POOL, Pooling, window_name
from xpulpnn_sw.kernels.kernel import KernelRequest, KernelRun, Known, Structure, argument_structure
from xpulpnn_sw.kernels.layout import FOLDED_COLUMNS, Ints, fold, takes_folded
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term
from xpulpnn_sw.kernels.variants import POOL_LEVELS
from xpulpnn_sw.layers.layer import MaxPoolLayer, WindowLayer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

MAXPOOL_ARGUMENTS = argument_structure(
    "maxpool", *POOL, notes="For the window and stride in its name. Elements outside the map are ignored."
)


def random_map(layer: WindowLayer, precision: Precision, rng: np.random.Generator) -> Ints:
    """Return random elements whose upper limit varies from patch to patch, so that the maxima of windows vary too."""
    least = -(1 << (precision.x - 1)) if precision.x_signed else 0
    is_sign = precision.x == SIGN_BITS
    patches = (layer.height // (2 * layer.kernel_height) + 1, layer.width // (2 * layer.kernel_width) + 1)
    patch = rng.integers(0, 1 << precision.x, (*patches, layer.channels))
    values = patch.repeat(2 * layer.kernel_height, axis=0).repeat(2 * layer.kernel_width, axis=1)
    values = values[: layer.height, : layer.width]
    lower = rng.integers(0, values, endpoint=True)
    elements = np.where(rng.random(values.shape) < 1 / 2, values, lower) + least
    return 2 * elements - 1 if is_sign else elements


def maxpool_kernel(request: KernelRequest) -> KernelRun:
    layer, tensors = request.layer, request.tensors
    if tensors.folded and not takes_folded(layer):
        raise LayerError(f"pooling of a folded map must be 3x3:s=2,p=0xNx0x1 of whole fours of columns, not {layer}")
    maps = map_kernels.PlacedMaps(request, request.precision.x)
    arguments = maps.place_pool(fold(tensors.activations) if tensors.folded else tensors.activations)
    name = f"maxpool{'_relu' * layer.relu}{'_folded' * tensors.folded}_{window_name(layer)}"
    pooling = _FoldedMaxPooling if tensors.folded else _MaxPooling
    structure = MAXPOOL_ARGUMENTS
    return request.finish(name, structure, arguments, lambda known: pooling(request, structure, known).write())


class _MaxPooling(Pooling):
    def __init__(self, request: KernelRequest, structure: Structure, known: Known) -> None:
        super().__init__(request, structure, known)
        layer, precision = request.layer, request.precision
        self._relu, self._best = layer.relu, self.registers.take_one()
        common = max(0, layer.kernel_width - layer.stride[1]) if self.is_unrolled else 0
        self._common = self.registers.take(common)
        self.packed = map_kernels.Packed(self.b, precision.x, self.registers, signed=precision.x_signed)

    def begin(self) -> None:
        self.packed.begin()

    def start(self, pointer: int) -> None:
        self.b.load(self._best, pointer)

    def take(self, word: int) -> None:
        self.packed.max(self._best, self._best, word)

    def finish(self, out: int, rows: int, columns: int) -> None:
        self.store_result(self._best, out)

    def store_result(self, word: int, out: int) -> None:
        if self._relu:
            self.packed.relu(self._best, word)
            word = self._best
        self.store(word, out)

    def prepare(self, pointers: list[int]) -> None:
        for register in self._common:
            (column,) = self.load_columns(pointers, 1, skips=False)
            self._reduce(column, register)

    def whole_window(self, pointers: list[int], out: int) -> None:
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
                for register, following in pairwise(self._common):
                    self.b.mv(register, following)
                result = self._greatest(result, [self._reduce(last, self._common[-1])])
            else:
                result = self._greatest(result, [self._reduce(last)])
        assert result is not None
        self.store_result(result, out)
        if len(self._common) == 1 == self.layer.kernel_width - 1:
            self.b.mv(self._common[0], last[0])

    def _reduce(self, column: list[int], result: int | None = None) -> int:
        first, *others = column
        if not others:
            if result is not None:
                self.b.mv(result, first)
            return first if result is None else result
        for number, register in enumerate(others, 1):
            target = first if result is None or number < len(others) else result
            self.packed.max(target, first, register)
        return first if result is None else result

    def _greatest(self, result: int | None, words: list[int]) -> int | None:
        for word in words:
            if result is None:
                result = word
            else:
                self.packed.max(self._best, result, word)
                result = self._best
        return result


class _FoldedMaxPooling(_MaxPooling):
    def _terms(self) -> dict[str, Term]:
        pixel = Name("pixel_bytes")
        return super()._terms() | {
            # skips the pixel that a folded map omits
            "next_window": pixel * 2,
            # the last four columns have no successor
            "inner": Argument("width") // FOLDED_COLUMNS - 1,
            "inner_offset": pixel,
            "left_edge": Number(0),
            "right_edge": Number(0),
        }

    def _windows(self) -> None:
        self._row_pointers()
        count = self.frame.value("inner", self._remaining)
        self.b.repeat(count, self._remaining, lambda: self._places(has_next=True), level=0)
        self._places(has_next=False)

    def _places(self, *, has_next: bool) -> None:
        rows = len(self._pointers)
        firsts, seconds, spare = self.values[:rows], self.values[rows : 2 * rows], self.values[2 * rows]
        self._load(firsts, self._pixel)
        self._load(seconds, self._distances["next_window"])
        self._reduce(firsts)
        self.store_result(firsts[0], self._out)
        # the register of the result is free again
        nexts = [*firsts[1:], spare]
        if has_next:
            self._load(nexts, self._pixel)
        self._reduce(seconds)
        if has_next:
            self._reduce(nexts)
            self.packed.max(seconds[0], seconds[0], nexts[0])
        self.store_result(seconds[0], self._out)

    def _load(self, words: list[int], step: int) -> None:
        for word, pointer in zip(words, self._pointers, strict=True):
            self.b.load(word, pointer, Held(step))

    def _windows_at_edge(self) -> None:
        """Write nothing, as no window of a folded map is clipped by columns."""


MAXPOOL = map_kernels.same_kernel(
    name="maxpool",
    help="maximum pooling, with or without ReLU",
    layer=MaxPoolLayer,
    # the first pooling of the CIFAR-10 network, whose windows are cut off at the right and lower edge
    usual="32x32x32:3x3:s=2,p=0x1x0x1",
    write=maxpool_kernel,
    variants=POOL_LEVELS,
    random=lambda *drawn: map_kernels.MapTensors(activations=random_map(*drawn)),
    random_text=lambda rng: map_kernels.random_window_text(rng, map_kernels.MOST_CHANNELS),
    structures=(MAXPOOL_ARGUMENTS,),
    samples=("{side}x{side}x4:{window}",),
)
