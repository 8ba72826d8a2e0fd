"""Filling of the texts under ``templates``."""

import re
from pathlib import Path

from xpulpnn_sim.publishing.packages.design import GENERATED

_FOLDER = Path(__file__).parent / "templates"
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def template(name: str) -> str:
    """The text of the file ``name`` under ``templates``, with the head and the task ``fail`` that all of them share."""
    text = _source(name).replace("{{generated}}", GENERATED)
    return text.replace("{{fail}}\n", _source("fail.v"))


def _source(name: str) -> str:
    return (_FOLDER / f"{name}.in").read_text()


def fill(name: str, **values: object) -> str:
    """A template with ``{{name}}`` replaced by values; each value must have a place and each place a value."""
    text = template(name)
    places = {match[1] for match in _PLACE.finditer(text)}
    assert places == values.keys(), (name, places ^ values.keys())
    return _PLACE.sub(lambda match: str(values[match[1]]), text)
