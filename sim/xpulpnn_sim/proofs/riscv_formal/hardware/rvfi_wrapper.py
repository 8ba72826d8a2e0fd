"""The core between memories with any timing, with the retirement port that riscv-formal expects."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.isa.insn import LOAD_OPS, STORE_OPS, InsnClass
from xpulpnn.isa.machine import WORD_BYTES, XLEN, ExceptionCause
from xpulpnn.isa.retirement import WIDTHS
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.riscv_formal.hardware.altops import CsrTapCore

PATIENCE = 1  # maximum cycles for a grant, and for a response, with fair memories

PASSED = ("valid", "order", "insn", "trap", "halt", "intr", "mode", "ixl", "pc_rdata", "pc_wdata")
PASSED += tuple(f"mem_{name}" for name in ("addr", "rmask", "wmask", "rdata", "wdata"))
"""Fields of the retirement port that are passed on without changes."""

_OUTSTANDING = 4
_FAULTS = (ExceptionCause.INSTRUCTION_ACCESS_FAULT, ExceptionCause.LOAD_ACCESS_FAULT, ExceptionCause.STORE_ACCESS_FAULT)


class RvfiWrapper(wiring.Component):
    """The core with memories, and its retirements in the format of riscv-formal.

    Numbers and values of registers that an instruction does not access are 0. An incremented base is reported as the
    written register if the instruction writes no other.
    """

    def __init__(self, config):
        self.config = config
        ports = {"boot_addr": In(XLEN), "hart_id": In(XLEN), "irq": In(XLEN), "fair": In(1)}
        for bus in ("instr", "data"):
            ports |= {f"{bus}_{name}": In(1) for name in ("gnt", "answer", "err")} | {f"{bus}_rdata": In(XLEN)}
        ports |= {f"rvfi_{name}": Out(WIDTHS[name]) for name in PASSED}
        for name in ("rs1", "rs2"):
            ports |= {f"rvfi_{name}_addr": Out(5), f"rvfi_{name}_rdata": Out(XLEN)}
        ports |= {"rvfi_rd_addr": Out(5), "rvfi_rd_wdata": Out(XLEN)}
        ports |= {"rvfi_mem_fault": Out(1), "rvfi_mem_fault_rmask": Out(4), "rvfi_mem_fault_wmask": Out(4)}
        ports |= {"cause": Out(XLEN), "csr_addr": Out(12)}
        ports |= {f"csr_{name}": Out(XLEN) for name in ("rmask", "wmask", "rdata", "wdata")}
        ports |= {"bus_valid": Out(2), "bus_fault": Out(2), "bus_rmask": Out(8), "bus_wmask": Out(8)}
        ports |= {f"bus_{name}": Out(2 * XLEN) for name in ("addr", "rdata", "wdata")}
        ports |= {"two_writes": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = CsrTapCore(self.config)
        m.submodules.expander = expander = CompressedDecoder()
        m.d.comb += [
            core.boot_addr.eq(self.boot_addr),
            core.hart_id.eq(self.hart_id),
            core.irq.eq(self.irq),
            core.fetch_enable.eq(1),
            expander.word.eq(core.rvfi_insn),
        ]
        self._bus(m, 0, "instr", core.instr)
        self._bus(m, 1, "data", core.data)
        m.d.comb += [getattr(self, f"rvfi_{name}").eq(getattr(core, f"rvfi_{name}")) for name in PASSED]
        self._registers(m, core, expander.expanded)
        self._faults(m, core, expander.expanded)
        self._csrs(m, core, expander.expanded)
        return m

    def _matches(self, word, chosen):
        rows = enabled(self.config.extensions, self.config.widths, aliases=True)
        patterns = [row.pattern for row in rows if row.size == WORD_BYTES and chosen(row)]
        return word.matches(*patterns) if patterns else Signal()

    def _registers(self, m, core, word):
        for name in ("rs1", "rs2"):
            read = Signal(name=f"{name}_read")
            m.d.comb += [
                read.eq(self._matches(word, lambda row, name=name: name in row.reads)),
                getattr(self, f"rvfi_{name}_addr").eq(Mux(read, getattr(core, f"rvfi_{name}_addr"), 0)),
                getattr(self, f"rvfi_{name}_rdata").eq(Mux(read, getattr(core, f"rvfi_{name}_rdata"), 0)),
            ]
        with m.If(core.rvfi_rd_we):
            m.d.comb += [self.rvfi_rd_addr.eq(core.rvfi_rd_addr), self.rvfi_rd_wdata.eq(core.rvfi_rd_wdata)]
        with m.Elif(core.rvfi_base_we):
            m.d.comb += [self.rvfi_rd_addr.eq(core.rvfi_base_addr), self.rvfi_rd_wdata.eq(core.rvfi_base_wdata)]
        with m.If(self.rvfi_rd_addr == 0):
            m.d.comb += self.rvfi_rd_wdata.eq(0)
        other = core.rvfi_base_we | core.rvfi_rd2_we if self.config.mac_load_pair else core.rvfi_base_we
        m.d.comb += self.two_writes.eq(core.rvfi_valid & core.rvfi_rd_we & other)

    def _faults(self, m, core, word):
        ops = LOAD_OPS | STORE_OPS
        byte, half = (self._matches(word, lambda row, size=size: row.op in ops and row.op[1] == size) for size in "bh")
        mask = Mux(byte, 0b0001, Mux(half, 0b0011, 0b1111))
        fault, load, store = (core.rvfi_trap & (core.rvfi_cause == cause) for cause in _FAULTS)
        m.d.comb += [
            self.cause.eq(core.rvfi_cause),
            self.rvfi_mem_fault.eq(fault | load | store),
            self.rvfi_mem_fault_rmask.eq(Mux(load, mask, 0)),
            self.rvfi_mem_fault_wmask.eq(Mux(store, mask, 0)),
        ]

    def _csrs(self, m, core, word):
        """Report the CSR access of the instruction in WB, which is the last instruction that left EX."""
        taps = {name: getattr(core, f"tap_{name}") for name in ("addr", "write", "rdata", "wdata")}
        last = {name: Signal.like(tap, name=f"last_{name}") for name, tap in taps.items()}
        with m.If(core.tap_valid):
            m.d.sync += [last[name].eq(tap) for name, tap in taps.items()]
        is_csr = self._matches(word, lambda row: row.insn_class is InsnClass.CSR)
        retires = core.rvfi_valid & ~core.rvfi_trap & is_csr
        m.d.comb += [
            *(getattr(self, f"csr_{name}").eq(last[name]) for name in ("addr", "rdata", "wdata")),
            self.csr_rmask.eq(retires.replicate(XLEN)),
            self.csr_wmask.eq((retires & last["write"]).replicate(XLEN)),
        ]

    def _bus(self, m, number, name, port):
        """Add a memory that grants and responds in any cycle and in order, and a monitor of its port."""
        waiting = Signal(range(_OUTSTANDING + 1), name=f"{name}_outstanding")
        grant_patience = Signal(range(PATIENCE + 1), init=PATIENCE, name=f"{name}_grant_patience")
        answer_patience = Signal(range(PATIENCE + 1), init=PATIENCE, name=f"{name}_answer_patience")
        granted, answered = Signal(name=f"{name}_granted"), Signal(name=f"{name}_answered")
        m.d.comb += [
            port.gnt.eq(getattr(self, f"{name}_gnt") | (self.fair & (grant_patience == 0))),
            port.rvalid.eq((waiting != 0) & (getattr(self, f"{name}_answer") | (self.fair & (answer_patience == 0)))),
            port.rdata.eq(getattr(self, f"{name}_rdata")),
            port.err.eq(getattr(self, f"{name}_err")),
            granted.eq(port.req & port.gnt),
            answered.eq(port.rvalid),
        ]
        m.d.sync += waiting.eq(waiting + granted - answered)
        m.d.sync += grant_patience.eq(Mux(port.req & ~port.gnt & (grant_patience != 0), grant_patience - 1, PATIENCE))
        m.d.sync += answer_patience.eq(
            Mux((waiting != 0) & ~answered & (answer_patience != 0), answer_patience - 1, PATIENCE)
        )
        writes = name == "data"
        request_fields = Cat(port.addr, *((port.we, port.be, port.wdata) if writes else ()))
        requests = Array(Signal(len(request_fields), name=f"{name}_request{index}") for index in range(_OUTSTANDING))
        first, last = (Signal(ceil_log2(_OUTSTANDING), name=f"{name}_{end}") for end in ("first", "last"))
        oldest = Signal(len(request_fields), name=f"{name}_oldest")
        m.d.sync += [first.eq(first + answered), last.eq(last + granted)]
        m.d.comb += oldest.eq(requests[first])
        with m.If(granted):
            m.d.sync += requests[last].eq(request_fields)
        rest = oldest[XLEN:]
        enables = rest[1:5] if writes else 0b1111
        stored = rest[0] if writes else 0
        m.d.comb += [
            self.bus_valid[number].eq(answered),
            self.bus_fault[number].eq(answered & port.err),
            self.bus_addr.word_select(number, XLEN).eq(oldest[:XLEN]),
            self.bus_rdata.word_select(number, XLEN).eq(port.rdata),
            self.bus_rmask.word_select(number, 4).eq(Mux(stored, 0, enables)),
            self.bus_wmask.word_select(number, 4).eq(Mux(stored, enables, 0)),
        ]
        if writes:
            m.d.comb += self.bus_wdata.word_select(number, XLEN).eq(rest[5:])
