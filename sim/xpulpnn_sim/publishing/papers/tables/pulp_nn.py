"""PULP-NN: Table 2 on one to eight cores, peak, speed-up over RV32IM, layers without products."""

from collections.abc import Iterator

from xpulpnn_sim.publishing.papers.runs import KernelRun
from xpulpnn_sim.publishing.papers.table import Place, Quantity, Row, Table
from xpulpnn_sim.publishing.papers.tables.published import (
    CHANNELWISE_SPEED_UP,
    CONV_KILOCYCLES,
    CONV_SPEED_UPS,
    CYCLES_PER_MAC,
    EIGHT_OVER_RV32IMC,
    LINEAR_KILOCYCLES,
    LINEAR_SPEED_UPS,
    OVER_RV32IMC,
    PAPERS,
    PEAK,
)
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.convolution import ConvLayer

NAME = "pulp-nn"

_LINEAR = "2048:16"
_SIGNED = "i8xi8xi8"
_KILO = 1000.0
_CORES = 8
_BLOCKS = ("2x2", "4x2")
_MACS = float(ConvLayer.parse(PAPER_LAYER).macs)


def _conv(variant: str, cores: int | None, precision: str = _SIGNED) -> KernelRun:
    return KernelRun(
        kernel="conv",
        layer=PAPER_LAYER,
        precision=precision,
        variant=variant,
        rule=Rule.SHIFT.value,
        cores=cores,
    )


def _linear(cores: int) -> KernelRun:
    return KernelRun(
        kernel="linear",
        layer=_LINEAR,
        precision=_SIGNED,
        variant="xpulpv2_2x1",
        rule=Rule.SHIFT.value,
        cores=cores,
    )


def _channelwise(kernel: str, cores: int) -> KernelRun:
    chosen = kind(kernel)
    return KernelRun(
        kernel=kernel,
        layer=chosen.usual_in_cluster,
        precision=str(chosen.uniform(8)),
        variant="xpulpv2",
        cores=cores,
    )


def _rows() -> Iterator[Row]:
    for blocks in _BLOCKS:
        variant, chart = f"xpulpv2_{blocks}", "convolution, 8 bit: thousands of cycles over the cores"
        for cores, published in CONV_KILOCYCLES.items():
            yield Row(
                figure=f"convolution {variant}, 8 bit, cores: {cores}",
                unit="k cycles",
                published=published,
                ours=Quantity(run=_conv(variant, cores), per=_KILO),
                digits=1,
                quick=False,
                place=Place(chart, variant, str(cores)),
            )
    for blocks in _BLOCKS:
        variant = f"xpulpv2_{blocks}"
        for cores, published in CONV_SPEED_UPS.items():
            yield Row(
                figure=f"convolution {variant}, 8 bit: {cores} cores over one",
                unit="x",
                published=published,
                ours=Quantity(run=_conv(variant, cores), over=_conv(variant, 1)),
                better="more",
                quick=False,
            )
    for cores, published in LINEAR_KILOCYCLES.items():
        yield Row(
            figure=f"fully connected {_LINEAR}, 8 bit, cores: {cores}",
            unit="k cycles",
            published=published,
            ours=Quantity(run=_linear(cores), per=_KILO),
            place=Place("fully connected, 8 bit: thousands of cycles over the cores", "xpulpv2_2x1", str(cores)),
        )
    for cores, published in LINEAR_SPEED_UPS.items():
        yield Row(
            figure=f"fully connected {_LINEAR}, 8 bit: {cores} cores over one",
            unit="x",
            published=published,
            ours=Quantity(run=_linear(cores), over=_linear(1)),
            better="more",
        )
    yield Row(
        figure=f"convolution xpulpv2_4x2, 8 bit, {_CORES} cores: peak",
        unit="MAC/cycle",
        published=PEAK,
        ours=Quantity(run=_conv("xpulpv2_4x2", _CORES), field="macs_per_cycle"),
        better="more",
        quick=False,
    )
    for bits, published in CYCLES_PER_MAC.items():
        yield Row(
            figure=f"convolution xpulpv2_4x2, {bits} bit, {_CORES} cores",
            unit="cycles/MAC",
            published=published,
            ours=Quantity(run=_conv("xpulpv2_4x2", _CORES, _precision(bits)), per=_MACS),
            digits=3,
            quick=False,
        )
    for bits, published in OVER_RV32IMC.items():
        precision = _precision(bits)
        yield Row(
            figure=f"convolution xpulpv2_4x2 over rv32im_2x2, {bits} bit, one core",
            unit="x",
            published=published,
            ours=Quantity(run=_conv("xpulpv2_4x2", None, precision), over=_conv("rv32im_2x2", None, precision)),
            better="more",
            quick=False,
        )
    yield Row(
        figure=f"convolution, 8 bit: xpulpv2_4x2 on {_CORES} cores over rv32im_2x2 on one",
        unit="x",
        published=EIGHT_OVER_RV32IMC,
        ours=Quantity(run=_conv("xpulpv2_4x2", _CORES), over=_conv("rv32im_2x2", None)),
        better="more",
        digits=1,
        quick=False,
    )
    for kernel in ("maxpool", "avgpool", "relu"):
        yield Row(
            figure=f"{kernel} {kind(kernel).usual_in_cluster}, 8 bit: {_CORES} cores over one",
            unit="x",
            published=CHANNELWISE_SPEED_UP,
            ours=Quantity(run=_channelwise(kernel, _CORES), over=_channelwise(kernel, 1)),
            better="more",
        )


def _precision(bits: int) -> str:
    """The paper's narrower activations are unsigned."""
    return _SIGNED if bits == 8 else f"{bits}x{bits}x{bits}"


TABLE = Table(
    name=NAME,
    title="PULP-NN: convolution and other layers on one to eight cores",
    printed_by=PAPERS[NAME],
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
