"""Memories of a cluster, built of macros: of the user's table, or of public ones of SG13G2 (``sg13g2_memories.csv``).

A memory takes the macros of one kind that have least area: beside each other for its bits, above each other for its
words, and as often as it has ports to read if a macro has fewer ports. Registers in the table are macros of one bit.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import ceil, sqrt
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.liberty import LibraryCell, read_liberty
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.results import EmittedDesign, Macro, MemoryUse

MACROS = {f"xpulpnn.cells.memory.{kind}": kind for kind in ("SinglePortMemory", "TwoPortMemory")}
"""Components whose memories are macros in a chip; all other memories are small queues of registers."""

_DEFAULT = Path(__file__).with_name("sg13g2_memories.csv")
_NAND2_UM2, _FO4_PS, _INVERTER_FJ = 7.2576, 58.8, 5.67488 * 1.2**2  # of SG13G2, typical corner
_SLEW_NS, _LOAD_FF = 0.04, 10.0  # at which the access time of a macro in Liberty is read


@dataclass(frozen=True, slots=True)
class MemoryTable:
    macros: Sequence[Macro]
    text: str  # source, in a sentence

    def build(self, name: str, count: int, words: int, bits: int, reads: int) -> MemoryUse:
        """Return ``count`` equal memories of a port to write and ports to read; with ``reads`` 0 one port does both."""
        uses = [_use(macro, name, count, words, bits, reads) for macro in self.macros if macro.ports > min(reads, 1)]
        if not uses:
            raise InputError(f"memories must hold macros of two ports, for {name}, not of one alone")
        return min(uses, key=lambda use: use.area_um2)


def _use(macro: Macro, name: str, count: int, words: int, bits: int, reads: int) -> MemoryUse:
    across = ceil(bits / macro.bits) * (1 if macro.ports > reads else reads)
    high = ceil(words / macro.words)
    built = _scaled(macro, area=across * high, width=across, height=high, energy=across)
    given = asdict(built) | {"name": name, "words": words, "bits": bits, "ports": reads + 1}
    return MemoryUse(**given, count=count, macro=macro.name, macros=across * high)


def _scaled(macro: Macro, *, area: float, width: float, height: float, energy: float, time: float = 1.0) -> Macro:
    return replace(
        macro,
        area_um2=macro.area_um2 * area,
        leakage_nw=macro.leakage_nw * area,
        width_um=(macro.width_um or sqrt(macro.area_um2)) * width,
        height_um=(macro.height_um or sqrt(macro.area_um2)) * height,
        access_ps=macro.access_ps * time,
        read_pj=macro.read_pj * energy,
        write_pj=macro.write_pj * energy,
    )


def memory_paths(design: EmittedDesign) -> dict[str, str]:
    """Return the module of each memory that is built of macros, by its path below the top."""
    modules, hierarchy = design.manifest["modules"], design.manifest["hierarchy"]
    macros = {path: module for path, module in hierarchy.items() if modules[module]["component"] in MACROS}
    return {path.partition(".")[2]: module for path, module in macros.items()}


def memory_uses(design: EmittedDesign, table: MemoryTable) -> dict[str, MemoryUse]:
    """Return the memories of a design by module."""
    uses: dict[str, MemoryUse] = {}
    for module, count in Counter(memory_paths(design).values()).items():
        ports = design.manifest["modules"][module]["ports"]
        widths = {port["name"].removeprefix("port__"): port["width"] for port in ports}
        reads = sum(name.startswith("raddr") for name in widths)
        words = 1 << widths["waddr" if reads else "addr"]
        uses[module] = table.build(module, count, words, widths["wdata"], reads)
    return uses


def memory_table(library: Library) -> MemoryTable:
    """Return the macros in the files of a library, CSV or Liberty; without any, the default ones."""
    if paths := library.memory_files:
        names = ", ".join(path.name for path in paths)
        return MemoryTable([macro for path in paths for macro in _read(path)], f"Memories: macros of {names}.")
    inverter = library.cells[library.fo4_inverter].inputs[0].capacitance_ff * library.liberty.voltage**2
    area, time, energy = library.ge_area / _NAND2_UM2, library.fo4_ps / _FO4_PS, inverter / _INVERTER_FJ
    text = (
        "Memories: public SRAM macros of IHP SG13G2 (130 nm, typical, data sheets), small ones of flip-flops; areas as "
        f"those of the NAND2 times {area:.3g}, times as FO4 {time:.3g}, energies as at an inverter {energy:.3g}."
    )
    sizes = {"area": area, "width": sqrt(area), "height": sqrt(area)}
    return MemoryTable([_scaled(macro, **sizes, energy=energy, time=time) for macro in _read(_DEFAULT)], text)


def _read(path: Path) -> list[Macro]:
    try:
        text = path.read_text(errors="replace")
        if path.suffix == ".lib":
            cells = read_liberty(text, path).cells.values()
            return [_liberty_macro(cell) for cell in cells if cell.word_bits]
        names = [item.name for item in fields(Macro) if item.name != "name"]
        rows = csv.DictReader(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
        macros = [
            Macro(name=row.get("name", path.stem), **{name: float(row[name]) for name in names if row.get(name)})
            for row in rows
        ]
        if not macros or any(min(macro.words, macro.bits, macro.ports, macro.area_um2) <= 0 for macro in macros):
            raise ValueError("words, bits, ports and area of a macro must be above 0")
        return macros
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise InputError(f"memories must be a table of macros in CSV or Liberty, not {path} ({error})") from None


def _liberty_macro(cell: LibraryCell) -> Macro:
    """Return a macro from Liberty; the most that its clock takes, whatever is done, counts for reads and writes."""
    arcs = [arc for pin in cell.outputs for arc in pin.timing if arc.timing_type == "rising_edge"]
    delays = [table.value_at(_SLEW_NS, _LOAD_FF) for arc in arcs for table in (arc.cell_rise, arc.cell_fall) if table]
    edges = [power.rise_power for arc in arcs for power in cell.pins[arc.related_pin].internal_power]
    energy_pj = max(table.value_at(_SLEW_NS, 0.0) for table in edges if table) / 1e3
    return Macro(
        name=cell.name,
        words=cell.words,
        bits=cell.word_bits,
        ports=len(cell.outputs),
        area_um2=cell.area,
        access_ps=1e3 * max(delays),
        read_pj=energy_pj,
        write_pj=energy_pj,
        leakage_nw=cell.leakage_nw,
    )
