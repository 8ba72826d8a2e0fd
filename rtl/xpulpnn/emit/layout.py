"""Lines of text: how long, how indented, and where a long one is broken."""

from textwrap import wrap

INDENT = "    "
COLUMNS = 116  # width beyond which a line is broken, without its indentation

_BREAKS = {", ": 0, " ? ": 1, " : ": 1, " | ": 2, " ^ ": 3, " & ": 4, " == ": 5, " + ": 6, " - ": 6}
"""Places where a line may be broken, the better ones first: before these operators, or after a comma."""


def comment(text: str) -> list[str]:
    """``text`` as comment lines."""
    return [f"// {line}" for line in wrap(text, COLUMNS - 3, break_on_hyphens=False)]


def declared_range(width: int) -> str:
    """The range of a declaration, with the space after it; empty for a single bit."""
    return f"[{width - 1}:0] " if width > 1 else ""


def broken(line: str) -> list[str]:
    """A statement on as many lines as it needs, broken where it is nested least."""
    margin = line[: len(line) - len(line.lstrip())]
    if len(line) - len(margin) <= COLUMNS or line.lstrip().startswith("//"):
        return [line]
    lines, rest = [], line
    while len(rest) - len(margin) > COLUMNS:
        place = _place(rest, len(margin))
        if place is None:
            break
        lines.append(rest[:place].rstrip())
        rest = f"{margin}{INDENT}{rest[place:].lstrip()}"
    return [*lines, rest]


def _place(line: str, start: int) -> int | None:
    best: tuple[int, int, int, int] | None = None
    depth = 0
    begin = line.find("= ", start) + 2 if "= " in line[start:] else start + len(INDENT) + 1
    for place, letter in enumerate(line):
        depth += (letter in "({[") - (letter in ")}]")
        if place <= begin or place >= start + COLUMNS:
            continue
        for mark, rank in _BREAKS.items():
            if line.startswith(mark, place):
                candidate = depth, rank, -place, place + 1 if letter == "," else place
                best = candidate if best is None else min(best, candidate)
    return best[3] if best else None
