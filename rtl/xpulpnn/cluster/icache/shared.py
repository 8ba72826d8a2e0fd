from amaranth.hdl import Cat, Module
from amaranth.utils import exact_log2

from xpulpnn.cluster.icache.bank import CacheBank
from xpulpnn.cluster.icache.refill import RefillPort
from xpulpnn.cluster.ports import CacheControlSignature, LineSignature, RefillSignature, one_hot_mux
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped
from xpulpnn.config import ClusterConfig


class SharedCache(Component):
    """Set-associative instruction cache in banks, selected by the low bits of the line number.

    A bank grants one request per cycle and answers a hit two cycles later; a miss stops only its own bank.
    """

    def __init__(self, config: ClusterConfig):
        banks = config.icache_shared_banks
        ports = {
            "cores": In(LineSignature()).array(config.cores),  #: Requests of the cores' caches.
            "refill": Out(RefillSignature()),  #: Memory.
            "control": In(CacheControlSignature()),  #: Controls from the registers of the caches.
            #: hit, miss: The bank has the requested line, or not; in the cycle after the grant.
            "hit": Out(banks),
            "miss": Out(banks),
            "waits": Out(banks),  #: A request of the bank is not granted.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        number = self.config.icache_shared_banks
        bank_bits = exact_log2(number)
        banks = [CacheBank(self.config) for _ in range(number)]
        m.submodules.memory = memory = RefillPort(number)
        connect(m, memory.refill, flipped(self.refill))
        for index, bank in enumerate(banks):
            m.submodules[f"bank{index}"] = bank
            m.d.comb += [
                *assign_by_name(bank.control, self.control, "enable", "prefetch", "flush"),
                bank.control.flush_line.eq(self.control.flush_line & (self.control.line[:bank_bits] == index)),
                bank.control.line.eq(self.control.line),
                memory.req[index].eq(bank.miss_req),
                memory.lines[index].eq(bank.miss_line),
                bank.miss_gnt.eq(memory.gnt[index]),
                bank.part_valid.eq(memory.part_valid[index]),
                bank.part.eq(self.refill.rdata),
                bank.part_err.eq(self.refill.err),
                self.hit[index].eq(bank.hit),
                self.miss[index].eq(bank.miss),
                self.waits[index].eq(bank.waits),
            ]
        for core, line in enumerate(self.cores):
            for index, bank in enumerate(banks):
                m.d.comb += [
                    bank.req[core].eq(line.req & (line.addr[:bank_bits] == index)),
                    bank.lines[core].eq(line.addr),
                ]
            answers = Cat(bank.rvalid[core] for bank in banks)
            m.d.comb += [
                line.gnt.eq(Cat(bank.gnt[core] for bank in banks).any()),
                line.rvalid.eq(answers.any()),
                line.rdata.eq(one_hot_mux(answers, [bank.rdata for bank in banks])),
                line.err.eq(one_hot_mux(answers, [bank.err for bank in banks])),
            ]
        return m
