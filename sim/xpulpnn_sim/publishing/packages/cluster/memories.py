"""Instances of the memories around a cluster."""

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.publishing.packages.cluster.wiring import Nets

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
    has_err: bool = True,
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
        err=f"{name}_err{slices[0]}" if has_err else "",
        accept=accept,
        word=word,
        fails=fails,
    )


def banks(nets: Nets, config: ClusterConfig) -> str:
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
