from amaranth.hdl import Module

from xpulpnn.cluster.icache.control import CacheControl
from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.cluster.icache.shared import SharedCache
from xpulpnn.cluster.ports import RefillSignature
from xpulpnn.component import Component, In, Out, connect, flipped
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature


class InstructionCache(Component):
    """A private cache for each core, a cache that the cores share as the next level, and the registers of both levels.

    A hit in the core's cache is answered in the next cycle, a hit in the shared cache three cycles later, if its bank
    is free. Reset empties the caches and enables them.
    """

    def __init__(self, config: ClusterConfig):
        ports = {
            "cores": In(InstructionPortSignature()).array(config.cores),  #: Fetches of the cores.
            "refill": Out(RefillSignature()),  #: Memory.
            #: port: Access to the registers (:class:`~xpulpnn.isa.cluster.Icache`); bits 9 to 2 of the address count.
            "port": In(ObiSignature()),
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = CacheControl(self.config)
        m.submodules.shared = shared = SharedCache(self.config)
        connect(m, control.port, flipped(self.port))
        connect(m, control.shared, shared.control)
        connect(m, shared.refill, flipped(self.refill))
        private = [PrivateCache(self.config, registered=self.config.core.late_results) for _ in self.cores]
        connect(m, control.private, *(cache.control for cache in private))
        for number, (cache, core) in enumerate(zip(private, self.cores, strict=True)):
            m.submodules[f"private{number}"] = cache
            connect(m, flipped(core), cache.core)
            connect(m, cache.line, shared.cores[number])
            m.d.comb += [
                control.private_hits[number].eq(cache.hit),
                control.private_misses[number].eq(cache.miss),
                control.private_waits[number].eq(cache.waits),
            ]
        m.d.comb += [
            control.shared_hits.eq(shared.hit),
            control.shared_misses.eq(shared.miss),
            control.shared_waits.eq(shared.waits),
        ]
        return m
