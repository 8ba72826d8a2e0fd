"""Boolean expressions of Liberty files (``function``, ``when``, ``next_state`` ...)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TOKEN = re.compile(r"\s*([A-Za-z_][\w\[\].$]*|[01]|[!'^*&+|()])")

_Evaluate = Callable[[Mapping[str, Any], Any], Any]


class Expression:
    """A Boolean expression.

    Operators by falling precedence: ``!a`` and ``a'``; ``^``; ``*``, ``&`` or a space; ``+`` or ``|``.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.inputs: list[str] = []
        self._tokens = _tokens(text)
        self._next = 0
        self._evaluate: _Evaluate = self._or() if self._tokens else lambda values, ones: ones
        if self._next < len(self._tokens):
            raise ValueError(f"expression must be Boolean, not {text}")

    def evaluate(self, values: Mapping[str, Any], ones: Any = True) -> Any:
        """Value for the given inputs: bools, numpy arrays of bool, or integers as bit vectors.

        ``ones`` is what true looks like: ``True``, or with bit vectors all the bits in use.
        """
        return self._evaluate(values, ones)

    def truth_table(self, inputs: Sequence[str]) -> int:
        """Bit ``i`` is the value for inputs that spell ``i`` in binary, the first one least significant."""
        size = 1 << len(inputs)
        values = {name: sum(1 << row for row in range(size) if row >> place & 1) for place, name in enumerate(inputs)}
        return self.evaluate(values, (1 << size) - 1)

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _or(self) -> _Evaluate:
        left = self._and()
        while self._peek() in {"+", "|"}:
            self._next += 1
            left = _both(left, self._and(), lambda a, b: a | b)
        return left

    def _and(self) -> _Evaluate:
        left = self._xor()
        while (token := self._peek()) and token not in "+|)'^":
            self._next += token in {"*", "&"}
            left = _both(left, self._xor(), lambda a, b: a & b)
        return left

    def _xor(self) -> _Evaluate:
        left = self._not()
        while self._peek() == "^":
            self._next += 1
            left = _both(left, self._not(), lambda a, b: a ^ b)
        return left

    def _not(self) -> _Evaluate:
        token = self._peek()
        self._next += 1
        if token == "!":
            return _inverse(self._not())
        if token == "(":
            value = self._or()
            if self._peek() != ")":
                raise ValueError(f"expression must be Boolean, not {self.text}")
            self._next += 1
        elif token in {"0", "1"}:
            value = _constant(token == "1")
        elif token and (token[0].isalpha() or token[0] == "_"):
            if token not in self.inputs:
                self.inputs.append(token)
            value = _named(token)
        else:
            raise ValueError(f"expression must be Boolean, not {self.text}")
        while self._peek() == "'":
            self._next += 1
            value = _inverse(value)
        return value


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"expression must be Boolean, not {text}")
        tokens.append(found[1])
        position = found.end()
    return tokens


def _both(left: _Evaluate, right: _Evaluate, operation: Callable[[Any, Any], Any]) -> _Evaluate:
    return lambda values, ones: operation(left(values, ones), right(values, ones))


def _inverse(inner: _Evaluate) -> _Evaluate:
    return lambda values, ones: inner(values, ones) ^ ones


def _named(name: str) -> _Evaluate:
    return lambda values, ones: values[name]


def _constant(true: bool) -> _Evaluate:
    return lambda values, ones: ones if true else ones ^ ones
