"""``xpulpnn cosim bnn``: the binarised vehicle classifier, beside the figures of its paper."""

from typing import Annotated, Any, Literal

from rich.table import Table

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG, MOST_CYCLES
from xpulpnn_sim.cli.common import finish, output, progress_bar, table, tell
from xpulpnn_sim.cli.configurations import GrantStalls, Simulated
from xpulpnn_sim.cli.options import Json, Preset, Seed, arguments, command, listed
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.bnn_run import HARDWARE, POPCOUNTS, SOFTWARE, BnnCase, run_bnn
from xpulpnn_sw.kernels.bnn.classifier import CLASSIFIER_VARIANTS

_WINDOW, _CRUMBS = "window", "crumbs"  # the variant of one core only, and the one that counts by `p.cnt` only

_PAPER = {
    SOFTWARE: (84_078_092, 86.5e6),
    HARDWARE: (37_830_833, 38.9e6),
}
"""Instructions, and cycles from its seconds at 33 MHz, of the paper, which packs one window of a channel to a word."""

_PAPER_OPERATIONS = {"xor": 3_302_048, "compare": 2_553_032}
"""Words compared, and numbers that become bits, in the paper."""

_MILLION = 1e6


_CORES = tuple(str(count) for count in range(1, MAX_CORES + 1))


@arguments
class BnnOptions(Simulated, GrantStalls, Seed, Json):
    """Options of the command, which always runs programs on whole cores."""

    preset: Preset = DEFAULT_CONFIG
    """Configuration to start from."""
    variant: Annotated[tuple[str, ...], listed(tuple(CLASSIFIER_VARIANTS))] = ()
    """Order of bits in words: a window of one channel to a word, as in the paper, 32 channels to a word, or these as
    crumbs of two bits in the second convolution (default all, with --cores all but window)."""
    popcount: Annotated[tuple[str, ...], listed(POPCOUNTS)] = ()
    """Count of bits, by hardware or software (default all, with --cores hardware)."""
    cores: Annotated[tuple[str, ...], listed(_CORES)] = ()
    """Run on clusters of so many cores; 1 and without it one core by itself."""
    check: Literal["results", "all"] = "all"
    """Comparison: the results in memory, or every instruction too."""


@command
def cosim_bnn_command(options: BnnOptions) -> int:
    """Classify an image in every way asked for; fails if a check does."""
    ways = _ways(options)
    core = options.simulated_core
    machine = Machine.of(options, max_cycles=MOST_CYCLES)
    ways = _able(ways, core, is_open=not options.variant)
    cases = [
        BnnCase(
            variant=variant,
            popcount=popcount,
            config=_machine(core, int(count)),
            machine=machine,
            checked=options.check == "all",
        )
        for variant, popcount in ways
        for count in options.cores or _CORES[:1]
    ]
    records: list[dict[str, Any]] = []
    console = output()
    with progress_bar("classifications", len(cases)) as bar:
        for case in bar.each(cases):
            result = run_bnn(case)
            records.append(result.record)
            for report in result.reports:
                name = f"{case.variant}, {case.popcount} popcount, {case.cores} cores"
                tell(f"{name}\n{report}\n")
    console.print(_table(records))
    return finish(options.json, records, good=not any(record["mismatches"] for record in records))


def _ways(options: BnnOptions) -> list[tuple[str, str]]:
    alone = not options.cores
    variants = options.variant or [name for name in CLASSIFIER_VARIANTS if alone or name != _WINDOW]
    if not alone and _WINDOW in variants:
        raise InputError(f"--variant must be without {_WINDOW} with --cores: its maps do not fit into the TCDM")
    popcounts = options.popcount or (POPCOUNTS if alone else POPCOUNTS[:1])
    ways = [(variant, popcount) for variant in variants for popcount in popcounts]
    ways = [way for way in ways if way != (_CRUMBS, SOFTWARE)]
    if not ways:
        raise InputError(f"--popcount must be {HARDWARE} with {_CRUMBS}, not {SOFTWARE}")
    return ways


def _able(ways: list[tuple[str, str]], core: CoreConfig, *, is_open: bool) -> list[tuple[str, str]]:
    """Return the ways that the core can run, which must be all unless the choice was left open."""
    able = [way for way in ways if CLASSIFIER_VARIANTS[way[0]] <= core.extensions]
    if able and (is_open or len(able) == len(ways)):
        return able
    variant = next(way[0] for way in ways if way not in able)
    missing = min(extension.value for extension in CLASSIFIER_VARIANTS[variant] - core.extensions)
    raise InputError(f"variant must be one that the configuration can run, not {variant} (needs {missing})")


def _machine(core: CoreConfig, cores: int) -> CoreConfig | ClusterConfig:
    """One core has memory of its own; several are a cluster, whose adders are those of the core."""
    return core if cores == 1 else ClusterConfig(core=core, cores=cores)


def _table(records: list[dict[str, Any]]) -> Table:
    layers = [name for name in records[0]["layers"] if name != "setup"]
    title = "millions of instructions and cycles; layers: of core 0; paper: its cycles over ours"
    alone = {_way(record): record["cycles"] for record in records if record["cores"] == 1}
    rows: list[list[str]] = []
    for popcount, (instructions, cycles) in _PAPER.items():
        blank = [""] * (len(layers) + 3)
        rows.append(["paper", popcount, "1", *_millions(instructions, _PAPER_OPERATIONS, cycles), *blank])
    for record in records:
        single, (_, paper) = alone.get(_way(record)), _PAPER[record["popcount"]]
        rows.append([*_way(record), str(record["cores"])])
        rows[-1] += _millions(record["instructions"], record["operations"], record["cycles"])
        rows[-1] += [f"{paper / record['cycles']:.2f}", "-" if single is None else f"{single / record['cycles']:.2f}"]
        rows[-1] += [*(f"{record['layers'][name] / _MILLION:.3f}" for name in layers), str(record["mismatches"])]
    headings = ("variant", "popcount", "cores", "Minsn", "Mxor", "Mcompare", "Mcycles", "paper", "speed-up")
    return table((*headings, *layers, "errors"), rows, title=title)


def _way(record: dict[str, Any]) -> tuple[str, str]:
    return record["variant"], record["popcount"]


def _millions(instructions: int, operations: dict[str, int], cycles: float) -> list[str]:
    figures = (instructions, *operations.values(), cycles)
    return [f"{figure / _MILLION:.2f}" for figure in figures]
