"""``xpulpnn cosim ulppack``: products of packed operands, bit-serial ones and ordinary ones side by side."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG, MOST_CYCLES
from xpulpnn_sim.api.packed_sweeps import SWEEPS, USUAL_MATMUL, USUAL_PAIRS, Wanted, sweep_points
from xpulpnn_sim.cli.common import FAILED, OK, Columns, output, progress_bar, record_table, table, tell, write_json
from xpulpnn_sim.cli.configurations import GrantStalls, Simulated
from xpulpnn_sim.cli.options import Count, Jobs, Json, Preset, Report, Seed, arguments, command, listed
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.packed_products import run_sweep_points
from xpulpnn_sim.exploration.report.packed_plots import bytes_cycles, grids, write_packed_plots
from xpulpnn_sw.kernels.ulppack.packing import ISAS
from xpulpnn_sw.layers.convolution import MatmulLayer

_WIDTHS = tuple(str(bits) for bits in range(1, 9))
_PAIRS = " ".join(f"W{w}A{a}" for w, a in USUAL_PAIRS)
_WEIGHTS = Parameter(help=f"Bits of the weights, 1 to 8 (default, with all: {_PAIRS}).")


@arguments
class UlppackOptions(Simulated, GrantStalls, Seed, Jobs, Report, Json):
    """Options of the command, which always runs programs on the whole core."""

    preset: Preset = DEFAULT_CONFIG
    """Configuration to start from."""
    weights: Annotated[tuple[str, ...], listed(_WIDTHS), _WEIGHTS] = ()
    activations: Annotated[tuple[str, ...], listed(_WIDTHS)] = ()
    """Bits of the activations, combined with all --weights."""
    matmul: Annotated[str, Parameter(metavar="MxKxP")] = USUAL_MATMUL
    """Channels, reduction length, pixels."""
    isa: Annotated[tuple[str, ...], listed(ISAS, "Instruction sets")] = ISAS
    scheme: str | None = None
    """P1, P2, or with the register's bits, such as P2-16."""
    depth: Count | None = None
    """Operands packed into one (default the best)."""
    iterations: Annotated[Count | None, Parameter(name="--iter")] = None
    """Products added up before the result is taken out (default the most)."""
    block: Annotated[str | None, Parameter(metavar="MxP")] = None
    """Channels x pixels computed together (default the best)."""
    signed: bool = False
    """Signed weights, stored with an offset."""
    sweep: Annotated[tuple[str, ...], listed(tuple(SWEEPS), "Instead of the table, or with it")] = ("table",)
    check: Literal["results", "all"] = "all"
    """Comparison: the results in memory, or every instruction too."""

    @property
    def wanted(self) -> Wanted:
        """The products asked for."""
        if bool(self.weights) != bool(self.activations):
            raise InputError("--weights must be given together with --activations, not by itself")
        return Wanted(
            layer=MatmulLayer.parse(self.matmul),
            pairs=[(int(w), int(a)) for w in self.weights for a in self.activations],
            isas=self.isa,
            scheme=self.scheme,
            depth=self.depth,
            iterations=self.iterations,
            block=self.block,
            signed=self.signed,
        )


@command
def cosim_ulppack_command(options: UlppackOptions) -> int:
    """Run the table or the sweeps; fails if a check does."""
    wanted, names, plot = options.wanted, options.sweep, options.report
    everything = sweep_points(names, wanted)
    machine = Machine.of(options, max_cycles=MOST_CYCLES)
    config = options.simulated_core
    points = [point for point in everything if point.runs_on(config)]
    if not points:
        raise InputError("--isa must be one that the configuration can run, not " + ",".join(wanted.isas))
    records: list[dict[str, Any]] = []
    console = output()
    with progress_bar("products", len(points)) as bar:
        for result in bar.each(
            run_sweep_points(points, config, machine, check=options.check == "all", jobs=options.jobs)
        ):
            records.append(result.record)
            for report in result.reports:
                title = "W{weights}A{activations} {isa} {product} {scheme} {depth}".format(**result.record)
                tell(f"{title}\n{report}\n")
    if "table" in names:
        console.print(_table([record for record in records if record["sweep"] == "table"]))
    for grid in grids(records):
        tell(f"\n{grid.title}")
        rows = ((name, *(grid.texts.get((name, heading), "-") for heading in grid.columns)) for name in grid.rows)
        console.print(table((grid.corner, *grid.columns), rows))
    write_json(options.json, records)
    if plot is not None:
        write_packed_plots(plot, records)
    wrong = sum(bool(record["mismatches"]) for record in records)
    missing = len(everything) - len(points)
    left_out = f"; {missing} left out, for which the configuration lacks instructions" if missing else ""
    tell(f"{len(records)} products, {wrong} wrong{left_out}")
    return FAILED if wrong else OK


def _table(records: list[dict[str, Any]]) -> Table:
    base = bytes_cycles(records)

    def faster(record: dict[str, Any]) -> str:
        alone = base.get((record["isa"], record["matmul"]))
        return "-" if alone is None or record["kind"] == "bytes" else f"{alone / record['cycles']:.2f}x"

    columns: Columns = {
        "bits": "W{0[weights]}A{0[activations]}",
        "isa": "{[isa]}",
        "product": "{[product]}",
        "packing": lambda record: record["scheme"] or record["kind"],
        "depth": "{[depth]}",
        "iter": lambda record: record["iterations"] if record["kind"] == "ulppack" else "-",
        "block": "{[block]}",
        "cycles": "{[cycles]}",
        "cyc/MAC": "{[cycles_per_mac]:.4f}",
        "packed too": "{[cycles_per_mac_with_packing]:.4f}",
        "faster": faster,
        "errors": "{[mismatches]}",
    }
    title = (
        "cycles per MAC without and with the packing of the activations; faster: than bytes of the same instruction "
        "set, without"
    )
    return record_table(columns, records, title=title)
