"""Names of the values of enumerations."""

from collections.abc import Iterable, Mapping

from xpulpnn.emit.layout import comment, declared_range
from xpulpnn.emit.names import NameSpace, snake_case
from xpulpnn.emit.rtlil import Enumeration, Sig, Slice, Wire


class Enumerations:
    """The enumerations of one module: which nets have one, and which of their values the text names."""

    def __init__(self, wires: Mapping[str, Wire], aliases: Mapping[str, Sig], space: NameSpace) -> None:
        self._space = space
        self._of: dict[Slice, Enumeration] = {}
        self._used: dict[Enumeration, dict[str, str]] = {}
        for wire in wires.values():
            if wire.enumeration is None:
                continue
            self._of.setdefault(Slice(wire.name, 0, wire.width), wire.enumeration)
            sig = aliases.get(wire.name, ())
            if len(sig) == 1 and isinstance(sig[0], Slice):
                self._of.setdefault(sig[0], wire.enumeration)

    def of(self, *sigs: Sig) -> Enumeration | None:
        """The enumeration of the first of some values that has one."""
        for sig in sigs:
            if len(sig) == 1 and isinstance(sig[0], Slice) and sig[0] in self._of:
                return self._of[sig[0]]
        return None

    def label(self, enumeration: Enumeration | None, bits: str) -> str | None:
        """The name of a value, which will be declared; None if it has none."""
        if enumeration is None:
            return None
        known = self._used.setdefault(enumeration, {})
        if bits not in known:
            member = dict(enumeration.members).get(bits)
            if member is None:
                return None
            known[bits] = self._space.take(f"{snake_case(enumeration.name)}_{member}".upper())
        return known[bits]

    def declarations(self) -> list[str]:
        """A constant for every value that the text names, under a comment with all values of its enumeration."""
        return [line for enumeration, names in self._used.items() if names for line in _declared(enumeration, names)]


def _declared(enumeration: Enumeration, names: Mapping[str, str]) -> Iterable[str]:
    values = ", ".join(f"{int(bits, 2)} {member}" for bits, member in enumeration.members)
    yield from comment(f"{enumeration.name}: {values}.")
    width = len(next(iter(names)))
    constants = ", ".join(f"{names[bits]} = {width}'h{int(bits, 2):x}" for bits in sorted(names))
    yield f"localparam {declared_range(width)}{constants};"
