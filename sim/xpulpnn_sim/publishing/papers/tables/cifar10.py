"""The CIFAR-10 network of the PULP-NN paper, and the same with narrower layers."""

from collections.abc import Iterator

from xpulpnn_sim.publishing.papers.network_runs import Cifar10Run
from xpulpnn_sim.publishing.papers.table import Place, Quantity, Row, Table
from xpulpnn_sim.publishing.papers.tables.published import CIFAR10_KILOCYCLES, CIFAR10_SPEED_UPS, PAPERS

NAME = "cifar10"

_KILO = 1000.0
_BASELINE, _EXTENDED = "ri5cy", "xpulpnn"
_CORES = 8


def _rows() -> Iterator[Row]:
    networks = [(_BASELINE, 8), (_EXTENDED, 8), (_EXTENDED, 4), (_EXTENDED, 2)]
    for preset, bits in networks:
        for cores, published in CIFAR10_KILOCYCLES.items():
            yield Row(
                figure=f"network on {preset}, {bits} bit, cores: {cores}",
                unit="k cycles",
                published=published if bits == 8 else None,
                ours=Quantity(run=Cifar10Run(preset=preset, bits=bits, cores=cores), per=_KILO),
                digits=0,
                quick=False,
                place=Place("CIFAR-10: thousands of cycles", f"cores: {cores}", f"{preset}, {bits} bit"),
            )
    for preset, bits in networks:
        for cores, published in CIFAR10_SPEED_UPS.items():
            if preset == _BASELINE or cores == _CORES:
                alone = Cifar10Run(preset=preset, bits=bits, cores=1)
                yield Row(
                    figure=f"network on {preset}, {bits} bit: {cores} cores over one",
                    unit="x",
                    published=published if bits == 8 else None,
                    ours=Quantity(run=Cifar10Run(preset=preset, bits=bits, cores=cores), over=alone),
                    better="more",
                    quick=False,
                )


TABLE = Table(
    name=NAME,
    title="CIFAR-10 network",
    printed_by=PAPERS["pulp-nn"],
    rows=tuple(_rows()),
    notes=(
        (
            "Three convolutions 5x5 with ReLU and pooling, a linear layer; 6.56 million MAC, weights random. The first "
            "layer has 8 bits whatever the others have."
        ),
        "Several cores get their operands by DMA, as the paper's do; one core by itself has memory of its own.",
    ),
)
