# amaranth: UnusedElaboratable=no
"""Properties of the debug module: access to its memory, harts that halt and resume, and abstract commands."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.debug.command import AbstractCommands
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.hart_control import HartControl, flag
from xpulpnn.debug.memory_share import MemoryShare
from xpulpnn.isa import debug
from xpulpnn.isa.debug import CommandError, Control, DmReg
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_HARTS = 2

_SHARE_CLAIMS = {
    "one": "with the memory's grant, a fetch or an access is granted, not both; accesses have priority",
    "whole": "the memory gets a request exactly for what is granted",
    "answered": "each is answered once, in the cycle after its grant",
}


class ShareClaims(Obligation):
    """Properties of a hart's fetches and data accesses to the module's memory, which responds in the next cycle."""

    def __init__(self):
        super().__init__("memory of the debug module", MemoryShare(), _SHARE_CLAIMS, {})

    def claim(self, m):
        unit, answered = self.unit, Signal(2, name="was_granted")
        instr, accesses, memory = unit.instr, unit.data, unit.memory
        granted = Cat(instr.req & instr.gnt, accesses.req & accesses.gnt)
        m.d.sync += answered.eq(granted)
        m.d.comb += memory.rvalid.eq(answered.any())
        request_fits = (
            (memory.addr == Mux(accesses.req, accesses.addr, instr.addr))
            & (memory.we == (accesses.req & accesses.we))
            & (~accesses.req | (memory.wdata == accesses.wdata) & (memory.be == accesses.be))
        )
        m.d.comb += [
            self.one.eq((granted == Cat(instr.req & ~accesses.req, accesses.req)) | ~memory.gnt & ~granted.any()),
            self.whole.eq(~memory.req & ~(instr.req | accesses.req) | memory.req & request_fits),
            self.answered.eq(Cat(instr.rvalid, accesses.rvalid) == answered),
        ]


_HART_CLAIMS = {
    "asked": "a halt request stays from the write that sets it to the next write to that hart that does not",
    "halted": "a hart is shown as halted, also in haltsum0, from its halt until it resumes or is reset",
    "resumes": "a resume request stays with a halted hart until it resumes or is reset; a running hart has none",
    "acknowledged": "resumeack is set when the hart resumes, until the next request",
}


class HartClaims(Obligation):
    """Properties of the states of two harts, compared with a record of the accesses to the module's registers."""

    def __init__(self):
        registers = {name: (name, _HARTS) for name in ("mask", "resume_ack")} | {"hasel": ("hasel", 1)}
        super().__init__("harts that halt and resume", HartControl(DebugConfig(harts=_HARTS)), _HART_CLAIMS, registers)

    def claim(self, m):
        unit, access = self.unit, self.unit.access
        word = access.wdata
        controls, leaves = access.writes & (access.addr == DmReg.DMCONTROL), Signal(name="leaves")
        active = flag(word, Control.DMACTIVE)
        m.d.comb += leaves.eq(~unit.active | controls & ~active)
        holds = {name: [] for name in _HART_CLAIMS}
        holds["halted"].append((access.addr != DmReg.HALTSUM0) | (access.rdata == unit.halted))
        holds["asked"].append((unit.controls == controls) & (~controls | (unit.activate == active)))
        for hart in range(_HARTS):
            halt_requested, halted, resuming, acknowledged = (Signal(name=f"{name}_{hart}") for name in _HART_CLAIMS)
            chosen = (word[debug.HARTSELLO_LSB] == hart) | flag(word, Control.HASEL) & self.mask[hart]
            halt, resume = flag(word, Control.HALTREQ), flag(word, Control.RESUMEREQ) & ~flag(word, Control.HALTREQ)
            gone = unit.resumes[hart] | unit.reset[hart]
            with m.If(gone):
                m.d.sync += [halted.eq(0), resuming.eq(0)]
            with m.Elif(unit.halts[hart]):
                m.d.sync += halted.eq(1)
            with m.If(unit.resumes[hart]):
                m.d.sync += acknowledged.eq(1)
            with m.If(controls & chosen):
                m.d.sync += halt_requested.eq(halt)
                with m.If(resume):
                    m.d.sync += [acknowledged.eq(0), resuming.eq(halted & ~gone)]
            with m.If(leaves):
                m.d.sync += [halt_requested.eq(0), resuming.eq(0), acknowledged.eq(0)]
            seen = (unit.debug_req, unit.halted, unit.resuming, self.resume_ack)
            for name, record, port in zip(holds, (halt_requested, halted, resuming, acknowledged), seen, strict=True):
                holds[name].append(record == port[hart])
            holds["resumes"].append(~resuming | halted)
        m.d.comb += [getattr(self, name).eq(Cat(each).all()) for name, each in holds.items()]


_COMMAND_CLAIMS = {
    "taken": "a command written, or started by an access, is examined next, unless one is busy or failed",
    "looked": "an examined command runs on the selected hart if it is halted, or else sets an error",
    "told": "only that hart is told to start, until it has started",
    "ends": "a command is busy until the hart halts again or is reset, and no other command starts",
    "steady": "during a command its instructions do not change, and only the hart writes data",
    "refused": "an access that would disturb a command sets an error, and errors stay until cleared",
    "read": "abstractcs shows whether a command is busy, and the error",
}


class CommandClaims(Obligation):
    """Properties of abstract commands of two harts, with a record of the previous cycle and of the running command.

    It is assumed that a hart reports a begin or an exception only while a command runs.
    """

    def __init__(self):
        registers = {"looked_at": ("looked_at", 1), "under_way": ("under_way", 1)}
        registers |= {"error": ("error", debug.CMDERR_BITS), "auto": ("auto", debug.DATA_WORDS + debug.PROGRAM_WORDS)}
        registers |= {"target": ("target", 1), "waits": ("going_2", 1)}
        unit = AbstractCommands(DebugConfig(harts=_HARTS))
        super().__init__("abstract commands", unit, _COMMAND_CLAIMS, registers)

    def claim(self, m):
        unit, access, busy = self.unit, self.unit.access, self.looked_at | self.under_way
        at = {name: access.writes & (access.addr == DmReg[name]) for name in ("ABSTRACTCS", "COMMAND", "ABSTRACTAUTO")}
        places = [DmReg.DATA0 + number for number in range(debug.DATA_WORDS)]
        places += [DmReg.PROGBUF0 + number for number in range(debug.PROGRAM_WORDS)]
        touched = Cat((access.addr == place) & (access.reads | access.writes) for place in places)
        m.d.comb += [getattr(unit, name).eq(getattr(self.io, name) & self.under_way) for name in ("going", "exception")]
        begun, hart, halted = Signal(name="has_begun"), Signal(_HARTS, name="hart"), Signal(name="was_halted")
        with m.If(self.looked_at):
            m.d.sync += [begun.eq(0), hart.eq(1 << unit.number), halted.eq(unit.halted.bit_select(unit.number, 1))]
        with m.Elif(unit.going | unit.exception):
            m.d.sync += begun.eq(1)
        written = unit.data_writes, unit.wdata
        code, words = Cat(*unit.transfer, unit.runs_program, *unit.program), list(unit.data)
        free = ~busy & (self.error == CommandError.NONE)
        cleared = Mux(at["ABSTRACTCS"] & ~busy, access.wdata[debug.ABSTRACTCS_CMDERR_LSB :][: debug.CMDERR_BITS], 0)
        now = {
            "active": unit.active,
            "begins": free & (at["COMMAND"] | (touched & self.auto).any()),
            "looked": self.looked_at,
            "ran": self.under_way,
            "over": ((Mux(begun, unit.halts, 0) | unit.reset) & hart).any(),
            "busy": busy,
            "disturbed": busy & (touched.any() | Cat(at.values()).any()),
            "error": self.error & ~cleared,
            "code": code,
            "data": Cat(Mux(writes, written[1], word) for writes, word in zip(written[0], words, strict=True)),
        }
        was = {name: Signal(len(value), name=f"before_{name}") for name, value in now.items()}
        m.d.sync += [was[name].eq(value) for name, value in now.items()]
        goes = Mux(self.under_way & ~begun, hart, 0)
        read = access.rdata[debug.ABSTRACTCS_BUSY_BIT] == busy
        read &= access.rdata[debug.ABSTRACTCS_CMDERR_LSB :][: debug.CMDERR_BITS] == self.error
        m.d.comb += [
            self.read.eq((access.addr != DmReg.ABSTRACTCS) | read),
            self.taken.eq(~(was["active"] & was["begins"]) | self.looked_at),
            self.looked.eq(
                (~(was["active"] & was["looked"]) | Mux(self.under_way, halted, self.error != CommandError.NONE))
                & (~self.looked_at | (self.error == CommandError.NONE))
            ),
            self.told.eq((unit.go == goes) & (~self.under_way | (hart == 1 << self.target) & (self.waits == ~begun))),
            self.ends.eq(
                Mux(was["ran"], self.under_way == (was["active"] & ~was["over"]), ~self.under_way | was["looked"])
                & ~(self.looked_at & (was["busy"] | self.under_way))
            ),
            self.steady.eq(~(was["busy"] & busy) | (code == was["code"]) & (Cat(*words) == was["data"])),
            self.refused.eq(
                ~was["active"]
                | ((self.error != CommandError.NONE) | ~was["disturbed"])
                & ((was["error"] == CommandError.NONE) | (self.error == was["error"]))
            ),
        ]
