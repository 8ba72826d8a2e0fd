"""Which programs a run has: the same on any number of processes."""

import pytest

from xpulpnn.config import preset
from xpulpnn.errors import ToolError
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.random.designs import Verdict
from xpulpnn_sim.verification.random.trials import Coverage, Plan, Result, Runner, enough, work

pytestmark = pytest.mark.unit

PLANS = [Plan(config=preset(name), label=name) for name in ("xpulpnn", "ri5cy")]
FAILING = 13


def length(seed):
    return 1000 + 700 * (seed % 7)


def run(seed, plan):
    """A result without a program."""
    reason = Reason.FAIL if seed == FAILING else Reason.PASS
    return Result(seed, plan, Verdict(reason, "", length(seed), 0), Coverage(), 0)


def crash(seed, plan):
    raise CallError("its process must end by itself, not be killed by SIGKILL")


@pytest.mark.parametrize(("jobs", "chunk"), [(1, 4), (2, 1)])
@pytest.mark.parametrize(("keep_going", "last"), [(True, 18), (False, FAILING)])
def test_programs_are_those_up_to_the_last_one_needed(jobs, chunk, keep_going, last):
    wanted = sum(map(length, range(18))) + 1
    with executor(jobs) as pool:
        runner = Runner(pool=pool, run=run, chunk=chunk)
        found = list(enough(runner.each(work(0, PLANS)), wanted, keep_going=keep_going))
    assert [result.seed for result in found] == list(range(last + 1))
    assert [result.plan.label for result in found[:4]] == ["xpulpnn", "ri5cy"] * 2


def test_programs_whose_process_is_lost_are_named():
    text = "programs 40 to 43: its process must end by itself, not be killed by SIGKILL"
    with executor(1) as pool, pytest.raises(ToolError, match=text):
        next(Runner(pool=pool, run=crash, chunk=4).each(work(40, PLANS)))
