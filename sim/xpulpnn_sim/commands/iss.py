"""``xpulpnn iss``: a program on the instruction-set simulator."""

import argparse
import time
from collections.abc import Callable
from typing import TextIO

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim import trace
from xpulpnn_sim.commands.cluster_options import add_cores, described
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_json,
    core_title,
    output,
    progress_bar,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.program import (
    Ending,
    add_program,
    bus_errors,
    by_function,
    dumps,
    end_record,
    hart_id,
    load_program,
    profile_table,
    replacing,
    report,
    require_file,
    show,
    write_dumps,
)
from xpulpnn_sim.exits import Exit
from xpulpnn_sim.iss.cluster import DEFAULT_QUANTUM, ClusterSession
from xpulpnn_sim.iss.observe import Retired
from xpulpnn_sim.iss.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    add_program(parser, limit_options=("--max-instructions", "--max-cycles"), unit="instructions")
    add_configuration(parser)
    add_cores(parser)
    parser.add_argument(
        "--quantum",
        type=int,
        metavar="N",
        help=f"with --cores: the cores take turns of N instructions (default {DEFAULT_QUANTUM}); results of programs "
        "without races do not depend on it",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the program; fails unless it reports success."""
    target = described(arguments)
    config = target.core if isinstance(target, ClusterConfig) else target
    _require_turns(arguments, target)
    executable, ram = load_program(arguments, target)
    errors = bus_errors(arguments)
    pieces = dumps(arguments, executable, ram, target)
    require_writable(arguments.json)
    require_file(arguments.trace, "--trace")
    visits: dict[int, int] | None = {} if arguments.profile else None

    def execute(observer: Callable[[Retired], None] | None) -> tuple[Session | ClusterSession, Exit]:
        if isinstance(target, CoreConfig):
            session = Session(
                executable,
                config,
                ram=ram,
                errors=errors,
                hart_id=hart_id(arguments),
                output=show,
                observer=observer,
                visits=visits,
            )
        else:
            session = ClusterSession(
                executable,
                target,
                quantum=DEFAULT_QUANTUM if arguments.quantum is None else arguments.quantum,
                ram=ram,
                errors=errors,
                output=show,
                visits=visits,
            )
        with progress_bar("instructions", None) as (progress, task):
            return session, session.run(arguments.limit, lambda done: progress.update(task, completed=done))

    begin = time.perf_counter()
    if arguments.trace is None:
        session, ended = execute(None)
    else:
        with replacing(arguments.trace) as temporary, temporary.open("w") as file:
            session, ended = execute(_writer(file))
    seconds = time.perf_counter() - begin
    executed = session.executed
    speed = executed / seconds
    ending = Ending(executable, ended, session.trapped, config, core_title(arguments))
    cores = f" on {target.cores} cores" if isinstance(target, ClusterConfig) else ""
    report(ending, f"{executed} instructions{cores}, {speed:,.0f} per second")
    record = end_record(ending) | {
        "engine": "iss",
        "instructions": executed,
        "wall_s": round(seconds, 3),
        "instructions_per_s": round(speed, 1),
    }
    if isinstance(session, ClusterSession):
        record["cores"] = len(session.harts)
        record["instructions_of_cores"] = [iss.executed for iss in session.harts]
    if visits is not None:
        record["profile"] = by_function(executable, visits)
        output().print(profile_table(record["profile"], "instructions"))
    write_dumps(pieces, session.memory.read_bytes)
    write_json(arguments.json, record)
    return OK if ended.ok else FAILED


def _require_turns(arguments: argparse.Namespace, target: CoreConfig | ClusterConfig) -> None:
    """Raise :class:`InputError` for an option of one core alone with a cluster, or the other way round."""
    if isinstance(target, CoreConfig):
        if arguments.quantum is not None:
            raise InputError(f"--quantum must come with --cores, not alone with {arguments.quantum}")
        return
    if arguments.trace is not None:
        raise InputError(f"--trace must be left out with --cores, not {arguments.trace}")
    if arguments.hart_id != "0":
        raise InputError(f"--hart-id must be left out with --cores, which numbers the cores, not {arguments.hart_id}")


def _writer(file: TextIO) -> Callable[[Retired], None]:
    """An observer that writes the trace, numbered by instruction."""
    file.write(trace.TRACE_HEADER + "\n")
    blank = dict.fromkeys(trace.RECORD_FIELDS, 0)
    number = 0

    def write(retired: Retired) -> None:
        nonlocal number
        file.write(trace.line_of(blank | retired.fields() | {"cycle": number}) + "\n")
        number += 1

    return write
