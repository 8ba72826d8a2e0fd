"""The testbench of the whole cluster: memory outside, a program for all cores, the results it must leave."""

from random import Random

from xpulpnn.isa.cluster import CONTROL, L2_BASE, Control
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn_sim.publishing.packages.cluster.memories import banks
from xpulpnn_sim.publishing.packages.cluster.outside import axi_outside, obi_outside
from xpulpnn_sim.publishing.packages.cluster.wiring import Nets
from xpulpnn_sim.publishing.packages.core_testbench import SIMULATED_NS, described, sparse_hex
from xpulpnn_sim.publishing.packages.design import Design
from xpulpnn_sim.publishing.packages.listing import hex_words, listing
from xpulpnn_sim.publishing.packages.template import fill, template
from xpulpnn_sw.kernels.programs.cluster_check import OPERANDS, RESULTS_AT, cluster_check

_SEED = 20
_WORDS = 1 << 11  # of the memory outside

_CYCLES_PER_CORE, _CYCLES = 2000, 20_000  # of the watchdog, for the fastest memory

_DRIVEN = ("cluster_id", "boot_addr", "fetch_enable", "events", "host")


def cluster_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the cluster, by name."""
    config = design.cluster
    rng = Random(_SEED)
    program = cluster_check(config, [rng.getrandbits(32) for _ in range(OPERANDS)])
    nets = Nets(design, _DRIVEN)
    has_axi = design.top == "cluster-axi"
    outside = (axi_outside if has_axi else obi_outside)(nets, config)
    insns = tuple(enabled(config.core.extensions, config.core.widths))
    texts = [*(f"sum of core {core}" for core in range(config.cores)), "sum of all"]
    files = {
        f"{design.identifier}_tb.v": fill(
            "cluster_tb.v",
            module=design.module,
            top=design.top,
            top_name=design.identifier,
            cores=config.cores,
            with_dma=" with the DMA engine" if config.dma else "",
            results=len(program.results),
            results_at=RESULTS_AT // WORD_BYTES,
            words=_WORDS,
            base=f"{L2_BASE:08x}",
            return_value=f"{program.return_value:08x}",
            return_register=f"{CONTROL + Control.RETURN:08x}",
            watchdog=_CYCLES + _CYCLES_PER_CORE * config.cores,
            half_period=SIMULATED_NS // 2,
            path="tb",
            wires=nets.declarations(),
            memories=f"{outside.instances}\n{banks(nets, config)}",
            leaves=outside.leaves,
            connections=nets.connections(),
            writes=outside.writes,
        ),
        f"{design.top}_program.hex": sparse_hex(program.image(_WORDS)),
        f"{design.top}_program.lst": listing(program.assembled, program.source, insns),
        f"{design.top}_expected.hex": hex_words(program.results),
        f"{design.top}_expected.lst": described(program.results, texts),
    }
    if has_axi:
        files["axi_port.v"] = template("axi_port.v")
    if not has_axi or not config.icache_private:
        files["obi_port.v"] = template("obi_port.v")
    if config.memories == "ports":
        files["sram.v"] = template("sram.v")
    return files
