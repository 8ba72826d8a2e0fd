"""Filling of the texts under ``templates``."""

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "templates"
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def template(name: str) -> str:
    """The text of a file under ``templates``."""
    return (_FOLDER / name).read_text()


def fill(name: str, **values: object) -> str:
    """A template with ``{{name}}`` replaced by values; each value must have a place and each place a value."""
    text = template(name)
    places = {match[1] for match in _PLACE.finditer(text)}
    assert places == values.keys(), (name, places ^ values.keys())
    return _PLACE.sub(lambda match: str(values[match[1]]), text)
