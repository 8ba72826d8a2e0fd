"""Lines of text: how long, how indented, and where a long one is broken."""

from textwrap import wrap

INDENT = "    "
COLUMNS = 108
"""Width beyond which a line is broken, without its indentation."""

_BREAKS = (" ? ", " : ", " | ", " & ", " ^ ", " + ", ", ")


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
    """Where to break: after the last operator or comma within the width, at the least depth of nesting."""
    best: tuple[int, int] | None = None
    depth = 0
    begin = line.find("= ", start) + 2 if "= " in line[start:] else start + len(INDENT) + 1
    for place, letter in enumerate(line):
        depth += (letter in "({[") - (letter in ")}]")
        if place <= begin or place >= start + COLUMNS:
            continue
        if any(line.startswith(mark, place) for mark in _BREAKS):
            after = place + 1 if letter == "," else place
            if best is None or (depth, -place) <= (best[0], -best[1]):
                best = depth, after
    return best[1] if best else None
