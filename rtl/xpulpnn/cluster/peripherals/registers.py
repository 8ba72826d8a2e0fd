"""Registers of a peripheral with an OBI port."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.utils import exact_log2

from xpulpnn.isa.cluster import BLOCK_BYTES
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES


def serve(m: Module, port, values: Mapping[int, Value], size: int = BLOCK_BYTES) -> dict[int, Signal]:
    """Grant every access to ``port`` at once and answer in the next cycle, with an error if there is no register;
    return the write strobes by register. The registers are in a block of ``size`` bytes.
    """
    offset = port.addr[exact_log2(WORD_BYTES) : exact_log2(size)]
    written = {}
    m.d.comb += port.gnt.eq(1)
    m.d.sync += [port.rvalid.eq(port.req), port.err.eq(0)]
    with m.Switch(offset):
        for address, value in values.items():
            with m.Case(address // WORD_BYTES):
                m.d.sync += port.rdata.eq(value)
        with m.Default():
            m.d.sync += [port.rdata.eq(0), port.err.eq(1)]
    for address in values:
        written[address] = strobe = Signal(name=f"writes_{address:x}")
        m.d.comb += strobe.eq(port.req & port.we & (offset == address // WORD_BYTES))
    return written


def written_value(port, value: Value) -> Value:
    """Return the value of a register after the write at ``port``, which changes the enabled bytes."""
    old = Value.cast(value)
    width = len(old)
    parts = []
    for byte in range(WORD_BYTES):
        place = slice(byte * BYTE_BITS, min((byte + 1) * BYTE_BITS, width))
        if place.start < width:
            parts.append(Mux(port.be[byte], port.wdata[place], old[place]))
    return Cat(parts)
