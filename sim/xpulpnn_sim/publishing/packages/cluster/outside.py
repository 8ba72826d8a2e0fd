"""The memory outside a cluster: what its ports are connected with, and what they write."""

from dataclasses import dataclass

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.publishing.packages.cluster.memories import obi_port
from xpulpnn_sim.publishing.packages.cluster.wiring import Nets

_AXI_PORT = """\
    axi_port #(.WIDTH({width})) {name}_port (
        .clk(clk), .rst(rst), .latency(latency[3:0]), .stall_percent(stall[6:0]), .seed(seed + {number}),
        .arvalid({name}_arvalid), .arready({name}_arready), .araddr({name}_araddr), .arlen({name}_arlen),
        .rvalid({name}_rvalid), .rready({name}_rready), .rdata({name}_rdata), .rresp({name}_rresp),
        .rlast({name}_rlast),
{writes}
        .raddr({name}_raddr), .word({word}), .rfails({name}_rplace >= WORDS)
    );
"""

_AXI_WRITES = """\
        .awvalid({name}_awvalid), .awready({name}_awready), .awaddr({name}_awaddr), .awlen({name}_awlen),
        .wvalid({name}_wvalid), .wready({name}_wready), .wlast({name}_wlast), .bvalid({name}_bvalid),
        .bready({name}_bready), .bresp({name}_bresp), .waddr({name}_waddr), .accept({name}_accept),
        .wfails({name}_wplace >= WORDS),"""

_NO_AXI_WRITES = """\
        .awvalid(1'b0), .awready(), .awaddr(32'd0), .awlen(8'd0), .wvalid(1'b0), .wready(), .wlast(1'b0), .bvalid(),
        .bready(1'b0), .bresp(), .waddr(), .accept(), .wfails(1'b0),"""

_AXI_NETS = """\
    assign {name}_rid = 1'b0;
    wire [31:0] {name}_raddr;
    wire [31:0] {name}_rplace = ({name}_raddr - BASE) >> 2;
"""

_AXI_WRITE_NETS = """\
    assign {name}_bid = 1'b0;
    wire [31:0] {name}_waddr;
    wire [31:0] {name}_wplace = ({name}_waddr - BASE) >> 2;
    wire        {name}_accept;
"""

_WRITE = """\
        for (k = 0; k < {size}; k = k + 1)
            if ({condition} && {name}_{enables}[k] && {place} < WORDS)
                mem[{place}{index}] <= {name}_wdata[8*k +: 8];"""


@dataclass(frozen=True, slots=True)
class Outside:
    """Pieces of the testbench."""

    instances: str  # the responders of all ports, and their nets
    writes: str  # what the ports write, under the edge of the clock
    leaves: str  # the condition that a core accesses what is not in the memory


def _word(place: str, width: int) -> str:
    return f"mem[{place}]" if width == 32 else f"{{mem[{place} + 1], mem[{place}]}}"


def _write(name: str, size: int, condition: str, enables: str, place: str) -> str:
    index = "][8*k +: 8" if size == 4 else " + k / 4][8*(k % 4) +: 8"
    return _WRITE.format(name=name, size=size, condition=condition, enables=enables, place=place, index=index)


def axi_outside(nets: Nets, config: ClusterConfig) -> Outside:
    """AXI4 ports."""
    ports = {"ext": (32, True)} | ({"dma": (64, True)} if config.dma else {})
    ports |= {"refill": (64, False)} if config.icache_private else {}
    texts: list[str] = []
    writes: list[str] = []
    for number, (name, (width, has_writes)) in enumerate(ports.items()):
        texts.append(_AXI_NETS.format(name=name) + (_AXI_WRITE_NETS.format(name=name) if has_writes else ""))
        channels = _AXI_WRITES if has_writes else _NO_AXI_WRITES
        word = _word(f"{name}_rplace", width)
        texts.append(
            _AXI_PORT.format(name=name, width=width, number=number, word=word, writes=channels.format(name=name))
        )
        if has_writes:
            writes.append(_write(name, width // 8, f"{name}_accept", "wstrb", f"{name}_wplace"))
    texts += [] if config.icache_private else [_fetch_ports(nets)]
    leaves = "ext_accept && ext_wplace >= WORDS || ext_rvalid && ext_rresp[1]"
    return Outside("\n".join(texts), "\n".join(writes), leaves)


def obi_outside(nets: Nets, config: ClusterConfig) -> Outside:
    """The ports that the cluster has inside."""
    ports = {"ext": 32} | ({"dma": 64} if config.dma else {}) | ({"refill": 64} if config.icache_private else {})
    texts: list[str] = []
    writes: list[str] = []
    for number, (name, width) in enumerate(ports.items()):
        place = f"{name}_place"
        texts.append(f"    wire [31:0] {place} = ({name}_addr - BASE) >> 2;\n    wire        {name}_accept;\n")
        texts.append(
            obi_port(name, width, _word(place, width), number, accept=f"{name}_accept", fails=f"{place} >= WORDS")
        )
        if name != "refill":
            writes.append(_write(name, width // 8, f"{name}_accept && {name}_we", "be", place))
    texts += [] if config.icache_private else [_fetch_ports(nets)]
    return Outside("\n".join(texts), "\n".join(writes), "ext_accept && ext_place >= WORDS")


def _fetch_ports(nets: Nets) -> str:
    """A port for the instructions of each core."""
    count = nets.elements("instr")
    lines: list[str] = []
    for number in range(count):
        net = f"instr_place{number}"
        lines.append(f"    wire [31:0] {net} = (instr_addr[{32 * number} +: 32] - BASE) >> 2;\n")
        lines.append(obi_port("instr", 32, f"mem[{net}]", number + 3, place=number, fails=f"{net} >= WORDS"))
    return "".join(lines)
