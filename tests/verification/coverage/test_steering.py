"""Programs that aim at crosses: they end well, and reach what they aim at."""

from random import Random

import numpy as np
import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.verification.coverage.collector import Collector
from xpulpnn_sim.verification.coverage.covered_trials import BATCH, AimedPlan, Need, aimed, batch, need
from xpulpnn_sim.verification.coverage.crosses import REACHABLE, crosses_of
from xpulpnn_sim.verification.random.designs import run_reference
from xpulpnn_sim.verification.random.trials import Plan

pytestmark = pytest.mark.unit

CONFIG = PRESETS["xpulpnn2"]
PLAN = Plan(config=CONFIG, label="--preset xpulpnn2")
AIMS = 90
SURE = ("instruction", "operand", "overwrite", "NN-RF", "access fault", "across a loop end")
"""Families whose crosses depend on nothing but the program."""

LUCKY = ("wait", "interrupt", "loop end", "timing", "across an interrupt", "interrupt in a loop")
"""Families whose crosses depend on when memory answers and interrupts come, or on operands."""


def reachable(family):
    crosses = crosses_of(CONFIG)
    grid, start = crosses.families[family], crosses.starts[family]
    return [start + place for place in np.flatnonzero(grid.states.ravel() == REACHABLE).tolist()]


def chosen(family, needs, most):
    """Some crosses of a family that are likely on one kind of machine."""
    numbers = [number for number in reachable(family) if need(crosses_of(CONFIG), number) is needs]
    return tuple(Random(family).sample(numbers, min(most, len(numbers))))


def run(plan, seed):
    """What the program reaches on the simulator."""
    case = plan.case(seed)
    stress = case.machine
    end, records, _ = run_reference(
        CONFIG, case.program.executable(), limit=60_000, irq_rate=stress.irq_rate, seed=seed
    )
    assert end.ok, end.text
    collector = Collector(CONFIG)
    collector.add(records)
    return collector


@pytest.mark.parametrize("family", SURE)
def test_what_is_aimed_at_is_reached(family):
    crosses = crosses_of(CONFIG)
    aims = chosen(family, Need.ANY, AIMS)
    collector = run(aimed(PLAN, aims), 5)
    assert [crosses.label(number) for number in aims if not collector.counts[number]] == []


@pytest.mark.parametrize("family", LUCKY)
def test_programs_that_need_luck_end_well(family):
    for needs in Need:
        if aims := chosen(family, needs, 30):
            assert run(aimed(PLAN, aims), 6).counts.any()


def test_batches_depend_on_holes_alone():
    collectors = [Collector(CONFIG), Collector(CONFIG)]
    first, second = (batch(PLAN, collector, 32) for collector in collectors)
    assert first == second
    assert len(first) == BATCH
    aims = [aim for plan in first if isinstance(plan, AimedPlan) for aim in plan.aims]
    collectors[1].counts[aims] = 1
    after = batch(PLAN, collectors[1], 32)
    left = {aim for plan in after if isinstance(plan, AimedPlan) for aim in plan.aims}
    assert left
    assert not left & {*aims}


def test_few_holes_are_aimed_at_by_several_programs():
    collector = Collector(CONFIG)
    collector.counts[:] = 1
    hole = reachable("operand")[77]
    collector.counts[hole] = 0
    plans = [plan for plan in batch(PLAN, collector, 16) if isinstance(plan, AimedPlan)]
    assert len(plans) > 1
    assert {aim for plan in plans for aim in plan.aims} == {hole}
    collector.counts[hole] = 1
    assert not any(isinstance(plan, AimedPlan) for plan in batch(PLAN, collector, 16))


def test_a_failing_program_is_repeated_by_its_aims():
    plan = aimed(PLAN, (3, 5))
    assert plan.command(7) == "xpulpnn verify --preset xpulpnn2 --seed 7 --instructions 1 --coverage --aim 3,5"
    assert plan.case(7) == aimed(PLAN, (3, 5)).case(7)
