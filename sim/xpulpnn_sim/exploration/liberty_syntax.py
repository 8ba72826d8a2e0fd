"""Grammar of Liberty files.

As in the Liberty User Guide: simple attributes ``name : value;``, complex attributes ``name (values);`` and groups
``name (values) { ... }``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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
