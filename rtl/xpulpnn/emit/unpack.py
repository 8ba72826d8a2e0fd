"""Chooses how one assignment unpacks a structure into nets of its fields."""

from collections.abc import Iterable, Set

from xpulpnn.emit.values import Slice

_MIN_FIELDS = 3  # selects read better for fewer read fields
_MIN_SHARE = 0.5  # minimal share of read fields in an assignment

Unpacked = tuple[Slice, tuple[Slice, ...]]  # a structure, and its fields, most significant first


def unpacked(structure: Slice, fields: Iterable[Slice], read: Set[Slice]) -> list[Unpacked]:
    """Return assignments that give every field in ``read`` a net; none if bit selects are more readable.

    A field that is read both whole and by its inner fields is unpacked by a separate assignment.
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
            (_, inside), *rest = within
            items += inside
            nested += rest
        else:
            items.append(field)
            nested += within
    used = sum(item in read for item in items)
    worthwhile = used >= _MIN_FIELDS and used >= _MIN_SHARE * len(items)
    return [(structure, tuple(items)), *nested] if worthwhile else []


def _contains(outer: Slice, inner: Slice) -> bool:
    return outer.width > inner.width and outer.low <= inner.low and inner.low + inner.width <= outer.low + outer.width
