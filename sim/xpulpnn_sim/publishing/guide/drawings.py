"""Drawings of the guide as SVG in the page, in the colours of its theme, light and dark."""

from html import escape
from typing import NamedTuple

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import html
from xpulpnn_sim.publishing.guide.svg import STYLE, arrow, box, inline, svg, text


def pipeline() -> str:
    """The four stages with their units, memory ports and register files."""
    parts = [
        *(
            f'<rect x="{x}" y="34" width="{width}" height="282" rx="6" {STYLE["faint"]}/>'
            + text(x + width / 2, 26, name, extra='font-weight="600" font-size="13"')
            for x, width, name in ((4, 182, "IF"), (200, 200, "ID"), (420, 250, "EX"), (690, 170, "WB"))
        ),
        box(18, 50, 154, 44, ["prefetch", "four words ahead"]),
        box(18, 112, 154, 44, ["compressed_decoder", "16 to 32 bit"]),
        box(18, 174, 154, 44, ["hwloops", "two nested loops"]),
        box(215, 50, 170, 44, ["decoder", "from the instruction table"]),
        box(215, 112, 170, 44, ["interlocks", "whoever needs a value waits"]),
        box(215, 174, 170, 44, ["regfile, forwarding", "31 x 32, 3 read, 2 write"]),
        box(435, 50, 105, 44, ["alu", "scalar and SIMD"]),
        box(550, 50, 105, 44, ["mult", "1, high word 5"]),
        box(435, 104, 105, 44, ["div", "3 to 35"]),
        box(550, 104, 105, 44, ["lsu", "requests"]),
        box(435, 160, 220, 58, ["dotp", "16 x 2, 8 x 4, 4 x 8, 2 x 16 bit, one cycle"], "accent"),
        box(
            435,
            240,
            220,
            62,
            ["nnrf", "activations, weights, parameters", "read in ID, written from WB"],
            "accent",
        ),
        box(705, 50, 140, 44, ["wb_stage", "loaded data"]),
        box(215, 352, 75, 30, ["controller"]),
        box(300, 352, 85, 30, ["csr_file"]),
        arrow((172, 134), (193, 134), (193, 72), (215, 72)),
        arrow((95, 94), (95, 112)),
        arrow((172, 196), (179, 196), (179, 72), (172, 72)),
        arrow((300, 94), (300, 112)),
        arrow((385, 196), (408, 196), (408, 72), (435, 72)),
        arrow((408, 189), (435, 189)),
        arrow((655, 126), (682, 126), (682, 72), (705, 72)),
        # port A from WB, port B from EX
        arrow((775, 94), (775, 110), (868, 110), (868, 334), (270, 334), (270, 218)),
        text(480, 329, "port A: loaded word", extra='font-size="10.5"'),
        arrow((545, 218), (545, 230), (330, 230), (330, 218)),
        text(412, 244, "port B: results of EX", "end", 'font-size="10.5"'),
        arrow((868, 271), (655, 271)),
        text(760, 265, "or to the NN-RF", extra='font-size="10.5"'),
        arrow((640, 240), (640, 218)),
        # memories
        box(25, 352, 140, 30, ["instr (OBI)"]),
        box(550, 352, 105, 30, ["data (OBI)"]),
        arrow((60, 352), (60, 250), (11, 250), (11, 72), (18, 72)),
        arrow((602, 148), (602, 154), (664, 154), (664, 342), (602, 342), (602, 352)),
        arrow((655, 367), (880, 367), (880, 72), (845, 72)),
    ]
    return inline(svg(890, 390, parts, "The pipeline: IF, ID, EX, WB"))


def nnrf() -> str:
    """The entries of the NN-RF with the requantisation, what fills them and who uses them."""
    columns = ((30, 2, "activations"), (200, 4, "weights"), (530, 2, "parameters"))
    entries = [
        box(x + 80 * number, 96, 70, 44, [f"NN[{first + number}]", use], "accent")
        for (x, count, _), first, texts in zip(
            columns, (0, 2, 6), (("pixel", "pixel"), ("channel",) * 4, ("kappa", "lambda")), strict=True
        )
        for number, use in zip(range(count), texts, strict=True)
    ]
    parts = [
        box(30, 14, 650, 32, ["a word from memory, rs1 += 4"]),
        *entries,
        # one word per Mac&Load, into the group that its update bits name
        arrow((105, 46), (105, 96)),
        text(113, 76, "bit 3, or both", "start", 'font-size="10.5"'),
        arrow((355, 46), (355, 96)),
        text(363, 76, "bit 4", "start", 'font-size="10.5"'),
        arrow((605, 46), (605, 96)),
        text(613, 76, "pv.rqld", "start", 'font-size="10.5"'),
        arrow((105, 140), (105, 206), (200, 206)),
        arrow((355, 140), (355, 184)),
        box(200, 184, 310, 44, ["dotp", "rd = sum, or rd = rd + sum"]),
        arrow((605, 140), (605, 184)),
        box(530, 184, 150, 44, ["mult, clip", "rd[lane] = element"]),
        arrow((510, 206), (530, 206)),
    ]
    return inline(svg(700, 242, parts, "The NN register file: two activations, four weights, kappa and lambda"))


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
    cycle: int = 74  # pixels


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
"""Drawings of signals by name."""

_ROW, _LEFT = 30, 110


def _wave(name: str, levels: str, y: int, drawn: Timing) -> list[str]:
    parts = [text(_LEFT - 12, y + 15, name, "end", 'font-family="var(--font-stack--monospace)"')]
    low, high, level = y + 20, y + 4, "x"
    previous: float | None = None
    for cycle, letter in enumerate(levels):
        x = _LEFT + cycle * drawn.cycle
        first = letter != "."
        level = letter if first else level
        end = x + drawn.cycle
        if level == "p" and letter == "p":
            middle = x + drawn.cycle / 2
            parts.append(arrow((x, low), (x, high), (middle, high), (middle, low), (end, low), tip=False))
        elif levels[0] == "p":
            parts.append(arrow((x, low), (end, low), tip=False))
        elif level in "01":
            height = high if level == "1" else low
            start = [(x, previous)] if previous is not None and previous != height else []
            parts.append(arrow(*start, (x, height), (end, height), tip=False))
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
            f'<path d="M{_LEFT + cycle * drawn.cycle} 0 V{height}" {STYLE["faint"]} stroke-width="0.6"/>'
            for cycle in range(cycles + 1)
        ),
    ]
    for row, wave in enumerate(drawn.waves.items()):
        parts += _wave(*wave, 4 + row * _ROW, drawn)
    return inline(svg(_LEFT + cycles * drawn.cycle + 8, height, parts, drawn.label))
