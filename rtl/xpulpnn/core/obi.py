"""The core's memory ports: OBI, as on RI5CY."""

from xpulpnn.component import In, Out, PortSignature


class ObiSignature(PortSignature):
    """OBI port with 32-bit address and data, as seen by the initiator."""

    req: Out(1)  #: A transfer is requested; it stays high with the same attributes until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(32)  #: Word-aligned byte address.
    we: Out(1)  #: The transfer writes; else it reads.
    be: Out(4)  #: Bytes of the word that are written or read, bit 0 for bits 7:0.
    wdata: Out(32)  #: Data to write, in their byte lanes.
    rvalid: In(1)  #: Response to the oldest granted request, a cycle after its grant or later; also to writes.
    rdata: In(32)  #: Read data, valid with ``rvalid``.
    err: In(1)  #: The transfer failed, valid with ``rvalid``: the load or store is an access fault.


class InstructionPortSignature(PortSignature):
    """Read-only OBI port with several outstanding transfers, as seen by the initiator."""

    req: Out(1)  #: A word is requested; it stays high with the same address until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(32)  #: Word-aligned byte address.
    rvalid: In(1)  #: Response to the oldest granted request, at least one cycle after its grant.
    rdata: In(32)  #: Instruction word, valid with ``rvalid``.
    err: In(1)  #: The word could not be read, valid with ``rvalid``: an access fault if it is executed.
