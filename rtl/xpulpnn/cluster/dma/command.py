from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal
from amaranth.utils import exact_log2

from xpulpnn.cluster.dma.identifiers import STATUS_IDS, number_shape
from xpulpnn.cluster.tcdm.arbiter import Arbiter
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import BLOCK_BYTES, Dma
from xpulpnn.isa.machine import WORD_BYTES, XLEN


class CommandPorts(Component):
    """The command ports: identifiers, status, and the words of commands.

    Every access is granted at once with two exceptions: a word of a command waits while another port is within a
    command, and the first word of a command waits while the queue is full. A read of an identifier is answered two
    cycles after its grant, or later when an identifier is free; other accesses are answered in the next cycle, with an
    error where there is no register. A port has one access outstanding.
    """

    def __init__(self, ports: int, identifiers: int):
        self.identifiers = identifiers  # number of identifiers of transfers
        number = number_shape(identifiers)
        ports = {
            "ports": In(ObiSignature()).array(ports),  #: The command ports.
            "write": Out(1),  #: A word of a command is written.
            "word": Out(XLEN),  #: The word.
            "port": Out(ports),  #: One-hot number of the port that writes the word.
            "number": Out(number),  #: Identifier that this port received last.
            "last": In(1),  #: The word is the last of its command.
            "full": In(1),  #: No new command may begin.
            "allocate": Out(1),  #: An identifier is allocated.
            "available": In(1),  #: An identifier is available.
            "available_number": In(number),  #: The available identifier.
            "free": Out(identifiers),  #: Identifiers that software frees.
            "status": In(2 * STATUS_IDS),  #: Value of the status register.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        ports = len(self.ports)
        m.submodules.writer = writer = Arbiter(ports, "counter")
        m.submodules.receiver = receiver = Arbiter(ports, "counter")
        wants, waits, owner = signals(ports, "wants waits owner")
        within = Signal()
        words, numbers, freed = [], [], []
        for index, port in enumerate(self.ports):
            offset = port.addr[exact_log2(WORD_BYTES) : exact_log2(BLOCK_BYTES)]
            at_command = offset == Dma.COMMAND // WORD_BYTES
            at_status = offset == Dma.STATUS // WORD_BYTES
            request, reads_status = signals(1, f"request{index} reads_status{index}")
            number = Signal(number_shape(self.identifiers), name=f"number{index}")
            given = receiver.gnt[index]
            m.d.comb += [
                request.eq(port.req & ~waits[index]),
                wants[index].eq(request & port.we & at_command),
                port.gnt.eq(~waits[index] & (~wants[index] | self.port[index])),
                port.rdata.eq(Mux(reads_status, self.status, number)),
            ]
            m.d.sync += [
                waits[index].eq(waits[index] & ~given | request & ~port.we & at_command),
                port.rvalid.eq(given | port.req & port.gnt & (port.we | ~at_command)),
                port.err.eq(port.req & port.gnt & ~at_command & ~at_status),
            ]
            with m.If(port.req & port.gnt):
                m.d.sync += reads_status.eq(at_status)
            with m.If(given):
                m.d.sync += number.eq(self.available_number)
            chosen = self.port[index]
            words.append(port.wdata & chosen.replicate(XLEN))
            numbers.append(number & chosen.replicate(len(number)))
            frees = request & port.we & at_status
            freed.append(port.wdata[: self.identifiers] & frees.replicate(self.identifiers))
        m.d.comb += [
            writer.req.eq(wants & ~(within | self.full).replicate(ports)),
            self.port.eq(Mux(within, wants & owner, writer.gnt)),
            self.write.eq(self.port.any()),
            self.word.eq(reduce(or_, words)),
            self.number.eq(reduce(or_, numbers)),
            self.free.eq(reduce(or_, freed)),
            receiver.req.eq(waits & self.available.replicate(ports)),
            self.allocate.eq(receiver.gnt.any()),
        ]
        with m.If(self.write):
            m.d.sync += [within.eq(~self.last), owner.eq(self.port)]
        return m
