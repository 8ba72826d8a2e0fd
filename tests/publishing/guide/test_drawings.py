"""The drawing of the house is the house."""

from pathlib import Path

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide.drawings import HOUSE, nnrf, pipeline, timing

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
DRAWN = {folder for layer in HOUSE for folder in layer.folders}


def test_every_folder_is_drawn():
    folders = {
        f"xpulpnn_sim.{path.name}" for path in (ROOT / "sim/xpulpnn_sim").iterdir() if (path / "__init__.py").is_file()
    }
    assert not folders - DRAWN


def test_drawings_are_whole():
    for drawing in (nnrf(), pipeline(), timing("obi")):
        assert drawing.startswith("```{raw} html\n<div")
        assert drawing.count("<svg") == drawing.count("</svg>") == 1


def test_unknown_timing():
    with pytest.raises(InputError, match=r"^timing must be one of obi, fetch, sleep, start, not axi$"):
        timing("axi")
