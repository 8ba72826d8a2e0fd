"""Integer expressions of assembly operands: numbers, symbols, ``pc``, operators and ``%hi``-style parts.

Precedence is that of the GNU assembler: ``* / % << >>`` bind stronger than ``| & ^``, and these stronger than ``+ -``.
Division rounds toward zero.
"""

import re
from collections.abc import Callable, Mapping

from xpulpnn.errors import EncodingError

_WORD = re.compile(r"\s*(<<|>>|[-+*/%|&^~()]|[\w.$]+)")
NUMBER = re.compile(r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*")
NAMES = re.compile(r"[\w.$]+")
_PART = re.compile(r"%(\w+)\((.*)\)")

_LOW_BITS = 12
_ROUNDING = 1 << (_LOW_BITS - 1)
_UPPER_MASK = (1 << 20) - 1
_FIRST_OF_PAIR = 4  # distance from the second instruction of an address pair back to its auipc
_SIGNS: Mapping[str, Callable[[int], int]] = {"-": int.__neg__, "+": int.__pos__, "~": int.__invert__}
_LARGEST_SHIFT = 63


def upper(value: int) -> int:
    """Return the operand of lui or auipc to which :func:`lower` must be added to give ``value``."""
    return (value + _ROUNDING >> _LOW_BITS) & _UPPER_MASK


def lower(value: int) -> int:
    return (value + _ROUNDING & (1 << _LOW_BITS) - 1) - _ROUNDING


def evaluate(text: str, symbols: Mapping[str, int], pc: int) -> int:
    """Return the value of ``text``, in which ``.`` is ``pc``; raise :class:`EncodingError` for unknown names.

    ``%hi`` and ``%lo`` are the parts of an absolute value, ``%pcrel_hi`` and ``%pcrel_lo`` those of a distance from the
    instruction with ``%pcrel_hi``, which must directly precede the one with ``%pcrel_lo``.
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
    if NAMES.fullmatch(text):
        return _term(text, symbols, pc)
    return _Expression(text, symbols, pc).parse()


def _term(word: str, symbols: Mapping[str, int], pc: int) -> int:
    if NUMBER.fullmatch(word):
        digits = word.replace("_", "")
        return int(digits, 0) if digits[1:2].isalpha() else int(digits)
    if word in (".", "pc"):
        return pc
    if word in symbols:
        return symbols[word]
    raise EncodingError(f"symbol must be a label or constant of the program, not {word}")


def _quotient(a: int, b: int) -> int:
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


# binary operators: precedence and function
_OPERATORS: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "+": (0, int.__add__),
    "-": (0, int.__sub__),
    "|": (1, int.__or__),
    "&": (1, int.__and__),
    "^": (1, int.__xor__),
    "*": (2, int.__mul__),
    "/": (2, _quotient),
    "%": (2, lambda a, b: a - b * _quotient(a, b)),
    "<<": (2, int.__lshift__),
    ">>": (2, int.__rshift__),
}


class _Expression:
    def __init__(self, text: str, symbols: Mapping[str, int], pc: int) -> None:
        self._text, self._symbols, self._pc = text, symbols, pc
        self._words = _WORD.findall(text)[::-1]
        if "".join(reversed(self._words)) != "".join(text.split()):
            raise self._error()

    def parse(self) -> int:
        value = self._binary(0)
        if self._words:
            raise self._error()
        return value

    def _binary(self, least: int) -> int:
        value = self._unary()
        while self._words and self._words[-1] in _OPERATORS and _OPERATORS[self._words[-1]][0] >= least:
            name = self._words.pop()
            strength, computed = _OPERATORS[name]
            right = self._binary(strength + 1)
            if (name in "/%" and right == 0) or (name in ("<<", ">>") and not 0 <= right <= _LARGEST_SHIFT):
                raise self._error()
            value = computed(value, right)
        return value

    def _unary(self) -> int:
        word = self._words.pop() if self._words else ")"
        if word in _SIGNS:
            return _SIGNS[word](self._unary())
        if word == "(":
            value = self._binary(0)
            if not self._words or self._words.pop() != ")":
                raise self._error()
            return value
        if not NAMES.fullmatch(word):
            raise self._error()
        return _term(word, self._symbols, self._pc)

    def _error(self) -> EncodingError:
        text = self._text.strip() or "empty"
        return EncodingError(f"expression must be made of numbers, symbols and operators, not {text}")
