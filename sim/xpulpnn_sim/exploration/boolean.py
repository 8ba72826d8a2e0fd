"""Boolean expressions of Liberty files, translated to Python."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

_TOKEN = re.compile(r"([A-Za-z_][\w\[\].$]*)|\S")
_PYTHON = {
    **dict(zip("01!'^()", ("zero", "ones", "ones^", "^ones", "^", "(((", ")))"), strict=True)),
    **dict.fromkeys("*& ", ")&("),
    **dict.fromkeys("+|", "))|(("),
}
"""Texts of Python for those of Liberty: parentheses around the operands of ``&`` and ``|`` make ``^`` come first."""


class Expression:
    """A Boolean expression (``function``, ``when``, ``next_state`` ...), translated to one of Python.

    Operators by falling precedence: ``!a`` and ``a'``; ``^``; ``*``, ``&`` or a space; ``+`` or ``|``.
    """

    def __init__(self, text: str) -> None:
        names: dict[str, str] = {}
        python, after_operand = "((", False
        for found in _TOKEN.finditer(text):
            token = found[0]
            if after_operand and (found[1] or token in "01!("):
                python += _PYTHON[" "]
            python += names.setdefault(token, f"v{len(names)}") if found[1] else _PYTHON.get(token, "?")
            after_operand = token not in "!(^*&+|"
        self.inputs = list(names)
        python = f"{python}))" if text.strip() else "ones"
        try:
            if "()" in python:
                raise SyntaxError
            self._code = compile(python, text, "eval")
        except SyntaxError:
            raise ValueError(f"expression must be Boolean, not {text}") from None

    def evaluate(self, values: Mapping[str, Any], ones: Any = True) -> Any:
        """Value for the given inputs: bools, numpy arrays of bool, or integers as bit vectors.

        ``ones`` is what true looks like: ``True``, or with bit vectors all the bits in use.
        """
        given = {f"v{number}": values[name] for number, name in enumerate(self.inputs)}
        return eval(self._code, {}, {"ones": ones, "zero": ones ^ ones, **given})

    def truth_table(self, inputs: Sequence[str]) -> int:
        """Bit ``i`` is the value for inputs that spell ``i`` in binary, the first one least significant."""
        size = 1 << len(inputs)
        values = {name: sum(1 << row for row in range(size) if row >> place & 1) for place, name in enumerate(inputs)}
        return self.evaluate(values, (1 << size) - 1)


@cache
def expression(text: str) -> Expression:
    """A parsed expression, each text once."""
    return Expression(text)
