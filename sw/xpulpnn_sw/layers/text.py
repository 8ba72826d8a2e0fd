"""The text that describes a layer: sizes, options and a suffix such as ``:relu``. Also base of layers with windows."""

import re
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any, ClassVar, Self

from xpulpnn.errors import LayerError, require

MAX_SIZE = 65535  # largest dimension, stride or padding: sizes are 16-bit in the PULP-NN kernels
MAX_ELEMENTS = 1 << 24  # most elements of a tensor; keeps a mistyped layer from filling the host's memory

_MAX_DIGITS = 9


def check_size(name: str, value: int, *, least: int = 1) -> None:
    require(least <= value <= MAX_SIZE, f"{name} must be {least}..{MAX_SIZE}, not {value}", LayerError)


def check_elements(name: str, count: int) -> None:
    require(count <= MAX_ELEMENTS, f"{name} must be at most {MAX_ELEMENTS} elements, not {count}", LayerError)


def _number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise LayerError(f"size must be a number of at most {_MAX_DIGITS} digits, not {len(digits)} digits")
    return int(digits)


def join(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))


def random_sizes(rng: Random, *most: int) -> str:
    return "x".join(str(rng.randint(1, greatest)) for greatest in most)


@dataclass(frozen=True, slots=True)
class Option:
    """An option ``key=value`` of a layer's text; the value is one number or several, joined by ``x``."""

    key: str
    field: str
    count: int  # elements of the field; 0: one number that may be negative
    usual: str  # default text of the value

    def value(self, text: str) -> int | tuple[int, ...]:
        if self.count == 0:
            if not re.fullmatch(r"-?\d+", text, re.ASCII):
                raise LayerError(f"{self.key}= must be a whole number, not {text or 'empty'}")
            digits = text.removeprefix("-")
            return -_number(digits) if text != digits else _number(digits)
        if re.fullmatch(r"\d+(x\d+)*", text, re.ASCII):
            numbers = tuple(map(_number, text.split("x")))
            if len(numbers) in (1, self.count):
                return numbers * (self.count // len(numbers)) if self.count > 1 else numbers[0]
        raise LayerError(f"{self.key}= must be one number or {self.count} joined by x, not {text or 'empty'}")

    def text(self, value: int | tuple[int, ...]) -> str:
        return join(value if isinstance(value, tuple) else (value,))


STRIDE = Option("s", "stride", 2, "1")
OUTSIDE = Option("v", "outside", 0, "0")


def pad_option(usual: str) -> Option:
    return Option("p", "padding", 4, usual)


class LayerText:
    """Base of layer classes that a text ``SIZExSIZE:SIZExSIZE:OPTION=,OPTION=:MARK`` describes."""

    __slots__ = ()

    form: ClassVar[str]  # form of the text, as errors show it

    # names of the fields that are numbers, joined by x, in groups joined by colons
    sizes: ClassVar[tuple[tuple[str, ...], ...]]

    options: ClassVar[tuple[Option, ...]] = ()

    # suffix of the text, and the field that tells whether it is present; None: it must be
    mark: ClassVar[tuple[str, str | None]] = ("", None)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the layer that a text describes; raise :class:`LayerError` for an invalid text."""
        mark, marked = cls.mark
        pattern = ":".join("x".join([r"(\d+)"] * len(group)) for group in cls.sizes)
        match = re.fullmatch(pattern + r"(?::(.*))?" * bool(cls.options), text.removesuffix(mark), re.ASCII)
        if match is None or (marked is None and not text.endswith(mark)):
            raise LayerError(f"layer must be {cls.form}, not {text}")
        names = [*chain.from_iterable(cls.sizes)]
        values: dict[str, Any] = dict(zip(names, map(_number, match.groups()[: len(names)]), strict=True))
        if marked is not None:
            values[marked] = text.endswith(mark)
        given = cls._given(text, match[len(names) + 1]) if cls.options else {}
        values |= {option.field: option.value(given.get(option.key, option.usual)) for option in cls.options}
        return cls(**values)

    @classmethod
    def _given(cls, text: str, part: str | None) -> dict[str, str]:
        keys, options = [option.key for option in cls.options], dict[str, str]()
        for item in [] if part is None else part.split(","):
            key, equals, value = item.partition("=")
            if not equals or key not in keys or key in options:
                known = " and ".join(filter(None, (", ".join(f"{name}=" for name in keys[:-1]), f"{keys[-1]}=")))
                raise LayerError(f"layer options must be {known}, each at most once, not {item or 'empty'} in {text}")
            options[key] = value
        return options

    def check_sizes(self) -> None:
        for name in chain.from_iterable(self.sizes):
            check_size(name.replace("_", " "), getattr(self, name))

    def __str__(self) -> str:
        text = ":".join("x".join(str(getattr(self, name)) for name in group) for group in self.sizes)
        shown = [(option, option.text(getattr(self, option.field))) for option in self.options]
        options = [f"{option.key}={value}" for option, value in shown if value != option.usual]
        mark, marked = self.mark
        is_marked = marked is None or getattr(self, marked)
        return ":".join([text, *([",".join(options)] if options else [])]) + mark * is_marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(LayerText):
    """Positions of a window that moves over a feature map."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=]"
    sizes = (("height", "width", "channels"), ("kernel_height", "kernel_width"))
    options = (STRIDE, pad_option("0"))

    height: int  # rows of the input map
    width: int  # columns of the input map
    channels: int  # channels of the input map
    kernel_height: int  # rows of the window
    kernel_width: int  # columns of the window
    stride: tuple[int, int] = (1, 1)  # step in y and in x
    # rows and columns around the map at top, bottom, left and right that windows may reach into
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        self.check_sizes()
        for value in self.stride:
            check_size("stride", value)
        for value in self.padding:
            check_size("padding", value, least=0)
        top, bottom, left, right = self.padding
        rows, columns = self.height + top + bottom, self.width + left + right
        for name, kernel, padded in ("height", self.reach, rows), ("width", self.kernel_width, columns):
            if kernel > padded:
                raise LayerError(f"kernel {name} must be at most the padded input's {padded}, not {kernel}")
        check_elements("input", self.height * self.width * self.channels)

    @property
    def reach(self) -> int:
        return self.kernel_height

    @property
    def out_height(self) -> int:
        top, bottom, _, _ = self.padding
        return (self.height + top + bottom - self.reach) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        _, _, left, right = self.padding
        return (self.width + left + right - self.kernel_width) // self.stride[1] + 1

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.out_height, self.out_width
