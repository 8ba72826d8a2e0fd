"""A core that holds all its mutants: one model, in which each run chooses the mutant it runs on.

Every mutant has an enable of its own. All of them are registers outside the core that are loaded once, before the
first cycle, so that choosing costs no time in a cycle.
"""

import ctypes
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.core.core import Core
from xpulpnn_sim.cosimulation.model.build import build_model
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, core_rig
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.campaign import (
    LINT_OFF,
    Mutant,
    apply_all,
    fields_of,
    find_places,
    mutant_of,
    places,
)

_DOCUMENTATION = re.compile(r" -(?:src|wire|wirebit) \S+")
_INSTANCE = re.compile(r"^\$flatten((?:\\[^.$]+\.)+)")


def chosen_places(lines: Sequence[str], count: int, seed: int) -> tuple[Mutant, ...]:
    """Mutants in all parts of the core."""
    parts: dict[str, list[str]] = {}
    for line in places(dict.fromkeys(lines)):
        parts.setdefault(_part(fields_of(line)["-cell"]), []).append(line)
    rng, taken = Random(seed), list[tuple[str, str]]()
    names = sorted(parts)
    for name in names:
        rng.shuffle(parts[name])
    shares = _shares([len(parts[name]) for name in names], count)
    for name, share in zip(names, shares, strict=True):
        taken += [(name, line) for line in parts[name][:share]]
    return tuple(
        mutant_of(number, line, module=part or "core", command=_DOCUMENTATION.sub("", line))
        for number, (part, line) in enumerate(taken, start=1)
    )


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    shares, left = [0] * len(sizes), min(count, sum(sizes))
    while left:
        open_ = [at for at, size in enumerate(sizes) if shares[at] < size]
        # whoever has least for its weight comes next
        at = min(open_, key=lambda at: ((shares[at] + 1) / sizes[at] ** 0.5, at))
        shares[at] += 1
        left -= 1
    return shares


def _part(cell: str) -> str:
    """Instance path of the module in which a cell was before all became one; empty for the top."""
    found = _INSTANCE.match(cell)
    if found:
        return found[1].replace("\\", "").rstrip(".")
    return cell.removeprefix("\\").rpartition(".")[0] if cell.startswith("\\") else ""


TOP = "core"
_ENABLE = "mutant_on_"  # what the names of the inputs begin with that turn mutants on; the number follows

_INNER = "core_mutants"
_PLACES_PER_MUTANT = 15

# The retirement port is for verification alone: what leads nowhere else is no place for a mutant.
_FLAT = "flatten\ndelete t:$scopeinfo\nopt_clean -purge\n"
_WORKS = "o:* o:rvfi_* %d %ci*"

_PART = """read_rtlil unit.il
hierarchy -top {top}
proc
memory_collect
hierarchy -top {top}.{place}
flatten
delete t:$scopeinfo
rename {top}.{place} {part}
write_rtlil {part}.il
"""

_SHELL = (
    f"{LINT_OFF}\n"
    """module {top}({names});
{ports}
  import "DPI-C" function int chosen_mutant();
  reg [{count}:0] on;
  initial begin
    on = 0;
    on[chosen_mutant()] = 1'b1;
  end
  {inner} {inner}({pins});
endmodule
{text}"""
)
_CHOICE = """#define EXPORT extern "C" __attribute__((visibility("default")))
static int chosen = 0;
EXPORT void choose_mutant(int number) { chosen = number; }
extern "C" int chosen_mutant() { return chosen; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedCore:
    """The compiled core with its mutants."""

    library: Path
    digest: str  # hash of the design
    mutants: tuple[Mutant, ...]  # what may be chosen; their numbers are 1, 2,

    def choose(self, number: int) -> None:
        """Make the models of this process that are created from now on the mutant ``number``; 0 for the core itself."""
        ctypes.CDLL(str(self.library)).choose_mutant(ctypes.c_int(number))


def mutated_core(config: CoreConfig, count: int, seed: int, folder: Path, yosys: Yosys) -> MutatedCore:
    """Make mutants of a core and compile them."""
    observed = replace(config, rvfi=True)
    number = count * _PLACES_PER_MUTANT
    lines = find_places(Core(observed), TOP, folder, yosys, places=number, seed=seed, more=_FLAT, among=_WORKS)
    mutants = chosen_places(lines, count, seed)
    rename = f"rename {TOP} {_INNER}\n"
    text = apply_all(mutants, lambda mutant: f"{_enable(mutant.number)} 1 1", TOP, folder, yosys, rename)
    _, manifest = cached_emission(TOP, observed)
    text = _shell(manifest["ports"], mutants, text)
    library = build_model(core_rig(text, manifest), added={"choice.cpp": _CHOICE})
    return MutatedCore(library=library, digest=hashlib.sha256(text.encode()).hexdigest(), mutants=mutants)


def write_part(place: str, folder: Path, yosys: Yosys) -> str:
    """Write a flat module of the core alone, for mutants of its cells."""
    part = place.replace(".", "_")
    script = _PART.format(top=TOP, place=place, part=part)
    yosys.run(script, folder, what=place, results=[f"{part}.il"], name=part)
    return part


def command_in(part: str, place: str, mutant: Mutant) -> str:
    """The command of a mutant of the core, in the module that :func:`write_part` has written."""
    cell = "$flatten" + "".join(f"\\{name}." for name in place.split("."))
    rest = mutant.cell.removeprefix(cell)
    inner = f"$flatten{rest}" if rest.startswith("\\") else rest
    return mutant.command.replace(f" {mutant.cell} ", f" {inner} ", 1).replace(f"-module {TOP} ", f"-module {part} ", 1)


def _enable(number: int) -> str:
    return f"{_ENABLE}{number}"


def _shell(ports: Sequence[dict[str, Any]], mutants: Sequence[Mutant], text: str) -> str:
    """The core with the usual ports, around the one with the enables."""
    declared = [f"  {port['direction']} wire [{port['width'] - 1}:0] {port['name']};" for port in ports]
    pins = [f".{port['name']}({port['name']})" for port in ports]
    made = set(re.findall(rf"\b{_ENABLE}\d+\b", text))
    pins += [f".{_enable(mutant.number)}(on[{mutant.number}])" for mutant in mutants if _enable(mutant.number) in made]
    return _SHELL.format(
        top=TOP,
        inner=_INNER,
        names=", ".join(port["name"] for port in ports),
        ports="\n".join(declared),
        pins=", ".join(pins),
        count=max(mutant.number for mutant in mutants),
        text=text,
    )
