"""Verilog that a bench runs on: ours, files of the user, or a netlist that Yosys makes."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.tools.files import require_folder, write_text
from xpulpnn_sim.tools.yosys import find_yosys

_LIBERTY = "cells.lib"
_PORTS = "ports.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerilogSource:
    files: tuple[Path, ...] = ()  # Verilog in place of ours
    cells: tuple[Path, ...] = ()  # models of the cells in `files`
    top: str = ""  # module under test in `files`; empty: the only one that no other contains
    netlist: bool = False  # synthesise our Verilog, and run on the netlist
    liberty: Path | None = None  # cells of the netlist; None: gates of Yosys
    yosys: str = ""  # as in ``--yosys``

    @property
    def label(self) -> str:
        if self.files:
            return self.files[0].stem
        return f"netlist-{self.liberty.stem if self.liberty else 'gates'}" if self.netlist else ""

    def design(self, ours: EmittedVerilog, folder: Path) -> EmittedVerilog:
        """Return the Verilog under test, which must have the ports of our Verilog; Yosys works in ``folder``.

        Raises :class:`InputError` if a port is missing or differs, and :class:`~xpulpnn.errors.ToolError` for
        Verilog that Yosys does not read.
        """
        if self.files:
            return self._of_files(ours, folder)
        return self._netlist(ours, folder) if self.netlist else ours

    def _of_files(self, ours: EmittedVerilog, folder: Path) -> EmittedVerilog:
        texts = {f"{number}_{path.name}": path.read_text(errors="replace") for number, path in enumerate(self.files)}
        models = {f"cells_{number}.v": path.read_text(errors="replace") for number, path in enumerate(self.cells)}
        work = _workplace(folder, texts | models)
        choice = f"-top {self.top}" if self.top else "-auto-top"
        script = [f"read_verilog -sv {name}" for name in texts] + [f"read_verilog -sv -lib {name}" for name in models]
        script += [f"hierarchy {choice}", "proc", f"write_json {_PORTS}"]
        find_yosys(self.yosys).run("\n".join(script), work, what=str(self.files[0]), results=[_PORTS])
        modules: Mapping[str, Any] = json.loads((work / _PORTS).read_text())["modules"]
        top = next(name for name, module in modules.items() if int(str(module["attributes"].get("top", "0")), 2))
        unchecked = _require_ports(ours, top, modules[top]["ports"])
        return _replaced(ours, top, "\n".join([*texts.values(), *models.values()]), unchecked)

    def _netlist(self, ours: EmittedVerilog, folder: Path) -> EmittedVerilog:
        top = ours.manifest["top"]
        work = _workplace(folder, {"rtl.v": ours.text})
        script = ["read_verilog rtl.v", f"synth -flatten -top {top}"]
        if self.liberty is None:
            script += ["abc -g gates", "opt_clean", "write_verilog -noattr netlist.v"]
        else:
            shutil.copyfile(self.liberty, work / _LIBERTY)
            script += [f"dfflibmap -liberty {_LIBERTY}", f"abc -liberty {_LIBERTY}", "opt_clean"]
            script += ["write_verilog -noattr netlist.v", f"read_liberty -ignore_miss_func {_LIBERTY}"]
            # the functions of the cells take the place of the cells, since simulators read no Liberty
            script += [f"hierarchy -top {top}", "flatten", "opt_clean", "write_verilog -noattr functions.v"]
        name = "functions.v" if self.liberty else "netlist.v"
        find_yosys(self.yosys).run("\n".join(script), work, what=top, results=["netlist.v", name])
        return _replaced(ours, top, (work / name).read_text())


OURS = VerilogSource()


def _workplace(folder: Path, files: Mapping[str, str]) -> Path:
    work = folder / "yosys"
    require_folder(work, "--output")
    for name, text in files.items():
        write_text(work / name, text)
    return work


def _replaced(ours: EmittedVerilog, top: str, text: str, unchecked: Sequence[str] = ()) -> EmittedVerilog:
    manifest = {**ours.manifest, "top": top, "unchecked": unchecked}
    return replace(ours, header="", modules={top: text}, manifest=manifest)


def _described(direction: str, width: int) -> str:
    return f"an {direction} of {width} bit{'s' if width > 1 else ''}"


def _require_ports(ours: EmittedVerilog, top: str, theirs: Mapping[str, Any]) -> list[str]:
    """Raise :class:`InputError` for a port that our unit has otherwise; return the outputs that it does not have."""
    needed = {port["name"]: (port["direction"], port["width"]) for port in ours.manifest["ports"]}
    found = {name: (port["direction"], len(port["bits"])) for name, port in theirs.items()}
    for name, port in needed.items():
        if found.get(name) != port:
            has = "none" if name not in found else _described(*found[name])
            needs = f"the port {name} of the unit with this --preset, {_described(*port)}"
            raise InputError(f"{top} in --verilog must have {needs}, not {has}")
    others = [name for name in found if name not in needed]
    for name in (name for name in others if found[name][0] == "input"):
        raise InputError(f"{top} in --verilog must not have the input {name}, which the bench does not drive")
    return others
