"""Layers with filters in tiles: pieces of the input by pieces of the filters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layout import Words
from xpulpnn_sw.tiling.division import BUFFER, Addresses, Division, Placed
from xpulpnn_sw.tiling.function import specialised
from xpulpnn_sw.tiling.geometry import footprint_of, product_of, rates_of, shape_of
from xpulpnn_sw.tiling.operands import Filters, Outside, Places, Transfer, filters_of
from xpulpnn_sw.tiling.plan import Footprint, Plan, Rates, aligned
from xpulpnn_sw.tiling.schedule import Move, Operand
from xpulpnn_sw.tiling.shape import Shape, Tile

_IM2COL = "im2col"


class ProductDivision(Division):
    """Division of a convolution, a matrix product or a fully connected layer.

    Raises :class:`~xpulpnn.errors.LayerError` for a kernel that cannot be divided.
    """

    def __init__(self, run: KernelRun, rule: Rule | None, *, folded: bool) -> None:
        super().__init__(run)
        self._product, self._rule, self._folded = product_of(run), rule, folded

    @property
    def shape(self) -> Shape:
        """Shape of the kernel's layer."""
        return shape_of(self._product)

    @property
    def rates(self) -> Rates:
        """Speed of the kernel."""
        return rates_of(self._product)

    def footprint(self, fixed: int) -> Footprint:
        """Bytes of the kernel's tiles."""
        return footprint_of(self._product, fixed)

    def buffer_bytes(self, lines: int | None) -> int:
        """Bytes of the im2col buffers."""
        symbol = self.run.image.symbols.get(_IM2COL)
        return 0 if symbol is None else aligned(symbol.length)

    def place(self, name: str, outside: Outside, plan: Plan, addresses: Addresses) -> Placed:
        """Put the filters of each piece of channels outside."""
        filters: dict[range, tuple[int, Filters]] = {}
        for tile in plan.tiles:
            if tile.channels not in filters:
                part = filters_of(self._product, tile.channels)
                content = part.words.astype("<u4").tobytes()
                filters[tile.channels] = outside.place(f"{name}.filters{tile.channels.start}", content), part
        own = {} if addresses.buffer is None else {BUFFER: addresses.buffer}
        (source,) = addresses.sources
        return _PlacedProduct(
            Places(
                run=replace(self._product, arguments={**self._product.arguments, **own}),
                input=source,
                output=addresses.output,
                filters=filters,
                buffers={**addresses.buffers},
            )
        )

    def function(self, calls: Sequence[Mapping[str, int]]) -> Words:
        """Code with what all tiles have in common as constants."""
        return specialised(self._product, self._rule, calls, folded=self._folded).function.words


class _PlacedProduct(Placed):
    def __init__(self, places: Places) -> None:
        self._places = places

    def transfers(self, move: Move) -> Sequence[Transfer]:
        return (self._places.transfer(move),)

    def arguments(self, tile: Tile, slots: dict[Operand, int]) -> dict[str, int]:
        return self._places.arguments(tile, slots)
