"""Layers that keep channels apart in tiles: some rows of the output, from rows of one map or of two."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise.depthwise_parts import copied_bytes, row_pitch
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Words, banked_words
from xpulpnn_sw.kernels.tiling.division import BUFFER, Division, DmaTransfer, Filters, LineMap
from xpulpnn_sw.kernels.tiling.plan import DMA_ALIGNMENT, LayerShape, Tile, TilePlan, aligned, line_counts
from xpulpnn_sw.layers.channelwise import AddLayer, DepthwiseLayer, ReluLayer, TransposeLayer, WindowLayer

# symbols that are neither inputs nor what belongs to a layer
_NOT_CONSTANTS = ("output", BUFFER, "arguments", "stack")
_WORD_CYCLES = 2  # of each word of a window, or of a map


def divides_by_rows(run: KernelRun) -> bool:
    """Tell whether :class:`MapDivision` knows the kernel."""
    return isinstance(run.layer, (WindowLayer, AddLayer, ReluLayer, TransposeLayer))


class MapDivision(Division):
    """Division of a layer whose rows can be computed apart; raises :class:`LayerError` for any other kernel."""

    def __init__(self, run: KernelRun, cores: int) -> None:
        if not divides_by_rows(run):
            raise LayerError(f"layer in tiles must be one whose rows can be computed apart, not {run.layer}")
        self.run, self._cores, layer = run, cores, run.layer
        height, width = layer.out_shape
        self.shape = LayerShape(lines=height, line_pixels=width, pixels=height * width, in_lines=height)
        area = 1
        if isinstance(layer, WindowLayer):
            self.shape = LayerShape(
                lines=height,
                line_pixels=width,
                pixels=height * width,
                in_lines=layer.height,
                step=layer.stride[0],
                window=layer.kernel_height,
                top=layer.padding[0],
            )
            area = layer.area
        self.inputs = tuple(self._inputs())
        size = run.image.symbols["output"].length
        line = run.arguments["row_bytes"] if isinstance(layer, TransposeLayer) else size // height
        self._output = LineMap(symbol="output", line=line, planes=size // (height * line), stride=height * line)
        self.in_line = sum(one.row for one in self.inputs)
        self.in_spare = sum(aligned(one.ahead) + DMA_ALIGNMENT for one in self.inputs)
        self.block_cycles = -(-self.in_line // (WORD * width)) * area * _WORD_CYCLES
        names = {*_NOT_CONSTANTS, *(one.symbol for one in self.inputs)}
        self._constants = [name for name in run.image.symbols if name not in names]

    def _inputs(self) -> Iterator[LineMap]:
        layer, arguments, rows = self.run.layer, self.run.arguments, self.shape.in_lines
        planes = layer.channels if isinstance(layer, DepthwiseLayer) else 1
        for name in ("first", "second") if isinstance(layer, AddLayer) else ("input",):
            size = self.run.image.symbols[name].length
            # of one channel or of all
            line = arguments["pixel_bytes"] * arguments["width"] if "pixel_bytes" in arguments else size // rows
            line = arguments["row_bytes"] if isinstance(layer, DepthwiseLayer) else line
            ahead = size - planes * rows * line
            yield LineMap(symbol=name, line=line, planes=planes, stride=rows * line, ahead=ahead)

    @property
    def heights(self) -> Sequence[int | None]:
        """One by one: the buffer of a depthwise convolution has as many rows as a tile needs."""
        return line_counts(self.shape.lines)

    def pixel_bytes(self, channels: int) -> int:
        """Bytes of an output pixel."""
        return channels * -(-self._output.row // self.shape.line_pixels)

    def filter_bytes(self, channels: int) -> int:
        """Bytes of constants, which are in place of filters."""
        return channels * sum(self.run.image.symbols[name].length for name in self._constants)

    def _rows_stride(self, lines: int) -> int:
        """Bytes from the rows of a core to those of the next, where a kernel copies rows."""
        layer = self.run.layer
        assert isinstance(layer, DepthwiseLayer)
        _, _, left, right = layer.padding
        rows = (lines - 1) * layer.stride[0] + layer.kernel_height
        size = copied_bytes(rows, row_pitch(layer.width, left, right))
        return banked_words(-(-size // WORD), self.run.placement) * WORD

    def buffer_bytes(self, lines: int | None) -> int:
        """Bytes of the rows that the cores copy."""
        if BUFFER not in self.run.image.symbols or lines is None:
            return 0
        return aligned(self._cores * self._rows_stride(lines))

    def filters(self, channels: range) -> Filters:
        """The constants."""
        contents = [self.run.image.view(name).tobytes() for name in self._constants]
        starts = accumulate(map(len, contents[:-1]), initial=0)
        return Filters(
            name="constants", content=b"".join(contents), places=dict(zip(self._constants, starts, strict=False))
        )

    def store(self, tile: Tile, inside: int, outside: int) -> DmaTransfer:
        """Move the results of a tile to the map at ``outside``."""
        return self._output.transfer(tile.lines, inside, outside, inwards=False)

    def tile_arguments(self, tile: Tile, plan: TilePlan) -> dict[str, int]:
        """Rows of a tile, or elements of so many rows."""
        layer, arguments, lines = self.run.layer, self.run.arguments, len(tile.lines)
        if isinstance(layer, WindowLayer):
            copied = {"buffer_stride": self._rows_stride(plan.lines)} if isinstance(layer, DepthwiseLayer) else {}
            return {"height": len(tile.in_lines), "out_height": lines, "pad_top": tile.pad_top, **copied}
        if isinstance(layer, TransposeLayer):
            return {"height": lines}
        return {name: arguments[name] // self.shape.lines * lines for name in ("words", "steps") if name in arguments}

    def function(self, calls: Sequence[Mapping[str, int]]) -> Words:
        """Code of the kernel for maps of any size."""
        return self.run.function.words
