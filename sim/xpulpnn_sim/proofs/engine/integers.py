"""Exact integers made of gates: two's complement words that grow so that no bit is lost.

A number is a list of literals, lowest bit first; the last literal is the sign, which repeats without end. Arguments
``width`` are numbers of bits.
"""

from collections.abc import Sequence
from functools import reduce
from random import Random

from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph

_CASES = 64

Number = list[int]  # literals of an exact integer, never empty


def trimmed(number: Sequence[int]) -> Number:
    end = len(number)
    while end > 1 and number[end - 1] == number[end - 2]:
        end -= 1
    return list(number[:end])


def constant(value: int) -> Number:
    return trimmed([value >> place & 1 for place in range(value.bit_length() + 1)])


def known(number: Sequence[int]) -> int | None:
    if any(literal > TRUE for literal in number):
        return None
    return sum(literal << place for place, literal in enumerate(number[:-1])) - (number[-1] << len(number) - 1)


def unsigned(literals: Sequence[int]) -> Number:
    return trimmed([*literals, FALSE])


def low(number: Sequence[int], width: int) -> list[int]:
    return [*number, *[number[-1]] * (width - len(number))][:width]


class Integers:
    def __init__(self, graph: GateGraph, *, opaque_products: bool = False) -> None:
        self.graph = graph
        self._opaque_products = opaque_products  # products are free functions of their operands, with 64 bits
        self._opaque: dict[tuple[str, tuple[int, ...], tuple[int, ...]], Number] = {}

    def is_true(self, number: Sequence[int]) -> int:
        return reduce(self.graph.or_, number, FALSE)

    def add(self, x: Number, y: Number, carry: int = FALSE) -> Number:
        width = max(len(x), len(y)) + 1
        return trimmed(self.graph.add(low(x, width), low(y, width), carry))

    def subtract(self, x: Number, y: Number) -> Number:
        return self.add(x, self.invert(y), TRUE)

    def invert(self, x: Number) -> Number:
        return [literal ^ 1 for literal in x]

    def bitwise(self, operator: str, x: Number, y: Number) -> Number:
        gate = {"&": self.graph.and_, "|": self.graph.or_, "^": self.graph.xor}[operator]
        width = max(len(x), len(y))
        return trimmed([gate(bit, other) for bit, other in zip(low(x, width), low(y, width), strict=True)])

    def multiply(self, x: Number, y: Number) -> Number:
        """Return ``x * y`` as a sum of shifted copies of the longer number, one for each bit of the shorter one."""
        x, y = sorted((x, y), key=lambda number: (-len(number), self._cases(number), number))
        if self._opaque_products:
            return self.opaque("product", x, y, 64)
        total, width = constant(0), len(x) + len(y)
        for place, bit in enumerate(y):
            row = [FALSE] * place + [self.graph.and_(bit, literal) for literal in x]
            total = self.subtract(total, row) if place == len(y) - 1 else self.add(total, row)
            total = total[:width]
        return trimmed(total)

    def _cases(self, number: Number) -> list[int]:
        graph = self.graph
        inputs = {variable: Random(variable >> 1).getrandbits(_CASES) for variable in graph.variables(number)}
        return graph.evaluate(inputs, number, (1 << _CASES) - 1)

    def shift_left(self, x: Number, places: Number) -> Number:
        for index, bit in enumerate(places[:-1]):
            moved = [FALSE] * (1 << index) + x
            x = self.choose(bit, moved, x)
        return x

    def shift_right(self, x: Number, places: Number) -> Number:
        for index, bit in enumerate(places[:-1]):
            x = self.choose(bit, x[1 << index :] or x[-1:], x)
        return x

    def choose(self, condition: int, x: Number, y: Number) -> Number:
        width = max(len(x), len(y))
        return trimmed(self.graph.choose(condition, low(x, width), low(y, width)))

    def less(self, x: Number, y: Number) -> int:
        width = max(len(x), len(y)) + 1
        return self.graph.subtract(low(x, width), low(y, width))[-1]

    def equal(self, x: Number, y: Number) -> int:
        return self.is_true(self.bitwise("^", x, y)) ^ 1

    def least(self, x: Number, y: Number) -> Number:
        return self.choose(self.less(y, x), y, x)

    def greatest(self, x: Number, y: Number) -> Number:
        return self.choose(self.less(x, y), y, x)

    def magnitude(self, x: Number) -> Number:
        return self.choose(x[-1], self.add(self.invert(x), constant(1)), x)

    def extended(self, bits: Sequence[int], signed: int) -> Number:
        """Return bits as a signed number if the literal ``signed`` is 1, else as an unsigned one."""
        return trimmed([*bits, self.graph.and_(bits[-1], signed)])

    def zero_extended(self, x: Number, width: Number) -> Number:
        size = known(width)
        if size is not None:
            return unsigned(low(x, size))
        most = (1 << len(width) - 1) - 1
        return self.bitwise("&", unsigned(low(x, most)), self.ones(width))

    def sign_extended(self, x: Number, width: Number) -> Number:
        size = known(width)
        if size is not None:
            return trimmed(low(x, size))
        sign = self.shift_right(self.ones(width), constant(1))
        # the sign bit has the weight of the highest remaining bit
        value = self.zero_extended(x, width)
        negative = self.is_true(self.bitwise("&", value, self.bitwise("^", self.ones(width), sign)))
        return self.choose(negative, self.bitwise("|", value, self.invert(self.ones(width))), value)

    def ones(self, count: Number) -> Number:
        """Return ``2 ** count - 1``; ``count`` must not be negative."""
        return self.subtract(self.shift_left(constant(1), count), constant(1))

    def opaque(self, name: str, x: Number, y: Number, width: int = 33) -> Number:
        """Return an unspecified function ``name`` of two numbers, with values of ``width`` bits.

        Equal arguments give equal results, which suffices for a unit that is proved elsewhere.
        """
        key = (name, tuple(x), tuple(y))
        if key not in self._opaque:
            number = self.graph.inputs(width)
            for (other, *arguments), value in self._opaque.items():
                if other == name:
                    same = map(self.equal, (x, y), map(list, arguments))
                    number = self.choose(self.graph.all(same), value, number)
            self._opaque[key] = number
        return self._opaque[key]

    def power(self, exponent: Number) -> Number:
        """Return ``2 ** exponent``, or any value if the exponent is negative."""
        size = known(exponent)
        return constant(1 << max(size, 0)) if size is not None else self.shift_left(constant(1), exponent)
