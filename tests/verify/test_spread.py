"""Which programs a campaign has: the same on any number of processes, in whatever order they end."""

import random

import pytest

from xpulpnn.config import preset
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.verify.campaign import Plan, Result, Verdict
from xpulpnn_sim.verify.coverage import Coverage
from xpulpnn_sim.verify.spread import results, work

pytestmark = pytest.mark.unit

PLANS = [Plan(config=preset(name), label=name) for name in ("xpulpnn", "ri5cy")]
FAILING = 13


def length(seed):
    return 1000 + 700 * (seed % 7)


class Shuffled:
    """Runs chunks that end in any order."""

    def __init__(self, width, chunk, seed):
        self.width, self.chunk = width, chunk
        self.random = random.Random(seed)
        self.running = []
        self.submitted = 0

    def submit(self, number, chunk):
        assert len(self.running) < self.width
        self.submitted += len(chunk)
        self.running.append((number, chunk))

    def next(self):
        number, chunk = self.running.pop(self.random.randrange(len(self.running)))
        return number, [
            Result(
                seed,
                plan,
                Verdict(Reason.FAIL if seed == FAILING else Reason.PASS, "", length(seed), 0),
                Coverage(),
                0.0,
            )
            for seed, plan in chunk
        ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("width", "chunk"), [(1, 1), (4, 1), (3, 4), (16, 4)])
@pytest.mark.parametrize(("keep_going", "last"), [(True, 18), (False, FAILING)])
def test_programs_are_those_up_to_the_last_one_needed(width, chunk, seed, keep_going, last):
    executor = Shuffled(width, chunk, seed)
    wanted = sum(map(length, range(18))) + 1
    found = list(results(executor, work(0, PLANS), wanted, keep_going=keep_going))
    assert [result.seed for result in found] == list(range(last + 1))
    assert [result.plan.label for result in found[:4]] == ["xpulpnn", "ri5cy"] * 2
    # little runs in vain
    assert executor.submitted <= 19 + (width + 1) * chunk


def test_a_campaign_starts_where_it_is_told():
    found = list(results(Shuffled(2, 1, 0), work(40, PLANS), 1, keep_going=False))
    assert [result.seed for result in found] == [40]
