"""The testbench of the whole cluster: memory outside, a program for all cores, the results it must leave."""

from random import Random

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import CONTROL, L2_BASE, Control
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn_sim.package.cluster.memories import banks, obi_port
from xpulpnn_sim.package.cluster.wiring import Nets
from xpulpnn_sim.package.core_testbench import SIMULATED_NS, described, sparse_hex
from xpulpnn_sim.package.design import Design
from xpulpnn_sim.package.listing import hex_words, listing
from xpulpnn_sim.package.template import fill, template
from xpulpnn_sw.cluster_check import OPERANDS, RESULTS_AT, cluster_check

_SEED = 20
_WORDS = 1 << 11
"""Of the memory outside."""

_CYCLES_PER_CORE, _CYCLES = 2000, 20_000
"""Of the watchdog, for the fastest memory."""

_DRIVEN = ("cluster_id", "boot_addr", "fetch_enable", "events", "host")

_DMA_WRITES = """\
        for (k = 0; k < 8; k = k + 1)
            if (dma_accept && dma_we && dma_be[k] && dma_place < WORDS)
                mem[dma_place + k / 4][8*(k % 4) +: 8] <= dma_wdata[8*k +: 8];"""


def _fetches(nets: Nets) -> str:
    """The ports for instructions."""
    count = nets.elements("instr")
    if not count:
        place = "(refill_addr - BASE) >> 2"
        word = "{mem[refill_place + 1], mem[refill_place]}"
        return f"    wire [31:0] refill_place = {place};\n" + obi_port(
            "refill", 64, word, 1, fails="refill_place >= WORDS"
        )
    lines: list[str] = []
    for number in range(count):
        address = "instr_addr" if count == 1 else f"instr_addr[{32 * number} +: 32]"
        net = f"instr_place{number}"
        lines.append(f"    wire [31:0] {net} = ({address} - BASE) >> 2;\n")
        place = None if count == 1 else number
        lines.append(obi_port("instr", 32, f"mem[{net}]", number + 3, place=place, fails=f"{net} >= WORDS"))
    return "".join(lines)


def cluster_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the cluster, by name."""
    config = design.config
    assert isinstance(config, ClusterConfig)
    rng = Random(_SEED)
    program = cluster_check(config, [rng.getrandbits(32) for _ in range(OPERANDS)])
    nets = Nets(design, _DRIVEN)
    memories = [
        obi_port("ext", 32, "mem[ext_place]", 0, accept="ext_accept", fails="ext_place >= WORDS"),
        _fetches(nets),
    ]
    if config.dma:
        word = "{mem[dma_place + 1], mem[dma_place]}"
        memories += [
            "    wire [31:0] dma_place = (dma_addr - BASE) >> 2;\n    wire        dma_accept;\n",
            obi_port("dma", 64, word, 2, accept="dma_accept", fails="dma_place >= WORDS"),
        ]
    memories.append(banks(nets, config))
    insns = tuple(enabled(config.core.extensions, config.core.widths))
    texts = [*(f"sum of core {core}" for core in range(config.cores)), "sum of all"]
    files = {
        "obi_port.v": template("obi_port.v"),
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
            memories="\n".join(memories),
            connections=nets.connections(),
            dma_writes=_DMA_WRITES if config.dma else "",
        ),
        f"{design.top}_program.hex": sparse_hex(program.image(_WORDS)),
        f"{design.top}_program.lst": listing(program.assembled, program.source, insns),
        f"{design.top}_expected.hex": hex_words(program.results),
        f"{design.top}_expected.lst": described(program.results, texts),
    }
    if config.memories == "ports":
        files["sram.v"] = template("sram.v")
    return files
