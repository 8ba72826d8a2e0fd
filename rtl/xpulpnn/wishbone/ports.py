"""Wishbone B4 ports as seen by the manager."""

from amaranth.lib import enum

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.machine import WORD_BYTES, XLEN

WORD_OFFSET_BITS = (WORD_BYTES - 1).bit_length()


class CycleType(enum.Enum, shape=3):
    """Cycle type identifiers for subordinates that support bursts."""

    CLASSIC = 0b000
    INCREMENTING = 0b010
    END_OF_BURST = 0b111


class WishboneSignature(PortSignature):
    """Wishbone B4 port with 32 bits of data, addressed in words, as seen by the manager.

    Classic cycles; the addresses of a burst increase without wrapping.
    """

    adr: Out(XLEN - WORD_OFFSET_BITS)  #: Number of the word.
    dat_w: Out(XLEN)  #: Data to write, in their byte lanes.
    dat_r: In(XLEN)  #: Data read, valid with ``ack``.
    sel: Out(WORD_BYTES)  #: Bytes of the word that are written or read, bit 0 for bits 7:0.
    cyc: Out(1)  #: The port uses the bus; high from the first to the last transfer of a burst.
    stb: Out(1)  #: A transfer is requested; it stays high with the same attributes until it ends.
    we: Out(1)  #: The transfer writes; else it reads.
    cti: Out(CycleType)  #: Cycle type: whether another transfer of the burst follows.
    bte: Out(2)  #: Constant 0: addresses of a burst increase linearly.
    ack: In(1)  #: The transfer ends in this cycle.
    err: In(1)  #: The transfer ends in this cycle and has failed.
