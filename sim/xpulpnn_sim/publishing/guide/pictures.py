"""SVG pictures of the README and the guide, with charts of area and speed of the presets."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide.examples import ROOT
from xpulpnn_sim.publishing.guide.svg import SMALL, STYLE, inline, line, standalone, svg, text
from xpulpnn_sim.tools.files import write_text

FOLDER = ROOT / "docs/pictures"
_COLOURS = ("#8a8f98", "#2a9d8f", "#3d82d8", "#e07b00")

MACS = {
    "ri5cy": (2.14, 0.85, 0.87),
    "xpulpnn": (3.41, 6.33, 11.12),
    "xpulpnn2": (3.77, 7.30, 13.76),
    "xpulpnn3": (7.39, 14.08, 25.64),
}
"""MAC/cycle of the papers' convolution on one core at 8, 4 and 2 bit, the same as in the README."""


class Preset(NamedTuple):
    """Area, delay and speed of a core with its fastest kernel."""

    kge: float
    fo4: float
    macs: tuple[float, float]  # of the papers' convolution at 8 and 2 bit

    def gmacs(self, column: int) -> float:
        """Return billions of multiply-accumulates per second; ``width`` is 0 for 8-bit operands and 1 for 2-bit."""
        return 1000 * self.macs[column] / (self.fo4 * _FO4_PS)


_FO4_PS = 58.8
PRESETS = {
    "ri5cy": Preset(52.6, 85.0, (2.14, 0.87)),
    "xpulpnn-cu": Preset(55.7, 88.1, (2.91, 9.52)),
    "xpulpnn": Preset(56.6, 86.7, (3.41, 11.12)),
    "xpulpnn-full": Preset(56.4, 86.1, (3.41, 11.12)),
    "xpulpnn2": Preset(57.1, 82.4, (3.77, 13.76)),
    "xpulpnn3": Preset(63.7, 81.3, (7.39, 25.64)),
}
"""Area and delay by ``explore --script area`` with IHP SG13G2, and MAC/cycle, the same as in the README."""


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
        for bar, (name, values) in enumerate(MACS.items()):
            x, height = left + 56 * bar, values[group] * scale
            parts.append(
                f'<rect x="{x}" y="{bottom - height:g}" width="50" height="{height:g}" fill="{_COLOURS[bar]}">'
                f"<title>{name}, {bits} bit</title></rect>" + text(x + 25, bottom - height - 5, f"{values[group]:.2f}")
            )
    for bar, name in enumerate(MACS):
        parts.append(f'<rect x="{70 + 110 * bar}" y="12" width="12" height="12" fill="{_COLOURS[bar]}"/>')
        parts.append(text(88 + 110 * bar, 22, name, "start"))
    parts.append(text(860, 22, "multiply-accumulates per cycle, one core", "end"))
    return svg(880, 272, parts, "Multiply-accumulates per cycle of a convolution by width and core")


def _panel(left: int, column: int, title: str) -> list[str]:
    width, top, bottom = 340, 44, 244
    low, high = 50.0, 68.0
    most = max(preset.gmacs(column) for preset in PRESETS.values()) * 1.15
    parts = [
        line((left, bottom), (left + width, bottom)),
        line((left, bottom), (left, top)),
        text(left + width / 2, 24, title, extra='font-weight="600"'),
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
    for name, preset in PRESETS.items():
        x = left + width * (preset.kge - low) / (high - low)
        y = bottom - (bottom - top) * preset.gmacs(column) / most
        colour = _COLOURS[[*MACS].index(name)] if name in MACS else "none"
        parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="{colour}" stroke="currentColor"/>')
        below = 9 if name == "xpulpnn" else 4
        left_of = name in ("xpulpnn-cu", "xpulpnn-full", "xpulpnn3")
        parts.append(text(x - 10 if left_of else x + 10, y + below, name, "end" if left_of else "start", SMALL))
    return parts


def area() -> str:
    parts = [*_panel(70, 0, "8 bit"), *_panel(510, 1, "2 bit")]
    return svg(880, 292, parts, "Area against billions of multiply-accumulates per second of every preset")


CHARTS: dict[str, Callable[[], str]] = {"macs": macs, "area": area}
"""Functions that draw the charts of ``make pictures``; all other pictures are drawn by hand."""


def picture(name: str) -> str:
    """Return the picture ``name`` for a page; raise :class:`InputError` for an unknown name."""
    known = {path.stem: path for path in sorted(FOLDER.glob("*.svg"))}
    if name not in known:
        raise InputError(f"picture must be one of {', '.join(known)}, not {name}")
    return inline(known[name].read_text())


def main(folder: Path) -> None:
    for name, chart in CHARTS.items():
        write_text(folder / f"{name}.svg", standalone(chart()))


if __name__ == "__main__":
    main(FOLDER)
