from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.cells.memory import MemoryPortSignature
from xpulpnn.cluster.ports import one_hot_mux
from xpulpnn.cluster.tcdm.arbiter import Arbiter
from xpulpnn.cluster.tcdm.test_and_set import TestAndSet
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped, signals
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import MASTER_BITS, NO_MASTER
from xpulpnn.isa.machine import WORD_BYTES, XLEN

PATIENCE_BITS = 4  # a master that yields to the cores is served after at most 2 to the power of this cycles


def access_layout(words: int) -> data.StructLayout:
    return data.StructLayout({"row": (words - 1).bit_length(), "test_set": 1, "we": 1, "be": WORD_BYTES, "wdata": XLEN})


class BankArbiter(Component):
    """One bank of the TCDM: arbitration, selection of the winner's access, write of a test-and-set.

    Grants in the cycle of the request; the bank answers in the next. In the cycle after the load of a test-and-set no
    master is granted. With ``dma_priority`` low, masters that are not cores are served when no core requests, or when a
    master that is no core has waited for 16 cycles, which delays a waiting core at most once in 16 cycles. With
    ``broadcast`` all loads of the word that the winner loads are granted with it. With ``late_results`` of the cores,
    the bank arbitrates claims, which come earlier in the cycle because they do not wait for the decoding of the
    address. If the winner then makes no request, the bank serves no master in that cycle.
    """

    def __init__(self, config: ClusterConfig, masters: int):
        self.masters = masters  # number of masters, the cores first
        words = config.bank_words
        ports = {
            "req": In(masters),  #: Masters that request the bank, or claim it with late results of the cores.
            #: access: Access of each master; stable until it is granted.
            "access": In(access_layout(words)).array(masters),
            "gnt": Out(masters),  #: Masters that are served in this cycle.
            "bank": Out(MemoryPortSignature(words)),  #: Port of the bank.
        }
        if config.core.late_results:
            #: asking: Masters with a request to any bank; only with late results of the cores.
            ports["asking"] = In(masters)
        if config.rvfi:
            #: master: Number of the master whose access the bank performs, 31 for the write of a test-and-set; with
            #:   ``rvfi``.
            ports["master"] = Out(MASTER_BITS)
            if config.broadcast:
                #: sharers: Other masters that the answer serves as well; with ``rvfi`` and ``broadcast``.
                ports["sharers"] = Out(masters)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.test_set = test_set = TestAndSet(self.config.bank_words)
        connect(m, test_set.bank, flipped(self.bank))
        req, wins = signals(self.masters, "req wins")
        m.d.comb += req.eq(self.req & ~test_set.busy.replicate(self.masters))
        if self.config.dma_priority == "low" and self.masters > self.config.cores:
            self._yielding(m, req, wins)
        else:
            m.submodules.arbiter = arbiter = Arbiter(self.masters, self.config.arbiter)
            m.d.comb += [arbiter.req.eq(req), wins.eq(arbiter.gnt)]
        late = self.config.core.late_results
        served = wins & self.asking if late else wins
        winner = Signal(access_layout(self.config.bank_words))
        access = test_set.access
        m.d.comb += [
            winner.eq(one_hot_mux(wins, [candidate.as_value() for candidate in self.access])),
            access.req.eq(served.any() if late else req.any()),
            access.addr.eq(winner.row),
            *assign_by_name(access, winner, "we", "be", "wdata"),
            test_set.start.eq(winner.test_set & ~winner.we),
            self.gnt.eq(served),
        ]
        if self.config.broadcast:
            loads = [
                requests & ~candidate.we & ~candidate.test_set & (candidate.row == winner.row)
                for requests, candidate in zip(req, self.access, strict=True)
            ]
            shared = wins | Cat(loads)
            with m.If(~winner.we & ~winner.test_set & (access.req if late else 1)):
                m.d.comb += self.gnt.eq(shared & self.asking if late else shared)
        if self.config.rvfi:
            number = one_hot_mux(wins, list(range(self.masters)))
            m.d.comb += self.master.eq(Mux(test_set.busy, NO_MASTER, number))
            if self.config.broadcast:
                m.d.comb += self.sharers.eq(self.gnt & ~wins)
        return m

    def _yielding(self, m, req, wins):
        """Serve masters other than cores if no core requests, or if such a master has waited for 16 cycles."""
        cores = self.config.cores
        others = self.masters - cores
        m.submodules.core_arbiter = core_arbiter = Arbiter(cores, self.config.arbiter)
        m.submodules.other_arbiter = other_arbiter = Arbiter(others, self.config.arbiter)
        waited = Signal(PATIENCE_BITS)
        impatient = Signal()
        core_req = Signal(cores)
        m.d.comb += [
            impatient.eq(waited.all() & self.req[cores:].any() if self.config.broadcast else waited.all()),
            core_req.eq(req[:cores] & ~impatient.replicate(cores)),
            core_arbiter.req.eq(core_req),
            other_arbiter.req.eq(req[cores:] & ~core_req.any().replicate(others)),
            wins.eq(Cat(core_arbiter.gnt, other_arbiter.gnt)),
        ]
        with m.If(~self.req[cores:].any() | other_arbiter.req.any()):
            m.d.sync += waited.eq(0)
        with m.Elif(~impatient):
            m.d.sync += waited.eq(waited + 1)
