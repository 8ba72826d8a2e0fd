"""``xpulpnn iss``: a program on the instruction-set simulator."""

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cli.common import Columns, finish, output, progress_bar, record_table
from xpulpnn_sim.cli.options import Count, arguments, command
from xpulpnn_sim.cli.program import (
    DEFAULT_LIMIT,
    ProgramOptions,
    address_text,
    by_function,
    dumps,
    load_program,
    replacing,
    report,
    show,
    with_named_core,
    write_dumps,
)
from xpulpnn_sim.reference.iss.cluster import DEFAULT_QUANTUM, ClusterSession
from xpulpnn_sim.reference.iss.observe import Retired
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs import trace


@arguments
class IssOptions(ProgramOptions):
    """Options of the command."""

    limit: Annotated[Count, Parameter(name=("--max-instructions", "--max-cycles"))] = DEFAULT_LIMIT
    """Give up after N instructions."""
    quantum: Annotated[
        Count | None,
        Parameter(
            help=f"With --cores: the cores take turns of N instructions (default {DEFAULT_QUANTUM}); results of "
            "programs without races do not depend on it."
        ),
    ] = None


@command
def iss_command(options: IssOptions) -> int:
    """Run the program; fails unless it reports success."""
    options = with_named_core(options)
    target = options.target
    config = target.core if isinstance(target, ClusterConfig) else target
    _require_turns(options, target)
    executable = load_program(options, target)
    pieces = dumps(options, executable, [(TCDM_BASE, target.tcdm_bytes)] if isinstance(target, ClusterConfig) else [])
    visits: dict[int, int] | None = {} if options.profile else None
    given: dict[str, Any] = {"ram": options.windows, "errors": options.bus_errors, "output": show, "visits": visits}
    begin = time.perf_counter()
    with ExitStack() as stack:
        if isinstance(target, ClusterConfig):
            quantum = DEFAULT_QUANTUM if options.quantum is None else options.quantum
            session = ClusterSession(executable, target, quantum=quantum, **given)
        else:
            observer = None if options.trace is None else stack.enter_context(_tracing(options.trace))
            session = IssSession(executable, target, hart_id=options.hart_id, observer=observer, **given)
        ended = session.run(options.limit, stack.enter_context(progress_bar("instructions", None)).reach)
    seconds = time.perf_counter() - begin
    executed = session.executed
    speed = executed / seconds
    cores = f" on {target.cores} cores" if isinstance(target, ClusterConfig) else ""
    summary = f"{executed} instructions{cores}, {speed:,.0f} per second"
    record = report(executable, ended, session.trapped, config, options.title, summary) | {
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
        output().print(record_table(_PROFILE, record["profile"], title="instructions by function"))
    write_dumps(pieces, session.memory.read_bytes)
    return finish(options.json, record, good=ended.ok)


_PROFILE: Columns = {
    "function": "{[symbol]}",
    "address": lambda row: address_text(row["address"]),
    "instructions": "{[count]}",
    "share": "{[share]:.1%}",
}


def _require_turns(options: IssOptions, target: CoreConfig | ClusterConfig) -> None:
    """Raise :class:`InputError` for an option of one core alone with a cluster, or the other way round."""
    if isinstance(target, CoreConfig):
        if options.quantum is not None:
            raise InputError(f"--quantum must come with --cores, not alone with {options.quantum}")
        return
    if options.trace is not None:
        raise InputError(f"--trace must be left out with --cores, not {options.trace}")
    if options.hart_id:
        raise InputError(f"--hart-id must be left out with --cores, which numbers the cores, not {options.hart_id}")


@contextmanager
def _tracing(path: Path) -> Generator[Callable[[Retired], None]]:
    """An observer that writes the trace, numbered by instruction."""
    blank, numbers = dict.fromkeys(trace.RECORD_FIELDS, 0), count()
    with replacing(path) as temporary, temporary.open("w") as file:
        file.write(trace.TRACE_HEADER + "\n")
        yield lambda retired: print(trace.line_of(blank | retired.fields() | {"cycle": next(numbers)}), file=file)
