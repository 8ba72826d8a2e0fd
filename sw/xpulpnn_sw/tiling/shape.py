"""Division of a layer into tiles: output lines by output channels, and the input lines that they need."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Lines and channels of a layer."""

    lines: int  # output lines: rows of the output map, groups of pixels of a matrix product
    line_pixels: int  # output pixels of a line, and of the layer: the last line may have fewer
    pixels: int  # output pixels of a line, and of the layer: the last line may have fewer
    channels: int  # output channels; those of a tile, but for the last, are a multiple of the unit
    channel_unit: int  # output channels; those of a tile, but for the last, are a multiple of the unit
    in_lines: int
    step: int  # output line `y` needs the input lines from `y * step - top` on, `window` of them, as far as there are
    window: int  # output line `y` needs the input lines from `y * step - top` on, `window` of them, as far as there are
    top: int  # output line `y` needs the input lines from `y * step - top` on, `window` of them, as far as there are

    def tile(self, lines: range, channels: range) -> "Tile":
        """The tile of these output lines and channels."""
        first = lines.start * self.step - self.top
        after = (lines.stop - 1) * self.step - self.top + self.window
        start, stop = max(first, 0), min(after, self.in_lines)
        needed = range(start, stop) if start < stop else range(0)
        return Tile(
            lines=lines,
            channels=channels,
            in_lines=needed,
            pad_top=start - first if needed else 0,
            pixels=min(lines.stop * self.line_pixels, self.pixels) - lines.start * self.line_pixels,
        )

    def most_in_lines(self, lines: int) -> int:
        """Input lines that any tile of so many output lines may need."""
        return min((lines - 1) * self.step + self.window, self.in_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A piece of the output."""

    lines: range
    channels: range
    in_lines: range  # of the input; empty where the tile has nothing but padding under it
    pad_top: int  # lines of padding above the first of them
    pixels: int


def pieces(total: int, size: int) -> list[range]:
    """0 to ``total`` in pieces of ``size``, the last of which may be shorter."""
    return [range(start, min(start + size, total)) for start in range(0, total, size)]
