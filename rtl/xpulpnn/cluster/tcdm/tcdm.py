# amaranth: UnusedElaboratable=no
from amaranth.hdl import Module

from xpulpnn.cells.memory import SinglePortMemory
from xpulpnn.cluster.tcdm.interconnect import TcdmInterconnect
from xpulpnn.component import Wrapper, connect, pass_ports
from xpulpnn.config import ClusterConfig


class Tcdm(Wrapper):
    """Memory with many ports: a crossbar and word-interleaved banks of one access per cycle each.

    A request is granted in the same cycle if it wins its bank and answered in the next, see
    :class:`~xpulpnn.cluster.tcdm.interconnect.TcdmInterconnect`.
    """

    #: ports: The masters. Address bits 19 to 0 within the size of the memory count, and bit 20, which makes a load a
    #:   test-and-set.
    #: banks: The banks, if they are outside.

    def __init__(self, config: ClusterConfig, masters: int):
        inside = () if config.memories == "ports" else ("banks",)
        super().__init__(config, (TcdmInterconnect(config, masters),), inside, {})

    def elaborate(self, platform):
        m = Module()
        m.submodules.crossbar = crossbar = self.wrapped[0]
        pass_ports(m, self, crossbar, excluded=() if self.config.memories == "ports" else ("banks",))
        for number, bank in enumerate(crossbar.banks if self.config.memories != "ports" else ()):
            m.submodules[f"bank{number}"] = memory = SinglePortMemory(self.config.bank_words)
            connect(m, bank, memory.port)
        return m
