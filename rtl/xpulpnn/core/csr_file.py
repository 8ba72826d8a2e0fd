"""Control and status registers, generated from the CSR table."""

from itertools import groupby

from amaranth.hdl import Cat, Const, DomainRenamer, Module, Mux, Signal
from amaranth.utils import exact_log2

from xpulpnn.cells.clock_gate import UNGATED
from xpulpnn.component import Component, In, Out, follow_case
from xpulpnn.config import CoreConfig
from xpulpnn.core.control import CsrOp
from xpulpnn.core.machine_counter import MachineCounter
from xpulpnn.core.performance_counters import PerformanceCounters
from xpulpnn.core.pipeline import CsrSignature, DebugSignature
from xpulpnn.isa import csr as table
from xpulpnn.isa.machine import IRQ_BITS, VECTOR_BYTES, XLEN

NN_ENTRY_BITS = 4  # low bits of a CSR address that number the words of the NN-RF
HANDLER_BYTES_LOG2 = exact_log2(VECTOR_BYTES)
LOOP_REGISTERS = tuple(csr for csr in table.CSRS if csr.group is table.CsrGroup.HWLOOP)
STORED = ("mstatus", "mie", "mtvec", "mcountinhibit", "mscratch", "mepc", "mcause")
DEBUG_STORED = ("dcsr",)
TRIGGER_REGISTERS = (table.CSR_BY_NAME["tdata1"], table.CSR_BY_NAME["tdata2"])


class StoredCsr:
    """A CSR with flip-flops for its writable bits only; all other bits are constant."""

    #: value: The register as software reads it.

    def __init__(self, csr: table.Csr):
        positions = [bit for bit in range(XLEN) if csr.writable >> bit & 1]
        init = sum((csr.reset >> bit & 1) << index for index, bit in enumerate(positions))
        stored = Signal(len(positions), init=init, name=f"{csr.name}_bits")
        self._bits = dict(zip(positions, stored, strict=True))
        # runs of adjacent bits: lowest position, lowest flip-flop, width
        groups = groupby(enumerate(positions), lambda pair: pair[1] - pair[0])
        self._runs = [(low, flop, 1 + len(others)) for _, ((flop, low), *others) in groups]
        self._stored = stored
        self.value = Cat(*(self._bits.get(bit, Const(csr.reset >> bit & 1, 1)) for bit in range(XLEN)))

    def __getitem__(self, position: int):
        return self._bits[position]

    def set(self, value, above: int = 0):
        return [
            self._stored[flop : flop + width].eq(value[low : low + width])
            for low, flop, width in self._runs
            if low >= above
        ]


class CsrFile(Component):
    """CSRs and the state of traps.

    A CSR is read in EX and written at the end of the cycle in which the instruction leaves EX. Trap entry and return
    happen at the end of the cycle in which they are asserted, never together with a write. Reset sets the reset
    values; ``boot`` loads the base of mtvec.
    """

    def __init__(self, config: CoreConfig):
        ports = {
            "csr": In(CsrSignature()),  #: Access from EX.
            "boot": In(1),  #: Fetching starts in this cycle.
            "boot_addr": In(32),  #: Boot address, for mtvec.
            "hart_id": In(32),  #: Value of mhartid.
            "irq": In(32),  #: Interrupt lines, as in mip.
            "clock_runs": In(1),  #: mcycle counts this cycle.
            "retire": In(1),  #: minstret counts an instruction; only with ``retire_final``.
            "retire_final": In(1),  #: The last counted instruction cannot trap any more.
            "retire_cancel": In(1),  #: The last counted instruction traps and is not counted.
            "enter": In(1),  #: A trap is entered.
            "enter_pc": In(32),  #: Value for mepc, with ``enter``.
            "enter_interrupt": In(1),  #: The trap is an interrupt rather than an exception.
            "enter_cause": In(table.MCAUSE_CODE_BITS),  #: Cause of the trap, for mcause.
            "leave": In(1),  #: mret: the interrupt enable is restored.
            "handler": Out(32),  #: Address of the trap handler; depends on ``enter_interrupt`` and ``enter_cause``.
            "mepc": Out(32),  #: Address to return to.
            "mie": Out(1),  #: Interrupts are enabled.
            "pending": Out(32),  #: Interrupt lines that are pending and individually enabled.
            "wdata": Out(32),  #: The value written to any CSR.
        }
        if config.xpulpv2:
            #: loop_we: Writes of the hardware-loop registers, which are stored elsewhere, a bit per register; only with
            #:   XpulpV2.
            #: loop_values: Values of the hardware-loop registers, a word per register; only with XpulpV2.
            ports |= {"loop_we": Out(len(LOOP_REGISTERS)), "loop_values": In(XLEN * len(LOOP_REGISTERS))}
        if config.debug:
            #: debug: Debug mode and its registers; only with debug mode.
            ports["debug"] = In(DebugSignature())
            #: dscratch1: Value of dscratch1; only with debug mode.
            #: dscratch1_we: dscratch1 is written; only with debug mode.
            ports |= {"dscratch1": In(XLEN), "dscratch1_we": Out(1)}
            #: trigger_select: Value of tselect; only with debug mode.
            #: trigger_we: Writes of tdata1 and tdata2 of the selected trigger, which are stored elsewhere, a bit each;
            #:   only with debug mode.
            #: trigger_values: Values of tdata1 and tdata2 of the selected trigger, a word each; only with debug mode.
            ports |= {
                "trigger_select": Out(range(table.TRIGGERS)),
                "trigger_we": Out(2),
                "trigger_values": In(2 * XLEN),
            }
        if config.nn_csrs:
            #: nn_value: Word of the NN-RF at ``csr.addr``; only with ``nn_csrs``.
            #: nn_we: The word of the NN-RF is written; only with ``nn_csrs``.
            ports |= {"nn_value": In(XLEN), "nn_we": Out(1)}
        if config.performance_counters:
            #: events: Events of the PULP performance counters; only with these counters.
            ports["events"] = In(len(table.PERFORMANCE_EVENTS))
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        names = STORED + (DEBUG_STORED if self.config.debug else ())
        names += ("tselect",) if table.CsrGroup.TRIGGER in self.config.csr_groups else ()
        stored = {name: StoredCsr(table.CSR_BY_NAME[name]) for name in names}
        counters = self._counters(m, stored)
        misa = table.CSR_BY_NAME["misa"].reset & ~(0 if self.config.xpulpv2 else table.MISA_X)
        values = {name: register.value for name, register in stored.items()}
        values |= {"misa": Const(misa, XLEN), "mip": self.irq & IRQ_BITS, "mhartid": self.hart_id} | counters
        if self.config.xpulpv2:
            for index, csr in enumerate(LOOP_REGISTERS):
                values[csr.name] = self.loop_values.word_select(index, XLEN)
                m.d.comb += self.loop_we[index].eq(self._writes(csr))
        if self.config.performance_counters:
            values |= self._performance(m, stored)
        if self.config.debug:
            values["dcsr"] = self._debug(m, stored)
            values |= {"dpc": self.debug.pc, "dscratch0": self.debug.scratch, "dscratch1": self.dscratch1}
        if table.CsrGroup.TRIGGER in self.config.csr_groups:
            values["tinfo"] = Const(table.CSR_BY_NAME["tinfo"].reset, XLEN)
            for index, csr in enumerate(TRIGGER_REGISTERS):
                values[csr.name] = self.trigger_values.word_select(index, XLEN)
                m.d.comb += self.trigger_we[index].eq(self._writes(csr) & self.debug.mode)
            m.d.comb += self.trigger_select.eq(stored["tselect"].value)

        port = self.csr
        read = {csr.address: values[csr.name] for csr in table.CSRS if csr.name in values}
        if self.config.nn_csrs:
            # accesses to words that do not exist are illegal
            is_entry = port.addr[NN_ENTRY_BITS:] == table.NN_BASE >> NN_ENTRY_BITS
            m.d.comb += self.nn_we.eq(port.valid & port.write & is_entry)
            read[f"{table.NN_BASE >> NN_ENTRY_BITS:08b}----"] = self.nn_value
        follow_case(m, port.rdata, port.addr, read)
        written = {CsrOp.SET: port.rdata | port.wdata, CsrOp.CLEAR: port.rdata & ~port.wdata, None: port.wdata}
        follow_case(m, self.wdata, port.op, written)
        for name, register in stored.items():
            with m.If(self._writes(table.CSR_BY_NAME[name])):
                m.d.sync += register.set(self.wdata)
        self._traps(m, stored)
        return m

    def _writes(self, csr: table.Csr):
        return self.csr.valid & self.csr.write & (self.csr.addr == csr.address)

    def _traps(self, m, stored):
        mstatus, mtvec, mcause = stored["mstatus"], stored["mtvec"], stored["mcause"]
        mie, mpie = mstatus[table.MSTATUS_MIE_BIT], mstatus[table.MSTATUS_MPIE_BIT]
        with m.If(self.boot):
            m.d.sync += mtvec.set(self.boot_addr, above=table.MTVEC_BASE_LSB)
        with m.If(self.enter):
            cause = Cat(
                self.enter_cause, Const(0, table.MCAUSE_INTERRUPT_BIT - table.MCAUSE_CODE_BITS), self.enter_interrupt
            )
            m.d.sync += [mpie.eq(mie), mie.eq(0), *stored["mepc"].set(self.enter_pc), *mcause.set(cause)]
        with m.Elif(self.leave):
            m.d.sync += [mie.eq(mpie), mpie.eq(1)]
        entry = Mux(self.enter_interrupt & mtvec[0], self.enter_cause, 0)
        padding = Const(0, table.MTVEC_BASE_LSB - table.MCAUSE_CODE_BITS - HANDLER_BYTES_LOG2)
        m.d.comb += [
            self.handler.eq(Cat(Const(0, HANDLER_BYTES_LOG2), entry, padding, mtvec.value[table.MTVEC_BASE_LSB :])),
            self.mepc.eq(stored["mepc"].value),
            self.mie.eq(mie),
            self.pending.eq(self.irq & stored["mie"].value),
        ]

    def _debug(self, m, stored):
        dcsr, cause = stored["dcsr"], Signal(table.DCSR_CAUSE_BITS, name="dcsr_cause")
        with m.If(self.debug.enter):
            m.d.sync += cause.eq(self.debug.cause)
        m.d.comb += [
            self.debug.ebreak.eq(dcsr[table.DCSR_EBREAKM_BIT]),
            self.debug.step.eq(dcsr[table.DCSR_STEP_BIT]),
            self.debug.step_irq.eq(dcsr[table.DCSR_STEPIE_BIT]),
            self.debug.pc_we.eq(self._writes(table.CSR_BY_NAME["dpc"])),
            self.debug.scratch_we.eq(self._writes(table.CSR_BY_NAME["dscratch0"])),
            self.dscratch1_we.eq(self._writes(table.CSR_BY_NAME["dscratch1"])),
            self.debug.wdata.eq(self.wdata),
        ]
        low, high = table.DCSR_CAUSE_LSB, table.DCSR_CAUSE_LSB + table.DCSR_CAUSE_BITS
        return Cat(dcsr.value[:low], cause, dcsr.value[high:])

    def _counted(self, events, stored):
        if not self.config.debug:
            return events
        return Mux(self.debug.mode & stored["dcsr"][table.DCSR_STOPCOUNT_BIT], 0, events)

    def _clocked(self, counter):
        """Give a counter of cycles a clock that also runs while the core waits for an event behind its clock gate."""
        return DomainRenamer(UNGATED)(counter) if self.config.clock_gate else counter

    def _counters(self, m, stored):
        values, inhibit = {}, stored["mcountinhibit"]
        clock_runs, retire = self._counted(self.clock_runs, stored), self._counted(self.retire, stored)
        steps = {
            "cycle": (clock_runs & ~inhibit[table.MCOUNTINHIBIT_CY_BIT], Const(1), Const(0)),
            "instret": (retire & ~inhibit[table.MCOUNTINHIBIT_IR_BIT], self.retire_final, self.retire_cancel),
        }
        for name, (step, final, cancel) in steps.items():
            counter = MachineCounter(rests=self.config.idle_registers_rest)
            m.submodules[f"m{name}"] = self._clocked(counter) if name == "cycle" else counter
            m.d.comb += [
                counter.step.eq(step),
                counter.final.eq(final),
                counter.cancel.eq(cancel),
                counter.we_low.eq(self._writes(table.CSR_BY_NAME[f"m{name}"])),
                counter.we_high.eq(self._writes(table.CSR_BY_NAME[f"m{name}h"])),
                counter.wdata.eq(self.wdata),
            ]
            for view in (name, f"m{name}"):
                values |= {view: counter.value[:XLEN], f"{view}h": counter.value[XLEN:]}
        return values

    def _performance(self, m, stored):
        counters = PerformanceCounters()
        m.submodules.performance = self._clocked(counters)
        names = [f"pccr{event}" for event in range(len(table.PERFORMANCE_EVENTS))]
        m.d.comb += [
            counters.events.eq(self._counted(self.events, stored)),
            counters.we.eq(Cat(self._writes(table.CSR_BY_NAME[name]) for name in names)),
            counters.we_all.eq(self._writes(table.CSR_BY_NAME["pccrall"])),
            counters.we_enable.eq(self._writes(table.CSR_BY_NAME["pcer"])),
            counters.we_mode.eq(self._writes(table.CSR_BY_NAME["pcmr"])),
            counters.wdata.eq(self.wdata),
        ]
        values = {name: getattr(counters, f"count{event}") for event, name in enumerate(names)}
        return values | {"pcer": counters.enable, "pcmr": counters.mode}
