"""The core between memories with any timing, together with the properties."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.core.core import Core
from xpulpnn.errors import ToolError
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.retirement import port_widths
from xpulpnn_sim.proofs.pipeline.catalog import WINDOW, pipeline_properties
from xpulpnn_sim.proofs.pipeline.properties import invariants, memory
from xpulpnn_sim.proofs.pipeline.properties.halts import halt_property, without_debugger
from xpulpnn_sim.proofs.pipeline.properties.invariants import Probes, Property, implies
from xpulpnn_sim.proofs.pipeline.properties.loops import loop_property
from xpulpnn_sim.proofs.pipeline.properties.nnrf import nnrf_property
from xpulpnn_sim.proofs.pipeline.properties.register_reads import register_property
from xpulpnn_sim.proofs.pipeline.properties.system import interrupt_property, system_property


def progress_property(m, core, seen, window):
    """Return the property that some progress is made within ``window`` cycles.

    An instruction retires, an interrupt is taken, or a unit computes; only wfi without a pending enabled interrupt may
    wait longer. Other proofs show that multiplications and divisions end.
    """
    quiet = Signal(range(window + 2), name="progress_quiet")
    computes = seen.ex_valid & ~seen.ex_access[0] & ~seen.ex_done
    progresses = core.rvfi_valid | core.irq_ack | computes | (seen.sleeping & ~seen.any_pending)
    m.d.sync += quiet.eq(Mux(progresses, 0, quiet + (quiet <= window)))
    invariants = {
        "what counts late is in EX": implies(seen.late.any() & ~seen.gives_back, seen.ex_valid),
        "what is booted fetches": implies(seen.booted, seen.fetch_running),
    }
    return Property({"nothing retires": quiet > window}, invariants)


_WORD_BYTES = 4


def bus_violations(m, name, port, outstanding, limit):
    """Return the violations of the bus protocol by a port, by name.

    A request stays, with the same attributes, until it is granted. Addresses are word-aligned. Enabled bytes are
    adjacent, and at least one byte is enabled. With ``limit`` outstanding transfers, a request is allowed only with a
    response in the same cycle.
    """
    writes = hasattr(port, "we")
    request = Cat(port.addr, *((port.we, port.be, port.wdata) if writes else ()))
    pending, pending_request = Signal(name=f"{name}_waits"), Signal(len(request), name=f"{name}_kept")
    m.d.sync += [pending.eq(port.req & ~port.gnt), pending_request.eq(request)]
    wrong = {
        f"{name} request withdrawn": pending & ~port.req,
        f"{name} request changed": pending & (request != pending_request),
        f"{name} address": port.req & (port.addr[:2] != 0),
        f"{name} too many": port.req & (outstanding - port.rvalid >= limit),
    }
    if writes:
        runs = [((1 << length) - 1) << first for length in range(1, 5) for first in range(_WORD_BYTES + 1 - length)]
        wrong[f"{name} bytes"] = port.req & ~Cat(port.be == each for each in runs).any()
    return wrong


FETCHES, ACCESSES = 4, 1  # maximum of outstanding transfers of the instruction port and the data port

_OUTSTANDING = 8
_PARTS = 16  # maximum of parts of a property

_INVARIANTS = 64  # maximum of invariants of a property


def joined(name, conditions, most):
    """Return the conditions of a property as one word; raise :class:`ToolError` if there are more than ``most``."""
    if len(conditions) > most:
        raise ToolError(f"{name} must have at most {most} parts or invariants, not {len(conditions)}")
    return Cat(*conditions.values())


_MAY_BE_MISSING = {"kappa": XLEN, "lambda": XLEN, "second": XLEN, "nn_later_pair": 0, "ex_requantise": 5, "late": 2}
_MAY_BE_MISSING |= dict.fromkeys(("ex_wb_base", "ex_loads", "wb_loads", "gives_back"), 1)
_MAY_BE_MISSING |= dict.fromkeys(("ex_pair", "ex_later_pair", "wb_pair"), 1)
"""Widths of the signals of optional units; the signals are 0 without the unit."""


class CoreHarness(wiring.Component):
    """The core with memories, and outputs for the violations of properties and invariants, which must stay 0."""

    def __init__(self, config, seen):
        self.config = config
        self.seen = seen
        ports = {"boot_addr": In(XLEN), "hart_id": In(XLEN), "irq": In(XLEN), "prompt": In(1)}
        for bus in ("instr", "data"):
            ports |= {f"{bus}_{name}": In(1) for name in ("gnt", "answer", "err")} | {f"{bus}_rdata": In(XLEN)}
        ports |= {"holds": In(1), "held_address": In(XLEN), "held_halves": In(XLEN), "held_fails": In(2)}
        if config.debug:
            ports |= {"debug_req": In(1), "debug_halt_addr": In(XLEN), "debug_exception_addr": In(XLEN)}
        self.widths = port_widths(pairs=config.mac_load_pair)
        ports |= {"watched_register": In(5), "watched_entry": In(self.widths["nn_addr"]), "watched_bit": In(5)}
        ports |= {f"rvfi_{name}": Out(width) for name, width in self.widths.items()}
        ports |= {f"seen_{name}": In(each.width) for name, each in self.seen.items()}
        ports |= {f"wrong_{rule.name}": Out(_PARTS) for rule in pipeline_properties(config)}
        ports |= {f"broken_{rule.name}": Out(_INVARIANTS) for rule in pipeline_properties(config)}
        self.parts, self.invariants = {}, {}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = Core(self.config)
        started = Signal()
        m.d.sync += started.eq(1)
        m.d.comb += [
            core.boot_addr.eq(self.boot_addr),
            core.hart_id.eq(self.hart_id),
            core.irq.eq(self.irq),
            core.fetch_enable.eq(1),
            *(getattr(self, f"rvfi_{name}").eq(getattr(core, f"rvfi_{name}")) for name in self.widths),
        ]
        seen = Probes((name, Const(0, width)) for name, width in _MAY_BE_MISSING.items())
        seen |= {name: getattr(self, f"seen_{name}") for name in self.seen}
        fetches, accesses = self._bus(m, "instr", core.instr), self._bus(m, "data", core.data)
        held = memory.FixedInstruction(m, self.held_address, self.held_halves, self.held_fails)
        free = self.instr_rdata, self.instr_err
        requested, rdata, err = memory.fixed_instruction_memory(m, core.instr, held, fetches, *free)
        kept_bit = memory.TrackedBit(m, core.data, self.held_address, self.watched_bit, self.data_rdata)
        with m.If(self.holds):
            m.d.comb += [core.instr.rdata.eq(rdata), core.instr.err.eq(err), core.data.rdata.eq(kept_bit.rdata)]
        under_way = invariants.access_invariants(seen, accesses)
        accessing, flowing = under_way | without_debugger(seen), invariants.pipeline_invariants(core, seen, started)
        counting = invariants.fetch_invariants(seen, fetches)
        fetching = counting | invariants.queue_invariants(seen)
        crossing = {"a second half is beyond a word boundary": implies(seen.lsu_second, seen.lsu_crosses)}
        bus = bus_violations(m, "instr", core.instr, fetches, FETCHES)
        bus |= bus_violations(m, "data", core.data, accesses, ACCESSES)
        properties = {
            "obi": Property(bus, accessing | counting | crossing),
            "fetches": memory.fetch_property(core, seen, held, requested).given(accessing | flowing | fetching),
            "interrupts": interrupt_property(m, core, seen, self.irq).given(accessing | flowing),
            "registers": register_property(m, core, seen, self.watched_register, self.watched_bit, self.config).given(
                accessing | flowing
            ),
            "data": memory.data_property(m, core, seen, started, kept_bit).given(accessing | flowing),
            "system": system_property(m, core, seen, self.boot_addr, fetches).given(accessing | flowing | fetching),
            "progress": progress_property(m, core, seen, WINDOW).given(accessing | flowing | fetching),
        }
        if self.config.xpulpv2:
            properties["loops"] = loop_property(m, core, seen, started).given(accessing | flowing)
        if self.config.mac_load:
            nnrf = nnrf_property(m, core, seen, started, self.watched_entry, self.watched_bit, self.config)
            properties["mac_load"] = nnrf.given(accessing | flowing)
        if self.config.debug:
            m.d.comb += core.debug_req.eq(self.debug_req)
            for name in ("debug_halt_addr", "debug_exception_addr"):
                m.d.comb += getattr(core, name)[1:].eq(getattr(self, name)[1:])
            properties["halts"] = halt_property(m, core, seen, self.boot_addr).given(under_way)
        for name, (wrong, supporting) in properties.items():
            self.parts[name], self.invariants[name] = [*wrong], [*supporting]
            broken = {text: ~invariant for text, invariant in supporting.items()}
            for port, conditions in ((f"wrong_{name}", wrong), (f"broken_{name}", broken)):
                m.d.comb += getattr(self, port).eq(joined(name, conditions, len(getattr(self, port))))
        return m

    def _bus(self, m, name, port):
        """Add a memory that grants and responds at any time, in order; return its number of outstanding transfers."""
        waiting = Signal(range(_OUTSTANDING), name=f"{name}_outstanding")
        m.d.comb += [
            port.gnt.eq(getattr(self, f"{name}_gnt") | self.prompt),
            port.rvalid.eq((waiting != 0) & (getattr(self, f"{name}_answer") | self.prompt)),
            port.rdata.eq(getattr(self, f"{name}_rdata")),
            port.err.eq(getattr(self, f"{name}_err")),
        ]
        m.d.sync += waiting.eq(waiting + (port.req & port.gnt) - port.rvalid)
        return waiting
