"""The core's memory ports: OBI, as on RI5CY."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class ObiSignature(wiring.Signature):
    """Initiator's side of an OBI port with 32-bit address and data."""

    def __init__(self):
        super().__init__(
            {
                "req": Out(1),  #: A transfer is requested; it stays high with the same attributes until it is granted.
                "gnt": In(1),  #: The request is accepted in this cycle.
                "addr": Out(32),  #: Word-aligned byte address.
                "we": Out(1),  #: The transfer writes; else it reads.
                "be": Out(4),  #: Bytes of the word that are written or wanted, bit 0 for bits 7:0.
                "wdata": Out(32),  #: Data to write, in its byte lanes.
                #: rvalid: Response to the oldest granted request, a cycle after its grant or later; also to writes.
                "rvalid": In(1),
                "rdata": In(32),  #: Read data, valid with ``rvalid``.
                "err": In(1),  #: The transfer failed, valid with ``rvalid``: the load or store is an access fault.
            }
        )

    def __eq__(self, other):
        return isinstance(other, ObiSignature)

    def __repr__(self):
        return "ObiSignature()"


class InstructionPortSignature(wiring.Signature):
    """Initiator's side of a read-only OBI port with several transfers under way."""

    def __init__(self):
        #: req: A word is requested; it stays high with the same address until it is granted.
        #: gnt: The request is accepted in this cycle.
        #: addr: Word-aligned byte address.
        #: rvalid: Response to the oldest granted request, at least one cycle after its grant.
        #: rdata: Instruction word, valid with ``rvalid``.
        #: err: The word could not be read, valid with ``rvalid``: an access fault if it is executed.
        super().__init__({"req": Out(1), "gnt": In(1), "addr": Out(32), "rvalid": In(1), "rdata": In(32), "err": In(1)})
