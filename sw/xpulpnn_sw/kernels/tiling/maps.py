"""Layers that keep channels apart in tiles: some rows of the output, from rows of one map or of two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise.depthwise_parts import copied_bytes, row_pitch
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Words, banked_words
from xpulpnn_sw.kernels.tiling.division import (
    BUFFER,
    BYTES_PER_CYCLE,
    STEP_CYCLES,
    Division,
    DmaTransfer,
    LayerAddresses,
    OutsideMemory,
    PlacedLayer,
)
from xpulpnn_sw.kernels.tiling.plan import (
    DMA_ALIGNMENT,
    Footprint,
    LayerShape,
    Move,
    Rates,
    Tile,
    TileOperand,
    TilePlan,
    aligned,
    line_counts,
)
from xpulpnn_sw.layers.channelwise import AddLayer, DepthwiseLayer, ReluLayer, TransposeLayer, WindowLayer

# symbols that are neither inputs nor what belongs to a layer
_NOT_CONSTANTS = ("output", BUFFER, "arguments", "stack")
_WORD_CYCLES = 2  # of each word of a window, or of a map


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRows:
    """A map that is divided into rows."""

    symbol: str  # argument with its address
    line: int  # bytes of a row of a piece
    ahead: int = 0  # bytes behind that may be read
    planes: int = 1  # pieces of consecutive rows
    stride: int = 0  # bytes from one piece to the next

    @property
    def row(self) -> int:
        """Bytes of a row in all pieces."""
        return self.planes * self.line

    def transfer(self, rows: range, inside: int, outside: int, *, inwards: bool) -> DmaTransfer:
        """Move some rows."""
        size = len(rows) * self.line
        return DmaTransfer(
            inside=inside,
            outside=outside + rows.start * self.line,
            line=size,
            lines=self.planes,
            inside_stride=size,
            outside_stride=self.stride,
            inwards=inwards,
        )


def divides_by_rows(run: KernelRun) -> bool:
    """Tell whether :class:`MapDivision` knows the kernel."""
    return isinstance(run.layer, (WindowLayer, AddLayer, ReluLayer, TransposeLayer))


class MapDivision(Division):
    """Division of a pooling, a depthwise convolution, an addition, a ReLU, or a transposition.

    Raises :class:`LayerError` for any other kernel.
    """

    def __init__(self, run: KernelRun, cores: int) -> None:
        if not divides_by_rows(run):
            raise LayerError(f"layer in tiles must be one whose rows can be computed apart, not {run.layer}")
        super().__init__(run)
        self._cores = cores
        self.inputs = tuple(self._inputs())
        self.output = self._output()
        self.constants = {
            name: symbol.length
            for name, symbol in run.image.symbols.items()
            if name not in (*_NOT_CONSTANTS, *(one.symbol for one in self.inputs))
        }

    def _inputs(self) -> Iterator[MapRows]:
        layer, symbols = self.run.layer, self.run.image.symbols
        planes = layer.channels if isinstance(layer, DepthwiseLayer) else 1
        rows = layer.height if isinstance(layer, WindowLayer) else layer.out_shape[0]
        for name in ("first", "second") if isinstance(layer, AddLayer) else ("input",):
            line = self._line(rows, symbols[name].length)
            ahead = symbols[name].length - planes * rows * line
            yield MapRows(symbol=name, line=line, planes=planes, stride=rows * line, ahead=ahead)

    def _line(self, rows: int, size: int) -> int:
        """Bytes of an input row, of one channel or of all."""
        layer, arguments = self.run.layer, self.run.arguments
        if isinstance(layer, DepthwiseLayer):
            return arguments["row_bytes"]
        if "pixel_bytes" in arguments:
            return arguments["pixel_bytes"] * arguments["width"]
        return size // rows

    def _output(self) -> MapRows:
        rows, size = self.run.layer.out_shape[0], self.run.image.symbols["output"].length
        if not isinstance(self.run.layer, TransposeLayer):
            return MapRows(symbol="output", line=size // rows)
        line = self.run.arguments["row_bytes"]
        return MapRows(symbol="output", line=line, planes=size // (rows * line), stride=rows * line)

    @property
    def heights(self) -> Sequence[int | None]:
        """One by one: the buffer of a depthwise convolution has as many rows as a tile needs."""
        return line_counts(self.shape.lines)

    @property
    def shape(self) -> LayerShape:
        """Rows of the output, all channels at once."""
        layer = self.run.layer
        height, width = layer.out_shape
        windows = isinstance(layer, WindowLayer)
        return LayerShape(
            lines=height,
            line_pixels=width,
            pixels=height * width,
            channels=1,
            channel_unit=1,
            in_lines=layer.height if windows else height,
            step=layer.stride[0] if windows else 1,
            window=layer.kernel_height if windows else 1,
            top=layer.padding[0] if windows else 0,
        )

    @property
    def rates(self) -> Rates:
        """By the words of a window."""
        layer = self.run.layer
        words = -(-sum(one.row for one in self.inputs) // (WORD * layer.out_shape[1]))
        area = layer.area if isinstance(layer, WindowLayer) else 1
        return Rates(block=words * area * _WORD_CYCLES, group=0, step=STEP_CYCLES, bytes_per_cycle=BYTES_PER_CYCLE)

    def footprint(self, fixed: int) -> Footprint:
        """Rows of all maps, and constants in place of filters."""
        constants = sum(self.constants.values())
        return Footprint(
            fixed=fixed,
            in_line=sum(one.row for one in self.inputs),
            in_spare=sum(aligned(one.ahead) + DMA_ALIGNMENT for one in self.inputs),
            group=1,
            blocks=lambda channels: channels,
            pixel=lambda channels: channels * -(-self.output.row // self.shape.line_pixels),
            streams=1,
            stream=lambda blocks: blocks * constants,
            spare=0,
            parameters=0,
        )

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

    def place(self, name: str, outside: OutsideMemory, plan: TilePlan, addresses: LayerAddresses) -> PlacedLayer:
        """Put the constants outside."""
        content = b"".join(self.run.image.view(symbol).tobytes() for symbol in self.constants)
        constants = outside.place(f"{name}constants", content)
        stride = self._rows_stride(plan.lines) if addresses.buffer is not None else 0
        return _PlacedMap(self, constants, addresses, plan.shape.most_in_lines(plan.lines), stride)

    def function(self, calls: Sequence[Mapping[str, int]]) -> Words:
        """Code of the kernel for maps of any size."""
        return self.run.function.words


class _PlacedMap(PlacedLayer):
    """Inputs one behind the other in a buffer, constants in the buffer of filters."""

    def __init__(
        self, division: MapDivision, constants: int, addresses: LayerAddresses, in_lines: int, rows_stride: int
    ) -> None:
        self._division, self._constants, self._addresses = division, constants, addresses
        self._rows_stride = rows_stride
        self._offsets: list[int] = []
        end = 0
        for one in division.inputs:
            self._offsets.append(end)
            end += aligned(in_lines * one.row + one.ahead)

    def transfers(self, move: Move) -> Sequence[DmaTransfer]:
        division, addresses = self._division, self._addresses
        inside = addresses.buffers[move.operand][move.slot]
        match move.operand:
            case TileOperand.WEIGHTS:
                size = sum(division.constants.values())
                return (DmaTransfer(inside=inside, outside=self._constants, line=size, inwards=True),) if size else ()
            case TileOperand.INPUT:
                parts = zip(division.inputs, self._offsets, addresses.sources, strict=True)
                rows = move.tile.in_lines
                return [one.transfer(rows, inside + offset, outside, inwards=True) for one, offset, outside in parts]
            case TileOperand.OUTPUT:
                return (division.output.transfer(move.tile.lines, inside, addresses.output, inwards=False),)

    def arguments(self, tile: Tile, slots: dict[TileOperand, int]) -> dict[str, int]:
        division, run = self._division, self._division.run
        source, at, output = (self._addresses.buffers[operand][slots[operand]] for operand in TileOperand)
        values = {**run.arguments, "output": output}
        for one, offset in zip(division.inputs, self._offsets, strict=True):
            values[one.symbol] = source + offset
        for name, size in division.constants.items():
            values[name] = at
            at += size
        if self._addresses.buffer is not None:
            values |= {BUFFER: self._addresses.buffer, "buffer_stride": self._rows_stride}
        if isinstance(run.layer, WindowLayer):
            return values | {"height": len(tile.in_lines), "out_height": len(tile.lines), "pad_top": tile.pad_top}
        if isinstance(run.layer, TransposeLayer):
            return values | {"height": len(tile.lines)}
        # elements of so many rows
        for name in {"words", "steps"} & values.keys():
            values[name] = run.arguments[name] // run.layer.out_shape[0] * len(tile.lines)
        return values
