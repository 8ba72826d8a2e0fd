"""Elements of words as tuples, lane 0 first, by structures and tables that compiled instructions name."""

from struct import Struct
from typing import Any

_BYTE_BITS, _BYTES = 8, 256
_LAYOUTS = {(16, False): "<2H", (16, True): "<2h", (8, False): "<4B", (8, True): "<4b"}


def _name(width: int, *, is_signed: bool) -> str:
    return f"{'signed' if is_signed else 'unsigned'}{width}"


def unpacking(word: str, width: int, *, is_signed: bool) -> str:
    """Return the expression of the elements of a word."""
    name = _name(width, is_signed=is_signed)
    if (width, is_signed) in _LAYOUTS:
        return f"{name}({word}.to_bytes(4, 'little'))"
    return f"({name}[{word} & 255] + {name}[{word} >> 8 & 255] + {name}[{word} >> 16 & 255] + {name}[{word} >> 24])"


def _by_byte(width: int, *, is_signed: bool) -> list[tuple[int, ...]]:
    """Elements of every byte, for elements smaller than it."""
    sign, mask = (1 << (width - 1) if is_signed else 0), (1 << width) - 1
    lsbs = range(0, _BYTE_BITS, width)
    return [tuple((byte >> lsb & mask ^ sign) - sign for lsb in lsbs) for byte in range(_BYTES)]


ELEMENT_NAMES: dict[str, Any] = {
    _name(width, is_signed=is_signed): Struct(layout).unpack for (width, is_signed), layout in _LAYOUTS.items()
} | {
    _name(width, is_signed=is_signed): _by_byte(width, is_signed=is_signed)
    for width in (4, 2)
    for is_signed in (False, True)
}
"""Names in the expressions: functions for half-words and bytes, tables by byte for smaller elements."""
