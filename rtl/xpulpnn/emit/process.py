"""Writes the body of a process as nested ``if`` and ``case`` statements."""

from collections.abc import Callable, Sequence

from xpulpnn.emit.expr import verilog_literal
from xpulpnn.emit.layout import COLUMNS, INDENT
from xpulpnn.emit.nets import Nets
from xpulpnn.emit.rtlil import Assign
from xpulpnn.emit.tree import PRIORITY_WIDTH, Case, ChoiceNode, Node, covers_all, disjoint, grouped, is_empty
from xpulpnn.emit.values import Sig, bits, sig_width, wires_of

_NOTE = 16  # minimal columns of a shortened note
Path = tuple[tuple[str, ...], ...]  # patterns of the case matched at each enclosing choice

Note = Callable[[Path], Sequence[str]]
"""Returns names for the comment on a case, such as instructions; the comment shows as many as fit."""


def no_note(path: Path) -> Sequence[str]:
    return ()


class ProcessPrinter:
    def __init__(self, nets: Nets, operator: str, note: Note) -> None:
        self._nets, self._printer, self._enumerations = nets, nets.printer, nets.enumerations
        self._operator, self._note = operator, note

    def lines(self, nodes: Sequence[Node], path: Path = ()) -> list[str]:
        return [line for node in nodes for line in self._node(node, path)]

    def _node(self, node: Node, path: Path) -> list[str]:
        if isinstance(node, Assign):
            value = self._printer.sig(node.value, self._enumerations.of((node.target,))).text
            field = self._nets.field_of(node.target)
            return [f"{self._nets.target(node.target)} {self._operator} {value};" + (f" // {field}" if field else "")]
        if node.selector is None:
            return self._chain(node.arms, node.default, path)
        return self._choice(node, node.selector, path)

    def _chain(self, arms: list[tuple[Sig, list[Node]]], last: list[Node], path: Path) -> list[str]:
        if not arms:
            return self.lines(last, path)
        (sig, body), *rest = arms
        then = self.lines(body, path)
        otherwise = self._chain(rest, last, path)
        if not then and not otherwise:
            return []
        if not then:
            return guarded(f"if ({self._printer.condition(sig, negated=True)})", otherwise)
        return if_else(self._printer.condition(sig), then, otherwise)

    def _choice(self, node: ChoiceNode, selector: Sig, path: Path) -> list[str]:
        if is_empty([node]):
            return []
        default = self.lines(node.default, path)
        cases: list[Case] = []
        for patterns, body in node.arms:
            cases.append((patterns, self.lines(body, (*path, patterns))))
        width = sig_width(selector)
        if width < PRIORITY_WIDTH:
            cases = disjoint(cases)
        cases = grouped(cases, default)
        complete = width < PRIORITY_WIDTH and covers_all(cases, width)
        if not cases:
            return default
        if len(cases) == 1 and len(cases[0][0]) == 1:
            (patterns, lines), test = cases[0], self._test(selector, cases[0][0][0])
            if test is not None and lines:
                head, *rest = if_else(test, lines, default)
                return [_noted(head, self._note((*path, patterns))), *rest]
            if test is not None:
                return guarded(f"if (!({test}))", default)
        keyword = "casez" if any("-" in pattern for patterns, _ in cases for pattern in patterns) else "case"
        result = [f"{keyword} ({self._printer.sig(selector).text})"]
        for patterns, lines in cases:
            labels = [self._label(selector, pattern) for pattern in patterns]
            names = self._note((*path, patterns)) if lines else ()
            result += [INDENT + line for line in labelled(labels, lines, names)]
        if not complete:
            result += [INDENT + line for line in labelled(["default"], default)]
        return [*result, "endcase"]

    def _test(self, selector: Sig, pattern: str) -> str | None:
        """Return the test of a value against a pattern; None if the tested bits are not contiguous."""
        tested = pattern.strip("-")
        if "-" in tested:
            return None
        low = len(pattern) - len(pattern.rstrip("-"))
        part = selector if len(tested) == len(pattern) else bits(selector, low, len(tested))
        # the text of an operator cannot be sliced
        if part != selector and not self._printer.inlined.keys().isdisjoint(wires_of(part)):
            return None
        if len(tested) == 1:
            return self._printer.condition(part, negated=tested == "0")
        return f"{self._printer.sig(part).operand} == {self._label(part, tested)}"

    def _label(self, selector: Sig, pattern: str) -> str:
        return self._enumerations.label(self._enumerations.of(selector), pattern) or verilog_literal(pattern)


def guarded(head: str, lines: Sequence[str]) -> list[str]:
    # an else behind a nested if would belong to the inner if
    if len(lines) == 1 and not lines[0].startswith("if ("):
        line = f"{head} {lines[0]}"
        return [line] if len(line) <= COLUMNS else [head, INDENT + lines[0]]
    return [f"{head} begin", *(INDENT + line for line in lines), "end"]


def labelled(labels: list[str], lines: list[str], names: Sequence[str] = ()) -> list[str]:
    *first, last = _rows(labels)
    if not lines:
        return [*first, f"{last}: ;"]
    line = f"{last}: {lines[0]}"
    note = [text] if (text := _noted("", names)) else []
    if len(lines) == 1 and len(line) <= COLUMNS:
        noted = _noted(line, names)
        return [*first, noted] if noted != line else [*note, *first, line]
    if len(lines) == 1:
        return [*first, _noted(f"{last}:", names), INDENT + lines[0]]
    return [*note, *first, f"{last}: begin", *(INDENT + line for line in lines), "end"]


def _noted(line: str, names: Sequence[str]) -> str:
    """Append a comment with as many names as fit on the line, or no comment if too few fit."""
    begin = f"{line} // " if line else "// "
    text = begin + " ".join(names)
    if len(text) > COLUMNS:
        room = text[: COLUMNS - len(" ...") + 1]
        text = room[: room.rindex(" ")] + " ..."
    return text if names and len(text) - len(begin) >= min(_NOTE, len(" ".join(names))) else line


def _rows(labels: list[str]) -> list[str]:
    per_line = max(1, 100 // (max(map(len, labels)) + 2))
    rows = [labels[start : start + per_line] for start in range(0, len(labels), per_line)]
    return [", ".join(row) + ("," if row is not rows[-1] else "") for row in rows]


def if_else(condition: str, then: list[str], otherwise: list[str]) -> list[str]:
    result = guarded(f"if ({condition})", then)
    if not otherwise:
        return result
    if otherwise[0].startswith("if (") and _is_single(otherwise):
        tail = [f"else {otherwise[0]}", *otherwise[1:]]
    else:
        tail = guarded("else", otherwise)
    if result[-1] == "end":
        result[-1] = f"end {tail[0]}"
        return [*result, *tail[1:]]
    return [*result, *tail]


def _is_single(lines: list[str]) -> bool:
    return all(line[0] == " " or line.startswith(("if", "end", "else")) for line in lines) and (
        sum(line.startswith("if (") for line in lines) == 1
    )
