"""Triggers of debug mode: addresses at which the core halts (guide, "Triggers")."""

from amaranth.hdl import Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.csr_file import StoredCsr
from xpulpnn.core.pipeline import WatchedSignature
from xpulpnn.isa.csr import CSR_BY_NAME, TDATA1_EXECUTE_BIT, TDATA1_LOAD_BIT, TDATA1_M_BIT, TDATA1_STORE_BIT, TRIGGERS


class Triggers(Component):
    """Compares addresses of instructions and of their accesses. Reset disables all triggers.

    An instruction is compared while it is in ID. An access is compared in EX, a cycle before it is requested: while a
    trigger for loads or stores is enabled, every access takes one more cycle. Nothing is compared in debug mode.
    """

    mode: In(1)  #: The core is in debug mode.
    select: In(range(TRIGGERS))  #: The trigger that is read and written.
    we_control: In(1)  #: tdata1 of the selected trigger is written.
    we_address: In(1)  #: tdata2 of the selected trigger is written.
    wdata: In(32)  #: Value written to tdata1 or tdata2.
    control: Out(32)  #: tdata1 of the selected trigger.
    address: Out(32)  #: tdata2 of the selected trigger.
    id_pc: In(32)  #: Address of the instruction in ID.
    id_hit: Out(1)  #: Some trigger matches the instruction in ID.
    ex: In(WatchedSignature())  #: The access in EX.

    def elaborate(self, platform):
        m = Module()
        executes, armed, accesses = signals(TRIGGERS, "executes armed accesses")
        # a selected trigger that does not exist reads as none
        for number in range(self.config.triggers):
            control, address = StoredCsr(CSR_BY_NAME["tdata1"]), StoredCsr(CSR_BY_NAME["tdata2"])
            on = control[TDATA1_M_BIT] & ~self.mode
            is_kind = Mux(self.ex.store, control[TDATA1_STORE_BIT], control[TDATA1_LOAD_BIT])
            with m.If(self.select == number):
                m.d.comb += [self.control.eq(control.value), self.address.eq(address.value)]
                with m.If(self.we_control):
                    m.d.sync += control.set(self.wdata)
                with m.If(self.we_address):
                    m.d.sync += address.set(self.wdata)
            m.d.comb += [
                executes[number].eq(on & control[TDATA1_EXECUTE_BIT] & (self.id_pc == address.value)),
                armed[number].eq(on & (control[TDATA1_STORE_BIT] | control[TDATA1_LOAD_BIT])),
                accesses[number].eq(on & is_kind & (self.ex.address == address.value)),
            ]
        checked = Signal()
        m.d.comb += [self.id_hit.eq(executes.any()), self.ex.blocked.eq(armed.any() & (~checked | self.ex.hit))]
        with m.If(self.ex.gone):
            m.d.sync += [checked.eq(0), self.ex.hit.eq(0)]
        with m.Elif(self.ex.valid & self.ex.older_done & ~checked):
            m.d.sync += [checked.eq(armed.any()), self.ex.hit.eq(accesses.any())]
        return m
