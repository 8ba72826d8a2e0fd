"""The shared memory: crossbar and banks."""

from amaranth.hdl import Module

from xpulpnn.cluster.ports import BankSignature
from xpulpnn.cluster.tcdm.bank import Bank
from xpulpnn.cluster.tcdm.interconnect import TcdmInterconnect
from xpulpnn.component import Component, In, Out, connect, flipped
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import MASTER_BITS


class Tcdm(Component):
    """Memory with many ports: a crossbar and word-interleaved banks of one access per cycle each.

    A request is granted in the same cycle if it wins its bank and answered in the next, see
    :class:`~xpulpnn.cluster.tcdm.interconnect.TcdmInterconnect`.
    """

    def __init__(self, config: ClusterConfig, masters: int):
        self.masters = masters  # number of ports: the cores, then others
        #: ports: The masters. Address bits 19 to 0 within the size of the memory count, and bit 20, which makes a load
        #:   a test-and-set.
        ports = {"ports": In(ObiSignature()).array(masters)}
        if config.core.late_results:
            #: claims: Masters that take part in the arbitration: all that request, and others by address alone; only
            #:   with late results of the cores.
            ports["claims"] = In(masters)
        if config.memories == "ports":
            #: banks: The banks, if they are outside.
            ports["banks"] = Out(BankSignature(config.bank_words)).array(config.banks)
        if config.rvfi:
            #: bank_masters: Number of the master whose access each bank performs, 31 for the write of a test-and-set;
            #:   with ``rvfi``.
            ports["bank_masters"] = Out(MASTER_BITS).array(config.banks)
            if config.broadcast:
                #: bank_sharers: Other masters that the answer of each bank serves as well; with ``rvfi`` and
                #:   ``broadcast``.
                ports["bank_sharers"] = Out(masters).array(config.banks)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.crossbar = crossbar = TcdmInterconnect(self.config, self.masters)
        for number, port in enumerate(self.ports):
            connect(m, flipped(port), crossbar.ports[number])
        if self.config.core.late_results:
            m.d.comb += crossbar.claims.eq(self.claims)
        for number, bank in enumerate(crossbar.banks):
            if self.config.memories == "ports":
                connect(m, bank, flipped(self.banks[number]))
            else:
                m.submodules[f"bank{number}"] = memory = Bank(self.config.bank_words)
                connect(m, bank, memory.port)
            if self.config.rvfi:
                m.d.comb += self.bank_masters[number].eq(crossbar.bank_masters[number])
                if self.config.broadcast:
                    m.d.comb += self.bank_sharers[number].eq(crossbar.bank_sharers[number])
        return m
