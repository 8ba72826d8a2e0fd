"""SVG pictures of the README and the guide, with charts of area and speed of the presets."""

import re
from collections.abc import Callable
from pathlib import Path

from docs.generate.svg import SMALL, STYLE, inline, line, standalone, svg, text

from xpulpnn.errors import require
from xpulpnn_sim.tools.files import write_text

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/pictures"
_COLOURS = ("#8a8f98", "#2a9d8f", "#3d82d8", "#e07b00")
_FO4_PS = 58.8
_OTHER_MACS = {"xpulpnn-cu": (2.91, None, 9.52), "xpulpnn-full": (3.41, None, 11.12)}  # not in the README


def figures(first: str) -> dict[str, tuple[float, ...]]:
    """Return the numbers in the README's table whose head begins with ``first``, by preset."""
    table = (ROOT / "README.md").read_text().partition(f"\n| {first}")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(.+?)`(.*)", table, re.MULTILINE)
    return {name: tuple(map(float, re.findall(r"\| \**([\d.]+)", rest))) for name, rest in rows}


def _macs() -> dict[str, tuple[float, ...]]:
    return figures("core and its kernel")


_OVER_LINES = 'stroke="var(--color-background-primary)" stroke-width="5" paint-order="stroke"'


def macs() -> str:
    top, bottom, highest = 44, 244, 28.0
    scale = (bottom - top) / highest
    parts = [line((52, bottom), (860, bottom))]
    for rate in (5, 10, 15, 20, 25):
        y = bottom - rate * scale
        parts.append(f'<path d="M52 {y:g} H860" {STYLE["faint"]}/>' + text(44, y + 4, str(rate), "end", SMALL))
    for group, bits in enumerate((8, 4, 2)):
        left = 82 + 264 * group
        parts.append(text(left + 110, bottom + 18, f"{bits} bit", extra='font-weight="600"'))
        for bar, (name, values) in enumerate(_macs().items()):
            x, height = left + 56 * bar, values[group] * scale
            parts.append(
                f'<rect x="{x}" y="{bottom - height:g}" width="50" height="{height:g}" fill="{_COLOURS[bar]}">'
                f"<title>{name}, {bits} bit</title></rect>"
                + text(x + 25, bottom - height - 5, f"{values[group]:.2f}", extra=_OVER_LINES)
            )
    for bar, name in enumerate(_macs()):
        parts.append(f'<rect x="{70 + 110 * bar}" y="12" width="12" height="12" fill="{_COLOURS[bar]}"/>')
        parts.append(text(88 + 110 * bar, 22, name, "start"))
    parts.append(text(860, 22, "multiply-accumulates per cycle, one core", "end"))
    return svg(880, 272, parts, "Multiply-accumulates per cycle of a convolution by width and core")


def _panel(left: int, bits: int) -> list[str]:
    width, top, bottom = 340, 44, 244
    low, high = 50.0, 68.0
    column, macs = (8, 4, 2).index(bits), {**_macs(), **_OTHER_MACS}
    areas = figures("preset")
    gmacs = {name: 1000 * (macs[name][column] or 0) / (fo4 * _FO4_PS) for name, (_, fo4) in areas.items()}
    most = max(gmacs.values()) * 1.15
    parts = [
        line((left, bottom), (left + width, bottom)),
        line((left, bottom), (left, top)),
        text(left + width / 2, 24, f"{bits} bit", extra='font-weight="600"'),
        text(left + width / 2, bottom + 34, "area, kGE", extra=SMALL),
        text(left - 6, top - 8, "GMAC/s", "start", SMALL),
    ]
    for kge in range(52, 68, 4):
        x = left + width * (kge - low) / (high - low)
        parts.append(f'<path d="M{x:g} {bottom} v5" {STYLE["line"]}/>' + text(x, bottom + 18, str(kge), extra=SMALL))
    step = next(step for step in (0.5, 1, 2, 5) if most < 4 * step)
    for number in range(1, int(most / step) + 1):
        y = bottom - (bottom - top) * number * step / most
        value = text(left - 8, y + 4, f"{number * step:g}", "end", SMALL)
        parts.append(f'<path d="M{left} {y:g} h{width}" {STYLE["faint"]}/>' + value)
    for name, (kge, _) in areas.items():
        x = left + width * (kge - low) / (high - low)
        y = bottom - (bottom - top) * gmacs[name] / most
        colour = "none" if name in _OTHER_MACS else _COLOURS[[*_macs()].index(name)]
        parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="{colour}" stroke="currentColor"/>')
        below = 9 if name == "xpulpnn" else 4
        left_of = name in ("xpulpnn-cu", "xpulpnn-full", "xpulpnn3")
        parts.append(text(x - 10 if left_of else x + 10, y + below, name, "end" if left_of else "start", SMALL))
    return parts


def area() -> str:
    parts = [*_panel(70, 8), *_panel(510, 2)]
    return svg(880, 292, parts, "Area against billions of multiply-accumulates per second of every preset")


CHARTS: dict[str, Callable[[], str]] = {"macs": macs, "area": area}
"""Functions that draw the charts of ``make pictures``; all other pictures are drawn by hand."""


def picture(name: str) -> str:
    known = {path.stem: path for path in sorted(FOLDER.glob("*.svg"))}
    require(name in known, f"picture must be one of {', '.join(known)}, not {name}")
    return inline(known[name].read_text())


def main(folder: Path) -> None:
    for name, chart in CHARTS.items():
        write_text(folder / f"{name}.svg", standalone(chart()))


if __name__ == "__main__":
    main(FOLDER)
