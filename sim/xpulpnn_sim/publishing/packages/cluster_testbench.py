"""The testbench of the whole cluster: memory outside, a program for all cores, the results it must leave."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import CONTROL, L2_BASE, Control
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn_sim.publishing.packages.core_testbench import SIMULATED_NS, described_testbench, sparse_hex
from xpulpnn_sim.publishing.packages.design import Design, Port, connections, fill, hex_words, listing, template
from xpulpnn_sw.kernels.programs.cluster_check import OPERANDS, RESULTS_AT, cluster_check

_ELEMENT = re.compile(r"(?P<group>\w+?)__(?P<place>\d+)__\w+")


@dataclass(frozen=True)
class _Nets:
    """The nets of all ports of a design.

    A port ``group__3__signal`` of an array is a slice of the vector ``group_signal``, ``bus__signal`` is called
    ``bus_signal``, all others have their own names.
    """

    design: Design
    driven: Sequence[str] = ()  # Arrays, buses and ports whose inputs the testbench assigns: they are variables

    def elements(self, group: str) -> int:
        """Return the number of elements of an array of ports."""
        found = map(_ELEMENT.fullmatch, self.design.by_name)
        return len({match["place"] for match in found if match is not None and match["group"] == group})

    def declarations(self) -> str:
        """Declarations of the nets."""
        rows: dict[str, tuple[str, int]] = {}
        for port in self.design.ports:
            if port.is_clocking:
                continue
            name, group = _net(port), port.name.partition("__")[0]
            kind = "reg" if port.is_input and group in self.driven else "wire"
            rows[name] = kind, rows.get(name, (kind, 0))[1] + port.width
        # one bit has a range too, so that a testbench may have an index for any number of cores
        lines = (f"    {kind:4} {f'[{width - 1}:0]':9} {name};" for name, (kind, width) in rows.items())
        return "\n".join(lines) + "\n"

    def connection(self, port: Port) -> str:
        """The net, or the slice of one, that a port is connected to."""
        match = _ELEMENT.fullmatch(port.name)
        name = _net(port)
        if match is None or self.elements(match["group"]) == 1:
            return name
        return f"{name}[{int(match['place']) * port.width} +: {port.width}]"


def _net(port: Port) -> str:
    return re.sub(r"__(\d+__)?", "_", port.name, count=1)


_SEED = 20
_WORDS = 1 << 11  # of the memory outside

_CYCLES_PER_CORE, _CYCLES = 2000, 20_000  # of the watchdog, for the fastest memory

_DRIVEN = ("cluster_id", "boot_addr", "fetch_enable", "events", "host")


def cluster_testbench(design: Design) -> dict[str, str]:
    """Files of the folder ``tb`` for the cluster, by name."""
    config = design.cluster
    rng = Random(_SEED)
    program = cluster_check(config, [rng.getrandbits(32) for _ in range(OPERANDS)])
    nets = _Nets(design, _DRIVEN)
    responders, writes = _outside(nets, config)
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
            memories=f"{responders}\n{banks(nets, config)}",
            connections=connections(design.ports, nets.connection),
            writes=writes,
        ),
        f"{design.top}_program.hex": sparse_hex(program.image(_WORDS)),
        f"{design.top}_program.lst": listing(program.assembled, program.source, insns),
        f"{design.top}_expected.hex": hex_words(program.results),
        f"{design.top}_expected.lst": described_testbench(program.results, texts),
    }
    files["obi_port.v"] = template("obi_port.v")
    if config.memories == "ports":
        files["sram.v"] = template("sram.v")
    return files


_PORT = """\
    obi_port #(.WIDTH({width})) {name}_port{suffix} (
        .clk(clk), .rst(rst), .latency(latency[3:0]), .stall_percent(stall[6:0]), .seed(seed + {number}),
        .req({name}_req{slice1}), .gnt({name}_gnt{slice1}), .rvalid({name}_rvalid{slice1}),
        .rdata({name}_rdata{slice}), .err({err}), .accept({accept}), .word({word}), .fails({fails})
    );
"""

_BANK = """\
    sram #(.WORDS({words})) bank{number} (
        .clk(clk), .req(banks_req{bit}), .we(banks_we{bit}), .be(banks_be{be}), .addr(banks_addr{addr}),
        .wdata(banks_wdata{data}), .rdata(banks_rdata{data})
    );
"""


def obi_port(
    name: str,
    width: int,
    word: str,
    number: int,
    *,
    place: int | None = None,
    accept: str = "",
    fails: str = "1'b0",
) -> str:
    """The responder of one port, or of element ``place`` of an array of several.

    ``word`` is what a read gives, ``accept`` the net that tells a grant, ``number`` tells the stalls of ports apart.
    """
    slices = ("", "") if place is None else (f"[{place}]", f"[{place * width} +: {width}]")
    return _PORT.format(
        name=name,
        suffix="" if place is None else place,
        width=width,
        number=number,
        slice1=slices[0],
        slice=slices[1],
        err=f"{name}_err{slices[0]}",
        accept=accept,
        word=word,
        fails=fails,
    )


def banks(nets: _Nets, config: ClusterConfig) -> str:
    """A memory for each bank that is outside; nothing if they are inside."""
    count = nets.elements("banks")
    addr = (config.bank_words - 1).bit_length()
    texts: list[str] = []
    for number in range(count):
        widths = {"bit": 1, "be": 4, "addr": addr, "data": 32}
        slices = {
            key: "" if count == 1 else f"[{number}]" if width == 1 else f"[{number * width} +: {width}]"
            for key, width in widths.items()
        }
        texts.append(_BANK.format(words=config.bank_words, number=number, **slices))
    return "\n".join(texts)


_WRITE = """\
        for (k = 0; k < {size}; k = k + 1)
            if ({name}_accept && {name}_we && {name}_be[k] && {name}_place < WORDS)
                mem[{name}_place{index}] <= {name}_wdata[8*k +: 8];"""


def _word(place: str, width: int) -> str:
    return f"mem[{place}]" if width == 32 else f"{{mem[{place} + 1], mem[{place}]}}"


def _outside(nets: _Nets, config: ClusterConfig) -> tuple[str, str]:
    """The responders of all ports with their nets, and what the ports write under the edge of the clock."""
    ports = {"ext": 32} | ({"dma": 64} if config.dma else {}) | ({"refill": 64} if config.icache_private else {})
    texts: list[str] = []
    writes: list[str] = []
    for number, (name, width) in enumerate(ports.items()):
        place, accept = f"{name}_place", f"{name}_accept"
        texts.append(f"    wire [31:0] {place} = ({name}_addr - BASE) >> 2;\n    wire        {accept};\n")
        texts.append(obi_port(name, width, _word(place, width), number, accept=accept, fails=f"{place} >= WORDS"))
        if name != "refill":
            index = "][8*k +: 8" if width == 32 else " + k / 4][8*(k % 4) +: 8"
            writes.append(_WRITE.format(name=name, size=width // 8, index=index))
    texts += [] if config.icache_private else [_fetch_ports(nets)]
    return "\n".join(texts), "\n".join(writes)


def _fetch_ports(nets: _Nets) -> str:
    """A port for the instructions of each core."""
    count = nets.elements("instr")
    lines: list[str] = []
    for number in range(count):
        net = f"instr_place{number}"
        lines.append(f"    wire [31:0] {net} = (instr_addr[{32 * number} +: 32] - BASE) >> 2;\n")
        lines.append(obi_port("instr", 32, f"mem[{net}]", number + 3, place=number, fails=f"{net} >= WORDS"))
    return "".join(lines)
