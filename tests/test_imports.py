"""The import arrows between the packages, found by reading the sources."""

import ast
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent
OURS = {"xpulpnn", "xpulpnn_sw", "xpulpnn_sim"}
DESCRIPTION = ("xpulpnn.isa", "xpulpnn.config", "xpulpnn.errors")
"""What everything may import: facts, without gates."""

SHARED = tuple(f"xpulpnn_sim.{name}" for name in ("elf", "exits", "files", "retirement", "trace"))
"""What the simulator and the harness of the design have in common."""

ALLOWED = {
    "rtl/xpulpnn/isa": (("xpulpnn.isa", "xpulpnn.errors"), set()),
    "rtl/xpulpnn/config.py": (("xpulpnn.isa", "xpulpnn.errors"), set()),
    "rtl/xpulpnn/errors.py": ((), set()),
    "rtl/xpulpnn/arith": (("xpulpnn.arith",), {"amaranth"}),
    "rtl/xpulpnn/core": (("xpulpnn",), {"amaranth"}),
    "rtl/xpulpnn/dotp": (("xpulpnn",), {"amaranth"}),
    "rtl/xpulpnn/emit": (("xpulpnn",), {"amaranth"}),
    "rtl/xpulpnn/verilog.py": (("xpulpnn",), {"amaranth"}),
    "sw/xpulpnn_sw": ((*DESCRIPTION, "xpulpnn_sw"), {"numpy"}),
    "sim/xpulpnn_sim/golden": ((*DESCRIPTION, "xpulpnn_sim.golden"), {"numpy"}),
    "sim/xpulpnn_sim/bench": (
        (
            "xpulpnn",
            *(f"xpulpnn_sim.{name}" for name in ("bench", "golden", "iss", "stimuli", "verilator")),
            *SHARED,
            "xpulpnn_sw",
        ),
        {"amaranth", "cocotb", "cocotb_tools", "numpy"},
    ),
    "sim/xpulpnn_sim/iss": ((*DESCRIPTION, "xpulpnn_sim.golden", "xpulpnn_sim.iss", *SHARED, "xpulpnn_sw"), {"numpy"}),
}
"""Folder or file: prefixes of our own modules and other packages it may import."""


def sources(place: str) -> list[Path]:
    path = ROOT / place
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return names


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)


@pytest.mark.parametrize("place", ALLOWED)
def test_arrows(place):
    ours, others = ALLOWED[place]
    files = sources(place)
    assert files
    wrong = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in files
        for module in imports(path)
        for top in [module.partition(".")[0]]
        if not (within(module, ours) if top in OURS else top in others or top in sys.stdlib_module_names)
    }
    assert not wrong


def test_every_module_of_the_hardware_package_is_covered():
    covered = {path for place in ALLOWED for path in sources(place)}
    assert set(sources("rtl/xpulpnn")) - covered == {ROOT / "rtl/xpulpnn/__init__.py"}


@pytest.mark.parametrize("root", ["rtl", "sw", "sim"])
def test_package_initialisers_import_nothing(root):
    assert not {path for path in (ROOT / root).rglob("__init__.py") if imports(path)}
