"""Signatures of ports inside the cluster other than OBI, and a one-hot multiplexer."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Mux, Value, ValueLike

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.config import EXT_DATA_BITS
from xpulpnn.isa.cluster import ICACHE_LINE_BYTES
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, XLEN

LINE_BITS = ICACHE_LINE_BYTES * BYTE_BITS
LINE_OFFSET_BITS = (ICACHE_LINE_BYTES - 1).bit_length()
LINE_NUMBER_BITS = XLEN - LINE_OFFSET_BITS
REFILL_BYTES = 8
REFILL_BITS = REFILL_BYTES * BYTE_BITS
LINE_BEATS = ICACHE_LINE_BYTES // REFILL_BYTES  # transfers of the refill port per line


class LineSignature(PortSignature):
    """Read-only port for lines of instructions, as seen by the initiator; one request outstanding."""

    req: Out(1)  #: A line is requested; it stays high with the same address until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(LINE_NUMBER_BITS)  #: Number of the line: its address without the bits inside the line.
    rvalid: In(1)  #: Response, at least one cycle after the grant.
    rdata: In(LINE_BITS)  #: The line, its first byte in bits 7:0; valid with ``rvalid``.
    err: In(LINE_BEATS)  #: Halves of the line that could not be read, valid with ``rvalid``.


class RefillSignature(PortSignature):
    """Port through which the instruction cache reads memory, as seen by the cache; several reads outstanding."""

    req: Out(1)  #: A double word is requested; it stays high with the same address until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(XLEN)  #: Byte address, a multiple of 8.
    rvalid: In(1)  #: Response to the oldest granted request, at least one cycle after its grant.
    rdata: In(REFILL_BITS)  #: The double word, valid with ``rvalid``.
    err: In(1)  #: Read failure, with ``rvalid``: executing the data is an instruction access fault.


class CacheControlSignature(PortSignature):
    """Controls of all instruction caches of one level."""

    enable: Out(1)  #: Lines are stored; else every request goes to the next level, and the cache is empty.
    prefetch: Out(1)  #: The next line is prefetched.
    flush: Out(1)  #: Invalidate all lines; a pulse.
    flush_line: Out(1)  #: Invalidate the set of the line ``line``; a pulse.
    line: Out(LINE_NUMBER_BITS)  #: Number of a line, with ``flush_line``.


def one_hot_mux(wins: Value | Sequence[Value], values: Iterable[ValueLike]) -> Value:
    """Select one of ``values`` by the one-hot select bits ``wins``; the result is 0 if no bit is set."""
    return reduce(or_, (Mux(won, value, 0) for won, value in zip(wins, values, strict=True)))


RUN_BYTES = 256
"""Size of the aligned block that contains a run: a sequence of 64-bit transfers to consecutive addresses."""

WRITE_BLOCK_BYTES = 64
"""Size of the aligned blocks of memory for which a run makes all its writes without a read between them."""

REQUEST_FIELDS = ("addr", "we", "be", "wdata")  # signals of an OBI request
RESPONSE_FIELDS = ("rdata", "err")  # signals of an OBI response


class RequestSignature(PortSignature):
    """Request signals of an OBI port, as seen by the initiator."""

    req: Out(1)  #: A transfer is requested; it stays high with the same attributes until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    #: addr, we, be, wdata: As in OBI.
    addr: Out(XLEN)
    we: Out(1)
    be: Out(WORD_BYTES)
    wdata: Out(XLEN)


class DmaPortSignature(PortSignature):
    """External port of the DMA engine, as seen by the engine: OBI with 64 bits of data.

    Several transfers may be outstanding; reads and writes are answered in the order of their grants. Transfers to
    consecutive addresses are announced as a run, so that a bridge can make a burst of them. Transfers of a run of reads
    and a run of writes may alternate, but no read comes between writes of one run to the same aligned block of 64
    bytes. The answers to writes may wait until the last write of the block is granted.
    """

    req: Out(1)  #: A transfer is requested; it stays high with the same attributes until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(XLEN)  #: Byte address, a multiple of eight.
    we: Out(1)  #: The transfer writes; else it reads.
    be: Out(EXT_DATA_BITS // BYTE_BITS)  #: Bytes that are written or read, bit 0 for bits 7:0.
    wdata: Out(EXT_DATA_BITS)  #: Data to write, in their byte lanes.
    #: beats: Remaining transfers of the run, including this one: 1 to 32. A run does not cross a multiple of 256 bytes.
    beats: Out(range(RUN_BYTES * BYTE_BITS // EXT_DATA_BITS + 1))
    #: rvalid: Response to the oldest granted request, at least one cycle after its grant; writes are answered too.
    rvalid: In(1)
    rdata: In(EXT_DATA_BITS)  #: Read data, valid with ``rvalid``.
    err: In(1)  #: The transfer failed, valid with ``rvalid``.
