"""Draw the layers of the source tree as a table, and timing diagrams as SVG in the colours of the guide's theme."""

from html import escape
from typing import NamedTuple

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import html
from xpulpnn_sim.publishing.guide.svg import MONOSPACE, STYLE, inline, line, svg, text


class SourceLayer(NamedTuple):
    """Folders of source files that form a layer; they may import from lower layers."""

    folders: tuple[str, ...]
    purpose: str


LAYERS = (
    SourceLayer(("xpulpnn_sim.cli",), "the command line"),
    SourceLayer(("xpulpnn_sim.publishing",), "IP packages, the papers' tables, this guide"),
    SourceLayer(("xpulpnn_sim.api",), "the same jobs as Python functions"),
    SourceLayer(("xpulpnn_sim.verification",), "programs at random, coverage, mutants"),
    SourceLayer(("xpulpnn_sim.exploration",), "area, timing, energy, bits of networks"),
    SourceLayer(("xpulpnn_sim.proofs",), "one engine, and what it proves"),
    SourceLayer(("xpulpnn_sim.benches",), "cocotb benches of the units"),
    SourceLayer(("xpulpnn_sim.cosimulation",), "models, checks, workloads, networks"),
    SourceLayer(("xpulpnn_sim.reference",), "golden models, simulator, directed programs"),
    SourceLayer(("xpulpnn_sim.tools",), "jobs, results, files, Yosys, ABC, Verilator"),
    SourceLayer(("xpulpnn_sw.networks",), "networks, importers, networks as C programs"),
    SourceLayer(("xpulpnn_sw.library",), "the kernels as a C library"),
    SourceLayer(("xpulpnn_sw.kernels",), "generators of kernels and programs"),
    SourceLayer(("xpulpnn_sw.layers",), "layers, windows, precisions"),
    SourceLayer(("xpulpnn_sw.toolchain",), "compilers, C headers, run-time library"),
    SourceLayer(("xpulpnn_sw.assembly",), "assembler, disassembler, loop pass"),
    SourceLayer(
        ("xpulpnn.cluster", "xpulpnn.debug", "xpulpnn.core", "xpulpnn.dotp", "xpulpnn.arith", "xpulpnn.emit"),
        "gates and their emission (Amaranth)",
    ),
    SourceLayer(("xpulpnn.isa", "xpulpnn.config", "xpulpnn.config", "xpulpnn.errors"), "facts: standard library only"),
)
"""Layers of the source tree from top to bottom; imports go downwards only."""


def layers() -> str:
    rows = ((", ".join(map(html.code, layer.folders)), escape(layer.purpose)) for layer in LAYERS)
    return html.table(("folders; imports go downwards only", "what"), rows)


class Timing(NamedTuple):
    """A timing diagram: ``p`` is a clock, ``0`` ``1`` levels, ``.`` unchanged, ``x`` don't care, a letter a value."""

    label: str
    waves: dict[str, str]  # from top to bottom
    values: dict[str, str]  # texts of the letters
    cycle: int = 74  # pixels per cycle


TIMINGS = {
    "obi": Timing(
        "A load is granted in its second cycle and answered two cycles later, when a store is requested and granted",
        {
            "clk": "ppppppp",
            "data__req": "01.0100",
            "data__gnt": "x01x1xx",
            "data__addr": "xA.xBxx",
            "data__we": "x0.x1xx",
            "data__be": "xE.xFxx",
            "data__wdata": "xxxxDxx",
            "data__rvalid": "0...1.0",
            "data__rdata": "xxxxRxx",
        },
        {"A": "0x100", "B": "0x104", "E": "1111", "F": "0011", "D": "data", "R": "word"},
    ),
    "fetch": Timing(
        "A memory that answers after two cycles: further words are requested before the first is there",
        {
            "clk": "pppppp",
            "instr__req": "01....",
            "instr__gnt": "x1....",
            "instr__addr": "xABCDE",
            "instr__rvalid": "0..1..",
            "instr__rdata": "xxxIJK",
        },
        {
            "A": "0x1C000080",
            "B": "0x1C000084",
            "C": "0x1C000088",
            "D": "0x1C00008C",
            "E": "0x1C000090",
            "I": "of ..80",
            "J": "of ..84",
            "K": "of ..88",
        },
    ),
    "sleep": Timing(
        "wfi: the core sleeps, a line rises, core_sleep falls with it, the interrupt is taken",
        {
            "clk": "ppp..ppp",
            "core_sleep": "01...0..",
            "irq[7]": "0....1..",
            "irq_ack": "0.....10",
            "irq_id": "xxxxxxSx",
            "instr__req": "0.....1.",
            "instr__addr": "xxxxxxAB",
        },
        {"S": "7", "A": "0x1C00001C", "B": "0x1C000020"},
    ),
    "start": Timing(
        "Reset, then the core waits for fetch_enable",
        {
            "clk": "ppppppp",
            "rst": "1.0....",
            "boot_addr": "xxxxA..",
            "fetch_enable": "0...1..",
            "instr__req": "0...1..",
            "instr__addr": "xxxxABx",
        },
        {"A": "0x1C000080", "B": "0x1C000084"},
    ),
    "mac_load": Timing(
        "Mac&Loads retire one in each cycle; three of them have requested a word in the cycle before",
        {
            "clk": "pppppp",
            "rvfi_valid": "1....0",
            "rvfi_insn": "xABCDx",
            "data__req": "1.010.",
            "data__addr": "IJxKxx",
            "data__rvalid": "01.010",
        },
        {
            "A": "pv.mlsdotsup.n a4",
            "B": "pv.mlsdotsup.n a5",
            "C": "pv.mlsdotsup.n a6",
            "D": "pv.mlsdotsup.n a7",
            "I": "0x200",
            "J": "0x300",
            "K": "0x204",
        },
        cycle=124,
    ),
}
"""Timing diagrams of the guide, by name."""

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


def timing(name: str) -> str:
    """Return the timing diagram ``name``; raise :class:`InputError` for an unknown name."""
    if name not in TIMINGS:
        raise InputError(f"timing must be one of {', '.join(TIMINGS)}, not {name}")
    drawn = TIMINGS[name]
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
