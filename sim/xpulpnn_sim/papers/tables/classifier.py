"""The binarised vehicle classifier: instructions and cycles, bits counted by an instruction or in software."""

from collections.abc import Iterator

from xpulpnn_sim.papers.network_runs import ClassifierRun
from xpulpnn_sim.papers.table import Place, Quantity, Row, Table
from xpulpnn_sim.papers.tables.published import (
    CLASSIFIER_GAIN,
    CLASSIFIER_MILLION_CYCLES,
    CLASSIFIER_MILLION_INSTRUCTIONS,
    PAPERS,
)

NAME = "classifier"

_MILLION = 1e6
_CORES = 8
_WORDS = {"dense": "32 channels to a word", "window": "words as in the paper"}
"""How bits lie in words."""
_CHART = "classifier: millions of cycles on one core"


def _rows() -> Iterator[Row]:
    for variant, words in _WORDS.items():
        for popcount, published in CLASSIFIER_MILLION_INSTRUCTIONS.items():
            run = ClassifierRun(popcount=popcount, cores=1, variant=variant)
            yield Row(
                figure=f"instructions, {words}, bits counted in {popcount}",
                unit="million",
                published=published,
                ours=Quantity(run=run, field="instructions", per=_MILLION),
                quick=False,
            )
        for popcount, published in CLASSIFIER_MILLION_CYCLES.items():
            run = ClassifierRun(popcount=popcount, cores=1, variant=variant)
            yield Row(
                figure=f"cycles, {words}, bits counted in {popcount}",
                unit="million",
                published=published,
                ours=Quantity(run=run, per=_MILLION),
                quick=False,
                place=Place(_CHART, "bits counted", popcount) if variant == "dense" else None,
            )
    yield Row(
        figure="cycles, crumbs of two bits in the second convolution",
        unit="million",
        published=None,
        ours=Quantity(run=ClassifierRun(popcount="hardware", cores=1, variant="crumbs"), per=_MILLION),
        quick=False,
    )
    software, hardware = (ClassifierRun(popcount=name, cores=1) for name in ("software", "hardware"))
    yield Row(
        figure="instructions in software over those in hardware",
        unit="x",
        published=CLASSIFIER_GAIN,
        ours=Quantity(run=hardware, field="instructions", over=software),
        better="",
        quick=False,
    )
    yield Row(
        figure=f"cycles, bits counted in hardware: {_CORES} cores over one",
        unit="x",
        published=None,
        ours=Quantity(run=ClassifierRun(popcount="hardware", cores=_CORES), over=hardware),
        better="more",
        quick=False,
    )


TABLE = Table(
    name=NAME,
    title="Binarised vehicle classifier",
    printed_by=PAPERS[NAME],
    rows=tuple(_rows()),
    notes=(
        (
            "96x96x3 pixels, two convolutions 5x5 of 32 channels, three linear layers; weights random, image "
            "synthetic. The paper packs a window of one channel to a word, 25 bits."
        ),
        "The paper's cycles are seconds at 33 MHz of a simulator that charges about one cycle per instruction.",
    ),
)
