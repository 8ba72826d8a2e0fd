"""Grammar of Liberty files and of the Boolean expressions in them.

As in the Liberty User Guide: simple attributes ``name : value;``, complex attributes ``name (values);`` and groups
``name (values) { ... }``.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r"\s*([A-Za-z_][\w\[\].$]*|[01]|[!'^*&+|()])")
_PYTHON = {"0": "zero", "1": "ones", "!": "~", "^": "*", "*": "&", "&": "&", "+": "|", "|": "|", "(": "(", ")": ")"}
"""Words of Python for those of Liberty: multiplication stands for ``^``, which comes before ``&`` in Liberty files."""


class Expression:
    """A Boolean expression (``function``, ``when``, ``next_state`` ...), translated to one of Python.

    Operators by falling precedence: ``!a`` and ``a'``; ``^``; ``*``, ``&`` or a space; ``+`` or ``|``.
    """

    def __init__(self, text: str) -> None:
        self.inputs: list[str] = []
        try:
            tree = _Bitwise().visit(ast.parse(self._python(text) or "ones", mode="eval"))
        except (SyntaxError, ValueError, IndexError):
            raise ValueError(f"expression must be Boolean, not {text}") from None
        self._code = compile(ast.fix_missing_locations(tree), text, "eval")

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

    def _python(self, text: str) -> str:
        words: list[str] = []
        opened: list[int] = []
        start = position = 0  # of the last operand among the words
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise SyntaxError
            token, position = found[1], found.end()
            follows = bool(words) and words[-1] not in "~*&|("
            if token == "'":
                if not follows:
                    raise SyntaxError
                words.insert(start, "~")
                continue
            if follows and (token in "!(01" or token not in _PYTHON):
                words.append("&")
            if token == "(":
                opened.append(len(words))
            elif token == ")":
                start = opened.pop()
            elif token in "01" or token not in _PYTHON:
                start = len(words)
            if token not in (*_PYTHON, *self.inputs):
                self.inputs.append(token)
            words.append(_PYTHON.get(token) or f"v{self.inputs.index(token)}")
        return " ".join(words)


class _Bitwise(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        op = ast.BitXor() if isinstance(node.op, ast.Mult) else node.op
        return ast.BinOp(self.visit(node.left), op, self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return ast.BinOp(self.visit(node.operand), ast.BitXor(), ast.Name("ones", ast.Load()))

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        raise SyntaxError


_LIBRARY = re.compile(r"library\s*\(")
_SPACE = re.compile(r"(?:\s|\\\s|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_STATEMENT = re.compile(r"([A-Za-z_][\w.\-]*)\s*([:(])|([;}])")
_VALUE = re.compile(r'\s*(?:"([^"]*)"|([^;{}"\n]*))[ \t]*;?')
_ARGUMENTS = re.compile(r'((?:"[^"]*"|[^"(){};])*)\)')
_AFTER_ARGUMENTS = re.compile(r"\s*([{;]?)")
_ITEM = re.compile(r'"([^"]*)"|([^\s,"\\]+)')


@dataclass(slots=True)
class LibertyGroup:
    """A group as it stands in the file: arguments, simple and complex attributes by name, and the groups inside."""

    kind: str
    arguments: list[str]
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    lists: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    groups: list["LibertyGroup"] = field(default_factory=list["LibertyGroup"])

    def inside(self, kind: str) -> Iterator["LibertyGroup"]:
        """The groups of one kind directly inside."""
        return (group for group in self.groups if group.kind == kind)

    def number(self, name: str, default: float = 0.0) -> float:
        """A simple attribute as a number; raises ValueError if it is none."""
        return float(self.attributes[name]) if name in self.attributes else default

    def flag(self, name: str) -> bool:
        """Return whether a simple attribute is true."""
        return self.attributes.get(name, "").lower() == "true"


class _SyntaxError(Exception):
    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def parse_library(text: str) -> LibertyGroup:
    """The group ``library`` of a file; raises ValueError, naming the line, if there is none or it is malformed."""
    try:
        return _Parser(text).library()
    except _SyntaxError as error:
        raise ValueError(f"line {text.count(chr(10), 0, error.position) + 1}: {error}") from error


class _Parser:
    """Recursive descent over the text of one file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def library(self) -> LibertyGroup:
        file = LibertyGroup("file", [])
        self._skip()
        if not _LIBRARY.match(self.text, self.position):
            raise _SyntaxError("library (NAME) { expected", self.position)
        self._statement(file)
        found = next(file.inside("library"), None)
        if found is None:
            raise _SyntaxError("library (NAME) { expected", self.position)
        return found

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.position)
        self.position = found.end() if found else self.position

    def _expect(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        found = pattern.match(self.text, self.position)
        if found is None:
            what = "the file ends" if self.position >= len(self.text) else wanted + " expected"
            raise _SyntaxError(what, self.position)
        self.position = found.end()
        return found

    def _body(self, group: LibertyGroup) -> None:
        while self._statement(group):
            pass

    def _statement(self, group: LibertyGroup) -> bool:
        """Reads one statement into ``group``; false at its closing brace."""
        self._skip()
        found = self._expect(_STATEMENT, "attribute or group")
        name, separator, mark = found.groups()
        if mark:
            return mark == ";"
        if separator == ":":
            value = self._expect(_VALUE, "value")
            group.attributes[name] = value[1] if value[1] is not None else value[2].strip()
            return True
        arguments = self._expect(_ARGUMENTS, "closing parenthesis")[1]
        items = [quoted or plain for quoted, plain in _ITEM.findall(arguments)]
        if self._expect(_AFTER_ARGUMENTS, "{ or ;")[1] == "{":
            inner = LibertyGroup(name, items)
            group.groups.append(inner)
            self._body(inner)
        else:
            group.lists[name] = items
        return True
