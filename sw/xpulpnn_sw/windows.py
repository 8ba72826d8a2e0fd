"""Windows that move over a feature map: what a convolution, a depthwise one and a pooling have in common."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer_text import check_elements, check_size, options_of, spread, whole_number, written

OPTIONS_WITH_VALUE = ("s", "p", "v")  # of layers around whose maps there may be any value


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Places of a window on a feature map."""

    usual_padding: ClassVar[str] = "0"
    """Unless the text of a layer says otherwise."""

    options: ClassVar[tuple[str, ...]] = ("s", "p")
    """Keys of the options that the text of a layer may have."""

    height: int  # size of the input feature map
    width: int  # size of the input feature map
    channels: int  # size of the input feature map
    kernel_height: int  # size of the window
    kernel_width: int  # size of the window
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

    @classmethod
    def steps_of(cls, text: str, part: str | None) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
        """Stride and padding in the options ``s=S,p=P`` of the layer ``text``.

        S is one stride or ``SYxSX``, 1 unless given; P is one padding or ``TOPxBOTTOMxLEFTxRIGHT``.
        """
        options = options_of(text, part, cls.options)
        stride_y, stride_x = spread("s", options.get("s", "1"), 2)
        top, bottom, left, right = spread("p", options.get("p", cls.usual_padding), 4)
        return (stride_y, stride_x), (top, bottom, left, right)

    @classmethod
    def outside_of(cls, text: str, part: str | None) -> int:
        """The value around the map in the options of the layer ``text``, ``v=VALUE``; 0 unless given."""
        return whole_number("v", options_of(text, part, cls.options).get("v", "0"))

    def with_steps(self, text: str, outside: int = 0) -> str:
        """The text of a layer with the options that :meth:`steps_of` and :meth:`outside_of` read, but default ones."""
        steps = {"s": (self.stride, "1"), "p": (self.padding, self.usual_padding), "v": ((outside,), "0")}
        return written(text, steps)
