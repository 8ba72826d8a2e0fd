"""Binarised vehicle classifier: instructions and cycles with population counts in hardware or software."""

from collections.abc import Iterator

from xpulpnn_sim.publishing.papers.runs import CosimRun, cosim_run
from xpulpnn_sim.publishing.papers.table import SPEED_UP, Bar, Metric, PaperTable, Published, TableRow, printed

_CORES = 8
_CHART = "classifier: millions of cycles on one core"
_PAPER_LAYOUTS = (("window", "software"), ("dense", "software"), ("window", "hardware"), ("dense", "hardware"))
"""Layout of bits in words, and how bits are counted, for each row of the paper."""

_CRUMBS = ("crumbs", "hardware")
_MEGAINSTRUCTIONS = Metric(unit="million", field="instructions", per=1e6)
_MEGACYCLES = Metric(unit="million", per=1e6)
_INSTRUCTIONS = printed("table IV", {"software": "84.08", "hardware": "37.83"})
_CYCLES = {
    "software": Published("86.5", "table III, 2.62 s at 33 MHz"),
    "hardware": Published("38.9", "table III, 1.18 s at 33 MHz"),
}
_OPERATIONS = printed("table IV", {"xor": "3302048", "compare": "2553032"})


def _run(variant: str, popcount: str, cores: int | None = None) -> CosimRun:
    return cosim_run("bnn", variant=variant, popcount=popcount, cores=cores)


def _rows() -> Iterator[TableRow]:
    for variant, popcount in _PAPER_LAYOUTS:
        figure, run = f"instructions, {variant}, bits counted in {popcount}", _run(variant, popcount)
        yield TableRow(figure, _MEGAINSTRUCTIONS, _INSTRUCTIONS[popcount], run, quick=False)
    for variant, popcount in (*_PAPER_LAYOUTS, _CRUMBS):
        figure, run = f"cycles, {variant}, bits counted in {popcount}", _run(variant, popcount)
        bar = Bar(_CHART, variant, f"bits counted in {popcount}")
        yield TableRow(figure, _MEGACYCLES, _CYCLES[popcount], run, quick=False, bar=bar)
    for operation, published in _OPERATIONS.items():
        metric = Metric(field=f"operations.{operation}", digits=0)
        yield TableRow(f"operations, window: {operation}", metric, published, _run("window", "hardware"), quick=False)
    yield TableRow(
        "instructions, window, in software over those in hardware",
        Metric(unit="x", field="instructions", better=""),
        Published("2.22", "table IV, 55 % fewer instructions"),
        _run("window", "hardware"),
        over=_run("window", "software"),
        quick=False,
    )
    for variant, popcount in (("dense", "hardware"), _CRUMBS):
        figure, run = f"cycles, {variant}: {_CORES} cores over one", _run(variant, popcount, _CORES)
        yield TableRow(figure, SPEED_UP, None, run, over=_run(variant, popcount), quick=False)


TABLE = PaperTable(
    name="classifier",
    title="Binarised vehicle classifier",
    printed_by="Binarized vehicle classifier on RISC-V with a popcount instruction",
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
