"""Windows that move over a feature map: what a convolution, a depthwise one and a pooling have in common."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn.errors import LayerError
from xpulpnn_sw.layers.text import STRIDE, LayerText, check_elements, check_size, padding_option


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(LayerText):
    """Places of a window on a feature map."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=]"
    sizes = (("height", "width", "channels"), ("kernel_height", "kernel_width"))
    options = (STRIDE, padding_option("0"))

    height: int  # rows of the input map
    width: int  # columns of the input map
    channels: int  # channels of the input map
    kernel_height: int  # rows of the window
    kernel_width: int  # columns of the window
    stride: tuple[int, int] = (1, 1)  # step in y and in x
    # rows and columns around the map at top, bottom, left and right that windows may reach into
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels", "kernel_height", "kernel_width"):
            check_size(name.replace("_", " "), getattr(self, name))
        for value in self.stride:
            check_size("stride", value)
        for value in self.padding:
            check_size("padding", value, least=0)
        top, bottom, left, right = self.padding
        for name, kernel, padded in (
            ("height", self.reach, self.height + top + bottom),
            ("width", self.kernel_width, self.width + left + right),
        ):
            if kernel > padded:
                raise LayerError(f"kernel {name} must be at most the padded input's {padded}, not {kernel}")
        check_elements("input", self.height * self.width * self.channels)

    @property
    def reach(self) -> int:
        """Input rows from the first to the last of a window."""
        return self.kernel_height

    @property
    def out_height(self) -> int:
        """Rows of the output map."""
        top, bottom, _, _ = self.padding
        return (self.height + top + bottom - self.reach) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the output map."""
        _, _, left, right = self.padding
        return (self.width + left + right - self.kernel_width) // self.stride[1] + 1

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output without its channels."""
        return self.out_height, self.out_width
