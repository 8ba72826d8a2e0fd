"""Dot product whose format and signs come decoded."""

from collections.abc import Callable
from functools import reduce
from operator import and_, or_

from amaranth.hdl import Const, Module, Value
from amaranth.lib.wiring import Member

from xpulpnn.component import In
from xpulpnn.dotp.ctrl import ArrayFormat
from xpulpnn.dotp.shared import Choice, DotpShared
from xpulpnn.isa.formats import ElemFmt


class DecodedDotp(DotpShared):
    """The sum of products of :class:`~xpulpnn.dotp.shared.DotpShared`, where masks choose, not multiplexers.

    Without a format ``result`` is 0.
    """

    def ports(self, ports: dict[str, Member]) -> dict[str, Member]:
        """The ports, those of format and signs in one word."""
        kept = {name: port for name, port in ports.items() if name not in ("fmt", "a_signed", "b_signed")}
        return {"fmt": In(ArrayFormat), **kept}  #: fmt: Format and signs.

    def choose(self, m: Module, of: Callable[[ElemFmt], list[Choice]], *, signs: bool = False) -> None:
        """Let signals have their values in the format; ``signs`` if these are 0 without signs."""
        for column in zip(*map(of, self.config.formats), strict=True):
            target, values = column[0][0], [value for _, value in column]
            # bits that are 1 in every format
            always = reduce(and_, (value.value if isinstance(value, Const) else 0 for value in values))
            masks = [self.fmt.chosen[fmt.value].replicate(len(target)) for fmt in self.config.formats]
            masked = values if signs else [value & mask for value, mask in zip(values, masks, strict=True)]
            m.d.comb += target.eq(reduce(or_, masked) | always)

    def format_signs(self, fmt: ElemFmt) -> tuple[Value, Value]:
        """Signs of the two factors in a format."""
        return self.fmt.a_signed[fmt.value], self.fmt.b_signed[fmt.value]
