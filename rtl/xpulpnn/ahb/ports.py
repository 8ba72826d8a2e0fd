"""AHB-Lite ports as seen by the manager."""

from amaranth.lib import enum

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.machine import XLEN


class Transfer(enum.Enum, shape=2):
    """Kinds of transfers that are used."""

    IDLE = 0
    NONSEQ = 2
    SEQ = 3


class Burst(enum.Enum, shape=3):
    """Kinds of bursts that are used."""

    SINGLE = 0
    INCR4 = 3


class AhbSignature(PortSignature):
    """AHB-Lite port with 32 bits of data, as seen by the manager."""

    haddr: Out(XLEN)  #: Byte address, a multiple of the size.
    htrans: Out(Transfer)  #: Kind of the transfer: none, the first of a burst, or a further one.
    hburst: Out(Burst)  #: Kind of the burst: one transfer, or four words at increasing addresses.
    hsize: Out(3)  #: Logarithm of the bytes of the transfer: 0, 1 or 2.
    hwrite: Out(1)  #: The transfer writes; else it reads.
    hprot: Out(4)  #: Protection, constant: 3, a privileged data access, or 2, a privileged fetch; neither is buffered.
    hmastlock: Out(1)  #: Constant 0: no sequence of transfers is locked.
    hwdata: Out(XLEN)  #: Data to write, in their byte lanes, in the cycles after those of the address.
    hrdata: In(XLEN)  #: Data read, in their byte lanes, valid with ``hready``.
    hready: In(1)  #: The transfer of the cycles before ends, and that of the current address begins.
    hresp: In(1)  #: The transfer of the cycles before fails; for two cycles, of which the second has ``hready``.
