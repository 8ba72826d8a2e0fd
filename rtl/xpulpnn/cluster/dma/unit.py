from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.cluster.dma.access_queue import HALVES
from xpulpnn.cluster.dma.command import CommandPorts
from xpulpnn.cluster.dma.engine import Engine
from xpulpnn.cluster.dma.identifiers import Identifiers, number_shape
from xpulpnn.cluster.dma.queue import CommandQueue, flag
from xpulpnn.cluster.ports import DmaPortSignature
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import DmaCommand


class Dma(Component):
    """Copies between the TCDM and external addresses, and within the TCDM, as the cores command.

    Software reads an identifier from a command register and writes the words of one or more commands to that register.
    It waits until the bit of the identifier in the status register is 0, and writes the bit to free the identifier.
    Transfers are executed in order, up to 8 bytes per cycle. A word of a command waits while another port is within a
    command. When a transfer ends, it notifies the core that commanded it, or all cores, as the command says; a transfer
    of the shared port can only notify all.
    """

    def __init__(self, config: ClusterConfig):
        ports = {
            "cores": In(ObiSignature()).array(config.cores),  #: Command port of each core.
            "shared": In(ObiSignature()),  #: Command port for other masters.
            #: tcdm: Ports that read the even and the odd words of the TCDM, and ports that write them.
            "tcdm": Out(ObiSignature()).array(2 * HALVES),
            "ext": Out(DmaPortSignature()),  #: External port.
            "events": Out(config.cores),  #: A transfer with the event bit has ended, for each core; pulses.
            "interrupts": Out(config.cores),  #: A transfer with the interrupt bit has ended, for each core; pulses.
            "busy": Out(1),  #: A transfer is waiting or executing.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        cores, count = self.config.cores, self.config.dma_transfers
        tag = data.StructLayout({"cores": cores, "number": number_shape(count)})
        m.submodules.commands = commands = CommandPorts(cores + 1, count)
        m.submodules.identifiers = identifiers = Identifiers(count)
        m.submodules.queue = queue = CommandQueue(tag)
        m.submodules.engine = engine = Engine(registered=self.config.core.late_results)
        for inner, outer in zip(commands.ports, [*self.cores, self.shared], strict=True):
            connect(m, flipped(outer), inner)
        for inner, outer in zip([*engine.reads, *engine.writes], self.tcdm, strict=True):
            connect(m, inner, flipped(outer))
        connect(m, engine.ext, flipped(self.ext))
        connect(m, queue.sources, engine.sources)
        connect(m, queue.targets, engine.targets)
        current = Signal(tag)
        event = Signal()
        interrupt = Signal()
        m.d.comb += [
            *assign_by_name(queue, commands, "write", "word"),
            queue.tag.cores.eq(Mux(flag(commands.word, DmaCommand.BROADCAST), (1 << cores) - 1, commands.port)),
            queue.tag.number.eq(commands.number),
            *assign_by_name(commands, queue, "last", "full"),
            commands.available.eq(identifiers.available),
            commands.available_number.eq(identifiers.number),
            commands.status.eq(identifiers.status),
            *assign_by_name(identifiers, commands, "allocate", "free"),
            identifiers.begins.eq(queue.begins),
            identifiers.begin_number.eq(commands.number),
            identifiers.ends.eq(engine.done),
            identifiers.end_number.eq(current.number),
            self.busy.eq(identifiers.busy),
        ]
        with m.If(queue.targets.valid & queue.targets.ready):
            m.d.sync += [
                current.eq(queue.target_tag),
                event.eq(flag(queue.command, DmaCommand.EVENT)),
                interrupt.eq(flag(queue.command, DmaCommand.INTERRUPT)),
            ]
        notified = current.cores & engine.done.replicate(cores)
        m.d.sync += [
            self.events.eq(notified & event.replicate(cores)),
            self.interrupts.eq(notified & interrupt.replicate(cores)),
        ]
        return m
