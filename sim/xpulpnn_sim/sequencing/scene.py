"""The core between memories of any timing, with the properties beside it."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.core.core import Core
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.retirement import WIDTHS
from xpulpnn_sim.sequencing.loops import watch_loops
from xpulpnn_sim.sequencing.seen import CORE, LOOPS

CONSTANT = ("boot_addr", "hart_id")
_OUTSTANDING = 4


class Scene(wiring.Component):
    """The core, its memories' timing, and what must stay 0.

    Parameters
    ----------
    config : CoreConfig
        With the retirement port.
    """

    def __init__(self, config):
        self.config = config
        self.seen = CORE | LOOPS
        ports = {"boot_addr": In(XLEN), "hart_id": In(XLEN), "irq": In(XLEN)}
        for bus in ("instr", "data"):
            ports |= {f"{bus}_{name}": In(1) for name in ("gnt", "answer", "err")} | {f"{bus}_rdata": In(XLEN)}
        ports |= {f"rvfi_{name}": Out(width) for name, width in WIDTHS.items()}
        ports |= {f"seen_{name}": In(each.width) for name, each in self.seen.items()}
        ports |= {"wrong_loops": Out(64)}
        self.parts = {}
        super().__init__(ports)

    def elaborate(self, platform):
        """Build it."""
        m = Module()
        m.submodules.core = core = Core(self.config)
        m.d.comb += [
            core.boot_addr.eq(self.boot_addr),
            core.hart_id.eq(self.hart_id),
            core.irq.eq(self.irq),
            core.fetch_enable.eq(1),
            *(getattr(self, f"rvfi_{n}").eq(getattr(core, f"rvfi_{n}")) for n in WIDTHS),
        ]
        self._bus(m, "instr", core.instr)
        self._bus(m, "data", core.data)
        seen = {name: getattr(self, f"seen_{name}") for name in self.seen}
        wrong, relation = watch_loops(m, core, seen)
        self.parts["loops"] = [*wrong, *relation]
        m.d.comb += self.wrong_loops.eq(Cat(*wrong.values(), *relation.values()))
        return m

    def _bus(self, m, name, port):
        waiting = Signal(range(_OUTSTANDING + 1), name=f"{name}_outstanding")
        m.d.comb += [
            port.gnt.eq(getattr(self, f"{name}_gnt")),
            port.rvalid.eq((waiting != 0) & getattr(self, f"{name}_answer")),
            port.rdata.eq(getattr(self, f"{name}_rdata")),
            port.err.eq(getattr(self, f"{name}_err")),
        ]
        m.d.sync += waiting.eq(waiting + (port.req & port.gnt) - port.rvalid)
