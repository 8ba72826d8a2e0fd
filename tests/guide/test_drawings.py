"""The drawing of the house is the house."""

import ast
from pathlib import Path

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.guide.drawings import HOUSE, house, pipeline, timing

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
LEVEL = {folder: -row for row, layer in enumerate(HOUSE) for folder in layer.folders}


def owner(module: str) -> str | None:
    """The folder of the drawing that a module is in."""
    return next((folder for folder in LEVEL if module == folder or module.startswith(f"{folder}.")), None)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_imports_go_down_or_stay_on_their_layer():
    seen = set()
    for root in ("rtl", "sw", "sim"):
        for path in sorted((ROOT / root).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT / root).with_suffix("").parts)
            importer = owner(module)
            seen.add(importer)
            for name in imported(path):
                target = owner(name)
                if importer and target:
                    assert LEVEL[target] <= LEVEL[importer], f"{module} imports {name}"
    assert seen >= {folder for folder in LEVEL if (ROOT / "sim" / folder.replace(".", "/")).is_dir()}


def test_every_folder_is_drawn():
    folders = {
        f"xpulpnn_sim.{path.name}" for path in (ROOT / "sim/xpulpnn_sim").iterdir() if (path / "__init__.py").is_file()
    }
    assert not folders - LEVEL.keys()


def test_drawings_are_whole():
    for drawing in (house(), pipeline(), timing("obi")):
        assert drawing.startswith("```{raw} html\n<div")
        assert drawing.count("<svg") == drawing.count("</svg>") == 1


def test_unknown_timing():
    with pytest.raises(InputError, match=r"^timing must be one of obi, fetch, sleep, start, not axi$"):
        timing("axi")
