"""Types of class members, and their descriptions in ``#:`` comments of the source.

In ``"rdata": In(32), #: Read data.`` the comment describes ``rdata``. A comment on lines of its own begins with the
names of the members that it describes, and continuation lines are indented by three spaces: ``#: addr, we: As in OBI.``
"""

import ast
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_MARK = "#:"
_FURTHER = "   "  # between the mark and the text of a continuation line


@cache
def declared_meanings(kind: type) -> dict[str, str]:
    """Return the description of each member of a class from its ``#:`` comment, by member name, in source order."""
    meanings: dict[str, str] = {}
    node = _class_node(kind)
    if node is None:
        return meanings
    declared = {line: name for lines, name, _ in _declarations(node) for line in lines}
    names: list[str] = []
    for line, text in _comments(kind.__module__):
        if not node.lineno <= line <= (node.end_lineno or line):
            continue
        if text.startswith(_FURTHER):
            meanings |= {name: f"{meanings[name]} {text.strip()}" for name in names}
        elif line in declared:
            names = []
            meanings[declared[line]] = text.strip()
        else:
            subjects, _, text = text.strip().partition(": ")
            names = subjects.split(", ") if text else []
            meanings |= dict.fromkeys(names, text)
    return meanings


def declared_type(kind: type, name: str) -> str:
    """Return the type and default of a member as written in the source; empty for members that a loop creates."""
    node = _class_node(kind)
    for _, declared, declaration in _declarations(node) if node else ():
        if declared == name:
            text = ast.get_source_segment(_source(kind.__module__), declaration) or ""
            return " ".join(text.removeprefix(f"{name}: ").split())
    return ""


def _declarations(node: ast.ClassDef) -> Iterator[tuple[range, str, ast.AST]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            yield range(inner.lineno, (inner.end_lineno or inner.lineno) + 1), inner.target.id, inner
        elif isinstance(inner, ast.Dict):
            for key, value in zip(inner.keys, inner.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield range(key.lineno, key.lineno + 1), str(key.value), value


@cache
def _source(module: str) -> str:
    path = getattr(sys.modules[module], "__file__", None)
    return Path(path).read_text() if path else ""


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.parse(_source(module)).body if isinstance(node, ast.ClassDef)}


def _class_node(kind: type) -> ast.ClassDef | None:
    return _classes(kind.__module__).get(kind.__qualname__)


@cache
def _comments(module: str) -> list[tuple[int, str]]:
    lines = iter(_source(module).splitlines(keepends=True))
    tokens = tokenize.generate_tokens(lambda: next(lines, ""))
    comments = [token for token in tokens if token.type == tokenize.COMMENT and token.string.startswith(_MARK)]
    return [(token.start[0], token.string.removeprefix(_MARK)) for token in comments]
