from collections.abc import Callable
from functools import reduce
from operator import or_

from amaranth.hdl import Const, Module, Mux, Value
from amaranth.lib.wiring import Member

from xpulpnn.component import In
from xpulpnn.dotp.ctrl import ArrayFormat
from xpulpnn.dotp.shared import Choice, DotpShared
from xpulpnn.isa.formats import ElemFmt


class DecodedDotp(DotpShared):
    """The sum of products of :class:`~xpulpnn.dotp.shared.DotpShared`, with AND-OR selection instead of multiplexers.

    If ``fmt`` selects no format, ``result`` is 0.
    """

    def ports(self, ports: dict[str, Member]) -> dict[str, Member]:
        others = {name: port for name, port in ports.items() if name not in ("fmt", "a_signed", "b_signed")}
        return {"fmt": In(ArrayFormat), **others}

    def choose(self, m: Module, choices: Callable[[ElemFmt], list[Choice]], *, signs: bool = False) -> None:
        for column in zip(*map(choices, self.config.formats), strict=True):
            target, values = column[0][0], [value for _, value in column]
            chosen = [self.fmt.chosen[fmt.value] for fmt in self.config.formats]
            if all(isinstance(value, Const) for value in values):
                # the last format is the default: ABC makes a ripple carry behind sums of masked formats
                pairs = list(zip(chosen, values, strict=True))
                value = reduce(lambda other, choice: Mux(*choice, other), pairs[-2::-1], values[-1])
            elif signs:
                value = reduce(or_, values)
            else:
                value = reduce(
                    or_, (word & bit.replicate(len(target)) for bit, word in zip(chosen, values, strict=True))
                )
            m.d.comb += target.eq(value)

    def format_signs(self, fmt: ElemFmt) -> tuple[Value, Value]:
        return self.fmt.a_signed[fmt.value], self.fmt.b_signed[fmt.value]
