from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.utils import exact_log2

from xpulpnn.cells.memory import MemoryPortSignature
from xpulpnn.cluster.tcdm.bank_arbiter import BankArbiter, access_layout
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import MASTER_BITS, TEST_SET_BIT, bank_of_word
from xpulpnn.isa.machine import WORD_BYTES


class TcdmInterconnect(Component):
    """Crossbar from every master to every bank: one access per bank and cycle.

    Words are interleaved over the banks. A request, read or write, is granted in the same cycle if it wins its bank,
    and answered in the next; a master may request in the cycle of the response. A losing master keeps its request. A
    load whose address has bit 20 set is a test-and-set. Only that bit and the address bits of the memory count. Reset
    drops responses. With ``late_results`` of the cores, masters win banks by claims, which are known earlier in the
    cycle than requests. A claim without a request blocks the bank for the cycle; it may be withdrawn in the next.
    """

    def __init__(self, config: ClusterConfig, masters: int):
        self.masters = masters  # number of ports: the cores, then others
        #: ports: The masters.
        ports = {"ports": In(ObiSignature()).array(masters)}
        if config.core.late_results:
            #: claims: Masters that take part in the arbitration: all that request, and others by address alone; only
            #:   with late results of the cores.
            ports["claims"] = In(masters)
        #: banks: The banks.
        ports["banks"] = Out(MemoryPortSignature(config.bank_words)).array(config.banks)
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
        banks = self.config.banks
        bank_bits, word_lsb = exact_log2(banks), exact_log2(WORD_BYTES)
        word_bits = exact_log2(self.config.tcdm_bytes) - word_lsb
        layout = access_layout(self.config.bank_words)
        accesses = [Signal(layout, name=f"access{number}") for number in range(self.masters)]
        hashed = self.config.bank_hash and banks > 1
        bank_indices = []
        for number, port in enumerate(self.ports):
            word = Signal(word_bits, name=f"word{number}")
            # a single bank has a number of one bit too
            bank = Signal(max(bank_bits, 1), name=f"bank_index{number}")
            access = accesses[number]
            m.d.comb += [
                word.eq(port.addr[word_lsb:]),
                bank.eq((bank_of_word(word, word_bits, bank_bits) if hashed else word)[:bank_bits]),
                access.row.eq(word[bank_bits:]),
                access.test_set.eq(port.addr[TEST_SET_BIT]),
                *assign_by_name(access, port, "we", "be", "wdata"),
            ]
            bank_indices.append(bank)
        late = self.config.core.late_results
        requests = Cat(port.req for port in self.ports)
        claims = self.claims if late else requests
        granted = []
        for number in range(banks):
            m.submodules[f"bank{number}"] = arbiter = BankArbiter(self.config, self.masters)
            connect(m, arbiter.bank, flipped(self.banks[number]))
            m.d.comb += [
                arbiter.req.eq(Cat(claim & (bank == number) for claim, bank in zip(claims, bank_indices, strict=True))),
                *(port.eq(access) for port, access in zip(arbiter.access, accesses, strict=True)),
            ]
            if late:
                m.d.comb += arbiter.asking.eq(requests)
            if self.config.rvfi:
                m.d.comb += self.bank_masters[number].eq(arbiter.master)
                if self.config.broadcast:
                    m.d.comb += self.bank_sharers[number].eq(arbiter.sharers)
            granted.append(arbiter.gnt)
        answers = Array(bank.rdata for bank in self.banks)
        for number, (port, bank) in enumerate(zip(self.ports, bank_indices, strict=True)):
            source = Signal.like(bank, name=f"source{number}")
            m.d.comb += [port.gnt.eq(Cat(gnt[number] for gnt in granted).any()), port.rdata.eq(answers[source])]
            m.d.sync += [port.rvalid.eq(port.gnt), source.eq(bank)]
        return m
