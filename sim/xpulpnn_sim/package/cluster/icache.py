"""The testbench of the instruction caches: cores that fetch, from a memory that is computed."""

from xpulpnn.isa.cluster import L2_BASE, Icache, IcacheCounter
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.package.cluster.memories import obi_port
from xpulpnn_sim.package.cluster.wiring import Nets
from xpulpnn_sim.package.core_testbench import SIMULATED_NS
from xpulpnn_sim.package.design import Design
from xpulpnn_sim.package.template import fill, template

_NOTHING = L2_BASE + (1 << 16)
_LOOP_BYTES = 256


def icache_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the instruction caches, by name."""
    config = design.cluster
    nets = Nets(design, ("cores", "port"))
    word = "{content(refill_addr + 4), content(refill_addr)}"
    memory = obi_port("refill", 64, word, 0, accept="refill_accept", fails="refill_addr >= NOTHING")
    counters = {
        name: f"{Icache.PRIVATE_COUNTERS + WORD_BYTES * counter:08x}"
        for name, counter in (
            ("hits_register", IcacheCounter.HITS),
            ("transactions_register", IcacheCounter.TRANSACTIONS),
        )
    }
    return {
        "obi_port.v": template("obi_port.v"),
        f"{design.identifier}_tb.v": fill(
            "icache_tb.v",
            module=design.module,
            top=design.top,
            top_name=design.identifier,
            cores=config.cores,
            base=f"{L2_BASE:08x}",
            nothing=f"{_NOTHING:08x}",
            loop=_LOOP_BYTES,
            count_register=f"{Icache.COUNT:08x}",
            flush_register=f"{Icache.FLUSH:08x}",
            half_period=SIMULATED_NS // 2,
            wires=nets.declarations(),
            memories=memory,
            connections=nets.connections(),
            access=template("obi_access.v").replace("{{name}}", "port"),
            **counters,
        ),
    }
