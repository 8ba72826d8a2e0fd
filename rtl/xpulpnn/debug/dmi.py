"""Debug module interface (DMI) between transport and debug module, and the access to registers inside the module."""

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.debug import DMI_ADDRESS_BITS
from xpulpnn.isa.machine import XLEN


class DmiSignature(PortSignature):
    """Debug module interface, as seen by the transport. An access takes one cycle; every cycle may have one."""

    valid: Out(1)  #: An access.
    write: Out(1)  #: The access writes; else it reads.
    addr: Out(DMI_ADDRESS_BITS)  #: Number of the register.
    wdata: Out(XLEN)  #: Word to write.
    rdata: In(XLEN)  #: The word read, valid from the next cycle to the cycle after the next access.


class AccessSignature(PortSignature):
    """Access to a register of the debug module, as seen by the module; there is none while the module is not active."""

    reads: Out(1)  #: A register is read.
    writes: Out(1)  #: A register is written.
    addr: Out(DMI_ADDRESS_BITS)  #: Number of the register.
    wdata: Out(XLEN)  #: Word to write.
    rdata: In(XLEN)  #: Value of the register; 0 if it belongs to another block.
