"""``xpulpnn verify unit``: the cocotb benches of the hardware units."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import InputError, require
from xpulpnn_sim.benches.runner import OTHER_SIMULATORS, SIMULATORS, available
from xpulpnn_sim.benches.units import UNITS, BenchedUnit
from xpulpnn_sim.cli.common import OK, Columns, finish, interruptible, plain, progress_bar, record_table, table, tell
from xpulpnn_sim.cli.configurations import Settings
from xpulpnn_sim.cli.options import (
    Count,
    Fresh,
    Jobs,
    Json,
    Natural,
    NewFile,
    NewFolder,
    OldFile,
    YosysChoice,
    arguments,
    command,
    listed,
)
from xpulpnn_sim.tools.files import folder_lock, require_folder
from xpulpnn_sim.verification.units.bench_tasks import BROKEN, PASSED, BenchRecord, BenchTask, chosen_units, run_tasks
from xpulpnn_sim.verification.units.other_verilog import VerilogSource
from xpulpnn_sim.verification.units.save_file import write_save_file

_ALL = "all"
_FORMATS = (".fst", ".vcd")
_SHOWN_LINES, _SHOWN_WIDTH = 12, 150  # of what was expected and what came, so that it fits on a screen


@arguments
class UnitBenchOptions(Settings, Fresh, Jobs, YosysChoice, Json):
    units: Annotated[tuple[str, ...], Parameter(metavar="NAME")] = field(default=(), kw_only=False)
    """Units such as dotp-shared, or all; without a name the units are listed."""
    preset: Annotated[
        str, Parameter(choices=(*PRESETS, *CLUSTER_PRESETS), metavar="NAME", show_choices=True, show_default=False)
    ] = ""
    """Configuration to start from (default: the unit's own)."""
    simulator: Annotated[
        tuple[str, ...], listed((*SIMULATORS, *OTHER_SIMULATORS), "Simulators that run each bench")
    ] = ("icarus",)
    seed: Natural = 1
    """Seed of the first run."""
    repeat: Count = 1
    """Runs with consecutive seeds."""
    vectors: Count | None = None
    """Vectors of each instruction, or operations, transfers, ... (default: the bench's own number)."""
    waves: NewFile | None = None
    """Waveforms of one run, FILE.fst or FILE.vcd, with a save file for GTKWave."""
    verilog: tuple[OldFile, ...] = ()
    """Run on this Verilog with the ports of the unit, not on ours; repeatable."""
    cells: tuple[OldFile, ...] = ()
    """Verilog models of the cells in --verilog; repeatable."""
    top: Annotated[str, Parameter(metavar="MODULE", show_default=False)] = ""
    """Module under test in --verilog (default: the one that no other contains)."""
    netlist: Literal["yosys"] | None = None
    """Run on a netlist of our Verilog, which Yosys makes."""
    liberty: OldFile | None = None
    """Cells of the netlist (default: gates of Yosys)."""
    output: Annotated[NewFolder, Parameter(alias="-o")] = Path("build", "benches")
    """Folder for models, results.xml and logs."""

    @property
    def source(self) -> VerilogSource:
        return VerilogSource(
            files=self.verilog,
            cells=self.cells,
            top=self.top,
            netlist=self.netlist is not None,
            liberty=self.liberty,
            yosys=self.yosys,
        )


@command("verify unit")
def verify_unit_command(options: UnitBenchOptions) -> int:
    """
    xpulpnn verify unit  # the units that have a bench
    xpulpnn verify unit dotp-shared --seed 7 --waves build/dotp.fst  # one of them, with waveforms
    xpulpnn verify unit all --simulator icarus,verilator  # every unit on both simulators
    xpulpnn verify unit mult --preset xpulpnn2 --netlist yosys  # on gates
    """
    if not options.units:
        rows = ((name, f"bench_{unit.bench}", unit.count or "-", unit.design or "-") for name, unit in UNITS.items())
        tell(table(("unit", "bench", "--vectors", "configuration"), rows))
        return OK
    named = [] if options.units == (_ALL,) else options.units
    units, left_out = chosen_units(named, options.preset, options.settings)
    _require_options(options, units)
    require_folder(options.output, "--output")
    tasks = [
        BenchTask(name, unit.design, simulator, seed, options.vectors, options.source, options.waves)
        for name, unit in units.items()
        for simulator in options.simulator
        for seed in range(options.seed, options.seed + options.repeat)
    ]
    records: list[BenchRecord] = []
    with folder_lock(options.output, "--output"):
        if options.verilog:
            # a different port ends the command before a simulator starts
            unchecked = tasks[0].tested_design(options.output).manifest["unchecked"]
            tell(*([f"not checked, as our unit has no such output: {', '.join(unchecked)}"] if unchecked else []))
        with progress_bar("benches", len(tasks)) as bar, interruptible() as stop:
            for record in bar.each(run_tasks(tasks, options.output, jobs=options.jobs, fresh=options.fresh)):
                records.append(record)
                _show_failures(record, options)
        if options.waves is not None and options.waves.exists():
            write_save_file(options.waves, tasks[0].tested_design(options.output))
    passed = sum(record.verdict == PASSED for record in records)
    tell(*(f"left out: {text}" for text in left_out), record_table(_COLUMNS, [asdict(record) for record in records]))
    tell(f"{passed} of {len(tasks)} passed; results.xml, log and data of each run in {options.output}")
    good, done = passed == len(tasks), f"{len(records)} of {len(tasks)} runs"
    return finish(options.json, [asdict(record) for record in records], good=good, stop=stop, done=done)


_COLUMNS: Columns = {
    **plain("unit", "simulator", "seed", "tests", "cycles"),
    "s": "{[seconds]}",
    **plain("verdict"),
    "configuration": lambda record: record["configuration"] or "-",
}


def _require_options(options: UnitBenchOptions, units: Mapping[str, BenchedUnit]) -> None:
    for simulator in options.simulator:
        require(available(simulator), f"--simulator must be installed, not missing as {simulator}")
    if "icarus" in options.simulator and '"' in str(options.output.absolute()):
        raise InputError(f'--output must be a folder without " in its path for icarus, not {options.output.absolute()}')
    runs = len(units) * len(options.simulator) * options.repeat
    if options.waves is not None and (options.waves.suffix not in _FORMATS or runs > 1):
        raise InputError(f"--waves must be a file {' or '.join(_FORMATS)} for one run, not {options.waves} for {runs}")
    if options.waves is not None and options.waves.suffix == ".fst" and options.simulator == ("verilator",):
        raise InputError(f"--waves must be a file .vcd with verilator, not {options.waves}")
    require(not options.verilog or len(units) <= 1, f"--verilog must be for one unit, not {len(units)}")
    require(not options.verilog or not options.netlist, "--netlist must be left out with --verilog")
    if (options.cells or options.top) and not options.verilog:
        raise InputError("--cells and --top must be left out without --verilog")
    require(not options.liberty or options.netlist, "--liberty must be left out without --netlist")
    if options.vectors is not None:
        for name in (name for name, unit in units.items() if not unit.count and len(units) == 1):
            raise InputError(f"--vectors must be left out for {name}, whose bench tries what there is")


def _show_failures(record: BenchRecord, options: UnitBenchOptions) -> None:
    for test, failure in record.failures.items():
        tell(f"{record.verdict} {record.unit} on {record.simulator}, seed {record.seed}{f': {test}' if test else ''}")
        lines = (
            line if len(line) <= _SHOWN_WIDTH else f"{line[:_SHOWN_WIDTH]} ..."
            for line in failure.splitlines()[:_SHOWN_LINES]
        )
        tell(*(f"  {line}" for line in lines))
        tell(f"  again: {_again(record, options)}", f"  log: {Path(record.results, 'bench.log')}")


def _again(record: BenchRecord, options: UnitBenchOptions) -> str:
    names = ("preset", "settings", "vectors", "verilog", "cells", "top", "netlist", "liberty")
    given = [(name.replace("settings", "set"), getattr(options, name)) for name in names if getattr(options, name)]
    more = [("waves", f"{record.unit}.vcd")] if record.verdict != BROKEN else []
    words = ["xpulpnn", "verify", "unit", record.unit]
    for name, value in [("simulator", record.simulator), ("seed", record.seed), *given, *more]:
        for each in value if isinstance(value, tuple) else (value,):
            words += [f"--{name}", str(each)]
    return shlex.join(words)
