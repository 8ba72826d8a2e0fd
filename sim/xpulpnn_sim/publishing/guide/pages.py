"""Fills what is generated into the pages of the guide.

A page is Markdown; a line ``% generated: NAME [ARGUMENT]`` stands for a table made from the sources.
"""

import re
from collections.abc import Callable, Iterator

from xpulpnn.emit.members import declared_meanings, declared_type
from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import drawings, machine, settings
from xpulpnn_sim.publishing.guide.instructions import instructions

_HEADER = re.compile(r"-{3,}$")


def with_remarks_first(lines: list[str]) -> list[str]:
    """The docstring with the paragraphs behind its sections in front of them.

    Our docstrings end in remarks such as ``Raises :class:`InputError```, which belong to no section; without this they
    are taken for a parameter.
    """
    headers = [at - 1 for at, line in enumerate(lines) if at and _HEADER.match(line) and lines[at - 1].strip()]
    if not headers:
        return lines
    body = lines[headers[0] :]
    at = len(body)
    while at and (not body[at - 1] or _is_prose(body, at - 1)):
        at -= 1
    while at < len(body) and not body[at]:
        at += 1
    remarks = body[at:]
    return [*lines[: headers[0]], *remarks, "", *body[:at]] if remarks else lines


def _is_prose(lines: list[str], at: int) -> bool:
    """Return whether a line is one of a paragraph: flush left, and neither a header nor the head of an entry."""
    following = lines[at + 1] if at + 1 < len(lines) else ""
    is_entry = following.startswith(" ") or _HEADER.match(following) or _HEADER.match(lines[at])
    return not lines[at].startswith(" ") and not is_entry


def members_section(kind: type) -> Iterator[str]:
    """The section that lists the ports of a component, whose meanings stand at their declarations."""
    meanings = declared_meanings(kind)
    if meanings:
        yield from ("", "Members", "-------")
    for name, text in meanings.items():
        declared = declared_type(kind, name)
        yield f"{name} : {declared}" if declared else name
        yield f"    {text}"


_TEXTS = {**machine.TABLES, "house": drawings.house(), "nnrf": drawings.nnrf(), "pipeline": drawings.pipeline()}
_WITH_ARGUMENT: dict[str, Callable[[str], str]] = {
    table.__name__: table
    for table in (instructions, settings.ports, machine.registers, settings.settings, drawings.timing)
}

_MARK = re.compile(r"^% generated: (\S+)(?: (\S+))?$", re.MULTILINE)


def expand_page(text: str, **others: Callable[[], str]) -> str:
    """Return the page with everything generated in its place, by ``others`` too, which the page tells by their names.

    Raises :class:`InputError` for names that do not exist.
    """

    def generated(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        if argument is None and name in _TEXTS:
            return _TEXTS[name]
        if argument is None and name in others:
            return others[name]()
        if argument is not None and name in _WITH_ARGUMENT:
            return _WITH_ARGUMENT[name](argument)
        known = ", ".join([*_TEXTS, *others, *(f"{name} ARGUMENT" for name in _WITH_ARGUMENT)])
        raise InputError(f"generated must be one of {known}, not {match[0]}")

    return _MARK.sub(generated, text)
