"""The binarised vehicle classifier: instructions and cycles, bits counted by an instruction or in software."""

from collections.abc import Iterator

from xpulpnn_sim.publishing.papers.table import ClassifierRun, PaperTable, Place, Published, TableRow, printed, speed_up

_MILLION = 1e6
_CORES = 8
_CHART = "classifier: millions of cycles on one core"
_WAYS = (("window", "software"), ("dense", "software"), ("window", "hardware"), ("dense", "hardware"))
_CRUMBS = ("crumbs", "hardware")


def _run(way: tuple[str, str], cores: int = 1) -> ClassifierRun:
    return ClassifierRun(variant=way[0], popcount=way[1], cores=cores)


def _rows() -> Iterator[TableRow]:
    instructions = printed("table IV", {"software": "84.08", "hardware": "37.83"})
    cycles = {
        "software": Published("86.5", "table III, 2.62 s at 33 MHz"),
        "hardware": Published("38.9", "table III, 1.18 s at 33 MHz"),
    }
    for way in _WAYS:
        yield TableRow(
            figure=f"instructions, {way[0]}, bits counted in {way[1]}",
            unit="million",
            published=instructions[way[1]],
            run=_run(way),
            field="instructions",
            per=_MILLION,
            quick=False,
        )
    for way in (*_WAYS, _CRUMBS):
        yield TableRow(
            figure=f"cycles, {way[0]}, bits counted in {way[1]}",
            unit="million",
            published=cycles[way[1]],
            run=_run(way),
            per=_MILLION,
            quick=False,
            place=Place(_CHART, way[0], f"bits counted in {way[1]}"),
        )
    for operation, published in printed("table IV", {"xor": "3302048", "compare": "2553032"}).items():
        yield TableRow(
            figure=f"operations, window: {operation}",
            unit="",
            published=published,
            run=_run(("window", "hardware")),
            field=f"operations.{operation}",
            digits=0,
            quick=False,
        )
    figure = "instructions, window, in software over those in hardware"
    published = Published("2.22", "table IV, 55 % fewer instructions")
    hardware, software = _run(("window", "hardware")), _run(("window", "software"))
    yield speed_up(figure, published, hardware, software, field="instructions", better="", quick=False)
    for way in (("dense", "hardware"), _CRUMBS):
        figure = f"cycles, {way[0]}: {_CORES} cores over one"
        yield speed_up(figure, None, _run(way, _CORES), _run(way), quick=False)


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
