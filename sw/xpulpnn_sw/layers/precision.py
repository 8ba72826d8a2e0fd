"""Widths and signs of a layer's inputs, weights and outputs, and the text that describes them."""

import re
from dataclasses import dataclass

from xpulpnn.errors import LayerError

ACCUMULATOR_BITS = 32

SIGN_BITS = 1  # width of numbers that are -1 or +1, stored as a bit 0 or 1
_WIDTHS = (ACCUMULATOR_BITS, 16, 8, 4, 2, SIGN_BITS)
_SIGNED = {"u": False, "i": True}
_USUAL = (False, True, False)  # default signs: unsigned inputs, signed weights, unsigned outputs


@dataclass(frozen=True, slots=True)
class Precision:
    x: int  # width of the inputs
    w: int  # width of the weights
    y: int  # width of the outputs; 32 bits are accumulators, not requantised
    x_signed: bool = False  # whether inputs are signed; False for one bit
    w_signed: bool = True  # whether weights are signed
    y_signed: bool = False  # whether outputs are signed

    def __post_init__(self) -> None:
        for width in (self.x, self.w, self.y):
            if width not in _WIDTHS:
                raise LayerError(f"precision must be widths out of {','.join(map(str, _WIDTHS))}, not {width}")
        signs = (self.x_signed, self.w_signed, self.y_signed)
        for width, sign, usual in zip((self.x, self.w, self.y), signs, _USUAL, strict=True):
            if width == SIGN_BITS and sign != usual:
                raise LayerError(f"precision must have no sign before a width of 1, not {self}")

    @classmethod
    def uniform(cls, bits: int) -> "Precision":
        return cls(bits, bits, bits)

    @classmethod
    def parse(cls, text: str) -> "Precision":
        """Parse ``XxWxY``: the three widths, each preceded by ``u`` or ``i`` if its sign is not the default."""
        match = re.fullmatch(r"([ui]?)(\d{1,2})x([ui]?)(\d{1,2})x([ui]?)(\d{1,2})", text, re.ASCII)
        if match is None:
            raise LayerError(f"precision must be XxWxY such as 8x4x8 or u8xi4xu8, not {text}")
        x_signed, w_signed, y_signed = (
            _SIGNED.get(letter, usual) for letter, usual in zip(match.groups()[::2], _USUAL, strict=True)
        )
        x, w, y = map(int, match.groups()[1::2])
        return cls(x, w, y, x_signed, w_signed, y_signed)

    def __str__(self) -> str:
        signs = (self.x_signed, self.w_signed, self.y_signed)
        letters = ("" if sign == usual else "ui"[sign] for sign, usual in zip(signs, _USUAL, strict=True))
        return "x".join(f"{letter}{width}" for letter, width in zip(letters, (self.x, self.w, self.y), strict=True))

    @property
    def accumulators(self) -> "Precision":
        return Precision(self.x, self.w, ACCUMULATOR_BITS, self.x_signed, self.w_signed, y_signed=True)

    @property
    def x_negative(self) -> bool:
        return self.x_signed or self.x == SIGN_BITS

    @property
    def input_range(self) -> tuple[int, int]:
        if self.x == SIGN_BITS:
            return -1, 1
        least = -(1 << (self.x - 1)) if self.x_signed else 0
        return least, least + (1 << self.x) - 1

    @property
    def outside(self) -> int:
        """Default padding value of a convolution: 0, or -1 for binary inputs."""
        return -1 if self.x == SIGN_BITS else 0

    def padding_value(self, value: int) -> int:
        """Return ``value``, or -1 for binary inputs; raise :class:`LayerError` for a value outside the input range."""
        if self.x == SIGN_BITS:
            if value not in (0, self.outside):
                raise LayerError(f"value around the map must be -1 for inputs of one bit, not {value}")
            return self.outside
        least, most = self.input_range
        if not least <= value <= most:
            kind = f"{'signed' if self.x_signed else 'unsigned'} inputs of {self.x} bits"
            raise LayerError(f"value around the map must be {least}..{most} for {kind}, not {value}")
        return value

    @property
    def requantised(self) -> bool:
        return self.y != ACCUMULATOR_BITS
