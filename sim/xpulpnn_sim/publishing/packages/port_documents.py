"""Documents of the ports: table, instantiation template."""

from textwrap import wrap

from xpulpnn_sim.publishing.packages.design import GENERATED, LICENCE, Design, Port

_COMMENT_COLUMNS = 110


def plain_text(text: str) -> str:
    """A meaning without the marks of docstrings."""
    return text.replace("``", "")


def field_text(port: Port) -> str:
    """The fields of a control word, ``7:4 result: ADD 0, SHIFT 1``; empty if the port is none."""
    parts: list[str] = []
    for row in port.fields:
        top = row["lsb"] + row["width"] - 1
        bits = str(top) if row["width"] == 1 else f"{top}:{row['lsb']}"
        values = ", ".join(f"{value} {name}" for name, value in row.get("values", {}).items())
        name = " ".join(part for part in (bits, row["name"]) if part)
        parts.append(f"{name}: {values}" if values else name)
    return "; ".join(parts)


def port_table(design: Design) -> str:
    """``ports.md``: a row per port."""
    rows = [f"# Ports of {design.module}", "", "| port | direction | bits | meaning |", "|---|---|---|---|"]
    for port in design.ports:
        fields = field_text(port)
        meaning = plain_text(port.meaning) + (f" Bits {fields}." if fields else "")
        rows.append(f"| `{port.name}` | {port.direction} | {port.width} | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join([*rows, ""])


def instance(design: Design) -> str:
    """An instantiation template: every port once, with its meaning."""
    lines = [
        f"// {GENERATED}",
        f"// {LICENCE}",
        f"// Instantiation template of {design.module}: copy, then connect.",
        "",
    ]
    lines += [f"{design.module} {design.identifier}_i ("]
    last = design.ports[-1]
    for port in design.ports:
        size = f"[{port.width - 1}:0] " if port.width > 1 else ""
        comment = f"{port.direction} {size}- {plain_text(port.meaning)}"
        lines += [f"    // {line}" for line in wrap(comment, _COMMENT_COLUMNS)]
        lines.append(f"    .{port.name}(){'' if port is last else ','}")
    return "\n".join([*lines, ");", ""])
