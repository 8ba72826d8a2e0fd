"""Ports inside the cluster beside OBI (:class:`~xpulpnn.core.obi.ObiSignature`)."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.machine import XLEN

REQUEST_FIELDS = ("addr", "we", "be", "wdata")
"""What belongs to a request of OBI."""


class BankSignature(wiring.Signature):
    """User's side of a single-port memory bank of 32-bit words, or of a memory macro.

    Parameters
    ----------
    words : int
        Words of the bank, a power of two.

    Members
    -------
    req : Out(1)
        An access; banks take one in every cycle.
    we : Out(1)
        It writes; else it reads.
    be : Out(4)
        Bytes of the word that are written.
    addr : Out(log2 words)
        Number of the word.
    wdata : Out(32)
        Data to write.
    rdata : In(32)
        The word read, in the cycle after the access; it need not be kept.
    """

    def __init__(self, words: int):
        self.words = words
        super().__init__(
            {
                "req": Out(1),
                "we": Out(1),
                "be": Out(XLEN // 8),
                "addr": Out((words - 1).bit_length()),
                "wdata": Out(XLEN),
                "rdata": In(XLEN),
            }
        )

    def __eq__(self, other):
        return isinstance(other, BankSignature) and other.words == self.words

    def __repr__(self):
        return f"BankSignature({self.words})"


class RequestSignature(wiring.Signature):
    """Request of an OBI port, initiator's side.

    Members
    -------
    req : Out(1)
        A transfer is requested; it stays high with the same attributes until it is granted.
    gnt : In(1)
        The request is accepted in this cycle.
    addr, we, be, wdata : Out
        As in OBI.
    """

    def __init__(self):
        obi = ObiSignature().members
        super().__init__({name: obi[name] for name in ("req", "gnt", *REQUEST_FIELDS)})
