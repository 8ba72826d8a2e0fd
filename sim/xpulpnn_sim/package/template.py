"""Filling of the texts under ``templates``."""

import re
from pathlib import Path

from xpulpnn_sim.package.design import GENERATED

_FOLDER = Path(__file__).parent / "templates"
_SHARED = ("fail", "noise")
"""Pieces that several texts have on lines of their own."""

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def template(name: str) -> str:
    """The text of the file ``name`` under ``templates``, with what all of them share."""
    text = _source(name)
    text = text.replace("{{generated}}", GENERATED)
    for name in _SHARED:
        text = text.replace(f"{{{{{name}}}}}\n", _source(f"{name}.v"))
    return text


def _source(name: str) -> str:
    return (_FOLDER / f"{name}.in").read_text()


def fill(name: str, **values: object) -> str:
    """A template with ``{{name}}`` replaced by values; each value must have a place and each place a value."""
    text = template(name)
    places = {match[1] for match in _PLACE.finditer(text)}
    assert places == values.keys(), (name, places ^ values.keys())
    return _PLACE.sub(lambda match: str(values[match[1]]), text)
