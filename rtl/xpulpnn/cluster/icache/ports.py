"""Ports of the instruction caches."""

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.cluster import ICACHE_LINE_BYTES
from xpulpnn.isa.machine import BYTE_BITS, XLEN

LINE_BITS = ICACHE_LINE_BYTES * BYTE_BITS
LINE_OFFSET_BITS = (ICACHE_LINE_BYTES - 1).bit_length()
LINE_NUMBER_BITS = XLEN - LINE_OFFSET_BITS
REFILL_BYTES = 8
REFILL_BITS = REFILL_BYTES * BYTE_BITS
LINE_BEATS = ICACHE_LINE_BYTES // REFILL_BYTES  # transfers of the refill port that a line takes


class LineSignature(PortSignature):
    """Initiator's side of a read-only port for lines of instructions; one request outstanding."""

    req: Out(1)  #: A line is requested; it stays high with the same address until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(LINE_NUMBER_BITS)  #: Number of the line: its address without the bits inside the line.
    rvalid: In(1)  #: Response, at least one cycle after the grant.
    rdata: In(LINE_BITS)  #: The line, its first byte in bits 7:0; valid with ``rvalid``.
    err: In(LINE_BEATS)  #: Which halves of it could not be read, valid with ``rvalid``.


class RefillSignature(PortSignature):
    """Initiator's side of the port through which the instruction cache reads memory; several transfers under way."""

    req: Out(1)  #: A double word is requested; it stays high with the same address until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(XLEN)  #: Byte address, a multiple of 8.
    rvalid: In(1)  #: Response to the oldest granted request, at least one cycle after its grant.
    rdata: In(REFILL_BITS)  #: The double word, valid with ``rvalid``.
    err: In(1)  #: It could not be read, valid with ``rvalid``: executing it is an instruction access fault.


class CacheControlSignature(PortSignature):
    """Controls of a level of the instruction cache."""

    enable: Out(1)  #: Lines are kept; else every request goes to the next level, and what was kept is forgotten.
    prefetch: Out(1)  #: The next line is fetched ahead.
    flush: Out(1)  #: Forget all lines; a pulse.
    flush_line: Out(1)  #: Forget the line ``line``, and with it all lines of its set; a pulse.
    line: Out(LINE_NUMBER_BITS)  #: Number of a line, with ``flush_line``.
