"""Bus ports: OBI."""

from amaranth.hdl import Cat, Signal

_WORD_BYTES = 4


def watch_bus(m, name, port, outstanding, limit):
    """Return what goes wrong if a port does not keep to the protocol.

    A request stays, with the same attributes, until it is granted. Addresses are those of words. Bytes enabled are next
    to each other, and there is one at least. No more transfers than ``limit`` are under way: a request is made only
    where there is room for it, or an answer makes room in the same cycle.
    """
    writes = hasattr(port, "we")
    asked = Cat(port.addr, *((port.we, port.be, port.wdata) if writes else ()))
    pending, kept = Signal(name=f"{name}_waits"), Signal(len(asked), name=f"{name}_kept")
    m.d.sync += [pending.eq(port.req & ~port.gnt), kept.eq(asked)]
    wrong = {
        f"{name} request withdrawn": pending & ~port.req,
        f"{name} request changed": pending & (asked != kept),
        f"{name} address": port.req & (port.addr[:2] != 0),
        f"{name} too many": port.req & (outstanding - port.rvalid >= limit),
    }
    if writes:
        runs = [((1 << length) - 1) << first for length in range(1, 5) for first in range(_WORD_BYTES + 1 - length)]
        wrong[f"{name} bytes"] = port.req & ~Cat(port.be == each for each in runs).any()
    return wrong
