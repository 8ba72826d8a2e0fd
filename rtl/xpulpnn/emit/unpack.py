"""Chooses the fields into which the text takes a packed structure apart: one net each, in one assignment."""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from xpulpnn.emit.values import Slice

_MIN_FIELDS = 3  # fields that are read, from which on one assignment reads better than a select for each
_MIN_SHARE = 0.5  # of the fields of an assignment that must be read


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An assignment of a structure to its fields, most significant first."""

    structure: Slice
    fields: tuple[Slice, ...]


def unpacked(structure: Slice, fields: Iterable[Slice], read: Set[Slice]) -> list[Unpacked]:
    """Assignments that give every field in ``read`` a net; none if selects read better.

    A field that is read as a whole and has fields that are read is taken apart in an assignment of its own.
    """
    own = [field for field in fields if field.width < structure.width]
    inner = [field for field in own if not any(_contains(other, field) for other in own)]
    inner.sort(key=lambda field: -field.low)
    if sum(field.width for field in inner) != structure.width:
        return []
    items: list[Slice] = []
    nested: list[Unpacked] = []
    for field in inner:
        parts = [part for part in own if _contains(field, part)]
        within = unpacked(field, parts, read) if not read.isdisjoint(parts) else []
        if within and field not in read:
            first, *rest = within
            items += first.fields
            nested += rest
        else:
            items.append(field)
            nested += within
    used = sum(item in read for item in items)
    worthwhile = used >= _MIN_FIELDS and used >= _MIN_SHARE * len(items)
    return [Unpacked(structure, tuple(items)), *nested] if worthwhile else []


def _contains(outer: Slice, inner: Slice) -> bool:
    """Return whether a field is a part of another."""
    return outer.width > inner.width and outer.low <= inner.low and inner.low + inner.width <= outer.low + outer.width
