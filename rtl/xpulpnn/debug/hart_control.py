from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, follow_case, signals
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dmi import AccessSignature
from xpulpnn.isa import debug as isa


def flag(word, bit):
    return word[bit.bit_length() - 1]


class HartControl(Component):
    """Registers dmcontrol, dmstatus, hartinfo, hart array mask and haltsum0, and the state of each hart.

    A halt request of a hart stays until it is withdrawn. A hart counts as halted or running by what it writes into the
    debug module's memory; a reset makes it running. Reset, and ``active`` low, clear all requests; the halted harts and
    the harts that have been reset are remembered while the module is not active.
    """

    def __init__(self, config: DebugConfig):
        harts = config.harts
        ports = {
            "access": In(AccessSignature()),  #: Accesses of the debugger to the registers.
            "active": In(1),  #: The module is active; while it is not, only dmcontrol is accessed.
            "unavailable": In(harts),  #: Harts that cannot be debugged now.
            "halts": In(harts),  #: Harts that write that they have halted; pulses.
            "resumes": In(harts),  #: Harts that write that they resume; pulses.
            "activate": Out(1),  #: Value of dmactive being written, valid with ``controls``.
            "controls": Out(1),  #: dmcontrol is being written.
            "number": Out(max(harts - 1, 1).bit_length()),  #: Number of the selected hart, hartsel.
            "halted": Out(harts),  #: Harts that have halted.
            "resuming": Out(harts),  #: Harts that must resume.
            "debug_req": Out(harts),  #: Harts that must halt.
            "reset": Out(harts),  #: Harts that are held in reset.
            "ndmreset": Out(1),  #: Everything but the debug module is held in reset.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        harts, access = self.config.harts, self.access
        hasel, hart_reset, ndmreset, works = signals(1, "hasel hart_reset ndmreset works")
        have_reset = Signal(harts, init=-1)
        resume_ack, mask, selected, addressed = signals(harts, "resume_ack mask selected addressed")
        self._select(m, self.number, hasel, mask, selected)
        new_number = access.wdata[isa.HARTSELLO_LSB :][: len(self.number)]
        self._select(m, new_number, flag(access.wdata, isa.Control.HASEL), mask, addressed)
        halt, resume = flag(access.wdata, isa.Control.HALTREQ), flag(access.wdata, isa.Control.RESUMEREQ)
        changed = Signal(harts)
        m.d.comb += [
            self.controls.eq(access.writes & (access.addr == isa.DmReg.DMCONTROL)),
            self.activate.eq(flag(access.wdata, isa.Control.DMACTIVE)),
            works.eq(self.active & (self.activate | ~self.controls)),
            changed.eq(Mux(self.controls & works, addressed, 0)),
            self.ndmreset.eq(ndmreset),
            self.reset.eq(ndmreset.replicate(harts) | hart_reset.replicate(harts) & selected),
        ]
        with m.If(~works):
            m.d.sync += [
                *(register.eq(0) for register in (hasel, hart_reset, ndmreset, self.number, mask)),
                *(register.eq(0) for register in (self.debug_req, self.resuming, resume_ack)),
            ]
        with m.Elif(self.controls):
            m.d.sync += [
                hasel.eq(flag(access.wdata, isa.Control.HASEL)),
                hart_reset.eq(flag(access.wdata, isa.Control.HARTRESET) & self.config.hart_reset),
                ndmreset.eq(flag(access.wdata, isa.Control.NDMRESET)),
                self.number.eq(new_number),
                self.debug_req.eq(Mux(halt, self.debug_req | addressed, self.debug_req & ~addressed)),
            ]
        with m.Elif(access.writes & (access.addr == isa.DmReg.HAWINDOW)):
            m.d.sync += mask.eq(access.wdata)
        resumed = Mux(resume & ~halt, changed, 0)
        acknowledged = Mux(flag(access.wdata, isa.Control.ACKHAVERESET), changed, 0)
        m.d.sync += [
            self.halted.eq((self.halted | self.halts) & ~self.resumes & ~self.reset),
            have_reset.eq(have_reset & ~acknowledged | self.reset),
        ]
        with m.If(works):
            m.d.sync += [
                self.resuming.eq((self.resuming | resumed & self.halted) & ~self.resumes & ~self.reset),
                resume_ack.eq((resume_ack | self.resumes) & ~resumed),
            ]
        states = {
            isa.Status.HALTED: self.halted & ~self.unavailable,
            isa.Status.RUNNING: ~(self.halted | self.unavailable | self.reset),
            isa.Status.UNAVAIL: self.unavailable | self.reset & ~self.halted,
            isa.Status.RESUMEACK: resume_ack,
            isa.Status.HAVERESET: have_reset,
        }
        self._read(m, Cat(hasel, hart_reset, ndmreset), mask, self._status(selected, states))
        return m

    def _select(self, m, number, hasel, mask, selected):
        with m.If(hasel):
            m.d.comb += selected.eq(mask)
        for hart in range(self.config.harts):
            with m.If(number == hart):
                m.d.comb += selected[hart].eq(1)

    def _status(self, selected, states):
        """Return the value of dmstatus, also if hartsel is the number of a hart that does not exist."""
        word = Const(isa.STATUS_VERSION | isa.STATUS_AUTHENTICATED | isa.STATUS_IMPEBREAK, isa.MAX_HARTS)
        nobody = self.number >= self.config.harts
        for place, having in states.items():
            some, all_of_them = (selected & having).any(), ~(selected & ~having).any() & ~nobody
            word = word | some << place | all_of_them << place + 1
        return word | nobody << isa.Status.NONEXISTENT | (nobody & ~selected.any()) << isa.Status.NONEXISTENT + 1

    def _read(self, m, control, mask, status):
        hasel, hart_reset, ndmreset = control
        dmcontrol = Signal(isa.MAX_HARTS)
        m.d.comb += [
            dmcontrol[isa.HARTSELLO_LSB :][: len(self.number)].eq(self.number),
            flag(dmcontrol, isa.Control.HASEL).eq(hasel),
            flag(dmcontrol, isa.Control.HARTRESET).eq(hart_reset),
            flag(dmcontrol, isa.Control.NDMRESET).eq(ndmreset),
            flag(dmcontrol, isa.Control.DMACTIVE).eq(self.active),
        ]
        values = {
            isa.DmReg.DMCONTROL: dmcontrol,
            isa.DmReg.DMSTATUS: status,
            isa.DmReg.HARTINFO: Const(isa.SCRATCH_CSRS << isa.HARTINFO_NSCRATCH_LSB),
            isa.DmReg.HAWINDOW: mask,
            isa.DmReg.HALTSUM0: self.halted,
        }
        follow_case(m, self.access.rdata, self.access.addr, values)
