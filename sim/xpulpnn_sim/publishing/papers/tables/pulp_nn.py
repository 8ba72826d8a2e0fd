"""PULP-NN: layers on one to eight cores, its CIFAR-10 network, and PULP-NN-mixed with all combinations of widths."""

from collections.abc import Iterator
from itertools import product

from xpulpnn_sim.publishing.papers.runs import CosimRun, cosim_run
from xpulpnn_sim.publishing.papers.table import (
    MACS_PER_CYCLE,
    SPEED_UP,
    Bar,
    Metric,
    PaperTable,
    Published,
    TableRow,
    printed,
)
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.layer import ConvLayer

_PAPER = (
    "PULP-NN: Accelerating Quantized Neural Networks on Parallel Ultra-Low-Power RISC-V Processors, "
    "Phil. Trans. R. Soc. A 378, 2020"
)
_LINEAR = "2048:16"
_SIGNED = "i8xi8xi8"
_CORES = 8
_VARIANTS = ("xpulpv2_2x2", "xpulpv2_4x2")
_BEST = _VARIANTS[-1]
_KILOCYCLES = Metric(unit="k cycles", per=1000.0, digits=1)
_FULLY_CONNECTED_KILOCYCLES = Metric(unit="k cycles", per=1000.0)
_CYCLES_PER_MAC = Metric(unit="cycles/MAC", per=float(ConvLayer.parse(PAPER_LAYER).macs), digits=3)


def _conv(variant: str, cores: int | None, bits: int = 8) -> CosimRun:
    """Return a run of the convolution; activations of less than 8 bits are unsigned, as in the paper."""
    return cosim_run(
        "conv",
        layer=PAPER_LAYER,
        precision=_SIGNED if bits == 8 else f"{bits}x{bits}x{bits}",
        variant=variant,
        requantise=Rule.SHIFT.value,
        cores=cores,
    )


def _linear(cores: int) -> CosimRun:
    rule = Rule.SHIFT.value
    return cosim_run("linear", layer=_LINEAR, precision=_SIGNED, variant="xpulpv2_2x1", requantise=rule, cores=cores)


def _channelwise(kernel: str, cores: int) -> CosimRun:
    layer, precision = find_kernel(kernel).usual_in_cluster, str(find_kernel(kernel).uniform(8))
    return cosim_run(kernel, layer=layer, precision=precision, variant="xpulpv2", cores=cores)


_CONV_CYCLES = printed("table 2", {1: "2586", 2: "1299", 4: "660", 8: "361"})
_CONV_SPEED_UPS = printed("table 2", {2: "1.99", 4: "3.92", 8: "7.16"})
_LINEAR_CYCLES = printed("table 2", {1: "33", 2: "17.6", 4: "8.4", 8: "4.4"})
_LINEAR_SPEED_UPS = printed("table 2", {2: "1.89", 4: "3.92", 8: "7.52"})
_NARROW = printed("section 5(b)", {4: "0.186", 2: "0.181"})
_OVER_RV32IM = printed("section 5(a)", {8: "8.8", 4: "3.69", 2: "4.22"})


def _rows() -> Iterator[TableRow]:
    for variant, (cores, published) in product(_VARIANTS, _CONV_CYCLES.items()):
        figure, run = f"convolution {variant}, 8 bit, cores: {cores}", _conv(variant, cores)
        bar = Bar("convolution, 8 bit: thousands of cycles over the cores", variant, str(cores))
        yield TableRow(figure, _KILOCYCLES, published, run, quick=False, bar=bar)
    for variant, (cores, published) in product(_VARIANTS, _CONV_SPEED_UPS.items()):
        figure = f"convolution {variant}, 8 bit: {cores} cores over one"
        yield TableRow(figure, SPEED_UP, published, _conv(variant, cores), over=_conv(variant, 1), quick=False)
    for cores, published in _LINEAR_CYCLES.items():
        figure = f"fully connected {_LINEAR}, 8 bit, cores: {cores}"
        bar = Bar("fully connected, 8 bit: thousands of cycles over the cores", "xpulpv2_2x1", str(cores))
        yield TableRow(figure, _FULLY_CONNECTED_KILOCYCLES, published, _linear(cores), bar=bar)
    for cores, published in _LINEAR_SPEED_UPS.items():
        figure = f"fully connected {_LINEAR}, 8 bit: {cores} cores over one"
        yield TableRow(figure, SPEED_UP, published, _linear(cores), over=_linear(1))
    figure, published = f"convolution {_BEST}, 8 bit, {_CORES} cores: peak", Published("15.5", "section 5(c)")
    yield TableRow(figure, MACS_PER_CYCLE, published, _conv(_BEST, _CORES), quick=False)
    for bits, published in _NARROW.items():
        figure = f"convolution {_BEST}, {bits} bit, {_CORES} cores"
        yield TableRow(figure, _CYCLES_PER_MAC, published, _conv(_BEST, _CORES, bits), quick=False)
    for bits, published in _OVER_RV32IM.items():
        figure, run = f"convolution {_BEST} over rv32im_2x2, {bits} bit, one core", _conv(_BEST, None, bits)
        yield TableRow(figure, SPEED_UP, published, run, over=_conv("rv32im_2x2", None, bits), quick=False)
    yield TableRow(
        f"convolution, 8 bit: {_BEST} on {_CORES} cores over rv32im_2x2 on one",
        Metric(unit="x", better="more", digits=1),
        Published("63", "section 5(b)"),
        _conv(_BEST, _CORES),
        over=_conv("rv32im_2x2", None),
        quick=False,
    )
    for kernel in ("maxpool", "avgpool", "relu"):
        figure = f"{kernel} {find_kernel(kernel).usual_in_cluster}, 8 bit: {_CORES} cores over one"
        published = Published("7", "section 5(b), never lower")
        yield TableRow(figure, SPEED_UP, published, _channelwise(kernel, _CORES), over=_channelwise(kernel, 1))


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
        run = cosim_run("conv", layer=PAPER_LAYER, precision=precision, variant=variant, cores=_CORES)
        bar = Bar(f"convolution on {_CORES} cores: MAC per cycle by widths", variant, precision)
        figure = f"convolution {variant} {precision}, {_CORES} cores"
        yield TableRow(figure, MACS_PER_CYCLE, peak, run, quick=False, bar=bar)


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
_NETWORK_KILOCYCLES = Metric(unit="k cycles", per=1000.0, digits=0)
_NETWORK_CYCLES = {
    1: Published("4862", "section 5(e), 28.6 ms at 170 MHz"),
    8: Published("705", "section 5(e), 241 frames/s at 170 MHz"),
}
_NETWORK_SPEED_UPS = printed("section 5(e)", {2: "1.99", 4: "3.79"}) | {
    8: Published("7", "section 5(e), slightly less")
}


def _network(preset: str, bits: int, cores: int) -> CosimRun:
    return cosim_run("cifar10", preset=preset, bits=bits, cores=cores)


def _network_rows() -> Iterator[TableRow]:
    for (preset, bits), (cores, published) in product(_NETWORKS, _NETWORK_CYCLES.items()):
        figure, run = f"network on {preset}, {bits} bit, cores: {cores}", _network(preset, bits, cores)
        bar = Bar("CIFAR-10: thousands of cycles", f"cores: {cores}", f"{preset}, {bits} bit")
        paper = published if bits == 8 else None
        yield TableRow(figure, _NETWORK_KILOCYCLES, paper, run, quick=False, bar=bar)
    for (preset, bits), (cores, published) in product(_NETWORKS, _NETWORK_SPEED_UPS.items()):
        if preset == "ri5cy" or cores == _CORES:
            figure = f"network on {preset}, {bits} bit: {cores} cores over one"
            several, alone = _network(preset, bits, cores), _network(preset, bits, 1)
            yield TableRow(figure, SPEED_UP, published if bits == 8 else None, several, over=alone, quick=False)


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
