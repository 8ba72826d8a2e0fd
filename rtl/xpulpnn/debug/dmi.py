"""Interface between transport and debug module, and the access that each block of the module sees."""

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.debug import DMI_ADDRESS_BITS
from xpulpnn.isa.machine import XLEN


class DmiSignature(PortSignature):
    """Transport's side of the interface. An access takes one cycle; every cycle may have one."""

    valid: Out(1)  #: An access.
    write: Out(1)  #: The access writes; else it reads.
    addr: Out(DMI_ADDRESS_BITS)  #: Number of the register.
    wdata: Out(XLEN)  #: Word to write.
    rdata: In(XLEN)  #: The word read, valid from the next cycle to the cycle after the next access.


class AccessSignature(PortSignature):
    """Module's side of an access to its registers; there is no access while the module is not active."""

    reads: Out(1)  #: A register is read.
    writes: Out(1)  #: A register is written.
    addr: Out(DMI_ADDRESS_BITS)  #: Number of the register.
    wdata: Out(XLEN)  #: Word to write.
    rdata: In(XLEN)  #: Value of the register; 0 if it belongs to another block.
