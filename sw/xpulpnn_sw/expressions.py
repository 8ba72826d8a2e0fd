"""Integer expressions of assembly operands: numbers, symbols, ``pc``, sums and ``%hi``-style parts."""

import re
from collections.abc import Mapping

from xpulpnn.errors import EncodingError

_TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<number>0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*(?![\w$]))|(?P<symbol>[\w.$]+))"
)
_PART = re.compile(r"%(\w+)\((.*)\)")

_LOW_BITS = 12
_ROUNDING = 1 << (_LOW_BITS - 1)
_UPPER_MASK = (1 << 20) - 1
_FIRST_OF_PAIR = 4
"""Distance from the second instruction of an address pair back to its auipc."""


def upper(value: int) -> int:
    """The operand of lui or auipc that, with :func:`lower`, makes ``value``."""
    return (value + _ROUNDING >> _LOW_BITS) & _UPPER_MASK


def lower(value: int) -> int:
    """The signed low 12 bits of ``value``."""
    return (value + _ROUNDING & (1 << _LOW_BITS) - 1) - _ROUNDING


def is_relative(text: str) -> bool:
    """Whether a jump operand is written as a plain distance in bytes instead of a target."""
    return not any(match["symbol"] for match in _TERM.finditer(text))


def evaluate(text: str, symbols: Mapping[str, int], pc: int) -> int:
    """The value of ``text``; ``pc`` and ``.`` stand for ``pc``. Raises :class:`EncodingError` for anything unknown.

    ``%hi`` ``%lo`` split an absolute value, ``%pcrel_hi`` ``%pcrel_lo`` a distance; ``%pcrel_lo`` belongs to the
    instruction right after its ``%pcrel_hi``.
    """
    if part := _PART.fullmatch(text.strip()):
        value = evaluate(part[2], symbols, pc)
        match part[1]:
            case "hi":
                return upper(value)
            case "lo":
                return lower(value)
            case "pcrel_hi":
                return upper(value - pc)
            case "pcrel_lo":
                return lower(value - pc + _FIRST_OF_PAIR)
            case other:
                raise EncodingError(f"operand part must be %hi, %lo, %pcrel_hi or %pcrel_lo, not %{other}")
    total, position = 0, 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None or (position and not match["sign"]):
            raise EncodingError(f"expression must be a sum of numbers and symbols, not {text}")
        value = _term(match, symbols, pc)
        total += -value if match["sign"] == "-" else value
        position = match.end()
    if not text.strip():
        raise EncodingError("expression must be a sum of numbers and symbols, not empty")
    return total


def _term(match: re.Match[str], symbols: Mapping[str, int], pc: int) -> int:
    if number := match["number"]:
        digits = number.replace("_", "")
        return int(digits, 0) if digits[1:2].isalpha() else int(digits)
    symbol = match["symbol"]
    if symbol in (".", "pc"):
        return pc
    if symbol in symbols:
        return symbols[symbol]
    raise EncodingError(f"symbol must be a label or constant of the program, not {symbol}")
