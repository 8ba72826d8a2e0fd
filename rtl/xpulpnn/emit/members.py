"""Meanings of ports, read from the ``Members`` section of component docstrings."""

import inspect
import re

from amaranth.lib import wiring

_SECTION = re.compile(r"^Members\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(?P<names>\S[^:\n]*?)\s*(?::[^\n]*)?\n(?P<text>(?:[ \t]+[^\n]*\n?|\n)*)", re.MULTILINE)


def _documented(component: wiring.Component) -> dict[str, str]:
    section = _SECTION.search(inspect.getdoc(component) or "")
    if section is None:
        return {}
    meanings = {}
    for entry in _ENTRY.finditer(section.group(1)):
        text = " ".join(entry["text"].split())
        for name in entry["names"].split(","):
            meanings[name.strip().strip("`")] = text
    return meanings


def member_meanings(component: wiring.Component) -> dict[str, str]:
    """Meaning of every flattened port that the docstring covers.

    A port takes the text of the longest documented prefix of its path: ``insn__payload__word`` that of
    ``insn.payload``, else that of ``insn``.
    """
    documented = {name.replace(".", "__"): text for name, text in _documented(component).items()}
    meanings = {}
    for path, _member, _value in component.signature.flatten(component):
        for length in range(len(path), 0, -1):
            text = documented.get("__".join(map(str, path[:length])))
            if text is not None:
                meanings["__".join(map(str, path))] = text
                break
    return meanings
