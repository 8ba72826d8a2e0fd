"""Pictures of what the generator makes and how it compares.

Pages of the guide show them inline; the README shows files, which ``make pictures`` writes to ``docs/pictures``.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide.examples import ROOT
from xpulpnn_sim.publishing.guide.svg import MONOSPACE, SMALL, STYLE, arrow, box, frame, inline, standalone, svg, text
from xpulpnn_sim.tools.files import write_text

_COLOURS = ("#8a8f98", "#2a9d8f", "#3d82d8", "#e07b00")

MACS = {
    "ri5cy": (2.14, 0.85, 0.87),
    "xpulpnn": (3.41, 6.33, 11.12),
    "xpulpnn2": (3.77, 7.30, 13.76),
    "xpulpnn3": (7.39, 14.08, 25.64),
}
"""MAC/cycle of the papers' convolution on one core, at 8, 4 and 2 bit, which the README's table shows too."""


class Preset(NamedTuple):
    """A core with its fastest kernel."""

    kge: float
    fo4: float
    macs: tuple[float, float]  # MAC/cycle of the papers' convolution at 8 and 2 bit

    def gmacs(self, which: int) -> float:
        """Billions of multiply-accumulates per second at one of these widths."""
        return 1000 * self.macs[which] / (self.fo4 * _FO4_PS)


_FO4_PS = 58.8
PRESETS = {
    "ri5cy": Preset(52.6, 85.0, (2.14, 0.87)),
    "xpulpnn-cu": Preset(55.7, 88.1, (2.91, 9.52)),
    "xpulpnn": Preset(56.6, 86.7, (3.41, 11.12)),
    "xpulpnn-full": Preset(56.4, 86.1, (3.41, 11.12)),
    "xpulpnn2": Preset(57.1, 82.4, (3.77, 13.76)),
    "xpulpnn3": Preset(63.7, 81.3, (7.39, 25.64)),
}
"""Area and delay that ``explore --script area`` prints with IHP SG13G2; the README's table shows them too."""


def system() -> str:
    """A core in a system."""
    parts = [
        frame(8, 8, 864, 234, "your SoC, one core or a cluster of up to sixteen"),
        frame(250, 42, 380, 186, "core"),
        box(28, 62, 150, 56, ["instruction memory", "or cache"]),
        box(28, 156, 150, 56, ["interrupts", "32 lines, sleep"]),
        box(702, 62, 150, 56, ["data memory", "or banks of a cluster"]),
        box(702, 156, 150, 56, ["debug module", "JTAG, gdb"]),
        box(266, 72, 166, 46, ["fetch, decode", "RV32IMC, XpulpV2, XpulpNN"]),
        box(448, 72, 166, 46, ["registers, ALU", "multiplier, loads, stores"]),
        box(266, 142, 166, 74, ["NN register file", "activations, weights,", "requantisation"], "accent"),
        box(448, 142, 166, 74, ["dot products", "of 16, 8, 4 or 2 bit", "one cycle"], "accent"),
        arrow((178, 90), (250, 90), both=True),
        text(214, 82, "OBI", extra=SMALL),
        arrow((630, 90), (702, 90), both=True),
        text(666, 82, "OBI", extra=SMALL),
        arrow((178, 184), (250, 184)),
        arrow((702, 184), (630, 184)),
        arrow((432, 95), (448, 95)),
        arrow((432, 179), (448, 179)),
        arrow((531, 118), (531, 142), both=True),
        arrow((490, 118), (490, 130), (349, 130), (349, 142)),
    ]
    return svg(880, 250, parts, "A core between instruction memory, data memory, interrupts and debug module")


def cluster() -> str:
    """Eight cores on a memory of banks."""
    parts = [
        frame(8, 8, 864, 352, "cluster: eight cores, sixteen banks"),
        *(box(30 + 82 * core, 94, 72, 40, [f"core {core}"], "accent") for core in range(8)),
        box(30, 42, 646, 32, ["instruction caches: one for each core, one for all"]),
        *(arrow((66 + 82 * core, 74), (66 + 82 * core, 94), both=True) for core in range(8)),
        *(arrow((66 + 82 * core, 134), (66 + 82 * core, 166), both=True) for core in range(8)),
        box(30, 166, 646, 40, ["tcdm_interconnect", "every core to every bank, granted in the cycle of the request"]),
        *(box(30 + 41 * bank, 238, 31, 44, [str(bank)]) for bank in range(16)),
        *(arrow((45.5 + 41 * bank, 206), (45.5 + 41 * bank, 238), both=True) for bank in range(16)),
        text(353, 302, "TCDM: words lie round the banks, each core reads or writes one in a cycle", extra=SMALL),
        box(716, 94, 140, 40, ["event unit", "barriers, sleep"]),
        arrow((676, 114), (716, 114), both=True),
        box(716, 166, 140, 40, ["DMA engine", "8 bytes a cycle"]),
        arrow((676, 186), (716, 186), both=True),
        box(716, 316, 140, 32, ["ext, or AXI4"]),
        arrow((786, 206), (786, 316), both=True),
        box(30, 316, 646, 32, ["memory outside (L2): programs, weights, images"]),
        arrow((676, 332), (716, 332), both=True),
        arrow((676, 58), (864, 58), (864, 300), (820, 300), (820, 316)),
    ]
    return svg(880, 368, parts, "A cluster: cores, crossbar, banks, event unit, DMA engine and caches")


def macs() -> str:
    """MAC/cycle by width and core, as bars."""
    top, bottom, highest = 44, 244, 28.0
    scale = (bottom - top) / highest
    parts = [arrow((52, bottom), (860, bottom), tip=False)]
    for line in (5, 10, 15, 20, 25):
        y = bottom - line * scale
        parts.append(f'<path d="M52 {y:g} H860" {STYLE["faint"]}/>' + text(44, y + 4, str(line), "end", SMALL))
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


def _panel(left: int, which: int, title: str) -> list[str]:
    """Points of all presets at one width."""
    width, top, bottom = 340, 44, 244
    low, high = 50.0, 68.0
    most = max(preset.gmacs(which) for preset in PRESETS.values()) * 1.15
    parts = [
        arrow((left, bottom), (left + width, bottom), tip=False),
        arrow((left, bottom), (left, top), tip=False),
        text(left + width / 2, 24, title, extra='font-weight="600"'),
        text(left + width / 2, bottom + 34, "area, kGE", extra=SMALL),
        text(left - 6, top - 8, "GMAC/s", "start", SMALL),
    ]
    for kge in range(52, 68, 4):
        x = left + width * (kge - low) / (high - low)
        parts.append(f'<path d="M{x:g} {bottom} v5" {STYLE["line"]}/>' + text(x, bottom + 18, str(kge), extra=SMALL))
    step = next(one for one in (0.5, 1, 2, 5) if most < 4 * one)
    for number in range(1, int(most / step) + 1):
        y = bottom - (bottom - top) * number * step / most
        value = text(left - 8, y + 4, f"{number * step:g}", "end", SMALL)
        parts.append(f'<path d="M{left} {y:g} h{width}" {STYLE["faint"]}/>' + value)
    for name, preset in PRESETS.items():
        x = left + width * (preset.kge - low) / (high - low)
        y = bottom - (bottom - top) * preset.gmacs(which) / most
        colour = _COLOURS[[*MACS].index(name)] if name in MACS else "none"
        parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="{colour}" stroke="currentColor"/>')
        below = 9 if name == "xpulpnn" else 4
        left_of = name in ("xpulpnn-cu", "xpulpnn-full", "xpulpnn3")
        parts.append(text(x - 10 if left_of else x + 10, y + below, name, "end" if left_of else "start", SMALL))
    return parts


def area() -> str:
    """Area against rate of all presets, at 8 and 2 bit."""
    parts = [*_panel(70, 0, "8 bit"), *_panel(510, 1, "2 bit")]
    return svg(880, 292, parts, "Area against billions of multiply-accumulates per second of every preset")


_LOOPS: dict[str, Sequence[tuple[str, ...]]] = {
    "ordinary loop (XpulpV2): 2 products": (("load",), ("load",), ("product",), ("product",)),
    "Mac&Load (XpulpNN): 4 products": (("product", "load"), ("product",)) * 2,
    "Mac&Load of two (XpulpNN 3): 8 products": (("product", "product", "load"),) * 4,
}


def mac_load() -> str:
    """Four cycles of three inner loops."""
    parts = [text(372 + 130 * cycle, 22, f"cycle {cycle + 1}", extra=SMALL) for cycle in range(4)]
    y = 34
    for name, cycles in _LOOPS.items():
        rows = max(map(len, cycles))
        height = 30 * rows + 10
        parts.append(f'<rect x="8" y="{y}" width="824" height="{height}" rx="6" {STYLE["faint"]}/>')
        title, _, products = name.partition(": ")
        parts.append(text(20, y + height / 2, title, "start", 'font-weight="600"'))
        parts.append(text(20, y + height / 2 + 15, f"{products} in four cycles", "start", SMALL))
        for cycle, slots in enumerate(cycles):
            for row, slot in enumerate(slots):
                kind = "accent" if slot == "product" else "box"
                parts.append(box(314 + 130 * cycle, y + 8 + 30 * row, 116, 24, [slot], kind))
        y += height + 12
    return svg(840, y, parts, "Four cycles of the ordinary inner loop, of Mac&Load and of Mac&Load with two products")


def profile() -> str:
    """Output of ``run --profile``, in a terminal."""
    lines = (ROOT / "docs/pictures/profile.txt").read_text().splitlines()
    height = 44 + 16 * len(lines)
    parts = [
        f'<rect x="1" y="1" width="918" height="{height - 2}" rx="8" {STYLE["box"]}/>',
        *(f'<circle cx="{20 + 18 * dot}" cy="16" r="5" fill="var(--color-foreground-border)"/>' for dot in range(3)),
        *(text(16, 46 + 16 * row, line, "start", MONOSPACE) for row, line in enumerate(lines)),
    ]
    return svg(920, height, parts, "The profile of a program in a terminal")


_CHECKS: dict[str, tuple[Sequence[str], ...]] = {
    "units": (("prove units",), ("cocotb benches",), ("mutate units",)),
    "decoders": (("prove units",), ("verify vectors",), ("mutate units",)),
    "core": (
        ("prove instructions", "prove pipeline, riscv-formal"),
        ("verify, run --check", "verify costs"),
        ("mutate core", "--self-test of proofs and verify"),
    ),
    "cluster": (("prove cluster",), ("verify cluster, litmus", "run --cores --check"), ("mutate units",)),
    "emitted Verilog": (("prove emitter",), ("IP packages' testbenches",), ()),
    "kernels, networks": ((), ("cosim, net run", "each output against numpy"), ()),
    "C tools": ((), ("verify c", "run --lockstep"), ()),
}  # fmt: skip


def checks() -> str:
    """Map of what proves, simulates or mutates each part."""
    heads = ("proved, for all inputs", "simulated, beside a reference", "faults put in, to check the checks")
    parts = [text(278 + 236 * column, 22, head, extra='font-weight="600"') for column, head in enumerate(heads)]
    for row, (name, cells) in enumerate(_CHECKS.items()):
        y = 36 + 52 * row
        parts.append(text(14, y + 26, name, "start", 'font-weight="600"'))
        for column, lines in enumerate(cells):
            if lines:
                parts.append(box(166 + 236 * column, y, 224, 42, lines, "accent" if column == 0 else "box"))
    return svg(
        880, 44 + 52 * len(_CHECKS), parts, "What proves, simulates or mutates units, core, cluster and programs"
    )


PICTURES: dict[str, Callable[[], str]] = {
    drawing.__name__: drawing for drawing in (system, cluster, macs, area, mac_load, profile, checks)
}
FILES = ("system", "macs", "area")
"""Pictures of the README."""


def picture(name: str) -> str:
    """The picture called ``name`` in a page; raises :class:`InputError` for an unknown one."""
    if name not in PICTURES:
        raise InputError(f"picture must be one of {', '.join(PICTURES)}, not {name}")
    return inline(PICTURES[name]())


def main(folder: Path) -> None:
    """Write the pictures of the README."""
    for name in FILES:
        write_text(folder / f"{name}.svg", standalone(PICTURES[name]()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
