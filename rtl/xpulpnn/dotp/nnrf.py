"""Register file of the Mac&Load instructions (guide, "The NN register file")."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.utils import ceil_log2

from xpulpnn.component import Component, In, Out
from xpulpnn.errors import ConfigError
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_ENTRIES, NNRF_PARAMETERS, NNRF_WEIGHTS, SECOND_PAIR, XLEN

_SIZES = (NNRF_WEIGHTS, NNRF_ENTRIES, NNRF_ENTRIES + NNRF_PARAMETERS)
_PARAMETERS = ("nn_kappa", "nn_lambda")


class NnRf(Component):
    """NN register file: weight words and, with the nn form of Mac&Load, activation words.

    ``act = NN[act_addr]`` and ``wgt = NN[2 + wgt_addr]``; with four entries there is no ``act`` and ``wgt =
    NN[wgt_addr]``. With pairs, entries 8 and 9 are a second pair of activations. Reads are combinational and return the
    word being written in the same cycle. One write per cycle, never stalls. Reset clears every entry. The registers are
    called ``nn_act0 nn_act1`` (not with four entries), ``nn_wgt0`` .. ``nn_wgt3`` and, with pairs, ``nn_act2 nn_act3``.

    Parameters
    ----------
    entries : int
        6 with the nn form of Mac&Load, 4 with Compute&Update alone; 8 for six and the two parameters of requantisation.
    """

    #: nn_kappa, nn_lambda: Parameters of requantisation, entries 6 and 7. The ports are the registers themselves,
    #:   without a bypass of the word being written.

    #: act2_addr: Pair whose second activation is read, with pairs only: 0 for entry 1, 1 for entry 9.
    #: act2: Second activation of the pair, without a bypass of the word being written; with pairs only.

    def __init__(self, entries: int, *, pairs: bool = False, reads_factor: bool = False, csrs: bool = False) -> None:
        # pairs: A second pair of activations, ``nn_act2`` and ``nn_act3``, entries 8 and 9; the first is read as
        # activation 2. reads_factor: ``nn_kappa`` can be read as weight 4. csrs: A further port reads and writes any
        # entry.
        if entries not in _SIZES:
            raise ConfigError(f"entries must be {', '.join(map(str, _SIZES[:-1]))} or {_SIZES[-1]}, not {entries}")
        self.entries, self.pairs, self.read_weights = entries, pairs, NNRF_WEIGHTS + reads_factor
        ports = {
            "wgt_addr": In(ceil_log2(self.read_weights)),  #: Weight entry to read, counted from the first weight.
            "wgt": Out(XLEN),  #: Word of the weight entry, in the same cycle.
            "we": In(1),  #: Write strobe: the entry changes at the end of the cycle.
            #: waddr: Entry to write, numbered as in software: activations 0 and 1, weights 2 to 5, parameters 6 and 7,
            #:   with pairs activations 8 and 9; with four entries weights 0 to 3.
            "waddr": In(range(SECOND_PAIR + NNRF_ACTIVATIONS) if pairs else ceil_log2(entries)),
            "wdata": In(XLEN),  #: Word to write to entry ``waddr``.
        }
        if self.activations:
            #: act_addr: Activation entry to read, with pairs 2 for entry 8; not with four entries.
            #: act: Word of the activation entry, in the same cycle; not with four entries.
            ports |= {"act_addr": In(ceil_log2(NNRF_ACTIVATIONS) + pairs), "act": Out(XLEN)}
        if pairs:
            ports |= {"act2_addr": In(1), "act2": Out(XLEN)}
        if self.parameters:
            ports |= {name: Out(XLEN) for name in _PARAMETERS}
        if csrs:
            #: csr_addr: Entry to access, numbered as in ``waddr``; only with CSRs.
            #: csr_we, csr_wdata: Write strobe of CSR accesses, not with ``we``, and the word; only with CSRs.
            #: csr_rdata: Word of the entry at ``csr_addr``, in the same cycle; only with CSRs.
            ports |= {"csr_addr": ports["waddr"], "csr_we": In(1), "csr_wdata": In(XLEN), "csr_rdata": Out(XLEN)}
        self.csrs = csrs
        super().__init__(ports=ports)

    @property
    def activations(self) -> int:
        return min(self.entries - NNRF_WEIGHTS, NNRF_ACTIVATIONS)

    @property
    def parameters(self) -> int:
        return self.entries - NNRF_WEIGHTS - self.activations

    def elaborate(self, platform):
        m = Module()
        names = [f"nn_act{i}" for i in range(self.activations)] + [f"nn_wgt{i}" for i in range(NNRF_WEIGHTS)]
        entries = [Signal(XLEN, name=name) for name in names]
        entries += [getattr(self, name) for name in _PARAMETERS[: self.parameters]]
        # keeps the inputs of all entries constant while other words are loaded
        written = Signal(XLEN)
        m.d.comb += written.eq(self.wdata & self.we.replicate(XLEN))
        others = [Signal(XLEN, name=f"nn_act{NNRF_ACTIVATIONS + i}") for i in range(NNRF_ACTIVATIONS * self.pairs)]
        if self.pairs:
            with m.If(self.we), m.Switch(self.waddr):
                for number, entry in [*enumerate(entries), *enumerate(others, SECOND_PAIR)]:
                    with m.Case(number):
                        m.d.sync += entry.eq(written)
        else:
            with m.If(self.we):
                m.d.sync += Array(entries)[self.waddr].eq(written)
        if self.csrs:
            for number, entry in [*enumerate(entries), *enumerate(others, SECOND_PAIR)]:
                with m.If(self.csr_addr == number):
                    m.d.comb += self.csr_rdata.eq(entry)
                    with m.If(self.csr_we):
                        m.d.sync += entry.eq(self.csr_wdata)

        def read(first: int, count: int, address: Value) -> Value:
            hit = self.we & (self.waddr == address + first)
            return Mux(hit, written, Array(entries[first : first + count])[address])

        m.d.comb += self.wgt.eq(read(self.activations, self.read_weights, self.wgt_addr))
        if self.pairs:
            (first, second), later = entries[:NNRF_ACTIVATIONS], self.act_addr[1]
            hit = self.we & (self.waddr == Cat(self.act_addr[0], Const(0, 2), later))
            stored = Mux(later, others[0], Mux(self.act_addr[0], second, first))
            m.d.comb += [self.act.eq(Mux(hit, written, stored)), self.act2.eq(Mux(self.act2_addr, others[1], second))]
        elif self.activations:
            m.d.comb += self.act.eq(read(0, NNRF_ACTIVATIONS, self.act_addr))
        return m
