"""The README is one page, and its pictures show its figures."""

import re
from xml.etree import ElementTree

import pytest
from docs.generate.pictures import CHARTS, FOLDER, ROOT, main, picture

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.tree import COMMANDS

NAMES = sorted(path.stem for path in FOLDER.glob("*.svg"))
README = (ROOT / "README.md").read_text()


def test_readme_is_one_page():
    assert len(README.splitlines()) <= 130


def test_charts_are_as_drawn_and_pictures_of_the_readme_exist(tmp_path):
    main(tmp_path)
    for name in CHARTS:
        committed = (FOLDER / f"{name}.svg").read_text()
        assert committed == (tmp_path / f"{name}.svg").read_text(), "make pictures draws them anew"
    assert {*re.findall(r'src="docs/pictures/(\w+).svg"', README)} == {*CHARTS, "system"} <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_whole_and_follows_light_and_dark(name):
    drawing = (FOLDER / f"{name}.svg").read_text()
    assert ElementTree.fromstring(drawing).get("aria-label")
    used = set(re.findall(r"var\((--[\w-]+)\)", drawing))
    style = re.search(r"<style>(.+?)(@media.+?)</style>", drawing, re.DOTALL)
    assert style is not None
    light, dark = style.groups()
    assert all(f"{variable}:" in light for variable in used)
    assert all(f"{variable}:" in dark for variable in used if "color" in variable)
    assert "<style>" not in picture(name)
    assert "</svg></div>" in picture(name)


def test_an_unknown_picture_is_reported():
    with pytest.raises(InputError, match=r"picture must be one of area, .*, not elephant"):
        picture("elephant")


def test_checks_name_commands_that_exist():
    drawn = ElementTree.parse(FOLDER / "checks.svg").getroot().itertext()
    named = {part for text in drawn for part in re.findall(r"(?:prove|mutate|verify) [a-z]+", text)}
    assert len(named) > 8
    assert named <= {*COMMANDS}
