"""AXI4 ports as seen by the manager, of which those here make incrementing bursts of the whole width."""

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.machine import BYTE_BITS, XLEN

LENGTH_BITS = 8  # bits of the number of transfers in a burst, less one

RESPONSE_BITS = 2
BURST_FIXED, BURST_INCREMENTING, BURST_WRAPPING = range(3)
DEVICE, MEMORY = 0, 2  # memory attributes: a device, or normal memory that is not cached; neither is buffered
PRIVILEGED, INSTRUCTION = 1, 4  # bits of the protection

_ADDRESS = {
    "id": (1, "Identifier of a burst that {}; 0 where everything is answered in its order."),
    "addr": (XLEN, "Byte address of the first transfer of a burst that {}."),
    "len": (LENGTH_BITS, "Transfers of a burst that {}, less one."),
    "size": (3, "Logarithm of the bytes of a transfer of a burst that {}; constant at managers."),
    "burst": (2, "Addresses of a burst that {} stay (0), increase (1; constant at managers) or wrap (2)."),
    "lock": (1, "Exclusive access of a burst that {}; constant 0 at managers, ignored by subordinates."),
    "cache": (4, "Memory attributes of a burst that {}; of managers 0 for single accesses, 2 for runs and fetches."),
    "prot": (3, "Protection of a burst that {}; 1 at managers: privileged."),
    "valid": (1, "There is the address of a burst that {}; it stays until it is taken."),
    "ready": (1, "The address of a burst that {} is taken in this cycle."),
}
"""Widths and meanings of the signals of an AXI address channel."""


class AxiSignature(PortSignature):
    """AXI4 port as seen by the manager, with ``bits`` of data; without ``writes`` it has no channels to write."""

    PORT_MEANINGS = {
        f"{channel}{name}": text.format(verb)
        for channel, verb in (("aw", "writes"), ("ar", "reads"))
        for name, (_, text) in _ADDRESS.items()
    }

    #: arprot: Protection of a burst that reads; at managers 1, privileged, or 5 on an instruction port.

    def __init__(self, bits: int, *, writes: bool = True, id_bits: int = 1):
        self.bits = bits
        members = {}
        for channel in ("aw", "ar") if writes else ("ar",):
            members |= {f"{channel}{name}": Out(width) for name, (width, _) in _ADDRESS.items()}
            members |= {f"{channel}id": Out(id_bits), f"{channel}ready": In(1)}
        if writes:
            members |= {
                "wdata": Out(bits),  #: Data to write, in their byte lanes.
                "wstrb": Out(bits // BYTE_BITS),  #: Bytes of the transfer that are written, a bit each.
                "wlast": Out(1),  #: Last transfer of a burst that writes.
                "wvalid": Out(1),  #: The data to write are valid; they stay until they are accepted.
                "wready": In(1),  #: The data to write are accepted in this cycle.
                "bid": In(id_bits),  #: Identifier of the answer to a burst of writes.
                "bresp": In(RESPONSE_BITS),  #: Answer to a burst of writes: bit 1 marks a failure.
                "bvalid": In(1),  #: The answer to a burst of writes is valid.
                "bready": Out(1),  #: The answer to a burst of writes is accepted in this cycle, if it is valid.
            }
        members |= {
            "rid": In(id_bits),  #: Identifier of the data read.
            "rdata": In(bits),  #: Data read.
            "rresp": In(RESPONSE_BITS),  #: Answer to a transfer that reads: bit 1 marks a failure.
            "rlast": In(1),  #: Last transfer of a burst that reads.
            "rvalid": In(1),  #: The data read are valid.
            "rready": Out(1),  #: The data read are accepted in this cycle, if they are valid.
        }
        super().__init__(members)


def failed(response):
    return response[-1]
