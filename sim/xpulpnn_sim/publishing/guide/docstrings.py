"""Docstrings as Sphinx understands them."""

import re
from collections.abc import Iterator

from xpulpnn.emit.members import declared_meanings, declared_type

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
