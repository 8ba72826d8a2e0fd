"""PULP-NN: layers on one to eight cores, its CIFAR-10 network, and PULP-NN-mixed with widths of all combinations."""

from collections.abc import Iterator
from itertools import product

from xpulpnn_sim.publishing.papers.table import (
    Cifar10Run,
    PaperRun,
    PaperTable,
    Place,
    Published,
    TableRow,
    printed,
    speed_up,
)
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.layer import ConvLayer

_PAPER = (
    "PULP-NN: Accelerating Quantized Neural Networks on Parallel Ultra-Low-Power RISC-V Processors, "
    "Phil. Trans. R. Soc. A 378, 2020"
)
_LINEAR = "2048:16"
_SIGNED = "i8xi8xi8"
_KILO = 1000.0
_CORES = 8
_VARIANTS = ("xpulpv2_2x2", "xpulpv2_4x2")
_BEST = _VARIANTS[-1]
_MACS = float(ConvLayer.parse(PAPER_LAYER).macs)


def _conv(variant: str, cores: int | None, bits: int = 8) -> PaperRun:
    """The convolution; the paper's narrower activations are unsigned."""
    precision = _SIGNED if bits == 8 else f"{bits}x{bits}x{bits}"
    rule = Rule.SHIFT.value
    return PaperRun(kernel="conv", layer=PAPER_LAYER, precision=precision, variant=variant, rule=rule, cores=cores)


def _linear(cores: int) -> PaperRun:
    rule = Rule.SHIFT.value
    return PaperRun(kernel="linear", layer=_LINEAR, precision=_SIGNED, variant="xpulpv2_2x1", rule=rule, cores=cores)


def _channelwise(kernel: str, cores: int) -> PaperRun:
    chosen = kind(kernel)
    precision = str(chosen.uniform(8))
    return PaperRun(kernel=kernel, layer=chosen.usual_in_cluster, precision=precision, variant="xpulpv2", cores=cores)


def _rows() -> Iterator[TableRow]:
    kilocycles = printed("table 2", {1: "2586", 2: "1299", 4: "660", 8: "361"})
    for variant, (cores, published) in product(_VARIANTS, kilocycles.items()):
        yield TableRow(
            figure=f"convolution {variant}, 8 bit, cores: {cores}",
            unit="k cycles",
            published=published,
            run=_conv(variant, cores),
            per=_KILO,
            digits=1,
            quick=False,
            place=Place("convolution, 8 bit: thousands of cycles over the cores", variant, str(cores)),
        )
    speed_ups = printed("table 2", {2: "1.99", 4: "3.92", 8: "7.16"})
    for variant, (cores, published) in product(_VARIANTS, speed_ups.items()):
        figure = f"convolution {variant}, 8 bit: {cores} cores over one"
        yield speed_up(figure, published, _conv(variant, cores), _conv(variant, 1), quick=False)
    for cores, published in printed("table 2", {1: "33", 2: "17.6", 4: "8.4", 8: "4.4"}).items():
        yield TableRow(
            figure=f"fully connected {_LINEAR}, 8 bit, cores: {cores}",
            unit="k cycles",
            published=published,
            run=_linear(cores),
            per=_KILO,
            place=Place("fully connected, 8 bit: thousands of cycles over the cores", "xpulpv2_2x1", str(cores)),
        )
    for cores, published in printed("table 2", {2: "1.89", 4: "3.92", 8: "7.52"}).items():
        figure = f"fully connected {_LINEAR}, 8 bit: {cores} cores over one"
        yield speed_up(figure, published, _linear(cores), _linear(1))
    yield TableRow(
        figure=f"convolution {_BEST}, 8 bit, {_CORES} cores: peak",
        unit="MAC/cycle",
        published=Published("15.5", "section 5(c)"),
        run=_conv(_BEST, _CORES),
        field="macs_per_cycle",
        better="more",
        quick=False,
    )
    for bits, published in printed("section 5(b)", {4: "0.186", 2: "0.181"}).items():
        yield TableRow(
            figure=f"convolution {_BEST}, {bits} bit, {_CORES} cores",
            unit="cycles/MAC",
            published=published,
            run=_conv(_BEST, _CORES, bits),
            per=_MACS,
            digits=3,
            quick=False,
        )
    for bits, published in printed("section 5(a)", {8: "8.8", 4: "3.69", 2: "4.22"}).items():
        figure = f"convolution {_BEST} over rv32im_2x2, {bits} bit, one core"
        yield speed_up(figure, published, _conv(_BEST, None, bits), _conv("rv32im_2x2", None, bits), quick=False)
    figure = f"convolution, 8 bit: {_BEST} on {_CORES} cores over rv32im_2x2 on one"
    published = Published("63", "section 5(b)")
    yield speed_up(figure, published, _conv(_BEST, _CORES), _conv("rv32im_2x2", None), digits=1, quick=False)
    for kernel in ("maxpool", "avgpool", "relu"):
        figure = f"{kernel} {kind(kernel).usual_in_cluster}, 8 bit: {_CORES} cores over one"
        published = Published("7", "section 5(b), never lower")
        yield speed_up(figure, published, _channelwise(kernel, _CORES), _channelwise(kernel, 1))


TABLE = PaperTable(
    name="pulp-nn",
    title="PULP-NN: convolution and other layers on one to eight cores",
    printed_by=_PAPER,
    rows=tuple(_rows()),
    notes=(
        (
            f"Convolution {PAPER_LAYER}, results by a shift. The paper's are measured on GAP8, its Table 2 with blocks "
            "of 2x2, cache misses included; ours on a cluster with 16 banks, instructions fetched without delay."
        ),
        f"The paper does not say how large its fully connected layer is; {_LINEAR} fits its instructions.",
        (
            "One core over another instruction set: both on the back end by itself. Speed-ups of layers without "
            "products are at least the printed figure in the paper."
        ),
    ),
)


def _mixed_rows() -> Iterator[TableRow]:
    for variant, widths in product((_BEST, "nn_4x4"), product((8, 4, 2), repeat=3)):
        precision = "x".join(map(str, widths))
        # the fastest of the paper's 27 kernels
        peak = Published("16", "abstract") if (variant, precision) == (_BEST, "8x8x8") else None
        yield TableRow(
            figure=f"convolution {variant} {precision}, {_CORES} cores",
            unit="MAC/cycle",
            published=peak,
            run=PaperRun(kernel="conv", layer=PAPER_LAYER, precision=precision, variant=variant, cores=_CORES),
            field="macs_per_cycle",
            better="more",
            quick=False,
            place=Place(f"convolution on {_CORES} cores: MAC per cycle by widths", variant, precision),
        )


MIXED = PaperTable(
    name="pulp-nn-mixed",
    title="PULP-NN-mixed: 27 combinations of widths",
    printed_by="Enabling Mixed-Precision Quantized Neural Networks in Extreme-Edge Devices, ACM CF 2020",
    rows=tuple(_mixed_rows()),
    notes=(
        (
            f"Layer {PAPER_LAYER}, widths of inputs x weights x results, batch normalisation in 32 bits. The paper "
            "gives the peak of its kernels; xpulpv2_4x2 has the same instructions, nn_4x4 those of XpulpNN."
        ),
    ),
)

_NETWORKS = (("ri5cy", 8), ("xpulpnn", 8), ("xpulpnn", 4), ("xpulpnn", 2))


def _network_rows() -> Iterator[TableRow]:
    kilocycles = {
        1: Published("4862", "section 5(e), 28.6 ms at 170 MHz"),
        8: Published("705", "section 5(e), 241 frames/s at 170 MHz"),
    }
    for (preset, bits), (cores, published) in product(_NETWORKS, kilocycles.items()):
        yield TableRow(
            figure=f"network on {preset}, {bits} bit, cores: {cores}",
            unit="k cycles",
            published=published if bits == 8 else None,
            run=Cifar10Run(preset=preset, bits=bits, cores=cores),
            per=_KILO,
            digits=0,
            quick=False,
            place=Place("CIFAR-10: thousands of cycles", f"cores: {cores}", f"{preset}, {bits} bit"),
        )
    speed_ups = printed("section 5(e)", {2: "1.99", 4: "3.79"}) | {8: Published("7", "section 5(e), slightly less")}
    for (preset, bits), (cores, published) in product(_NETWORKS, speed_ups.items()):
        if preset == "ri5cy" or cores == _CORES:
            figure = f"network on {preset}, {bits} bit: {cores} cores over one"
            several, alone = (Cifar10Run(preset=preset, bits=bits, cores=number) for number in (cores, 1))
            yield speed_up(figure, published if bits == 8 else None, several, alone, quick=False)


CIFAR10 = PaperTable(
    name="cifar10",
    title="CIFAR-10 network",
    printed_by=_PAPER,
    rows=tuple(_network_rows()),
    notes=(
        (
            "Three convolutions 5x5 with ReLU and pooling, a linear layer; 6.56 million MAC, weights random. The first "
            "layer has 8 bits whatever the others have."
        ),
        "Several cores get their operands by DMA, as the paper's do; one core by itself has memory of its own.",
    ),
)
