"""Draw the layers of the source tree as a table, and timing diagrams as SVG in the colours of the guide's theme."""

import re
from html import escape
from typing import NamedTuple

from docs.generate import html
from docs.generate.svg import MONOSPACE, STYLE, inline, line, svg, text

LAYERS = {
    "xpulpnn_sim.cli": "the command line",
    "xpulpnn_sim.publishing": "IP packages, the papers' tables, LiteX",
    "xpulpnn_sim.api": "the same jobs as Python functions",
    "xpulpnn_sim.verification": "programs at random, coverage, mutants",
    "xpulpnn_sim.exploration": "area, timing, energy, bits of networks",
    "xpulpnn_sim.proofs": "one engine, and what it proves",
    "xpulpnn_sim.benches": "cocotb benches of the units",
    "xpulpnn_sim.cosimulation": "models, checks, workloads, networks",
    "xpulpnn_sim.reference": "golden models, simulator, directed programs",
    "xpulpnn_sim.tools": "jobs, results, files, Yosys, ABC, Verilator",
    "xpulpnn_sw.networks": "networks, importers, networks as C programs",
    "xpulpnn_sw.library": "the kernels as a C library",
    "xpulpnn_sw.kernels": "generators of kernels and programs",
    "xpulpnn_sw.layers": "layers, windows, precisions",
    "xpulpnn_sw.toolchain": "compilers, C headers, run-time library",
    "xpulpnn_sw.assembly": "assembler, disassembler, loop pass",
    "xpulpnn.cluster xpulpnn.debug xpulpnn.core xpulpnn.dotp xpulpnn.arith xpulpnn.emit": (
        "gates and their emission (Amaranth)"
    ),
    "xpulpnn.isa xpulpnn.config xpulpnn.field_values xpulpnn.errors": "facts: standard library only",
}
"""Purposes of the layers of the source tree from top to bottom, by folders; imports go downwards only."""


def layers() -> str:
    rows = ((", ".join(map(html.code, folders.split())), escape(purpose)) for folders, purpose in LAYERS.items())
    return html.table(("folders; imports go downwards only", "what"), rows)


class Timing(NamedTuple):
    """A timing diagram: ``p`` is a clock, ``0`` ``1`` levels, ``.`` unchanged, ``x`` don't care, a letter a value."""

    label: str
    waves: dict[str, str]  # from top to bottom
    values: dict[str, str]  # texts of the letters
    cycle: int  # pixels per cycle


_BLOCK = re.compile(
    r"^```timing (?P<name>\w+)(?: (?P<cycle>\d+))?\n(?P<label>[^\n]*)\n(?P<lines>.*?)^```$", re.M | re.S
)
_CYCLE = 74  # default pixels per cycle


def timings(page: str) -> dict[str, Timing]:
    """Return the timing diagrams of a page. The first line is the label; then a line has a signal's name and wave, or a
    letter and the text it stands for."""
    return {block["name"]: _timing(block) for block in _BLOCK.finditer(page)}


def draw_timings(page: str) -> str:
    return _BLOCK.sub(lambda block: _drawn(_timing(block)), page)


def _timing(block: re.Match[str]) -> Timing:
    rows = [line.split(maxsplit=1) for line in block["lines"].splitlines()]
    waves, values = ({name: text for name, text in rows if (len(name) == 1) is single} for single in (False, True))
    return Timing(block["label"], waves, values, int(block["cycle"] or _CYCLE))


_ROW, _LEFT = 30, 110


def _wave(name: str, levels: str, y: int, drawn: Timing) -> list[str]:
    parts = [text(_LEFT - 12, y + 15, name, "end", MONOSPACE)]
    low, high, level = y + 20, y + 4, "x"
    previous: float | None = None
    for cycle, letter in enumerate(levels):
        x = _LEFT + cycle * drawn.cycle
        first = letter != "."
        level = letter if first else level
        end = x + drawn.cycle
        if level == "p" and letter == "p":
            middle = x + drawn.cycle / 2
            parts.append(line((x, low), (x, high), (middle, high), (middle, low), (end, low)))
        elif levels[0] == "p":
            parts.append(line((x, low), (end, low)))
        elif level in "01":
            height = high if level == "1" else low
            start = [(x, previous)] if previous is not None and previous != height else []
            parts.append(line(*start, (x, height), (end, height)))
            previous = height
            continue
        elif level == "x":
            parts.append(f'<rect x="{x}" y="{high}" width="{drawn.cycle}" height="{low - high}" fill="url(#any)"/>')
        elif first:
            run = len(levels[cycle + 1 :]) - len(levels[cycle + 1 :].lstrip("."))
            width = drawn.cycle * (run + 1)
            parts.append(f'<rect x="{x}" y="{high}" width="{width}" height="{low - high}" rx="5" {STYLE["box"]}/>')
            parts.append(text(x + width / 2, y + 16, drawn.values[level], extra='font-size="11"'))
        previous = None
    return parts


def _drawn(drawn: Timing) -> str:
    cycles = len(next(iter(drawn.waves.values())))
    height = _ROW * len(drawn.waves) + 8
    hatching = '<path d="M0 6 L6 0" stroke="var(--color-foreground-border)"/>'
    parts = [
        f'<defs><pattern id="any" width="6" height="6" patternUnits="userSpaceOnUse">{hatching}</pattern></defs>',
        *(
            f'<path d="M{_LEFT + cycle * drawn.cycle} 0 V{height}" {STYLE["faint"]} stroke-width="0.6"/>'
            for cycle in range(cycles + 1)
        ),
    ]
    for row, wave in enumerate(drawn.waves.items()):
        parts += _wave(*wave, 4 + row * _ROW, drawn)
    return inline(svg(_LEFT + cycles * drawn.cycle + 8, height, parts, drawn.label))
