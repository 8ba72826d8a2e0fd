"""``xpulpnn run``: run a program on the simulated design."""

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cli import programs
from xpulpnn_sim.cli.common import Columns, finish, pairs, pick, plain, progress_bar, record_table, remark, tell
from xpulpnn_sim.cli.configurations import ClusterOptions, MemoryTiming, refuse
from xpulpnn_sim.cli.hosts import HostName, host_of
from xpulpnn_sim.cli.options import Check, Count, NewFile, Seed, arguments, command, rule
from xpulpnn_sim.cli.programs import DEFAULT_LIMIT, FUNCTION, OUTSIDE, ProgramOptions, load_program, with_named_core
from xpulpnn_sim.cosimulation.model.host import Host
from xpulpnn_sim.cosimulation.model.libraries import engine_of, model_library
from xpulpnn_sim.cosimulation.model.machine import ALL_CYCLES, Machine, Waves, hart_ids
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads.debugger import debugged, serving
from xpulpnn_sim.cosimulation.workloads.program_run import MEANING, Profile, run_program
from xpulpnn_sim.reference.programs import trace
from xpulpnn_sim.reference.programs.elf import Executable, load, memory_of, require_fitting
from xpulpnn_sim.reference.programs.retirements import Records, lines, lines_of_cores
from xpulpnn_sim.tools.files import replacing, require_place, require_room, require_writable
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sw.toolchain.build_options import named_core


def core_records(result: RunResult) -> list[dict[str, Any]]:
    return [
        {
            "core": core,
            "instructions": int(account[:, WaitCause.NONE].sum()),
            "stalls": stalls_of(account, devices=True),
            "unfinished": result.cycles - int(account.sum()),
        }
        for core, account in enumerate(result.accounts)
    ]


def cores_table(rows: Sequence[dict[str, Any]]) -> TerminalTable:
    causes = {name.replace("_", " "): name for name in rows[0]["stalls"] if any(row["stalls"][name] for row in rows)}
    stalls = {cause: f"{{[stalls][{name}]}}" for cause, name in causes.items()}
    columns = {**plain("core", "instructions"), **stalls, **plain("unfinished")}
    meanings = {cause: MEANING[name] for cause, name in causes.items()}
    meanings["unfinished"] = "what the core waited for when the program ended"
    notes = [f"{cause}: {meaning}" for cause, meaning in meanings.items()]
    return record_table(columns, rows, title="cycles by core", notes=notes)


MOST_PORTS = 65_535
WAVE_SUFFIX = ".fst"
_MILLION = 1e6
_TIMING = (
    *("grant_stalls", "response_latency", "fetch_grant_stalls", "fetch_latency"),
    *("l2_latency", "irq_rate", "halt_rate"),
)


@arguments
class RunOptions(ProgramOptions, ClusterOptions, MemoryTiming, Seed):
    limit: Annotated[Count, Parameter(name="--max-cycles")] = DEFAULT_LIMIT
    """Give up after N cycles."""
    check: Check = "none"
    """Comparison: nothing, the end alone (results), or all: every instruction with the instruction-set simulator, its
    accesses on the bus, and the memory at the end."""
    lockstep: bool = False
    """Compare every instruction with the instruction-set simulator, without bus and memory."""
    waves: Annotated[NewFile | None, Parameter(metavar="FILE.fst")] = None
    """Waveforms, with a save file for GTKWave."""
    wave_window: Annotated[str | None, Parameter(metavar="FROM:TO")] = None
    """Cycles in the waveforms, numbered as by --trace (default all)."""
    jtag: Annotated[int | None, rule("0 to 65535", lambda port: 0 <= port <= MOST_PORTS, "PORT")] = None
    """Serve a debugger, OpenOCD by remote_bitbang, at a port of this machine (0: any free one); the core has debug
    mode."""
    hold: bool = False
    """Start when the debugger halts the core for the first time, before its first instruction."""
    host: HostName | None = None
    """Core of somebody else instead of ours (extra xif): CV32E40X as published, or without its issue 941; with our
    coprocessor if the program was built for it or --set changes its parameters."""


@command("run")
def run_command(options: RunOptions) -> int:
    """
    xpulpnn run prog.elf  # on the core, cycle by cycle
    xpulpnn run prog.elf --profile  # where the cycles go
    xpulpnn run prog.elf --check all --grant-stalls 0.3 --irq-rate 0.001  # every instruction checked under stress
    xpulpnn run prog.elf --waves build/prog.fst --wave-window 1000:2000  # waveforms
    xpulpnn run prog.elf --jtag 9823  # for a debugger that is started by hand
    xpulpnn run plain.elf --host cv32e40x --lockstep  # RV32IMC on CV32E40X, compared with the simulator
    xpulpnn run block.elf --host cv32e40x-mended --set memory=obi  # with our coprocessor and its own port
    """
    options, config, host = _target(options)
    executable, ram = load_program(options, config), options.windows
    given = {"ram": ram, "l2_latency": options.l2_latency or 1, "max_cycles": options.limit}
    machine = Machine.of(options, **given)
    hart_ids(config, machine)
    require_fitting(executable, config, ram)
    pieces = programs.dumps(options, executable, memory_of(config))
    window = _wave_window(options)
    if options.waves is not None:
        _require_waves(options.waves)
    with progress_bar("compiling the model", None):
        engine, traced = engine_of(config, debugged=options.jtag is not None), options.waves is not None
        library = model_library(engine, config, trace=traced) if host is None else host.library(trace=traced)
    result = _run(options, executable, config, machine, window, {"library": library, "host": host})
    if options.waves is not None and host is None:
        from xpulpnn_sim.cosimulation.model.waves import write_save_file

        write_save_file(options.waves, executable, config)
    if window[0] > result.cycles:
        remark(f"--wave-window begins behind the end of the run, {result.cycles} cycles: the waveform is empty")
    profile = Profile(executable, result.account) if options.profile else None
    summary = f"{result.cycles} cycles, {result.instructions} instructions"
    record = programs.report(executable, result.exit, result.trapped, config.core, options.title, summary)
    record |= _record(options, machine, result, profile)
    if isinstance(config, ClusterConfig):
        record |= {"engine": "cluster", "by_core": core_records(result)}
        record["conditions"] |= {**pick(config, "cores", "banks"), "icache": config.icache_private}
    _tell(result, record)
    if profile is not None:
        tell(*([cores_table(record["by_core"])] if "by_core" in record else []))
        tell(record_table(_PROFILE, record["profile"], title="cycles by function"))
    programs.write_dumps(pieces, result.read)
    return finish(options.json, record, good=result.exit.ok and not result.mismatches)


def _target(options: RunOptions) -> tuple[RunOptions, CoreConfig | ClusterConfig, Host | None]:
    """Return what the program runs on: a design of ours, or a core of somebody else; by default what it names."""
    if options.host is None:
        options = with_named_core(options)
        return options, _debugged(options, options.simulated_target), None
    host, config = host_of(options, named_core(load(options.program, ram=options.windows).cores))
    return replace(options, preset=host.name), config, host


def _run(
    options: RunOptions,
    executable: Executable,
    config: CoreConfig | ClusterConfig,
    machine: Machine,
    window: tuple[int, int],
    how: dict[str, Any],
) -> RunResult:
    how |= {"check": options.check == "all", "lockstep": options.lockstep, "account": options.profile}
    with ExitStack() as stack:
        if options.trace is not None:
            how["observer"] = stack.enter_context(_tracing(options.trace, alone=isinstance(config, CoreConfig)))
        if options.waves is not None:
            path = stack.enter_context(replacing(options.waves))
            how["waves"] = Waves(path=path, first=window[0], last=window[1])
        if options.jtag is not None:
            how["debugger"] = stack.enter_context(serving(options.jtag, holds=options.hold, tell=tell))
            tell(f"debuggers are served at port {how['debugger'].port}")
        bar = stack.enter_context(progress_bar("cycles", None))

        def reach(cycles: int) -> None:
            bar.reach(cycles)
            if options.waves is not None:
                require_room(options.waves)  # the writer of waveforms would abort

        stopped = stack.enter_context(programs.stoppable(reach))
        return run_program(executable, config, machine, output=programs.show, progress=stopped, **how)


def _debugged(options: RunOptions, config: CoreConfig | ClusterConfig) -> CoreConfig | ClusterConfig:
    if options.jtag is None:
        require(not options.hold, "--hold must come with --jtag, not alone")
        return config
    refuse(options, ("lockstep", "trace"), "must be left out with --jtag")
    require(options.check != "all", "--check all must be left out with --jtag, which changes what the program does")
    return debugged(config)


def _wave_window(options: RunOptions) -> tuple[int, int]:
    text = options.wave_window
    if text is None:
        return ALL_CYCLES
    if options.waves is None:
        raise InputError(f"--wave-window must come with --waves, not alone with {text}")
    return Waves.window(text)


def _require_waves(path: Path) -> None:
    require(path.suffix == WAVE_SUFFIX, f"--waves must be a file with the suffix {WAVE_SUFFIX}, not {path}")
    # slow import
    from xpulpnn_sim.cosimulation.model.waves import save_files

    require_room(path)
    save_file, folder = save_files(path)
    require_writable(save_file, "--waves")
    require_place(folder, "--waves")


@contextmanager
def _tracing(path: Path, *, alone: bool) -> Generator[Callable[[Sequence[Records]], None]]:
    with replacing(path) as temporary, temporary.open("w") as file:
        file.write((trace.TRACE_HEADER if alone else trace.HEADER_OF_CORES) + "\n")

        def write(blocks: Sequence[Records]) -> None:
            rows = lines(blocks[0]) if alone else lines_of_cores(blocks)
            file.writelines(f"{row}\n" for row in rows)

        yield write


def _record(options: RunOptions, machine: Machine, result: RunResult, profile: Profile | None) -> dict[str, Any]:
    checked = {"check": options.check == "all", "lockstep": options.lockstep}
    record = {
        "engine": "core",
        **pick(result, "cycles", "instructions"),
        "ipc": round(result.instructions / max(result.cycles, 1), 4),
        "stalls": None if profile is None else result.stalls,
        "interrupts": result.interrupts,
        "wall_s": round(result.wall_s, 3),
        "sim_cycles_per_s": round(result.sim_cycles_per_s, 1),
        **pick(result, "mismatches", "difference"),
        "conditions": {**asdict(machine), "preset": options.preset, "set": list(options.settings), **checked},
    }
    if profile is not None:
        record |= {"profile": profile.by_function(OUTSIDE), "listing": list(profile.by_instruction())}
    return record


def _tell(result: RunResult, record: dict[str, Any]) -> None:
    if result.difference is not None:
        tell(result.difference)
    conditions = record["conditions"]
    checked = conditions["check"] or conditions["lockstep"]
    rows = {
        **pick(result, "cycles", "instructions"),
        "instructions per cycle": f"{record['ipc']:.3f}",
        **_stall_rows(record),
        "interrupts": result.interrupts,
        "simulation": f"{result.sim_cycles_per_s / _MILLION:.2f} Mcycles/s",
        "mismatches": record["mismatches"] if checked else "not checked",
        "conditions": _conditions(conditions),
    }
    remark(pairs(rows))


def _stall_rows(record: dict[str, Any]) -> dict[str, str]:
    if record["stalls"] is None:
        return {}
    core_cycles = max(record["cycles"], 1) * max(len(record.get("by_core", ())), 1)
    return {
        f"stalls, {cause}": f"{cycles} ({cycles / core_cycles:.1%}): {MEANING[cause]}"
        for cause, cycles in record["stalls"].items()
        if cycles
    }


def _conditions(conditions: dict[str, Any]) -> str:
    plain = asdict(Machine())
    changed = [f"{name.replace('_', ' ')} {conditions[name]}" for name in _TIMING if conditions[name] != plain[name]]
    random = [f"seed {conditions['seed']}"] if changed else []
    cluster = [f"{conditions[name]} {name}" for name in ("cores", "banks") if name in conditions]
    configured = " ".join([conditions["preset"], *conditions["set"]])
    return ", ".join([configured, *cluster, *(changed or ["ideal memory"]), *random])


_PROFILE: Columns = {
    **FUNCTION,
    **plain("cycles"),
    "share": "{[share]:.1%}",
    **plain("instructions"),
    "CPI": "{[cpi]:.2f}",
    "stalls": lambda row: ", ".join(f"{cause} {count}" for cause, count in Counter(row["stalls"]).most_common()),
}
