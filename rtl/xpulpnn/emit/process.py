"""Writes the body of a process as nested ``if`` and ``case`` statements."""

from collections.abc import Callable, Sequence

from xpulpnn.emit.expr import Printer, literal
from xpulpnn.emit.rtlil import Assign, Sig, Slice, Statement, Switch, bits, const_bits, sig_width

Case = tuple[tuple[str, ...], list[str]]
"""Patterns (none: default) and the lines they select."""

INDENT = "    "


def _overlap(one: str, other: str) -> bool:
    return all(a == b or "-" in (a, b) for a, b in zip(one, other, strict=True))


def _subtract(pattern: str, taken: str) -> list[str]:
    """Disjoint patterns that cover ``pattern`` without ``taken``."""
    if not _overlap(pattern, taken):
        return [pattern]
    rest = []
    for place, (own, other) in enumerate(zip(pattern, taken, strict=True)):
        if own == "-" and other != "-":
            rest.append(f"{pattern[:place]}{'10'[int(other)]}{pattern[place + 1 :]}")
            pattern = f"{pattern[:place]}{other}{pattern[place + 1 :]}"
    return rest


def disjoint(cases: Sequence[Case]) -> list[Case]:
    """The same choice with patterns that exclude each other; a default stays last, unreachable cases vanish."""
    result: list[Case] = []
    taken: list[str] = []
    for patterns, lines in cases:
        if not patterns:
            result.append(((), lines))
            break
        left: list[str] = []
        for pattern in patterns:
            rest = [pattern]
            for earlier in (*taken, *left):
                rest = [piece for part in rest for piece in _subtract(part, earlier)]
            left += rest
        taken += left
        if left:
            result.append((tuple(left), lines))
    return result


def _one_hot(patterns: tuple[str, ...]) -> bool:
    return len(patterns) == 1 and patterns[0].count("1") == 1 and "0" not in patterns[0]


def _select(sig: Sig, pattern: str) -> Sig:
    """The bit of ``sig`` that a one-hot pattern tests."""
    return bits(sig, len(pattern) - 1 - pattern.index("1"), 1)


def is_reset(statement: Statement, width: int) -> bool:
    """Whether a last statement loads a whole register with a constant on a single-bit condition."""
    if not isinstance(statement, Switch) or sig_width(statement.selector) != 1 or len(statement.cases) != 1:
        return False
    patterns, body = statement.cases[0]
    if patterns != ("1",) or len(body) != 1 or not isinstance(body[0], Assign):
        return False
    return body[0].target.width == width and const_bits(body[0].value) is not None


class ProcessPrinter:
    """Writes statements.

    Parameters
    ----------
    printer : Printer
        Writes values.
    target : callable
        Text of an assigned slice.
    operator : str
        ``"="`` in combinational blocks, ``"<="`` in clocked ones.
    """

    def __init__(self, printer: Printer, target: Callable[[Slice], str], operator: str) -> None:
        self._printer = printer
        self._target = target
        self._operator = operator

    def lines(self, statements: Sequence[Statement]) -> list[str]:
        """The statements, not indented."""
        return [line for statement in statements for line in self._statement(statement)]

    def _statement(self, statement: Statement) -> list[str]:
        if isinstance(statement, Assign):
            value = self._printer.sig(statement.value).text
            return [f"{self._target(statement.target)} {self._operator} {value};"]
        return self._switch(statement)

    def _switch(self, switch: Switch) -> list[str]:
        cases = [(patterns, self.lines(body)) for patterns, body in switch.cases]
        if not any(lines for _patterns, lines in cases):
            return []
        conditions = [patterns for patterns, _lines in cases]
        if not conditions[-1]:
            conditions.pop()
        if all(_one_hot(patterns) for patterns in conditions):
            return self._if_chain(switch.selector, cases)
        merged = disjoint(cases)
        width = sig_width(switch.selector)
        if width == 1:
            return self._two_way(switch.selector, merged)
        return self._case(switch.selector, width, merged)

    def guarded(self, head: str, lines: list[str]) -> list[str]:
        """``lines`` under the control of ``head`` (``if (...)``, ``else``, a case label)."""
        if not lines:
            return [f"{head} ;"]
        if len(lines) == 1:
            return [head, INDENT + lines[0]]
        return [f"{head} begin", *(INDENT + line for line in lines), "end"]

    def if_else(self, condition: str, negated: str, then: list[str], otherwise: list[str]) -> list[str]:
        """A choice between two bodies, either of which may be empty."""
        if not then:
            return self.guarded(f"if ({negated})", otherwise) if otherwise else []
        result = self.guarded(f"if ({condition})", then)
        if otherwise:
            is_chain = otherwise[0].startswith("if (") and self._is_single(otherwise)
            tail = [f"else {otherwise[0]}", *otherwise[1:]] if is_chain else self.guarded("else", otherwise)
            if result[-1] == "end":
                result[-1] = f"end {tail[0]}"
                return [*result, *tail[1:]]
            return [*result, *tail]
        return result

    @staticmethod
    def _is_single(lines: list[str]) -> bool:
        """Whether lines that start with ``if`` are that one statement and nothing after it."""
        return all(line[0] == " " or line.startswith(("if", "end", "else")) for line in lines) and (
            sum(line.startswith("if (") for line in lines) == 1
        )

    def _condition(self, sig: Sig) -> tuple[str, str]:
        text = self._printer.sig(sig)
        return text.text, f"!{text.operand}"

    def _if_chain(self, selector: Sig, cases: list[Case]) -> list[str]:
        (patterns, then), *rest = cases
        if not patterns:
            return then
        otherwise = self._if_chain(selector, rest) if rest else []
        return self.if_else(*self._condition(_select(selector, patterns[0])), then, otherwise)

    def _two_way(self, selector: Sig, cases: list[Case]) -> list[str]:
        branches: dict[str, list[str]] = {}
        for patterns, lines in cases:
            for value in ("0", "1"):
                if not patterns or "-" in patterns or value in patterns:
                    branches.setdefault(value, lines)
        then, otherwise = branches.get("1", []), branches.get("0", [])
        return then if then == otherwise else self.if_else(*self._condition(selector), then, otherwise)

    def _case(self, selector: Sig, width: int, cases: list[Case]) -> list[str]:
        default: list[str] = []
        groups: dict[tuple[str, ...], list[str]] = {}
        for patterns, lines in cases:
            if patterns:
                groups.setdefault(tuple(lines), []).extend(patterns)
            else:
                default = lines
        # Cases that do what the default does need no label of their own.
        groups.pop(tuple(default), None)
        patterns = [pattern for labels in groups.values() for pattern in labels]
        if not patterns:
            return default
        covered = sum(1 << pattern.count("-") for pattern in patterns)
        keyword = "casez" if any("-" in pattern for pattern in patterns) else "case"
        lines = [f"{keyword} ({self._printer.sig(selector).alone})"]
        for body, labels in groups.items():
            *first, last = self._labels(labels)
            lines += [INDENT + line for line in (*first, *self.guarded(f"{last}:", list(body)))]
        if covered < 1 << width:
            lines += [INDENT + line for line in self.guarded("default:", default)]
        return [*lines, "endcase"]

    @staticmethod
    def _labels(patterns: list[str]) -> list[str]:
        """Label lines, the last one without its colon."""
        texts = [literal(pattern) for pattern in patterns]
        per_line = max(1, 100 // (len(texts[0]) + 2))
        rows = [texts[start : start + per_line] for start in range(0, len(texts), per_line)]
        return [", ".join(row) + ("," if row is not rows[-1] else "") for row in rows]
