"""The binarised vehicle classifier: instructions and cycles, bits counted by an instruction or in software."""

from collections.abc import Iterator

from xpulpnn_sim.publishing.papers.network_runs import ClassifierRun
from xpulpnn_sim.publishing.papers.table import Place, Quantity, Row, Table
from xpulpnn_sim.publishing.papers.tables.published import (
    CLASSIFIER_GAIN,
    CLASSIFIER_MILLION_CYCLES,
    CLASSIFIER_MILLION_INSTRUCTIONS,
    CLASSIFIER_OPERATIONS,
    PAPERS,
)

NAME = "classifier"

_MILLION = 1e6
_CORES = 8
_CHART = "classifier: millions of cycles on one core"
_WAYS = (("window", "software"), ("dense", "software"), ("window", "hardware"), ("dense", "hardware"))
_CRUMBS = ("crumbs", "hardware")


def _run(way: tuple[str, str], cores: int = 1) -> ClassifierRun:
    return ClassifierRun(variant=way[0], popcount=way[1], cores=cores)


def _rows() -> Iterator[Row]:
    for way in _WAYS:
        yield Row(
            figure=f"instructions, {way[0]}, bits counted in {way[1]}",
            unit="million",
            published=CLASSIFIER_MILLION_INSTRUCTIONS[way[1]],
            ours=Quantity(run=_run(way), field="instructions", per=_MILLION),
            quick=False,
        )
    for way in (*_WAYS, _CRUMBS):
        yield Row(
            figure=f"cycles, {way[0]}, bits counted in {way[1]}",
            unit="million",
            published=CLASSIFIER_MILLION_CYCLES[way[1]],
            ours=Quantity(run=_run(way), per=_MILLION),
            quick=False,
            place=Place(_CHART, way[0], f"bits counted in {way[1]}"),
        )
    for operation, published in CLASSIFIER_OPERATIONS.items():
        yield Row(
            figure=f"operations, window: {operation}",
            unit="",
            published=published,
            ours=Quantity(run=_run(("window", "hardware")), field=f"operations.{operation}"),
            digits=0,
            quick=False,
        )
    yield Row(
        figure="instructions, window, in software over those in hardware",
        unit="x",
        published=CLASSIFIER_GAIN,
        ours=Quantity(run=_run(("window", "hardware")), field="instructions", over=_run(("window", "software"))),
        better="",
        quick=False,
    )
    for way in (("dense", "hardware"), _CRUMBS):
        yield Row(
            figure=f"cycles, {way[0]}: {_CORES} cores over one",
            unit="x",
            published=None,
            ours=Quantity(run=_run(way, _CORES), over=_run(way)),
            better="more",
            quick=False,
        )


TABLE = Table(
    name=NAME,
    title="Binarised vehicle classifier",
    printed_by=PAPERS[NAME],
    rows=tuple(_rows()),
    notes=(
        "96x96x3 pixels, two convolutions 5x5 of 32 channels, three linear layers; weights random, image synthetic.",
        (
            "window: a window of one channel to a word, as in the paper; dense: 32 channels to a word; crumbs: two "
            "bits for each in the second convolution, multiplied by narrow products."
        ),
        "The paper's cycles are seconds at 33 MHz of a simulator that charges about one cycle per instruction.",
    ),
)
