"""Drawings of the guide as SVG in the page, in the colours of its theme, light and dark."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import html

_STYLE = {
    "box": 'fill="var(--color-background-secondary)" stroke="var(--color-foreground-border)"',
    "accent": 'fill="var(--color-background-hover)" stroke="var(--color-brand-primary)"',
    "line": 'fill="none" stroke="currentColor" stroke-width="1.3"',
    "faint": 'fill="none" stroke="var(--color-foreground-border)" stroke-dasharray="3 3"',
}


def _svg(width: int, height: int, parts: Iterable[str], label: str) -> str:
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>'
    )
    return html.raw(
        f'<div class="drawing"><svg viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px; min-width: {width * 3 // 4}px" '
        f'role="img" aria-label="{escape(label)}" font-size="12" font-family="var(--font-stack)">\n'
        + marker
        + "\n".join(parts)
        + "\n</svg></div>"
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor" {extra}>{escape(text)}</text>'


def _box(x: int, y: int, width: int, height: int, lines: Sequence[str], kind: str = "box") -> str:
    top = y + height / 2 - 7 * (len(lines) - 1) + 4
    texts = [
        _text(x + width / 2, top + 14 * row, line, extra='font-weight="600"' if row == 0 else 'font-size="10.5"')
        for row, line in enumerate(lines)
    ]
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" {_STYLE[kind]}/>' + "".join(texts)


def _arrow(*points: tuple[float, float], tip: bool = True) -> str:
    path = " ".join(f"{'L' if index else 'M'}{x} {y}" for index, (x, y) in enumerate(points))
    return f'<path d="{path}" {_STYLE["line"]}{" marker-end=" + chr(34) + "url(#tip)" + chr(34) if tip else ""}/>'


def pipeline() -> str:
    """The four stages with their units, memory ports and register files."""
    parts = [
        *(
            f'<rect x="{x}" y="34" width="{width}" height="282" rx="6" {_STYLE["faint"]}/>'
            + _text(x + width / 2, 26, name, extra='font-weight="600" font-size="13"')
            for x, width, name in ((10, 170, "IF"), (200, 200, "ID"), (420, 250, "EX"), (690, 170, "WB"))
        ),
        _box(25, 50, 140, 44, ["prefetch", "four words ahead"]),
        _box(25, 112, 140, 44, ["compressed_decoder", "16 to 32 bit"]),
        _box(25, 174, 140, 44, ["hwloops", "two nested loops"]),
        _box(215, 50, 170, 44, ["decoder", "from the instruction table"]),
        _box(215, 112, 170, 44, ["interlocks", "whoever needs a value waits"]),
        _box(215, 174, 170, 44, ["regfile, forwarding", "31 x 32, 3 read, 2 write"]),
        _box(435, 50, 105, 44, ["alu", "scalar and SIMD"]),
        _box(550, 50, 105, 44, ["mult", "1, high word 5"]),
        _box(435, 104, 105, 44, ["div", "3 to 35"]),
        _box(550, 104, 105, 44, ["lsu", "requests"]),
        _box(435, 160, 220, 58, ["dotp", "16 x 2, 8 x 4, 4 x 8, 2 x 16 bit, one cycle"], "accent"),
        _box(
            435,
            240,
            220,
            62,
            ["nnrf", "activations, weights, parameters", "read in ID, written from WB"],
            "accent",
        ),
        _box(705, 50, 140, 44, ["wb_stage", "loaded data"]),
        _box(215, 352, 75, 30, ["controller"]),
        _box(300, 352, 85, 30, ["csr_file"]),
        _arrow((165, 134), (195, 134), (195, 72), (215, 72)),
        _arrow((95, 94), (95, 112)),
        _arrow((165, 196), (174, 196), (174, 72), (165, 72)),
        _arrow((300, 94), (300, 112)),
        _arrow((385, 196), (408, 196), (408, 72), (435, 72)),
        _arrow((408, 189), (435, 189)),
        _arrow((655, 126), (682, 126), (682, 72), (705, 72)),
        # port A from WB, port B from EX
        _arrow((775, 94), (775, 110), (868, 110), (868, 334), (270, 334), (270, 218)),
        _text(480, 329, "port A: loaded word", extra='font-size="10.5"'),
        _arrow((545, 218), (545, 230), (330, 230), (330, 218)),
        _text(336, 244, "port B: results of EX", "start", 'font-size="10.5"'),
        _arrow((868, 271), (655, 271)),
        _text(760, 265, "or to the NN-RF", extra='font-size="10.5"'),
        _arrow((640, 240), (640, 218)),
        # memories
        _box(25, 352, 140, 30, ["instr (OBI)"]),
        _box(550, 352, 105, 30, ["data (OBI)"]),
        _arrow((60, 352), (60, 250), (16, 250), (16, 72), (25, 72)),
        _arrow((602, 148), (602, 154), (664, 154), (664, 342), (602, 342), (602, 352)),
        _arrow((655, 367), (880, 367), (880, 72), (845, 72)),
    ]
    return _svg(890, 390, parts, "The pipeline: IF, ID, EX, WB")


def nnrf() -> str:
    """The entries of the NN-RF with the requantisation, what fills them and who uses them."""
    columns = ((30, 2, "activations"), (200, 4, "weights"), (530, 2, "parameters"))
    entries = [
        _box(x + 80 * number, 96, 70, 44, [f"NN[{first + number}]", text], "accent")
        for (x, count, _), first, texts in zip(
            columns, (0, 2, 6), (("pixel", "pixel"), ("channel",) * 4, ("kappa", "lambda")), strict=True
        )
        for number, text in zip(range(count), texts, strict=True)
    ]
    parts = [
        _box(30, 14, 650, 32, ["a word from memory, rs1 += 4"]),
        *entries,
        # one word per Mac&Load, into the group that its update bits name
        _arrow((105, 46), (105, 96)),
        _text(113, 76, "bit 3, or both", "start", 'font-size="10.5"'),
        _arrow((355, 46), (355, 96)),
        _text(363, 76, "bit 4", "start", 'font-size="10.5"'),
        _arrow((605, 46), (605, 96)),
        _text(613, 76, "pv.rqld", "start", 'font-size="10.5"'),
        _arrow((105, 140), (105, 206), (200, 206)),
        _arrow((355, 140), (355, 184)),
        _box(200, 184, 310, 44, ["dotp", "rd = sum, or rd = rd + sum"]),
        _arrow((605, 140), (605, 184)),
        _box(530, 184, 150, 44, ["mult, clip", "rd[lane] = element"]),
        _arrow((510, 206), (530, 206)),
    ]
    return _svg(700, 242, parts, "The NN register file: two activations, four weights, kappa and lambda")


class HouseLayer(NamedTuple):
    """A row of the house: folders that may import those below."""

    folders: tuple[str, ...]
    what: str


HOUSE = (
    HouseLayer(("xpulpnn_sim.cli",), "the command line"),
    HouseLayer(("xpulpnn_sim.publishing",), "IP packages, the papers' tables, this guide"),
    HouseLayer(("xpulpnn_sim.api",), "the same jobs as Python functions"),
    HouseLayer(("xpulpnn_sim.verification",), "programs at random, coverage, mutants"),
    HouseLayer(("xpulpnn_sim.exploration",), "area, timing, energy, bits of networks"),
    HouseLayer(("xpulpnn_sim.proofs",), "one engine, and what it proves"),
    HouseLayer(("xpulpnn_sim.benches",), "cocotb benches of the units"),
    HouseLayer(("xpulpnn_sim.cosimulation",), "models, checks, workloads, networks"),
    HouseLayer(("xpulpnn_sim.reference",), "golden models, simulator, directed programs"),
    HouseLayer(("xpulpnn_sim.tools",), "jobs, results, files, Yosys, ABC, Verilator"),
    HouseLayer(("xpulpnn_sw.networks",), "networks, importers, networks as C programs"),
    HouseLayer(("xpulpnn_sw.library",), "the kernels as a C library"),
    HouseLayer(("xpulpnn_sw.kernels",), "generators of kernels and programs"),
    HouseLayer(("xpulpnn_sw.layers",), "layers, windows, precisions"),
    HouseLayer(("xpulpnn_sw.toolchain",), "compilers, C headers, run-time library"),
    HouseLayer(("xpulpnn_sw.assembly",), "assembler, disassembler, loop pass"),
    HouseLayer(
        ("xpulpnn.cluster", "xpulpnn.debug", "xpulpnn.core", "xpulpnn.dotp", "xpulpnn.arith", "xpulpnn.emit"),
        "gates and their emission (Amaranth)",
    ),
    HouseLayer(("xpulpnn.isa", "xpulpnn.config", "xpulpnn.config", "xpulpnn.errors"), "facts: standard library only"),
)
"""The house from the top: what is higher may import what is lower, never the other way round."""


def house() -> str:
    """The folders in layers."""
    rows = ((", ".join(map(html.code, layer.folders)), escape(layer.what)) for layer in HOUSE)
    return html.table(("folders; imports go downwards only", "what"), rows)


class Timing(NamedTuple):
    """A drawing of signals: ``p`` clock, ``0`` ``1`` levels, ``.`` as before, ``x`` anything, a letter a value."""

    label: str
    waves: dict[str, str]  # levels by signal, from top to bottom
    values: dict[str, str]  # what the letters stand for


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
}
"""Drawings of signals by name."""

_CYCLE, _ROW, _LEFT = 74, 30, 110


def _wave(name: str, levels: str, y: int, values: dict[str, str]) -> list[str]:
    parts = [_text(_LEFT - 12, y + 15, name, "end", 'font-family="var(--font-stack--monospace)"')]
    low, high, level = y + 20, y + 4, "x"
    previous: float | None = None
    for cycle, letter in enumerate(levels):
        x = _LEFT + cycle * _CYCLE
        first = letter != "."
        level = letter if first else level
        end = x + _CYCLE
        if level == "p" and letter == "p":
            middle = x + _CYCLE / 2
            parts.append(_arrow((x, low), (x, high), (middle, high), (middle, low), (end, low), tip=False))
        elif levels[0] == "p":
            parts.append(_arrow((x, low), (end, low), tip=False))
        elif level in "01":
            height = high if level == "1" else low
            start = [(x, previous)] if previous is not None and previous != height else []
            parts.append(_arrow(*start, (x, height), (end, height), tip=False))
            previous = height
            continue
        elif level == "x":
            parts.append(f'<rect x="{x}" y="{high}" width="{_CYCLE}" height="{low - high}" fill="url(#any)"/>')
        elif first:
            run = len(levels[cycle + 1 :]) - len(levels[cycle + 1 :].lstrip("."))
            width = _CYCLE * (run + 1)
            parts.append(f'<rect x="{x}" y="{high}" width="{width}" height="{low - high}" rx="5" {_STYLE["box"]}/>')
            parts.append(_text(x + width / 2, y + 16, values[level], extra='font-size="11"'))
        previous = None
    return parts


def timing(name: str) -> str:
    """The drawing of signals called ``name``; raises :class:`InputError` for an unknown one."""
    if name not in TIMINGS:
        raise InputError(f"timing must be one of {', '.join(TIMINGS)}, not {name}")
    drawn = TIMINGS[name]
    cycles = len(next(iter(drawn.waves.values())))
    height = _ROW * len(drawn.waves) + 8
    hatching = '<path d="M0 6 L6 0" stroke="var(--color-foreground-border)"/>'
    parts = [
        f'<defs><pattern id="any" width="6" height="6" patternUnits="userSpaceOnUse">{hatching}</pattern></defs>',
        *(
            f'<path d="M{_LEFT + cycle * _CYCLE} 0 V{height}" {_STYLE["faint"]} stroke-width="0.6"/>'
            for cycle in range(cycles + 1)
        ),
    ]
    for row, wave in enumerate(drawn.waves.items()):
        parts += _wave(*wave, 4 + row * _ROW, drawn.values)
    return _svg(_LEFT + cycles * _CYCLE + 8, height, parts, drawn.label)
