"""Interfaces of CV-X-IF, as seen by the coprocessor."""

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.machine import XLEN
from xpulpnn.xif.config import XifConfig


class IssueSignature(PortSignature):
    """Issue interface: an instruction that the core does not know."""

    valid: In(1)  #: An instruction is offered; the core may withdraw it.
    instr: In(32)  #: Instruction word.
    ready: Out(1)  #: The instruction is accepted or refused in this cycle; combinational.
    accept: Out(1)  #: The coprocessor executes the instruction if it is committed; else it refuses it.
    writeback: Out(1)  #: The instruction writes rd.
    loadstore: Out(1)  #: The instruction uses the memory interface.

    def __init__(self, config: XifConfig) -> None:
        #: id: Identifier of the instruction.
        members = {"id": In(config.id_bits)}
        if config.version == "0.2":
            #: rs1, rs2: Values of the source registers; only with version 0.2.
            #: rs_valid: The values are there, bit 0 for rs1; only with version 0.2.
            members |= {"rs1": In(XLEN), "rs2": In(XLEN), "rs_valid": In(2)}
        else:
            #: register_read: Source registers that the instruction reads, bit 0 for rs1; only with version 1.0.
            members["register_read"] = Out(2)
        super().__init__(members)


class RegisterSignature(PortSignature):
    """Register interface of version 1.0: operands of an accepted instruction, in the cycle of its issue or later."""

    valid: In(1)  #: Operands are offered.
    rs1: In(XLEN)  #: Value of rs1.
    rs2: In(XLEN)  #: Value of rs2.
    rs_valid: In(2)  #: The values are there, bit 0 for rs1.
    ready: Out(1)  #: The values that the instruction reads are taken; combinational.

    def __init__(self, config: XifConfig) -> None:
        #: id: Identifier of the instruction.
        super().__init__({"id": In(config.id_bits)})


class CommitSignature(PortSignature):
    """Commit interface: an offered instruction is executed or dropped."""

    valid: In(1)  #: The core decides on an instruction.
    kill: In(1)  #: The instruction is dropped; else it is executed.

    def __init__(self, config: XifConfig) -> None:
        #: id: Identifier of the instruction, accepted or not.
        super().__init__({"id": In(config.id_bits)})


class ResultSignature(PortSignature):
    """Result interface: one result for each committed instruction, in their order."""

    valid: Out(1)  #: A result is there; it stays until it is taken.
    ready: In(1)  #: The core takes the result.
    data: Out(XLEN)  #: Value of rd.
    rd: Out(5)  #: Number of rd.
    we: Out(1)  #: The instruction writes rd.
    exc: Out(1)  #: A load of the instruction caused an exception; always 0 without the memory interface.
    exccode: Out(6)  #: Cause of the exception.

    def __init__(self, config: XifConfig) -> None:
        #: id: Identifier of the instruction.
        super().__init__({"id": Out(config.id_bits)})


class MemorySignature(PortSignature):
    """Memory interface: loads of words through the load-store unit of the core."""

    valid: Out(1)  #: A load is requested; it stays until it is taken.
    ready: In(1)  #: The core takes the request.
    addr: Out(XLEN)  #: Word-aligned byte address.
    last: Out(1)  #: The load is the last one of its instruction.
    exc: In(1)  #: The load causes an exception and has no result, valid with ``ready``.
    exccode: In(6)  #: Cause of the exception.

    def __init__(self, config: XifConfig) -> None:
        #: id: Identifier of the instruction.
        super().__init__({"id": Out(config.id_bits)})


class MemoryResultSignature(PortSignature):
    """Memory result interface: loaded words in the order of the requests."""

    valid: In(1)  #: A loaded word is there.
    rdata: In(XLEN)  #: Loaded word.
    err: In(1)  #: The load failed on the bus.

    def __init__(self, config: XifConfig) -> None:
        #: id: Identifier of the instruction.
        super().__init__({"id": In(config.id_bits)})


class LoadPortSignature(PortSignature):
    """Read-only OBI port with two outstanding transfers or more, as seen by the initiator."""

    req: Out(1)  #: A word is requested; it stays high with the same address until it is granted.
    gnt: In(1)  #: The request is accepted in this cycle.
    addr: Out(XLEN)  #: Word-aligned byte address.
    rvalid: In(1)  #: Response to the oldest granted request, a cycle after its grant or later.
    rdata: In(XLEN)  #: Loaded word, valid with ``rvalid``.
    err: In(1)  #: The load failed, valid with ``rvalid``.
