"""Mutants of a unit, all in one design: an input of it says which of them it is."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from amaranth.back import rtlil

import xpulpnn
from xpulpnn.errors import ToolError
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.benched import BenchedUnit
from xpulpnn_sim.tools.yosys import Yosys

SELECT = "mutant_select"  # input of the design: number of the mutant, or 0 for none

BASE = "base.il"  # file that holds the unit itself as Yosys understands it; the mutants are changes of it

_LIST, _DESIGN = "places.ys", "mutants.v"
_PLACES_PER_MUTANT = 2
_PREPARE = """read_rtlil unit.il
hierarchy -top {top}
proc
memory_collect
write_rtlil {base}
mutate -list {places} -seed {seed} -o {list}
"""
_APPLY = """read_rtlil {base}
{changes}
write_verilog -noattr -norename {design}
"""

# A mutant that combines two bits of a word looks to Verilator as if the word depended on itself.
_LINT_OFF = "/* verilator lint_off UNOPTFLAT */"

MODES = {
    "inv": "inverted",
    "const0": "always 0",
    "const1": "always 1",
    "cnot0": "inverted while bit {ctrl} of the port is 0",
    "cnot1": "inverted while bit {ctrl} of the port is 1",
}
"""Change that Yosys makes to a bit of a cell's port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of one bit of a port of a cell."""

    number: int  # value of the select input
    module: str  # where it is: instance path of the module, name of the cell and of its port
    cell: str  # where it is: instance path of the module, name of the cell and of its port
    port: str  # where it is: instance path of the module, name of the cell and of its port
    bit: int
    change: str
    source: str  # file and line of the description, such as `xpulpnn/dotp/shared.py:71`
    command: str  # command of Yosys that makes this change for good


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedUnit:
    """The design that holds all mutants of a unit, beside the unit itself."""

    design: EmittedVerilog
    inputs: tuple[str, ...]
    mutants: tuple[Mutant, ...]


def mutate(unit: BenchedUnit, count: int, seed: int, folder: Path, yosys: Yosys) -> MutatedUnit:
    """Make the mutants of a unit."""
    emitted = unit.emit()
    top, width = emitted.manifest["top"], count.bit_length()
    names = {"top": top, "base": BASE, "list": _LIST, "design": _DESIGN}
    (folder / "unit.il").write_text(rtlil.convert(unit.make(), name=top))
    prepare = _PREPARE.format(**names, places=_PLACES_PER_MUTANT * count, seed=seed)
    yosys.run(prepare, folder, what=f"mutants of {top}", results=[BASE, _LIST], name="prepare")
    places = [line for line in (folder / _LIST).read_text().splitlines() if not is_clock(words_of(line))]
    mutants = tuple(_mutant(number, line) for number, line in enumerate(places[:count], start=1))
    if not mutants:
        raise ToolError(f"yosys must find places for mutants in {top}, but found none")
    changes = "\n".join(
        mutant.command.replace("mutate ", f"mutate -ctrl {SELECT} {width} {mutant.number} ", 1) for mutant in mutants
    )
    apply = _APPLY.format(**names, changes=changes)
    yosys.run(apply, folder, what=f"mutants of {top}", results=[_DESIGN], name="apply")
    ports = [*emitted.manifest["ports"], {"name": SELECT, "direction": "input", "width": width, "meaning": ""}]
    text = f"{_LINT_OFF}\n{(folder / _DESIGN).read_text()}"
    design = replace(emitted, modules={top: text}, manifest={**emitted.manifest, "ports": ports})
    inputs = tuple(port["name"] for port in emitted.manifest["ports"] if port["direction"] == "input")
    return MutatedUnit(design=design, inputs=inputs, mutants=mutants)


def words_of(line: str) -> list[str]:
    """Words of a command of Yosys, which may hold names with a backslash in front."""
    return shlex.split(line.replace("\\", "\\\\"))


def is_clock(words: Sequence[str]) -> bool:
    """Return whether a mutant is in a clock: when a register takes its value over is not part of the description."""
    return words[words.index("-port") + 1].endswith("CLK")


def _mutant(number: int, line: str) -> Mutant:
    words = words_of(line)
    fields = {name: words[place + 1] for place, name in enumerate(words) if name.startswith("-")}
    sources = [words[place + 1] for place, name in enumerate(words) if name == "-src"]
    ctrl = fields.get("-ctrlbit", "")
    return Mutant(
        number=number,
        module=fields["-module"].removeprefix("\\"),
        cell=fields["-cell"].removeprefix("\\"),
        port=fields["-port"].removeprefix("\\"),
        bit=int(fields["-portbit"]),
        change=MODES[fields["-mode"]].format(ctrl=ctrl),
        source=_place(sources),
        command=line,
    )


def _place(sources: list[str]) -> str:
    """File, from the package on, and line of the first source in the package, else of the first one."""
    root = f"{Path(xpulpnn.__file__).parent.parent}/"
    ours = [source.removeprefix(root) for source in sources if source.startswith(root)]
    return ours[0] if ours else sources[0] if sources else ""
