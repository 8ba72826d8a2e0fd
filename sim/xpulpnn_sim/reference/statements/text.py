"""Values as Python source with bounds: the arithmetic of the compiled simulator.

Because bounds are known, masks and sign extensions without effect are left out. Values that are the same in every
execution of an instruction word are computed once for the word.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from struct import Struct
from typing import Any

from xpulpnn.isa.machine import WORD_MASK, XLEN


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def zx(value: int, width: int) -> int:
    return value & ((1 << width) - 1)


def sx(value: int, width: int) -> int:
    low = zx(value, width)
    return low - (1 << width) if low >> (width - 1) else low


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "quotient": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b),  # with the sign of a
    "sx": sx,
    "zx": zx,
}

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
}

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_BYTE_BITS, _BYTES = 8, 256
_LAYOUTS = {(16, False): "<2H", (16, True): "<2h", (8, False): "<4B", (8, True): "<4b"}


def _name(width: int, *, is_signed: bool) -> str:
    return f"{'signed' if is_signed else 'unsigned'}{width}"


def unpacking(word: str, width: int, *, is_signed: bool) -> str:
    name = _name(width, is_signed=is_signed)
    if (width, is_signed) in _LAYOUTS:
        return f"{name}({word}.to_bytes(4, 'little'))"
    return f"({name}[{word} & 255] + {name}[{word} >> 8 & 255] + {name}[{word} >> 16 & 255] + {name}[{word} >> 24])"


def _by_byte(width: int, *, is_signed: bool) -> list[tuple[int, ...]]:
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
"""Functions and tables that split a word into its elements, by their name in the generated source."""


_SIGN = 1 << XLEN - 1
_MANY = 4  # elements from which on they are unpacked together

_LONGEST_SHIFT = 2 * XLEN

_NEUTRAL = (ast.Add, ast.Sub, ast.LShift, ast.RShift, ast.BitOr, ast.BitXor)
"""Operators that return their left operand if the right one is 0."""

_ATOM = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class WordElement:
    """An element of a word: the name of the word in the source, and the lane."""

    word: str  # name of the word
    lane: int
    width: int
    elements: str | None = None  # name of all elements of the word, if they are unpacked together


@dataclass(frozen=True, slots=True)
class PythonValue:
    """A value as Python source, with its bounds."""

    text: str
    low: int
    high: int
    is_static: bool = False  # the same in every execution of an instruction word
    element: WordElement | None = None
    factors: "tuple[PythonValue, PythonValue] | None" = None  # of a product
    biased: str | None = None  # of a signed word: the expression of the value and 2**31

    @property
    def known(self) -> int | None:
        return self.low if self.low == self.high else None

    @property
    def unpacked(self) -> str | None:
        """The name of the sequence of elements that contains this element; None if it is not part of one."""
        return None if self.element is None else self.element.elements


def literal_value(value: int) -> PythonValue:
    return PythonValue(str(value) if value >= 0 else f"({value})", value, value, is_static=True)


def undecided(text: str, *, is_static: bool = False) -> PythonValue:
    return PythonValue(text, 0, 1, is_static)


@dataclass(slots=True)
class PythonArithmetic:
    """Operations on :class:`PythonValue`. ``lines`` collects the assignments of the function under construction,
    ``constants`` those that are executed once per instruction word."""

    lines: list[str] = field(default_factory=list[str])
    constants: list[str] = field(default_factory=list[str])
    bound: dict[str, str] = field(default_factory=dict[str, str])  # names by expression
    true: PythonValue = field(default_factory=lambda: literal_value(1))
    number = staticmethod(literal_value)

    def named(self, value: PythonValue) -> PythonValue:
        """Assign a value to a variable, unless one holds it already, and return the variable."""
        if _ATOM.fullmatch(value.text) or value.unpacked or value.known is not None:
            return value
        name = self.bound.get(value.text)
        if name is None:
            lines = self.constants if value.is_static else self.lines
            name = self.bound[value.text] = f"v{len(self.bound)}"
            lines.append(f"{name} = {value.text}")
        return replace(value, text=name, factors=None, biased=None)

    def expression(self, value: PythonValue) -> str:
        return (self.named(value) if value.is_static else value).text

    def _operands(self, *values: PythonValue) -> tuple[list[str], bool]:
        """Return the source of all operands, and whether all are constants of the instruction word."""
        is_static = all(value.is_static for value in values)
        return [(value if is_static or not value.is_static else self.named(value)).text for value in values], is_static

    def unary(self, op: ast.unaryop, x: PythonValue) -> PythonValue:
        (text,), is_static = self._operands(x)
        if x.known is not None:
            return literal_value(-x.known if isinstance(op, ast.USub) else ~x.known)
        sign, more = ("-", 0) if isinstance(op, ast.USub) else ("~", 1)
        return PythonValue(f"({sign}{text})", -x.high - more, -x.low - more, is_static)

    def binary(self, op: ast.operator, x: PythonValue, y: PythonValue) -> PythonValue:
        if x.known is not None and y.known is not None:
            return literal_value(_OPERATORS[type(op)](x.known, y.known))
        if y.known == 0 and isinstance(op, _NEUTRAL):
            return x
        if x.known == 0 and isinstance(op, ast.Add | ast.BitOr | ast.BitXor):
            return y
        (first, second), is_static = self._operands(x, y)
        text = f"({ast.unparse(ast.BinOp(ast.Name(first), op, ast.Name(second)))})"
        factors = (x, y) if isinstance(op, ast.Mult) else None
        return PythonValue(text, *_bounds(op, x, y), is_static, factors=factors)

    def call(self, name: str, arguments: Sequence[PythonValue]) -> PythonValue:
        """Return a call of a function of the notation, or operators for extensions, ``min`` and ``max``."""
        if all(argument.known is not None for argument in arguments):
            return literal_value(FUNCTIONS[name](*(argument.known for argument in arguments)))
        match name, arguments:
            case "zx", [x, PythonValue(known=int(width))]:
                return self._unsigned(x, width)
            case "sx", [x, PythonValue(known=int(width))]:
                return self._signed(x, width)
            case (("min" | "max"), [x, y]):
                return self._extreme(name, x, y)
            case _:
                texts, is_static = self._operands(*arguments)
                low = 0 if name in ("abs", "zx") else -WORD_MASK
                return PythonValue(f"{name}({', '.join(texts)})", low, WORD_MASK, is_static)

    def _unsigned(self, x: PythonValue, width: int) -> PythonValue:
        mask = (1 << width) - 1
        if 0 <= x.low and x.high <= mask:
            return x
        if x.known is not None:
            return literal_value(x.known & mask)
        return PythonValue(f"({x.text} & {mask})", 0, mask, x.is_static)

    def _signed(self, x: PythonValue, width: int) -> PythonValue:
        sign = 1 << width - 1
        if -sign <= x.low and x.high < sign:
            return x
        if x.element is not None and x.unpacked and x.element.width == width:
            return self._unpacked(x.element, is_signed=True)
        x = self._unsigned(x, width)
        biased = f"({x.text} ^ {sign})"
        return PythonValue(
            f"({biased} - {sign})", -sign, sign - 1, x.is_static, biased=biased if width == XLEN else None
        )

    def _extreme(self, name: str, x: PythonValue, y: PythonValue) -> PythonValue:
        low, high = FUNCTIONS[name](x.low, y.low), FUNCTIONS[name](x.high, y.high)
        if x.is_static and y.is_static:
            return PythonValue(f"{name}({x.text}, {y.text})", low, high, is_static=True)
        first, second = self.named(x).text, self.named(y).text
        return PythonValue(f"({first} if {first} {'<' if name == 'min' else '>'} {second} else {second})", low, high)

    def total(self, terms: Sequence[PythonValue]) -> PythonValue:
        """Return a sum. A sum of all bits of a word and a sum of products become calls of fast Python functions."""
        elements = [term.element for term in terms]
        low, high = sum(term.low for term in terms), sum(term.high for term in terms)
        if all(element is not None and element.width == 1 for element in elements) and len(terms) == XLEN:
            assert elements[0] is not None
            return PythonValue(f"{elements[0].word}.bit_count()", 0, XLEN)
        return PythonValue(self._sum_of_products(terms) or f"({' + '.join(term.text for term in terms)})", low, high)

    def _sum_of_products(self, terms: Sequence[PythonValue]) -> str | None:
        """Return source for a sum of products of two words, or of a word and a factor, or None."""
        pairs = [term.factors for term in terms if term.factors is not None]
        if len(pairs) != len(terms):
            return None
        first, second = pairs[0]
        if first.unpacked and second.unpacked:
            return f"sum(map(mul, {first.unpacked}, {second.unpacked}))"
        if first.unpacked and all(factor.text == second.text for _, factor in pairs):
            return f"({self.named(second).text} * sum({first.unpacked}))"
        return None

    def chosen(self, name: str, terms: Sequence[tuple[PythonValue, int]], default: PythonValue) -> PythonValue:
        """Return the least (``min``) or else the greatest number whose condition holds, as a chain of conditionals."""
        ordered = terms if name == "min" else terms[::-1]
        chain = " else ".join(f"{number} if {test.text}" for test, number in ordered)
        numbers = [number for _, number in terms]
        low, high = min(*numbers, default.low), max(*numbers, default.high)
        return PythonValue(f"({chain} else {default.text})", low, high)

    def compare(self, op: ast.cmpop, x: PythonValue, y: PythonValue) -> PythonValue:
        """Return a comparison. To avoid sign extensions, signed words are compared as unsigned words plus 2**31."""
        if x.known is not None and y.known is not None:
            return literal_value(int(_COMPARISONS[type(op)](x.known, y.known)))
        if x.biased and (y.biased or y.is_static):
            other = y.biased or self.binary(ast.Add(), y, literal_value(_SIGN))
            y = other if isinstance(other, PythonValue) else PythonValue(other, 0, WORD_MASK)
            x = PythonValue(x.biased, 0, WORD_MASK)
        (first, second), is_static = self._operands(x, y)
        return undecided(
            f"({ast.unparse(ast.Compare(ast.Name(first), [op], [ast.Name(second)]))})", is_static=is_static
        )

    def holds(self, value: PythonValue) -> PythonValue:
        if value.known is not None:
            return literal_value(int(value.known != 0))
        return undecided(value.text, is_static=value.is_static)

    def both(self, first: PythonValue, second: PythonValue) -> PythonValue:
        if first.known is not None:
            return second if first.known else first
        if second.known is not None:
            return first if second.known else second
        return undecided(f"({first.text} and {second.text})", is_static=first.is_static and second.is_static)

    def decided(self, condition: PythonValue) -> bool | None:
        return None if condition.known is None else bool(condition.known)

    def truth(self, condition: PythonValue) -> PythonValue:
        if condition.known is not None:
            return condition
        return PythonValue(f"(1 if {condition.text} else 0)", 0, 1, condition.is_static)

    def choose(self, condition: PythonValue, x: PythonValue, y: PythonValue) -> PythonValue:
        (test, first, second), is_static = self._operands(condition, x, y)
        return PythonValue(f"({first} if {test} else {second})", min(x.low, y.low), max(x.high, y.high), is_static)

    def word(self, value: PythonValue) -> PythonValue:
        return self._unsigned(value, XLEN)

    def bits(self, value: PythonValue, high: int, lowest: int) -> PythonValue:
        shifted = self.binary(ast.RShift(), value, literal_value(lowest))
        return self._unsigned(shifted, high - lowest + 1)

    def element(self, word: PythonValue, index: PythonValue, width: int, *, turn: bool) -> PythonValue:
        """Return an element of a word; elements with a loop variable as index (``turn``) are unpacked together."""
        if index.known is None or word.known is not None:
            lsb = self.binary(ast.Mult(), index, literal_value(width))
            return self._unsigned(self.binary(ast.RShift(), word, lsb), width)
        if width == XLEN:
            return word
        word, lane = self.named(word), index.known
        element = WordElement(word.text, lane, width)
        if turn and width > 1 and XLEN // width >= _MANY:
            return self._unpacked(element, is_signed=False)
        part = self._unsigned(self.binary(ast.RShift(), word, literal_value(lane * width)), width)
        return replace(part, element=element)

    def _unpacked(self, element: WordElement, *, is_signed: bool) -> PythonValue:
        low = -(1 << element.width - 1) if is_signed else 0
        high = low + (1 << element.width) - 1
        elements = self.named(PythonValue(unpacking(element.word, element.width, is_signed=is_signed), low, high)).text
        return PythonValue(f"{elements}[{element.lane}]", low, high, element=replace(element, elements=elements))

    def inserted(self, word: PythonValue, index: PythonValue, width: int, value: PythonValue) -> PythonValue:
        lsb = self.named(self.binary(ast.Mult(), index, literal_value(width)))
        mask = self.binary(ast.LShift(), literal_value((1 << width) - 1), lsb)
        others = self.binary(ast.BitAnd(), word, self.unary(ast.Invert(), mask))
        placed = self.binary(ast.LShift(), self._unsigned(value, width), lsb)
        return self.word(self.binary(ast.BitOr(), others, placed))

    def joined(self, elements: Sequence[PythonValue], width: int) -> PythonValue:
        parts = [self._unsigned(element, width) for element in elements]
        placed = [
            self.binary(ast.LShift(), part, literal_value(lane * width)).text
            for lane, part in enumerate(parts)
            if part.known != 0
        ]
        return PythonValue(f"({' | '.join(placed) or '0'})", 0, WORD_MASK)


def _bounds(op: ast.operator, x: PythonValue, y: PythonValue) -> tuple[int, int]:
    match op:
        case ast.Add():
            return x.low + y.low, x.high + y.high
        case ast.Sub():
            return x.low - y.high, x.high - y.low
        case ast.Mult():
            extremes = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
        case ast.LShift() | ast.RShift():
            ends = [min(max(end, 0), _LONGEST_SHIFT) for end in (y.low, y.high)]
            extremes = [_OPERATORS[type(op)](a, end) for a in (x.low, x.high) for end in ends]
        case ast.Mod():
            return 0, y.high - 1
        case ast.Pow():
            return 0, 1 << y.high
        case ast.BitAnd() if max(x.low, y.low) >= 0:
            return 0, min(value.high for value in (x, y) if value.low >= 0)
        case _:
            bits = max(abs(end).bit_length() for value in (x, y) for end in (value.low, value.high))
            return (0 if min(x.low, y.low) >= 0 else -1 << bits), (1 << bits) - 1
    return min(extremes), max(extremes)
