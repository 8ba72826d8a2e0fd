# amaranth: UnusedElaboratable=no
"""Properties of the debug transport, for any ratio of TCK to the debug module's clock."""

from itertools import pairwise

from amaranth.hdl import Cat, DomainRenamer, EnableInserter, Fragment, ResetInserter, Signal
from amaranth.hdl._ast import Statement
from amaranth.lib import enum
from amaranth.lib.wiring import In

from xpulpnn.cells.sync import STAGES
from xpulpnn.component import assign_by_name, signals
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.debug.tap import Tap
from xpulpnn.isa.debug import DMI_ADDRESS_BITS, DmiOp, TapRegister
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_ACCESS_BITS = 1 + XLEN + DMI_ADDRESS_BITS
_TICKS, _ROUNDS = 3, 5  # ticks of both clocks per round, and rounds until both sides are idle


class TapStep(enum.Enum, shape=2):
    NOTHING, CAPTURE, SHIFT, UPDATE = range(4)


class TickingDtm(JtagDtm):
    """The debug transport with both clocks as enables of one clock; inputs replace the test access port."""

    port_ticks: In(1)  #: TCK ticks.
    module_ticks: In(1)  #: The debug module's clock ticks.
    port_reset: In(1)  #: Reset of the JTAG side.
    module_reset: In(1)  #: Reset of the debug module's side.
    step: In(TapStep)  #: Step of the test access port.
    instruction: In(TapRegister)  #: Instruction of the test access port.

    def elaborate(self, platform):
        fragment = Fragment.get(super().elaborate(platform), platform)
        tap = next(each for part, *_ in fragment.subfragments for each in part.origins or () if isinstance(each, Tap))
        fragment.subfragments[:] = [entry for entry in fragment.subfragments if tap not in (entry[0].origins or ())]
        # a module of its own could not have the enables
        for synchroniser, *_ in fragment.subfragments:
            synchroniser.origins = None
        # without the pins of the test access port
        outside = {name: getattr(self, name) for name in ("tdo", "tdo_enable")}.values()
        comb = fragment.statements["comb"]
        inside = [each for each in comb if not any(pin in each._lhs_signals() for pin in outside)]
        fragment.statements["comb"] = Statement.cast(inside)
        does = {name: self.step == TapStep[name.upper()] for name in ("capture", "shift", "update")}
        does["instruction"] = self.instruction
        fragment.add_statements("comb", [getattr(tap, name).eq(value) for name, value in does.items()])
        ticking = EnableInserter({"tck": self.port_ticks, "sync": self.module_ticks})(fragment)
        both = ResetInserter({"tck": self.port_reset, "sync": self.module_reset})(ticking)
        return DomainRenamer({"tck": "sync"})(both)


_CLAIMS = {
    "once": "an access is made once, and again only if the module is reset before the port knows",
    "same": "the access made is the one requested",
    "steady": "the port accepts no other access while the module reads it",
    "made": "the port ends an access when it has been made",
    "prompt": "an access is made by the third tick of the module's clock, and ended by the third tick of TCK after it",
    "refused": "an access requested earlier sets the sticky error",
    "told": "a result requested earlier, or after the sticky error, is BUSY; others are SUCCESS",
    "order": "request, response and their synchronised copies change in turn",
    "settles": "after a reset of one side, both are idle when both clocks have ticked 15 times",
}


class TransportClaims(Obligation):
    """Properties of the debug transport, with a record of the last access and its progress.

    After a reset of only one clock domain, no access is requested until both domains are idle.
    """

    def __init__(self):
        # the two registers that cross, and the synchronisers behind them
        registers = {"request": ("data", 1), "done": ("data_2", 1), "sticky": ("sticky", 1)}
        registers |= {"request_sync": ("stages", STAGES), "done_sync": ("stages_2", STAGES)}
        registers["shifted"] = ("shifted", 1 + _ACCESS_BITS)
        ports = {name: In(1) for name in ("port_ticks", "module_ticks", "port_reset", "module_reset", "tdi")}
        ports |= {"step": In(TapStep), "instruction": In(TapRegister), "rdata": In(XLEN)}
        unit = TickingDtm(DebugConfig())
        super().__init__("transport of the debug module", unit, _CLAIMS, registers, ports=ports)

    def claim(self, m):
        dmi, op = self.unit.dmi, self.shifted[:2]
        (to_module, asked), answered = self.request_sync, self.done_sync[1]
        inputs = ("port_ticks", "module_ticks", "port_reset", "module_reset", "tdi", "step", "instruction")
        m.d.comb += [*assign_by_name(self.unit, self, *inputs), dmi.rdata.eq(self.rdata)]
        ring = Cat(self.request, self.request_sync, self.done, self.done_sync)
        under_way = self.request | answered
        port = self.port_ticks & (self.instruction == TapRegister.DMI)
        asks = port & (self.step == TapStep.UPDATE) & ((op == DmiOp.READ) | (op == DmiOp.WRITE)) & ~self.sticky
        takes, does, resets, upset, unfair = signals(1, "takes does resets upset has_been_unfair")
        pending, made, refused, captured, busy = signals(1, "due has_been_made was_refused captured was_busy")
        access, fair = Signal(_ACCESS_BITS, name="access"), Signal(name="fair")
        m.d.comb += [
            takes.eq(asks & ~under_way & ~self.port_reset),
            does.eq(dmi.valid & self.module_ticks & ~self.module_reset),
            resets.eq(self.port_reset | self.module_reset),
            fair.eq(~unfair & ~(asks & ~under_way & upset)),
        ]
        m.d.sync += [
            unfair.eq(~fair),
            upset.eq(resets | upset & ring.any()),
            made.eq((made | does) & ~takes),
            refused.eq(asks & under_way & ~self.port_reset),
            captured.eq(port & (self.step == TapStep.CAPTURE) & ~self.port_reset),
            busy.eq(self.request | self.sticky),
        ]
        with m.If(takes):
            m.d.sync += [access.eq(Cat(op == DmiOp.WRITE, self.shifted[2:])), pending.eq(1)]
        with m.Elif(self.module_reset):
            m.d.sync += pending.eq(self.request)
        with m.Elif(does):
            m.d.sync += pending.eq(0)
        seen = self.request | to_module | asked
        changes = sum(first ^ second for first, second in pairwise(ring))
        claims = {
            "once": (~dmi.valid | pending)
            & (asked | ~to_module | pending)
            & (to_module | ~self.request | pending & ~asked & ~self.done),
            "same": ~seen | (Cat(dmi.write, dmi.wdata, dmi.addr) == access),
            "steady": ~(dmi.valid & takes),
            "made": (~ring[3:].any() | made) & (asked | ~self.request | ~made | upset),
            "refused": ~refused | self.sticky,
            "told": ~captured | (op == Cat(busy, busy)) & (~busy | self.sticky),
            "order": upset | (changes <= 1),
        }
        m.d.comb += [getattr(self, name).eq(~fair | holds) for name, holds in claims.items()]
        rests = self.step != TapStep.UPDATE
        self._claim_settles(m, ring, resets, rests, ~fair | ~upset)
        self._claim_prompt(m, takes, does, rests, made, ~fair | upset)

    def _claim_settles(self, m, ring, resets, rests, beside):
        """Claim that after a reset of one clock domain, the handshake registers of both soon become 0."""
        by_module, by_port = signals(range(_TICKS + 1), "by_module by_port")
        rounds = Signal(range(_ROUNDS + 1), name="rounds")
        over = (by_module == _TICKS) & (by_port == _TICKS)
        m.d.sync += [
            by_module.eq(by_module + (self.module_ticks & (by_module != _TICKS))),
            by_port.eq(by_port + (self.port_ticks & rests & (by_port != _TICKS))),
        ]
        with m.If(resets | over):
            m.d.sync += [by_module.eq(0), by_port.eq(0), rounds.eq(rounds + (rounds != _ROUNDS))]
        with m.If(resets):
            m.d.sync += rounds.eq(0)

        def has_ticked(number, ticks, count):
            """Return whether round ``number`` is over, or ``ticks`` has reached ``count`` within that round."""
            return (rounds > number) | (rounds == number) & (ticks >= count)

        follows = [~first | second for first, second in pairwise(ring)]
        holds = [follows[bit] | ~has_ticked(0, by_module, 1 + bit) for bit in range(3)]
        holds += [follows[3 + bit] | ~has_ticked(1, by_port, 1 + bit) for bit in range(2)]
        holds += [~ring[0] | ~has_ticked(2, by_port, 1)]
        holds += [~ring[1 + bit] | ~has_ticked(3, by_module, 1 + bit) for bit in range(3)]
        holds += [~ring[4 + bit] | ~has_ticked(4, by_port, 1 + bit) for bit in range(2)]
        m.d.comb += self.settles.eq(beside | Cat(holds).all())

    def _claim_prompt(self, m, takes, does, rests, made, beside):
        """State that an access is made and ended in time, counting ticks of the debug module's clock, then of TCK."""
        module, port = signals(range(_TICKS + 1), "waits_for_module waits_for_port")
        with m.If(takes):
            m.d.sync += module.eq(0)
        with m.Elif(self.module_ticks & (module != _TICKS)):
            m.d.sync += module.eq(module + 1)
        with m.If(does):
            m.d.sync += port.eq(0)
        with m.Elif(self.port_ticks & rests & (port != _TICKS)):
            m.d.sync += port.eq(port + 1)
        (to_module, asked), (to_port, answered) = self.request_sync, self.done_sync
        on_the_way = (module == 0) | (module == 1) & to_module | (module == 2) & asked
        back = (port == 0) | (port == 1) & to_port | (port == 2) & answered
        m.d.comb += self.prompt.eq(beside | ~self.request | (on_the_way & ~made) | (back & made & self.done))
